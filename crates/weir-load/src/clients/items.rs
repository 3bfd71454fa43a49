//! Assigns keys to clients, evenly and in a seeded random order, and clients to processes.

use std::fmt;
use std::str::FromStr;

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

/// Share of a run's clients for one process: the clients, numbered from 0, whose number modulo `of`
/// is `index`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientShare {
    /// Index of the share, from 0, below `of`.
    pub index: usize,
    /// Number of shares, at least 1.
    pub of: usize,
}

impl ClientShare {
    /// Share of a single process: all clients.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Returns the numbers of this share's clients out of `total`, ascending.
    pub fn numbers(self, total: usize) -> impl ExactSizeIterator<Item = usize> {
        (self.index.min(total)..total).step_by(self.of.max(1))
    }
}

/// Writes the number of the share, from 1, and the number of shares, as in `2/3`.
impl fmt::Display for ClientShare {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index + 1, self.of)
    }
}

impl FromStr for ClientShare {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parsed = text.split_once('/').and_then(|(number, of)| {
            let (number, of): (usize, usize) = (number.parse().ok()?, of.parse().ok()?);
            let index = number.checked_sub(1)?;
            (index < of).then_some(Self { index, of })
        });
        parsed.ok_or_else(|| "expected the number of a share and their count, as in 2/3".to_owned())
    }
}

/// Returns for each of `clients` clients the index of its key among `keys`. The numbers of clients
/// per key differ by at most one; the same seed gives the same result.
pub fn assign_keys(clients: usize, keys: usize, seed: u64) -> Vec<usize> {
    let mut rng = StdRng::seed_from_u64(seed);
    let keys = keys.max(1);
    // The first key is random, so that not always the same keys have one client more.
    let first = rng.random_range(0..keys);
    let mut assigned: Vec<usize> = (0..clients).map(|client| (first + client) % keys).collect();
    assigned.shuffle(&mut rng);
    assigned
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn shares_cover_all_clients_once(total in 0_usize..5000, of in 1_usize..12) {
            let shares = (0..of).map(|index| ClientShare { index, of });
            let numbers = shares.clone().flat_map(|share| share.numbers(total));
            let mut numbers: Vec<usize> = numbers.collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..total).collect::<Vec<_>>());
            let counts: Vec<usize> = shares.map(|share| share.numbers(total).len()).collect();
            prop_assert_eq!(counts.iter().sum::<usize>(), total);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }

        #[test]
        fn keys_are_balanced_over_all_shares(
            total in 1_usize..3000,
            of in 1_usize..6,
            keys in 1_usize..50,
            seed: u64,
        ) {
            let assigned = assign_keys(total, keys, seed);
            let mut per_key = vec![0_usize; keys];
            for index in 0..of {
                for client in (ClientShare { index, of }).numbers(total) {
                    per_key[assigned[client]] += 1;
                }
            }
            prop_assert_eq!(per_key.iter().sum::<usize>(), total);
            let (least, most) = (per_key.iter().min().unwrap(), per_key.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }
    }

    #[test]
    fn shares_are_written_from_one() {
        let share = ClientShare { index: 1, of: 3 };
        assert_eq!(share.to_string(), "2/3");
        assert_eq!("2/3".parse(), Ok(share));
        for wrong in ["", "2", "0/3", "4/3", "1/0", "-1/3", "a/b"] {
            assert!(wrong.parse::<ClientShare>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn assignment_is_even_and_reproducible() {
        let assigned = assign_keys(1005, 40, 7);
        assert_eq!(assigned, assign_keys(1005, 40, 7));
        assert_ne!(assigned, assign_keys(1005, 40, 8));
        for key in 0..40 {
            let clients = assigned.iter().filter(|assigned| **assigned == key).count();
            assert!((25..=26).contains(&clients), "key {key} has {clients}");
        }
        assert_eq!(assign_keys(3, 0, 1), [0, 0, 0]);
    }
}
