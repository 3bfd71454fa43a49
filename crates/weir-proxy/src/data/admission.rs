//! The connection limits that all loops share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Admission {
    max: usize,
    max_per_address: usize,
    open: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

impl Admission {
    pub(crate) fn new(max: usize, max_per_address: usize) -> Self {
        Self {
            max,
            max_per_address,
            open: AtomicUsize::new(0),
            by_address: Mutex::new(HashMap::new()),
        }
    }

    /// Reserves a connection for `address`. Returns `false` if a limit is reached.
    pub(super) fn enter(&self, address: IpAddr) -> bool {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        if self.max_per_address == 0 {
            return true;
        }
        let mut by_address = self.by_address();
        let open = by_address.entry(address).or_default();
        if *open >= self.max_per_address {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        *open += 1;
        true
    }

    pub(super) fn leave(&self, address: IpAddr) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if self.max_per_address == 0 {
            return;
        }
        let mut by_address = self.by_address();
        if let Some(open) = by_address.get_mut(&address) {
            *open -= 1;
            if *open == 0 {
                by_address.remove(&address);
            }
        }
    }

    fn by_address(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        let locked = self.by_address.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_enforced_and_reservations_returned() {
        let admission = Admission::new(3, 2);
        let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        assert!(admission.enter(a) && admission.enter(a));
        assert!(!admission.enter(a), "two per address");
        assert!(admission.enter(b));
        assert!(!admission.enter(b), "three in total");
        admission.leave(a);
        assert!(admission.enter(b));
        admission.leave(a);
        admission.leave(b);
        admission.leave(b);
        assert!(admission.by_address().is_empty());
        assert_eq!(admission.open.load(Ordering::Relaxed), 0);
    }
}
