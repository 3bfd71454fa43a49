//! Client libraries held against each other: the figures of every cell, ratios of the first library to each other
//! one, and what those say.
//!
//! All of it is made of the samples alone. An invalid sample counts nowhere. A noisy one counts; every ratio is there
//! without the noisy ones as well.

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

pub use coverage::{Coverage, NullTest, Outside, null_test};
pub use fetch_wait::{LegacyFetchWait, legacy_shape};
pub use figures::{RatioPercent, SampleStatistics};
pub use pairs::{PAIRS_MIN, PairRatio, RatioVerdict};
pub use quantity::{QUANTITIES, Quantity, headline};
pub use settings::{UnequalSetting, unequal_settings};
pub use verdict::{VerdictCounts, tally, verdict};

/// Cells in their order, each with the samples that count of every driver.
#[must_use]
pub fn cells(libraries: &Libraries) -> Vec<CellView<'_>> {
    let reference = reference(libraries).map(|driver| driver.name.as_str());
    let view = |cell| CellView::of(libraries, cell, reference);
    libraries.cells.iter().map(view).collect()
}

/// The driver that ratios refer to: the first one that measured anything.
#[must_use]
pub fn reference(libraries: &Libraries) -> Option<&LibraryDriver> {
    let measured = |driver: &&LibraryDriver| {
        let mut samples = libraries.samples.iter();
        samples.any(|sample| sample.driver == driver.name && sample.invalid.is_empty())
    };
    let drivers = &libraries.drivers;
    drivers.iter().find(measured).or_else(|| drivers.first())
}

/// One cell.
#[derive(Debug)]
pub struct CellView<'a> {
    /// What was to be measured.
    pub cell: &'a LibraryCell,
    /// What each driver made of it, in the order of the run's drivers.
    pub drivers: Vec<DriverView<'a>>,
    /// Name of the driver that ratios refer to.
    reference: Option<&'a str>,
    profile: &'a str,
}

/// One driver in one cell.
#[derive(Debug)]
pub struct DriverView<'a> {
    /// The driver.
    pub driver: &'a LibraryDriver,
    /// Its samples that count, by repetition.
    pub samples: Vec<&'a LibrarySample>,
    /// How many do not count.
    pub invalid: usize,
    /// How many of those that count are noisy.
    pub noisy: usize,
}

/// The first library beside another one, in one cell by one quantity.
#[derive(Debug, Clone, PartialEq)]
pub struct LibraryComparison {
    /// Figures of the first.
    pub first: SampleStatistics,
    /// Figures of the other.
    pub other: SampleStatistics,
    /// Ratio of both, figure by figure.
    pub ratio: RatioPercent,
    /// Median of the ratios of single repetitions.
    pub pairs: Option<PairRatio>,
    /// The same without repetitions in which either was noisy.
    pub quiet: Option<PairRatio>,
}

impl<'a> CellView<'a> {
    fn of(libraries: &'a Libraries, cell: &'a LibraryCell, reference: Option<&'a str>) -> Self {
        let here: Vec<&LibrarySample> = libraries
            .samples
            .iter()
            .filter(|sample| sample.cell == cell.name)
            .collect();
        let drivers = libraries.drivers.iter();
        Self {
            cell,
            drivers: drivers
                .map(|driver| DriverView::of(driver, &here))
                .collect(),
            reference,
            profile: &libraries.profile,
        }
    }

    /// The quantity that tables of this cell begin with.
    #[must_use]
    pub fn headline(&self) -> &'static Quantity {
        headline(self.profile, self.cell)
    }

    /// The driver of this name.
    #[must_use]
    pub fn driver(&self, name: &str) -> Option<&DriverView<'a>> {
        self.drivers.iter().find(|view| view.driver.name == name)
    }

    /// The one that ratios refer to.
    #[must_use]
    pub fn first(&self) -> Option<&DriverView<'a>> {
        self.driver(self.reference?)
    }

    /// All others.
    pub fn others(&self) -> impl Iterator<Item = &DriverView<'a>> {
        let others = self.drivers.iter();
        others.filter(|view| Some(view.driver.name.as_str()) != self.reference)
    }

    /// Percentile bootstrap of the median ratio of pairs, for those who expect one; too narrow with few pairs.
    #[must_use]
    pub fn bootstrap(&self, quantity: &Quantity, other: &str) -> Option<(f64, f64)> {
        let (first, other) = (self.first()?, self.driver(other)?);
        pairs::bootstrap(&pairs_of(first, other, quantity, true))
    }

    /// The first beside another; `None` unless both have a value.
    #[must_use]
    pub fn compare(&self, quantity: &Quantity, other: &str) -> Option<LibraryComparison> {
        let (first, other) = (self.first()?, self.driver(other)?);
        let figures = (first.figures(quantity)?, other.figures(quantity)?);
        let ratio = RatioPercent::of(&figures.0, &figures.1);
        let pairs = |with_noisy| PairRatio::of(&pairs_of(first, other, quantity, with_noisy));
        Some(LibraryComparison {
            first: figures.0,
            other: figures.1,
            ratio,
            pairs: pairs(true),
            quiet: pairs(false),
        })
    }
}

impl<'a> DriverView<'a> {
    fn of(driver: &'a LibraryDriver, here: &[&'a LibrarySample]) -> Self {
        let own = here.iter().filter(|sample| sample.driver == driver.name);
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

    /// The quantity of each sample that has it.
    #[must_use]
    pub fn values(&self, quantity: &Quantity) -> Vec<f64> {
        let samples = self.samples.iter();
        samples.filter_map(|sample| quantity.of(sample)).collect()
    }

    /// What the values amount to; `None` without any.
    #[must_use]
    pub fn figures(&self, quantity: &Quantity) -> Option<SampleStatistics> {
        SampleStatistics::of(&self.values(quantity))
    }
}

/// The quantity of both in the same repetition.
fn pairs_of(
    first: &DriverView<'_>,
    other: &DriverView<'_>,
    quantity: &Quantity,
    with_noisy: bool,
) -> Vec<(f64, f64)> {
    let counts = |sample: &&&LibrarySample| with_noisy || !sample.noisy;
    let pair = |sample: &&LibrarySample| {
        let mut same = other.samples.iter().filter(counts);
        let same = same.find(|it| it.repetition == sample.repetition)?;
        Some((quantity.of(sample)?, quantity.of(same)?))
    };
    let samples = first.samples.iter().filter(counts);
    samples.filter_map(pair).collect()
}
