//! A consumer group member: joins, sends heartbeats, commits its positions, and leaves.
//!
//! It uses the eager protocol: before joining again, a member commits a last time and gives up all
//! its partitions. While the coordinator is unavailable, the member continues to read.

use std::rc::Rc;
use std::time::Duration;

use bytes::BytesMut;
use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Request;
use tokio::sync::watch;
use tokio::time::Instant;

use super::config::LeanGroups;
use super::connect_pacer::Backoff;
use super::connection::BrokerConnection;
use super::error::LeanError;
use super::fetcher;
use super::link::BrokerAddress;
use super::sink::LeanSink;
use super::state::LeanState;
use weir_wire::WireError;
use weir_wire::group::membership::{self, JoinResponse};
use weir_wire::group::{self as wire, MemberIdentity, VersionedRequest, offsets, subscription};
use weir_wire::header::write_request;

pub(super) fn start<S: LeanSink + 'static>(
    shared: &Rc<LeanState<S>>,
    groups: &LeanGroups,
    consumer: usize,
) {
    let members = &shared.members;
    members.present.send_modify(|present| *present += 1);
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

/// Makes all members commit and leave. Waits for them up to `LEAVE_TIMEOUT`.
pub(super) async fn leave_all<S: LeanSink>(shared: &LeanState<S>) {
    let mut present = shared.members.present.subscribe();
    shared.members.leaving.send_replace(true);
    let all = present.wait_for(|present| *present == 0);
    if tokio::time::timeout(LEAVE_TIMEOUT, all).await.is_err() {
        let present = *shared.members.present.borrow();
        tracing::debug!(present, "group members did not leave before the timeout");
    }
}

struct GroupMember<S> {
    shared: Rc<LeanState<S>>,
    leaving: watch::Receiver<bool>,
    groups: LeanGroups,
    group: String,
    consumer: usize,
    /// Assigned by the coordinator; empty before.
    id: String,
    /// Generation joined, while it may still be valid.
    generation: Option<i32>,
    /// Positions of the last commit.
    committed: Vec<(i32, i64)>,
    /// Attempts since the last success; each starts at another broker.
    attempt: usize,
}

/// Reason why a generation ended for this member.
enum GenerationEnd {
    /// The group rebalances: all members join again.
    Rebalance,
    /// The coordinator does not know this member or its generation any more.
    Expelled,
    /// The run ends.
    Leaving,
}

impl<S: LeanSink + 'static> GroupMember<S> {
    async fn run(mut self) {
        let mut backoff = Backoff::new(self.consumer);
        while !*self.leaving.borrow() {
            let Err(error) = self.serve(&mut backoff).await else {
                break;
            };
            // A new cluster, or one that just lost a broker, needs some time to elect coordinators.
            match is_transient(&error) && self.attempt < ATTEMPTS_QUIET {
                true => {
                    tracing::debug!(%error, consumer = self.consumer, "coordinator not ready");
                }
                false => self.shared.on_error(self.consumer, &error),
            }
            self.attempt = self.attempt.wrapping_add(1);
            let mut leaving = self.leaving.clone();
            tokio::select! {
                () = backoff.wait(&error) => {}
                // The sender lives as long as this task.
                _ = leaving.wait_for(|leaving| *leaving) => {}
            }
        }
        let members = &self.shared.members;
        members.present.send_modify(|present| *present -= 1);
    }

    /// Serves one connection to the coordinator until it fails or the run ends.
    async fn serve(&mut self, backoff: &mut Backoff) -> Result<(), LeanError> {
        let mut connection = self.coordinator().await?;
        let outcome = self.run_membership(&mut connection, backoff).await;
        if matches!(outcome, Err(LeanError::Connection { .. })) {
            self.shared.count(|report| report.disconnects += 1);
        }
        outcome
    }

    async fn run_membership(
        &mut self,
        connection: &mut BrokerConnection,
        backoff: &mut Backoff,
    ) -> Result<(), LeanError> {
        loop {
            if self.generation.is_none() && !self.join(connection).await? {
                continue;
            }
            backoff.reset();
            self.attempt = 0;
            match self.run_generation(connection).await? {
                GenerationEnd::Rebalance => {
                    // No record is delivered between reading the last positions and committing
                    // them.
                    let last = self.shared.revoke(self.consumer);
                    let committed = self.commit(connection, last).await;
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
                    self.commit(connection, last).await?;
                    return self.leave(connection).await;
                }
            }
        }
    }

    /// Asks a broker for the coordinator and connects to it, or reuses the connection if that
    /// broker is the coordinator.
    async fn coordinator(&self) -> Result<BrokerConnection, LeanError> {
        let start = self.consumer.wrapping_add(self.attempt);
        let Some(address) = self.shared.cluster.some_address(start) else {
            return Err(self.failed("find coordinator", wire::COORDINATOR_NOT_AVAILABLE));
        };
        let mut connection = match self.open(&address).await {
            Ok(connection) => connection,
            Err(error) => {
                // The address may be outdated.
                let seen = self.shared.cluster.attempts();
                self.shared.cluster.refresh(seen).await;
                return Err(error);
            }
        };
        let (call, read) = (
            wire::find_coordinator(&self.group),
            wire::read_find_coordinator,
        );
        let found = self.request(&mut connection, call, read).await?;
        if found.error != 0 {
            return Err(self.failed("find coordinator", found.error));
        }
        let host = (found.host.as_str(), found.port);
        let addresses = tokio::net::lookup_host(host).await;
        let addresses: Vec<_> = addresses.map_err(|e| unresolved(host, &e))?.collect();
        if addresses.contains(&connection.address().socket) {
            return Ok(connection);
        }
        let first = addresses.first();
        let first = first.ok_or_else(|| unresolved(host, &"host name has no address"))?;
        let coordinator = BrokerAddress {
            host: host.0.into(),
            socket: *first,
        };
        self.open(&coordinator).await
    }

    async fn open(&self, address: &BrokerAddress) -> Result<BrokerConnection, LeanError> {
        BrokerConnection::open(&self.shared, self.consumer, address, RESPONSE_BYTES_MAX).await
    }

    /// Joins the group and applies the assignment. Returns `false` if joining must be repeated at
    /// once.
    async fn join(&mut self, connection: &mut BrokerConnection) -> Result<bool, LeanError> {
        let topic = self.shared.config.topic.clone();
        let timeout = millis(self.groups.session_timeout);
        let (rebalance, read) = (millis(REBALANCE_TIMEOUT), membership::read_join);
        let call = membership::join(self.identity(), timeout, rebalance, &topic);
        let joined = self.request(connection, call, read).await?;
        match joined.error {
            0 => {}
            wire::MEMBER_ID_REQUIRED => {
                self.id = joined.member_id;
                return Ok(false);
            }
            wire::UNKNOWN_MEMBER if !self.id.is_empty() => {
                self.id.clear();
                return Ok(false);
            }
            code => return Err(self.failed("join", code)),
        }
        self.id.clone_from(&joined.member_id);
        let assignments = self.assign_partitions(&joined)?;
        let identity = MemberIdentity {
            generation: joined.generation,
            ..self.identity()
        };
        let (call, read) = (
            membership::sync(identity, assignments),
            membership::read_sync,
        );
        let (code, share) = self.request(connection, call, read).await?;
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
        let share = self.committed(connection, &partitions).await?;
        self.generation = Some(joined.generation);
        self.committed = known(&share);
        self.shared.assign(self.consumer, &share);
        self.shared.count(|report| report.assignments += 1);
        fetcher::start_all(&self.shared, self.consumer);
        Ok(true)
    }

    /// Returns every member's assignment if this member is the leader, else an empty list. Members
    /// that did not subscribe to the topic get no partitions.
    fn assign_partitions(
        &self,
        joined: &JoinResponse,
    ) -> Result<Vec<(String, Vec<u8>)>, LeanError> {
        if joined.member_id != joined.leader_id {
            return Ok(Vec::new());
        }
        let topic = &self.shared.config.topic;
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        for (member, wanted) in &joined.members {
            let subscribes = subscription::subscribes(wanted, topic)?;
            let list = if subscribes { &mut ours } else { &mut others };
            list.push(member.clone());
        }
        let assignments = subscription::range_assign(self.shared.partitions.get(), ours);
        let none = others.into_iter().map(|member| (member, Vec::new()));
        let written = |(member, partitions): (String, Vec<i32>)| {
            (member, subscription::write_assignment(topic, &partitions))
        };
        Ok(assignments.into_iter().chain(none).map(written).collect())
    }

    async fn committed(
        &self,
        connection: &mut BrokerConnection,
        partitions: &[i32],
    ) -> Result<Vec<(i32, Option<i64>)>, LeanError> {
        if partitions.is_empty() {
            return Ok(Vec::new());
        }
        let call = offsets::fetch(self.identity(), &self.shared.config.topic, partitions);
        let found = self.request(connection, call, offsets::read_fetch).await?;
        if found.error != 0 {
            return Err(self.failed("fetch committed offsets", found.error));
        }
        Ok(found.positions)
    }

    /// Sends heartbeats and commits until the generation ends.
    async fn run_generation(
        &mut self,
        connection: &mut BrokerConnection,
    ) -> Result<GenerationEnd, LeanError> {
        // At once, for a member that returns after its coordinator was unavailable.
        let mut heartbeat = Instant::now();
        let mut commit = Instant::now() + self.groups.commit_interval;
        loop {
            let mut leaving = self.leaving.clone();
            tokio::select! {
                biased;
                _ = leaving.wait_for(|leaving| *leaving) => return Ok(GenerationEnd::Leaving),
                () = tokio::time::sleep_until(heartbeat.min(commit)) => {}
            }
            let now = Instant::now();
            if now >= heartbeat {
                heartbeat = now + self.groups.heartbeat_interval;
                match self.heartbeat(connection).await? {
                    0 => {}
                    wire::REBALANCE_IN_PROGRESS => return Ok(GenerationEnd::Rebalance),
                    wire::UNKNOWN_MEMBER | wire::ILLEGAL_GENERATION => {
                        return Ok(GenerationEnd::Expelled);
                    }
                    code => return Err(self.failed("heartbeat", code)),
                }
            }
            if now >= commit {
                commit = now + self.groups.commit_interval;
                let positions = self.shared.positions(self.consumer);
                self.commit(connection, positions).await?;
            }
        }
    }

    async fn heartbeat(&self, connection: &mut BrokerConnection) -> Result<i16, LeanError> {
        let (call, read) = (
            membership::heartbeat(self.identity()),
            membership::read_code,
        );
        self.request(connection, call, read).await
    }

    /// Commits the positions if they changed since the last commit. If the generation has ended,
    /// the next heartbeat reports it.
    async fn commit(
        &mut self,
        connection: &mut BrokerConnection,
        positions: Vec<(i32, i64)>,
    ) -> Result<(), LeanError> {
        if positions.is_empty() || positions == self.committed {
            return Ok(());
        }
        let call = offsets::commit(self.identity(), &self.shared.config.topic, &positions);
        let codes = self.request(connection, call, offsets::read_commit).await?;
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
                tracing::debug!(code, group = self.group, "coordinator rejected commit");
                Ok(())
            }
            Some(code) => Err(self.failed("commit", code)),
        }
    }

    async fn leave(&self, connection: &mut BrokerConnection) -> Result<(), LeanError> {
        let (call, read) = (membership::leave(self.identity()), membership::read_code);
        let code = self.request(connection, call, read).await?;
        match code {
            0 | wire::UNKNOWN_MEMBER => Ok(()),
            code => Err(self.failed("leave", code)),
        }
    }

    /// Sends a request. Brokers delay responses about the membership until a rebalance ends.
    async fn request<R: Request, T>(
        &self,
        connection: &mut BrokerConnection,
        (version, body): VersionedRequest<R>,
        read: impl Fn(&[u8]) -> Result<T, WireError>,
    ) -> Result<T, LeanError> {
        let max_wait = match ApiKey::try_from(R::KEY) {
            Ok(ApiKey::JoinGroup | ApiKey::SyncGroup) => REBALANCE_TIMEOUT,
            _ => Duration::ZERO,
        };
        let client_id = &self.shared.config.client_id;
        let write = |out: &mut BytesMut, id| write_request(out, version, id, client_id, &body);
        let mut response = None;
        let store = |body: &[u8]| {
            response = Some(read(body)?);
            Ok(())
        };
        let exchange = connection.exchange(&self.shared, max_wait, write, store);
        exchange.await?;
        // Invariant: a successful exchange has read a response.
        response.ok_or_else(|| self.failed("read response", -1))
    }

    fn identity(&self) -> MemberIdentity<'_> {
        MemberIdentity {
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

fn is_transient(error: &LeanError) -> bool {
    let transient = [
        wire::COORDINATOR_LOADING,
        wire::COORDINATOR_NOT_AVAILABLE,
        wire::NOT_COORDINATOR,
    ];
    matches!(error, LeanError::Kafka { code, .. } if transient.contains(code))
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

/// Rebalance timeout sent to the coordinator.
const REBALANCE_TIMEOUT: Duration = Duration::from_secs(60);
/// All members leave at the same time; only members with an unavailable coordinator need this long.
const LEAVE_TIMEOUT: Duration = Duration::from_secs(20);
/// Failed attempts, about 30 seconds, before an unavailable coordinator counts as an error.
const ATTEMPTS_QUIET: usize = 20;
/// A join response lists the members of the group.
const RESPONSE_BYTES_MAX: usize = 4 << 20;
