//! Limits of a subscription: the smallest of what was requested and what the adapter allows.

use weir_identity::ari::{ItemData, UserItemData};
use weir_identity::{ItemMode, ItemModes};

use super::refusal::{MODE, SubscriptionRefusal, UNFILTERED_LIMITED, UNFILTERED_SOURCE};

/// Limits that the client, item rules and the configuration have set.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RequestedLimits {
    /// Mode.
    pub mode: ItemMode,
    /// The client wants every update.
    pub unfiltered: bool,
    /// Updates per second of an item.
    pub frequency_max: Option<f64>,
    /// Updates that wait for the client.
    pub buffer_size: Option<u32>,
    /// Updates of the snapshot in mode DISTINCT.
    pub snapshot_length: Option<u32>,
}

/// Limits that apply; `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq)]
#[allow(missing_docs)] // as in the requested ones
pub struct AdapterLimits {
    pub frequency_max: Option<f64>,
    pub buffer_size: Option<u32>,
    pub snapshot_length: Option<u32>,
}

impl RequestedLimits {
    /// Returns the limits for items with these properties. The strictest item counts.
    pub(super) fn restrict(
        &self,
        items: &[(ItemData, UserItemData)],
    ) -> Result<AdapterLimits, SubscriptionRefusal> {
        let mut limits = AdapterLimits {
            frequency_max: self.frequency_max,
            buffer_size: self.buffer_size,
            snapshot_length: self.snapshot_length,
        };
        for (item, user) in items {
            self.check(item, user)?;
            if user.frequency_max > 0.0 {
                let frequency = limits.frequency_max.unwrap_or(f64::INFINITY);
                limits.frequency_max = Some(frequency.min(user.frequency_max));
            }
            let buffer_size = u32::try_from(user.buffer_size)
                .ok()
                .filter(|size| *size > 0);
            limits.buffer_size = smaller(limits.buffer_size, buffer_size);
            // 0 means no snapshot, not an unlimited one.
            let length = u32::try_from(item.snapshot_length).unwrap_or(0);
            limits.snapshot_length = smaller(limits.snapshot_length, Some(length));
        }
        Ok(limits)
    }

    fn check(&self, item: &ItemData, user: &UserItemData) -> Result<(), SubscriptionRefusal> {
        let modes = |modes: Option<ItemModes>| modes.unwrap_or_default();
        let both = modes(item.modes).and(modes(user.modes));
        if !both.contains(self.mode) {
            return Err(SubscriptionRefusal::reject(MODE, "mode not allowed"));
        }
        if self.unfiltered && user.frequency_max > 0.0 {
            let text = "unfiltered is not possible with a frequency limit";
            return Err(SubscriptionRefusal::reject(UNFILTERED_LIMITED, text));
        }
        if self.unfiltered && item.source_frequency > 0.0 {
            let text = "unfiltered is not possible for this item";
            return Err(SubscriptionRefusal::reject(UNFILTERED_SOURCE, text));
        }
        Ok(())
    }
}

fn smaller(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    one.into_iter().chain(other).min()
}
