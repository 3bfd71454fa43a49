//! Derives results from the cells: of a grid the highest rate of each subject and the capacity of
//! one thread; of a ladder how fast a backlog is drained at each level.

use weir_stats::run::{
    BACKLOG_DELIVERIES, BACKLOG_DRAIN_S, BACKLOG_DRAINED_PER_S, Cell, Derived, DerivedFrom,
    Repetitions,
};

use super::figure_names::{MAPPING_SHARE, MAPPING_US_PER_RECORD, RATE};
use super::verdict;
use crate::plan::Plan;

/// Returns the derived results of a grid, or of a ladder with a backlog; all other results of a
/// ladder are in the verdict.
pub(super) fn of(plan: &Plan, cells: &[Cell]) -> Vec<Derived> {
    if !plan.is_grid() {
        let points = Repetitions::group(cells.iter());
        return points.iter().filter_map(drained).collect();
    }
    let subjects = verdict::subjects(cells).into_iter();
    let results = subjects.flat_map(|subject| {
        let own = cells.iter().filter(|cell| cell.name() == subject);
        let points = Repetitions::group(own);
        let sustained = points.iter().filter(|point| point.is_sustained());
        let sustained: Vec<&Repetitions<'_>> = sustained.collect();
        let all = [
            highest_rate(&points, &sustained),
            most_deliveries(&sustained),
            one_thread(&sustained),
        ];
        let named = move |result: Derived| Derived {
            of: subject.clone(),
            ..result
        };
        all.into_iter().flatten().map(named)
    });
    results.collect()
}

fn measured(name: &str, value: f64, unit: &str, derivation: String) -> Derived {
    Derived {
        name: name.to_owned(),
        of: String::new(),
        value: Some(value),
        unit: unit.to_owned(),
        basis: DerivedFrom::Measured,
        derivation,
    }
}

/// Returns how fast the consumers of a level drained their backlog.
fn drained(point: &Repetitions<'_>) -> Option<Derived> {
    let mean = |name: &str| point.mean(|cell| cell.figures.get(name).copied());
    let per_s = mean(BACKLOG_DRAINED_PER_S)?;
    let (deliveries, drain_s) = (mean(BACKLOG_DELIVERIES)?, mean(BACKLOG_DRAIN_S)?);
    let cell = point.cells.first()?;
    let how = format!("{deliveries:.0} deliveries in {drain_s:.2} s after the pause");
    let name = format!("drained backlog, {} clients", cell.clients);
    Some(Derived {
        of: cell.name(),
        ..measured(&name, per_s, "deliveries/s", how)
    })
}

fn load(point: &Repetitions<'_>) -> (f64, u64) {
    point.cells.first().map_or((0.0, 0), |cell| {
        let given = cell.parameters.get(RATE).copied();
        (given.unwrap_or(cell.offered_records_per_s), cell.clients)
    })
}

fn rate(point: &Repetitions<'_>) -> f64 {
    load(point).0
}

fn highest_rate(points: &[Repetitions<'_>], sustained: &[&Repetitions<'_>]) -> Option<Derived> {
    let rates = sustained.iter().map(|point| rate(point));
    let best = rates.max_by(f64::total_cmp)?;
    let failed = points
        .iter()
        .filter(|point| point.worst_not_sustained().is_some());
    let beyond = failed.map(rate).fold(f64::INFINITY, f64::min);
    let how = match beyond.is_finite() {
        true => format!("highest sustained rate; {beyond} records/s was not sustained"),
        false => "highest sustained rate; every measured rate was sustained".to_owned(),
    };
    Some(measured("highest sustained rate", best, RECORDS_PER_S, how))
}

fn most_deliveries(sustained: &[&Repetitions<'_>]) -> Option<Derived> {
    let delivered = sustained.iter().filter_map(|point| {
        let per_s = point.mean(|cell| cell.delivery.as_ref()?.delivered_per_s)?;
        Some((per_s, load(point)))
    });
    let (per_s, (rate, clients)) = delivered.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let how = format!("{clients} clients at {rate} records/s");
    Some(measured(
        "maximum sustained deliveries",
        per_s,
        "deliveries/s",
        how,
    ))
}

/// Returns the rate at which the busiest mapping thread would use a whole core, extrapolated from
/// its share at the highest sustained rate: its CPU time is proportional to the records.
fn one_thread(sustained: &[&Repetitions<'_>]) -> Option<Derived> {
    let shares = sustained.iter().filter_map(|point| {
        let share = point.mean(|cell| cell.figures.get(MAPPING_SHARE).copied())?;
        let achieved = point.mean(|cell| cell.achieved_records_per_s)?;
        (share >= SHARE_MIN).then_some((achieved, share, point))
    });
    let (achieved, share, point) = shares.max_by(|a, b| a.0.total_cmp(&b.0))?;
    let us = point.mean(|cell| cell.figures.get(MAPPING_US_PER_RECORD).copied());
    let us = us.unwrap_or(0.0);
    let how = format!(
        "computed from CPU time per record: at {achieved:.0} records/s this thread used {:.1} % of \
         a core (all mapping threads {us:.1} us per record)",
        share * 100.0
    );
    let name = "rate that saturates the busiest mapping thread";
    Some(Derived {
        basis: DerivedFrom::Computed,
        ..measured(name, achieved / share, RECORDS_PER_S, how)
    })
}

const RECORDS_PER_S: &str = "records/s";
/// Minimum share. CPU time is counted in hundredths of a second, so smaller shares are too inexact.
const SHARE_MIN: f64 = 0.02;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_stats::run::DeliveryTotals;

    use super::*;

    fn cell(variant: &str, per_s: f64, share: f64, not_sustained: Option<&str>) -> Cell {
        Cell {
            architecture: "gateway".to_owned(),
            variant: Some(variant.to_owned()),
            clients: 1,
            parameters: BTreeMap::from([(RATE.to_owned(), per_s)]),
            achieved_records_per_s: Some(per_s),
            figures: BTreeMap::from([(MAPPING_SHARE.to_owned(), share)]),
            delivery: Some(DeliveryTotals {
                delivered_per_s: Some(per_s / 40.0),
                ..DeliveryTotals::default()
            }),
            not_sustained: not_sustained.map(str::to_owned),
            ..Cell::default()
        }
    }

    #[test]
    fn thread_capacity_is_computed_from_highest_sustained_rate() {
        let grid = crate::plan::tests::built_in("filter-deep-key");
        let cells = [
            cell("1-thread", 2000.0, 0.3, None),
            cell("1-thread", 4000.0, 0.5, None),
            cell(
                "1-thread",
                6000.0,
                1.0,
                Some("mean response 1500 ms, limit 1000 ms"),
            ),
            cell("4-threads", 6000.0, 0.001, None),
        ];
        let found = of(&grid, &cells);
        let values: Vec<_> = found
            .iter()
            .map(|it| (it.of.as_str(), it.value.unwrap(), it.basis))
            .collect();
        let (one, four) = ("gateway 1-thread", "gateway 4-threads");
        assert_eq!(
            values,
            [
                (one, 4000.0, DerivedFrom::Measured),
                (one, 100.0, DerivedFrom::Measured),
                (one, 8000.0, DerivedFrom::Computed),
                (four, 6000.0, DerivedFrom::Measured),
                (four, 150.0, DerivedFrom::Measured),
            ]
        );
        assert!(
            found[0]
                .derivation
                .ends_with("6000 records/s was not sustained")
        );
        assert!(
            found[2]
                .derivation
                .starts_with("computed from CPU time per record")
        );
        let ladder = crate::plan::tests::built_in("keyed");
        assert!(of(&ladder, &cells).is_empty());
    }
}
