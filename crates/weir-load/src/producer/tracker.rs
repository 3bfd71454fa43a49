//! Tracks in-flight records, and their results by key and producer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use slab::Slab;

use crate::delivery::count_error;
use crate::stamp::Stamp;
use crate::worker::protocol::{LedgerEntry, Schedule};

/// Delivery report of one record.
#[derive(Debug, Clone)]
pub(super) struct ProduceAck {
    pub(super) token: usize,
    pub(super) at_unix_ns: u64,
    /// Error, if the broker did not store the record.
    pub(super) error: Option<String>,
}

/// Acknowledgements from librdkafka's thread to the sender; at most one per in-flight record.
pub(super) type AckQueue = Arc<Mutex<Vec<ProduceAck>>>;

/// Tracks records from sequence number to acknowledgement. Used by the sending thread only.
#[derive(Debug)]
pub(super) struct Tracker {
    /// One stream of sequence numbers for each key and producer.
    streams: Vec<SequenceCounters>,
    in_flight: Slab<InFlight>,
    /// Schedule with the measured window. The window may only be moved if no record sent so far is
    /// due in the new one.
    pub(super) window: Schedule,
    pub(super) acked: u64,
    pub(super) acked_in_window: u64,
    pub(super) failed: u64,
    pub(super) errors: BTreeMap<String, u64>,
}

#[derive(Debug, Clone, Default)]
struct SequenceCounters {
    next_seq: u64,
    /// First and last sequence number due in the measured window.
    window: Option<(u64, u64)>,
    last_due_unix_ns: u64,
    failed: Vec<u64>,
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    stream: usize,
    seq: u64,
    due_unix_ns: u64,
    sent_unix_ns: u64,
    in_window: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AckedRecord {
    /// Time from the send to the acknowledgement.
    pub(super) ack_ns: u64,
    /// Time from the due time to the acknowledgement.
    pub(super) since_due_ns: u64,
    /// The record was due in the measured window.
    pub(super) in_window: bool,
}

impl Tracker {
    pub(super) fn new(streams: usize, window: Schedule) -> Self {
        Self {
            streams: vec![SequenceCounters::default(); streams],
            in_flight: Slab::new(),
            window,
            acked: 0,
            acked_in_window: 0,
            failed: 0,
            errors: BTreeMap::new(),
        }
    }

    /// Returns the sequence number of the next record of `stream`. [`sent`](Self::sent) and
    /// [`rejected`](Self::rejected) advance it.
    pub(super) fn next_seq(&self, stream: usize) -> u64 {
        self.streams[stream].next_seq
    }

    pub(super) fn next_token(&self) -> usize {
        self.in_flight.vacant_key()
    }

    /// Registers a sent record with the token [`next_token`](Self::next_token).
    pub(super) fn sent(&mut self, stream: usize, stamp: &Stamp, sent_unix_ns: u64) {
        let in_window = self.take_seq(stream, stamp);
        self.in_flight.insert(InFlight {
            stream,
            seq: stamp.seq,
            due_unix_ns: stamp.due_unix_ns,
            sent_unix_ns,
            in_window,
        });
    }

    /// Registers a record that librdkafka rejected with a permanent error.
    pub(super) fn rejected(&mut self, stream: usize, stamp: &Stamp, reason: &str) {
        let in_window = self.take_seq(stream, stamp);
        self.fail(stream, stamp.seq, in_window, reason);
    }

    /// Handles a delivery report. Returns `None` for a failed record or an unknown token.
    pub(super) fn acknowledged(&mut self, ack: &ProduceAck) -> Option<AckedRecord> {
        let record = self.in_flight.try_remove(ack.token)?;
        if let Some(reason) = &ack.error {
            self.fail(record.stream, record.seq, record.in_window, reason);
            return None;
        }
        self.acked += 1;
        self.acked_in_window += u64::from(record.in_window);
        Some(AckedRecord {
            ack_ns: ack.at_unix_ns.saturating_sub(record.sent_unix_ns),
            since_due_ns: ack.at_unix_ns.saturating_sub(record.due_unix_ns),
            in_window: record.in_window,
        })
    }

    pub(super) fn unacknowledged(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns the acknowledged records that clients are checked against. In-flight records count
    /// as failed. `keys` are the names of the keys, `producers` the numbers of the producers:
    /// stream `s` has key `s / producers.len()`.
    pub(super) fn into_ledger(mut self, keys: &[String], producers: &[u32]) -> Vec<LedgerEntry> {
        for (_, record) in &self.in_flight {
            if record.in_window {
                self.streams[record.stream].failed.push(record.seq);
            }
        }
        let streams = self.streams.into_iter().enumerate();
        let entries = streams.filter_map(|(at, stream)| {
            let (key, producer) = (at / producers.len(), at % producers.len());
            stream.into_entry(&keys[key], producers[producer])
        });
        entries.collect()
    }

    fn take_seq(&mut self, stream: usize, stamp: &Stamp) -> bool {
        let in_window = self.window.in_window(stamp.due_unix_ns);
        let stream = &mut self.streams[stream];
        stream.next_seq = stamp.seq + 1;
        if in_window {
            let first = stream.window.map_or(stamp.seq, |(first, _)| first);
            stream.window = Some((first, stamp.seq));
            stream.last_due_unix_ns = stamp.due_unix_ns;
        }
        in_window
    }

    fn fail(&mut self, stream: usize, seq: u64, in_window: bool, reason: &str) {
        self.failed += 1;
        count_error(&mut self.errors, reason);
        if in_window {
            self.streams[stream].failed.push(seq);
        }
    }
}

impl SequenceCounters {
    /// Returns the first and last acknowledged sequence numbers and the failed ones between them;
    /// `None` if no record was acknowledged in the window.
    fn into_entry(mut self, key: &str, producer: u32) -> Option<LedgerEntry> {
        let (mut first, mut last) = self.window?;
        let mut failed = std::mem::take(&mut self.failed);
        failed.sort_unstable();
        let mut start = 0;
        while failed.get(start) == Some(&first) {
            start += 1;
            first += 1;
        }
        let mut last_due_unix_ns = self.last_due_unix_ns;
        while failed.len() > start && failed.last() == Some(&last) {
            failed.pop();
            last -= 1;
            // The due times of earlier records are not stored.
            last_due_unix_ns = 0;
        }
        if first > last {
            return None;
        }
        Some(LedgerEntry {
            key: key.to_owned(),
            producer,
            first_seq: first,
            last_seq: last,
            missing: failed.split_off(start),
            last_due_unix_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Schedule = Schedule {
        start_unix_ns: 0,
        measure_from_unix_ns: 10,
        measure_until_unix_ns: 20,
        stop_unix_ns: 30,
    };

    fn stamp(tracker: &Tracker, stream: usize, due_unix_ns: u64) -> Stamp {
        Stamp {
            due_unix_ns,
            producer: 0,
            seq: tracker.next_seq(stream),
            sent_unix_ns: None,
        }
    }

    fn send(tracker: &mut Tracker, stream: usize, due: u64) -> usize {
        let token = tracker.next_token();
        let stamp = stamp(tracker, stream, due);
        tracker.sent(stream, &stamp, due + 1);
        token
    }

    fn acknowledge(
        tracker: &mut Tracker,
        token: usize,
        error: Option<&str>,
    ) -> Option<AckedRecord> {
        tracker.acknowledged(&ProduceAck {
            token,
            at_unix_ns: 100,
            error: error.map(str::to_owned),
        })
    }

    #[test]
    fn ledger_has_acknowledged_records_of_window() {
        let mut tracker = Tracker::new(4, WINDOW);
        let tokens: Vec<_> = (5..25).map(|due| send(&mut tracker, 2, due)).collect();
        // Number n is due at n + 5. Due 10, 11 and 14 fail, 19 is never acknowledged.
        for (n, token) in tokens.iter().enumerate() {
            match n {
                5 | 6 | 9 => assert_eq!(acknowledge(&mut tracker, *token, Some("timed out")), None),
                14 => {}
                _ => assert!(acknowledge(&mut tracker, *token, None).is_some()),
            }
        }
        assert_eq!(
            (tracker.acked, tracker.failed, tracker.unacknowledged()),
            (16, 3, 1)
        );
        assert_eq!(tracker.acked_in_window, 6);
        assert_eq!(tracker.errors["timed out"], 3);
        let keys = ["Apple".to_owned(), "Fig".to_owned()];
        let entry = LedgerEntry {
            key: "Fig".to_owned(),
            producer: 0,
            first_seq: 7,
            last_seq: 13,
            missing: vec![9],
            last_due_unix_ns: 0,
        };
        assert_eq!(tracker.into_ledger(&keys, &[0, 1]), [entry]);
    }

    #[test]
    fn moved_window_counts_from_its_start() {
        let mut tracker = Tracker::new(1, WINDOW);
        let early = send(&mut tracker, 0, 3);
        tracker.window = Schedule {
            measure_from_unix_ns: 5,
            measure_until_unix_ns: 8,
            ..WINDOW
        };
        let tokens = [5, 7, 12].map(|due| send(&mut tracker, 0, due));
        for token in [early].into_iter().chain(tokens) {
            assert!(acknowledge(&mut tracker, token, None).is_some());
        }
        assert_eq!((tracker.acked, tracker.acked_in_window), (4, 2));
        let ledger = tracker.into_ledger(&[String::new()], &[0]);
        assert_eq!((ledger[0].first_seq, ledger[0].last_seq), (1, 2));
    }

    #[test]
    fn failed_records_give_no_ledger_entry() {
        let mut tracker = Tracker::new(1, WINDOW);
        for due in [10, 11, 12] {
            let stamp = stamp(&tracker, 0, due);
            tracker.rejected(0, &stamp, "too large");
        }
        assert_eq!((tracker.failed, tracker.next_seq(0)), (3, 3));
        assert!(tracker.into_ledger(&[String::new()], &[0]).is_empty());
    }

    #[test]
    fn acknowledgement_counts_once_with_its_time() {
        let mut tracker = Tracker::new(1, WINDOW);
        let token = send(&mut tracker, 0, 10);
        let acked = AckedRecord {
            ack_ns: 89,
            since_due_ns: 90,
            in_window: true,
        };
        assert_eq!(acknowledge(&mut tracker, token, None), Some(acked));
        assert_eq!(acknowledge(&mut tracker, token, None), None);
        assert_eq!(tracker.acked, 1);
        let ledger = tracker.into_ledger(&[String::new()], &[0]);
        assert_eq!((ledger[0].last_seq, ledger[0].last_due_unix_ns), (0, 10));
    }
}
