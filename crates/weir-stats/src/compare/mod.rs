//! Two runs, or the variants of one, beside each other: better, worse, equivalent or inconclusive.
//!
//! The unit of replication is the repetition: one value of each metric per cell. Windows and records inside one
//! depend on each other, and a test that takes them for independent calls equal systems different more often
//! than not.

mod differences;
mod judge;
mod libraries;
mod two_sided;

use std::collections::BTreeMap;

use crate::metric::{self, Metric};
use crate::run::{
    Comparison, ComparisonSide, ComparisonSubject, MetricComparison, Run, SubjectComparison,
    Verdict,
};
use judge::MetricSides;
pub(crate) use two_sided::LogRatio;

/// How to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// A difference up to this share does not matter; 0.03 unless told.
    pub margin_share: f64,
    /// Metrics that decide; empty: those that [`metric::METRICS`] marks.
    pub headline: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            margin_share: 0.03,
            headline: Vec::new(),
        }
    }
}

impl Options {
    /// `has_response`: the subject has a response time. Where nobody receives, what the broker answered decides, and
    /// the plan's own figures.
    fn is_headline(&self, name: &str, has_response: bool) -> bool {
        if !self.headline.is_empty() {
            return self.headline.iter().any(|wanted| wanted == name);
        }
        match Metric::named(name) {
            Some(metric) if metric.is_headline => true,
            Some(metric) => !has_response && metric.name.starts_with("publish_ack"),
            None => !has_response,
        }
    }
}

/// A run and the name it has in tables.
#[derive(Debug, Clone, Copy)]
pub struct NamedRun<'a> {
    /// For example its folder.
    pub label: &'a str,
    /// The run.
    pub run: &'a Run,
}

/// Names of the two variants that one thing has in a run that holds it against itself.
pub fn twins(name: Option<&str>) -> [String; 2] {
    let name = name.unwrap_or("A");
    [name.to_owned(), format!("{name} again")]
}

/// Holds `other` against `base`. `again` are further runs of what `base` is, or runs of it [twice](twins): differences
/// no larger than between those and `base`, or between the two, are not called.
pub fn runs(
    base: NamedRun<'_>,
    other: NamedRun<'_>,
    again: &[&Run],
    options: &Options,
) -> Comparison {
    let sides = [base, other].map(|named| repetitions(named.run));
    let again: Vec<_> = again.iter().map(|run| repetitions(run)).collect();
    let mut comparison = Comparison {
        base: side(base),
        other: side(other),
        interleaved: false,
        warnings: differences::between(base.run, other.run),
        ..compare(&sides[0], &sides[1], &again, options)
    };
    if again.is_empty() {
        let text = "the runs were made one after the other: what changed in between, other than what is \
                    compared, is in the differences (--aa measures it)";
        comparison.warnings.push(text.to_owned());
    }
    conclude(&mut comparison);
    comparison
}

/// Every variant of a run against the one that comes first there. Their repetitions took turns.
pub fn variants(run: &Run, options: &Options) -> Vec<Comparison> {
    let mut names: Vec<&str> = Vec::new();
    for name in run.cells.iter().filter_map(|cell| cell.variant.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let Some((base, others)) = names.split_first() else {
        return Vec::new();
    };
    let of = |name: &str| {
        let cells = run.cells.iter();
        let cells = cells.filter(|cell| cell.variant.as_deref() == Some(name));
        let mut by_subject = Repetitions::new();
        for cell in cells.filter(|cell| cell.is_valid()) {
            let subject = ComparisonSubject {
                variant: None,
                ..ComparisonSubject::of(cell)
            };
            add(&mut by_subject, subject, metric::all_of(cell));
        }
        by_subject
    };
    let side = |name: &str| side(NamedRun { label: name, run });
    let held_against = |name: &&str| {
        let mut comparison = Comparison {
            base: side(base),
            other: side(name),
            interleaved: true,
            ..compare(&of(base), &of(name), &[], options)
        };
        conclude(&mut comparison);
        comparison
    };
    others.iter().map(held_against).collect()
}

/// Of one subject: a value per repetition, by metric; a metric that a repetition does not have is shorter.
type Values = BTreeMap<String, Vec<f64>>;

/// What valid repetitions say of each subject, in the order in which subjects first ran.
type Repetitions = Vec<(ComparisonSubject, Values)>;

fn repetitions(run: &Run) -> Repetitions {
    let mut by_subject = Repetitions::new();
    for cell in run.cells.iter().filter(|cell| cell.is_valid()) {
        add(
            &mut by_subject,
            ComparisonSubject::of(cell),
            metric::all_of(cell),
        );
    }
    for (subject, values) in run.libraries.iter().flat_map(libraries::repetitions) {
        add(&mut by_subject, subject, values);
    }
    by_subject
}

fn add<'a>(
    by_subject: &mut Repetitions,
    subject: ComparisonSubject,
    found: impl IntoIterator<Item = (&'a str, f64)>,
) {
    let place = by_subject.iter().position(|(seen, _)| *seen == subject);
    let place = place.unwrap_or_else(|| {
        by_subject.push((subject, Values::new()));
        by_subject.len() - 1
    });
    for (name, value) in found {
        let values = by_subject[place].1.entry(name.to_owned()).or_default();
        values.push(value);
    }
}

fn side(named: NamedRun<'_>) -> ComparisonSide {
    ComparisonSide {
        label: named.label.to_owned(),
        plan: named.run.plan.clone(),
        started_utc: named.run.started_utc.clone(),
        weir_version: named.run.weir_version.clone(),
    }
}

/// All subjects that both sides have.
fn compare(
    base: &Repetitions,
    other: &Repetitions,
    again: &[Repetitions],
    options: &Options,
) -> Comparison {
    let of = |side: &Repetitions, subject: &ComparisonSubject| -> Option<Values> {
        let (_, values) = side.iter().find(|(seen, _)| seen == subject)?;
        Some(values.clone())
    };
    let mut comparison = Comparison {
        margin_share: options.margin_share,
        ..Comparison::default()
    };
    let mut chances = Vec::new();
    for (subject, ours) in base {
        let Some(theirs) = of(other, subject) else {
            continue;
        };
        let mut metrics = Vec::new();
        let again = again.iter().flat_map(|run| {
            let of = |variant: Option<String>| {
                let subject = ComparisonSubject {
                    variant,
                    ..subject.clone()
                };
                of(run, &subject)
            };
            let same = of(subject.variant.clone()).map(|values| (ours.clone(), values));
            let twins = twins(subject.variant.as_deref()).map(|name| of(Some(name)));
            let [one, other] = twins;
            same.into_iter().chain(one.zip(other))
        });
        let again: Vec<(Values, Values)> = again.collect();
        let has_response =
            ours.contains_key("response_mean_ms") || ours.contains_key("response_p99_ms");
        for (name, ours) in in_order(ours.clone()) {
            let Some(theirs) = theirs.get(&name) else {
                continue;
            };
            let sides = MetricSides {
                base: &ours,
                other: theirs,
                lower_is_better: metric::lower_is_better(&name),
                margin_share: options.margin_share,
                aa_share: aa_share(&again, &name),
            };
            let is_headline = options.is_headline(&name, has_response);
            chances.push(sides.chance().filter(|_| is_headline));
            metrics.push(MetricComparison {
                metric: name,
                is_headline,
                ..sides.judge()
            });
        }
        comparison.subjects.push(SubjectComparison {
            subject: subject.clone(),
            metrics,
        });
    }
    mark_surely_worse(&mut comparison, &chances);
    comparison
}

/// Chances in the order of the metrics; those that do not decide have none.
fn mark_surely_worse(comparison: &mut Comparison, chances: &[Option<f64>]) {
    let looked_at: Vec<f64> = chances.iter().copied().flatten().collect();
    let mut counts = judge::holm(&looked_at).into_iter();
    let metrics = comparison.subjects.iter_mut().flat_map(|s| &mut s.metrics);
    for (metric, chance) in metrics.zip(chances) {
        let counts = chance.is_some() && counts.next() == Some(true);
        metric.is_surely_worse = counts && metric.verdict == Verdict::Worse;
    }
}

/// Known metrics first, in their order.
fn in_order(values: Values) -> Vec<(String, Vec<f64>)> {
    let place = |name: &str| {
        let known = metric::METRICS
            .iter()
            .position(|metric| metric.name == name);
        known.unwrap_or(usize::MAX)
    };
    let mut values: Vec<_> = values.into_iter().collect();
    values.sort_by_key(|(name, _)| place(name));
    values
}

/// The largest difference between two sides that are the same.
fn aa_share(again: &[(Values, Values)], name: &str) -> Option<f64> {
    let ratios = again.iter().filter_map(|(base, other)| {
        let ratio = LogRatio::of(base.get(name)?, other.get(name)?)?;
        Some(ratio.estimate.abs().exp_m1())
    });
    ratios.max_by(f64::total_cmp)
}

/// The answer in a sentence.
fn conclude(comparison: &mut Comparison) {
    let few = comparison
        .subjects
        .iter()
        .flat_map(|subject| &subject.metrics)
        .any(|metric| metric.base_values.len().min(metric.other_values.len()) < FEW);
    if few {
        let text =
            format!("fewer than {FEW} repetitions on a side: intervals are wide, if there are any");
        comparison.warnings.push(text);
    }
    comparison.summary = summary(comparison);
}

fn summary(comparison: &Comparison) -> String {
    let headlines: Vec<(&ComparisonSubject, &MetricComparison)> = comparison
        .subjects
        .iter()
        .flat_map(|s| s.metrics.iter().map(|metric| (&s.subject, metric)))
        .filter(|(_, metric)| metric.is_headline)
        .collect();
    if headlines.is_empty() {
        return "Nothing was measured on both sides.".to_owned();
    }
    let with = |verdict: Verdict| {
        headlines
            .iter()
            .filter(move |(_, metric)| metric.verdict == verdict)
    };
    let mut parts = Vec::new();
    for verdict in [Verdict::Worse, Verdict::Better] {
        let told: Vec<String> = with(verdict)
            .map(|(subject, metric)| format!("{} ({subject}){}", metric.metric, change(metric)))
            .collect();
        if !told.is_empty() {
            parts.push(format!("{}: {}", verdict.name(), told.join(", ")));
        }
    }
    for verdict in [Verdict::Equivalent, Verdict::Inconclusive] {
        let count = with(verdict).count();
        if count > 0 {
            parts.push(format!("{count} of {} {}", headlines.len(), verdict.name()));
        }
    }
    format!("{}.", parts.join("; "))
}

/// ` +4.1 %`, if there is a ratio.
fn change(metric: &MetricComparison) -> String {
    let percent = metric.ratio.map(|ratio| (ratio - 1.0) * 100.0);
    percent.map_or_else(String::new, |percent| format!(" {percent:+.1} %"))
}

/// Below it an interval says little.
const FEW: usize = 3;

#[cfg(test)]
mod tests;
