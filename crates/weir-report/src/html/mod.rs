//! `report.html`: one file that needs nothing but itself, for screen, phone and paper.
//!
//! No script runs and nothing is loaded: the content policy forbids both, tables are plain HTML and charts are
//! inline SVG. Well-formed as XML, which the tests use.

mod details;
mod element;
mod results;
mod sections;

use std::fmt::Write as _;

use weir_stats::run::{Outcome, Run};

use crate::chart;
use crate::escape::Markup;
use crate::folder::RunData;
use crate::format;
use crate::view::{self, Level};

const CSS: &str = include_str!("style.css");
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'";

/// The whole page.
pub(crate) fn page(data: &RunData) -> String {
    let run = &data.run;
    let levels = view::levels(run);
    let mut out = String::with_capacity(128 << 10);
    head(&mut out, run);
    out.push_str("<body>\n<div class=\"page\">\n");
    verdict(&mut out, run);
    out.push_str("<main>\n");
    measured(&mut out, run);
    results::section(&mut out, run, &levels);
    sections::cost_charts(&mut out, run);
    sections::percentiles(&mut out, data, &levels);
    sections::over_time(&mut out, run, &levels);
    sections::fairness(&mut out, run, &levels);
    sections::losses(&mut out, run);
    details::parts(&mut out, run);
    details::reference(&mut out, run);
    details::configuration(&mut out, run);
    details::raw(&mut out, run);
    out.push_str("</main>\n");
    footer(&mut out, run);
    out.push_str("</div>\n</body>\n</html>\n");
    out
}

fn head(out: &mut String, run: &Run) {
    let _ = write!(
        out,
        concat!(
            "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\">\n<head>\n",
            "<meta charset=\"utf-8\"/>\n",
            "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\"/>\n",
            "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n",
            "<meta name=\"color-scheme\" content=\"light dark\"/>\n",
            "<meta name=\"generator\" content=\"weir {}\"/>\n",
            "<title>{}</title>\n<style>\n{}{}</style>\n</head>\n"
        ),
        Markup(POLICY),
        Markup(&run.weir_version),
        Markup(&run.title),
        chart::CSS,
        CSS
    );
}

fn verdict(out: &mut String, run: &Run) {
    let (class, word) = match run.outcome {
        Outcome::Passed => ("ok", "Passed"),
        Outcome::ThresholdFailed => ("bad", "Threshold failed"),
        Outcome::Invalid => ("bad", "Invalid measurement"),
        Outcome::Interrupted => ("warn", "Interrupted"),
    };
    let _ = write!(
        out,
        concat!(
            "<header>\n<p class=\"eyebrow\">Weir run report <span>{}</span></p>\n<h1>{}</h1>\n",
            "<p class=\"question\">{}</p>\n",
            "<div class=\"verdict {class}\"><p class=\"outcome\">{word}</p><p>{}</p></div>\n"
        ),
        Markup(&run.plan),
        Markup(&run.title),
        Markup(&run.question),
        Markup(&run.verdict),
        class = class,
        word = word
    );
    thresholds(out, run);
    remarks(out, "warning", &run.warnings);
    remarks(out, "note", &run.notes);
    out.push_str("</header>\n");
}

fn thresholds(out: &mut String, run: &Run) {
    if run.thresholds.is_empty() {
        return;
    }
    out.push_str("<ul class=\"thresholds\">\n");
    for threshold in &run.thresholds {
        let (class, mark, word) = if threshold.passed {
            ("ok", "✓", "held")
        } else {
            ("bad", "✗", "not held")
        };
        let _ = writeln!(
            out,
            concat!(
                "<li class=\"{}\"><span class=\"mark\">{}</span> <code>{}</code> ",
                "<span>{}: measured <b>{} {}</b>, {}</span></li>"
            ),
            class,
            mark,
            Markup(&threshold.expression),
            Markup(&threshold.scope),
            format::figure(threshold.actual),
            Markup(&threshold.unit),
            word
        );
    }
    out.push_str("</ul>\n");
}

fn remarks(out: &mut String, class: &str, texts: &[String]) {
    if texts.is_empty() {
        return;
    }
    let _ = write!(out, "<ul class=\"remarks {class}\">");
    for text in texts {
        let _ = write!(out, "<li>{}</li>", Markup(text));
    }
    out.push_str("</ul>\n");
}

fn measured(out: &mut String, run: &Run) {
    out.push_str("<section id=\"measured\">\n<h2>What was measured</h2>\n");
    element::figure(
        out,
        &chart::diagram(run),
        "wide",
        "Records run from left to right, one lane per architecture, each measured on its own with a \
         fresh topic. The line below shows the span of the headline latency.",
    );
    out.push_str("<dl class=\"facts\">");
    for (label, text) in view::facts(run) {
        let _ = write!(out, "<div><dt>{label}</dt><dd>{}</dd></div>", Markup(&text));
    }
    let machine = &run.machine;
    let _ = write!(
        out,
        "<div><dt>Machine</dt><dd>{}, {} cores, {}</dd></div>",
        Markup(&machine.cpu_model),
        machine.cpu_cores,
        format::bytes(machine.memory_bytes as f64)
    );
    out.push_str("</dl>\n</section>\n");
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
fn telling_level<'a>(levels: &'a [Level<'a>]) -> Option<u64> {
    let with = |count: usize| {
        levels
            .iter()
            .rev()
            .find(|level| level.valid().count() >= count)
    };
    with(2).or_else(|| with(1)).map(|level| level.clients)
}
