//! Client libraries beside each other: what all formats show of them.
//!
//! Cells of one kind of work make a group: payloads across, bursts (or rates) down, one block for each library that the
//! first is held against.

mod csv;
mod group;
mod legacy_csv;
mod markdown;
mod published;
mod resources;
mod terminal;
mod text;

use weir_stats::libraries as stats;
use weir_stats::run::{Libraries, LibraryDriver, Run};

pub(crate) use group::{Grid, Group, LibraryRows, TableCell};
pub(crate) use published::{NOTE as PUBLISHED_NOTE, SOURCE as PUBLISHED_SOURCE, published};
pub(crate) use resources::{RESOURCE_HEADINGS, resources};
pub(crate) use text::{
    at_a_glance, doubtful, explained, null_test, profile, setting_fields, setting_headings,
    without_noisy,
};

pub(crate) use markdown::sections as markdown;
pub(crate) use terminal::blocks as terminal;

/// All that a run says of libraries.
pub(crate) struct LibraryReport<'a> {
    pub(crate) libraries: &'a Libraries,
    /// The library that ratios refer to.
    pub(crate) first: Option<&'a LibraryDriver>,
    /// Those beside it that measured anything.
    pub(crate) others: Vec<&'a LibraryDriver>,
    pub(crate) groups: Vec<Group<'a>>,
}

impl<'a> LibraryReport<'a> {
    /// `None` if the run compares no libraries.
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

    /// Class that gives a driver its colour.
    pub(crate) fn slot(&self, name: &str) -> &'static str {
        const SLOTS: [&str; 7] = ["a1", "a2", "a4", "a3", "a5", "a6", "a0"];
        let drivers = &self.libraries.drivers;
        let place = drivers.iter().position(|driver| driver.name == name);
        SLOTS[place.unwrap_or(0) % SLOTS.len()]
    }

    pub(crate) fn first_name(&self) -> &'a str {
        self.first.map_or("", |driver| driver.name.as_str())
    }
}

/// Files that a run of libraries has beside its reports, name and content.
pub(crate) fn files(run: &Run) -> Vec<(String, String)> {
    let Some(compared) = LibraryReport::of(run) else {
        return Vec::new();
    };
    let mut files = vec![("libraries.csv".to_owned(), csv::table(&compared))];
    files.extend(legacy_csv::files(&compared));
    files
}
