//! Resources of all subscriptions over all event loops: number, items and estimated memory.

use std::sync::Mutex;

use super::limit::AdmissionLimit;
use crate::limits::GatewayLimits;
use weir_net::lock;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SubscriptionUsage {
    pub(crate) subscriptions: usize,
    pub(crate) items: usize,
    pub(crate) bytes: usize,
}

/// Resources of all subscriptions and their limits; a limit of 0 means none.
#[derive(Debug)]
pub(crate) struct TotalSubscriptionUsage {
    max: SubscriptionUsage,
    held: Mutex<SubscriptionUsage>,
}

impl TotalSubscriptionUsage {
    pub(super) fn new(limits: &GatewayLimits) -> Self {
        Self {
            max: SubscriptionUsage {
                subscriptions: limits.subscriptions,
                items: limits.items,
                bytes: limits.subscription_bytes,
            },
            held: Mutex::default(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        lock(&self.held).bytes
    }

    /// Replaces the counts of one event loop. Other event loops may add between [`Self::may_add`]
    /// and this call, so a limit can be exceeded by one subscription per event loop.
    pub(crate) fn replace(&self, before: SubscriptionUsage, after: SubscriptionUsage) {
        if before != after {
            let mut held = lock(&self.held);
            held.subscriptions = held.subscriptions - before.subscriptions + after.subscriptions;
            held.items = held.items - before.items + after.items;
            held.bytes = held.bytes - before.bytes + after.bytes;
        }
    }

    pub(super) fn may_add(&self, wanted: SubscriptionUsage) -> Result<(), AdmissionLimit> {
        let (held, max) = (*lock(&self.held), self.max);
        let exceeds = |held: usize, more, max| max > 0 && held.saturating_add(more) > max;
        if exceeds(held.subscriptions, wanted.subscriptions, max.subscriptions) {
            Err(AdmissionLimit::Subscriptions)
        } else if exceeds(held.items, wanted.items, max.items) {
            Err(AdmissionLimit::Items)
        } else if exceeds(held.bytes, wanted.bytes, max.bytes) {
            Err(AdmissionLimit::SubscriptionBytes)
        } else {
            Ok(())
        }
    }
}
