//! `report.html`: one self-contained file for screen, phone and paper.
//!
//! All data is in HTML tables and inline SVG. In browsers with scripts, some charts are replaced by
//! interactive ones. The page loads nothing, and its content policy allows its scripts by their
//! hashes.

mod data;
mod delivery;
mod details;
mod element;
mod findings;
mod grid;
mod libraries;
mod percentiles;
mod results;
mod script;
mod time;
mod verdict;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_stats::run::Run;

use crate::published;
use crate::run_dir::RunData;
use crate::summary::{self, Summary};
use crate::view::{self, Level};
use crate::{chart, cost, escape};
use element::section;
use script::Inline;

const CSS: &str = include_str!("style.css");

/// Returns the report as one HTML page.
pub fn page(data: &RunData) -> String {
    let run = &data.run;
    let levels = view::levels(run);
    let initial = most_informative_level(&levels);
    let inline = Inline::new(&[chart::CSS, CSS]);
    // A library run has no such cells and nothing for scripts to draw.
    let has_cells = run.libraries.is_none() || !run.cells.is_empty();
    let page = html! {
        (DOCTYPE) "\n"
        html xmlns="http://www.w3.org/1999/xhtml" lang="en" { "\n"
            (head(run, &inline))
            body { "\n"
                div.page { "\n"
                    (verdict::verdict(run))
                    main {
                        @if let Some(summary) = summary::summary(run, &levels) {
                            (first_screen(&summary, run, &levels))
                        }
                        (verdict::limits(run))
                        (findings::sections(run))
                        (libraries::sections(run))
                        @if has_cells { (cells(data, &levels, initial)) }
                        (details::configuration(run))
                        @if has_cells { (details::raw(run)) }
                    } "\n"
                    footer { p {
                        "weir " (run.weir_version) " · " (run.started_utc) " to "
                        (run.finished_utc) " · generated from run.json and its interval logs"
                    } } "\n"
                } "\n"
                @if has_cells {
                    // The data is not a script and cannot end its element.
                    script type="application/json" id="run-data" {
                        (PreEscaped(data::block(data, &levels, initial)))
                    } "\n"
                    script { (PreEscaped(&inline.library)) } "\n"
                    script { (PreEscaped(&inline.page)) } "\n"
                }
            } "\n"
        } "\n"
    };
    escape::page(&page.into_string())
}

/// Returns the table of the first screen, and a chart if the run has several levels.
fn first_screen(summary: &Summary, run: &Run, levels: &[Level<'_>]) -> Markup {
    let content = html! {
        div.sortable { (summary.table) }
        p.caption { (summary.caption) }
        @if delivery::varies(run, levels) { (delivery::by_load(run, levels)) }
    };
    section("summary", &summary.title, &content)
}

fn head(run: &Run, inline: &Inline) -> Markup {
    html! { head { "\n"
        (PreEscaped("<meta charset=\"utf-8\"/>\n"))
        (meta("http-equiv=\"Content-Security-Policy\"", &inline.policy()))
        (meta("name=\"viewport\"", "width=device-width, initial-scale=1"))
        (meta("name=\"color-scheme\"", "light dark"))
        (meta("name=\"generator\"", &format!("weir {}", run.weir_version)))
        title { (run.title) } "\n"
        style { (PreEscaped(&inline.style)) } "\n"
    } "\n" }
}

/// Returns an element that ends as in XML, so that the page is both HTML and XML.
fn meta(attribute: &str, content: &str) -> Markup {
    let content = html! { (content) }.into_string();
    PreEscaped(format!("<meta {attribute} content=\"{content}\"/>\n"))
}

fn cells(data: &RunData, levels: &[Level<'_>], initial: Option<&Level<'_>>) -> Markup {
    let run = &data.run;
    let is_grid = view::is_grid(run);
    let costs = cost::table(run);
    html! {
        @if is_grid { (grid::sections(run, levels)) }
        (verdict::measured(run))
        (results::sections(run, levels))
        (reference(run, levels))
        @if !costs.is_empty() { (section("decision", "Cost by architecture", &html! {
            div.live {} (costs) p.caption { (cost::CAPTION) }
        })) }
        (percentiles::sections(data, levels, initial))
        (time::sections(data, initial))
        @if !is_grid { (delivery::costs(run, levels)) }
        (delivery::fairness(run, levels))
        (delivery::losses(run))
        (details::parts(run))
    }
}

/// Returns the published results; the heading says that they are from other hardware.
fn reference(run: &Run, levels: &[Level<'_>]) -> Markup {
    html! { @if let Some(it) = &run.reference { section id="reference" {
        h2 { "Published results " span."badge warn" { "other hardware" } }
        p { (it.source) ". Measured on " (it.hardware) ". " (it.note) }
        (published::table(run, levels))
        p.caption { (published::CAPTION) }
    } "\n" } }
}

/// Returns the highest level at which two architectures have results, else the highest with any.
fn most_informative_level<'a>(levels: &'a [Level<'a>]) -> Option<&'a Level<'a>> {
    let with = |count: usize| {
        let mut levels = levels.iter().rev();
        levels.find(|level| level.valid().count() >= count)
    };
    with(2).or_else(|| with(1))
}
