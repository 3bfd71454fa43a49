//! A member of a consumer group: joins, says that it lives, commits where it is, and leaves.
//!
//! The eager protocol: before it joins again a member gives up all its partitions, after a last
//! commit. While the coordinator is away it goes on reading.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::watch;
use tokio::time::Instant;

use super::connect_pacer::Backoff;
use super::connection::BrokerConnection;
use super::state::LeanState;
use super::{LeanError, LeanGroups, LeanSink, start_fetchers};
use crate::wire::group::membership::{self, GroupTimeouts, JoinResponse};
use crate::wire::group::{self as wire, MemberIdentity, offsets, subscription};
use crate::wire::{EncodeError, WireError};

/// Who is a member, and whether they are to leave.
#[derive(Debug)]
pub(super) struct GroupMembers {
    leaving: watch::Sender<bool>,
    present: Cell<usize>,
    changed: watch::Sender<()>,
}

impl Default for GroupMembers {
    fn default() -> Self {
        Self {
            leaving: watch::Sender::new(false),
            present: Cell::new(0),
            changed: watch::Sender::new(()),
        }
    }
}

/// Starts the consumer's membership.
pub(super) fn start<S: LeanSink + 'static>(
    shared: &Rc<LeanState<S>>,
    groups: &LeanGroups,
    consumer: usize,
) {
    let members = &shared.members;
    members.present.set(members.present.get() + 1);
    let member = GroupMember {
        shared: Rc::clone(shared),
        leaving: members.leaving.subscribe(),
        groups: groups.clone(),
        group: groups.group_of(consumer),
        consumer,
        id: String::new(),
        generation: None,
        committed: Vec::new(),
        attempt: 0,
    };
    tokio::task::spawn_local(member.run());
}

/// Lets all members commit and leave; waits for them, but not for ever.
pub(super) async fn leave_all<S: LeanSink>(shared: &LeanState<S>) {
    let mut changed = shared.members.changed.subscribe();
    shared.members.leaving.send_replace(true);
    let all =
        async { while shared.members.present.get() > 0 && changed.changed().await.is_ok() {} };
    if tokio::time::timeout(LEAVE_TIMEOUT, all).await.is_err() {
        let present = shared.members.present.get();
        tracing::debug!(present, "members did not leave in time");
    }
}

struct GroupMember<S> {
    shared: Rc<LeanState<S>>,
    leaving: watch::Receiver<bool>,
    groups: LeanGroups,
    group: String,
    consumer: usize,
    /// Given by the coordinator; empty before.
    id: String,
    /// The generation joined, if it may still be valid.
    generation: Option<i32>,
    /// What was committed last.
    committed: Vec<(i32, i64)>,
    /// Attempts since the last that worked; each begins at another broker.
    attempt: usize,
}

/// How a stay in a generation ended.
enum GenerationEnd {
    /// Everybody is to join again.
    Rebalance,
    /// The coordinator no longer knows this member or its generation.
    Expelled,
    /// The run is over.
    Leaving,
}

impl<S: LeanSink + 'static> GroupMember<S> {
    async fn run(mut self) {
        let mut backoff = Backoff::new(self.consumer);
        while !*self.leaving.borrow() {
            match self.serve(&mut backoff).await {
                Ok(()) => break,
                // A cluster that is new or has just lost a broker finds its coordinators soon.
                Err(error) if is_passing(&error) && self.attempt < ATTEMPTS_QUIET => {
                    tracing::debug!(%error, consumer = self.consumer, "coordinator not ready");
                }
                Err(error) => self.shared.on_error(self.consumer, &error),
            }
            self.attempt = self.attempt.wrapping_add(1);
            let mut leaving = self.leaving.clone();
            tokio::select! {
                () = backoff.wait() => {}
                // The sender lives as long as this task.
                _ = leaving.wait_for(|leaving| *leaving) => {}
            }
        }
        let members = &self.shared.members;
        members.present.set(members.present.get() - 1);
        members.changed.send_replace(());
    }

    /// One connection to the coordinator, until it fails or the run is over.
    async fn serve(&mut self, backoff: &mut Backoff) -> Result<(), LeanError> {
        let mut link = self.coordinator().await?;
        let outcome = self.run_membership(&mut link, backoff).await;
        if matches!(outcome, Err(LeanError::Connection { .. })) {
            self.shared.count(|report| report.disconnects += 1);
        }
        outcome
    }

    async fn run_membership(
        &mut self,
        link: &mut BrokerConnection,
        backoff: &mut Backoff,
    ) -> Result<(), LeanError> {
        loop {
            if self.generation.is_none() && !self.join(link).await? {
                continue;
            }
            backoff.reset();
            self.attempt = 0;
            match self.stay(link).await? {
                GenerationEnd::Rebalance => {
                    // Nothing comes between the last position and its commit.
                    let last = self.shared.revoke(self.consumer);
                    let committed = self.commit(link, last).await;
                    self.generation = None;
                    committed?;
                }
                GenerationEnd::Expelled => {
                    self.shared.revoke(self.consumer);
                    self.id.clear();
                    self.generation = None;
                }
                GenerationEnd::Leaving => {
                    let last = self.shared.revoke(self.consumer);
                    self.commit(link, last).await?;
                    return self.leave(link).await;
                }
            }
        }
    }

    /// Asks some broker for the coordinator and connects to it, which may be the same.
    async fn coordinator(&self) -> Result<BrokerConnection, LeanError> {
        let Some(address) = self
            .shared
            .cluster
            .some_address(self.consumer.wrapping_add(self.attempt))
        else {
            return Err(self.failed("find coordinator", wire::COORDINATOR_NOT_AVAILABLE));
        };
        let mut link = match self.open(address).await {
            Ok(link) => link,
            Err(error) => {
                // Its address may be an old one.
                let seen = self.shared.cluster.attempts();
                self.shared.cluster.refresh(seen).await;
                return Err(error);
            }
        };
        let caller = self.caller();
        let found = self
            .ask(
                &mut link,
                Duration::ZERO,
                |out, id| wire::write_find_coordinator(out, id, caller),
                wire::read_find_coordinator,
            )
            .await?;
        if found.error != 0 {
            return Err(self.failed("find coordinator", found.error));
        }
        let host = (found.host.as_str(), found.port);
        let addresses = tokio::net::lookup_host(host).await;
        let addresses: Vec<_> = addresses.map_err(|e| unresolved(host, &e))?.collect();
        if addresses.contains(&link.address()) {
            return Ok(link);
        }
        let first = addresses.first();
        let first = first.ok_or_else(|| unresolved(host, &"the name has no address"))?;
        self.open(*first).await
    }

    async fn open(&self, address: SocketAddr) -> Result<BrokerConnection, LeanError> {
        BrokerConnection::open(&self.shared, self.consumer, address, ANSWER_BYTES_MAX).await
    }

    /// Joins and takes its share; false if it has to be tried again at once.
    async fn join(&mut self, link: &mut BrokerConnection) -> Result<bool, LeanError> {
        let topic = self.shared.config.topic.clone();
        let caller = self.caller();
        let patience = GroupTimeouts {
            session_ms: millis(self.groups.session_timeout),
            rebalance_ms: millis(REBALANCE_TIMEOUT),
        };
        let wanted = subscription::write_subscription(&topic);
        let joined = self
            .ask(
                link,
                REBALANCE_TIMEOUT,
                |out, id| {
                    let assignor = subscription::RANGE;
                    membership::write_join(out, id, caller, patience, assignor, wanted)
                },
                membership::read_join,
            )
            .await?;
        match joined.error {
            0 => {}
            wire::MEMBER_ID_REQUIRED => {
                self.id = joined.member;
                return Ok(false);
            }
            wire::UNKNOWN_MEMBER if !self.id.is_empty() => {
                self.id.clear();
                return Ok(false);
            }
            code => return Err(self.failed("join", code)),
        }
        self.id.clone_from(&joined.member);
        let shares = self.divide(&joined)?;
        let caller = MemberIdentity {
            generation: joined.generation,
            ..self.caller()
        };
        let (code, share) = self
            .ask(
                link,
                REBALANCE_TIMEOUT,
                |out, id| membership::write_sync(out, id, caller, shares),
                membership::read_sync,
            )
            .await?;
        match code {
            0 => {}
            wire::REBALANCE_IN_PROGRESS => return Ok(false),
            wire::UNKNOWN_MEMBER | wire::ILLEGAL_GENERATION => {
                self.id.clear();
                return Ok(false);
            }
            code => return Err(self.failed("sync", code)),
        }
        let partitions = subscription::read_assignment(&share, &topic)?;
        let share = self.committed(link, &partitions).await?;
        self.generation = Some(joined.generation);
        self.committed = known(&share);
        self.shared.assign(self.consumer, &share);
        self.shared.count(|report| report.assignments += 1);
        start_fetchers(&self.shared, self.consumer);
        Ok(true)
    }

    /// As the leader: every member's share. Members with other topics only get none.
    fn divide(&self, joined: &JoinResponse) -> Result<Vec<(String, Vec<u8>)>, LeanError> {
        if !joined.is_leader() {
            return Ok(Vec::new());
        }
        let topic = &self.shared.config.topic;
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        for (member, wanted) in &joined.members {
            let list = if subscription::subscribes(wanted, topic)? {
                &mut ours
            } else {
                &mut others
            };
            list.push(member.clone());
        }
        let shares = subscription::divide(self.shared.partitions.get(), ours);
        let none = others.into_iter().map(|member| (member, Vec::new()));
        let written = |(member, partitions): (String, Vec<i32>)| {
            (member, subscription::write_assignment(topic, &partitions))
        };
        Ok(shares.into_iter().chain(none).map(written).collect())
    }

    /// What the group has committed for these partitions.
    async fn committed(
        &self,
        link: &mut BrokerConnection,
        partitions: &[i32],
    ) -> Result<Vec<(i32, Option<i64>)>, LeanError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let topic = &self.shared.config.topic;
        let caller = self.caller();
        let found = self
            .ask(
                link,
                Duration::ZERO,
                |out, id| offsets::write_fetch(out, id, caller, topic, partitions),
                offsets::read_fetch,
            )
            .await?;
        if found.error != 0 {
            return Err(self.failed("fetch committed offsets", found.error));
        }
        Ok(found.positions)
    }

    /// Heartbeats and commits until the generation ends.
    async fn stay(&mut self, link: &mut BrokerConnection) -> Result<GenerationEnd, LeanError> {
        // At once, for a member that comes back after its coordinator was away.
        let mut heartbeat = Instant::now();
        let mut commit = Instant::now() + self.groups.commit_every;
        loop {
            let mut leaving = self.leaving.clone();
            tokio::select! {
                biased;
                _ = leaving.wait_for(|leaving| *leaving) => return Ok(GenerationEnd::Leaving),
                () = tokio::time::sleep_until(heartbeat.min(commit)) => {}
            }
            let now = Instant::now();
            if now >= heartbeat {
                heartbeat = now + self.groups.heartbeat_every;
                match self.heartbeat(link).await? {
                    0 => {}
                    wire::REBALANCE_IN_PROGRESS => return Ok(GenerationEnd::Rebalance),
                    wire::UNKNOWN_MEMBER | wire::ILLEGAL_GENERATION => {
                        return Ok(GenerationEnd::Expelled);
                    }
                    code => return Err(self.failed("heartbeat", code)),
                }
            }
            if now >= commit {
                commit = now + self.groups.commit_every;
                let positions = self.shared.positions(self.consumer);
                self.commit(link, positions).await?;
            }
        }
    }

    async fn heartbeat(&self, link: &mut BrokerConnection) -> Result<i16, LeanError> {
        let caller = self.caller();
        self.ask(
            link,
            Duration::ZERO,
            |out, id| membership::write_heartbeat(out, id, caller),
            membership::read_code,
        )
        .await
    }

    /// Commits what has changed since the last commit. That the generation is over is left to the
    /// next heartbeat.
    async fn commit(
        &mut self,
        link: &mut BrokerConnection,
        positions: Vec<(i32, i64)>,
    ) -> Result<(), LeanError> {
        if positions.is_empty() || positions == self.committed {
            return Ok(());
        }
        let topic = &self.shared.config.topic;
        let caller = self.caller();
        let codes = self
            .ask(
                link,
                Duration::ZERO,
                |out, id| offsets::write_commit(out, id, caller, topic, &positions),
                offsets::read_commit,
            )
            .await?;
        match codes.iter().map(|(_, code)| *code).find(|code| *code != 0) {
            None => {
                self.committed = positions;
                self.shared.count(|report| report.commits += 1);
                Ok(())
            }
            Some(
                code @ (wire::REBALANCE_IN_PROGRESS
                | wire::UNKNOWN_MEMBER
                | wire::ILLEGAL_GENERATION),
            ) => {
                tracing::debug!(code, group = self.group, "commit refused");
                Ok(())
            }
            Some(code) => Err(self.failed("commit", code)),
        }
    }

    async fn leave(&self, link: &mut BrokerConnection) -> Result<(), LeanError> {
        let caller = self.caller();
        let code = self
            .ask(
                link,
                Duration::ZERO,
                |out, id| membership::write_leave(out, id, caller),
                membership::read_code,
            )
            .await?;
        match code {
            0 | wire::UNKNOWN_MEMBER => Ok(()),
            code => Err(self.failed("leave", code)),
        }
    }

    async fn ask<T>(
        &self,
        link: &mut BrokerConnection,
        held: Duration,
        write: impl FnOnce(&mut BytesMut, i32) -> Result<(), EncodeError>,
        read: impl Fn(&[u8]) -> Result<T, WireError>,
    ) -> Result<T, LeanError> {
        let mut answer = None;
        let keep = |body: &[u8]| {
            answer = Some(read(body)?);
            Ok(())
        };
        link.exchange(&self.shared, held, write, keep).await?;
        // Invariant: an exchange that succeeds has read an answer.
        answer.ok_or_else(|| self.failed("read answer", -1))
    }

    fn caller(&self) -> MemberIdentity<'_> {
        MemberIdentity {
            client_id: &self.shared.config.client_id,
            group: &self.group,
            member: &self.id,
            generation: self.generation.unwrap_or(-1),
        }
    }

    fn failed(&self, what: &str, code: i16) -> LeanError {
        LeanError::Kafka {
            what: format!("{what}, group \"{}\"", self.group),
            code,
        }
    }
}

fn is_passing(error: &LeanError) -> bool {
    let passing = [
        wire::COORDINATOR_LOADING,
        wire::COORDINATOR_NOT_AVAILABLE,
        wire::NOT_COORDINATOR,
    ];
    matches!(error, LeanError::Kafka { code, .. } if passing.contains(code))
}

fn known(share: &[(i32, Option<i64>)]) -> Vec<(i32, i64)> {
    let known = share
        .iter()
        .filter_map(|(partition, at)| Some((*partition, (*at)?)));
    known.collect()
}

fn unresolved(host: (&str, u16), reason: &dyn ToString) -> LeanError {
    LeanError::Connection {
        address: format!("{}:{}", host.0, host.1),
        reason: reason.to_string(),
    }
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}

/// How long a rebalance may wait for a member.
const REBALANCE_TIMEOUT: Duration = Duration::from_secs(60);
/// All members leave at once, so this is for those whose coordinator is away.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Some 30 seconds of a coordinator that is not ready; beyond that it is an error to tell.
const ATTEMPTS_QUIET: usize = 20;
/// Lists the members of a group; ours are small.
const ANSWER_BYTES_MAX: usize = 4 << 20;
