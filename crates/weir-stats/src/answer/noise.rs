//! The noise of a run in one sentence: how much a subject differs from itself, and the smallest
//! difference that the run can distinguish from noise.

use super::{clients, proxy};
use crate::compare::{self, CompareOptions, half_width};
use crate::interval::{self, Estimate};
use crate::libraries;
use crate::run::{FindMax, FindMaxOutcome, Libraries, NoiseFloor, Repetitions, Run};

/// Returns the result of an A/A test; `None` for other runs.
pub fn noise_floor(run: &Run) -> Option<NoiseFloor> {
    let (metric, share, repetitions) = match &run.libraries {
        Some(compared) if compared.aa_test => of_libraries(compared)?,
        Some(_) => return None,
        None => of_variants(run)?,
    };
    Some(NoiseFloor {
        metric: metric.to_owned(),
        share,
        repetitions,
        started_utc: run.started_utc.clone(),
        run: None,
    })
}

/// Returns the answer of an A/A test of a gateway; `None` for other runs.
pub(super) fn answer(run: &Run) -> Option<String> {
    let floor = noise_floor(run)?;
    Some(format!(
        "Two identical gateways differ by {} in {}: this is the noise of the plan on this machine.",
        percent(floor.share),
        words(&floor.metric)
    ))
}

/// Returns the difference in CPU time per delivery between a variant and its repetition.
fn of_variants(run: &Run) -> Option<(&'static str, f64, u64)> {
    let all = compare::variants(run, &CompareOptions::default());
    let [comparison] = all.as_slice() else {
        return None;
    };
    let mut names = run.cells.iter().filter_map(|cell| cell.variant.as_deref());
    let expected = compare::aa_variants(names.next());
    if [&comparison.base.label, &comparison.other.label] != [&expected[0], &expected[1]] {
        return None;
    }
    let metrics = comparison.subjects.iter().flat_map(|it| &it.metrics);
    let own: Vec<_> = metrics.filter(|it| it.metric == CPU).collect();
    let shares = own.iter().filter_map(|it| Some(share_of(it.ratio?)));
    let repetitions = own.iter().map(|it| it.base_values.len()).min()?;
    Some((CPU, shares.max_by(f64::total_cmp)?, repetitions as u64))
}

/// Returns the difference of the main metric that 95 % of the cells do not exceed.
fn of_libraries(compared: &Libraries) -> Option<(&'static str, f64, u64)> {
    let mut shares: Vec<f64> = pairs(compared)
        .iter()
        .map(|it| share_of(it.value))
        .collect();
    shares.sort_by(f64::total_cmp);
    let last = shares.len().checked_sub(1)?;
    let share = shares[(last as f64 * 0.95).round() as usize];
    let cells = compared.cells.iter().filter(|cell| cell.skipped.is_none());
    let repetitions = cells.map(|cell| cell.repetitions).min()?;
    Some((LIBRARY_TIME, share, u64::from(repetitions)))
}

/// Returns the ratio of the main metric in each cell, for each library other than the first.
fn pairs(compared: &Libraries) -> Vec<Estimate> {
    let cells = libraries::cells(compared);
    let ratios = cells.iter().flat_map(|cell| {
        let names = cell.others().map(|other| other.driver.name.as_str());
        names.filter_map(|name| cell.compare(cell.headline(), name)?.pairs)
    });
    ratios
        .filter(|it| it.percent.is_finite() && it.percent > 0.0)
        .map(|it| Estimate {
            value: it.percent / 100.0,
            bounds: it.bounds.map(|(low, high)| (low / 100.0, high / 100.0)),
            count: it.count,
        })
        .collect()
}

/// Returns a sentence with the result of the plan's A/A test and the smallest difference that the
/// run can detect.
pub fn noise(run: &Run) -> String {
    let own = noise_floor(run);
    let floor = own.as_ref().or(run.aa_test.as_ref());
    let (metric, smallest) = smallest_difference(run);
    let lead = match floor {
        Some(floor) => format!(
            "Noise: in the A/A test of {} two identical subjects differed by {} in {}",
            floor.started_utc.split('T').next().unwrap_or_default(),
            percent(floor.share),
            words(&floor.metric)
        ),
        None => "Noise: no A/A test of this plan on this machine".to_owned(),
    };
    let floor_share = floor.filter(|it| it.metric == metric).map(|it| it.share);
    let smallest = smallest.map(|share| share.max(floor_share.unwrap_or(0.0)));
    let metric = words(metric);
    match smallest {
        Some(share) => {
            format!(
                "{lead}; this run can detect differences in {metric} above {}.",
                percent(share)
            )
        }
        None if run.find_max.is_some() => format!("{lead}; the search reached no limit."),
        None => {
            format!(
                "{lead}; without repetitions this run cannot distinguish a difference from noise."
            )
        }
    }
}

/// Returns the metric of the answer, and the share above which a difference is more than noise.
fn smallest_difference(run: &Run) -> (&'static str, Option<f64>) {
    if let Some(compared) = &run.libraries {
        let halves = pairs(compared).into_iter().filter_map(|it| half(&it));
        return (LIBRARY_TIME, median(halves.collect()));
    }
    if let Some(throughput) = proxy::throughput(run) {
        return (THROUGHPUT, half(&throughput));
    }
    if let Some(search) = &run.find_max {
        return (LOAD, search_step(search));
    }
    if run.cells.iter().any(|cell| cell.architecture == "producer") {
        let points = Repetitions::group(run.cells.iter().filter(|it| it.repetition > 0));
        let halves = points.iter().filter_map(|point| {
            let values = point
                .valid()
                .filter_map(|it| it.figures.get(SWEEP_LATENCY).copied());
            half_width(&values.collect::<Vec<f64>>())
        });
        return (SWEEP_LATENCY, median(halves.collect()));
    }
    let subjects = clients::cpu_at_load_point(run);
    let compared = match subjects.split_first() {
        Some((first, others)) => others
            .iter()
            .filter_map(|other| half(&interval::repetition_ratio(other, first)?))
            .collect(),
        None => Vec::new(),
    };
    let alone = || {
        let values: Vec<f64> = subjects.first()?.iter().map(|(_, value)| *value).collect();
        half_width(&values)
    };
    (CPU, median(compared).or_else(alone))
}

/// Returns the distance of the load found from the next one that was not sustained.
fn search_step(search: &FindMax) -> Option<f64> {
    match search.outcome {
        FindMaxOutcome::Found {
            value,
            first_not_sustained,
            ..
        } => (value > 0.0).then(|| first_not_sustained / value - 1.0),
        FindMaxOutcome::AtLeast { .. } | FindMaxOutcome::Inconclusive { .. } => None,
    }
}

/// Returns half the width of the interval, as a share.
fn half(estimate: &Estimate) -> Option<f64> {
    let (low, high) = estimate.bounds?;
    (low > 0.0 && high.is_finite()).then(|| (high / low).sqrt() - 1.0)
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

/// Returns the size of a difference, whichever side is larger.
fn share_of(ratio: f64) -> f64 {
    ratio.max(1.0 / ratio) - 1.0
}

fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        small if small < 10.0 => format!("{small:.1} %"),
        large => format!("{large:.0} %"),
    }
}

fn words(metric: &str) -> &str {
    match metric {
        CPU => "CPU time per delivery",
        THROUGHPUT => "throughput",
        LIBRARY_TIME => "time",
        LOAD => "the maximum load",
        SWEEP_LATENCY => "mean latency",
        other => other,
    }
}

const CPU: &str = "cpu_us_per_delivered";
const THROUGHPUT: &str = "records_per_s";
const LIBRARY_TIME: &str = "time";
const LOAD: &str = "load";
const SWEEP_LATENCY: &str = "latency_mean_ms";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Cell, RoleUsage};

    fn cell(variant: &str, repetition: u64, cpu_us: f64) -> Cell {
        Cell {
            architecture: "gateway".to_owned(),
            variant: Some(variant.to_owned()),
            clients: 100,
            repetition,
            roles: vec![RoleUsage {
                role: "gateway".to_owned(),
                cpu_us_per_delivered: Some(cpu_us),
                ..RoleUsage::default()
            }],
            ..Cell::default()
        }
    }

    fn run(names: [&str; 2], factor: f64, repetitions: u64) -> Run {
        let pair = |repetition: u64| {
            let us = 10.0 + repetition as f64;
            let drift = if repetition == 1 { 1.01 } else { 0.99 };
            [
                cell(names[0], repetition, us),
                cell(names[1], repetition, us * factor * drift),
            ]
        };
        Run {
            started_utc: "2026-11-22T04:34:32Z".to_owned(),
            cells: (1..=repetitions).flat_map(pair).collect(),
            ..Run::default()
        }
    }

    #[test]
    fn identical_variants_give_the_noise_floor() {
        let found = noise_floor(&run(["A", "A again"], 1.04, 2)).unwrap();
        assert!((found.share - 0.04).abs() < 0.001, "{found:?}");
        assert_eq!((found.metric.as_str(), found.repetitions), (CPU, 2));
        assert_eq!(noise_floor(&run(["A", "B"], 1.04, 2)), None);
        assert_eq!(noise_floor(&Run::default()), None);
    }

    #[test]
    fn sentence_has_floor_and_smallest_difference() {
        let with_test = noise(&run(["A", "A again"], 1.04, 2));
        assert!(
            with_test.starts_with(
                "Noise: in the A/A test of 2026-11-22 two identical subjects differed by 4.0 % in \
                 CPU time per delivery; this run can detect differences in CPU time per delivery \
                 above "
            ),
            "{with_test}"
        );
        let without = noise(&run(["A", "B"], 1.04, 3));
        assert!(
            without.starts_with("Noise: no A/A test of this plan on this machine; this run can"),
            "{without}"
        );
        let single = noise(&run(["A", "B"], 1.04, 1));
        assert!(
            single.ends_with("cannot distinguish a difference from noise."),
            "{single}"
        );
    }

    #[test]
    fn earlier_test_widens_the_smallest_difference() {
        let mut run = run(["A", "B"], 1.04, 3);
        run.aa_test = Some(NoiseFloor {
            metric: CPU.to_owned(),
            share: 0.5,
            repetitions: 3,
            started_utc: "2026-11-20T00:00:00Z".to_owned(),
            run: Some("20261120T000000Z-keyed".to_owned()),
        });
        let text = noise(&run);
        assert!(
            text.contains("A/A test of 2026-11-20") && text.ends_with("above 50 %."),
            "{text}"
        );
    }
}
