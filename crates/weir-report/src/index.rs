//! `index.html`: all runs of a directory, newest first, with the trend of each plan.

use std::fs;
use std::path::Path;

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde::Deserialize;
use weir_stats::answer::Headline;
use weir_stats::run::{Confidence, ConfidenceLevel, FILE_NAME, RunOutcome, SCHEMA};

use crate::{chart, escape, format};

/// File name of the index.
pub const INDEX_FILE: &str = "index.html";
const CSS: &str = include_str!("html/style.css");
/// Runs listed; older ones are counted.
const RUNS_MAX: usize = 500;
/// Width and height of a trend, in pixels.
const TREND: (f64, f64) = (220.0, 36.0);

/// The part of `run.json` that the index shows. The rest is skipped.
#[derive(Debug, Clone, Deserialize)]
struct RunEntry {
    schema: String,
    plan: String,
    title: String,
    started_utc: String,
    weir_version: String,
    outcome: RunOutcome,
    confidence: Confidence,
    #[serde(default)]
    answer: String,
    #[serde(default)]
    headline: Option<Headline>,
    /// Name of the run directory.
    #[serde(skip)]
    dir: String,
}

/// Returns the index of all run directories in `parent`; `None` without runs. Directories that
/// contain no run of this version are left out.
pub(crate) fn index(parent: &Path) -> Option<String> {
    let entries = fs::read_dir(parent).ok()?;
    let mut runs: Vec<RunEntry> = entries
        .filter_map(|entry| read(&entry.ok()?.path()))
        .collect();
    runs.sort_by(|a, b| (&b.started_utc, &b.dir).cmp(&(&a.started_utc, &a.dir)));
    (!runs.is_empty()).then(|| page(&runs))
}

fn read(dir: &Path) -> Option<RunEntry> {
    let name = dir.file_name()?.to_str()?.to_owned();
    let text = fs::read(dir.join(FILE_NAME)).ok()?;
    let mut entry: RunEntry = serde_json::from_slice(&text).ok()?;
    entry.dir = name;
    (entry.schema == SCHEMA).then_some(entry)
}

fn page(runs: &[RunEntry]) -> String {
    let mut plans: Vec<&str> = Vec::new();
    for run in runs {
        if !plans.contains(&run.plan.as_str()) {
            plans.push(&run.plan);
        }
    }
    let page = html! {
        (DOCTYPE) "\n"
        html xmlns="http://www.w3.org/1999/xhtml" lang="en" { "\n"
            head { "\n"
                (PreEscaped("<meta charset=\"utf-8\"/>\n\
                    <meta http-equiv=\"Content-Security-Policy\" \
                    content=\"default-src 'none'; style-src 'unsafe-inline'\"/>\n\
                    <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"))
                title { "Runs" } "\n"
                style { (PreEscaped(chart::CSS)) (PreEscaped(CSS)) } "\n"
            } "\n"
            body { div.page { "\n"
                header { h1 { (format::count(runs.len() as u64)) " runs" } } "\n"
                main { @for plan in plans { (of_plan(plan, runs)) } }
                @if runs.len() > RUNS_MAX {
                    p.caption { "Only the newest " (RUNS_MAX) " runs are listed." }
                }
            } } "\n"
        } "\n"
    };
    escape::html(&page.into_string())
}

fn of_plan(plan: &str, runs: &[RunEntry]) -> Markup {
    let own: Vec<&RunEntry> = runs
        .iter()
        .take(RUNS_MAX)
        .filter(|run| run.plan == plan)
        .collect();
    let Some(newest) = own.first() else {
        return Markup::default();
    };
    html! { section id=(plan) {
        h2 { (plan) " " small { (newest.title) } }
        @if let Some((name, values)) = trend(&own) {
            p.trend { (sparkline(&values)) " " (name) ": " (change(&values)) }
        }
        div.scroll tabindex="0" { table { "\n"
            thead { tr {
                th scope="col" { "started" } th scope="col" { "result" } th scope="col" { "answer" }
                th scope="col" { "version" }
            } } "\n"
            tbody { @for run in &own { (row(run)) } } "\n"
        } }
    } "\n" }
}

fn row(run: &RunEntry) -> Markup {
    let level = match run.confidence.level {
        ConfidenceLevel::Conclusive => "ok",
        ConfidenceLevel::Indicative => "warn",
        ConfidenceLevel::NotUsable => "bad",
    };
    html! { tr {
        th scope="row" {
            a href={ (run.dir) "/report.html" } { (run.started_utc.replace('T', " ")) }
        }
        td {
            @match run.outcome {
                RunOutcome::ThresholdFailed => span.badge.bad { "threshold failed" },
                RunOutcome::Incomplete => span.badge.bad { "incomplete" },
                RunOutcome::Invalid => span.badge.bad { "invalid" },
                RunOutcome::Interrupted => span.badge.warn { "interrupted" },
                RunOutcome::Complete => "",
            } " "
            span class={ "badge " (level) } title=(run.confidence.reasons.join(", ")) {
                (run.confidence.level.words())
            }
        }
        td.reason { (run.answer) }
        td { (run.weir_version) }
    } "\n" }
}

/// Returns the headlines that are comparable with the newest one, oldest first; `None` if there
/// are fewer than two.
fn trend<'a>(newest_first: &[&'a RunEntry]) -> Option<(&'a str, Vec<f64>)> {
    let usable = newest_first
        .iter()
        .filter(|run| run.confidence.level != ConfidenceLevel::NotUsable);
    let mut headlines = usable.filter_map(|run| run.headline.as_ref()).peekable();
    let name = headlines.peek()?.name.as_str();
    let mut values: Vec<f64> = headlines
        .filter(|headline| headline.name == name && headline.value.is_finite())
        .map(|headline| headline.value)
        .collect();
    values.reverse();
    (values.len() > 1).then_some((name, values))
}

/// Returns for example `0.41 to 0.38 over 5 runs`.
fn change(values: &[f64]) -> String {
    let ends = [values.first(), values.last()].map(|end| format::figure(end.copied()));
    format!("{} to {} over {} runs", ends[0], ends[1], values.len())
}

fn sparkline(values: &[f64]) -> Markup {
    let (width, height) = TREND;
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let span = if high > low { high - low } else { 1.0 };
    let step = width / (values.len() - 1) as f64;
    let points: Vec<String> = values
        .iter()
        .enumerate()
        .map(|(at, value)| {
            let y = 3.0 + (height - 6.0) * (1.0 - (value - low) / span);
            format!("{:.1},{y:.1}", at as f64 * step)
        })
        .collect();
    html! {
        svg.relative xmlns="http://www.w3.org/2000/svg" width=(width) height=(height)
            viewBox={ "0 0 " (width) " " (height) } role="img" aria-label="trend" {
            polyline points=(points.join(" ")) fill="none" stroke="currentColor"
                stroke-width="1.5" {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(parent: &Path, name: &str, plan: &str, value: f64, level: &str) {
        let dir = parent.join(name);
        fs::create_dir_all(&dir).unwrap();
        let text = serde_json::json!({
            "schema": SCHEMA, "plan": plan, "title": "<T>", "outcome": "complete",
            "started_utc": format!("2026-01-0{value}T00:00:00Z"), "weir_version": "0.2.0",
            "confidence": {"level": level, "reasons": ["1 repetition"]},
            "answer": format!("answer {value}"), "cells": [],
            "headline": {"name": "cores", "value": value},
        });
        fs::write(dir.join(FILE_NAME), text.to_string()).unwrap();
    }

    #[test]
    fn runs_are_listed_with_the_trend_of_their_plan() {
        let parent = tempfile::tempdir().unwrap();
        assert_eq!(index(parent.path()), None);
        write(parent.path(), "a", "keyed", 1.0, "conclusive");
        write(parent.path(), "b", "keyed", 2.0, "indicative");
        write(parent.path(), "c", "keyed", 3.0, "not_usable");
        write(parent.path(), "d", "broadcast", 4.0, "conclusive");
        fs::create_dir(parent.path().join("not-a-run")).unwrap();
        fs::write(parent.path().join("not-a-run").join(FILE_NAME), "{").unwrap();
        let page = index(parent.path()).unwrap();
        assert!(
            page.contains("4 runs") && page.contains("&lt;T&gt;"),
            "{page}"
        );
        assert!(page.contains("href=\"a/report.html\""), "{page}");
        assert!(
            page.contains("cores: 1\u{a0}to\u{a0}2 over 2 runs"),
            "{page}"
        );
        let at = |text: &str| page.find(text).unwrap();
        assert!(at("answer 3") < at("answer 1"), "newest first");
        assert_eq!(page.matches("<polyline").count(), 1);
    }
}
