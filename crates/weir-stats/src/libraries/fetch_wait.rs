//! Explanation of ratios near 85 % for small bursts in the legacy profile: the wait of the broker
//! and the start time of each library, from the run's own measurements.

use std::ops::Range;

use super::{LibraryComparison, QUANTITIES, Quantity, SampleStatistics, cells};
use crate::run::Libraries;

/// Times from the assignment to the last record, of cells below and just above the size of a fetch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LegacyFetchWait {
    /// Bytes that a fetch waits for.
    pub fetch_min_bytes: u64,
    /// Cells with fewer bytes.
    pub below: ConsumeTimes,
    /// Cells just above, if there are any: up to ten times as many bytes.
    pub above: Option<ConsumeTimes>,
}

/// Times of cells, as medians over the cells.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ConsumeTimes {
    /// Number of cells.
    pub cells: usize,
    /// Time of the first library.
    pub first_us: f64,
    /// Time of the other library.
    pub other_us: f64,
    /// Ratio of means, in percent.
    pub percent: Option<f64>,
}

impl ConsumeTimes {
    /// Returns the ratio expected in cells with an additional wait of `wait_us`.
    pub fn expected_percent(&self, wait_us: f64) -> f64 {
        (wait_us + self.first_us) / (wait_us + self.other_us) * 100.0
    }
}

/// Returns the times of the cells that consume in a group. Returns `None` outside the legacy
/// profile or without such cells.
pub fn legacy_fetch_wait(libraries: &Libraries, other: &str) -> Option<LegacyFetchWait> {
    if libraries.profile != "legacy" {
        return None;
    }
    let fetch_min_bytes = fetch_min_bytes(libraries);
    let quantity = Quantity::named("legacy_us").unwrap_or(&QUANTITIES[0]);
    let all = cells(libraries);
    let times = |sizes: Range<u64>| {
        let consuming = all.iter().filter(|view| {
            let cell = view.cell;
            let bytes = cell.value_bytes.saturating_mul(cell.records);
            cell.operation == "consume" && cell.mode == "group" && sizes.contains(&bytes)
        });
        let found = consuming.filter_map(|view| view.compare(quantity, other));
        let found: Vec<LibraryComparison> = found.collect();
        let median = |of: fn(&LibraryComparison) -> Option<f64>| {
            let values: Vec<f64> = found.iter().filter_map(of).collect();
            SampleStatistics::of(&values).map(|figures| figures.median)
        };
        Some(ConsumeTimes {
            cells: found.len(),
            first_us: median(|it| Some(it.first.median))?,
            other_us: median(|it| Some(it.other.median))?,
            percent: median(|it| it.ratio.mean),
        })
    };
    Some(LegacyFetchWait {
        fetch_min_bytes,
        below: times(0..fetch_min_bytes).filter(|below| below.percent.is_some())?,
        above: times(fetch_min_bytes..fetch_min_bytes * 10 + 1),
    })
}

/// Returns the value requested from the drivers, or that of the published benchmark if none was
/// requested.
fn fetch_min_bytes(libraries: &Libraries) -> u64 {
    let settings = libraries.drivers.iter().flat_map(|driver| &driver.settings);
    let mut asked = settings.filter(|setting| setting.name.starts_with("fetch_min_bytes"));
    let asked = asked.find_map(|setting| setting.requested.as_ref()?.parse().ok());
    asked.filter(|bytes| *bytes > 0).unwrap_or(100_000)
}
