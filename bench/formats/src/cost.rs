//! Times of two readers in one table, with the goals next to them.

use std::time::Instant;

/// Many short rounds: some of them are not disturbed by other programs.
const ROUNDS: usize = 300;
const ROUND_NS: u128 = 1_000_000;
/// How many times slower the other library must be where there is a goal.
const TIMES_MIN: f64 = 10.0;

/// Times of a row in nanoseconds per record.
#[derive(Debug, Clone, Copy)]
pub struct RowTimes {
    /// Weir's reader, which checks only what it traverses.
    pub needed: f64,
    /// Weir's reader with a check of the whole record.
    pub whole: f64,
    /// The other library.
    pub other: f64,
}

/// Table of costs; counts the goals that are missed.
#[derive(Debug, Default)]
pub struct CostTable {
    missed: usize,
    /// Text in the titles of the rows to measure, from the command line.
    filter: Option<String>,
}

impl CostTable {
    /// Starts a table for records of a number of bytes.
    pub fn new(library: &str, record_bytes: usize) -> Self {
        println!(
            "record of {record_bytes} bytes and 20 fields, best of {ROUNDS} rounds, one thread"
        );
        println!(
            "{:<32}{:>8}{:>8}{:>8}  {:<8}{:>14}{:>9}",
            "ns per record", "needed", "goal", "", "whole", library, "times"
        );
        let filter = std::env::args().skip(1).find(|text| !text.starts_with('-'));
        Self { missed: 0, filter }
    }

    /// Prints a row, with whether its goal is met: the time, and a tenth of the other library's.
    pub fn row(&mut self, title: &str, goal_ns: Option<f64>, times: impl FnOnce() -> RowTimes) {
        if self
            .filter
            .as_ref()
            .is_some_and(|filter| !title.contains(filter))
        {
            return;
        }
        let times = times();
        let RowTimes {
            needed,
            whole,
            other,
        } = times;
        let ratio = other / needed;
        let (mut goal, mut verdict, mut faster) = (String::new(), "", "");
        if let Some(limit) = goal_ns {
            goal = format!("<= {limit:.0}");
            verdict = self.judge(needed <= limit);
            faster = self.judge(ratio >= TIMES_MIN);
        }
        println!(
            "{title:<32}{needed:>8.0}{goal:>8}{verdict:>8}  {whole:<8.0}{other:>14.0}{ratio:>9.1} \
             {faster}"
        );
    }

    fn judge(&mut self, is_met: bool) -> &'static str {
        self.missed += usize::from(!is_met);
        if is_met { "met" } else { "MISSED" }
    }

    /// Prints the number of missed goals. Fails if there are any.
    pub fn finish(self) -> std::process::ExitCode {
        println!(
            "goals missed: {} (time, and {TIMES_MIN} times faster)",
            self.missed
        );
        match self.missed {
            0 => std::process::ExitCode::SUCCESS,
            _ => std::process::ExitCode::FAILURE,
        }
    }
}

/// Returns the best times of one call in nanoseconds; the calls take turns.
pub fn best_times(calls: &mut [&mut dyn FnMut()]) -> Vec<f64> {
    let mut best = vec![f64::MAX; calls.len()];
    let mut counts = vec![16_u32; calls.len()];
    for _ in 0..ROUNDS {
        for (position, call) in calls.iter_mut().enumerate() {
            loop {
                let start = Instant::now();
                for _ in 0..counts[position] {
                    call();
                }
                let spent = start.elapsed().as_nanos();
                let each = spent as f64 / f64::from(counts[position]);
                best[position] = best[position].min(each);
                if spent * 2 >= ROUND_NS {
                    break;
                }
                counts[position] *= 2;
            }
        }
    }
    best
}
