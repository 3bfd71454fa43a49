//! Why small bursts of the legacy profile come out near 85 %: what the broker waits and what a start takes, by the
//! run's own figures.

use super::{CellView, QUANTITIES, Quantity, cells, figures::SampleStatistics};
use crate::run::Libraries;

/// Times from the assignment to the last record, of cells that do not fill a fetch and of such that just do.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LegacyFetchWait {
    /// Bytes that a fetch waits for.
    pub fetch_min_bytes: u64,
    /// Cells whose values are fewer bytes.
    pub below: usize,
    /// The first library in these, median over cells.
    pub below_first_us: f64,
    /// The other one.
    pub below_other_us: f64,
    /// Median over these cells of the ratio of averages, in percent.
    pub below_percent: f64,
    /// Cells just above: up to ten times as many bytes.
    pub above: usize,
    /// The first library in these.
    pub above_first_us: Option<f64>,
    /// The other one.
    pub above_other_us: Option<f64>,
}

impl LegacyFetchWait {
    /// What both wait for in cells below and not above: the wait of the broker, by each library.
    #[must_use]
    pub fn waits_us(&self) -> Option<(f64, f64)> {
        Some((
            self.below_first_us - self.above_first_us?,
            self.below_other_us - self.above_other_us?,
        ))
    }

    /// The ratio that follows from a wait of `wait_us` before what each takes in cells just above.
    #[must_use]
    pub fn expected_percent(&self, wait_us: f64) -> Option<f64> {
        let (first, other) = (self.above_first_us?, self.above_other_us?);
        Some((wait_us + first) / (wait_us + other) * 100.0)
    }
}

/// Of the cells that consume in a group; `None` outside the legacy profile, or without such cells.
#[must_use]
pub fn legacy_shape(libraries: &Libraries, other: &str) -> Option<LegacyFetchWait> {
    if libraries.profile != "legacy" {
        return None;
    }
    let fetch_min_bytes = fetch_min_bytes(libraries);
    let quantity = Quantity::named("legacy_us").unwrap_or(&QUANTITIES[0]);
    let all = cells(libraries);
    let consuming = || {
        let cells = all.iter();
        cells.filter(|view| view.cell.work == "consume" && view.cell.mode == "group")
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

/// As drivers were asked; the published benchmark's value if they were not.
fn fetch_min_bytes(libraries: &Libraries) -> u64 {
    let settings = libraries.drivers.iter().flat_map(|driver| &driver.settings);
    let mut asked = settings.filter(|setting| setting.name.starts_with("fetch_min_bytes"));
    let asked = asked.find_map(|setting| setting.asked.as_ref()?.parse().ok());
    asked.filter(|bytes| *bytes > 0).unwrap_or(100_000)
}
