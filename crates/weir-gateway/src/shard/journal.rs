//! Sent and unsent data notifications of a session, as references to frames that other sessions may
//! share.
//!
//! After a lost connection, a client reports how many data notifications it has received. The
//! journal continues from there if it still has the following ones.

use std::collections::VecDeque;

use bytes::Bytes;

#[derive(Debug, Clone, Copy)]
pub(super) struct JournalLimits {
    /// Bytes of one session's frames, including overhead; 0 stores nothing.
    pub(super) bytes: usize,
    /// Age of a frame since it was sent, in milliseconds.
    pub(super) age_ms: u64,
}

#[derive(Debug)]
struct JournalFrame {
    message: Bytes,
    /// Number of data notifications in the frame.
    count: u32,
    /// Low bits of the time at which it was sent, in milliseconds.
    at_ms: u32,
}

/// Frames of one session: first the sent ones, then the unsent ones.
#[derive(Debug, Default)]
pub(super) struct SessionJournal {
    frames: VecDeque<JournalFrame>,
    /// Number of the last data notification before the first frame.
    before: u64,
    /// Number of the last data notification before the current stream connection.
    stream_after: u64,
    sent: usize,
    sent_bytes: usize,
    unsent_bytes: usize,
}

impl JournalFrame {
    fn cost(&self) -> usize {
        self.message.len() + size_of::<Self>()
    }
}

impl SessionJournal {
    /// Creates a journal that starts after `before` data notifications.
    pub(super) fn new(before: u64) -> Self {
        Self {
            before,
            stream_after: before,
            ..Self::default()
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub(super) fn has_unsent(&self) -> bool {
        self.sent < self.frames.len()
    }

    pub(super) fn unsent_bytes(&self) -> usize {
        self.unsent_bytes
    }

    pub(super) fn bytes(&self) -> usize {
        self.sent_bytes + self.unsent_bytes
    }

    /// Stores a frame that is being sent. There must be no unsent frames.
    pub(super) fn push_sent(
        &mut self,
        message: Bytes,
        count: u32,
        now_ms: u64,
        limits: JournalLimits,
    ) {
        debug_assert!(!self.has_unsent(), "frames are sent in order");
        let frame = JournalFrame {
            message,
            count,
            at_ms: now_ms as u32,
        };
        self.sent_bytes += frame.cost();
        self.frames.push_back(frame);
        self.sent += 1;
        self.trim(now_ms, limits);
    }

    /// Stores an unsent frame. Returns `false` if more than `bytes_max` would be unsent.
    pub(super) fn push_unsent(&mut self, message: Bytes, count: u32, bytes_max: usize) -> bool {
        let fits = !self.has_unsent() || self.unsent_bytes + message.len() <= bytes_max;
        if fits {
            let frame = JournalFrame {
                message,
                count,
                at_ms: 0,
            };
            self.unsent_bytes += frame.cost();
            self.frames.push_back(frame);
        }
        fits
    }

    /// Returns `true` if no unsent line is longer than `line_max`.
    pub(super) fn is_readable(&self, line_max: u32) -> bool {
        let most = line_max as usize;
        let mut waiting = self.frames.range(self.sent..);
        waiting.all(|frame| {
            let lines = || frame.message.split_inclusive(|byte| *byte == b'\n');
            frame.message.len() <= most || lines().all(|line| line.len() <= most)
        })
    }

    pub(super) fn next_unsent(&self) -> Option<&Bytes> {
        self.frames.get(self.sent).map(|frame| &frame.message)
    }

    pub(super) fn advance(&mut self, now_ms: u64) {
        if let Some(frame) = self.frames.get_mut(self.sent) {
            frame.at_ms = now_ms as u32;
            self.unsent_bytes -= frame.cost();
            self.sent_bytes += frame.cost();
            self.sent += 1;
        }
    }

    /// Marks the frames after `received` data notifications as unsent.
    ///
    /// Returns the number of notifications before the first unsent frame, which may be lower.
    /// Returns `None` if the notifications are no longer stored or were never sent.
    pub(super) fn rewind(&mut self, received: u64) -> Option<u64> {
        let mut before = self.before;
        if received < before {
            return None;
        }
        let mut index = 0;
        while let Some(frame) = self.frames.get(index) {
            if before + u64::from(frame.count) > received {
                break;
            }
            before += u64::from(frame.count);
            index += 1;
        }
        let all = index == self.frames.len();
        if index > self.sent || (all && before != received) {
            return None;
        }
        for frame in self.frames.range(index..self.sent) {
            self.sent_bytes -= frame.cost();
            self.unsent_bytes += frame.cost();
        }
        self.sent = index;
        Some(before)
    }

    /// Remembers where a new stream connection starts, for [`Self::rewind_stream`].
    pub(super) fn begin_stream(&mut self) {
        let sent = self.frames.range(..self.sent);
        let count: u64 = sent.map(|frame| u64::from(frame.count)).sum();
        self.stream_after = self.before + count;
    }

    /// Marks the frames of the current stream connection as unsent, unless the first ones are no
    /// longer stored.
    pub(super) fn rewind_stream(&mut self) {
        self.rewind(self.stream_after);
    }

    pub(super) fn trim(&mut self, now_ms: u64, limits: JournalLimits) {
        while self.sent > 0 {
            let Some(first) = self.frames.front() else {
                return;
            };
            let age_ms = u64::from((now_ms as u32).wrapping_sub(first.at_ms));
            if self.sent_bytes <= limits.bytes && age_ms <= limits.age_ms {
                return;
            }
            self.sent_bytes -= first.cost();
            self.before += u64::from(first.count);
            self.sent -= 1;
            self.frames.pop_front();
        }
        if self.frames.is_empty() {
            self.frames.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LARGE: JournalLimits = JournalLimits {
        bytes: 1 << 20,
        age_ms: 20_000,
    };

    fn drain(journal: &mut SessionJournal) -> Vec<u8> {
        let mut out = Vec::new();
        while let Some(message) = journal.next_unsent() {
            out.push(message[0]);
            journal.advance(0);
        }
        out
    }

    #[test]
    fn rewind_continues_after_received_notifications() {
        let mut journal = SessionJournal::new(10);
        for (number, count) in [(1, 1), (2, 3), (3, 1)] {
            journal.push_sent(vec![number].into(), count, 0, LARGE);
        }
        for (received, from, replayed) in [
            (15, Some(15), vec![]),
            (14, Some(14), vec![3]),
            (13, Some(11), vec![2, 3]),
            (11, Some(11), vec![2, 3]),
            (10, Some(10), vec![1, 2, 3]),
            (9, None, vec![]),
            (16, None, vec![]),
        ] {
            assert_eq!(journal.rewind(received), from, "{received}");
            assert_eq!(drain(&mut journal), replayed);
        }
    }

    #[test]
    fn rewind_stream_continues_at_its_start() {
        let mut journal = SessionJournal::new(10);
        journal.push_sent(vec![1].into(), 2, 0, LARGE);
        journal.begin_stream();
        journal.push_sent(vec![2].into(), 1, 0, LARGE);
        journal.push_sent(vec![3].into(), 1, 0, LARGE);
        journal.rewind_stream();
        assert_eq!(drain(&mut journal), [2, 3]);
        let none = JournalLimits { bytes: 0, ..LARGE };
        journal.trim(0, none);
        journal.rewind_stream();
        assert!(drain(&mut journal).is_empty(), "no longer stored");
    }

    #[test]
    fn rewind_past_sent_notifications_fails() {
        let mut journal = SessionJournal::new(0);
        journal.push_sent(vec![1].into(), 1, 0, LARGE);
        assert!(journal.push_unsent(vec![2].into(), 2, 100));
        assert_eq!(journal.rewind(3), None);
        assert_eq!(journal.rewind(4), None);
        assert_eq!(journal.rewind(1), Some(1));
        assert_eq!(drain(&mut journal), [2]);
        assert_eq!(journal.rewind(3), Some(3));
    }

    #[test]
    fn limits_apply_to_sent_frames_only() {
        let mut journal = SessionJournal::new(0);
        let limits = JournalLimits {
            bytes: 3 * (100 + size_of::<JournalFrame>()),
            age_ms: 1_000,
        };
        for number in 0..5u64 {
            journal.push_sent(vec![number as u8; 100].into(), 1, number * 100, limits);
        }
        assert_eq!(journal.rewind(1), None);
        assert_eq!(journal.rewind(2), Some(2));
        assert_eq!(drain(&mut journal), [2, 3, 4]);
        assert!(journal.push_unsent(vec![9; 90].into(), 1, 150));
        assert!(!journal.push_unsent(vec![9; 90].into(), 1, 150));
        journal.trim(1_001, limits);
        assert!(journal.has_unsent() && journal.rewind(4).is_none());
        assert_eq!(journal.rewind(5), Some(5));
        assert_eq!(drain(&mut journal), [9]);
        journal.trim(1_001, limits);
        assert!(journal.is_empty() && journal.bytes() == 0);
        assert_eq!(journal.rewind(6), Some(6));
    }

    proptest! {
        /// After any sequence of sends, losses and recoveries, the client has every frame once.
        #[test]
        fn recovery_neither_loses_nor_repeats_frames(
            ops in proptest::collection::vec((0u8..4, 1u32..4, 0u64..40), 0..60),
        ) {
            let (mut journal, mut all, mut got) = (SessionJournal::new(0), 0u64, 0u64);
            let mut number = 0u8;
            for (op, count, back) in ops {
                match op {
                    0 | 1 if journal.has_unsent() || op == 1 => {
                        prop_assert!(journal.push_unsent(vec![number].into(), count, usize::MAX));
                        (all, number) = (all + u64::from(count), number + 1);
                    }
                    0 => {
                        journal.push_sent(vec![number].into(), count, 0, LARGE);
                        (all, number) = (all + u64::from(count), number + 1);
                        got = all;
                    }
                    2 => {
                        drain(&mut journal);
                        got = all;
                    }
                    _ => {
                        let received = got.saturating_sub(back);
                        let from = journal.rewind(received);
                        prop_assert!(from.is_some_and(|from| from <= received));
                        got = received;
                    }
                }
            }
            let from = journal.rewind(got).expect("all frames are stored");
            let counts: u64 = journal.frames.range(journal.sent..)
                .map(|frame| u64::from(frame.count)).sum();
            prop_assert_eq!(from + counts, all);
        }
    }
}
