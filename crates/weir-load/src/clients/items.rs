//! Assigns keys to clients, evenly and in a seeded random order.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

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
    use crate::share::WorkerShare;

    proptest! {
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
                for client in (WorkerShare { index, of }).numbers(total) {
                    per_key[assigned[client]] += 1;
                }
            }
            prop_assert_eq!(per_key.iter().sum::<usize>(), total);
            let (least, most) = (per_key.iter().min().unwrap(), per_key.iter().max().unwrap());
            prop_assert!(most - least <= 1);
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
