//! Comparison of client libraries: the model behind all formats.
//!
//! Cells of one operation form a group: value sizes as columns, burst sizes or rates as rows, one
//! block for each library that the first is compared with.

mod csv;
mod group;
mod legacy_csv;
mod markdown;
mod published;
mod report;
mod tables;
mod terminal;
mod text;

use weir_stats::run::Run;

pub(crate) use group::{Group, TitledTable};
pub(crate) use published::{
    NOTE as PUBLISHED_NOTE, SOURCE as PUBLISHED_SOURCE, published, published_blocks,
};
pub(crate) use report::LibraryReport;
pub(crate) use tables::{
    at_a_glance, drivers, questionable_repetitions, resources, settings, without_noisy,
};
pub(crate) use text::{aa_test, explained, profile, without_jni};

pub(crate) use markdown::sections as markdown;
pub(crate) use terminal::blocks as terminal;

pub(crate) fn files(run: &Run) -> Vec<(String, String)> {
    let Some(compared) = LibraryReport::of(run) else {
        return Vec::new();
    };
    let mut files = vec![("libraries.csv".to_owned(), csv::table(&compared))];
    files.extend(legacy_csv::files(&compared));
    files
}
