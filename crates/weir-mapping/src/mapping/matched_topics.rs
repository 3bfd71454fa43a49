//! Topics that patterns have matched, with their items, so that each is matched once.

use std::collections::HashMap;
use std::sync::Arc;

/// Maximum number of topics; more than ingest reads.
const TOPICS_MAX: usize = 20_000;

/// Topics by name, and the latest one: records of a topic usually come together.
#[derive(Debug, Clone)]
pub(super) struct MatchedTopics<T> {
    topics: Vec<(Box<str>, Arc<T>)>,
    by_name: HashMap<Box<str>, usize, foldhash::fast::RandomState>,
    latest: usize,
}

impl<T> Default for MatchedTopics<T> {
    fn default() -> Self {
        Self {
            topics: Vec::new(),
            by_name: HashMap::default(),
            latest: 0,
        }
    }
}

impl<T> MatchedTopics<T> {
    /// Returns the items of a topic, and a number that identifies it in this list; `matched` finds
    /// the items of a new topic.
    pub(super) fn find(&mut self, name: &str, matched: impl FnOnce() -> T) -> (usize, Arc<T>) {
        let latest = self.topics.get(self.latest);
        if latest.is_none_or(|(topic, _)| **topic != *name) {
            self.latest = match self.by_name.get(name) {
                Some(position) => *position,
                None => self.add(name, matched()),
            };
        }
        (self.latest, Arc::clone(&self.topics[self.latest].1))
    }

    fn add(&mut self, name: &str, items: T) -> usize {
        // The topics stay in place, because their positions are in use.
        let position = match self.topics.len() < TOPICS_MAX {
            true => self.topics.len(),
            false => self.latest,
        };
        let topic = (name.into(), Arc::new(items));
        match self.topics.get_mut(position) {
            Some(old) => {
                self.by_name.remove(&old.0);
                *old = topic;
            }
            None => self.topics.push(topic),
        }
        self.by_name.insert(name.into(), position);
        position
    }
}
