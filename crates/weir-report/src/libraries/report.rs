//! The library comparison of a run: the libraries and their groups of cells.

use weir_stats::libraries as stats;
use weir_stats::run::{Libraries, LibraryDriver, Run};

use super::group::{self, Group};

pub(crate) struct LibraryReport<'a> {
    pub(crate) libraries: &'a Libraries,
    /// The library that ratios refer to.
    pub(crate) first: Option<&'a LibraryDriver>,
    /// The other libraries with samples.
    pub(crate) others: Vec<&'a LibraryDriver>,
    pub(crate) groups: Vec<Group<'a>>,
}

impl<'a> LibraryReport<'a> {
    /// Returns `None` if the run compares no libraries.
    pub(crate) fn of(run: &'a Run) -> Option<Self> {
        let libraries = run.libraries.as_ref()?;
        let first = stats::reference(libraries);
        let has_samples = |driver: &&LibraryDriver| {
            let mut samples = libraries.samples.iter();
            samples.any(|sample| sample.driver == driver.name)
        };
        let others = libraries
            .drivers
            .iter()
            .filter(|driver| first.is_none_or(|first| first.name != driver.name))
            .filter(has_samples)
            .collect();
        Some(Self {
            libraries,
            first,
            others,
            groups: group::groups(libraries),
        })
    }

    pub(crate) fn slot(&self, name: &str) -> &'static str {
        const SLOTS: [&str; 7] = ["a1", "a2", "a4", "a3", "a5", "a6", "a0"];
        let drivers = &self.libraries.drivers;
        let place = drivers.iter().position(|driver| driver.name == name);
        SLOTS[place.unwrap_or(0) % SLOTS.len()]
    }

    /// Returns all libraries with samples, the first one first.
    pub(crate) fn all(&self) -> impl Iterator<Item = &'a LibraryDriver> {
        self.first.into_iter().chain(self.others.iter().copied())
    }

    /// Returns `true` if the profile measures the same as the published comparison.
    pub(crate) fn is_legacy(&self) -> bool {
        self.libraries.profile == "legacy"
    }

    pub(crate) fn first_name(&self) -> &'a str {
        self.first.map_or("", |driver| driver.name.as_str())
    }
}
