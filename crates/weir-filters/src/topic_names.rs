//! Names of topics by their ids, which newer versions of Produce and Fetch contain instead.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use weir_wire::WireError;
use weir_wire::cluster::TopicId;
use weir_wire::topic_ids::metadata_response;

/// The names of a cluster's topics, as far as responses of its brokers contained them. An id
/// belongs to one topic forever.
#[derive(Debug, Default)]
pub struct TopicNames {
    names: RwLock<HashMap<TopicId, Arc<str>>>,
    /// Ids whose names the proxy has requested.
    requested: AtomicU64,
}

impl TopicNames {
    /// Takes the names in the body of a Metadata response. When there are too many, all are dropped
    /// and requested again as needed.
    pub fn record(&self, body: &[u8], version: i16) -> Result<(), WireError> {
        let mut new = Vec::new();
        {
            let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
            metadata_response(body, version, |id, name| {
                if new.len() < NAMES_MAX && !names.contains_key(&id) {
                    new.push((id, name));
                }
            })?;
        }
        if new.is_empty() {
            return Ok(());
        }
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if names.len() + new.len() > NAMES_MAX {
            names.clear();
        }
        names.extend(new.into_iter().map(|(id, name)| (id, Arc::from(name))));
        Ok(())
    }

    /// Counts ids whose names are requested.
    pub fn count_requested(&self, ids: usize) {
        self.requested.fetch_add(ids as u64, Ordering::Relaxed);
    }

    /// Returns the number of known names, and that of the ids whose names have been requested.
    pub fn counts(&self) -> [u64; 2] {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        [names.len() as u64, self.requested.load(Ordering::Relaxed)]
    }

    /// Returns the name of a topic, if it is known.
    pub fn name(&self, id: TopicId) -> Option<Arc<str>> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        names.get(&id).cloned()
    }

    /// Returns the names of topics in the same order; `None` for an unknown one.
    pub(crate) fn of(&self, ids: impl Iterator<Item = TopicId>) -> Vec<Option<Arc<str>>> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        ids.map(|id| names.get(&id).cloned()).collect()
    }

    /// Removes the ids of known topics, duplicates, and the id of no topic.
    pub fn retain_unknown(&self, ids: &mut Vec<TopicId>) {
        {
            let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
            ids.retain(|id| *id != 0 && !names.contains_key(id));
        }
        ids.sort_unstable();
        ids.dedup();
    }
}

/// Maximum number of names; they take about 100 bytes each.
const NAMES_MAX: usize = 100_000;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the body of a Metadata response of version 12 with these topics.
    pub(crate) fn metadata(topics: &[(TopicId, &str)]) -> Vec<u8> {
        let mut body = vec![0, 0, 0, 0, 1, 0, 0, 0, 0, 1];
        weir_wire::layout::put_length(&mut body, true, topics.len());
        for (id, name) in topics {
            body.extend([0, 0]);
            weir_wire::layout::put_string(&mut body, true, name);
            body.extend(id.to_be_bytes());
            // Not internal, no partitions, no operations, no tagged fields.
            body.extend([0, 1, 0, 0, 0, 0, 0]);
        }
        body.push(0);
        body
    }

    #[test]
    fn names_are_recorded_and_bounded() {
        let names = TopicNames::default();
        names
            .record(&metadata(&[(1, "a"), (2, "b")]), 12)
            .expect("reads");
        let found = names.of([2, 3, 1].into_iter());
        let found: Vec<_> = found.iter().map(|name| name.as_deref()).collect();
        assert_eq!(found, [Some("b"), None, Some("a")]);
        let mut ids = vec![4, 2, 0, 3, 4, 1];
        names.retain_unknown(&mut ids);
        assert_eq!(ids, [3, 4]);

        let many: Vec<_> = (10..10 + NAMES_MAX as TopicId)
            .map(|id| (id, "n"))
            .collect();
        names.record(&metadata(&many), 12).expect("reads");
        assert_eq!(names.names.read().expect("no panic").len(), NAMES_MAX);
        assert_eq!(names.of([1, 10].into_iter()), [None, Some("n".into())]);
        assert!(names.record(&[0; 8], 12).is_err());
    }
}
