//! `report.html`: one self-contained file for screen, phone and paper.
//!
//! All data is in HTML tables and inline SVG. In browsers with scripts, some charts are replaced by
//! interactive ones. The page loads nothing, and its content policy allows its scripts by their
//! hashes.

mod data;
mod decision;
mod details;
mod element;
mod findings;
mod grid;
mod libraries;
mod percentiles;
mod reference;
mod reference_grid;
mod results;
mod script;
mod sections;
mod stages;
mod time;
mod verdict;

use std::fmt::Write as _;

use weir_stats::run::Run;

use crate::chart;
use crate::escape::Markup;
use crate::run_dir::RunData;
use crate::view::{self, Level};
use script::Inline;

const CSS: &str = include_str!("style.css");

/// Returns the whole page.
pub(crate) fn page(data: &RunData) -> String {
    let run = &data.run;
    let levels = view::levels(run);
    let initial = most_informative_level(&levels);
    let inline = Inline::new(&[chart::CSS, CSS]);
    let mut out = String::with_capacity(256 << 10);
    head(&mut out, run, &inline);
    out.push_str("<body>\n<div class=\"page\">\n");
    verdict::verdict(&mut out, run);
    out.push_str("<main>\n");
    findings::sections(&mut out, run);
    libraries::sections(&mut out, run);
    // A library run has no such cells and nothing for scripts to draw.
    let has_cells = run.libraries.is_none() || !run.cells.is_empty();
    let is_grid = view::is_grid(run);
    if has_cells {
        if is_grid {
            grid::section(&mut out, run, &levels);
        }
        verdict::measured(&mut out, run);
        results::section(&mut out, run, &levels);
        reference::section(&mut out, run, &levels);
        decision::section(&mut out, run);
        percentiles::section(&mut out, data, &levels, initial);
        time::section(&mut out, data, initial);
        if !is_grid {
            sections::cost_charts(&mut out, run);
        }
        sections::fairness(&mut out, run, &levels);
        sections::losses(&mut out, run);
        details::parts(&mut out, run);
    }
    details::configuration(&mut out, run);
    if has_cells {
        details::raw(&mut out, run);
    }
    out.push_str("</main>\n");
    footer(&mut out, run);
    out.push_str("</div>\n");
    if has_cells {
        scripts(&mut out, data, &levels, initial, &inline);
    }
    out.push_str("</body>\n</html>\n");
    out
}

fn head(out: &mut String, run: &Run, inline: &Inline) {
    let _ = write!(
        out,
        concat!(
            "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n",
            "<meta charset=\"utf-8\"/>\n",
            "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\"/>\n",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n",
            "<meta name=\"color-scheme\" content=\"light dark\"/>\n",
            "<meta name=\"generator\" content=\"weir {}\"/>\n",
            "<title>{}</title>\n<style>{}</style>\n</head>\n"
        ),
        Markup(&inline.policy()),
        Markup(&run.weir_version),
        Markup(&run.title),
        inline.style
    );
}

/// Writes the JSON data, which is not a script and cannot end its element, and the scripts.
fn scripts(
    out: &mut String,
    data: &RunData,
    levels: &[Level<'_>],
    initial: Option<&Level<'_>>,
    inline: &Inline,
) {
    let _ = write!(
        out,
        concat!(
            "<script type=\"application/json\" id=\"run-data\">{}</script>\n",
            "<script>{}</script>\n<script>{}</script>\n"
        ),
        data::block(data, levels, initial),
        inline.library,
        inline.page
    );
}

fn footer(out: &mut String, run: &Run) {
    let _ = writeln!(
        out,
        "<footer><p>weir {} · {} to {} · generated from run.json and its interval \
         logs</p></footer>",
        Markup(&run.weir_version),
        Markup(&run.started_utc),
        Markup(&run.finished_utc)
    );
}

/// Returns the highest level at which two architectures have results, else the highest with any.
fn most_informative_level<'a>(levels: &'a [Level<'a>]) -> Option<&'a Level<'a>> {
    let with = |count: usize| {
        levels
            .iter()
            .rev()
            .find(|level| level.valid().count() >= count)
    };
    with(2).or_else(|| with(1))
}
