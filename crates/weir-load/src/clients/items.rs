//! Which client wants which key, evenly and in a seeded random order, and which process runs it.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};
use serde::{Deserialize, Serialize};

/// The part of a run's clients that one process has: of the clients numbered from 0 those whose
/// number leaves the remainder `index` when divided by `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientShare {
    /// From 0, below `of`.
    pub index: usize,
    /// Number of shares, at least 1.
    pub of: usize,
}

impl ClientShare {
    /// All clients in one process.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// The numbers of this share's clients out of `total`, ascending.
    pub fn numbers(self, total: usize) -> impl ExactSizeIterator<Item = usize> {
        (self.index.min(total)..total).step_by(self.of.max(1))
    }

    /// How many clients this share has out of `total`.
    pub fn count(self, total: usize) -> usize {
        self.numbers(total).len()
    }
}

impl Default for ClientShare {
    fn default() -> Self {
        Self::WHOLE
    }
}

/// For each of `clients` clients the index of its key among `keys`. Numbers of clients per key
/// differ by at most one; the same seed gives the same answer.
pub fn assign_keys(clients: usize, keys: usize, seed: u64) -> Vec<usize> {
    let mut rng = StdRng::seed_from_u64(seed);
    let keys = keys.max(1);
    // A random first key, so that the keys with one client more are not always the first ones.
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
        fn shares_are_the_whole_and_nothing_twice(total in 0_usize..5000, of in 1_usize..12) {
            let shares = (0..of).map(|index| ClientShare { index, of });
            let mut numbers: Vec<usize> = shares.clone().flat_map(|share| share.numbers(total)).collect();
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..total).collect::<Vec<_>>());
            let counts: Vec<usize> = shares.map(|share| share.count(total)).collect();
            prop_assert_eq!(counts.iter().sum::<usize>(), total);
            let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
            prop_assert!(most - least <= 1);
        }

        #[test]
        fn keys_are_balanced_over_all_shares_together(
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
    fn even_and_reproducible() {
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
