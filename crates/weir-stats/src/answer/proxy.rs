//! The answer of a comparison of proxies.

use super::headline::Headline;
use super::words::{count, ratio};
use crate::interval::{self, Estimate};
use crate::run::Run;

pub(super) const THROUGHPUT: &str = "records_per_s";
const CPU_PER_GB: &str = "cpu_s_per_gb";

/// Returns the throughput and the cost of the first proxy relative to the relay, or to the direct
/// path without one; without a proxy the throughput; `None` for other experiments.
pub(super) fn answer(run: &Run) -> Option<String> {
    let Some((proxy, base)) = sides(run) else {
        return alone(run);
    };
    let throughput = compare(run, THROUGHPUT, proxy, base)?;
    let cost = compare(run, CPU_PER_GB, proxy, base);
    let cost = cost.map_or_else(String::new, |it| format!(" with {}", ratio(&it, "its CPU")));
    let base = match base {
        RELAY => "a relay",
        _ => "a direct connection",
    };
    Some(format!(
        "The proxy ({proxy}) reaches {}{cost}.",
        ratio(&throughput, &format!("the throughput of {base}"))
    ))
}

/// Returns the throughput of the only subject, next to that of Kafka's own tool.
fn alone(run: &Run) -> Option<String> {
    let subject = *subjects(run).first()?;
    let mean = |architecture| mean(&values(run, THROUGHPUT, (architecture, subject)));
    let own = count(mean(PRODUCE)?);
    let tool = mean(KAFKA_PRODUCE).map(|it| format!("; Kafka's own tool writes {}", count(it)));
    let through = match subject {
        DIRECT => "directly to the broker".to_owned(),
        other => format!("through {other}"),
    };
    let tool = tool.unwrap_or_default();
    Some(format!(
        "A producer writes {own} records/s {through}{tool}."
    ))
}

fn mean(values: &[(u64, f64)]) -> Option<f64> {
    let sum: f64 = values.iter().map(|(_, value)| value).sum();
    (!values.is_empty()).then(|| sum / values.len() as f64)
}

/// Returns the ratio of the throughputs, or the throughput of the only subject.
pub(super) fn headline(run: &Run) -> Option<Headline> {
    let Some((proxy, base)) = sides(run) else {
        let subject = *subjects(run).first()?;
        return Some(Headline {
            name: format!("{subject}, records/s"),
            value: mean(&values(run, THROUGHPUT, (PRODUCE, subject)))?,
        });
    };
    Some(Headline {
        name: format!("{proxy}, throughput relative to {base}"),
        value: compare(run, THROUGHPUT, proxy, base)?.value,
    })
}

/// Returns the ratio of the throughputs, with its interval.
pub(super) fn throughput(run: &Run) -> Option<Estimate> {
    let (proxy, base) = sides(run)?;
    compare(run, THROUGHPUT, proxy, base)
}

/// Returns the first proxy, and what it is compared with.
fn sides(run: &Run) -> Option<(&str, &str)> {
    let subjects = subjects(run);
    let base = run.base_variant()?;
    let base = match subjects.contains(&RELAY) {
        true => RELAY,
        false => base,
    };
    let mut proxies = subjects.into_iter();
    let proxy = proxies.find(|name| *name != base && ![RELAY, DIRECT].contains(name))?;
    Some((proxy, base))
}

fn subjects(run: &Run) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    let produced = run.cells.iter().filter(|cell| cell.architecture == PRODUCE);
    for name in produced.filter_map(|cell| cell.variant.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns the ratio of a figure of two subjects, produced at the maximum rate.
fn compare(run: &Run, figure: &str, own: &str, base: &str) -> Option<Estimate> {
    let values = |name| values(run, figure, (PRODUCE, name));
    interval::repetition_ratio(&values(own), &values(base))
}

/// Returns a figure of each repetition at the maximum rate.
fn values(run: &Run, figure: &str, (architecture, subject): (&str, &str)) -> Vec<(u64, f64)> {
    let same = run.cells.iter().filter(|cell| {
        cell.is_valid()
            && cell.repetition > 0
            && cell.architecture == architecture
            && cell.variant.as_deref() == Some(subject)
            && cell.parameters.is_empty()
    });
    same.filter_map(|cell| Some((cell.repetition, *cell.figures.get(figure)?)))
        .collect()
}

pub(super) const PRODUCE: &str = "produce";
const KAFKA_PRODUCE: &str = "kafka-produce";
pub(super) const RELAY: &str = "relay";
pub(super) const DIRECT: &str = "direct";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Cell;

    #[test]
    fn proxies_are_compared_with_the_relay() {
        let cell = |variant: &str, repetition, per_s: f64, cost: Option<f64>| {
            let mut cell = Cell {
                architecture: PRODUCE.to_owned(),
                variant: Some(variant.to_owned()),
                repetition,
                ..Cell::default()
            };
            cell.figures.insert(THROUGHPUT.to_owned(), per_s);
            let cost = cost.map(|cost| (CPU_PER_GB.to_owned(), cost));
            cell.figures.extend(cost);
            cell
        };
        let rounds = (1..=3).flat_map(|round| {
            [
                cell("direct", round, 100.0, None),
                cell("relay", round, 90.0, Some(2.0)),
                cell("pass-through", round, 81.0, Some(2.2)),
            ]
        });
        let run = Run {
            cells: rounds.collect(),
            ..Run::default()
        };
        assert_eq!(
            answer(&run).unwrap(),
            "The proxy (pass-through) reaches 0.90 × the throughput of a relay (0.90 to 0.90) \
             with 1.10 × its CPU (1.10 to 1.10)."
        );
        assert_eq!(answer(&Run::default()), None);
        let cells =
            [("produce", 1200.0), ("kafka-produce", 900.0)].map(|(architecture, per_s)| Cell {
                architecture: architecture.to_owned(),
                ..cell("direct", 1, per_s, None)
            });
        let run = Run {
            cells: cells.to_vec(),
            ..Run::default()
        };
        assert_eq!(
            answer(&run).unwrap(),
            "A producer writes 1,200 records/s directly to the broker; Kafka's own tool writes 900."
        );
        assert_eq!(headline(&run).unwrap().value, 1200.0);
    }
}
