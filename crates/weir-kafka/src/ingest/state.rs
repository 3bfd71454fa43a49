//! State shared by the threads of ingest: partitions and their positions, errors, readiness.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use weir_security::Security;

use super::config::PauseScope;
use super::identity::Id;
use super::moves::{Move, MoveReason, Moves, log_move};
use super::offsets::Offsets;
use super::status::{PartitionLag, SourceStatus, TopicStatus};
use crate::connect_error::ConnectError;
use crate::warning_pacer::WarningPacer;

/// State behind one lock. It is used per error, per second and per status call, not per record.
#[derive(Default)]
pub(super) struct IngestState {
    inner: Mutex<Inner>,
    wake: Condvar,
    /// A topic was deleted or positions must be moved; the reader takes these changes.
    has_changes: AtomicBool,
    /// The client must be replaced: topics were replaced by others with the same name, or stores
    /// of certificates have a new content.
    needs_new_client: AtomicBool,
    /// A TLS handshake has failed; the stores may have a new content.
    tls_failed: AtomicBool,
}

/// Words of librdkafka's errors about missing connections.
const NO_CONNECTION: [&str; 3] = [
    "AllBrokersDown",
    "BrokerTransportFailure",
    "(Local: Host resolution failure)",
];

#[derive(Default)]
struct Inner {
    topics: Vec<TopicState>,
    /// The topics that match a pattern are not known yet.
    awaits_list: bool,
    reachable: bool,
    failed_probes: u32,
    is_stopping: bool,
    probe_now: bool,
    errors: u64,
    last_error: Option<String>,
    /// Why librdkafka had no connection to a broker.
    unreachable: Option<ConnectError>,
    /// Refusal since the latest response of a broker.
    refused: Option<ConnectError>,
    /// A broker has responded since the start.
    was_reachable: bool,
    login_failures: u64,
    tls_failures: u64,
    /// Reason why the latest commit failed.
    commit_error: Option<String>,
    pause: PauseScope,
    /// Topics deleted since the reader last took the changes.
    deleted: Vec<String>,
    moves: Moves,
    /// Topics replaced since the client was created.
    replaced: Vec<String>,
    /// Encryption and login of the next client, if they differ.
    security: Option<Arc<Security>>,
    resets: u64,
    truncations: u64,
    move_log: Option<WarningPacer>,
    /// Responses with a pause, and these pauses together.
    throttled: (u64, Duration),
    on_followers: usize,
    commits: u64,
    commit_errors: u64,
}

/// State of one configured topic.
#[derive(Debug, Clone, Default)]
pub(super) struct TopicState {
    pub(super) name: String,
    /// Topic id; 0 if it is unknown.
    pub(super) id: Id,
    /// The topic was looked up before; decides where new partitions start.
    pub(super) looked_up: bool,
    pub(super) exists: bool,
    /// Number of consecutive lookups without the topic.
    missed: u32,
    pub(super) partitions: BTreeMap<i32, PartitionState>,
}

/// State of a known partition. It is read once it has a start offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PartitionState {
    /// The partition did not exist at the first lookup of its topic; it is read from its beginning.
    pub(super) late: bool,
    /// Offset at which reading starts or, after a pause, resumes.
    pub(super) start: Option<i64>,
    /// `start` was committed under the group id.
    pub(super) committed: bool,
    /// Assigned to librdkafka, which reads it.
    pub(super) assigned: bool,
    /// The reader has paused this partition alone.
    pub(super) paused: bool,
    pub(super) end: Option<i64>,
}

/// Result of a topic lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopicLookup {
    Same,
    Grew,
    /// The topic existed before and is missing now. A new topic with its name starts with new
    /// offsets.
    Deleted,
}

impl IngestState {
    pub(super) fn new(topics: &[String], pause: PauseScope) -> Self {
        let topic = |name: &String| TopicState {
            name: name.clone(),
            ..TopicState::default()
        };
        let topics = topics.iter().map(topic).collect();
        Self {
            inner: Mutex::new(Inner {
                topics,
                pause,
                ..Inner::default()
            }),
            ..Self::default()
        }
    }

    pub(super) fn status(&self) -> SourceStatus {
        let inner = self.lock();
        let topics = inner.topics.iter().map(|topic| TopicStatus {
            topic: topic.name.clone(),
            exists: topic.exists,
            partitions: topic.started_partitions(),
        });
        SourceStatus {
            ready: inner.is_settled(),
            problem: inner.problem(),
            topics: topics.collect(),
            last_error: inner.last_error.clone(),
            refused: inner.refused.clone(),
            login_failures: inner.login_failures,
            tls_failures: inner.tls_failures,
            errors: inner.errors,
            resets: inner.resets,
            truncations: inner.truncations,
            throttled: inner.throttled.0,
            throttle_time: inner.throttled.1,
            on_followers: inner.on_followers,
            commits: inner.commits,
            commit_errors: inner.commit_errors,
            headers_skipped: 0,
        }
    }

    /// Returns the lag of each partition with a position, and `true` if brokers respond and all
    /// ends are known.
    pub(super) fn lag(&self) -> (Vec<PartitionLag>, bool) {
        let inner = self.lock();
        let mut known = inner.reachable;
        let mut lag = Vec::new();
        for topic in &inner.topics {
            known &= topic.looked_up;
            for (partition, state) in &topic.partitions {
                known &= state.start.is_some() && state.end.is_some();
                let Some(start) = state.start else { continue };
                lag.push(PartitionLag {
                    topic: topic.name.clone(),
                    partition: *partition,
                    position: start,
                    end: state.end,
                });
            }
        }
        (lag, known)
    }

    pub(super) fn note_error(&self, text: String) {
        let mut inner = self.lock();
        inner.errors += 1;
        let is_vague = NO_CONNECTION.iter().any(|words| text.contains(words));
        let known = inner.unreachable.as_ref().filter(|_| is_vague);
        let text = known.map_or(text, ToString::to_string);
        inner.last_error = Some(text);
    }

    /// Notes why librdkafka had no connection to a broker; its errors do not say it.
    pub(super) fn note_unreachable(&self, error: ConnectError) {
        self.lock().unreachable = Some(error);
    }

    /// Notes a failed login or rejected certificate. Until a broker responds, it is the reason why
    /// the source is not ready.
    pub(super) fn note_refusal(&self, refusal: ConnectError) {
        let mut inner = self.lock();
        inner.errors += 1;
        if refusal.is_login_failure() {
            inner.login_failures += 1;
        } else {
            inner.tls_failures += 1;
            self.tls_failed.store(true, Ordering::Release);
        }
        inner.last_error = Some(refusal.to_string());
        inner.refused = Some(refusal);
    }

    /// Notes a likely refusal. Once a broker has responded, the security protocol is right, and a
    /// closed connection has another reason.
    pub(super) fn note_hint(&self, hint: ConnectError) {
        if !self.lock().was_reachable {
            self.note_refusal(hint);
        }
    }

    pub(super) fn note_reset(&self) {
        self.lock().resets += 1;
    }

    /// Counts and logs a move.
    pub(super) fn note_move(&self, one: &Move, reason: MoveReason) {
        let mut inner = self.lock();
        inner.resets += 1;
        inner.truncations += u64::from(reason == MoveReason::Truncated);
        let log = inner
            .move_log
            .get_or_insert(WarningPacer::new(MOVES_LOGGED));
        let due = log.due(Instant::now());
        drop(inner);
        if let Some(left_out) = due {
            log_move(one, reason, left_out);
        }
    }

    /// Notes that a broker throttles the client for `pause`.
    pub(super) fn note_throttle(&self, pause: Duration) {
        let (count, sum) = &mut self.lock().throttled;
        *count += 1;
        *sum = sum.saturating_add(pause);
    }

    /// Notes the number of partitions that are read from followers.
    pub(super) fn note_on_followers(&self, count: usize) {
        self.lock().on_followers = count;
    }

    pub(super) fn note_commit(&self, error: Option<String>) {
        let mut inner = self.lock();
        match &error {
            None => inner.commits += 1,
            Some(_) => {
                inner.commit_errors += 1;
                inner.errors += 1;
            }
        }
        inner.commit_error = error;
    }

    /// Requests an immediate lookup, after an error of a topic.
    pub(super) fn probe_soon(&self) {
        self.lock().probe_now = true;
        self.wake.notify_all();
    }

    /// Runs `change` on the pause scope and the topics, under the lock.
    pub(super) fn with_pause<R>(
        &self,
        change: impl FnOnce(&mut PauseScope, &mut [TopicState]) -> R,
    ) -> R {
        let mut inner = self.lock();
        let Inner { pause, topics, .. } = &mut *inner;
        change(pause, topics)
    }

    pub(super) fn note_deleted(&self, topic: &str) {
        self.lock().deleted.push(topic.to_owned());
        self.has_changes.store(true, Ordering::Release);
    }

    /// Returns the topics deleted since the last call and the positions to be moved. Takes no lock
    /// if there are none.
    pub(super) fn take_changes(&self) -> Option<(Vec<String>, Vec<Move>)> {
        if !self.has_changes.swap(false, Ordering::Acquire) {
            return None;
        }
        let mut inner = self.lock();
        let deleted = std::mem::take(&mut inner.deleted);
        Some((deleted, std::mem::take(&mut inner.moves.decided)))
    }

    pub(super) fn note_replaced(&self, topics: Vec<String>) {
        let mut inner = self.lock();
        inner.resets += topics.len() as u64;
        inner.replaced.extend(topics);
        drop(inner);
        self.needs_new_client.store(true, Ordering::Release);
    }

    /// Returns `true` if a TLS handshake has failed since the last call, or if the last one failed
    /// and no broker has responded since. librdkafka reports a repeated failure every 30 s only.
    pub(super) fn take_tls_failure(&self) -> bool {
        let is_new = self.tls_failed.swap(false, Ordering::AcqRel);
        let inner = self.lock();
        let refused = inner.refused.as_ref();
        is_new || refused.is_some_and(|it| !it.is_login_failure())
    }

    /// Notes encryption and login that a new client must use.
    pub(super) fn note_security(&self, security: Arc<Security>) {
        self.lock().security = Some(security);
        self.needs_new_client.store(true, Ordering::Release);
    }

    /// Returns encryption and login of the next client, if they differ.
    pub(super) fn take_security(&self) -> Option<Arc<Security>> {
        self.lock().security.take()
    }

    pub(super) fn needs_renewal(&self) -> bool {
        self.needs_new_client.load(Ordering::Acquire)
    }

    /// Prepares for another client that continues at `positions`: unassigns all partitions and
    /// clears those of replaced topics, so that they are read from their beginning. Returns the
    /// names of the replaced topics.
    pub(super) fn renew(&self, positions: &Offsets) -> Vec<String> {
        self.needs_new_client.store(false, Ordering::Release);
        let mut inner = self.lock();
        let replaced = std::mem::take(&mut inner.replaced);
        inner.moves = Moves::default();
        inner.is_stopping = false;
        for topic in &mut inner.topics {
            if replaced.contains(&topic.name) {
                topic.partitions.clear();
            }
            for (partition, state) in &mut topic.partitions {
                state.assigned = false;
                state.start = positions.get(&topic.name, *partition).or(state.start);
            }
        }
        replaced
    }

    pub(super) fn request_check(&self, positions: Offsets) {
        self.lock().moves.unchecked = Some(positions);
        self.probe_soon();
    }

    /// Runs `change` on the unchecked positions and the moves, under the lock.
    pub(super) fn with_moves<R>(&self, change: impl FnOnce(&mut Moves) -> R) -> R {
        let mut inner = self.lock();
        let result = change(&mut inner.moves);
        drop(inner);
        self.has_changes.store(true, Ordering::Release);
        result
    }

    /// Notes that all broker connections are lost, and requests an immediate lookup.
    pub(super) fn brokers_lost(&self) {
        let mut inner = self.lock();
        inner.reachable = false;
        inner.probe_now = true;
        self.wake.notify_all();
    }

    /// Notes the result of a metadata request. Brokers count as unreachable after two failures in a
    /// row.
    pub(super) fn note_probe(&self, succeeded: bool) {
        let mut inner = self.lock();
        inner.failed_probes = match succeeded {
            true => 0,
            false => inner.failed_probes.saturating_add(1),
        };
        if succeeded {
            inner.refused = None;
            inner.was_reachable = true;
        }
        inner.reachable = succeeded || (inner.reachable && inner.failed_probes < 2);
    }

    /// Notes the end of a partition as reported with fetched records; `None` if it has no leader.
    /// Ignored if the partition is not assigned, because the value would be outdated.
    pub(super) fn note_fetched_end(&self, topic: &str, partition: i32, end: Option<i64>) {
        let mut inner = self.lock();
        let state = partition_mut(&mut inner.topics, topic, partition);
        if let Some(state) = state.filter(|state| state.assigned) {
            state.end = end;
        }
    }

    /// Returns the partitions with a position that are not assigned; their ends must be requested.
    pub(super) fn unassigned(&self) -> Vec<(String, i32)> {
        let inner = self.lock();
        let mut unassigned = Vec::new();
        for topic in inner.topics.iter().filter(|_| inner.reachable) {
            for (partition, state) in &topic.partitions {
                if !state.assigned && state.start.is_some() {
                    unassigned.push((topic.name.clone(), *partition));
                }
            }
        }
        unassigned
    }

    /// Notes requested ends. The end of a partition without a response is unknown.
    pub(super) fn note_ends(&self, requested: &[(String, i32)], ends: &Offsets) {
        let mut inner = self.lock();
        for (name, partition) in requested {
            let state = partition_mut(&mut inner.topics, name, *partition);
            if let Some(state) = state.filter(|state| !state.assigned) {
                state.end = ends.get(name, *partition);
            }
        }
    }

    /// Makes readiness depend on a first list of topics.
    pub(super) fn await_list(&self, awaits: bool) {
        self.lock().awaits_list = awaits;
    }

    /// Notes a list of topics. Returns `true` if it is not the first one.
    pub(super) fn note_list(&self) -> bool {
        !std::mem::take(&mut self.lock().awaits_list)
    }

    /// Returns the names of all topics.
    pub(super) fn topic_names(&self) -> Vec<String> {
        self.lock()
            .topics
            .iter()
            .map(|topic| topic.name.clone())
            .collect()
    }

    /// Adds a topic that matches a pattern. A `late` one is read from its beginning.
    pub(super) fn add_topic(&self, name: &str, late: bool) {
        self.lock().topics.push(TopicState {
            name: name.to_owned(),
            looked_up: late,
            ..TopicState::default()
        });
    }

    /// Removes a deleted topic that matched a pattern.
    pub(super) fn remove_topic(&self, name: &str) {
        self.lock().topics.retain(|topic| topic.name != name);
    }

    /// Stores the ids of topics, as far as they are known.
    pub(super) fn note_ids(&self, id_of: impl Fn(&str) -> Option<Id>) {
        for topic in &mut self.lock().topics {
            topic.id = id_of(&topic.name).unwrap_or(topic.id);
        }
    }

    /// Runs `change` on the topics, under the lock.
    pub(super) fn with_topics<R>(&self, change: impl FnOnce(&mut [TopicState]) -> R) -> R {
        change(&mut self.lock().topics)
    }

    /// Returns `true` if every topic exists and all its partitions have a start offset.
    pub(super) fn is_settled(&self) -> bool {
        self.lock().is_settled()
    }

    pub(super) fn stop(&self) {
        self.lock().is_stopping = true;
        self.wake.notify_all();
    }

    /// Waits up to `interval`, or until an immediate lookup is requested. Returns `false` if the
    /// thread must stop.
    pub(super) fn wait(&self, interval: Duration) -> bool {
        let idle = |inner: &mut Inner| !inner.is_stopping && !inner.probe_now;
        let waited = self.wake.wait_timeout_while(self.lock(), interval, idle);
        let (mut inner, _) = waited.unwrap_or_else(PoisonError::into_inner);
        inner.probe_now = false;
        !inner.is_stopping
    }

    pub(super) fn is_stopping(&self) -> bool {
        self.lock().is_stopping
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn is_settled(&self) -> bool {
        self.reachable && !self.awaits_list && self.topics.iter().all(TopicState::is_complete)
    }

    /// Returns the reason why the source is not ready or, if it is, the commit error. Resolved
    /// errors are not returned.
    fn problem(&self) -> Option<String> {
        let last = |text: String| Some(self.last_error.clone().unwrap_or(text));
        if let Some(refusal) = self.refused.as_ref().filter(|_| !self.reachable) {
            return Some(refusal.to_string());
        }
        if !self.reachable {
            return last("no broker has responded".to_owned());
        }
        if self.awaits_list {
            return last("topics have not been listed yet".to_owned());
        }
        let topics = || self.topics.iter();
        if let Some(topic) = topics().find(|topic| !topic.looked_up) {
            return last(format!(
                "topic \"{}\" has not been looked up yet",
                topic.name
            ));
        }
        let missing = topics().filter(|topic| !topic.exists);
        let missing: Vec<_> = missing.map(|topic| format!("\"{}\"", topic.name)).collect();
        if !missing.is_empty() {
            return Some(format!(
                "missing topic {}: create it, and it will be read from its beginning",
                missing.join(", ")
            ));
        }
        if let Some(topic) = topics().find(|topic| !topic.is_complete()) {
            return last(format!("topic \"{}\" has no start offsets yet", topic.name));
        }
        self.commit_error.clone()
    }
}

pub(super) fn partition_mut<'a>(
    topics: &'a mut [TopicState],
    topic: &str,
    partition: i32,
) -> Option<&'a mut PartitionState> {
    let topic = topics.iter_mut().find(|known| known.name == topic)?;
    topic.partitions.get_mut(&partition)
}

impl PartitionState {
    /// Returns `true` if the partition is neither assigned nor paused.
    pub(super) fn can_be_assigned(&self, pause: PauseScope) -> bool {
        let in_scope = match pause {
            PauseScope::Nothing => false,
            PauseScope::Committed => self.committed,
            PauseScope::All => true,
        };
        !self.assigned && !self.paused && !in_scope
    }
}

impl TopicState {
    /// Applies the result of a lookup: `None` if the cluster has no such topic, else the number of
    /// partitions. A response without the topic may come from a broker that has just started, so
    /// only two in a row mean that it was deleted.
    pub(super) fn apply_lookup(&mut self, partitions: Option<i32>) -> TopicLookup {
        if partitions.is_none() && self.exists && self.missed == 0 {
            self.missed = 1;
            return TopicLookup::Same;
        }
        let late = self.looked_up;
        let deleted = self.exists && partitions.is_none();
        self.looked_up = true;
        self.missed = 0;
        self.exists = partitions.is_some();
        if deleted {
            return TopicLookup::Deleted;
        }
        let mut grew = false;
        for partition in 0..partitions.unwrap_or(0) {
            self.partitions.entry(partition).or_insert_with(|| {
                grew = true;
                PartitionState {
                    late,
                    ..PartitionState::default()
                }
            });
        }
        match grew {
            true => TopicLookup::Grew,
            false => TopicLookup::Same,
        }
    }

    fn started_partitions(&self) -> usize {
        let states = self.partitions.values();
        states.filter(|state| state.start.is_some()).count()
    }

    fn is_complete(&self) -> bool {
        self.looked_up && self.exists && self.started_partitions() == self.partitions.len()
    }
}

/// Maximum number of logged moves in ten seconds.
const MOVES_LOGGED: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(shared: &IngestState) -> bool {
        shared.status().ready
    }

    #[test]
    fn ready_needs_brokers_lookups_and_start_offsets() {
        let shared = IngestState::new(&["a".to_owned(), "b".to_owned()], PauseScope::Nothing);
        assert!(!ready(&shared));
        shared.note_probe(true);
        assert!(!ready(&shared));
        shared.with_topics(|topics| {
            topics[0].apply_lookup(Some(1));
            topics[1].apply_lookup(None);
        });
        assert!(!ready(&shared), "partition 0 of a has no start offset");
        shared.with_topics(|topics| {
            topics[0].partitions.get_mut(&0).expect("known").start = Some(5);
        });
        assert!(!ready(&shared), "topic b is missing");
        let problem = shared.status().problem.expect("a reason");
        assert!(problem.starts_with("missing topic \"b\""), "{problem}");
        shared.with_topics(|topics| topics[1].apply_lookup(Some(0)));
        assert!(ready(&shared));
    }

    #[test]
    fn lost_brokers_reset_ready_until_response() {
        let shared = IngestState::new(&["a".to_owned()], PauseScope::Nothing);
        shared.with_topics(|topics| topics[0].apply_lookup(Some(0)));
        shared.note_probe(true);
        shared.note_probe(false);
        assert!(ready(&shared), "one failed probe is tolerated");
        shared.note_probe(false);
        assert!(!ready(&shared));
        shared.note_probe(true);
        assert!(ready(&shared));
        shared.brokers_lost();
        assert!(!ready(&shared));
        assert!(
            shared.wait(Duration::from_secs(3600)),
            "lost brokers end the wait"
        );
    }

    #[test]
    fn partitions_after_first_lookup_are_late() {
        let mut topic = TopicState::default();
        assert_eq!(topic.apply_lookup(Some(1)), TopicLookup::Grew);
        assert_eq!(topic.apply_lookup(Some(2)), TopicLookup::Grew);
        assert_eq!(topic.apply_lookup(Some(2)), TopicLookup::Same);
        assert!(!topic.partitions[&0].late);
        assert!(topic.partitions[&1].late);

        let mut topic = TopicState::default();
        assert_eq!(topic.apply_lookup(None), TopicLookup::Same);
        assert_eq!(topic.apply_lookup(Some(1)), TopicLookup::Grew);
        assert!(topic.partitions[&0].late, "created after the first lookup");
    }

    #[test]
    fn topic_is_deleted_after_two_missing_lookups() {
        let mut topic = TopicState::default();
        topic.apply_lookup(Some(1));
        assert_eq!(topic.apply_lookup(None), TopicLookup::Same);
        assert!(topic.exists);
        assert_eq!(topic.apply_lookup(Some(1)), TopicLookup::Same);
        assert_eq!(topic.apply_lookup(None), TopicLookup::Same);
        assert_eq!(topic.apply_lookup(None), TopicLookup::Deleted);
        assert!(!topic.exists);
        assert_eq!(topic.apply_lookup(None), TopicLookup::Same);
    }

    #[test]
    fn lag_counts_from_position_to_end() {
        let shared = IngestState::new(&["a".to_owned()], PauseScope::Nothing);
        shared.with_topics(|topics| {
            topics[0].apply_lookup(Some(1));
            topics[0].partitions.get_mut(&0).expect("known").start = Some(5);
        });
        shared.note_probe(true);
        let lag = || {
            let (lag, known) = shared.lag();
            (lag[0].records(), known)
        };
        assert_eq!(lag(), (None, false));
        shared.note_fetched_end("a", 0, Some(12));
        assert_eq!(lag(), (None, false), "not assigned");
        let unassigned = shared.unassigned();
        assert_eq!(unassigned, [("a".to_owned(), 0)]);
        let mut ends = Offsets::default();
        ends.set("a", 0, 12);
        shared.note_ends(&unassigned, &ends);
        assert_eq!(lag(), (Some(7), true));
        shared.with_topics(|topics| {
            topics[0].partitions.get_mut(&0).expect("known").assigned = true;
        });
        assert!(shared.unassigned().is_empty());
        shared.note_fetched_end("a", 0, Some(15));
        assert_eq!(lag(), (Some(10), true));
        shared.brokers_lost();
        assert_eq!(lag(), (Some(10), false), "last known end");
        shared.note_probe(true);
        shared.note_fetched_end("a", 0, None);
        assert_eq!(lag(), (None, false), "no leader");
    }

    #[test]
    fn refusal_is_the_problem_until_a_broker_responds() {
        let shared = IngestState::new(&["t".to_owned()], PauseScope::Nothing);
        let broker = "a:1".to_owned();
        let reason = "expired".to_owned();
        shared.note_refusal(ConnectError::Tls { broker, reason });
        shared.note_error("1/1 brokers are down".to_owned());
        let status = shared.status();
        assert!(status.problem.is_some_and(|text| text.contains("expired")));
        assert_eq!((status.tls_failures, status.login_failures), (1, 0));
        shared.note_probe(true);
        let status = shared.status();
        assert_eq!((status.refused, status.tls_failures), (None, 1));
    }

    #[test]
    fn problem_clears_with_its_cause() {
        let shared = IngestState::new(&["a".to_owned()], PauseScope::Nothing);
        let problem = || shared.status().problem;
        assert!(problem().is_some());
        shared.note_error("connection refused".to_owned());
        assert_eq!(problem().as_deref(), Some("connection refused"));
        shared.note_probe(true);
        shared.with_topics(|topics| topics[0].apply_lookup(Some(0)));
        assert_eq!(problem(), None, "resolved error");
        assert!(shared.status().last_error.is_some());
        shared.note_commit(Some("not allowed".to_owned()));
        assert_eq!(problem().as_deref(), Some("not allowed"));
        shared.note_commit(None);
        assert_eq!(problem(), None);
    }
}
