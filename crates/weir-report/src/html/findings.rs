//! Results from several cells: comparisons of two runs, searches for a maximum load, derived
//! results.

use std::fmt::Write as _;

use weir_stats::run::{
    Comparison, DerivedFrom, FindMax, FindMaxPhase, FindMaxStep, MetricComparison, Run, Verdict,
};

use super::element::HtmlTable;
use crate::escape::Markup;
use crate::format;

/// Writes all sections.
pub(crate) fn sections(out: &mut String, run: &Run) {
    for comparison in &run.comparisons {
        compared(out, comparison);
    }
    if let Some(search) = &run.find_max {
        found(out, search);
    }
    derived(out, run);
}

/// Writes the derived results.
fn derived(out: &mut String, run: &Run) {
    if run.derived.is_empty() {
        return;
    }
    out.push_str("<section id=\"derived\">\n<h2>Derived results</h2>\n");
    let mut table = HtmlTable::new(5, &["result", "of", "value", "derivation", "from"]);
    for answer in &run.derived {
        let basis = match answer.basis {
            DerivedFrom::Measured => "measured",
            DerivedFrom::Computed => "computed",
        };
        let value = match answer.value {
            Some(value) => format!("{} {}", format::figure(Some(value)), answer.unit),
            None => "not available in this run".to_owned(),
        };
        table.row(
            "",
            &[
                answer.name.clone(),
                answer.of.clone(),
                value,
                basis.to_owned(),
                answer.derivation.clone(),
            ],
        );
    }
    table.finish(out);
    out.push_str("</section>\n");
}

fn compared(out: &mut String, comparison: &Comparison) {
    let (base, other) = (&comparison.base.label, &comparison.other.label);
    if let Some(text) = crate::compare::single_repetition_note(comparison) {
        let _ = writeln!(
            out,
            "<section class=\"comparison\">\n<h2>{} compared with {}</h2>\n<p>{}</p>\n</section>",
            Markup(other),
            Markup(base),
            Markup(&text)
        );
        return;
    }
    let _ = writeln!(
        out,
        "<section class=\"comparison\">\n<h2>{} compared with {}</h2>\n<p class=\"lead\">{}</p>",
        Markup(other),
        Markup(base),
        Markup(&comparison.summary)
    );
    out.push_str(
        "<div class=\"scroll\"><table>\n<thead><tr><th scope=\"col\">subject</th><th \
         scope=\"col\">metric</th>\
         <th scope=\"col\">verdict</th><th scope=\"col\" class=\"n\">change</th>\
         <th scope=\"col\">95 % interval</th><th scope=\"col\" class=\"n\">runs</th><th \
         scope=\"col\">reason</th>\
         </tr></thead>\n<tbody>\n",
    );
    let reach = reach(comparison);
    for subject in &comparison.subjects {
        for (index, metric) in subject.metrics.iter().enumerate() {
            let name = match index {
                0 => subject.subject.to_string(),
                _ => String::new(),
            };
            line(out, &name, metric, (reach, comparison.margin_share));
        }
    }
    let _ = writeln!(
        out,
        concat!(
            "</tbody></table></div>\n<p class=\"caption\">Change of {} relative to {}, from the \
             repetitions of ",
            "both. <b>Equivalent</b>: the whole interval is within ±{} %, the pale band. \
             <b>Inconclusive</b> ",
            "does not mean equal: more repetitions are needed.{}</p>"
        ),
        Markup(other),
        Markup(base),
        format::figure(Some(comparison.margin_share * 100.0)),
        match comparison.interleaved {
            true => " The repetitions were interleaved, so drift affects both runs equally.",
            false =>
                " The runs were made one after the other, so the change includes drift between \
                 them.",
        }
    );
    for warning in &comparison.warnings {
        let _ = writeln!(
            out,
            "<ul class=\"remarks warning\"><li>{}</li></ul>",
            Markup(warning)
        );
    }
    out.push_str("</section>\n");
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

fn line(out: &mut String, name: &str, metric: &MetricComparison, scale: (f64, f64)) {
    let class = match metric.verdict {
        Verdict::Better => "ok",
        Verdict::Worse => "bad",
        Verdict::Equivalent => "",
        Verdict::Inconclusive => "warn",
    };
    let change = |ratio: Option<f64>| match ratio {
        Some(ratio) => format!("{:+.1} %", (ratio - 1.0) * 100.0),
        None => format::NONE.to_owned(),
    };
    let _ = writeln!(
        out,
        concat!(
            "<tr class=\"{}\"><th scope=\"row\">{}</th><td>{}</td><td><span class=\"badge \
             {}\">{}</span></td>",
            "<td class=\"n\">{}</td><td>{} <small>{} to {}</small></td><td class=\"n\">{} + \
             {}</td>",
            "<td class=\"reason\">{}</td></tr>"
        ),
        if name.is_empty() { "cont" } else { "" },
        Markup(name),
        Markup(&crate::chart::sweep::words(&metric.metric)),
        class,
        metric.verdict.name(),
        change(metric.ratio),
        interval(metric, scale),
        change(metric.ratio_low),
        change(metric.ratio_high),
        metric.base_values.len(),
        metric.other_values.len(),
        Markup(&metric.reason)
    );
}

/// Returns the interval on a line whose centre means no change.
fn interval(metric: &MetricComparison, (reach, margin_share): (f64, f64)) -> String {
    const WIDTH: f64 = 150.0;
    let (Some(ratio), Some(low), Some(high)) = (metric.ratio, metric.ratio_low, metric.ratio_high)
    else {
        return String::new();
    };
    let place = |ratio: f64| {
        let share = (ratio.max(1e-9).ln() / reach).clamp(-1.0, 1.0);
        WIDTH / 2.0 * (1.0 + share * 0.96)
    };
    format!(
        concat!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"interval\" width=\"{0}\" \
             height=\"14\" ",
            "viewBox=\"0 0 {0} 14\" role=\"img\" aria-label=\"interval\">",
            "<rect x=\"{5:.1}\" y=\"0\" width=\"{6:.1}\" height=\"14\" class=\"band\"/>",
            "<line x1=\"{1:.1}\" y1=\"0\" x2=\"{1:.1}\" y2=\"14\" class=\"base\"/>",
            "<line x1=\"{2:.1}\" y1=\"7\" x2=\"{3:.1}\" y2=\"7\" class=\"thick a1\"/>",
            "<circle cx=\"{4:.1}\" cy=\"7\" r=\"3.4\" class=\"fill a1\"/></svg>"
        ),
        WIDTH,
        WIDTH / 2.0,
        place(low),
        place(high),
        place(ratio),
        place(1.0 - margin_share),
        place(1.0 + margin_share) - place(1.0 - margin_share)
    )
}

fn found(out: &mut String, search: &FindMax) {
    let _ = writeln!(
        out,
        "<section id=\"search\">\n<h2>Maximum sustained load</h2>\n<p class=\"lead\">{}</p>",
        Markup(&search.summary)
    );
    let variable = crate::chart::sweep::words(&search.variable);
    let headings = [
        variable.as_str(),
        "phase",
        "sustained",
        "cell",
        "saturated",
        "reason",
    ];
    let mut table = HtmlTable::new(6, &headings);
    for step in &search.steps {
        let class = match step.sustained {
            Some(true) => "",
            Some(false) => "marked",
            None => "invalid",
        };
        table.row(class, &fields(step));
    }
    table.finish(out);
    out.push_str(
        "<p class=\"caption\">All tested loads, in order. The result was confirmed in a longer \
         run, and the next higher load was tested again.</p>\n</section>\n",
    );
}

fn fields(step: &FindMaxStep) -> [String; 6] {
    let phase = match step.phase {
        FindMaxPhase::Bracket => "bracket",
        FindMaxPhase::Bisect => "bisect",
        FindMaxPhase::Confirm => "confirm",
        FindMaxPhase::ConfirmAbove => "confirm that the next load is not sustained",
    };
    let result = match step.sustained {
        Some(true) => "✓ yes",
        Some(false) => "✗ no",
        None => "not measured",
    };
    [
        format::figure(Some(step.value)),
        phase.to_owned(),
        result.to_owned(),
        step.cell.clone(),
        step.saturated_role.clone().unwrap_or_default(),
        step.reason.clone().unwrap_or_default(),
    ]
}
