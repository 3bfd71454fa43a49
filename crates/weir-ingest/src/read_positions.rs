//! Positions of the reading thread, which shards request for the ids of events.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_fanout::{LayoutTopic, PartitionLayout};
use weir_net::lock;

/// Requests for positions, and the partitions to which they belong.
#[derive(Debug, Default)]
pub struct ReadPositions {
    requested: AtomicU64,
    /// Generation of the layout; 0 without one.
    generation: AtomicU32,
    layout: Mutex<Option<Arc<PartitionLayout>>>,
}

impl ReadPositions {
    /// Requests a report and returns the number of the request. A report with this number or a
    /// higher one has positions from which on all records of earlier interests are posted.
    pub fn request(&self) -> u64 {
        self.requested.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn requested(&self) -> u64 {
        self.requested.load(Ordering::SeqCst)
    }

    pub(crate) fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    pub(crate) fn layout(&self) -> Option<Arc<PartitionLayout>> {
        lock(&self.layout).clone()
    }

    /// Returns the layout of these topics, which is the current one if they have not changed.
    pub(crate) fn update(
        &self,
        connection: &str,
        topics: Vec<LayoutTopic>,
    ) -> Option<Arc<PartitionLayout>> {
        let mut current = lock(&self.layout);
        let generation = self.generation();
        let new = PartitionLayout::new(connection, generation.wrapping_add(1), topics);
        let known = current.as_ref().zip(new.as_ref());
        if known.is_some_and(|(known, new)| known.has_same_partitions(new)) {
            return current.clone();
        }
        *current = new.map(Arc::new);
        self.generation
            .store(generation.wrapping_add(1), Ordering::Release);
        current.clone()
    }
}
