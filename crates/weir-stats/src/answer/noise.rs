//! The noise of a run in one sentence: how much a subject differs from itself, and the smallest
//! difference that the run can distinguish from noise.

use super::proxy::{self, DIRECT, PRODUCE, RELAY, THROUGHPUT};
use super::{clients, search};
use crate::compare::{aa_variants, half_width};
use crate::interval::{self, Estimate};
use crate::libraries;
use crate::run::{Cell, FindMax, FindMaxOutcome, Libraries, NoiseFloor, Repetitions, Run};

/// Returns the result of an A/A test; `None` for other runs.
pub fn noise_floor(run: &Run) -> Option<NoiseFloor> {
    let (share, repetitions) = match (&run.libraries, &run.find_max) {
        (Some(compared), _) if compared.aa_test => of_libraries(compared)?,
        (Some(_), _) => return None,
        (None, Some(search)) => of_search(search)?,
        (None, None) => of_variants(run)?,
    };
    Some(NoiseFloor {
        metric: metric(run).to_owned(),
        share,
        repetitions,
        started_utc: run.started_utc.clone(),
        run: None,
    })
}

/// Returns the answer of an A/A test; `None` for other runs and for client libraries.
pub(super) fn answer(run: &Run) -> Option<String> {
    let floor = noise_floor(run)?;
    let share = percent(floor.share);
    if let Some(found) = &run.find_max {
        let [one, other] = both_loads(found)?;
        return Some(format!(
            "Two identical searches found {} and {}, a difference of {share}: this is the noise \
             of the search on this machine.",
            search::quantity(found, one),
            search::quantity(found, other)
        ));
    }
    let subjects = match (floor.metric.as_str(), aa_names(run)?[0].as_str()) {
        (THROUGHPUT, RELAY) => "relays",
        (THROUGHPUT, DIRECT) => "direct connections",
        (THROUGHPUT, _) => "proxies",
        (SWEEP_LATENCY, _) => "sweeps",
        _ => "gateways",
    };
    let metric = words(&floor.metric);
    Some(format!(
        "Two identical {subjects} differ by {share} in {metric}: this is the noise of the plan on \
         this machine."
    ))
}

/// Returns the names of the two variants of an A/A test; `None` for other runs.
fn aa_names(run: &Run) -> Option<[String; 2]> {
    let mut names = run.cells.iter().filter_map(|cell| cell.variant.as_deref());
    let expected = aa_variants(Some(names.next()?));
    let mut has_again = false;
    for name in names {
        has_again |= name == expected[1];
        if !expected.iter().any(|it| it == name) {
            return None;
        }
    }
    has_again.then_some(expected)
}

/// Returns the difference of the main metric between a variant and its repetition: the largest of
/// all load points, in a sweep the one that 95 % of the sustained cells do not exceed.
fn of_variants(run: &Run) -> Option<(f64, u64)> {
    let names = aa_names(run)?;
    let metric = metric(run);
    let points = Repetitions::group(run.cells.iter().filter(|it| it.repetition > 0));
    let side = |cell: &Cell, name: &String| cell.variant.as_ref() == Some(name);
    let ratios: Vec<Estimate> = points
        .iter()
        .filter(|point| side(point.cells[0], &names[0]))
        .filter_map(|point| {
            let own = point.cells[0];
            let other = points.iter().find(|other| {
                let cell = other.cells[0];
                let is_same = (&cell.architecture, cell.clients, &cell.parameters)
                    == (&own.architecture, own.clients, &own.parameters);
                is_same && side(cell, &names[1])
            })?;
            let values = [point, other].map(|it| by_repetition(it, metric));
            interval::repetition_ratio(&values[1], &values[0])
        })
        .collect();
    let shares = ratios.iter().map(|it| share_of(it.value)).collect();
    let share = match metric {
        SWEEP_LATENCY => share_of_95_percent(shares)?,
        _ => shares.into_iter().max_by(f64::total_cmp)?,
    };
    let repetitions = ratios.iter().map(|it| it.count).min()?;
    Some((share, repetitions as u64))
}

/// Returns the main metric of each valid repetition.
fn by_repetition(point: &Repetitions<'_>, metric: &str) -> Vec<(u64, f64)> {
    let value = |cell: &Cell| match metric {
        CPU => cell.delivering_role()?.cpu_us_per_delivered,
        // Latency of an overloaded broker is that of its queue.
        SWEEP_LATENCY if cell.architecture == PRODUCER && cell.is_sustained() => {
            cell.figures.get(metric).copied()
        }
        THROUGHPUT if cell.architecture == PRODUCE && cell.parameters.is_empty() => {
            cell.figures.get(metric).copied()
        }
        _ => None,
    };
    let valid = point.valid();
    let values = valid.filter_map(|cell| Some((cell.repetition, value(cell)?)));
    values.collect()
}

/// Returns the difference between the loads that two searches found.
fn of_search(search: &FindMax) -> Option<(f64, u64)> {
    let [one, other] = both_loads(search)?;
    Some((share_of(other / one), 1))
}

fn both_loads(search: &FindMax) -> Option<[f64; 2]> {
    let load = |search: &FindMax| match search.outcome {
        FindMaxOutcome::Found { value, .. } => Some(value).filter(|value| *value > 0.0),
        FindMaxOutcome::AtLeast { .. } | FindMaxOutcome::Inconclusive { .. } => None,
    };
    Some([load(search)?, load(search.again.as_ref()?)?])
}

/// Returns the difference of the main metric that 95 % of the cells do not exceed.
fn of_libraries(compared: &Libraries) -> Option<(f64, u64)> {
    let shares = pairs(compared).into_iter().map(|it| share_of(it.value));
    let share = share_of_95_percent(shares.collect())?;
    let cells = compared.cells.iter().filter(|cell| cell.skipped.is_none());
    let repetitions = cells.map(|cell| cell.repetitions).min()?;
    Some((share, u64::from(repetitions)))
}

/// Returns the difference that 95 % of the cells do not exceed.
fn share_of_95_percent(mut shares: Vec<f64>) -> Option<f64> {
    shares.sort_by(f64::total_cmp);
    let last = shares.len().checked_sub(1)?;
    Some(shares[(last as f64 * 0.95).round() as usize])
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
    let metric = metric(run);
    let smallest = smallest_difference(run);
    let lead = match floor {
        // The answer states it.
        _ if own.is_some() && run.libraries.is_none() => "Noise: as stated above".to_owned(),
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
        None if run.cells.iter().any(|cell| cell.repetition > 1) => {
            format!("{lead}; with one subject there is no difference to detect.")
        }
        None => {
            format!(
                "{lead}; without repetitions this run cannot distinguish a difference from noise."
            )
        }
    }
}

/// Returns the metric of the answer.
fn metric(run: &Run) -> &'static str {
    let has = |architecture: &str| run.cells.iter().any(|it| it.architecture == architecture);
    match () {
        () if run.libraries.is_some() => LIBRARY_TIME,
        () if run.find_max.is_some() => LOAD,
        () if has(PRODUCER) => SWEEP_LATENCY,
        () if has(PRODUCE) => THROUGHPUT,
        () => CPU,
    }
}

/// Returns the share above which a difference in the metric of the answer is more than noise.
fn smallest_difference(run: &Run) -> Option<f64> {
    if let Some(compared) = &run.libraries {
        let halves = pairs(compared).into_iter().filter_map(|it| half(&it));
        return median(halves.collect());
    }
    match metric(run) {
        LOAD => return search_step(run.find_max.as_ref()?),
        THROUGHPUT => return half(&proxy::throughput(run)?),
        SWEEP_LATENCY => {
            let points = Repetitions::group(run.cells.iter().filter(|it| it.repetition > 0));
            let halves = points.iter().filter_map(|point| {
                let values = by_repetition(point, SWEEP_LATENCY).into_iter();
                half_width(&values.map(|(_, value)| value).collect::<Vec<f64>>())
            });
            return median(halves.collect());
        }
        _ => {}
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
    median(compared).or_else(alone)
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
const LIBRARY_TIME: &str = "time";
const LOAD: &str = "load";
const SWEEP_LATENCY: &str = "latency_mean_ms";
/// Architecture of the producer cells of a sweep.
const PRODUCER: &str = "producer";

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

    /// Returns two repetitions of the two variants of an A/A test of proxies or producers, with
    /// this figure.
    fn figures(architecture: &str, name: &str, figure: &str, values: [f64; 2]) -> Vec<Cell> {
        let variants = aa_variants(Some(name));
        let sides = (1..=2).flat_map(|repetition| [(repetition, 0), (repetition, 1)]);
        let cells = sides.map(|(repetition, side)| {
            let mut cell = cell(&variants[side], repetition, 0.0);
            cell.architecture = architecture.to_owned();
            cell.figures.insert(figure.to_owned(), values[side]);
            cell
        });
        cells.collect()
    }

    fn of(cells: Vec<Cell>) -> (NoiseFloor, String) {
        let run = Run {
            cells,
            ..Run::default()
        };
        (noise_floor(&run).unwrap(), answer(&run).unwrap())
    }

    #[test]
    fn proxies_are_tested_by_their_throughput() {
        let at = |name: &str| {
            let mut cells = figures(PRODUCE, name, THROUGHPUT, [1000.0, 980.0]);
            let mut paced = cells.clone();
            for cell in &mut paced {
                cell.parameters.insert("rate_per_s".to_owned(), 100.0);
                cell.figures
                    .insert(THROUGHPUT.to_owned(), cell.repetition as f64);
            }
            cells.append(&mut paced);
            cells.extend(figures("consume", name, THROUGHPUT, [1.0, 9.0]));
            of(cells)
        };
        let (floor, text) = at("relay");
        assert!((floor.share - 0.0204).abs() < 0.0001, "{floor:?}");
        assert_eq!((floor.metric.as_str(), floor.repetitions), (THROUGHPUT, 2));
        assert_eq!(
            text,
            "Two identical relays differ by 2.0 % in throughput: this is the noise of the plan on \
             this machine."
        );
        assert!(
            at("pass-through")
                .1
                .starts_with("Two identical proxies differ")
        );
        assert!(
            at("direct")
                .1
                .starts_with("Two identical direct connections")
        );
    }

    #[test]
    fn sweeps_are_tested_by_the_latency_of_sustained_cells() {
        let at = |target: f64, values: [f64; 2]| {
            let mut cells = figures(PRODUCER, "A", SWEEP_LATENCY, values);
            for cell in &mut cells {
                cell.parameters.insert("target_per_s".to_owned(), target);
            }
            cells
        };
        let mut cells = at(1e3, [2.0, 2.1]);
        cells.extend(at(2e3, [2.0, 2.2]));
        let mut overloaded = at(9e3, [100.0, 900.0]);
        for cell in &mut overloaded {
            cell.not_sustained = Some("queue full".to_owned());
        }
        cells.append(&mut overloaded);
        let (floor, text) = of(cells);
        assert!((floor.share - 0.1).abs() < 0.0001, "{floor:?}");
        assert_eq!(floor.metric, SWEEP_LATENCY);
        assert_eq!(
            text,
            "Two identical sweeps differ by 10 % in mean latency: this is the noise of the plan \
             on this machine."
        );
    }

    #[test]
    fn searches_are_tested_by_the_loads_found() {
        let found = |value: f64, again: Option<Box<FindMax>>| FindMax {
            variable: "clients".to_owned(),
            architecture: "gateway".to_owned(),
            steps: Vec::new(),
            outcome: FindMaxOutcome::Found {
                value,
                first_not_sustained: value * 1.05,
                saturated_role: None,
                saturation_reason: None,
            },
            summary: String::new(),
            again,
        };
        let run = |search: FindMax| Run {
            find_max: Some(search),
            ..Run::default()
        };
        let once = run(found(1000.0, None));
        assert_eq!((noise_floor(&once), answer(&once)), (None, None));
        let twice = run(found(1000.0, Some(Box::new(found(1100.0, None)))));
        let floor = noise_floor(&twice).unwrap();
        assert!((floor.share - 0.1).abs() < 0.0001, "{floor:?}");
        assert_eq!((floor.metric.as_str(), floor.repetitions), (LOAD, 1));
        assert_eq!(
            answer(&twice).unwrap(),
            "Two identical searches found 1,000 clients and 1,100 clients, a difference of 10 %: \
             this is the noise of the search on this machine."
        );
        let text = noise(&Run {
            aa_test: Some(floor),
            ..once
        });
        assert!(
            text.ends_with("differences in the maximum load above 10 %."),
            "{text}"
        );
    }

    #[test]
    fn sentence_has_floor_and_smallest_difference() {
        let test = run(["A", "A again"], 1.04, 2);
        let of_test = noise(&test);
        let text = "Noise: as stated above; this run can detect differences in CPU time per \
                    delivery above ";
        assert!(of_test.starts_with(text), "{of_test}");
        let with_test = noise(&Run {
            aa_test: noise_floor(&test),
            ..run(["A", "B"], 1.04, 3)
        });
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
