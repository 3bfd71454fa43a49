//! What ingest's threads share: which partitions are read from where, errors, readiness.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::moves::{Move, Moves};
use super::offsets::Offsets;
use super::{PartitionLag, PauseScope, SourceStatus, TopicStatus};

/// State behind one lock; it is touched per error, per second and per status call, not per record.
pub(super) struct IngestState {
    inner: Mutex<Inner>,
    wake: Condvar,
    /// A topic was deleted or positions are to be moved; the reader takes note.
    news: AtomicBool,
    /// Topics were replaced by others of their name: the client must be made anew.
    renewal: AtomicBool,
}

struct Inner {
    topics: Vec<TopicState>,
    reachable: bool,
    failed_probes: u32,
    stopping: bool,
    probe_now: bool,
    errors: u64,
    last_error: Option<String>,
    /// Why the newest commit failed.
    commit_error: Option<String>,
    hold: PauseScope,
    /// Topics that were deleted since the reader asked.
    deleted: Vec<String>,
    moves: Moves,
    /// Topics that were replaced since the client was made.
    replaced: Vec<String>,
    resets: u64,
    commits: u64,
    commit_errors: u64,
}

/// What is known of one configured topic.
#[derive(Debug, Clone, Default)]
pub(super) struct TopicState {
    pub(super) name: String,
    /// Whether the cluster ever answered for it; decides where new partitions start.
    pub(super) looked_up: bool,
    pub(super) exists: bool,
    /// Lookups in a row that found no such topic.
    missed: u32,
    pub(super) partitions: BTreeMap<i32, PartitionState>,
}

/// A partition found; it is being read once it has a start offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct PartitionState {
    /// Not there when its topic was first looked up: read from the beginning.
    pub(super) late: bool,
    /// Where reading starts or, after a pause, goes on.
    pub(super) start: Option<i64>,
    /// `start` was stored under the group id.
    pub(super) stored: bool,
    /// Known to librdkafka, which is reading it.
    pub(super) assigned: bool,
    pub(super) end: Option<i64>,
}

/// What a lookup of a topic told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TopicLookup {
    Same,
    Grew,
    /// It was there and is no more: offsets of a topic with its name start anew.
    Deleted,
}

impl IngestState {
    pub(super) fn new(topics: &[String], hold: PauseScope) -> Self {
        let topics = topics
            .iter()
            .map(|name| TopicState {
                name: name.clone(),
                ..TopicState::default()
            })
            .collect();
        Self {
            inner: Mutex::new(Inner {
                topics,
                reachable: false,
                failed_probes: 0,
                stopping: false,
                probe_now: false,
                errors: 0,
                last_error: None,
                commit_error: None,
                hold,
                deleted: Vec::new(),
                moves: Moves::default(),
                replaced: Vec::new(),
                resets: 0,
                commits: 0,
                commit_errors: 0,
            }),
            wake: Condvar::new(),
            news: AtomicBool::new(false),
            renewal: AtomicBool::new(false),
        }
    }

    pub(super) fn status(&self) -> SourceStatus {
        let inner = self.lock();
        let topics = inner.topics.iter().map(|topic| TopicStatus {
            topic: topic.name.clone(),
            exists: topic.exists,
            partitions: topic.started(),
        });
        SourceStatus {
            ready: inner.settled(),
            trouble: inner.trouble(),
            topics: topics.collect(),
            last_error: inner.last_error.clone(),
            errors: inner.errors,
            resets: inner.resets,
            commits: inner.commits,
            commit_errors: inner.commit_errors,
            headers_skipped: 0,
        }
    }

    /// Returns the lag of each partition that has a position, and `true` if all ends are known and
    /// brokers answer.
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
        inner.last_error = Some(text);
    }

    /// Offsets of a partition started anew.
    pub(super) fn note_reset(&self) {
        self.lock().resets += 1;
    }

    /// The answer to a commit.
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

    /// Something is wrong with a topic: worth a look at once.
    pub(super) fn probe_soon(&self) {
        self.lock().probe_now = true;
        self.wake.notify_all();
    }

    /// Runs `change` on what is held back and the topics, under the lock.
    pub(super) fn with_hold<R>(
        &self,
        change: impl FnOnce(&mut PauseScope, &mut [TopicState]) -> R,
    ) -> R {
        let mut inner = self.lock();
        let Inner { hold, topics, .. } = &mut *inner;
        change(hold, topics)
    }

    /// A topic is gone: its positions are void.
    pub(super) fn note_deleted(&self, topic: &str) {
        self.lock().deleted.push(topic.to_owned());
        self.news.store(true, Ordering::Release);
    }

    /// Returns topics deleted since the last call and positions to be moved; takes no lock when
    /// there are none.
    pub(super) fn take_news(&self) -> Option<(Vec<String>, Vec<Move>)> {
        if !self.news.swap(false, Ordering::Acquire) {
            return None;
        }
        let mut inner = self.lock();
        let deleted = std::mem::take(&mut inner.deleted);
        Some((deleted, inner.moves.take_decided()))
    }

    /// Notes topics that were replaced by others of their name.
    pub(super) fn note_replaced(&self, topics: Vec<String>) {
        let mut inner = self.lock();
        inner.resets += topics.len() as u64;
        inner.replaced.extend(topics);
        drop(inner);
        self.renewal.store(true, Ordering::Release);
    }

    /// Returns `true` if the client must be made anew.
    pub(super) fn needs_renewal(&self) -> bool {
        self.renewal.load(Ordering::Acquire)
    }

    /// Prepares for another client, which goes on at `positions`: nothing is assigned, replaced
    /// topics are found again and read from their beginnings. Returns their names.
    pub(super) fn renew(&self, positions: &Offsets) -> Vec<String> {
        self.renewal.store(false, Ordering::Release);
        let mut inner = self.lock();
        let replaced = std::mem::take(&mut inner.replaced);
        inner.moves = Moves::default();
        inner.stopping = false;
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

    /// Has positions checked at once.
    pub(super) fn doubt(&self, positions: Offsets) {
        self.lock().moves.doubt(positions);
        self.probe_soon();
    }

    /// Runs `change` on the positions to be checked and moved.
    pub(super) fn with_moves<R>(&self, change: impl FnOnce(&mut Moves) -> R) -> R {
        let mut inner = self.lock();
        let result = change(&mut inner.moves);
        drop(inner);
        self.news.store(true, Ordering::Release);
        result
    }

    /// All broker connections are gone: not ready, and worth a probe at once.
    pub(super) fn brokers_lost(&self) {
        let mut inner = self.lock();
        inner.reachable = false;
        inner.probe_now = true;
        self.wake.notify_all();
    }

    /// A metadata request succeeded or failed. One failure may be a hiccup; two are not.
    pub(super) fn probed(&self, answered: bool) {
        let mut inner = self.lock();
        if answered {
            inner.failed_probes = 0;
            inner.reachable = true;
        } else {
            inner.failed_probes = inner.failed_probes.saturating_add(1);
            if inner.failed_probes > 1 {
                inner.reachable = false;
            }
        }
    }

    /// Notes the end of a partition as told by its leader with fetched records; `None` if it has no
    /// leader. For a partition that is not being read this would be the end of the time it was.
    pub(super) fn note_fetched_end(&self, topic: &str, partition: i32, end: Option<i64>) {
        let mut inner = self.lock();
        let found = inner.topics.iter_mut().find(|known| known.name == topic);
        let state = found.and_then(|topic| topic.partitions.get_mut(&partition));
        if let Some(state) = state.filter(|state| state.assigned) {
            state.end = end;
        }
    }

    /// Partitions that have a position and are not being read, so that their ends must be asked for.
    pub(super) fn held(&self) -> Vec<(String, i32)> {
        let inner = self.lock();
        let mut held = Vec::new();
        for topic in inner.topics.iter().filter(|_| inner.reachable) {
            for (partition, state) in &topic.partitions {
                if !state.assigned && state.start.is_some() {
                    held.push((topic.name.clone(), *partition));
                }
            }
        }
        held
    }

    /// Notes ends that were asked for; a partition without an answer has none that is known.
    pub(super) fn note_ends(&self, asked: &[(String, i32)], ends: &Offsets) {
        let mut inner = self.lock();
        for (name, partition) in asked {
            let found = inner.topics.iter_mut().find(|known| known.name == *name);
            let state = found.and_then(|topic| topic.partitions.get_mut(partition));
            if let Some(state) = state.filter(|state| !state.assigned) {
                state.end = ends.get(name, *partition);
            }
        }
    }

    /// Runs `change` on the topics under the lock.
    pub(super) fn with_topics<R>(&self, change: impl FnOnce(&mut [TopicState]) -> R) -> R {
        change(&mut self.lock().topics)
    }

    /// Whether every topic is looked up, exists and is being read.
    pub(super) fn settled(&self) -> bool {
        self.lock().settled()
    }

    pub(super) fn stop(&self) {
        self.lock().stopping = true;
        self.wake.notify_all();
    }

    /// Waits for `interval` or a reason to probe sooner. `false`: stop.
    pub(super) fn wait(&self, interval: Duration) -> bool {
        let idle = |inner: &mut Inner| !inner.stopping && !inner.probe_now;
        let waited = self.wake.wait_timeout_while(self.lock(), interval, idle);
        let mut inner = match waited {
            Ok((inner, _)) => inner,
            Err(poisoned) => poisoned.into_inner().0,
        };
        inner.probe_now = false;
        !inner.stopping
    }

    pub(super) fn stopping(&self) -> bool {
        self.lock().stopping
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn settled(&self) -> bool {
        self.reachable && self.topics.iter().all(TopicState::complete)
    }

    /// Returns why reading is not ready, or what fails although it is. An error that was overcome is
    /// not among it.
    fn trouble(&self) -> Option<String> {
        let last = |text: String| Some(self.last_error.clone().unwrap_or(text));
        if !self.reachable {
            return last("no broker has answered".to_owned());
        }
        let topics = || self.topics.iter();
        if let Some(topic) = topics().find(|topic| !topic.looked_up) {
            return last(format!("topic \"{}\" not looked up yet", topic.name));
        }
        let missing = topics().filter(|topic| !topic.exists);
        let missing: Vec<_> = missing.map(|topic| format!("\"{}\"", topic.name)).collect();
        if !missing.is_empty() {
            return Some(format!(
                "missing topic {}: create it, it is read from its beginning then",
                missing.join(", ")
            ));
        }
        if let Some(topic) = topics().find(|topic| !topic.complete()) {
            return last(format!("topic \"{}\" has no start offsets yet", topic.name));
        }
        self.commit_error.clone()
    }
}

impl PartitionState {
    /// Neither read nor held back.
    pub(super) fn is_waiting(&self, hold: PauseScope) -> bool {
        let held = match hold {
            PauseScope::Nothing => false,
            PauseScope::Stored => self.stored,
            PauseScope::All => true,
        };
        !self.assigned && !held
    }
}

impl TopicState {
    /// Takes over what the cluster says: `None` if it has no such topic, else the number of
    /// partitions. One answer without the topic may come from a broker that has just started; two
    /// in a row mean that it was deleted.
    pub(super) fn looked_up(&mut self, partitions: Option<i32>) -> TopicLookup {
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
        if grew {
            TopicLookup::Grew
        } else {
            TopicLookup::Same
        }
    }

    fn started(&self) -> usize {
        let states = self.partitions.values();
        states.filter(|state| state.start.is_some()).count()
    }

    fn complete(&self) -> bool {
        self.looked_up && self.exists && self.started() == self.partitions.len()
    }
}

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
        shared.probed(true);
        assert!(!ready(&shared));
        shared.with_topics(|topics| {
            topics[0].looked_up(Some(1));
            topics[1].looked_up(None);
        });
        assert!(!ready(&shared), "partition 0 of a has no start offset");
        shared.with_topics(|topics| {
            topics[0].partitions.get_mut(&0).expect("known").start = Some(5);
        });
        assert!(!ready(&shared), "topic b is missing");
        let trouble = shared.status().trouble.expect("a reason");
        assert!(trouble.starts_with("missing topic \"b\""), "{trouble}");
        shared.with_topics(|topics| topics[1].looked_up(Some(0)));
        assert!(ready(&shared));
    }

    #[test]
    fn lost_brokers_end_readiness_until_an_answer() {
        let shared = IngestState::new(&["a".to_owned()], PauseScope::Nothing);
        shared.with_topics(|topics| topics[0].looked_up(Some(0)));
        shared.probed(true);
        shared.probed(false);
        assert!(ready(&shared), "one failed probe is a hiccup");
        shared.probed(false);
        assert!(!ready(&shared));
        shared.probed(true);
        assert!(ready(&shared));
        shared.brokers_lost();
        assert!(!ready(&shared));
        assert!(
            shared.wait(Duration::from_secs(3600)),
            "a loss cuts the wait short"
        );
    }

    #[test]
    fn partitions_seen_first_are_not_late_and_others_are() {
        let mut topic = TopicState::default();
        assert_eq!(topic.looked_up(Some(1)), TopicLookup::Grew);
        assert_eq!(topic.looked_up(Some(2)), TopicLookup::Grew);
        assert_eq!(topic.looked_up(Some(2)), TopicLookup::Same);
        assert!(!topic.partitions[&0].late);
        assert!(topic.partitions[&1].late);

        let mut topic = TopicState::default();
        assert_eq!(topic.looked_up(None), TopicLookup::Same);
        assert_eq!(topic.looked_up(Some(1)), TopicLookup::Grew);
        assert!(topic.partitions[&0].late, "created after the first look");
    }

    #[test]
    fn a_topic_is_deleted_when_two_answers_say_so() {
        let mut topic = TopicState::default();
        topic.looked_up(Some(1));
        assert_eq!(topic.looked_up(None), TopicLookup::Same);
        assert!(topic.exists);
        assert_eq!(topic.looked_up(Some(1)), TopicLookup::Same);
        assert_eq!(topic.looked_up(None), TopicLookup::Same);
        assert_eq!(topic.looked_up(None), TopicLookup::Deleted);
        assert!(!topic.exists);
        assert_eq!(topic.looked_up(None), TopicLookup::Same);
    }

    #[test]
    fn lag_counts_from_position_to_end() {
        let shared = IngestState::new(&["a".to_owned()], PauseScope::Nothing);
        shared.with_topics(|topics| {
            topics[0].looked_up(Some(1));
            topics[0].partitions.get_mut(&0).expect("known").start = Some(5);
        });
        shared.probed(true);
        let lag = || {
            let (lag, known) = shared.lag();
            (lag[0].records(), known)
        };
        assert_eq!(lag(), (None, false));
        shared.note_fetched_end("a", 0, Some(12));
        assert_eq!(lag(), (None, false), "it is not being read");
        let held = shared.held();
        assert_eq!(held, [("a".to_owned(), 0)]);
        let mut ends = Offsets::default();
        ends.set("a", 0, 12);
        shared.note_ends(&held, &ends);
        assert_eq!(lag(), (Some(7), true));
        shared.with_topics(|topics| {
            topics[0].partitions.get_mut(&0).expect("known").assigned = true;
        });
        assert!(shared.held().is_empty());
        shared.note_fetched_end("a", 0, Some(15));
        assert_eq!(lag(), (Some(10), true));
        shared.brokers_lost();
        assert_eq!(lag(), (Some(10), false), "the last that was known");
        shared.probed(true);
        shared.note_fetched_end("a", 0, None);
        assert_eq!(lag(), (None, false), "it has no leader");
    }

    #[test]
    fn trouble_ends_with_its_cause() {
        let shared = IngestState::new(&["a".to_owned()], PauseScope::Nothing);
        let trouble = || shared.status().trouble;
        assert!(trouble().is_some());
        shared.note_error("connection refused".to_owned());
        assert_eq!(trouble().as_deref(), Some("connection refused"));
        shared.probed(true);
        shared.with_topics(|topics| topics[0].looked_up(Some(0)));
        assert_eq!(trouble(), None, "overcome");
        assert!(shared.status().last_error.is_some());
        shared.note_commit(Some("not allowed".to_owned()));
        assert_eq!(trouble().as_deref(), Some("not allowed"));
        shared.note_commit(None);
        assert_eq!(trouble(), None);
    }
}
