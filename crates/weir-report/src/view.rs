//! The model behind all formats: cells grouped by level and subject (an architecture and its
//! variant), repetitions reduced to their mean ([`interval::repetition_mean`]).

use std::cmp::Ordering;
use std::collections::BTreeMap;

use weir_stats::interval::{self, Estimate};
use weir_stats::run::{
    Cell, CellStatus, ClockMode, ConfidenceLevel, DeliveryTotals, LatencySummary, ReferenceRow,
    Repetitions, Run, RunOutcome, ThresholdCounts, ThresholdResult, ThresholdStatus,
};

use crate::format::{self, TimeUnit};

/// One number of clients, or one point of a grid.
pub(crate) struct Level<'a> {
    pub(crate) clients: u64,
    /// The other coordinates of a grid point.
    pub(crate) parameters: &'a BTreeMap<String, f64>,
    pub(crate) rows: Vec<SubjectRow<'a>>,
}

pub(crate) struct SubjectRow<'a> {
    pub(crate) name: String,
    /// At least one repetition.
    pub(crate) cells: Vec<&'a Cell>,
    pub(crate) state: RowStatus,
    pub(crate) figures: RowFigures,
    /// Ratio of CPU time per delivery of the delivering process to that of the floor.
    pub(crate) cpu_ratio: Option<Estimate>,
    /// Ratio of p99 to that of the floor.
    pub(crate) p99_ratio: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RowStatus {
    Valid,
    Invalid(Vec<String>),
    Skipped(String),
}

/// Means over repetitions; losses are sums.
#[derive(Debug, Clone, Default)]
pub(crate) struct RowFigures {
    pub(crate) mean_us: Option<f64>,
    pub(crate) stddev_us: Option<f64>,
    pub(crate) p50_us: Option<f64>,
    pub(crate) p99_us: Option<f64>,
    pub(crate) p999_us: Option<f64>,
    pub(crate) max_us: Option<f64>,
    pub(crate) delivered_per_s: Option<f64>,
    pub(crate) expected_per_s: Option<f64>,
    pub(crate) mbit_per_s: Option<f64>,
    pub(crate) cpu_us_delivering: Option<f64>,
    pub(crate) cpu_us_servers: Option<f64>,
    pub(crate) memory_per_client_bytes: Option<f64>,
    pub(crate) lost: Option<u64>,
    pub(crate) duplicated: Option<u64>,
    pub(crate) reordered: Option<u64>,
    pub(crate) conflated: Option<u64>,
}

pub(crate) const FLOOR: &str = "floor";

/// Returns the subjects in the order of their first cell.
pub(crate) fn subjects(run: &Run) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for cell in &run.cells {
        let name = cell.name();
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns all levels, ascending, each with its subjects in the order of their cells.
pub(crate) fn levels(run: &Run) -> Vec<Level<'_>> {
    let names = subjects(run);
    let mut levels: Vec<Level<'_>> = Vec::new();
    for Repetitions { cells } in Repetitions::group(&run.cells) {
        let (clients, parameters) = (cells[0].clients, &cells[0].parameters);
        let row = SubjectRow::new(cells);
        let is_here = |it: &&mut Level<'_>| (it.clients, it.parameters) == (clients, parameters);
        match levels.iter_mut().find(is_here) {
            Some(level) => level.rows.push(row),
            None => levels.push(Level {
                clients,
                parameters,
                rows: vec![row],
            }),
        }
    }
    levels.sort_by(|a, b| {
        let (a, b) = ((a.clients, a.parameters), (b.clients, b.parameters));
        a.partial_cmp(&b).unwrap_or(Ordering::Equal)
    });
    for level in &mut levels {
        let order = |row: &SubjectRow<'_>| names.iter().position(|name| *name == row.name);
        level.rows.sort_by_key(order);
        compare_with_floor(&mut level.rows);
    }
    levels
}

/// Returns `true` if the run has more coordinates than the number of clients.
pub(crate) fn is_grid(run: &Run) -> bool {
    run.cells.iter().any(|cell| !cell.parameters.is_empty())
}

/// Returns `true` if results by number of clients have more than one point.
pub(crate) fn has_levels(run: &Run, levels: &[Level<'_>]) -> bool {
    levels.len() > 1 && !is_grid(run)
}

/// Returns `true` if this run has a level at which the published result was measured.
pub(crate) fn is_run(levels: &[Level<'_>], row: &ReferenceRow) -> bool {
    let mut levels = levels.iter();
    levels.any(|level| level.clients == row.clients && *level.parameters == row.parameters)
}

/// Returns all cells by level, then architecture, then repetition.
pub(crate) fn cells(run: &Run) -> Vec<&Cell> {
    levels(run)
        .into_iter()
        .flat_map(|level| level.rows)
        .flat_map(|row| row.cells)
        .collect()
}

/// Returns coordinates in words: `1,000 clients, 500 records/s`.
pub(crate) fn label(clients: u64, parameters: &BTreeMap<String, f64>) -> String {
    let mut label = match clients {
        1 => "1 client".to_owned(),
        more => format!("{} clients", format::count(more)),
    };
    for (name, value) in parameters {
        label.push_str(", ");
        label.push_str(&format::parameter(name, *value));
    }
    label
}

/// Returns the unit of all tables of response times.
pub(crate) fn median_unit(levels: &[Level<'_>]) -> TimeUnit {
    let rows = levels.iter().flat_map(Level::valid);
    TimeUnit::for_values_us(rows.filter_map(|row| row.figures.p50_us))
}

impl Level<'_> {
    pub(crate) fn label(&self) -> String {
        label(self.clients, self.parameters)
    }

    pub(crate) fn valid(&self) -> impl Iterator<Item = &SubjectRow<'_>> {
        self.rows.iter().filter(|row| row.state == RowStatus::Valid)
    }
}

impl<'a> SubjectRow<'a> {
    fn new(cells: Vec<&'a Cell>) -> Self {
        let state = state(&cells);
        let mut counted = cells.clone();
        counted.retain(|cell| cell.is_valid() || state != RowStatus::Valid);
        let figures = RowFigures::of(&counted);
        Self {
            name: cells[0].name(),
            cells,
            state,
            figures,
            cpu_ratio: None,
            p99_ratio: None,
        }
    }

    /// Returns `true` for the floor in any variant.
    pub(crate) fn is_floor(&self) -> bool {
        self.cells[0].architecture == FLOOR
    }

    fn variant(&self) -> Option<&str> {
        self.cells[0].variant.as_deref()
    }

    pub(crate) fn clients(&self) -> u64 {
        self.cells[0].clients
    }

    /// Returns why the level was not sustained, with the saturated role; `None` if it was
    /// sustained.
    pub(crate) fn limit(&self) -> Option<String> {
        let cell = self.repetitions().worst_not_sustained()?;
        let reason = cell.not_sustained.as_deref()?;
        Some(match (&cell.saturated_role, &cell.saturation_reason) {
            (Some(role), Some(why)) => format!("{reason}; {role} saturated: {why}"),
            _ => format!("{reason}; no role saturated"),
        })
    }

    /// Returns [`limit`](Self::limit) as a sentence.
    pub(crate) fn not_sustained(&self) -> Option<String> {
        self.limit().map(|limit| format!("not sustained: {limit}"))
    }

    pub(crate) fn repetitions(&self) -> Repetitions<'a> {
        Repetitions {
            cells: self.cells.clone(),
        }
    }

    /// Returns the cell to draw where one repetition represents all.
    pub(crate) fn representative(&self) -> Option<&'a Cell> {
        self.repetitions().representative()
    }

    /// Returns a sentence about received records that clients did not subscribe to, if there were
    /// any.
    pub(crate) fn unwanted(&self) -> Option<String> {
        let repetitions = self.repetitions();
        let of = |pick: fn(&DeliveryTotals) -> Option<f64>| {
            repetitions.mean(|cell| cell.delivery.as_ref().and_then(pick))
        };
        let (count, size) = (
            of(DeliveryTotals::unwanted_per_wanted)?,
            of(DeliveryTotals::unwanted_bytes_per_wanted)?,
        );
        Some(format!(
            "{} unwanted records ({}) received per wanted record; CPU is per wanted record",
            format::number(Some(count)),
            format::bytes(size)
        ))
    }

    fn cpu_by_repetition(&self) -> Vec<(u64, f64)> {
        let valid = self.cells.iter().filter(|cell| cell.is_valid());
        valid
            .filter_map(|cell| Some((cell.repetition, cpu_delivering(cell)?)))
            .collect()
    }
}

/// Returns valid if any repetition is valid, otherwise the status of the first invalid or skipped
/// one.
fn state(cells: &[&Cell]) -> RowStatus {
    let mut other = RowStatus::Valid;
    for cell in cells {
        match (&cell.status, &other) {
            (CellStatus::Valid, _) => return RowStatus::Valid,
            (CellStatus::Invalid { reasons }, RowStatus::Valid | RowStatus::Skipped(_)) => {
                other = RowStatus::Invalid(reasons.clone());
            }
            (CellStatus::Skipped { reason }, RowStatus::Valid) => {
                other = RowStatus::Skipped(reason.clone());
            }
            _ => {}
        }
    }
    other
}

impl RowFigures {
    fn of(cells: &[&Cell]) -> Self {
        let mean = |pick: &dyn Fn(&Cell) -> Option<f64>| {
            let values: Vec<f64> = cells.iter().filter_map(|cell| pick(cell)).collect();
            interval::repetition_mean(&values)
        };
        let latency = |pick: fn(&LatencySummary) -> Option<f64>| {
            mean(&move |cell: &Cell| cell.response().and_then(pick))
        };
        let sum = |pick: fn(&DeliveryTotals) -> u64| {
            cells
                .iter()
                .filter_map(|cell| cell.delivery.as_ref().map(pick))
                .reduce(|a, b| a + b)
        };
        Self {
            mean_us: latency(|summary| summary.mean_us),
            stddev_us: latency(|summary| summary.stddev_us),
            p50_us: latency(|summary| summary.p50_us),
            p99_us: latency(|summary| summary.p99_us),
            p999_us: latency(|summary| summary.p999_us),
            max_us: latency(|summary| summary.max_us),
            delivered_per_s: mean(&|cell| cell.delivery.as_ref()?.delivered_per_s),
            expected_per_s: mean(&|cell| {
                let expected = cell.delivery.as_ref()?.expected;
                (cell.hold_s > 0.0).then(|| expected as f64 / cell.hold_s)
            }),
            mbit_per_s: mean(&|cell| cell.delivery.as_ref()?.received_mbit_per_s),
            cpu_us_delivering: mean(&cpu_delivering),
            cpu_us_servers: mean(&cpu_servers),
            memory_per_client_bytes: mean(&|cell| {
                cell.delivering_role()?.user_memory_per_client_bytes
            }),
            lost: sum(|delivery| delivery.lost),
            duplicated: sum(|delivery| delivery.duplicated),
            reordered: sum(|delivery| delivery.reordered),
            conflated: sum(|delivery| delivery.conflated),
        }
    }
}

/// Returns mean, standard deviation, minimum, percentiles and maximum.
pub(crate) fn times_us(it: &LatencySummary) -> [Option<f64>; 10] {
    let (p50, p90, p95, p99) = (it.p50_us, it.p90_us, it.p95_us, it.p99_us);
    let (p999, p9999) = (it.p999_us, it.p9999_us);
    let (mean, sd, min, max) = (it.mean_us, it.stddev_us, it.min_us, it.max_us);
    [mean, sd, min, p50, p90, p95, p99, p999, p9999, max]
}

fn cpu_delivering(cell: &Cell) -> Option<f64> {
    cell.delivering_role()?.cpu_us_per_delivered
}

/// Returns the CPU time of all servers (broker and gateway or floor) per delivery.
fn cpu_servers(cell: &Cell) -> Option<f64> {
    let delivering = cell.delivering_role()?;
    let own = delivering.cpu_us_per_delivered?;
    if delivering.role == "broker" {
        return Some(own);
    }
    Some(own + cell.role("broker")?.cpu_us_per_delivered?)
}

/// Returns the mean cores of all servers.
pub(crate) fn server_cores(repetitions: &Repetitions<'_>) -> Option<f64> {
    repetitions.mean(|cell| cell.of_servers(|usage| usage.cpu_cores_mean))
}

/// Compares each row with the floor of the same variant, or with the only floor.
fn compare_with_floor(rows: &mut [SubjectRow<'_>]) {
    type Floor = (Option<String>, Vec<(u64, f64)>, Option<f64>);
    let floors: Vec<Floor> = rows
        .iter()
        .filter(|row| row.is_floor() && row.state == RowStatus::Valid)
        .map(|row| {
            let variant = row.variant().map(str::to_owned);
            (variant, row.cpu_by_repetition(), row.figures.p99_us)
        })
        .collect();
    for row in rows.iter_mut().filter(|row| row.state == RowStatus::Valid) {
        let same = floors
            .iter()
            .find(|floor| floor.0.as_deref() == row.variant());
        let without_variant = floors.iter().find(|floor| floor.0.is_none());
        let Some((_, floor_cpu, floor_p99_us)) = same.or(without_variant) else {
            continue;
        };
        row.cpu_ratio = interval::repetition_ratio(&row.cpu_by_repetition(), floor_cpu);
        let p99s_us = row.figures.p99_us.zip(*floor_p99_us);
        let ratio = p99s_us.map(|(own_us, floor_us)| own_us / floor_us);
        row.p99_ratio = ratio.filter(|ratio| ratio.is_finite());
    }
}

/// Returns settings shared by all cells, as label and text: rate, size, warm-up, hold, repetitions,
/// clock.
pub(crate) fn facts(run: &Run) -> Vec<(&'static str, String)> {
    let cells = || run.cells.iter();
    let sizes: Vec<f64> = cells().filter_map(|cell| cell.record_bytes_mean).collect();
    let size = interval::repetition_mean(&sizes).map(|bytes| ("Record", format::bytes(bytes)));
    let rates = || cells().map(|cell| cell.offered_records_per_s);
    let limited = rates().any(|rate| rate > 0.0);
    let limited =
        limited.then(|| range(rates().filter(|rate| *rate > 0.0)) + " records/s, open loop");
    let unthrottled = rates()
        .any(|rate| rate == 0.0)
        .then(|| "as fast as possible".to_owned());
    let offered: Vec<String> = unthrottled.into_iter().chain(limited).collect();
    let warm_up = range(cells().map(|cell| cell.warm_up_s));
    let hold = range(cells().map(|cell| cell.hold_s));
    let repetitions = cells().map(|cell| cell.repetition).max().unwrap_or(0);
    let mut facts = vec![("Offered", offered.join(" and "))];
    facts.extend(size);
    facts.extend([
        ("Warm-up", format!("{warm_up} s")),
        ("Measured", format!("{hold} s each")),
        ("Repetitions", repetitions.to_string()),
        ("Clock", clock(run)),
    ]);
    facts
}

/// Returns the class and the words of the outcome. A run has passed only if a limit was checked.
pub(crate) fn outcome(run: &Run) -> (&'static str, String) {
    let counts = ThresholdCounts::of(&run.thresholds);
    let (class, words) = match run.outcome {
        RunOutcome::Complete if counts.passed > 0 => ("ok", "Passed"),
        RunOutcome::Complete => ("ok", "Complete"),
        RunOutcome::ThresholdFailed => return ("bad", thresholds_failed(&counts)),
        RunOutcome::Incomplete => ("bad", "Incomplete comparison"),
        RunOutcome::Invalid => ("bad", "Invalid measurement"),
        RunOutcome::Interrupted => ("warn", "Interrupted"),
    };
    (class, words.to_owned())
}

fn thresholds_failed(counts: &ThresholdCounts) -> String {
    match counts.passed + counts.failed {
        0 | 1 => "Threshold failed".to_owned(),
        checked => format!("{} of {checked} thresholds failed", counts.failed),
    }
}

/// Returns the answer of the run in one sentence.
pub(crate) fn answer(run: &Run) -> String {
    match run.answer.as_str() {
        "" => weir_stats::answer::answer(run),
        stored => stored.to_owned(),
    }
}

/// Returns the verdict on each subject, unless it is the answer itself.
pub(crate) fn verdict(run: &Run) -> Option<&str> {
    let verdict = run.verdict.as_str();
    (!verdict.is_empty() && answer(run) != verdict).then_some(verdict)
}

/// Returns the class of the confidence.
pub(crate) fn confidence_class(run: &Run) -> &'static str {
    match run.confidence.level {
        ConfidenceLevel::Conclusive => "ok",
        ConfidenceLevel::Indicative => "warn",
        ConfidenceLevel::NotUsable => "bad",
    }
}

/// Returns a limit with its scope, and the measured value if there is one.
pub(crate) fn threshold(it: &ThresholdResult) -> String {
    let (limit, scope, unit) = (&it.expression, &it.scope, &it.unit);
    let measured = it.actual.map_or_else(String::new, |_| {
        format!(": measured {} {unit}", format::figure(it.actual))
    });
    format!("{limit} ({scope}){measured}")
}

/// Returns the status of a limit, with the reason if it was not checked.
pub(crate) fn threshold_status(it: &ThresholdResult) -> String {
    let words = it.status.words();
    match &it.reason {
        Some(reason) => format!("{words}: {reason}"),
        None => words.to_owned(),
    }
}

/// Returns the class and the mark of a limit's status.
pub(crate) fn threshold_mark(it: &ThresholdResult) -> (&'static str, &'static str) {
    match it.status {
        ThresholdStatus::Passed => ("ok", "✓"),
        ThresholdStatus::Failed => ("bad", "✗"),
        ThresholdStatus::Undecided => ("warn", "?"),
        ThresholdStatus::NotChecked => ("warn", "–"),
    }
}

pub(crate) fn machine(run: &Run) -> String {
    let (it, memory) = (&run.machine, format::bytes(run.machine.memory_bytes as f64));
    format!("{}, {} cores, {memory}", it.cpu_model, it.cpu_cores)
}

fn clock(run: &Run) -> String {
    let mode = match run.clock.mode {
        ClockMode::SameHost => "one clock for all processes",
        ClockMode::Echo => "sender and receiver in one process",
        ClockMode::OffsetEstimate => "offset between machines estimated",
        ClockMode::Disciplined => "clocks synchronised by NTP or PTP",
    };
    match run.clock.bound_ns {
        0 => mode.to_owned(),
        bound_ns => format!("{mode}, ±{}", format::duration_us(bound_ns as f64 / 1e3)),
    }
}

fn range(values: impl Iterator<Item = f64>) -> String {
    let finite = values.filter(|value| value.is_finite());
    let ends = finite.map(|value| (value, value));
    match ends.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))) {
        None => format::NONE.to_owned(),
        Some((low, high)) if low == high => format::figure(Some(low)),
        Some((low, high)) => {
            let [low, high] = [low, high].map(|value| format::figure(Some(value)));
            format!("{low}–{high}")
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_stats::run::RoleUsage;

    use super::*;
    use crate::sweep_table::tests::run;

    fn cell(name: &str, repetition: u64, cpu_us: f64) -> Cell {
        Cell {
            architecture: name.to_owned(),
            clients: 10,
            repetition,
            roles: vec![RoleUsage {
                role: name.to_owned(),
                cpu_us_per_delivered: Some(cpu_us),
                ..RoleUsage::default()
            }],
            ..Cell::default()
        }
    }

    proptest! {
        #[test]
        fn floor_ratio_is_quotient_of_printed_values(
            gateway in prop::collection::vec(0.1..100.0_f64, 1..6),
            floor in prop::collection::vec(0.1..100.0_f64, 1..6),
            turn in 0_usize..10,
        ) {
            let of = |name: &'static str, values: &[f64]| -> Vec<Cell> {
                let values = (1..).zip(values.iter().copied());
                values.map(|(repetition, us)| cell(name, repetition, us)).collect()
            };
            let mut cells = of("gateway", &gateway);
            cells.extend(of("floor", &floor));
            let shown = |cells: Vec<Cell>| {
                let run = run(cells);
                let level = levels(&run).remove(0);
                let of = |name: &str| {
                    let row = level.rows.iter().find(|row| row.name == name).unwrap();
                    (row.figures.cpu_us_delivering.unwrap(), row.cpu_ratio.unwrap().value)
                };
                [of("gateway"), of("floor")]
            };
            let rows = shown(cells.clone());
            prop_assert!((rows[0].1 / (rows[0].0 / rows[1].0) - 1.0).abs() < 1e-9);
            prop_assert_eq!(rows[1].1, 1.0);
            let turn = turn % cells.len();
            cells.rotate_left(turn);
            prop_assert_eq!(shown(cells), rows);
        }
    }
}
