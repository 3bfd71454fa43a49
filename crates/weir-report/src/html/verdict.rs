//! The top of the page: verdict, limits, warnings and setup.

use std::fmt::Write as _;

use weir_stats::run::{Run, RunOutcome};

use super::element;
use crate::chart;
use crate::escape::Markup;
use crate::format;
use crate::view;

/// Writes the verdict.
pub(crate) fn verdict(out: &mut String, run: &Run) {
    let (class, word) = match run.outcome {
        RunOutcome::Passed => ("ok", "Passed"),
        RunOutcome::ThresholdFailed => ("bad", "Threshold failed"),
        RunOutcome::Invalid => ("bad", "Invalid measurement"),
        RunOutcome::Interrupted => ("warn", "Interrupted"),
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
            ("ok", "✓", "passed")
        } else {
            ("bad", "✗", "failed")
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

/// Writes the processes, their hosts, and settings that are equal in all cells.
pub(crate) fn measured(out: &mut String, run: &Run) {
    out.push_str("<section id=\"measured\">\n<h2>Test setup</h2>\n");
    element::figure(
        out,
        &chart::diagram(run),
        "wide",
        "Data flows from left to right, one lane per architecture. Each architecture is measured \
         separately with a fresh topic. The line below shows the span of the response time.",
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
