//! Which client wants which key: evenly, in a seeded random order.

use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{Rng as _, SeedableRng as _};

/// Stands for a client's key in an item template.
pub const KEY_PLACEHOLDER: &str = "{key}";

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
    use super::*;

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
