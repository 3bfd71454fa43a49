//! Results from several cells: comparisons of two runs, searches for a maximum load, derived
//! results.

use maud::{Markup, html};
use weir_stats::run::{Comparison, MetricComparison, Run};

use super::element::{Section, remarks};
use crate::compare::{self, Rows};
use crate::{format, shared};

pub(crate) fn sections(run: &Run) -> [Section; 3] {
    let derived = shared::derived(run);
    let compared = html! { @for it in &run.comparisons { (compared(it)) } };
    let search = html! { @if let Some(search) = &run.find_max {
        @for search in shared::searches(search) { (shared::steps(search)) }
        p.caption {
            "All tested loads, in order. The result was confirmed in a longer run, and the next \
             higher load was tested again."
        }
    } };
    [
        Section::new("comparisons", "Comparisons", compared),
        Section::new("search", "Search", search),
        Section::new(
            "derived",
            "Derived results",
            html! { @if !derived.is_empty() { (derived) } },
        ),
    ]
}

fn compared(comparison: &Comparison) -> Markup {
    let (base, other) = (&comparison.base.label, &comparison.other.label);
    let drift = match comparison.interleaved {
        true => "The repetitions were interleaved, so drift affects both runs equally.",
        false => {
            "The runs were made one after the other, so the change includes drift between them."
        }
    };
    let draw =
        |metric: &MetricComparison| interval(metric, reach(comparison), comparison.margin_share);
    let tables = |is_decided: bool| compare::tables(comparison, Rows::of(is_decided), draw);
    let undecided = compare::undecided(comparison);
    html! { div.comparison {
        h3 { (other) " compared with " (base) }
        @if let Some(text) = compare::single_repetition_note(comparison) { p { (text) } } @else {
            p.lead { (comparison.summary) }
            @for (title, table) in tables(true) { h4 { (title) } (table) }
            p.caption {
                "Change of " (other) " relative to " (base) ", from the repetitions of both. "
                b { "Equivalent" } ": the whole interval is within ±"
                (format::figure(Some(comparison.margin_share * 100.0))) " %, the pale band. "
                b { "Inconclusive" } " does not mean equal: more repetitions are needed. " (drift)
            }
            (remarks("warning", comparison.warnings.iter().map(|text| html! { (text) })))
            @if undecided > 0 { details {
                summary { (undecided) " inconclusive metrics" }
                @for (title, table) in tables(false) { h4 { (title) } (table) }
            } }
        }
    } "\n" }
}

/// Returns the half width of the interval axis, as the logarithm of a ratio.
fn reach(comparison: &Comparison) -> f64 {
    let metrics = comparison.subjects.iter().flat_map(|one| &one.metrics);
    let bounds = metrics.flat_map(|metric| [metric.ratio_low, metric.ratio_high]);
    let far = bounds
        .flatten()
        .filter(|ratio| *ratio > 0.0 && ratio.is_finite())
        .map(|ratio| ratio.ln().abs())
        .fold(0.0, f64::max);
    // A wide margin must be visible in full.
    let least = (1.0 + 2.0 * comparison.margin_share.max(0.005)).ln();
    far.clamp(least, least.max(2_f64.ln()))
}

/// Returns the interval on a line whose centre means no change.
fn interval(metric: &MetricComparison, reach: f64, margin: f64) -> Markup {
    const WIDTH: f64 = 150.0;
    let place = |ratio: f64| {
        let share = (ratio.max(1e-9).ln() / reach).clamp(-1.0, 1.0);
        WIDTH / 2.0 * (1.0 + share * 0.96)
    };
    let x = |ratio: f64| format!("{:.1}", place(ratio));
    let band = format!("{:.1}", place(1.0 + margin) - place(1.0 - margin));
    let ratios = metric.ratio.zip(metric.ratio_low).zip(metric.ratio_high);
    html! { @if let Some(((ratio, low), high)) = ratios {
        svg.interval xmlns="http://www.w3.org/2000/svg" width=(WIDTH) height="14"
            viewBox={ "0 0 " (WIDTH) " 14" } role="img" aria-label="interval" {
            rect.band x=(x(1.0 - margin)) y="0" width=(band) height="14" {}
            line.base x1=(x(1.0)) y1="0" x2=(x(1.0)) y2="14" {}
            line."thick a1" x1=(x(low)) y1="7" x2=(x(high)) y2="7" {}
            circle."fill a1" cx=(x(ratio)) cy="7" r="3.4" {}
        }
    } }
}
