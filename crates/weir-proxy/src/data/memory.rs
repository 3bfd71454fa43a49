//! The memory budget for buffered frames of all connections.
//!
//! A frame claims its whole size before more than its header is read. Claims are granted in order.
//! So every granted frame can be completed, and frames that wait for memory hold none that others
//! need.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Memory {
    bytes_max: usize,
    state: Mutex<MemoryState>,
    waiting: AtomicUsize,
}

#[derive(Debug, Default)]
struct MemoryState {
    used: usize,
    next: u64,
    /// Claims that are not granted yet, oldest first.
    queue: BTreeMap<u64, (usize, Arc<AtomicBool>)>,
    /// Number of claims that had to wait.
    waits: u64,
}

/// A part of the budget, or a position in the queue for it. Returned when dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    memory: Arc<Memory>,
    bytes: usize,
    number: u64,
    granted: Arc<AtomicBool>,
    /// Time at which the owner first saw the grant.
    granted_ms: Option<u64>,
}

impl Memory {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            state: Mutex::default(),
            waiting: AtomicUsize::new(0),
        }
    }

    /// Claims `bytes`, or the whole budget if that is less.
    pub(crate) fn claim(self: &Arc<Self>, bytes: usize) -> Claim {
        let bytes = bytes.min(self.bytes_max);
        let granted = Arc::new(AtomicBool::new(false));
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.queue.insert(number, (bytes, Arc::clone(&granted)));
        self.grant(&mut state);
        state.waits += u64::from(!granted.load(Ordering::Relaxed));
        drop(state);
        Claim {
            memory: Arc::clone(self),
            bytes,
            number,
            granted,
            granted_ms: None,
        }
    }

    /// Returns `true` if claims are waiting.
    pub(crate) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Returns the bytes granted, the number of waiting claims and the number of claims that ever
    /// waited.
    pub(crate) fn usage(&self) -> (usize, usize, u64) {
        let state = self.state();
        (state.used, state.queue.len(), state.waits)
    }

    fn grant(&self, state: &mut MemoryState) {
        while let Some(first) = state.queue.first_entry() {
            let bytes = first.get().0;
            if state.used + bytes > self.bytes_max {
                break;
            }
            state.used += bytes;
            let (_, granted) = first.remove();
            granted.store(true, Ordering::Release);
        }
        self.waiting.store(state.queue.len(), Ordering::Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn is_granted(&self) -> bool {
        self.granted.load(Ordering::Acquire)
    }

    /// Returns when the owner first saw the grant, or `None` if the claim is not granted.
    pub(super) fn granted_since_ms(&mut self, now_ms: u64) -> Option<u64> {
        if !self.is_granted() {
            return None;
        }
        Some(*self.granted_ms.get_or_insert(now_ms))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut state = self.memory.state();
        if state.queue.remove(&self.number).is_none() {
            state.used -= self.bytes;
        }
        self.memory.grant(&mut state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    #[test]
    fn claims_are_granted_in_order() {
        let memory = Arc::new(Memory::new(100));
        let first = memory.claim(60);
        let large = memory.claim(1_000);
        let small = memory.claim(10);
        assert!(first.is_granted() && !large.is_granted());
        assert!(!small.is_granted(), "later claims must wait");
        assert!(memory.is_short());
        drop(first);
        assert!(large.is_granted() && !small.is_granted());
        assert_eq!(memory.usage(), (100, 1, 2));
        drop(large);
        assert!(small.is_granted() && !memory.is_short());
        drop(small);
        assert_eq!(memory.usage(), (0, 0, 2));
    }

    proptest! {
        /// Compares the budget with a queue that is processed from the front.
        #[test]
        fn budget_matches_naive_model(
            steps in prop::collection::vec((any::<bool>(), 0_usize..150), 0..60),
        ) {
            let memory = Arc::new(Memory::new(100));
            let (mut claims, mut granted, mut queue) = (Vec::new(), Vec::new(), VecDeque::new());
            for (id, (is_claim, value)) in steps.into_iter().enumerate() {
                if is_claim {
                    claims.push((id, memory.claim(value)));
                    queue.push_back((id, value.min(100)));
                } else if !claims.is_empty() {
                    let (dropped, claim) = claims.remove(value % claims.len());
                    drop(claim);
                    granted.retain(|(id, _)| *id != dropped);
                    queue.retain(|(id, _)| *id != dropped);
                }
                while let Some(first) = queue.front().copied() {
                    let used: usize = granted.iter().map(|(_, bytes)| *bytes).sum();
                    if used + first.1 > 100 {
                        break;
                    }
                    granted.push(first);
                    queue.pop_front();
                }
                for (id, claim) in &claims {
                    let is_granted = granted.iter().any(|(other, _)| other == id);
                    prop_assert_eq!(claim.is_granted(), is_granted);
                }
                let used: usize = granted.iter().map(|(_, bytes)| *bytes).sum();
                prop_assert_eq!(memory.usage().0, used);
                prop_assert!(used > 0 || queue.is_empty(), "one claim is always granted");
            }
        }
    }
}
