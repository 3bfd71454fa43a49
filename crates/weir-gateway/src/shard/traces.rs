//! Traces of sampled records in a shard: from its inbox to the sockets of clients.

use std::sync::Arc;

use weir_net::otlp::{ActiveTrace, unix_ns};

/// Traces of updates that are queued but not written yet; further ones end without their delivery.
const WAITING_MAX: usize = 256;

/// Traces that wait for their updates to be written.
#[derive(Debug, Default)]
pub(super) struct UpdateTraces(Vec<WaitingTrace>);

#[derive(Debug)]
struct WaitingTrace {
    trace: Arc<ActiveTrace>,
    queued_ns: u64,
    is_first_written: bool,
    shard: u16,
}

impl UpdateTraces {
    /// Adds the spans of an update that was posted at `posted_ns`, and for which `work` queues its
    /// deliveries.
    pub(super) fn run(
        &mut self,
        (trace, posted_ns, shard): (Arc<ActiveTrace>, u64, u16),
        work: impl FnOnce() -> u64,
    ) -> u64 {
        let begun_ns = unix_ns();
        let deliveries = work();
        let queued_ns = unix_ns();
        let number = i64::from(shard);
        trace.add("queue", (posted_ns, begun_ns), [("weir.shard", number)]);
        let count = i64::try_from(deliveries).unwrap_or(i64::MAX);
        let attributes = [("weir.shard", number), ("weir.deliveries", count)];
        trace.add("fan out", (begun_ns, queued_ns), attributes);
        if deliveries > 0 && self.0.len() < WAITING_MAX {
            self.0.push(WaitingTrace {
                trace,
                queued_ns,
                is_first_written: false,
                shard,
            });
        }
        deliveries
    }

    /// Adds the span of the first delivery to traces that have none.
    pub(super) fn on_first_written(&mut self) {
        for waiting in &mut self.0 {
            if !std::mem::replace(&mut waiting.is_first_written, true) {
                waiting.add("first delivery");
            }
        }
    }

    /// Adds the span of the last delivery, and ends the shard's part of all traces.
    pub(super) fn on_flushed(&mut self) {
        for waiting in self.0.drain(..) {
            waiting.add("last delivery");
        }
    }
}

impl WaitingTrace {
    fn add(&self, name: &'static str) {
        let attributes = [("weir.shard", i64::from(self.shard))];
        (self.trace).add(name, (self.queued_ns, unix_ns()), attributes);
    }
}
