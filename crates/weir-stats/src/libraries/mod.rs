//! Comparison of client libraries: statistics of every cell, ratios of the first library to each
//! other one, and verdicts.
//!
//! Everything is computed from the samples. Invalid samples are excluded. Noisy samples, during
//! which other processes used the CPU, are included; every ratio is also computed without them.

mod coverage;
mod distribution;
mod fetch_wait;
mod figures;
mod pairs;
mod quantity;
mod settings;
#[cfg(test)]
pub(crate) mod tests;
mod verdict;

use crate::run::{Libraries, LibraryCell, LibraryDriver, LibrarySample};

pub use coverage::{AaTest, VerdictCounts, aa_test, count_verdicts};
pub use fetch_wait::{ConsumeTimes, LegacyFetchWait, legacy_fetch_wait};
pub use figures::{RatioPercent, SampleStatistics};
pub use pairs::{PAIRS_MIN, PairRatio, RatioVerdict};
pub use quantity::{QUANTITIES, Quantity, headline};
pub use settings::{UnequalSetting, unequal_settings};
pub use verdict::{answer, verdict};

/// Returns the cells in order, each with the valid samples of every driver.
pub fn cells(libraries: &Libraries) -> Vec<CellView<'_>> {
    let reference = reference(libraries).map(|driver| driver.name.as_str());
    let view = |cell| CellView::of(libraries, cell, reference);
    libraries.cells.iter().map(view).collect()
}

/// Returns the driver with which the others are compared: the first one with a valid sample.
pub fn reference(libraries: &Libraries) -> Option<&LibraryDriver> {
    let drivers = &libraries.drivers;
    let mut all = drivers.iter();
    let measured = all.find(|driver| is_measured(libraries, driver));
    measured.or_else(|| drivers.first())
}

/// Returns the drivers without a valid sample, except optional ones that never started.
pub fn unmeasured_drivers(libraries: &Libraries) -> impl Iterator<Item = &LibraryDriver> {
    let drivers = libraries.drivers.iter();
    drivers.filter(|driver| !driver.is_not_run() && !is_measured(libraries, driver))
}

/// Returns `true` if every driver has a valid sample, except optional ones that never started. If
/// there are such, two drivers must have one, so that there is a comparison.
pub fn is_complete(libraries: &Libraries) -> bool {
    let drivers = || libraries.drivers.iter();
    let measured = drivers().filter(|driver| is_measured(libraries, driver));
    let is_comparison = measured.count() > 1 || !drivers().any(LibraryDriver::is_not_run);
    is_comparison && unmeasured_drivers(libraries).next().is_none()
}

/// Returns `true` if the driver has a valid sample.
fn is_measured(libraries: &Libraries, driver: &LibraryDriver) -> bool {
    let mut samples = libraries.samples.iter();
    samples.any(|sample| sample.driver == driver.name && sample.invalid.is_empty())
}

/// Returns the geometric mean of each driver's medians over the cells that all of them measured,
/// divided by the lowest of them; `None` without such cells.
pub fn relative_medians<'a, 'b: 'a>(
    names: &[&str],
    cells: impl Iterator<Item = (&'a CellView<'b>, &'static Quantity)>,
) -> Vec<Option<f64>> {
    let (mut logs, mut count) = (vec![0.0; names.len()], 0.0);
    for (cell, quantity) in cells {
        let median = |name: &&str| Some(cell.driver(name)?.statistics(quantity)?.median);
        let medians: Option<Vec<f64>> = names.iter().map(median).collect();
        let Some(medians) = medians.filter(|all| all.iter().all(|it| *it > 0.0)) else {
            continue;
        };
        count += 1.0;
        for (sum, median) in logs.iter_mut().zip(medians) {
            *sum += median.ln();
        }
    }
    let lowest = logs.iter().copied().fold(f64::INFINITY, f64::min);
    let ratio = |sum: &f64| (count > 0.0).then(|| ((sum - lowest) / count).exp());
    logs.iter().map(ratio).collect()
}

/// One cell and its results.
#[derive(Debug)]
pub struct CellView<'a> {
    /// Cell.
    pub cell: &'a LibraryCell,
    /// Results of each driver, in the order of the run's drivers.
    pub drivers: Vec<DriverView<'a>>,
    /// Name of the reference driver.
    reference: Option<&'a str>,
    profile: &'a str,
}

/// The results of one driver in one cell.
#[derive(Debug)]
pub struct DriverView<'a> {
    /// Driver.
    pub driver: &'a LibraryDriver,
    /// Valid samples by repetition.
    pub samples: Vec<&'a LibrarySample>,
    /// Number of invalid samples.
    pub invalid: usize,
    /// Number of valid samples that are noisy.
    pub noisy: usize,
}

/// Comparison of the first library with another one, in one cell and one quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct LibraryComparison {
    /// Statistics of the first library.
    pub first: SampleStatistics,
    /// Statistics of the other library.
    pub other: SampleStatistics,
    /// Ratios of the statistics.
    pub ratio: RatioPercent,
    /// Median of the ratios in single repetitions.
    pub pairs: Option<PairRatio>,
    /// Median of these ratios without repetitions in which either sample is noisy.
    pub pairs_without_noisy: Option<PairRatio>,
}

impl<'a> CellView<'a> {
    fn of(libraries: &'a Libraries, cell: &'a LibraryCell, reference: Option<&'a str>) -> Self {
        let cell_samples: Vec<&LibrarySample> = libraries
            .samples
            .iter()
            .filter(|sample| sample.cell == cell.name)
            .collect();
        let drivers = libraries.drivers.iter();
        Self {
            cell,
            drivers: drivers
                .map(|driver| DriverView::of(driver, &cell_samples))
                .collect(),
            reference,
            profile: &libraries.profile,
        }
    }

    /// Returns the quantity that tables of this cell show first.
    pub fn headline(&self) -> &'static Quantity {
        headline(self.profile, self.cell)
    }

    /// Returns the results of the driver with this name.
    pub fn driver(&self, name: &str) -> Option<&DriverView<'a>> {
        self.drivers.iter().find(|view| view.driver.name == name)
    }

    /// Returns the results of the reference driver.
    pub fn reference(&self) -> Option<&DriverView<'a>> {
        self.driver(self.reference?)
    }

    /// Returns the results of all other drivers.
    pub fn others(&self) -> impl Iterator<Item = &DriverView<'a>> {
        let others = self.drivers.iter();
        others.filter(|view| Some(view.driver.name.as_str()) != self.reference)
    }

    /// Returns the percentile bootstrap interval of the median ratio of pairs, which are values of
    /// both drivers from the same repetition. It is too narrow with few pairs.
    pub fn bootstrap(&self, quantity: &Quantity, other: &str) -> Option<(f64, f64)> {
        let (first, other) = (self.reference()?, self.driver(other)?);
        pairs::bootstrap(&pairs_of(first, other, quantity, true))
    }

    /// Compares the reference driver with another; `None` unless both have a value.
    pub fn compare(&self, quantity: &Quantity, other: &str) -> Option<LibraryComparison> {
        let (first, other) = (self.reference()?, self.driver(other)?);
        let statistics = (first.statistics(quantity)?, other.statistics(quantity)?);
        let ratio = RatioPercent::of(&statistics.0, &statistics.1);
        let pairs = |with_noisy| PairRatio::of(&pairs_of(first, other, quantity, with_noisy));
        Some(LibraryComparison {
            first: statistics.0,
            other: statistics.1,
            ratio,
            pairs: pairs(true),
            pairs_without_noisy: pairs(false),
        })
    }
}

impl<'a> DriverView<'a> {
    fn of(driver: &'a LibraryDriver, cell_samples: &[&'a LibrarySample]) -> Self {
        let own = cell_samples
            .iter()
            .filter(|sample| sample.driver == driver.name);
        let (mut samples, invalid): (Vec<_>, Vec<_>) =
            own.partition::<Vec<&LibrarySample>, _>(|sample| sample.invalid.is_empty());
        samples.sort_by_key(|sample| sample.repetition);
        Self {
            driver,
            noisy: samples.iter().filter(|sample| sample.noisy).count(),
            samples,
            invalid: invalid.len(),
        }
    }

    /// Returns the quantity of each sample that has it.
    pub fn values(&self, quantity: &Quantity) -> Vec<f64> {
        let samples = self.samples.iter();
        samples.filter_map(|sample| quantity.of(sample)).collect()
    }

    /// Returns the statistics of the values; `None` without any.
    pub fn statistics(&self, quantity: &Quantity) -> Option<SampleStatistics> {
        SampleStatistics::of(&self.values(quantity))
    }
}

/// Returns pairs of values of both drivers from the same repetition.
fn pairs_of(
    first: &DriverView<'_>,
    other: &DriverView<'_>,
    quantity: &Quantity,
    with_noisy: bool,
) -> Vec<(f64, f64)> {
    let is_included = |sample: &&&LibrarySample| with_noisy || !sample.noisy;
    let pair = |sample: &&LibrarySample| {
        let mut same = other.samples.iter().filter(is_included);
        let same = same.find(|it| it.repetition == sample.repetition)?;
        Some((quantity.of(sample)?, quantity.of(same)?))
    };
    let samples = first.samples.iter().filter(is_included);
    samples.filter_map(pair).collect()
}
