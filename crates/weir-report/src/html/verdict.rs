//! The top of the page: verdict, limits, warnings and setup.

use maud::{Markup, html};
use weir_stats::run::Run;

use super::element::{chart, facts, remarks, section};
use crate::format;
use crate::{chart as charts, view};

pub(crate) fn verdict(run: &Run) -> Markup {
    let (class, word) = view::outcome(run);
    html! { header { "\n"
        p.eyebrow { "Weir run report " span { (run.plan) } }
        h1 { (run.title) }
        p.question { (run.question) }
        div class={ "verdict " (class) } { p.outcome { (word) } p { (run.verdict) } } "\n"
        @if !run.thresholds.is_empty() { ul.thresholds { @for it in &run.thresholds {
            @let (class, mark, word) = match it.passed {
                true => ("ok", "✓", "passed"),
                false => ("bad", "✗", "failed"),
            };
            li class=(class) {
                span.mark { (mark) } " " code { (it.expression) } " "
                span {
                    (it.scope) ": measured " b { (format::figure(it.actual)) " " (it.unit) } ", "
                    (word)
                }
            } "\n"
        } } }
        (remarks("warning", run.warnings.iter().map(|text| html! { (text) })))
        (remarks("note", run.notes.iter().map(|text| html! { (text) })))
    } "\n" }
}

/// Returns the processes, their hosts, and settings that are equal in all cells.
pub(crate) fn measured(run: &Run) -> Markup {
    let caption = "Data flows from left to right, one lane per architecture. Each architecture is \
                   measured separately with a fresh topic. The line below shows the span of the \
                   response time.";
    let machine = ("Machine", view::machine(run));
    let content = html! {
        (chart(&charts::diagram(run), caption))
        (facts(view::facts(run).into_iter().chain([machine])))
    };
    section("measured", "Test setup", &content)
}
