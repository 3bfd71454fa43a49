//! The top of the page: verdict, limits, warnings and setup.

use maud::{Markup, html};
use weir_stats::run::Run;

use super::element::{chart, facts, remarks, section};
use crate::format;
use crate::{chart as charts, view};

pub(crate) fn verdict(run: &Run) -> Markup {
    let (class, word) = view::outcome(run);
    let confidence = &run.confidence;
    html! { header { "\n"
        p.eyebrow { (run.title) " " span { (run.plan) } }
        h1 { (view::answer(run)) }
        p.trust { span class={ "badge " (class) } { (word) } " "
            span class={ "badge " (view::confidence_class(run)) } { (confidence.level.words()) }
            " " (confidence.reasons.join(", "))
        } "\n"
        p.question { (run.question) }
    } "\n" }
}

/// Returns the limits with their results, the verdict on each subject, warnings and notes.
pub(crate) fn limits(run: &Run) -> Markup {
    section(
        "limits",
        "Verdict",
        &html! {
            @if let Some(verdict) = view::verdict(run) { p { (verdict) } }
            @if !run.thresholds.is_empty() { ul.thresholds { @for it in &run.thresholds {
                @let (class, mark) = view::threshold_mark(it);
                li class=(class) {
                    span.mark { (mark) } " " code { (it.expression) } " "
                    span {
                        (it.scope) ": "
                        @if it.actual.is_some() {
                            "measured " b { (format::figure(it.actual)) " " (it.unit) } ", "
                        }
                        (view::threshold_status(it))
                    }
                } "\n"
            } } }
            (remarks("warning", run.warnings.iter().map(|text| html! { (text) })))
            (remarks("note", run.notes.iter().map(|text| html! { (text) })))
        },
    )
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
