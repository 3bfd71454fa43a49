//! The connection limits that all loops share.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
pub(crate) struct Admission {
    max: AtomicUsize,
    max_per_address: AtomicUsize,
    open: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

/// The reservation of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Admitted {
    /// Counted for its address; not while that has no limit.
    by_address: bool,
}

impl Admission {
    pub(crate) fn new(max: usize, max_per_address: usize) -> Self {
        Self {
            max: AtomicUsize::new(max),
            max_per_address: AtomicUsize::new(max_per_address),
            open: AtomicUsize::new(0),
            by_address: Mutex::new(HashMap::new()),
        }
    }

    /// Sets the limits for new connections.
    pub(crate) fn set(&self, max: usize, max_per_address: usize) {
        self.max.store(max, Ordering::Relaxed);
        self.max_per_address
            .store(max_per_address, Ordering::Relaxed);
    }

    /// Reserves a connection for `address`. Returns `None` if a limit is reached.
    pub(super) fn enter(&self, address: IpAddr) -> Option<Admitted> {
        let admitted = self.enter_unidentified()?;
        let identified = self.identify(admitted, address);
        if identified.is_none() {
            self.leave(address, admitted);
        }
        identified
    }

    /// Reserves a connection of a client whose address is not known yet.
    pub(super) fn enter_unidentified(&self) -> Option<Admitted> {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.max.load(Ordering::Relaxed) {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        Some(Admitted { by_address: false })
    }

    /// Counts a reserved connection for `address`. Returns `None` if its limit is reached; the
    /// reservation remains.
    pub(super) fn identify(&self, admitted: Admitted, address: IpAddr) -> Option<Admitted> {
        let max_per_address = self.max_per_address.load(Ordering::Relaxed);
        if max_per_address == 0 {
            return Some(admitted);
        }
        let mut by_address = self.by_address();
        let open = by_address.entry(address).or_default();
        if *open >= max_per_address {
            return None;
        }
        *open += 1;
        Some(Admitted { by_address: true })
    }

    pub(super) fn leave(&self, address: IpAddr, admitted: Admitted) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if !admitted.by_address {
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

    const COUNTED: Admitted = Admitted { by_address: true };

    #[test]
    fn limits_are_enforced_and_reservations_returned() {
        let admission = Admission::new(3, 2);
        let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let enter = |address| admission.enter(address).is_some();
        assert!(enter(a) && enter(a));
        assert!(!enter(a), "two per address");
        assert!(enter(b));
        assert!(!enter(b), "three in total");
        admission.leave(a, COUNTED);
        assert!(enter(b));
        admission.leave(a, COUNTED);
        admission.leave(b, COUNTED);
        admission.leave(b, COUNTED);
        assert!(admission.by_address().is_empty());
        assert_eq!(admission.open.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn clients_of_load_balancers_are_counted_when_identified() {
        let admission = Admission::new(2, 1);
        let [client, other] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        let first = admission.enter_unidentified().expect("a place");
        let second = admission.enter_unidentified().expect("a place");
        assert_eq!(admission.enter_unidentified(), None, "two in total");
        let first = admission.identify(first, client);
        assert_eq!(first, Some(COUNTED));
        assert_eq!(admission.identify(second, client), None, "one per address");
        admission.leave(client, second);
        assert_eq!(admission.enter(client), None);
        assert_eq!(admission.enter(other), Some(COUNTED));
        admission.leave(client, COUNTED);
        assert_eq!(admission.enter(client), Some(COUNTED));
    }

    #[test]
    fn changed_limits_count_new_connections_only() {
        let admission = Admission::new(10, 0);
        let address = IpAddr::from([10, 0, 0, 1]);
        let uncounted = admission.enter(address).expect("no limit");
        admission.set(10, 1);
        assert_eq!(admission.enter(address), Some(COUNTED));
        assert_eq!(admission.enter(address), None);
        admission.leave(address, uncounted);
        assert_eq!(admission.enter(address), None, "the counted one is open");
        admission.leave(address, COUNTED);
        admission.set(0, 1);
        assert_eq!(admission.enter(address), None);
    }
}
