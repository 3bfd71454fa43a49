//! Results of a sweep over all its cells: the knee of each record size, and the verdict.

use std::collections::BTreeMap;

use weir_stats::knee::{ACHIEVED_SHARE, LATENCY_FACTOR, LoadPoint, knee};
use weir_stats::run::{Cell, Derived, DerivedFrom, Run};

use super::figures::{self, PRODUCER};

/// Returns the knee of each record size.
pub(crate) fn derived(cells: &[Cell]) -> Vec<Derived> {
    let is_producer = |cell: &&Cell| cell.architecture == PRODUCER && cell.is_valid();
    // All sizes are below 2^53 and positive, so they sort like their bits.
    let mut sizes: BTreeMap<u64, Vec<LoadPoint>> = BTreeMap::new();
    for cell in cells.iter().filter(is_producer) {
        if let Some(size) = cell.parameters.get(figures::RECORD_SIZE) {
            let points = sizes.entry(size.to_bits()).or_default();
            points.extend(figures::load_point(cell));
        }
    }
    let sizes = sizes.into_iter();
    let knees = sizes.map(|(size, points)| knee_of(f64::from_bits(size), &points));
    knees.collect()
}

fn knee_of(size: f64, points: &[LoadPoint]) -> Derived {
    let found = knee(points);
    let describe = |point: LoadPoint| {
        format!(
            "{:.0} of {:.0} records/s with a mean of {:.1} ms",
            point.achieved_per_s, point.offered_per_s, point.latency_ms
        )
    };
    let detail = match found.map(|knee| (knee.at, knee.beyond)) {
        None => "the lowest rate already exceeds it".to_owned(),
        Some((at, None)) => format!("no rate exceeds it; the highest gave {}", describe(at)),
        Some((at, Some(next))) => format!("it gave {}, the next {}", describe(at), describe(next)),
    };
    let is_above = found.is_some_and(|knee| knee.beyond.is_none());
    Derived {
        name: if is_above { KNEE_ABOVE } else { KNEE }.to_owned(),
        of: format!("{PRODUCER} {size} bytes"),
        value: found.map(|knee| knee.at.offered_per_s),
        unit: "records/s".to_owned(),
        basis: DerivedFrom::Measured,
        derivation: format!(
            "highest rate at which {:.0} % of the records were acknowledged with at most {} times \
             the mean latency of the lowest rate: {detail}",
            ACHIEVED_SHARE * 100.0,
            LATENCY_FACTOR
        ),
    }
}

/// Returns the verdict: the knees and the highest consumer throughput.
pub(crate) fn verdict(run: &Run) -> String {
    let describe = |knee: &Derived| {
        let of = &knee.of;
        match (knee.name.as_str(), knee.value) {
            (KNEE, Some(value)) => Some(format!("{of}: knee at {value} records/s")),
            (KNEE, None) => Some(format!("{of}: no rate below the knee")),
            (KNEE_ABOVE, Some(value)) => Some(format!("{of}: no knee up to {value} records/s")),
            _ => None,
        }
    };
    let mut clauses: Vec<String> = run.derived.iter().filter_map(describe).collect();
    let valid = run.cells.iter().filter(|cell| cell.is_valid());
    let fetched = valid.filter_map(|cell| {
        let rate = *cell.figures.get(figures::FETCH_RATE)?;
        Some((rate, cell.parameters.get(figures::FETCH_SIZE)?))
    });
    if let Some((rate, size)) = fetched.max_by(|a, b| a.0.total_cmp(&b.0)) {
        clauses.push(format!(
            "consumer: {rate:.1} MB/s at a fetch size of {size} bytes"
        ));
    }
    match clauses.is_empty() {
        true => "No cell was measured.".to_owned(),
        false => format!("{}.", clauses.join("; ")),
    }
}

/// Name of a derived knee.
const KNEE: &str = "knee";
/// Name of the highest rate of a sweep that did not reach the knee.
const KNEE_ABOVE: &str = "knee_above";
