//! Partitions that are read: their positions, leaders and state.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::plan::{FetchPlan, PartitionKey, PlannedCheck, PlannedFetch};
use weir_wire::cluster::{PartitionLeader, TopicId};

/// All partitions that are read, and the leaders of their topics.
#[derive(Debug, Default)]
pub(crate) struct PartitionTable {
    topics: Vec<TopicEntry>,
    partitions: BTreeMap<PartitionKey, ReadPartition>,
    /// Number of the latest assignment.
    generation: u64,
}

#[derive(Debug)]
struct TopicEntry {
    name: Arc<str>,
    id: TopicId,
    /// Records were read under this id.
    is_read: bool,
    /// Another topic has taken the name; this one is not read on.
    is_replaced: bool,
    leaders: BTreeMap<i32, PartitionLeader>,
    /// Ends of partitions. A fetch session reports them only when they change, so they are kept
    /// when an assignment ends.
    ends: BTreeMap<i32, i64>,
    /// Positions of former assignments, with the epochs in which they were valid.
    left: BTreeMap<i32, (i64, i32)>,
}

#[derive(Debug)]
struct ReadPartition {
    generation: u64,
    /// Next offset to fetch.
    position: i64,
    /// Epoch of the last record fetched, or a later one in which the position was valid; -1 if
    /// none is known.
    epoch: i32,
    /// Follower to read from, and until when.
    replica: Option<(i32, Instant)>,
    /// Time until which followers are not read, after one has failed.
    leader_until: Option<Instant>,
    state: ReadState,
    /// Time before which no request is sent, after an error.
    retry_at: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ReadState {
    Reading,
    /// The leader has changed; it must confirm the position first.
    Unchecked,
    /// The caller decides where to continue.
    Stopped,
}

/// Effect of an error of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PartitionProblem {
    /// It is fetched again later.
    Retry,
    /// As [`Self::Retry`]; the leader may have changed.
    Refresh,
    /// As [`Self::Retry`], but an operator must know.
    Failure,
    /// The position is out of range; the partition is not read until it is assigned again.
    OutOfRange,
}

/// Result of a check of a position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EpochOutcome {
    /// The position is valid, or the result is outdated.
    Valid,
    /// Records before the position were truncated; the log continues at this offset. The partition
    /// is not read until it is assigned again.
    Truncated(i64),
}

impl PartitionTable {
    /// Begins to read a partition at an offset. An earlier assignment ends.
    pub(crate) fn assign(&mut self, topic: &str, partition: i32, position: i64) {
        self.unassign(topic, partition);
        self.generation += 1;
        let key = (self.topic_index(topic), partition);
        let topic = &self.topics[key.0];
        let leader_epoch = topic.leaders.get(&partition).map_or(-1, |it| it.epoch);
        // A position that was read before is as old as the last record before it; the leader may
        // have changed since. Others are from the current leader.
        let left = topic.left.get(&partition);
        let epoch = left.filter(|(end, _)| position <= *end);
        let epoch = epoch.map_or(leader_epoch, |(_, epoch)| *epoch);
        let read = ReadPartition {
            generation: self.generation,
            position,
            epoch,
            replica: None,
            leader_until: None,
            state: match 0 <= epoch && epoch < leader_epoch {
                true => ReadState::Unchecked,
                false => ReadState::Reading,
            },
            retry_at: None,
        };
        self.partitions.insert(key, read);
    }

    /// Stops reading a partition.
    pub(crate) fn unassign(&mut self, topic: &str, partition: i32) {
        let key = (self.topic_index(topic), partition);
        if let Some(read) = self.partitions.remove(&key) {
            let left = &mut self.topics[key.0].left;
            left.insert(partition, (read.position, read.epoch));
        }
    }

    /// Returns `true` if an assignment has not ended.
    pub(crate) fn is_current(&self, key: PartitionKey, generation: u64) -> bool {
        let read = self.partitions.get(&key);
        read.is_some_and(|read| read.generation == generation)
    }

    fn topic_index(&mut self, name: &str) -> usize {
        let known = self.topics.iter().position(|topic| &*topic.name == name);
        known.unwrap_or_else(|| {
            self.topics.push(TopicEntry {
                name: name.into(),
                id: 0,
                is_read: false,
                is_replaced: false,
                leaders: BTreeMap::new(),
                ends: BTreeMap::new(),
                left: BTreeMap::new(),
            });
            self.topics.len() - 1
        })
    }

    /// Applies the metadata of a topic. Returns `true` if a leader has changed.
    pub(crate) fn update_topic(
        &mut self,
        name: &str,
        id: TopicId,
        leaders: &[PartitionLeader],
    ) -> bool {
        let index = self.topic_index(name);
        let topic = &mut self.topics[index];
        if id != topic.id && topic.id != 0 && topic.is_read {
            topic.is_replaced = true;
            return false;
        }
        let mut changed = id != topic.id;
        if changed {
            topic.leaders.clear();
            topic.ends.clear();
            topic.left.clear();
        }
        topic.id = id;
        for new in leaders {
            let known = topic.leaders.get(&new.partition);
            // A broker with outdated metadata returns an earlier epoch.
            if known.is_some_and(|known| new.epoch < known.epoch || new == known) {
                continue;
            }
            changed = true;
            topic.leaders.insert(new.partition, *new);
            if let Some(read) = self.partitions.get_mut(&(index, new.partition)) {
                read.on_leader(new);
            }
        }
        changed
    }

    /// Returns the names of topics that others have replaced while they were read.
    pub(crate) fn replaced(&self) -> impl Iterator<Item = &str> {
        let replaced = self.topics.iter().filter(|topic| topic.is_replaced);
        replaced.map(|topic| &*topic.name)
    }

    /// Returns the leader of a partition with its epoch, if there is one.
    pub(crate) fn leader(&self, topic: &str, partition: i32) -> Option<PartitionLeader> {
        let mut topics = self.topics.iter();
        let topic = topics.find(|known| &*known.name == topic)?;
        let leader = topic.leaders.get(&partition)?;
        (leader.leader >= 0).then_some(*leader)
    }

    /// Returns the brokers that partitions are read from.
    pub(crate) fn nodes(&self, now: Instant) -> BTreeSet<i32> {
        let nodes = self.partitions.iter();
        nodes
            .filter_map(|(key, read)| self.node(*key, read, now))
            .collect()
    }

    fn node(&self, key: PartitionKey, read: &ReadPartition, now: Instant) -> Option<i32> {
        let leader = self.topics[key.0].leaders.get(&key.1)?;
        let replica = read.replica.filter(|(_, until)| now < *until);
        let node = replica.map_or(leader.leader, |(node, _)| node);
        (node >= 0 && !self.topics[key.0].is_replaced).then_some(node)
    }

    /// Returns the work that is due at a broker.
    pub(crate) fn plan(&self, node: i32, now: Instant) -> FetchPlan {
        let mut plan = FetchPlan::default();
        for (key, read) in &self.partitions {
            if read.state == ReadState::Stopped || self.node(*key, read, now) != Some(node) {
                continue;
            }
            if let Some(at) = read.retry_at.filter(|at| now < *at) {
                plan.wake_at = Some(plan.wake_at.map_or(at, |earlier| earlier.min(at)));
                continue;
            }
            let topic = &self.topics[key.0];
            let leader_epoch = topic.leaders.get(&key.1).map_or(-1, |it| it.epoch);
            plan.avoids_followers |= read.leader_until.is_some_and(|until| now < until);
            match read.state {
                ReadState::Unchecked => plan.checks.push(PlannedCheck {
                    key: *key,
                    generation: read.generation,
                    topic: Arc::clone(&topic.name),
                    leader_epoch,
                    epoch: read.epoch,
                }),
                _ => plan.fetches.push(PlannedFetch {
                    key: *key,
                    generation: read.generation,
                    topic: Arc::clone(&topic.name),
                    topic_id: topic.id,
                    offset: read.position,
                    leader_epoch,
                }),
            }
        }
        plan
    }

    fn read(&mut self, key: PartitionKey, generation: u64) -> Option<&mut ReadPartition> {
        let read = self.partitions.get_mut(&key)?;
        (read.generation == generation).then_some(read)
    }

    /// Advances the position after records were fetched up to `next`, the last one with `epoch`.
    /// Returns `false` if the records must be dropped, because the position has changed.
    pub(crate) fn advance(&mut self, sent: &PlannedFetch, next: i64, epoch: i32) -> bool {
        let Some(read) = self.read(sent.key, sent.generation) else {
            return false;
        };
        if read.position != sent.offset || read.state != ReadState::Reading {
            return false;
        }
        read.position = next.max(sent.offset);
        read.epoch = epoch.max(read.epoch);
        read.retry_at = None;
        self.topics[sent.key.0].is_read = true;
        true
    }

    /// Notes the end of a partition, as reported with a fetch.
    pub(crate) fn note_end(&mut self, key: PartitionKey, generation: u64, end: i64) {
        if end >= 0 && self.is_current(key, generation) {
            self.topics[key.0].ends.insert(key.1, end);
        }
    }

    /// Returns topic, partition and end of all partitions; `None` without a leader.
    pub(crate) fn ends(&self) -> impl Iterator<Item = (&str, i32, Option<i64>)> {
        self.partitions.keys().map(|(index, partition)| {
            let topic = &self.topics[*index];
            let leader = topic.leaders.get(partition);
            let is_led = leader.is_some_and(|leader| leader.leader >= 0);
            let end = topic.ends.get(partition).filter(|_| is_led);
            (&*topic.name, *partition, end.copied())
        })
    }

    /// Reads a partition from a follower that its leader prefers, for some time.
    pub(crate) fn prefer(&mut self, key: PartitionKey, generation: u64, to: (i32, Instant)) {
        let (node, now) = to;
        let Some(until) = now.checked_add(FOLLOWER_TIME) else {
            return;
        };
        if let Some(read) = self.read(key, generation) {
            read.replica = Some((node, until));
        }
    }

    /// Reads the partitions of a follower that has failed from their leaders, for some time.
    pub(crate) fn leave_follower(&mut self, node: i32, now: Instant) {
        for read in self.partitions.values_mut() {
            if read.replica.is_some_and(|(follower, _)| follower == node) {
                read.leave_follower(now);
            }
        }
    }

    /// Returns the number of partitions that are read from followers.
    pub(crate) fn on_followers(&self, now: Instant) -> usize {
        let replicas = self.partitions.values().filter_map(|read| read.replica);
        replicas.filter(|(_, until)| now < *until).count()
    }

    /// Applies an error of a fetched partition. The partition is read again after `backoff`.
    pub(crate) fn on_error(
        &mut self,
        sent: &PlannedFetch,
        code: i16,
        now: Instant,
        backoff: Duration,
    ) -> PartitionProblem {
        let Some(read) = self.read(sent.key, sent.generation) else {
            return PartitionProblem::Retry;
        };
        if read.position != sent.offset {
            return PartitionProblem::Retry;
        }
        // A follower may be behind, or not be a follower any more.
        let was_replica = read.leave_follower(now);
        read.retry_at = now.checked_add(backoff);
        match code {
            OFFSET_OUT_OF_RANGE if was_replica => PartitionProblem::Retry,
            OFFSET_OUT_OF_RANGE => {
                read.state = ReadState::Stopped;
                PartitionProblem::OutOfRange
            }
            OFFSET_NOT_AVAILABLE => PartitionProblem::Retry,
            code if REFRESH.contains(&code) => PartitionProblem::Refresh,
            _ => {
                read.retry_at = now.checked_add(backoff.max(FAILURE_BACKOFF));
                PartitionProblem::Failure
            }
        }
    }

    /// Fetches a partition again from `position`, where its records could not be decoded.
    pub(crate) fn fetch_again(
        &mut self,
        key: PartitionKey,
        generation: u64,
        (position, now): (i64, Instant),
    ) {
        self.generation += 1;
        let new = self.generation;
        if let Some(read) = self.read(key, generation) {
            read.generation = new;
            read.position = position;
            read.retry_at = now.checked_add(FAILURE_BACKOFF);
        }
    }

    /// Applies the end of the epoch of the last record read, as the new leader has it.
    pub(crate) fn on_epoch_end(
        &mut self,
        checked: &PlannedCheck,
        error: i16,
        (epoch, end): (i32, i64),
        (now, backoff): (Instant, Duration),
    ) -> EpochOutcome {
        let (index, partition) = checked.key;
        let leader = self.topics[index].leaders.get(&partition);
        let is_current = leader.is_some_and(|leader| leader.epoch == checked.leader_epoch);
        let Some(read) = self.read(checked.key, checked.generation) else {
            return EpochOutcome::Valid;
        };
        // A later leader is asked too.
        if read.state != ReadState::Unchecked || !is_current {
            return EpochOutcome::Valid;
        }
        if error != 0 {
            // The leader is not known yet, or has changed again.
            read.retry_at = now.checked_add(backoff);
            return EpochOutcome::Valid;
        }
        // An unknown epoch means that the log has no record that was read.
        let end = if epoch >= 0 { end.max(0) } else { 0 };
        if end >= read.position {
            read.state = ReadState::Reading;
            return EpochOutcome::Valid;
        }
        read.state = ReadState::Stopped;
        EpochOutcome::Truncated(end)
    }
}

impl ReadPartition {
    fn on_leader(&mut self, leader: &PartitionLeader) {
        self.replica = None;
        self.retry_at = None;
        if self.epoch < 0 {
            self.epoch = leader.epoch;
        }
        if leader.epoch > self.epoch && self.state == ReadState::Reading {
            self.state = ReadState::Unchecked;
        }
    }

    /// Returns `true` if the partition was read from a follower.
    fn leave_follower(&mut self, now: Instant) -> bool {
        let was_on_follower = self.replica.take().is_some();
        if was_on_follower {
            self.leader_until = now.checked_add(LEADER_TIME);
        }
        was_on_follower
    }
}

const OFFSET_OUT_OF_RANGE: i16 = 1;
const OFFSET_NOT_AVAILABLE: i16 = 78;
/// Unknown topic or partition, no leader, not the leader, no replica, storage error, an earlier or
/// later leader epoch, unknown topic id, another topic id.
const REFRESH: [i16; 9] = [3, 5, 6, 9, 56, 74, 75, 100, 103];
/// Minimum time between attempts after an error that does not pass by itself.
const FAILURE_BACKOFF: Duration = Duration::from_secs(1);
/// Time for which a follower is read before the leader is asked again.
const FOLLOWER_TIME: Duration = Duration::from_secs(300);
/// Time for which the leader is read after a follower has failed. Until the cluster notices that a
/// broker has stopped, after 9 s by default, leaders still name it.
const LEADER_TIME: Duration = Duration::from_secs(30);

#[cfg(test)]
mod tests;
