//! The state of the memory limit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_net::memory::MemoryUse;

/// Memory in use, and `true` while it is above the limit.
#[derive(Debug, Default)]
pub(crate) struct Overload {
    is_on: AtomicBool,
    used: AtomicU64,
    max: AtomicU64,
}

impl Overload {
    pub(crate) fn is_on(&self) -> bool {
        self.is_on.load(Ordering::Relaxed)
    }

    pub(crate) fn memory(&self) -> MemoryUse {
        MemoryUse {
            used: self.used.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
        }
    }

    /// Records a sample; returns the new state if it changes. Overload starts at the limit and ends
    /// at nine tenths of it, to prevent rapid changes.
    pub(crate) fn observe(&self, memory: MemoryUse) -> Option<bool> {
        self.used.store(memory.used, Ordering::Relaxed);
        self.max.store(memory.max, Ordering::Relaxed);
        let before = self.is_on();
        let is_on = match before {
            false => memory.used >= memory.max,
            true => memory.used > memory.max / 10 * 9,
        };
        self.is_on.store(is_on, Ordering::Relaxed);
        (is_on != before).then_some(is_on)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overload_has_hysteresis() {
        let overload = Overload::default();
        let seen = |used| overload.observe(MemoryUse { used, max: 1_000 });
        assert_eq!((seen(999), overload.is_on()), (None, false));
        assert_eq!((seen(1_000), overload.is_on()), (Some(true), true));
        assert_eq!((seen(950), overload.is_on()), (None, true));
        assert_eq!((seen(900), overload.is_on()), (Some(false), false));
        assert_eq!((seen(950), overload.is_on()), (None, false));
    }
}
