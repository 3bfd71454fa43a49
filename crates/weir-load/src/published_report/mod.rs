//! Latency report in the exact format of the published load tests, for comparison with their
//! results.
//!
//! It is cumulative from the start, in whole milliseconds, with a truncated mean and nearest-rank
//! percentiles. Weir's own statistics are more exact; this report reproduces the published method.

use std::fmt::{self, Write};
use std::time::{Duration, Instant};

use crate::worker::EventSender;
use crate::worker::protocol::{ReportSamples, WorkerEvent};

/// Number of cells of one millisecond; the published report excludes longer latencies.
const CELLS: usize = 240_000;
const PERCENTILES: [u32; 6] = [25, 50, 75, 90, 95, 98];
const ROWS: usize = 8;
const STARS_MAX: f64 = 20.0;
const NS_PER_MS: u64 = 1_000_000;
/// Far above what any run counts.
const CELL_SAMPLES_MAX: u64 = 1 << 44;
/// Interval at which a worker with a share of the clients sends its samples.
const SHARE_INTERVAL: Duration = Duration::from_secs(1);

/// Collector of latencies that sends the report as an event: once per interval from the start of
/// the process, and at its end. A worker with a share of the clients sends its samples instead,
/// from which its coordinator makes the report of all clients.
#[derive(Debug)]
pub struct PublishedReporter {
    statistics: PublishedStatistics,
    is_share: bool,
    interval: Duration,
    started: Instant,
    next: Instant,
}

impl PublishedReporter {
    /// Starts a reporter that reports once per interval.
    pub fn start(interval: Duration) -> Self {
        Self::start_at(Instant::now(), interval)
    }

    /// Starts the reporter of a worker with a share of the clients.
    pub(crate) fn start_share() -> Self {
        Self {
            is_share: true,
            ..Self::start(SHARE_INTERVAL)
        }
    }

    fn start_at(now: Instant, interval: Duration) -> Self {
        Self {
            statistics: PublishedStatistics::new(),
            is_share: false,
            interval,
            started: now,
            next: now + interval,
        }
    }

    /// Counts a record due at `due_unix_ns` that arrived at `at_unix_ns`.
    pub(crate) fn record(&mut self, due_unix_ns: u64, at_unix_ns: u64) {
        self.statistics.record(due_unix_ns, at_unix_ns);
    }

    /// Adds the samples of a worker with a share of the clients.
    pub fn add(&mut self, samples: &ReportSamples) {
        self.statistics.add(samples);
    }

    /// Sends the report if the interval has passed, or if `at_end` is set.
    pub fn poll(&mut self, events: &EventSender, now: Instant, at_end: bool) {
        if let Some(event) = self.event_at(now, at_end) {
            events.send(&event);
        }
    }

    fn event_at(&mut self, now: Instant, at_end: bool) -> Option<WorkerEvent> {
        if now < self.next && !at_end {
            return None;
        }
        self.next = now + self.interval;
        Some(match self.is_share {
            true => WorkerEvent::ReportSamples(self.statistics.take()),
            false => WorkerEvent::Report {
                text: self.statistics.report(now - self.started),
            },
        })
    }
}

/// Latencies of all clients of a process; about 2 MB for any number of clients.
#[derive(Debug)]
struct PublishedStatistics {
    cells: Box<[u64]>,
    /// Numbers of samples below 0 ms and of at least 240,000 ms, which no other value includes.
    below: u64,
    above: u64,
}

/// Values of one report, in whole milliseconds.
#[derive(Debug)]
struct PublishedFigures {
    samples: u64,
    min_ms: u64,
    /// Mean, truncated.
    mean_ms: u64,
    /// Population standard deviation around the truncated mean, rounded half up.
    stddev_ms: u64,
    max_ms: u64,
    percentiles_ms: [u64; PERCENTILES.len()],
}

impl PublishedStatistics {
    fn new() -> Self {
        Self {
            cells: vec![0; CELLS].into_boxed_slice(),
            below: 0,
            above: 0,
        }
    }

    /// Counts the latency from `due_unix_ns` to `at_unix_ns` like the published programs: both
    /// times are truncated to milliseconds first.
    fn record(&mut self, due_unix_ns: u64, at_unix_ns: u64) {
        match (at_unix_ns / NS_PER_MS).checked_sub(due_unix_ns / NS_PER_MS) {
            Some(latency_ms) => self.record_ms(latency_ms),
            None => self.below += 1,
        }
    }

    fn record_ms(&mut self, latency_ms: u64) {
        let index = usize::try_from(latency_ms).unwrap_or(usize::MAX);
        match self.cells.get_mut(index) {
            Some(cell) => *cell += 1,
            None => self.above += 1,
        }
    }

    /// Removes and returns all samples.
    fn take(&mut self) -> ReportSamples {
        let samples = ReportSamples {
            latencies_ms: self.filled(),
            below: std::mem::take(&mut self.below),
            above: std::mem::take(&mut self.above),
        };
        self.cells.fill(0);
        samples
    }

    /// Adds samples of another process. Cells are limited, so that sums over them do not overflow.
    fn add(&mut self, samples: &ReportSamples) {
        for &(ms, count) in &samples.latencies_ms {
            let index = usize::try_from(ms).unwrap_or(usize::MAX);
            let cell = self.cells.get_mut(index).unwrap_or(&mut self.above);
            *cell = cell.saturating_add(count).min(CELL_SAMPLES_MAX);
        }
        self.below = self.below.saturating_add(samples.below);
        self.above = self.above.saturating_add(samples.above);
    }

    /// Returns the report after `elapsed`, without a trailing line feed. Weir adds lines about
    /// values out of range, which the published report omits.
    fn report(&self, elapsed: Duration) -> String {
        let mut text = String::new();
        // Invariant: writing to a string does not fail.
        let _ = self.write(&mut text, elapsed);
        text
    }

    fn write(&self, out: &mut String, elapsed: Duration) -> fmt::Result {
        let filled = self.filled();
        match PublishedFigures::of(&filled) {
            None => write!(out, "No updates received so far, nothing to report")?,
            Some(figures) if figures.max_ms == 0 => {
                let samples = figures.samples;
                write!(out, "all the {samples} received updates have a <1ms delay")?;
            }
            Some(figures) => {
                figures.write(out, elapsed)?;
                let [_, _, _, p90_ms, ..] = figures.percentiles_ms;
                write_graph(out, &filled, figures.min_ms, figures.max_ms, "Max")?;
                out.push_str("\n\nZOOM\n");
                write_graph(out, &filled, figures.min_ms, p90_ms, "90th percentile")?;
            }
        }
        let (below, above) = (self.below, self.above);
        if below.max(above) > 0 {
            write!(
                out,
                "\n\nNot included: {below} updates below 0 ms, {above} of {CELLS} ms and more"
            )?;
        }
        Ok(())
    }

    /// Returns the nonempty cells: milliseconds and number of samples, ascending.
    fn filled(&self) -> Vec<(u64, u64)> {
        let cells = (0..).zip(&self.cells).filter(|(_, count)| **count > 0);
        cells.map(|(ms, count)| (ms, *count)).collect()
    }
}

impl PublishedFigures {
    /// Returns the values of a report; `None` without a sample.
    fn of(filled: &[(u64, u64)]) -> Option<Self> {
        let samples: u64 = filled.iter().map(|(_, count)| count).sum();
        let total_ms = filled
            .iter()
            .map(|&(ms, count)| u128::from(ms) * u128::from(count));
        // At most the number of cells.
        let mean_ms = total_ms.sum::<u128>().checked_div(u128::from(samples))? as u64;
        let squares = filled.iter().map(|(ms, count)| {
            let distance = u128::from(ms.abs_diff(mean_ms));
            distance * distance * u128::from(*count)
        });
        let variance = squares.sum::<u128>() as f64 / samples as f64;
        Some(Self {
            samples,
            min_ms: filled.first()?.0,
            mean_ms,
            // Less than the number of cells.
            stddev_ms: (variance.sqrt() + 0.5).floor() as u64,
            max_ms: filled.last()?.0,
            percentiles_ms: PERCENTILES.map(|percentile| {
                // Doubles, in this order of operations, as in the published programs.
                let rank = (samples as f64 / 100.0 * f64::from(percentile)).ceil() as u64;
                let mut seen = 0;
                let reached = filled.iter().find(|(_, count)| {
                    seen += count;
                    seen >= rank
                });
                reached.map_or(0, |(ms, _)| *ms)
            }),
        })
    }

    fn write(&self, out: &mut String, elapsed: Duration) -> fmt::Result {
        let seconds = elapsed.as_secs();
        let (hours, minutes, seconds) = (seconds / 3600, seconds % 3600 / 60, seconds % 60);
        write!(
            out,
            "\n\n\nTest Duration: {hours} Hours {minutes} minutes and {seconds} seconds\n\
             Number of samples: {}\n\
             Min = {} ms\n\
             Mean = {} ms - Standard Deviation = {} ms\n\
             Max = {} ms\n",
            self.samples, self.min_ms, self.mean_ms, self.stddev_ms, self.max_ms
        )?;
        for (percentile, ms) in PERCENTILES.iter().zip(self.percentiles_ms) {
            writeln!(out, "{percentile}th Percentile = {ms} ms")?;
        }
        Ok(())
    }
}

/// Writes a histogram of eight rows of asterisks from `low_ms` to `top_ms`, between `Min` and
/// `end`, without a trailing line feed.
///
/// A row includes its upper edge; the lower edge belongs to the previous row. Only the first row
/// includes both.
fn write_graph(
    out: &mut String,
    filled: &[(u64, u64)],
    low_ms: u64,
    top_ms: u64,
    end: &str,
) -> fmt::Result {
    let step_ms = (top_ms - low_ms).div_ceil(ROWS as u64).max(1);
    let mut counts = [0; ROWS];
    for (ms, count) in filled.iter().take_while(|(ms, _)| *ms <= top_ms) {
        let above_edge = (ms - low_ms).saturating_sub(1);
        // Less than the number of rows, because a step is at least an eighth of the range.
        counts[(above_edge / step_ms) as usize] += count;
    }
    let per_star = samples_per_star(&counts);
    writeln!(out, "Min")?;
    let edges_ms = (low_ms..=top_ms).step_by(usize::try_from(step_ms).unwrap_or(usize::MAX));
    for (count, edge_ms) in counts.into_iter().zip(edges_ms) {
        write!(out, "{edge_ms:04} - {:04} ", edge_ms + step_ms)?;
        // At most 20 by the choice of the unit.
        let stars = (count as f64 / per_star + 0.5).floor() as usize;
        out.extend(std::iter::repeat_n('*', stars));
        out.push_str(if count > 0 { "|\n" } else { "\n" });
    }
    out.push_str(end);
    Ok(())
}

/// Returns the smallest count after the last empty row other than the last row, or more to limit
/// rows to 20 asterisks, but at least 1.
fn samples_per_star(counts: &[u64; ROWS]) -> f64 {
    let smallest = counts.iter().fold(0, |least, &count| match least {
        0 => count,
        _ => count.min(least),
    });
    let (smallest, largest) = (
        smallest as f64,
        counts.iter().fold(0, |a, &b| a.max(b)) as f64,
    );
    match largest / smallest > STARS_MAX {
        true => (largest / STARS_MAX).max(1.0),
        false => smallest.max(1.0),
    }
}

#[cfg(test)]
mod tests;
