//! `report.html`: one self-contained file for screen, phone and paper.
//!
//! All data is in HTML tables and inline SVG. In browsers with scripts, some charts are replaced by
//! interactive ones. The page loads nothing, and its content policy allows its scripts by their
//! hashes.

mod cost;
mod data;
mod delivery;
mod details;
mod element;
mod findings;
mod first_screen;
mod grid;
mod latency;
mod libraries;
mod percentiles;
mod results;
mod script;
mod time;
mod verdict;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use weir_stats::run::Run;

use crate::run_dir::RunData;
use crate::view::{self, Level};
use crate::{chart, escape, published};
use element::{Section, navigation};
use script::Inline;

const CSS: &str = include_str!("style.css");

/// Returns the report as one HTML page.
pub fn page(data: &RunData) -> String {
    let run = &data.run;
    let levels = view::levels(run);
    let initial = most_informative_level(&levels);
    let inline = Inline::new(&[chart::CSS, CSS]);
    let mut sections = vec![
        first_screen::section(data, &levels, initial),
        verdict::limits(run),
    ];
    sections.extend(findings::sections(run));
    sections.extend(libraries::sections(run));
    if has_cells(run) {
        sections.extend(cells(data, &levels, initial));
    }
    sections.push(details::configuration(run));
    if has_cells(run) {
        sections.push(details::raw(run));
    }
    sections.retain(|section| !section.is_empty());
    let page = html! {
        (DOCTYPE) "\n"
        html xmlns="http://www.w3.org/1999/xhtml" lang="en" { "\n"
            (head(run, &inline))
            body { "\n"
                (navigation(&sections))
                div.page { "\n"
                    (verdict::verdict(run))
                    main { @for section in &sections { (section) } } "\n"
                    footer { p {
                        "weir " (run.weir_version) " · " (run.started_utc) " to "
                        (run.finished_utc) " · generated from run.json and its interval logs"
                    } } "\n"
                } "\n"
                // The data is not a script and cannot end its element.
                script type="application/json" id="run-data" {
                    (PreEscaped(data::block(data, &levels, initial)))
                } "\n"
                @if has_cells(run) { script { (PreEscaped(&inline.library)) } "\n" }
                script { (PreEscaped(&inline.page)) } "\n"
            } "\n"
        } "\n"
    };
    escape::html(&page.into_string())
}

/// Returns `false` for a run of client libraries, which has samples instead.
fn has_cells(run: &Run) -> bool {
    run.libraries.is_none() || !run.cells.is_empty()
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

fn cells(data: &RunData, levels: &[Level<'_>], initial: Option<&Level<'_>>) -> [Section; 6] {
    let run = &data.run;
    [
        results::section(run, levels),
        latency::section(data, levels, initial),
        time::section(data, initial),
        cost::section(run, levels),
        delivery::section(run, levels),
        reference(run, levels),
    ]
}

/// Returns the published results of the levels that this run has too; the heading says that they
/// are from other hardware.
fn reference(run: &Run, levels: &[Level<'_>]) -> Section {
    let table = published::table(run, levels);
    let it = run.reference.as_ref().filter(|_| !table.is_empty());
    let content = html! { @if let Some(it) = it {
        p { (it.source) ". Measured on " (it.hardware) ". " (it.note) }
        (table)
        p.caption { (published::CAPTION) }
    } };
    Section::new("published", "Published results", content).with_badge("warn", "other hardware")
}

/// Returns the highest level at which two architectures have results, else the highest with any.
fn most_informative_level<'a>(levels: &'a [Level<'a>]) -> Option<&'a Level<'a>> {
    let with = |count: usize| {
        let mut levels = levels.iter().rev();
        levels.find(|level| level.valid().count() >= count)
    };
    with(2).or_else(|| with(1))
}
