//! Resources of all subscriptions over all event loops: number, items and estimated memory.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::limit::AdmissionLimit;
use crate::config::GatewayLimits;

/// Resources of a set of subscriptions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SubscriptionUsage {
    pub(crate) subscriptions: usize,
    pub(crate) items: usize,
    /// Estimated memory in bytes.
    pub(crate) bytes: usize,
}

/// Resources of all subscriptions and their limits; a limit of 0 means none.
#[derive(Debug)]
pub(crate) struct TotalSubscriptionUsage {
    max: SubscriptionUsage,
    subscriptions: AtomicUsize,
    items: AtomicUsize,
    bytes: AtomicUsize,
}

impl TotalSubscriptionUsage {
    pub(super) fn new(limits: &GatewayLimits) -> Self {
        Self {
            max: SubscriptionUsage {
                subscriptions: limits.subscriptions,
                items: limits.items,
                bytes: limits.subscription_bytes,
            },
            subscriptions: AtomicUsize::new(0),
            items: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Replaces the counts of one event loop. Other event loops may add between [`Self::may_add`]
    /// and this call, so a limit can be exceeded by one subscription per event loop.
    pub(crate) fn replace(&self, before: SubscriptionUsage, after: SubscriptionUsage) {
        for (total, before, after) in [
            (
                &self.subscriptions,
                before.subscriptions,
                after.subscriptions,
            ),
            (&self.items, before.items, after.items),
            (&self.bytes, before.bytes, after.bytes),
        ] {
            if after != before {
                total.fetch_add(after.wrapping_sub(before), Ordering::Relaxed);
            }
        }
    }

    pub(super) fn may_add(&self, wanted: SubscriptionUsage) -> Result<(), AdmissionLimit> {
        let exceeds = |total: &AtomicUsize, more: usize, max: usize| {
            max > 0 && total.load(Ordering::Relaxed).saturating_add(more) > max
        };
        if exceeds(
            &self.subscriptions,
            wanted.subscriptions,
            self.max.subscriptions,
        ) {
            Err(AdmissionLimit::Subscriptions)
        } else if exceeds(&self.items, wanted.items, self.max.items) {
            Err(AdmissionLimit::Items)
        } else if exceeds(&self.bytes, wanted.bytes, self.max.bytes) {
            Err(AdmissionLimit::SubscriptionBytes)
        } else {
            Ok(())
        }
    }
}
