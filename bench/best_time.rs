//! Timing of short calls, for the benchmarks of the crates.

use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 9;
const ROUND_NS: u128 = 100_000_000;

/// Returns the best time of one call in nanoseconds. Each round lasts 50 to 100 ms.
pub(crate) fn best_time<T>(mut call: impl FnMut() -> T) -> f64 {
    let mut best = f64::MAX;
    let mut calls = 16;
    for _ in 0..ROUNDS {
        loop {
            let start = Instant::now();
            for _ in 0..calls {
                black_box(call());
            }
            let spent = start.elapsed().as_nanos();
            best = best.min(spent as f64 / f64::from(calls));
            if spent * 2 >= ROUND_NS {
                break;
            }
            calls *= 2;
        }
    }
    best
}
