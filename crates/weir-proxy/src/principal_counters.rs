//! Requests and bytes of clients that have logged in at the proxy, by principal.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_net::lock;

/// Principals of a virtual cluster that are counted apart; all others are counted together.
const PRINCIPALS_MAX: usize = 200;
/// Name of all others. Those of principals begin with a type, as in `User:alice`.
const OTHERS: &str = "other";

/// Counters of one virtual cluster, for all event loops and generations.
#[derive(Debug, Default)]
pub(crate) struct PrincipalCounters {
    rows: Mutex<BTreeMap<String, Arc<Traffic>>>,
}

impl PrincipalCounters {
    /// Returns the counters of a principal.
    fn of(&self, principal: String) -> Arc<Traffic> {
        let mut rows = lock(&self.rows);
        let is_full = rows.len() >= PRINCIPALS_MAX && !rows.contains_key(&principal);
        let name = if is_full {
            OTHERS.to_owned()
        } else {
            principal
        };
        Arc::clone(rows.entry(name).or_default())
    }

    /// Returns the principals with their requests, bytes of requests and bytes of responses.
    pub(crate) fn rows(&self) -> Vec<(String, [u64; 3])> {
        let rows = lock(&self.rows);
        let row = |(name, traffic): (&String, &Arc<Traffic>)| (name.clone(), traffic.values());
        rows.iter().map(row).collect()
    }
}

/// Requests, bytes of requests and bytes of responses of one principal.
#[derive(Debug, Default)]
struct Traffic([AtomicU64; 3]);

impl Traffic {
    fn values(&self) -> [u64; 3] {
        [0, 1, 2].map(|index: usize| self.0[index].load(Ordering::Relaxed))
    }
}

/// The part of a connection in the counters of its principal.
#[derive(Debug)]
pub(crate) struct PrincipalTraffic {
    counters: Arc<Traffic>,
    added: [u64; 3],
}

impl PrincipalTraffic {
    pub(crate) fn new(counters: &PrincipalCounters, principal: String) -> Self {
        Self {
            counters: counters.of(principal),
            added: [0; 3],
        }
    }

    /// Adds what has changed in the values of the connection since the last call.
    pub(crate) fn add(&mut self, values: [u64; 3]) {
        let counters = self.counters.0.iter().zip(&mut self.added);
        for ((counter, added), value) in counters.zip(values) {
            if value != *added {
                counter.fetch_add(value - *added, Ordering::Relaxed);
                *added = value;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn principals_beyond_limit_are_counted_together() {
        let counters = PrincipalCounters::default();
        for number in 0..PRINCIPALS_MAX + 3 {
            let principal = format!("User:{number}");
            let mut traffic = PrincipalTraffic::new(&counters, principal);
            traffic.add([1, 10, 100]);
            traffic.add([1, 10, 100]);
            traffic.add([2, 20, 200]);
        }
        PrincipalTraffic::new(&counters, "User:0".to_owned()).add([1, 0, 0]);
        let rows = counters.rows();
        assert_eq!(rows.len(), PRINCIPALS_MAX + 1);
        assert!(rows.contains(&("User:0".to_owned(), [3, 20, 200])));
        assert!(rows.contains(&(OTHERS.to_owned(), [6, 60, 600])));
    }
}
