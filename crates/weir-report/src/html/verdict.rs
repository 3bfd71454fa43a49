//! The top of the page: answer, confidence, limits and warnings.

use maud::{Markup, html};
use weir_stats::answer;
use weir_stats::run::Run;

use super::element::{Section, remarks};
use crate::{format, view};

pub(crate) fn verdict(run: &Run) -> Markup {
    let (class, word) = view::outcome(run);
    let confidence = &run.confidence;
    html! { header { "\n"
        p.eyebrow { (run.title) " " span { (run.plan) } }
        h1 { (view::answer(run)) }
        p.trust { span class={ "badge " (class) } { (word) } " "
            span class={ "badge " (view::confidence_class(run)) } { (confidence.level.words()) }
            " " (confidence.reasons.join(", "))
            " " span.noise-text { (answer::noise(run)) }
        } "\n"
        p.question { (run.question) }
    } "\n" }
}

/// Returns the limits with their results, the verdict on each subject, warnings and notes.
pub(crate) fn limits(run: &Run) -> Section {
    Section::new(
        "verdict",
        "Verdict",
        html! {
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
