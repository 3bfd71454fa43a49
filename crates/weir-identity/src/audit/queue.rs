//! Bounded queue between the event loops and the writer of the audit log.

use std::collections::VecDeque;

use super::record::{AuditEvent, AuditOutcome, AuditRecord};

/// Records that wait for the writer. When the queue is full, allowed subscriptions are dropped
/// first, the oldest before others; then the new record is.
#[derive(Debug)]
pub struct AuditQueue {
    records: VecDeque<AuditRecord>,
    count_max: usize,
    /// Allowed subscriptions in the queue.
    minor_count: usize,
    dropped: AuditDropped,
}

/// Numbers of dropped records.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct AuditDropped {
    /// Allowed subscriptions.
    pub allowed_subscriptions: u64,
    /// Other records.
    pub others: u64,
}

impl AuditQueue {
    /// Creates a queue for at most `count_max` records.
    pub fn new(count_max: usize) -> Self {
        Self {
            records: VecDeque::new(),
            count_max,
            minor_count: 0,
            dropped: AuditDropped::default(),
        }
    }

    /// Adds a record.
    pub fn push(&mut self, record: AuditRecord) {
        let minor = is_minor(&record);
        if self.records.len() >= self.count_max {
            if minor {
                self.dropped.allowed_subscriptions += 1;
                return;
            }
            if self.minor_count == 0 {
                self.dropped.others += 1;
                return;
            }
            self.dropped.allowed_subscriptions += 1;
            self.minor_count -= 1;
            let place = self.records.iter().position(is_minor);
            place.and_then(|place| self.records.remove(place));
        }
        self.minor_count += usize::from(minor);
        self.records.push_back(record);
    }

    /// Removes the oldest record.
    pub fn pop(&mut self) -> Option<AuditRecord> {
        let record = self.records.pop_front()?;
        self.minor_count -= usize::from(is_minor(&record));
        Some(record)
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Returns `true` if there are no records.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Returns the numbers of records dropped so far.
    pub fn dropped(&self) -> AuditDropped {
        self.dropped
    }
}

fn is_minor(record: &AuditRecord) -> bool {
    record.event() == AuditEvent::Subscribe && record.outcome() == AuditOutcome::Allow
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: AuditEvent, outcome: AuditOutcome) -> AuditRecord {
        AuditRecord::new("gw", 0, event, outcome)
    }

    #[test]
    fn allowed_subscriptions_are_dropped_first() {
        let allowed = record(AuditEvent::Subscribe, AuditOutcome::Allow);
        let denied = record(AuditEvent::Subscribe, AuditOutcome::Deny);
        let mut queue = AuditQueue::new(3);
        queue.push(allowed.clone());
        queue.push(denied.clone());
        queue.push(allowed.clone());
        queue.push(allowed.clone());
        queue.push(denied.clone());
        queue.push(denied.clone());
        queue.push(denied.clone());
        let dropped = AuditDropped {
            allowed_subscriptions: 3,
            others: 1,
        };
        assert_eq!(queue.dropped(), dropped);
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(left, vec![denied; 3]);
        assert!(queue.is_empty() && queue.minor_count == 0);
    }
}
