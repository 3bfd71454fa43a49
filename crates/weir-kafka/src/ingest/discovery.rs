//! A thread that finds topics, partitions and start offsets, and assigns the partitions.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::bounds::{self, AllBounds};
use super::config::{IngestConfig, StartFrom, TopicPattern};
use super::error::SourceError;
use super::identity::{Id, Identities};
use super::moves::{Move, MoveReason};
use super::partition_client::{
    ClusterView, Committed, FoundOffset, OffsetAt, PartitionClient, RequestError, TopicPartition,
    TopicView,
};
use super::state::{IngestState, TopicLookup, TopicState, partition_mut};
use super::stores::Stores;

/// Starts the thread. It ends when `shared` is stopped, and returns the known topic ids.
pub(super) fn spawn(
    config: &IngestConfig,
    client: &Arc<dyn PartitionClient>,
    shared: &Arc<IngestState>,
    identities: Identities,
) -> Result<JoinHandle<Identities>, SourceError> {
    let discovery = Discovery {
        client: Arc::clone(client),
        shared: Arc::clone(shared),
        from: config.from,
        resume: config.group_id.is_some(),
        topics: shared.topic_names(),
        pattern: config.pattern.clone(),
        list_time: Duration::ZERO,
        over_limit: 0,
        brokers: Vec::new(),
        ids: Vec::new(),
        identities,
        stores: Stores::new(config),
    };
    std::thread::Builder::new()
        .name("kafka-discover".to_owned())
        .spawn(move || discovery.run())
        .map_err(|error| SourceError::Thread {
            reason: error.to_string(),
        })
}

struct Discovery {
    client: Arc<dyn PartitionClient>,
    shared: Arc<IngestState>,
    from: StartFrom,
    /// Start at committed offsets, if there are any.
    resume: bool,
    topics: Vec<String>,
    pattern: Option<TopicPattern>,
    /// Time that the latest list of all topics took.
    list_time: Duration,
    /// Number of matching topics over the limit in the latest list.
    over_limit: usize,
    /// Addresses of all brokers, from the latest metadata.
    brokers: Vec<(String, u16)>,
    /// Topic ids from the latest metadata, if the client reports them.
    ids: Vec<(String, Id)>,
    identities: Identities,
    stores: Stores,
}

impl Discovery {
    fn run(mut self) -> Identities {
        let mut interval = INTERVAL_MIN;
        loop {
            self.look_up_all();
            self.stores.read_after_failure(&self.shared);
            interval = if self.shared.is_settled() {
                INTERVAL_MAX
            } else {
                (interval * 2).min(INTERVAL_MAX)
            };
            // Lists of large clusters take at most 5 % of the time.
            interval = interval.max((self.list_time * 20).min(INTERVAL_LIST_MAX));
            if !self.shared.wait(interval) {
                return self.identities;
            }
            if !self.shared.status().ready {
                interval = interval.min(INTERVAL_LOST);
            }
        }
    }

    fn look_up_all(&mut self) {
        self.ids.clear();
        if let Some(pattern) = self.pattern.clone() {
            let started = Instant::now();
            if let Err(error) = self.look_up_matching(&pattern) {
                self.shared.note_probe(false);
                self.shared.note_error(format!("list of topics: {error}"));
            }
            self.list_time = started.elapsed();
        }
        let named = if self.pattern.is_some() {
            0
        } else {
            self.topics.len()
        };
        for index in 0..named {
            if self.shared.is_stopping() {
                return;
            }
            if let Err(error) = self.look_up_topic(index) {
                let topic = &self.topics[index];
                self.shared.note_probe(false);
                self.shared
                    .note_error(format!("metadata of topic \"{topic}\": {error}"));
            }
        }
        let replaced = self.replaced();
        if !replaced.is_empty() {
            // This client cannot read the new topics and must be replaced.
            return self.shared.note_replaced(replaced);
        }
        if let Err(error) = self.assign_found() {
            self.shared.note_error(format!("assignment: {error}"));
        }
        self.check_positions();
        let unassigned = self.shared.unassigned();
        let ends = bounds::query(&*self.client, &unassigned, OffsetAt::End);
        self.shared.note_ends(&unassigned, &ends);
    }

    /// Returns the topics that were replaced by others with their names.
    fn replaced(&mut self) -> Vec<String> {
        let ids = match self.client.has_topic_ids() {
            true => std::mem::take(&mut self.ids),
            false => self.identities.request(&self.brokers, &self.topics),
        };
        let mut replaced = self.identities.replaced(ids);
        let identities = &self.identities;
        self.shared.note_ids(|topic| identities.id_of(topic));
        for topic in self.client.replaced() {
            if !replaced.contains(&topic) {
                replaced.push(topic);
            }
        }
        replaced
    }

    /// Decides how to continue at positions that librdkafka could not fetch from. If all positions
    /// are valid, reading restarts at each of them.
    fn check_positions(&self) {
        let Some(positions) = self.shared.with_moves(|moves| moves.unchecked.take()) else {
            return;
        };
        let partitions: Vec<_> = positions
            .iter()
            .map(|(topic, partition, _)| (topic.to_owned(), partition))
            .collect();
        let bounds = AllBounds::query(&*self.client, &partitions);
        let mut moves = Vec::new();
        let mut unknown = 0;
        for (topic, partition, from) in positions.iter() {
            let Some(bounds) = bounds.get(topic, partition) else {
                unknown += 1;
                continue;
            };
            moves.push(Move {
                topic: topic.to_owned(),
                partition,
                from,
                to: bounds.replacement(from, self.from).unwrap_or(from),
            });
        }
        let outside = moves.iter().any(|one| one.from != one.to);
        if outside {
            moves.retain(|one| one.from != one.to);
        }
        self.shared.with_moves(|shared| {
            shared.decided.extend(moves);
            if unknown > 0 {
                // Positions that were noted since are newer.
                shared.unchecked.get_or_insert(positions);
            }
        });
    }

    fn look_up_topic(&mut self, index: usize) -> Result<(), RequestError> {
        let name = self.topics[index].clone();
        let view = self.client.cluster(Some(&name))?;
        self.note_view(&view);
        let found = view.topics.into_iter().find(|topic| topic.name == name);
        let Some(TopicView { partitions, .. }) = found else {
            return Ok(());
        };
        let partitions = partitions?;
        let applied = self.apply_lookup(index, partitions);
        applied.map(drop).map_err(RequestError::of)
    }

    fn note_view(&mut self, view: &ClusterView) {
        self.shared.note_probe(true);
        self.brokers.clone_from(&view.brokers);
        let topics = view.topics.iter();
        let known = topics.filter(|topic| matches!(topic.partitions, Ok(Some(_))));
        self.ids
            .extend(known.map(|topic| (topic.name.clone(), topic.id)));
    }

    /// Lists all topics and looks up those that match.
    fn look_up_matching(&mut self, pattern: &TopicPattern) -> Result<(), RequestError> {
        let mut view = self.client.cluster(None)?;
        view.topics.retain(|topic| pattern.selects(&topic.name));
        self.note_view(&view);
        let topics = view.topics.iter();
        let found: HashMap<_, _> = topics.map(|topic| (topic.name.as_str(), topic)).collect();
        let known: HashSet<_> = self.topics.iter().cloned().collect();
        let mut new: Vec<_> = found
            .keys()
            .filter(|name| !known.contains(**name))
            .collect();
        new.sort_unstable();
        let room = TOPICS_MAX.saturating_sub(self.topics.len()).min(new.len());
        self.note_over_limit(new.len() - room);
        let late = self.shared.note_list();
        for name in &new[..room] {
            self.shared.add_topic(name, late);
            self.topics.push((**name).to_owned());
        }
        // From the end, because deleted topics are removed.
        for index in (0..self.topics.len()).rev() {
            let topic = found.get(self.topics[index].as_str());
            let partitions = match topic.map_or(&Ok(None), |topic| &topic.partitions) {
                Ok(partitions) => *partitions,
                Err(error) => {
                    let topic = &self.topics[index];
                    let text = format!("metadata of topic \"{topic}\": {error}");
                    self.shared.note_error(text);
                    continue;
                }
            };
            let applied = self.apply_lookup(index, partitions);
            if applied.map_err(RequestError::of)? {
                let topic = self.topics.remove(index);
                self.shared.remove_topic(&topic);
            }
        }
        Ok(())
    }

    fn note_over_limit(&mut self, count: usize) {
        if count > 0 && count != self.over_limit {
            let text = format!(
                "{count} topics that match the pattern are not read: the limit is {TOPICS_MAX}"
            );
            tracing::warn!(
                not_read = count,
                limit = TOPICS_MAX,
                "too many matching topics"
            );
            self.shared.note_error(text);
        }
        self.over_limit = count;
    }

    /// Applies the number of partitions of a topic; `None` if it does not exist. Returns `true` if
    /// the topic has been deleted.
    fn apply_lookup(&mut self, index: usize, partitions: Option<i32>) -> Result<bool, SourceError> {
        let name = self.topics[index].clone();
        let name = name.as_str();
        let apply = |topics: &mut [TopicState]| topics[index].apply_lookup(partitions);
        match self.shared.with_topics(apply) {
            TopicLookup::Same => {}
            TopicLookup::Grew => tracing::info!(topic = name, partitions, "started reading topic"),
            TopicLookup::Deleted => {
                tracing::warn!(topic = name, "topic deleted");
                self.identities.deleted(name);
                return self.unassign_deleted(index).map(|()| true);
            }
        }
        Ok(false)
    }

    /// Stops reading a deleted topic. If it is created again, it is read from its beginning.
    fn unassign_deleted(&self, index: usize) -> Result<(), SourceError> {
        let unassigned = self.shared.with_topics(|topics| {
            let topic = &mut topics[index];
            let partitions = std::mem::take(&mut topic.partitions);
            let assigned = partitions.iter().filter(|(_, state)| state.assigned);
            let deleted: Vec<_> = assigned
                .map(|(partition, _)| (topic.name.clone(), *partition))
                .collect();
            match deleted.is_empty() {
                true => Ok(()),
                false => self.client.unassign(&deleted),
            }
        });
        // From here on, the reader cannot receive records of the old topic.
        self.shared.note_deleted(&self.topics[index]);
        unassigned
    }

    /// Requests a numeric start offset for every partition that has none, and assigns the
    /// partitions. Logical offsets would take half a second each and would not allow determining
    /// `ready`.
    fn assign_found(&self) -> Result<(), SourceError> {
        let (mut late, mut unknown_starts) = (Vec::new(), Vec::new());
        self.shared.with_topics(|topics| {
            for topic in topics {
                let new = topic
                    .partitions
                    .iter()
                    .filter(|(_, state)| state.start.is_none());
                for (partition, state) in new {
                    let list = if state.late {
                        &mut late
                    } else {
                        &mut unknown_starts
                    };
                    list.push((topic.name.clone(), *partition));
                }
            }
        });
        let late = late.into_iter().map(|partition| (partition, Ok(0)));
        self.note_starts(late.collect(), false);
        if let Err(error) = self.request_starts(unknown_starts) {
            self.shared.note_error(format!("start offsets: {error}"));
        }
        assign_ready(&*self.client, &self.shared)
    }

    /// Requests start offsets and stores them: committed ones, if there are any, else those of the
    /// configuration.
    fn request_starts(&self, mut unknown: Vec<TopicPartition>) -> Result<(), RequestError> {
        if unknown.is_empty() {
            return Ok(());
        }
        if self.resume {
            let committed = self.client.committed(&unknown)?;
            let has_offset = |it: &&Committed| it.1.is_some();
            let found: HashSet<_> = committed
                .iter()
                .filter(has_offset)
                .map(|it| &it.0)
                .collect();
            unknown.retain(|partition| !found.contains(partition));
            let checked = self.within_bounds(&committed);
            self.note_starts(checked, true);
        }
        let at = match self.from {
            StartFrom::Latest => OffsetAt::End,
            StartFrom::Earliest => OffsetAt::Beginning,
        };
        if !unknown.is_empty() {
            self.note_starts(self.client.offsets(&unknown, at), false);
        }
        Ok(())
    }

    /// Replaces committed offsets that are out of range. The result lacks partitions whose leader
    /// did not respond.
    fn within_bounds(&self, committed: &[Committed]) -> Vec<FoundOffset> {
        let numbers = || {
            let rows = committed.iter();
            rows.filter_map(|(partition, offset)| Some((partition, (*offset)?)))
        };
        let partitions: Vec<_> = numbers().map(|(partition, _)| partition.clone()).collect();
        let bounds = AllBounds::query(&*self.client, &partitions);
        let mut checked = Vec::new();
        for ((topic, partition), from) in numbers() {
            let Some(bounds) = bounds.get(topic, *partition) else {
                continue;
            };
            let to = bounds.replacement(from, self.from);
            if let Some(to) = to {
                let moved = Move {
                    topic: topic.clone(),
                    partition: *partition,
                    from,
                    to,
                };
                self.shared.note_move(&moved, MoveReason::OutOfRange);
            }
            checked.push(((topic.clone(), *partition), Ok(to.unwrap_or(from))));
        }
        checked
    }

    fn note_starts(&self, found: Vec<FoundOffset>, committed: bool) {
        for ((topic, partition), start) in found {
            let start = match start {
                Ok(start) => start,
                Err(error) => {
                    let text =
                        format!("start offset of \"{topic}\" partition {partition}: {error}");
                    self.shared.note_error(text);
                    continue;
                }
            };
            self.shared.with_topics(|topics| {
                if let Some(state) = partition_mut(topics, &topic, partition) {
                    state.start = Some(start);
                    state.committed = committed;
                }
            });
        }
    }
}

/// Assigns every partition with a start offset to the client, except paused ones.
pub(super) fn assign_ready(
    client: &dyn PartitionClient,
    shared: &IngestState,
) -> Result<(), SourceError> {
    shared.with_pause(|pause, topics| {
        let mut ready = Vec::new();
        for topic in topics.iter() {
            for (partition, state) in &topic.partitions {
                if let Some(start) = state.start.filter(|_| state.can_be_assigned(*pause)) {
                    ready.push(((topic.name.clone(), *partition), start));
                }
            }
        }
        if ready.is_empty() {
            return Ok(());
        }
        client.assign(&ready)?;
        for topic in topics {
            for state in topic.partitions.values_mut() {
                state.assigned |= state.start.is_some() && state.can_be_assigned(*pause);
            }
        }
        Ok(())
    })
}

/// First interval between lookups; doubles up to the maximum.
const INTERVAL_MIN: Duration = Duration::from_millis(50);
/// Interval while brokers do not respond; maximum delay until recovery is noticed.
const INTERVAL_LOST: Duration = Duration::from_millis(500);
/// Maximum interval between lists of all topics, however long they take.
const INTERVAL_LIST_MAX: Duration = Duration::from_secs(60);
/// Maximum number of topics read by a pattern.
const TOPICS_MAX: usize = 1_000;
/// Interval in normal operation; maximum delay until a new topic or partition is noticed.
const INTERVAL_MAX: Duration = Duration::from_secs(2);
