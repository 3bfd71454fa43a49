//! Posts events of ingest workers to the shards.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use weir_net::{MailboxSender, PostError};

use crate::counters::{WorkerCounters, add};
use crate::item_event::ItemEvent;

/// Maximum wait for a full inbox before the stop flag is checked.
const POST_TIMEOUT: Duration = Duration::from_millis(100);
/// Maximum number of waits for full inboxes after the stop, so that a stalled shard does not block
/// the shutdown.
const LATE_MAX: u32 = 20;

/// Inboxes of the shards, whose events of type `E` include those of items.
pub(crate) struct ShardSenders<E> {
    pub(crate) shards: Vec<MailboxSender<E>>,
    stop: Arc<AtomicBool>,
    late: Arc<AtomicU32>,
}

// Derived, it would require events that can be cloned.
impl<E> Clone for ShardSenders<E> {
    fn clone(&self) -> Self {
        Self {
            shards: self.shards.clone(),
            stop: Arc::clone(&self.stop),
            late: Arc::clone(&self.late),
        }
    }
}

impl<E: From<ItemEvent>> ShardSenders<E> {
    pub(crate) fn new(shards: Vec<MailboxSender<E>>, stop: Arc<AtomicBool>) -> Self {
        Self {
            shards,
            stop,
            late: Arc::default(),
        }
    }

    /// Sends an event and waits while the shard's inbox is full, so a slow shard slows reading from
    /// Kafka. Events are dropped, and counted, only after the stop.
    pub(crate) fn send(&self, shard: u16, event: ItemEvent, counters: &WorkerCounters) {
        let Some(sender) = self.shards.get(usize::from(shard)) else {
            return;
        };
        let mut event = E::from(event);
        loop {
            match sender.post(event, POST_TIMEOUT) {
                Ok(()) | Err(PostError::Disconnected(_)) => return,
                Err(PostError::Timeout(back)) => {
                    add(&counters.shard_waits, 1);
                    if self.is_too_late() {
                        return add(&counters.undelivered, 1);
                    }
                    event = back;
                }
            }
        }
    }

    fn is_too_late(&self) -> bool {
        if !self.stop.load(Ordering::Relaxed) {
            return false;
        }
        let late = self.late.fetch_add(1, Ordering::Relaxed);
        if late == LATE_MAX {
            tracing::warn!("event loop stalled, dropped pending updates");
        }
        late >= LATE_MAX
    }
}
