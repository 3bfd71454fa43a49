//! Order of client messages of one session: sequences, missing numbers, repeated messages.
//!
//! A message of a sequence is processed after those with lower numbers. If some are missing, it
//! waits for them up to a time; then they are skipped, and count as used. The time is an argument.

use std::collections::{BTreeMap, BTreeSet, btree_map::Entry};

/// Numbers of unordered messages that are remembered above the first missing one. Beyond that, a
/// missing number counts as used.
const UNORDERED_SEEN_MAX: usize = 1_000;

/// A sequence of a [`MessageOrder`]; valid as long as that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(u32);

impl SequenceId {
    /// Unordered messages.
    pub const UNORDERED: Self = Self(0);
}

/// Sequences of one session, with the messages of type `M` that wait.
#[derive(Debug)]
pub struct MessageOrder<M> {
    /// Unordered messages first.
    sequences: Vec<Sequence<M>>,
    waiting: usize,
    in_progress: usize,
}

/// Number and content of a message that has arrived.
#[derive(Debug, Clone, Copy)]
pub struct MessageMark {
    /// `LS_msg_prog`, from 1.
    pub prog: u32,
    /// Hash of the content, to recognize a repeated request.
    pub digest: u64,
}

/// Treatment of a message that has arrived.
#[derive(Debug, PartialEq, Eq)]
pub enum Arrival<M> {
    /// Process it now, then call [`MessageOrder::finish`].
    Process(M),
    /// It waits for missing messages.
    Waits,
    /// The same message has arrived before and has no outcome yet.
    Repeated,
    /// Another message with this number has arrived before and has no outcome yet.
    InUse,
    /// The number is used or skipped.
    TooLow,
    /// It would have to wait, and there is no space.
    NoSpace,
}

/// The next step of a sequence.
#[derive(Debug, PartialEq, Eq)]
pub enum Release<M> {
    /// Process this message, then call [`MessageOrder::finish`].
    Message {
        /// Its number.
        prog: u32,
        /// The message as stored.
        message: M,
    },
    /// Messages did not arrive in time. They are used from now on.
    Skipped {
        /// The highest of their numbers.
        last: u32,
        /// How many there are, without gaps.
        count: u32,
    },
}

#[derive(Debug)]
struct Sequence<M> {
    name: Box<str>,
    /// Lowest number that is neither used nor skipped.
    next: u64,
    /// Messages that wait for `next`, by number.
    waiting: BTreeMap<u32, WaitingMessage<M>>,
    /// Hashes of the messages without an outcome that do not wait.
    in_progress: BTreeMap<u32, u64>,
    /// Used numbers above `next`, of unordered messages.
    seen: BTreeSet<u32>,
}

#[derive(Debug)]
struct WaitingMessage<M> {
    until_ms: u64,
    digest: u64,
    message: M,
}

impl<M> Default for MessageOrder<M> {
    fn default() -> Self {
        Self {
            sequences: vec![Sequence::new("")],
            waiting: 0,
            in_progress: 0,
        }
    }
}

impl<M> MessageOrder<M> {
    /// Returns the sequence with this name. A new one is added, unless there are `sequences_max`.
    pub fn sequence(&mut self, name: &str, sequences_max: usize) -> Option<SequenceId> {
        let named = self.sequences.iter().skip(1);
        let index = match named.clone().position(|one| *one.name == *name) {
            Some(index) => index,
            None if named.len() >= sequences_max => return None,
            None => {
                self.sequences.push(Sequence::new(name));
                self.sequences.len() - 2
            }
        };
        Some(SequenceId(index as u32 + 1))
    }

    /// Returns the name of a sequence; `None` for unordered messages.
    pub fn name(&self, id: SequenceId) -> Option<&str> {
        let named = (id != SequenceId::UNORDERED).then_some(id)?;
        Some(&self.sequences.get(named.0 as usize)?.name)
    }

    /// Handles a message that has arrived. `until_ms` limits the wait for missing messages.
    pub fn arrive(
        &mut self,
        id: SequenceId,
        mark: MessageMark,
        until_ms: u64,
        message: M,
        has_space: bool,
    ) -> Arrival<M> {
        let Some(sequence) = self.sequences.get_mut(id.0 as usize) else {
            return Arrival::NoSpace;
        };
        let MessageMark { prog, digest } = mark;
        let waiting = sequence.waiting.get(&prog).map(|one| one.digest);
        if let Some(earlier) = waiting.or_else(|| sequence.in_progress.get(&prog).copied()) {
            return match earlier == digest {
                true => Arrival::Repeated,
                false => Arrival::InUse,
            };
        }
        if u64::from(prog) < sequence.next || sequence.seen.contains(&prog) {
            return Arrival::TooLow;
        }
        if id == SequenceId::UNORDERED {
            sequence.see(prog);
        } else if u64::from(prog) == sequence.next {
            sequence.next += 1;
        } else if has_space {
            self.waiting += 1;
            let waiting = WaitingMessage {
                until_ms,
                digest,
                message,
            };
            sequence.waiting.insert(prog, waiting);
            return Arrival::Waits;
        } else {
            return Arrival::NoSpace;
        }
        sequence.in_progress.insert(prog, digest);
        self.in_progress += 1;
        Arrival::Process(message)
    }

    /// Returns the next step of a sequence, if there is one now. Call it until there is none, after
    /// a message of the sequence was processed and when a wait ends.
    pub fn release(&mut self, id: SequenceId, now_ms: u64) -> Option<Release<M>> {
        let sequence = self.sequences.get_mut(id.0 as usize)?;
        let (&prog, _) = sequence.waiting.first_key_value()?;
        if u64::from(prog) > sequence.next {
            let mut waits = sequence.waiting.values();
            if waits.all(|one| now_ms < one.until_ms) {
                return None;
            }
            let count = (u64::from(prog) - sequence.next) as u32;
            sequence.next = prog.into();
            let last = prog - 1;
            return Some(Release::Skipped { last, count });
        }
        let (prog, waiting) = sequence.waiting.pop_first()?;
        sequence.next += 1;
        sequence.in_progress.insert(prog, waiting.digest);
        self.waiting -= 1;
        self.in_progress += 1;
        let message = waiting.message;
        Some(Release::Message { prog, message })
    }

    /// Notes that a message has an outcome. From now on its number is used.
    pub fn finish(&mut self, id: SequenceId, prog: u32) {
        let sequence = self.sequences.get_mut(id.0 as usize);
        if let Some(Entry::Occupied(found)) = sequence.map(|one| one.in_progress.entry(prog)) {
            found.remove();
            self.in_progress -= 1;
        }
    }

    /// Returns the earliest time at which missing messages are skipped.
    pub fn next_timeout_ms(&self) -> Option<u64> {
        if self.waiting == 0 {
            return None;
        }
        let waiting = self.sequences.iter().flat_map(|one| one.waiting.values());
        waiting.map(|one| one.until_ms).min()
    }

    /// Returns the sequences in which missing messages are to be skipped now.
    pub fn overdue(&self, now_ms: u64) -> Vec<SequenceId> {
        let is_overdue = |one: &Sequence<M>| one.waiting.values().any(|it| it.until_ms <= now_ms);
        let all = (0..).zip(&self.sequences);
        all.filter(|(_, one)| is_overdue(one))
            .map(|(index, _)| SequenceId(index))
            .collect()
    }

    /// Returns the number of messages without an outcome: those that wait, and those in progress.
    pub fn pending(&self) -> usize {
        self.waiting + self.in_progress
    }
}

impl<M> Sequence<M> {
    fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            next: 1,
            waiting: BTreeMap::new(),
            in_progress: BTreeMap::new(),
            seen: BTreeSet::new(),
        }
    }

    /// Notes that the number of an unordered message is used.
    fn see(&mut self, prog: u32) {
        self.seen.insert(prog);
        if self.seen.len() > UNORDERED_SEEN_MAX {
            self.next = self.seen.first().copied().unwrap_or(prog).into();
        }
        while u32::try_from(self.next).is_ok_and(|next| self.seen.remove(&next)) {
            self.next += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mark(prog: u32) -> MessageMark {
        let digest = prog.into();
        MessageMark { prog, digest }
    }

    fn order() -> (MessageOrder<u32>, SequenceId) {
        let mut order = MessageOrder::default();
        let id = order.sequence("s", 2).expect("a first sequence");
        (order, id)
    }

    #[test]
    fn repeated_messages_are_recognized() {
        let (mut order, id) = order();
        let arrive = |order: &mut MessageOrder<u32>, mark| order.arrive(id, mark, 10, 0, true);
        assert_eq!(arrive(&mut order, mark(1)), Arrival::Process(0));
        assert_eq!(arrive(&mut order, mark(3)), Arrival::Waits);
        for prog in [1, 3] {
            assert_eq!(arrive(&mut order, mark(prog)), Arrival::Repeated);
            let other = MessageMark { prog, digest: 99 };
            assert_eq!(arrive(&mut order, other), Arrival::InUse);
        }
        order.finish(id, 1);
        order.finish(id, 1);
        assert_eq!(arrive(&mut order, mark(1)), Arrival::TooLow);
        let skipped = Release::Skipped { last: 2, count: 1 };
        assert_eq!(order.release(id, 9), None);
        assert_eq!(order.overdue(10), [id]);
        assert_eq!(order.release(id, 10), Some(skipped));
        assert_eq!(arrive(&mut order, mark(2)), Arrival::TooLow);
        assert_eq!(order.pending(), 1);
    }

    #[test]
    fn sequences_are_independent_and_limited() {
        let (mut order, id) = order();
        let other = order.sequence("t", 2).expect("a second sequence");
        assert_eq!(order.sequence("s", 2), Some(id));
        assert_eq!(order.sequence("u", 2), None);
        assert_eq!(
            (order.name(other), order.name(SequenceId::UNORDERED)),
            (Some("t"), None)
        );
        assert_eq!(order.arrive(id, mark(2), 5, 0, true), Arrival::Waits);
        assert_eq!(
            order.arrive(other, mark(1), 5, 7, true),
            Arrival::Process(7)
        );
        assert_eq!(order.arrive(other, mark(9), 5, 7, false), Arrival::NoSpace);
        assert_eq!(order.next_timeout_ms(), Some(5));
        let last = order.arrive(id, mark(u32::MAX), 5, 0, true);
        assert_eq!(last, Arrival::Waits, "the highest number");
        while order.release(id, 5).is_some() {}
        assert_eq!(
            order.arrive(id, mark(u32::MAX - 1), 5, 0, true),
            Arrival::TooLow
        );
    }

    #[test]
    fn unordered_messages_never_wait() {
        let mut order = MessageOrder::default();
        let id = SequenceId::UNORDERED;
        for prog in [5, 1, 3, u32::MAX] {
            assert_eq!(
                order.arrive(id, mark(prog), 0, prog, false),
                Arrival::Process(prog)
            );
            order.finish(id, prog);
            assert_eq!(
                order.arrive(id, mark(prog), 0, prog, false),
                Arrival::TooLow
            );
        }
        for prog in (100..4_100).step_by(2) {
            assert_eq!(
                order.arrive(id, mark(prog), 0, prog, false),
                Arrival::Process(prog)
            );
        }
        assert_eq!(
            order.arrive(id, mark(2), 0, 0, false),
            Arrival::TooLow,
            "beyond the memory"
        );
        assert_eq!(
            order.arrive(id, mark(4_097), 0, 0, false),
            Arrival::Process(0)
        );
    }

    /// A sequence that decides from the whole list of what has arrived.
    #[derive(Default)]
    struct NaiveSequence {
        used: BTreeSet<u32>,
        waiting: Vec<(u32, u64)>,
        steps: Vec<(u32, bool)>,
    }

    impl NaiveSequence {
        fn run(&mut self, now_ms: u64) {
            loop {
                let lowest = (1..)
                    .find(|prog| !self.used.contains(prog))
                    .expect("a number");
                let is_here = self.waiting.iter().any(|(prog, _)| *prog == lowest);
                let is_overdue = self.waiting.iter().any(|(_, until_ms)| *until_ms <= now_ms);
                if !is_here && !is_overdue {
                    return;
                }
                self.waiting.retain(|(prog, _)| *prog != lowest);
                self.used.insert(lowest);
                self.steps.push((lowest, is_here));
            }
        }
    }

    proptest! {
        #[test]
        fn sequence_agrees_with_model(
            arrivals in prop::collection::vec((1u32..30, 0u64..40, 0u64..15), 1..80),
        ) {
            let (mut order, id) = order();
            let (mut naive, mut steps, mut now_ms) = (NaiveSequence::default(), vec![], 0);
            let advance = |order: &mut MessageOrder<u32>, steps: &mut Vec<_>, now_ms| {
                while let Some(release) = order.release(id, now_ms) {
                    match release {
                        Release::Message { prog, message } => {
                            assert_eq!(prog, message);
                            steps.push((prog, true));
                            order.finish(id, prog);
                        }
                        Release::Skipped { last, count } => {
                            steps.extend((last + 1 - count..=last).map(|prog| (prog, false)));
                        }
                    }
                }
            };
            for (prog, wait_ms, passed_ms) in arrivals {
                now_ms += passed_ms;
                // The timer comes first, as in an event loop.
                naive.run(now_ms);
                for overdue in order.overdue(now_ms) {
                    prop_assert_eq!(overdue, id);
                    advance(&mut order, &mut steps, now_ms);
                }
                prop_assert!(order.next_timeout_ms().is_none_or(|at_ms| at_ms > now_ms));
                let until_ms = now_ms + wait_ms;
                let expected = match prog {
                    prog if naive.used.contains(&prog) => Arrival::TooLow,
                    prog if naive.waiting.iter().any(|one| one.0 == prog) => Arrival::Repeated,
                    prog => {
                        naive.waiting.push((prog, until_ms));
                        let is_next = (1..prog).all(|lower| naive.used.contains(&lower));
                        naive.run(now_ms);
                        if is_next { Arrival::Process(prog) } else { Arrival::Waits }
                    }
                };
                let arrival = order.arrive(id, mark(prog), until_ms, prog, true);
                prop_assert_eq!(&arrival, &expected);
                if arrival == Arrival::Process(prog) {
                    steps.push((prog, true));
                    order.finish(id, prog);
                }
                advance(&mut order, &mut steps, now_ms);
                prop_assert_eq!(&steps, &naive.steps);
                prop_assert_eq!(order.pending(), naive.waiting.len());
            }
        }
    }
}
