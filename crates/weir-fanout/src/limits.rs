//! Bandwidth and frequency limits of one session.

use super::delivery_mode::DeliveryMode;
use super::frequency::{FrequencyScope, SendDelay};
use super::keys::ItemAt;
use super::output::Subscriber;
use super::queue::UpdateQueue;

/// Limits of any [`Subscriber`].
pub(crate) trait SessionLimits: Subscriber {
    /// Returns the delay that a limit requires before an update may be sent.
    fn send_delay(
        &mut self,
        (sub_id, position): ItemAt,
        scope: FrequencyScope<'_>,
        now_ms: u64,
    ) -> Option<SendDelay> {
        let bandwidth = self.bandwidth_mut();
        if let Some(until_ms) = bandwidth.and_then(|bucket| bucket.wait_until_ms(now_ms)) {
            return Some(SendDelay::Session(until_ms));
        }
        let limit = self.subscription(sub_id)?.frequency_limit.as_ref()?;
        let until_ms = limit.wait_until_ms(position, scope, now_ms);
        until_ms.map(SendDelay::Item)
    }

    /// Returns a queue for the updates of one item. Returns `None` if only the latest value is
    /// queued.
    fn new_queue(&self, sub_id: u32, delivery: DeliveryMode) -> Option<Box<UpdateQueue>> {
        if delivery.conflates_to_latest() {
            return None;
        }
        let limit = self.subscription(sub_id)?.frequency_limit.as_ref();
        let buffer = limit.map(|limit| limit.buffer).filter(|buffer| *buffer > 0);
        let updates_max = buffer.unwrap_or(usize::MAX);
        Some(Box::new(UpdateQueue::new(delivery, updates_max)))
    }

    fn note_sent(
        &mut self,
        (sub_id, position): ItemAt,
        scope: FrequencyScope<'_>,
        bytes: usize,
        now_ms: u64,
    ) {
        if let Some(bucket) = self.bandwidth_mut() {
            bucket.spend(bytes, now_ms);
        }
        let subscription = self.subscription_mut(sub_id);
        if let Some(limit) = subscription.and_then(|one| one.frequency_limit.as_mut()) {
            limit.note_sent(position, scope, now_ms);
        }
    }
}

impl<S: Subscriber> SessionLimits for S {}
