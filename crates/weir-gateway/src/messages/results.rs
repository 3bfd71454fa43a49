//! Results of records, from the threads of Kafka clients to the event loops.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use weir_kafka::DeliveryError;

use weir_net::lock;

/// Result of one message.
#[derive(Debug)]
pub(crate) struct MessageResult {
    /// Index that the event loop has given to the message.
    pub(crate) index: usize,
    pub(crate) result: Result<(), DeliveryError>,
}

/// Results for one event loop. Bounded by its messages in flight.
#[derive(Debug, Default)]
pub(super) struct ResultInbox {
    results: Mutex<Vec<MessageResult>>,
    /// `true` if there are results, so that an event loop without any takes no lock.
    has_results: AtomicBool,
}

impl ResultInbox {
    pub(super) fn push(&self, result: MessageResult) {
        lock(&self.results).push(result);
        self.has_results.store(true, Ordering::Release);
    }

    pub(super) fn take(&self) -> Vec<MessageResult> {
        match self.has_results.swap(false, Ordering::Acquire) {
            true => std::mem::take(&mut *lock(&self.results)),
            false => Vec::new(),
        }
    }
}
