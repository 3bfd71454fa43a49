//! `report.html`: one file that needs nothing but itself, for screen, phone and paper.
//!
//! Everything is there as plain HTML tables and inline SVG; on a screen with scripts some of the charts are redrawn
//! so that they answer to the reader. Nothing is loaded, and the content policy names the scripts by their hashes.

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

/// The whole page.
pub(crate) fn page(data: &RunData) -> String {
    let run = &data.run;
    let levels = view::levels(run);
    let telling = most_informative_level(&levels);
    let inline = Inline::new(&[chart::CSS, CSS]);
    let mut out = String::with_capacity(256 << 10);
    head(&mut out, run, &inline);
    out.push_str("<body>\n<div class=\"page\">\n");
    verdict::verdict(&mut out, run);
    out.push_str("<main>\n");
    findings::sections(&mut out, run);
    libraries::sections(&mut out, run);
    // A run of libraries alone has no cells of this kind, and nothing that a script would draw.
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
        percentiles::section(&mut out, data, &levels, telling);
        time::section(&mut out, data, telling);
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
        scripts(&mut out, data, &levels, telling, &inline);
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

/// The data is no script, and no string in it can end its element.
fn scripts(
    out: &mut String,
    data: &RunData,
    levels: &[Level<'_>],
    telling: Option<&Level<'_>>,
    inline: &Inline,
) {
    let _ = write!(
        out,
        concat!(
            "<script type=\"application/json\" id=\"run-data\">{}</script>\n",
            "<script>{}</script>\n<script>{}</script>\n"
        ),
        data::block(data, levels, telling),
        inline.library,
        inline.page
    );
}

fn footer(out: &mut String, run: &Run) {
    let _ = writeln!(
        out,
        "<footer><p>weir {} · {} to {} · rebuilt from run.json and the interval logs beside it</p></footer>",
        Markup(&run.weir_version),
        Markup(&run.started_utc),
        Markup(&run.finished_utc)
    );
}

/// The level that shows most: the highest at which two architectures have figures, else the highest with any.
fn most_informative_level<'a>(levels: &'a [Level<'a>]) -> Option<&'a Level<'a>> {
    let with = |count: usize| {
        levels
            .iter()
            .rev()
            .find(|level| level.valid().count() >= count)
    };
    with(2).or_else(|| with(1))
}
