//! Delivery check of one client, updated with each delivery.

use std::cmp::Ordering;

use weir_stats::CompactHistogram;

use super::ledger::{Expected, Ledger, WindowRecords};
use super::summary::{DeliveryCounts, DeliverySummary};
use crate::keys::KeyId;
use crate::stamp::Stamp;

/// Maximum number of stored gaps per key and producer. Beyond it, the records of the oldest gap
/// count as lost. If one of them arrives later, it is `unchecked`, because it could be a duplicate.
const GAPS_PER_STREAM_MAX: usize = 1024;

/// Permission to send the newest state instead of every record.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Conflation {
    /// Every record must arrive; a missing one is lost.
    #[default]
    Forbidden,
    /// Records of a key may be skipped if a later one of the same key arrives. They count as
    /// conflated. Without a later one they are lost.
    Allowed,
}

/// Result of one delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeliveryCheck {
    /// The next record in order, or the first one.
    InOrder,
    /// This number of records before it is missing so far.
    AfterGap(u64),
    /// The record was delivered before.
    Duplicate,
    /// The record fills a gap: it is late, not lost.
    Reordered,
    /// Too old to be distinguished from a duplicate; see [`GAPS_PER_STREAM_MAX`].
    Unknown,
}

/// Checker of one client's deliveries; about 50 bytes per key and producer while nothing is lost.
#[derive(Debug, Clone, Default)]
pub struct DeliveryChecker {
    /// Sorted by key and producer; most clients have a handful.
    streams: Vec<SequenceState>,
    /// Latest due time per key, sorted by key; used only with conflation.
    newest: Vec<(KeyId, u64)>,
    conflation: Conflation,
    counts: DeliveryCounts,
}

/// Received sequence numbers of one key and producer.
#[derive(Debug, Clone)]
struct SequenceState {
    key: KeyId,
    producer: u32,
    first_seq: u64,
    highest_seq: u64,
    gaps: Option<Box<Gaps>>,
}

#[derive(Debug, Clone, Default)]
struct Gaps {
    /// Ascending, disjoint.
    open: Vec<Gap>,
    /// Records of removed gaps that were detected in the measured window.
    dropped_in_window: u64,
    /// Lower sequence numbers may belong to a removed gap.
    dropped_below: u64,
}

/// Missing records `from .. from + len`.
#[derive(Debug, Clone, Copy)]
struct Gap {
    from: u64,
    len: u64,
    /// The gap was detected by a record due in the measured window.
    in_window: bool,
}

impl DeliveryChecker {
    /// Creates a checker without deliveries.
    pub fn new(conflation: Conflation) -> Self {
        Self {
            conflation,
            ..Self::default()
        }
    }

    /// Counts one delivery. `in_window`: the record was due in the measured window.
    pub fn on_delivery(&mut self, key: KeyId, stamp: &Stamp, in_window: bool) -> DeliveryCheck {
        if self.conflation == Conflation::Allowed {
            self.update_newest(key, stamp.due_unix_ns);
        }
        self.count((key, stamp.producer), stamp.seq, in_window, |stream| {
            stream.on_seq(stamp.seq, in_window)
        })
    }

    /// Counts a delivery of which only the offset is known, for an item with some of the records of
    /// a partition. Offsets between two deliveries may belong to other items, so gaps are not
    /// detected. An offset below the highest is reordered; the highest offset again is a duplicate.
    pub fn on_sparse_offset(
        &mut self,
        key: KeyId,
        partition: u32,
        offset: u64,
        in_window: bool,
    ) -> DeliveryCheck {
        self.count((key, partition), offset, in_window, |stream| {
            stream.on_sparse(offset)
        })
    }

    /// Counts a delivery. `deliver` checks it, unless it is the first of its sequence.
    fn count(
        &mut self,
        (key, producer): (KeyId, u32),
        seq: u64,
        in_window: bool,
        deliver: impl FnOnce(&mut SequenceState) -> DeliveryCheck,
    ) -> DeliveryCheck {
        let check = match self.find(key, producer) {
            Ok(at) => deliver(&mut self.streams[at]),
            Err(at) => {
                let first = SequenceState {
                    key,
                    producer,
                    first_seq: seq,
                    highest_seq: seq,
                    gaps: None,
                };
                self.streams.insert(at, first);
                DeliveryCheck::InOrder
            }
        };
        self.counts.updates_total += 1;
        if in_window {
            self.counts.deliveries_in_window += 1;
            match check {
                DeliveryCheck::Duplicate => self.counts.duplicated += 1,
                DeliveryCheck::Reordered => self.counts.reordered += 1,
                DeliveryCheck::Unknown => self.counts.unchecked += 1,
                DeliveryCheck::InOrder | DeliveryCheck::AfterGap(_) => {}
            }
        }
        check
    }

    /// Counts a delivery without a stamp, which cannot be checked.
    pub fn on_unstamped(&mut self, in_window: bool) {
        self.counts.updates_total += 1;
        self.counts.deliveries_in_window += u64::from(in_window);
        self.counts.unchecked += u64::from(in_window);
    }

    /// Returns the conflation setting.
    pub fn conflation(&self) -> Conflation {
        self.conflation
    }

    /// Returns the current counts. Only [`Self::settle`] sets `lost` and `conflated`.
    pub fn counts(&self) -> &DeliveryCounts {
        &self.counts
    }

    /// Returns the final counts. A record of the ledger that did not arrive is lost; with
    /// conflation and a later record of the key it is conflated.
    pub fn settle(&self, ledger: &Ledger, expected: Expected) -> DeliveryCounts {
        let mut counts = self.counts;
        for records in ledger.expected(expected) {
            let (before_highest, after_highest) =
                match self.find(records.key, records.entry.producer) {
                    Ok(at) => self.streams[at].absent(records),
                    Err(_) => (0, records.count_in(0, u64::MAX)),
                };
            if self.conflation == Conflation::Forbidden {
                counts.lost += before_highest + after_highest;
                continue;
            }
            // A later record of the same key from another producer supersedes these, too. Without
            // one, the last record is lost.
            let superseded = self.newest_of(records.key) > records.entry.last_due_unix_ns;
            let lost = u64::from(after_highest > 0 && !superseded);
            counts.lost += lost;
            counts.conflated += before_highest + after_highest - lost;
        }
        counts
    }

    /// Returns the final counts without a ledger. Only gaps between delivered records are known;
    /// those detected within the window count.
    pub fn settle_without_ledger(&self) -> DeliveryCounts {
        let mut counts = self.counts;
        let absent: u64 = self
            .streams
            .iter()
            .map(SequenceState::absent_in_window)
            .sum();
        match self.conflation {
            Conflation::Forbidden => counts.lost += absent,
            Conflation::Allowed => counts.conflated += absent,
        }
        counts
    }

    fn find(&self, key: KeyId, producer: u32) -> Result<usize, usize> {
        self.streams
            .binary_search_by_key(&(key, producer), |stream| (stream.key, stream.producer))
    }

    fn update_newest(&mut self, key: KeyId, due_unix_ns: u64) {
        match self.newest.binary_search_by_key(&key, |entry| entry.0) {
            Ok(at) => self.newest[at].1 = self.newest[at].1.max(due_unix_ns),
            Err(at) => self.newest.insert(at, (key, due_unix_ns)),
        }
    }

    fn newest_of(&self, key: KeyId) -> u64 {
        let at = self.newest.binary_search_by_key(&key, |entry| entry.0);
        at.map_or(0, |at| self.newest[at].1)
    }
}

impl DeliverySummary {
    /// Settles clients and adds them, each with the records due to it. `early` is the number of
    /// arrivals before their due time.
    pub(crate) fn settle<'a>(
        &mut self,
        clients: impl Iterator<Item = (&'a DeliveryChecker, &'a CompactHistogram, Expected)>,
        ledger: Option<&Ledger>,
        early: u64,
    ) {
        self.settled = ledger.is_some();
        for (checker, latency, expected) in clients {
            let counts = match ledger {
                Some(ledger) => checker.settle(ledger, expected),
                None => checker.settle_without_ledger(),
            };
            self.add_client(&counts, latency.percentile_us(99.0));
        }
        if early > 0 {
            let text = "arrivals before their due time (clocks disagree)".to_owned();
            self.errors.insert(text, early);
        }
    }
}

impl SequenceState {
    /// Handles an offset of a sparse sequence, where gaps are no losses.
    fn on_sparse(&mut self, seq: u64) -> DeliveryCheck {
        match seq.cmp(&self.highest_seq) {
            Ordering::Greater => {
                self.highest_seq = seq;
                DeliveryCheck::InOrder
            }
            Ordering::Equal => DeliveryCheck::Duplicate,
            Ordering::Less => DeliveryCheck::Reordered,
        }
    }

    fn on_seq(&mut self, seq: u64, in_window: bool) -> DeliveryCheck {
        if seq > self.highest_seq {
            let from = self.highest_seq + 1;
            self.highest_seq = seq;
            if seq == from {
                return DeliveryCheck::InOrder;
            }
            let gaps = self.gaps.get_or_insert_default();
            gaps.insert(gaps.open.len(), from, seq - from, in_window);
            return DeliveryCheck::AfterGap(seq - from);
        }
        if seq < self.first_seq {
            // Older than the first delivery: the records between are missing, too.
            let (from, len) = (seq + 1, self.first_seq - seq - 1);
            self.first_seq = seq;
            if len > 0 {
                let gaps = self.gaps.get_or_insert_default();
                gaps.insert(0, from, len, in_window);
            }
            return DeliveryCheck::Reordered;
        }
        match &mut self.gaps {
            Some(gaps) => gaps.fill(seq),
            None => DeliveryCheck::Duplicate,
        }
    }

    /// Returns the numbers of records that did not arrive, before and after the highest one.
    fn absent(&self, records: &WindowRecords) -> (u64, u64) {
        let mut before = records.count_in(0, self.first_seq);
        if let Some(gaps) = &self.gaps {
            let open = gaps
                .open
                .iter()
                .map(|gap| records.count_in(gap.from, gap.end()));
            before += gaps.dropped_in_window + open.sum::<u64>();
        }
        let after = records.count_in(self.highest_seq.saturating_add(1), u64::MAX);
        (before, after)
    }

    fn absent_in_window(&self) -> u64 {
        let Some(gaps) = &self.gaps else { return 0 };
        let open = gaps.open.iter().filter(|gap| gap.in_window);
        gaps.dropped_in_window + open.map(|gap| gap.len).sum::<u64>()
    }
}

impl Gaps {
    fn insert(&mut self, at: usize, from: u64, len: u64, in_window: bool) {
        let gap = Gap {
            from,
            len,
            in_window,
        };
        self.open.insert(at, gap);
        if self.open.len() <= GAPS_PER_STREAM_MAX {
            return;
        }
        let gap = self.open.remove(0);
        self.dropped_below = self.dropped_below.max(gap.end());
        if gap.in_window {
            self.dropped_in_window += gap.len;
        }
    }

    /// Removes a late record from its gap.
    fn fill(&mut self, seq: u64) -> DeliveryCheck {
        let after = self.open.partition_point(|gap| gap.from <= seq);
        let hit = after.checked_sub(1).filter(|&at| seq < self.open[at].end());
        let Some(at) = hit else {
            return match seq < self.dropped_below {
                true => DeliveryCheck::Unknown,
                false => DeliveryCheck::Duplicate,
            };
        };
        let gap = &mut self.open[at];
        let (left, right) = (seq - gap.from, gap.end() - seq - 1);
        match (left, right) {
            (0, 0) => drop(self.open.remove(at)),
            (0, _) => (gap.from, gap.len) = (seq + 1, right),
            (_, 0) => gap.len = left,
            _ => {
                gap.len = left;
                let in_window = gap.in_window;
                self.insert(at + 1, seq + 1, right, in_window);
            }
        }
        DeliveryCheck::Reordered
    }
}

impl Gap {
    fn end(&self) -> u64 {
        self.from.saturating_add(self.len)
    }
}

#[cfg(test)]
mod tests;
