//! Limits the rejections of an address that are written per second; the rest is summarized.

use foldhash::{HashMap, HashMapExt};

use super::record::AuditEvent;

/// Limits of rejections in the audit log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RejectionLimits {
    /// Rejections per address and second that are written.
    pub per_second: u32,
    /// Addresses that are counted; rejections of further ones share one counter.
    pub addresses_max: usize,
}

impl Default for RejectionLimits {
    fn default() -> Self {
        Self {
            per_second: 100,
            addresses_max: 16_384,
        }
    }
}

/// Counts rejections per address in the current second.
#[derive(Debug)]
pub struct RejectionLimiter {
    limits: RejectionLimits,
    second: u64,
    by_address: HashMap<Box<str>, RejectionCount>,
    /// Rejections of addresses that are not counted for themselves.
    others: RejectionCount,
    /// `true` if a rejection of this second was not written.
    has_excess: bool,
}

#[derive(Debug, Clone, Copy)]
struct RejectionCount {
    count: u32,
    /// Event of the last one.
    event: AuditEvent,
}

impl Default for RejectionCount {
    fn default() -> Self {
        Self {
            count: 0,
            event: AuditEvent::Create,
        }
    }
}

/// Rejections of an address that were not written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RejectionSummary {
    /// Address; `None` for all that were not counted for themselves.
    pub address: Option<Box<str>>,
    /// Event of the last one.
    pub event: AuditEvent,
    /// Rejections that were not written.
    pub count: u32,
}

impl RejectionLimiter {
    /// Creates a limiter.
    pub fn new(limits: RejectionLimits) -> Self {
        Self {
            limits,
            second: 0,
            by_address: HashMap::new(),
            others: RejectionCount::default(),
            has_excess: false,
        }
    }

    /// Counts a rejection. Returns `true` if it is to be written. The caller first takes the
    /// summaries of the last second.
    pub fn admit(&mut self, address: &str, event: AuditEvent) -> bool {
        let is_full = self.by_address.len() >= self.limits.addresses_max;
        let counted = match self.by_address.get_mut(address) {
            Some(counted) => counted,
            None if is_full => &mut self.others,
            None => self.by_address.entry(address.into()).or_default(),
        };
        let count = counted.count.saturating_add(1);
        *counted = RejectionCount { count, event };
        let is_admitted = count <= self.limits.per_second;
        self.has_excess |= !is_admitted;
        is_admitted
    }

    /// Returns `true` if [`Self::summaries`] has something to return after this second.
    pub fn has_excess(&self) -> bool {
        self.has_excess
    }

    /// Returns the summaries of the last second once a new one has begun, sorted by address.
    pub fn summaries(&mut self, now_ms: u64) -> Vec<RejectionSummary> {
        let second = now_ms / 1_000;
        if second == self.second {
            return Vec::new();
        }
        self.second = second;
        self.has_excess = false;
        let per_second = self.limits.per_second;
        let summary = |address, counted: RejectionCount| {
            let count = counted.count.saturating_sub(per_second);
            let event = counted.event;
            (count > 0).then_some(RejectionSummary {
                address,
                event,
                count,
            })
        };
        let counted = self.by_address.drain();
        let counted = counted.filter_map(|(address, counted)| summary(Some(address), counted));
        let mut found: Vec<_> = counted.collect();
        found.extend(summary(None, std::mem::take(&mut self.others)));
        found.sort_unstable_by(|one, other| one.address.cmp(&other.address));
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn excess_rejections_are_summarized() {
        let mut limiter = RejectionLimiter::new(RejectionLimits {
            per_second: 2,
            addresses_max: 2,
        });
        assert_eq!(limiter.summaries(5_000), []);
        let admitted = |limiter: &mut RejectionLimiter, address| {
            let event = AuditEvent::Subscribe;
            (0..5).filter(|_| limiter.admit(address, event)).count()
        };
        for address in ["a", "b", "c"] {
            assert_eq!(admitted(&mut limiter, address), 2, "{address}");
        }
        assert_eq!(admitted(&mut limiter, "d"), 0, "shares the counter of c");
        assert!(limiter.has_excess());
        assert_eq!(limiter.summaries(5_999), []);
        let summary = |address: Option<&str>, count| RejectionSummary {
            address: address.map(Into::into),
            event: AuditEvent::Subscribe,
            count,
        };
        let expected = [
            summary(None, 8),
            summary(Some("a"), 3),
            summary(Some("b"), 3),
        ];
        assert_eq!(limiter.summaries(6_000), expected);
        assert_eq!(limiter.summaries(7_000), []);
        assert!(limiter.admit("a", AuditEvent::Create) && !limiter.has_excess());
    }
}
