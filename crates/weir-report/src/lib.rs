//! Renders a run directory as a terminal table, CSV, Markdown, SVG and one offline HTML page.
//!
//! The input is `run.json` and the interval logs next to it ([`weir_stats::run`] describes the
//! directory), so a report can be rebuilt at any time. Names, error texts and settings in these
//! files are untrusted; each format escapes them.

mod chart;
mod columns;
mod compare;
mod cost;
mod csv;
mod distributions;
mod escape;
mod format;
mod grid;
mod html;
mod index;
mod libraries;
mod markdown;
mod overhead;
mod overlay;
mod proxies;
mod published;
mod results;
mod run_dir;
mod shared;
mod summary;
mod sweep_table;
mod table;
mod terminal;
mod text;
mod text_table;
mod timeline;
mod view;

use std::fs;
use std::path::{Path, PathBuf};

pub use compare::{comparison_markdown, render_comparison, render_find_max};
pub use html::page as render_html;
pub use index::INDEX_FILE;
pub use markdown::report as render_markdown;
pub use overhead::{OVERHEAD_FILE, overhead_table};
pub use overlay::{compared_pair, overlay};
pub use run_dir::{ReportError, RunData};
pub use terminal::render_table;
pub use text::wrapped;
pub use text_table::{TextColumn, TextTable};

/// Rebuilds every output of a run directory and returns the paths written.
///
/// A missing or damaged interval log becomes a warning in the report. Each file is replaced
/// atomically.
pub fn write_all(dir: &Path) -> Result<Vec<PathBuf>, ReportError> {
    write_data(&RunData::read(dir)?, dir)
}

/// Writes every output of `data` into `dir`; creates `dir` if it does not exist.
pub fn write_data(data: &RunData, dir: &Path) -> Result<Vec<PathBuf>, ReportError> {
    fs::create_dir_all(dir).map_err(|error| ReportError::Write(dir.to_owned(), error))?;
    let run = &data.run;
    let mut outputs = Vec::new();
    // A library run has samples instead of cells.
    if run.libraries.is_none() || !run.cells.is_empty() {
        outputs.push(("cells.csv".to_owned(), csv::cells(run)));
        outputs.push(("series.csv".to_owned(), csv::series(run)));
        let charts = chart::chart_files(run);
        outputs.extend(charts.into_iter().map(|it| (it.file, it.svg)));
    }
    outputs.extend(libraries::files(run));
    outputs.push(("report.md".to_owned(), render_markdown(run)));
    outputs.push(("report.html".to_owned(), render_html(data)));
    outputs.extend(overhead_table(run).map(|text| (OVERHEAD_FILE.to_owned(), text)));
    let paths = outputs.iter().map(|(name, text)| replace(dir, name, text));
    paths.collect()
}

/// Writes the index of all runs in `parent` and returns its path; `None` without runs.
pub fn write_index(parent: &Path) -> Result<Option<PathBuf>, ReportError> {
    let page = index::index(parent);
    page.map(|page| replace(parent, INDEX_FILE, &page))
        .transpose()
}

/// Writes a file next to the target and renames it, so that readers never see a partial report.
fn replace(dir: &Path, name: &str, text: &str) -> Result<PathBuf, ReportError> {
    let path = dir.join(name);
    let partial = dir.join(format!(".{name}.partial"));
    let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, &path));
    match written {
        Ok(()) => Ok(path),
        Err(error) => Err(ReportError::Write(path, error)),
    }
}
