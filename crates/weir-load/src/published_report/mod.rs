//! Latency report in the exact format of the published load tests, for comparison with their
//! results.
//!
//! It is cumulative from the start, in whole milliseconds, with a truncated mean and nearest-rank
//! percentiles. Weir's own statistics are more exact; this report reproduces the published method.

mod graph;
mod reporter;

use std::fmt::{self, Write};
use std::time::Duration;

pub use reporter::PublishedReporter;

/// Number of cells of one millisecond; the published report excludes longer latencies.
pub const CELLS: usize = 240_000;
/// Report interval of the published programs.
pub const REPORT_INTERVAL: Duration = Duration::from_secs(60);

const PERCENTILES: [u32; 6] = [25, 50, 75, 90, 95, 98];
const NS_PER_MS: u64 = 1_000_000;

/// Latencies of all clients of a process; about 2 MB for any number of clients.
#[derive(Debug, Clone)]
pub struct PublishedStatistics {
    cells: Box<[u64]>,
    samples: u64,
    sum_ms: u64,
    /// Range of cells that may be nonempty.
    first: usize,
    end: usize,
    below: u64,
    above: u64,
}

/// Values of one report, in whole milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PublishedFigures {
    /// Number of samples in range.
    pub samples: u64,
    /// Minimum.
    pub min_ms: u64,
    /// Mean, truncated.
    pub mean_ms: u64,
    /// Population standard deviation around the truncated mean, rounded half up.
    pub stddev_ms: u64,
    /// Maximum.
    pub max_ms: u64,
    /// 25th, 50th, 75th, 90th, 95th and 98th percentile.
    pub percentiles_ms: [u64; 6],
}

impl Default for PublishedStatistics {
    fn default() -> Self {
        Self {
            cells: vec![0; CELLS].into_boxed_slice(),
            samples: 0,
            sum_ms: 0,
            first: CELLS,
            end: 0,
            below: 0,
            above: 0,
        }
    }
}

impl PublishedStatistics {
    /// Creates empty statistics.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts the latency from `due_unix_ns` to `at_unix_ns` like the published programs: both
    /// times are truncated to milliseconds first.
    pub fn record(&mut self, due_unix_ns: u64, at_unix_ns: u64) {
        let (due_ms, at_ms) = (due_unix_ns / NS_PER_MS, at_unix_ns / NS_PER_MS);
        match at_ms.checked_sub(due_ms) {
            Some(latency_ms) => self.record_ms(latency_ms),
            None => self.below += 1,
        }
    }

    /// Counts one latency in milliseconds. Latencies of 240,000 ms and more are counted separately.
    pub fn record_ms(&mut self, latency_ms: u64) {
        let index = usize::try_from(latency_ms).unwrap_or(usize::MAX);
        match self.cells.get_mut(index) {
            Some(cell) => {
                *cell += 1;
                self.samples += 1;
                self.sum_ms += latency_ms;
                self.first = self.first.min(index);
                self.end = self.end.max(index + 1);
            }
            None => self.above += 1,
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        for (ms, more) in other.filled() {
            // Both have the same number of cells.
            self.cells[ms as usize] += more;
        }
        self.samples += other.samples;
        self.sum_ms += other.sum_ms;
        self.first = self.first.min(other.first);
        self.end = self.end.max(other.end);
        self.below += other.below;
        self.above += other.above;
    }

    /// Returns the numbers of samples below 0 ms and of at least 240,000 ms, which no other value
    /// includes.
    pub fn out_of_range(&self) -> (u64, u64) {
        (self.below, self.above)
    }

    /// Returns the values of a report; `None` without a sample.
    pub fn figures(&self) -> Option<PublishedFigures> {
        let mean_ms = self.sum_ms.checked_div(self.samples)?;
        let min_ms = self.filled().next()?.0;
        let max_ms = self.filled().next_back()?.0;
        Some(PublishedFigures {
            samples: self.samples,
            min_ms,
            mean_ms,
            stddev_ms: self.stddev_ms(mean_ms),
            max_ms,
            percentiles_ms: PERCENTILES.map(|percentile| self.percentile_ms(percentile)),
        })
    }

    /// Returns the report after `elapsed`, without a trailing line feed. Weir adds lines about
    /// values out of range, which the published report omits.
    pub fn report(&self, elapsed: Duration) -> String {
        let mut text = String::new();
        // Invariant: writing to a string does not fail.
        let _ = self.write(&mut text, elapsed);
        text
    }

    fn write(&self, out: &mut String, elapsed: Duration) -> fmt::Result {
        match self.figures() {
            None => write!(out, "No updates received so far, nothing to report")?,
            Some(figures) if figures.max_ms == 0 => {
                let samples = figures.samples;
                write!(out, "all the {samples} received updates have a <1ms delay")?;
            }
            Some(figures) => {
                write_figures(out, &figures, elapsed)?;
                let [_, _, _, p90_ms, ..] = figures.percentiles_ms;
                self.write_graph(out, figures.min_ms, figures.max_ms, "Max")?;
                out.push_str("\n\nZOOM\n");
                self.write_graph(out, figures.min_ms, p90_ms, "90th percentile")?;
            }
        }
        if self.below + self.above > 0 {
            let (below, above) = self.out_of_range();
            write!(
                out,
                "\n\nNot included: {below} updates below 0 ms, {above} of {CELLS} ms and more"
            )?;
        }
        Ok(())
    }

    fn write_graph(&self, out: &mut String, low_ms: u64, top_ms: u64, end: &str) -> fmt::Result {
        let samples = self.filled().take_while(|(ms, _)| *ms <= top_ms);
        graph::Graph::new(low_ms, top_ms, samples).write(out, end)
    }

    fn stddev_ms(&self, mean_ms: u64) -> u64 {
        let squares: u128 = self
            .filled()
            .map(|(ms, count)| {
                let distance = u128::from(ms.abs_diff(mean_ms));
                distance * distance * u128::from(count)
            })
            .sum();
        let variance = squares as f64 / self.samples as f64;
        // Less than the number of cells.
        (variance.sqrt() + 0.5).floor() as u64
    }

    fn percentile_ms(&self, percentile: u32) -> u64 {
        // Doubles, in this order of operations, as in the published programs.
        let rank = (self.samples as f64 / 100.0 * f64::from(percentile)).ceil() as u64;
        let mut seen = 0;
        let reached = self.filled().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        reached.map_or(0, |(ms, _)| ms)
    }

    /// Returns the nonempty cells with their milliseconds, ascending.
    fn filled(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> {
        // Empty if nothing was counted.
        let used = self.cells.get(self.first..self.end).unwrap_or_default();
        let first_ms = self.first as u64;
        let cells = used.iter().enumerate();
        cells
            .filter(|(_, count)| **count > 0)
            .map(move |(at, count)| (first_ms + at as u64, *count))
    }
}

fn write_figures(out: &mut String, figures: &PublishedFigures, elapsed: Duration) -> fmt::Result {
    let seconds = elapsed.as_secs();
    writeln!(
        out,
        "\n\n\nTest Duration: {} Hours {} minutes and {} seconds",
        seconds / 3600,
        seconds % 3600 / 60,
        seconds % 60
    )?;
    writeln!(out, "Number of samples: {}", figures.samples)?;
    writeln!(out, "Min = {} ms", figures.min_ms)?;
    writeln!(
        out,
        "Mean = {} ms - Standard Deviation = {} ms",
        figures.mean_ms, figures.stddev_ms
    )?;
    writeln!(out, "Max = {} ms", figures.max_ms)?;
    for (percentile, ms) in PERCENTILES.iter().zip(figures.percentiles_ms) {
        writeln!(out, "{percentile}th Percentile = {ms} ms")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
