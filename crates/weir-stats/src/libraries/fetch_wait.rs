//! Explanation of ratios near 85 % for small bursts in the legacy profile: the wait of the broker
//! and the start time of each library, from the run's own measurements.

use super::{CellView, QUANTITIES, Quantity, cells, figures::SampleStatistics};
use crate::run::Libraries;

/// Times from the assignment to the last record, of cells below and just above the size of a fetch.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LegacyFetchWait {
    /// Bytes that a fetch waits for.
    pub fetch_min_bytes: u64,
    /// Number of cells with fewer bytes.
    pub below: usize,
    /// Time of the first library in these cells, median over cells.
    pub below_first_us: f64,
    /// Time of the other library.
    pub below_other_us: f64,
    /// Median over these cells of the ratio of means, in percent.
    pub below_percent: f64,
    /// Number of cells just above: up to ten times as many bytes.
    pub above: usize,
    /// Time of the first library in these cells.
    pub above_first_us: Option<f64>,
    /// Time of the other library.
    pub above_other_us: Option<f64>,
}

impl LegacyFetchWait {
    /// Returns the additional time in cells below compared with cells above, which is the broker's
    /// wait, for each library.
    #[must_use]
    pub fn waits_us(&self) -> Option<(f64, f64)> {
        Some((
            self.below_first_us - self.above_first_us?,
            self.below_other_us - self.above_other_us?,
        ))
    }

    /// Returns the ratio expected from a wait of `wait_us` and the times in cells just above.
    #[must_use]
    pub fn expected_percent(&self, wait_us: f64) -> Option<f64> {
        let (first, other) = (self.above_first_us?, self.above_other_us?);
        Some((wait_us + first) / (wait_us + other) * 100.0)
    }
}

/// Returns the times of the cells that consume in a group. Returns `None` outside the legacy
/// profile or without such cells.
#[must_use]
pub fn legacy_fetch_wait(libraries: &Libraries, other: &str) -> Option<LegacyFetchWait> {
    if libraries.profile != "legacy" {
        return None;
    }
    let fetch_min_bytes = fetch_min_bytes(libraries);
    let quantity = Quantity::named("legacy_us").unwrap_or(&QUANTITIES[0]);
    let all = cells(libraries);
    let consuming = || {
        let cells = all.iter();
        cells.filter(|view| view.cell.operation == "consume" && view.cell.mode == "group")
    };
    let bytes = |view: &CellView<'_>| view.cell.value_bytes.saturating_mul(view.cell.records);
    let below: Vec<_> = consuming()
        .filter(|view| bytes(view) < fetch_min_bytes)
        .filter_map(|view| view.compare(quantity, other))
        .collect();
    let above: Vec<_> = consuming()
        .filter(|view| (fetch_min_bytes..=fetch_min_bytes * 10).contains(&bytes(view)))
        .filter_map(|view| view.compare(quantity, other))
        .collect();
    let median = |values: Vec<f64>| SampleStatistics::of(&values).map(|figures| figures.median);
    Some(LegacyFetchWait {
        fetch_min_bytes,
        below: below.len(),
        below_first_us: median(below.iter().map(|it| it.first.median).collect())?,
        below_other_us: median(below.iter().map(|it| it.other.median).collect())?,
        below_percent: median(below.iter().filter_map(|it| it.ratio.mean).collect())?,
        above: above.len(),
        above_first_us: median(above.iter().map(|it| it.first.median).collect()),
        above_other_us: median(above.iter().map(|it| it.other.median).collect()),
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
