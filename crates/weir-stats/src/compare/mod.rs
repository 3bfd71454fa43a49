//! Comparison of two runs, or of the variants of one run: better, worse, equivalent or
//! inconclusive.
//!
//! The unit of replication is the repetition: one value of each metric per cell. Windows and
//! records inside one repetition depend on each other. A test that treats them as independent finds
//! equal systems different more often than not.

mod differences;
mod judge;
mod libraries;
mod subjects;
mod two_sided;

use crate::metric::{self, Metric};
use crate::run::{
    Comparison, ComparisonSide, ComparisonSubject, MetricComparison, Run, SubjectComparison,
    Verdict,
};
use judge::MetricSides;
use subjects::{Repetitions, Values, of_cells, repetitions};
pub(crate) use two_sided::{LogRatio, half_width};

/// Options of a comparison.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareOptions {
    /// Margin: a difference up to this share does not matter. Default 0.03.
    pub margin_share: f64,
    /// Metrics that decide; empty: those marked in [`metric::METRICS`].
    pub headline: Vec<String>,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self {
            margin_share: 0.03,
            headline: Vec::new(),
        }
    }
}

impl CompareOptions {
    /// Returns `true` if the metric decides the result. Without a response time (`has_response`),
    /// the acknowledgement times and the plan's own metrics decide.
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

/// A run and its name in tables.
#[derive(Debug, Clone, Copy)]
pub struct NamedRun<'a> {
    /// Name, for example the directory.
    pub label: &'a str,
    /// The run.
    pub run: &'a Run,
}

/// Returns the names of the two variants of a subject in an A/A test.
pub fn aa_variants(name: Option<&str>) -> [String; 2] {
    let name = name.unwrap_or("A");
    [name.to_owned(), format!("{name} again")]
}

/// Compares `other` with `base`. `again` contains further runs of the subject of `base`, or A/A
/// tests of it. Differences up to those between such runs are not significant.
pub fn runs(
    base: NamedRun<'_>,
    other: NamedRun<'_>,
    again: &[&Run],
    options: &CompareOptions,
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
        let text = "the runs were made one after the other: anything that changed in between is \
                    part of the differences (--aa measures it)";
        comparison.warnings.push(text.to_owned());
    }
    conclude(&mut comparison);
    comparison
}

/// Compares every variant of a run with the first one. Their repetitions alternated.
pub fn variants(run: &Run, options: &CompareOptions) -> Vec<Comparison> {
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
        of_cells(cells, |cell| ComparisonSubject {
            variant: None,
            ..ComparisonSubject::of(cell)
        })
    };
    let side = |name: &str| side(NamedRun { label: name, run });
    let compare_with_base = |name: &&str| {
        let mut comparison = Comparison {
            base: side(base),
            other: side(name),
            interleaved: true,
            ..compare(&of(base), &of(name), &[], options)
        };
        conclude(&mut comparison);
        comparison
    };
    others.iter().map(compare_with_base).collect()
}

fn side(named: NamedRun<'_>) -> ComparisonSide {
    ComparisonSide {
        label: named.label.to_owned(),
        plan: named.run.plan.clone(),
        started_utc: named.run.started_utc.clone(),
        weir_version: named.run.weir_version.clone(),
    }
}

/// Compares all subjects that both sides have.
fn compare(
    base: &Repetitions,
    other: &Repetitions,
    again: &[Repetitions],
    options: &CompareOptions,
) -> Comparison {
    let mut comparison = Comparison {
        margin_share: options.margin_share,
        ..Comparison::default()
    };
    let mut chances = Vec::new();
    for (subject, ours) in base {
        let Some(theirs) = find(other, subject) else {
            continue;
        };
        let again = again.iter().flat_map(|run| {
            let of = |variant| {
                let mut subject = subject.clone();
                subject.variant = variant;
                find(run, &subject)
            };
            let same = of(subject.variant.clone()).map(|values| (ours, values));
            let [one, other] = aa_variants(subject.variant.as_deref()).map(|name| of(Some(name)));
            same.into_iter().chain(one.zip(other))
        });
        let again: Vec<(&Values, &Values)> = again.collect();
        let response = ["response_mean_ms", "response_p99_ms"];
        let has_response = response.iter().any(|name| ours.contains_key(*name));
        let mut metrics = Vec::new();
        for (name, ours) in in_order(ours) {
            let Some(theirs) = theirs.get(name) else {
                continue;
            };
            let sides = MetricSides {
                base: ours,
                other: theirs,
                lower_is_better: metric::lower_is_better(name),
                margin_share: options.margin_share,
                aa_share: aa_share(&again, name),
            };
            let is_headline = options.is_headline(name, has_response);
            chances.push(sides.chance().filter(|_| is_headline));
            metrics.push(MetricComparison {
                metric: name.clone(),
                is_headline,
                ..sides.judge()
            });
        }
        comparison.subjects.push(SubjectComparison {
            subject: subject.clone(),
            metrics,
        });
    }
    mark_significantly_worse(&mut comparison, &chances);
    comparison
}

/// Marks metrics that are significantly worse. `chances` are in the order of the metrics; `None`:
/// does not decide.
fn mark_significantly_worse(comparison: &mut Comparison, chances: &[Option<f64>]) {
    let examined: Vec<f64> = chances.iter().copied().flatten().collect();
    let mut counts = judge::holm(&examined).into_iter();
    let metrics = comparison.subjects.iter_mut().flat_map(|s| &mut s.metrics);
    for (metric, chance) in metrics.zip(chances) {
        let counts = chance.is_some() && counts.next() == Some(true);
        metric.is_significantly_worse = counts && metric.verdict == Verdict::Worse;
    }
}

fn find<'a>(side: &'a Repetitions, subject: &ComparisonSubject) -> Option<&'a Values> {
    let found = side.iter().find(|(seen, _)| seen == subject);
    found.map(|(_, values)| values)
}

/// Sorts known metrics first, in their order.
fn in_order(values: &Values) -> Vec<(&String, &Vec<f64>)> {
    let place = |name: &str| {
        metric::METRICS
            .iter()
            .position(|metric| metric.name == name)
    };
    let mut values: Vec<_> = values.iter().collect();
    values.sort_by_key(|(name, _)| place(name).unwrap_or(usize::MAX));
    values
}

/// Returns the largest difference between two sides with the same subject.
fn aa_share(again: &[(&Values, &Values)], name: &str) -> Option<f64> {
    let ratios = again.iter().filter_map(|(base, other)| {
        let ratio = LogRatio::of(base.get(name)?, other.get(name)?)?;
        Some(ratio.estimate.abs().exp_m1())
    });
    ratios.max_by(f64::total_cmp)
}

/// Adds warnings and the summary.
fn conclude(comparison: &mut Comparison) {
    let few = comparison
        .subjects
        .iter()
        .flat_map(|subject| &subject.metrics)
        .any(|metric| metric.base_values.len().min(metric.other_values.len()) < FEW);
    if few {
        let text = format!("fewer than {FEW} repetitions on a side: intervals are wide or missing");
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
        let listed: Vec<String> = with(verdict)
            .map(|(subject, metric)| format!("{} ({subject}){}", metric.metric, change(metric)))
            .collect();
        if !listed.is_empty() {
            parts.push(format!("{}: {}", verdict.name(), listed.join(", ")));
        }
    }
    for verdict in [Verdict::Equivalent, Verdict::Inconclusive] {
        let count = with(verdict).count();
        if count > 0 {
            parts.push(format!("{count} of {} {}", headlines.len(), verdict.name()));
        }
    }
    let undecided: Vec<&MetricComparison> =
        with(Verdict::Inconclusive).map(|(_, it)| *it).collect();
    let needed = match undecided.is_empty() {
        true => String::new(),
        false => format!(": {}", repetitions_text(&undecided)),
    };
    format!("{}{needed}.", parts.join("; "))
}

/// Returns the repetitions of inconclusive metrics, and the median of the estimates of how many a
/// verdict needs: `2 repetitions, about 12 needed`.
fn repetitions_text(undecided: &[&MetricComparison]) -> String {
    let fewest =
        |metric: &MetricComparison| metric.base_values.len().min(metric.other_values.len());
    let had = undecided.iter().map(|it| fewest(it)).min().unwrap_or(0);
    let had = match had {
        1 => "1 repetition".to_owned(),
        more => format!("{more} repetitions"),
    };
    let mut needed: Vec<u64> = undecided
        .iter()
        .filter_map(|it| it.repetitions_needed)
        .collect();
    needed.sort_unstable();
    match needed.get(needed.len() / 2) {
        Some(needed) => format!("{had}, about {needed} needed"),
        None if undecided.iter().all(|it| fewest(it) < 2) => {
            format!("{had}, at least {FEW} needed")
        }
        None => format!("{had}, too few for differences of this size"),
    }
}

/// Returns the comparison as the answer of a report: the largest difference, or why none is shown.
pub fn answer(comparison: &Comparison) -> String {
    let (base, other) = (&comparison.base.label, &comparison.other.label);
    let all: Vec<(&ComparisonSubject, &MetricComparison)> = comparison
        .subjects
        .iter()
        .flat_map(|it| it.metrics.iter().map(|metric| (&it.subject, metric)))
        .filter(|(_, metric)| metric.is_headline)
        .collect();
    let with = |verdict: Verdict| {
        let found = all
            .iter()
            .filter(move |(_, metric)| metric.verdict == verdict);
        found.collect::<Vec<_>>()
    };
    let size = |metric: &MetricComparison| metric.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    let part = |verdict: Verdict| {
        let found = with(verdict);
        let (subject, most) = found
            .iter()
            .max_by(|(_, a), (_, b)| size(a).total_cmp(&size(b)))?;
        Some(format!(
            "{} in {} of {}, most in {} of {subject}:{}",
            verdict.name(),
            found.len(),
            metrics(all.len()),
            most.metric,
            change(most),
        ))
    };
    let parts: Vec<String> = [Verdict::Worse, Verdict::Better]
        .into_iter()
        .filter_map(part)
        .collect();
    let undecided: Vec<&MetricComparison> =
        with(Verdict::Inconclusive).iter().map(|it| it.1).collect();
    match (all.len(), undecided.len(), parts.is_empty()) {
        (0, ..) => format!("Nothing was measured in both {base} and {other}."),
        (_, _, false) => format!("{other} compared with {base}: {}.", parts.join("; ")),
        (count, 0, true) => format!("{base} and {other} are equivalent in {}.", metrics(count)),
        (count, some, true) => format!(
            "No difference between {base} and {other} is shown: {some} of {} inconclusive ({}).",
            metrics(count),
            repetitions_text(&undecided)
        ),
    }
}

fn metrics(count: usize) -> String {
    match count {
        1 => "1 metric".to_owned(),
        more => format!("{more} metrics"),
    }
}

/// Returns the change as ` +4.1 %`, if there is a ratio.
fn change(metric: &MetricComparison) -> String {
    let percent = metric.ratio.map(|ratio| (ratio - 1.0) * 100.0);
    percent.map_or_else(String::new, |percent| format!(" {percent:+.1} %"))
}

/// Minimum number of repetitions for a useful interval.
const FEW: usize = 3;

#[cfg(test)]
mod tests;
