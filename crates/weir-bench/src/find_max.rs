//! Finds the maximum load that an architecture sustains: runs the loads that the search selects,
//! evaluates each by its own cell, and names the saturated role at the limit.

use std::mem;
use std::time::Duration;

use weir_stats::run::{
    Cell, CellStatus, FindMax, FindMaxOutcome, FindMaxPhase, FindMaxStep, SeriesPoint,
};
use weir_stats::search::{NextStep, Range, Search, Trial};
use weir_stats::{steady_state, trend};

use super::cell::{self, CellContext, CellSpec};
use super::figure_names::QUEUE_FULL;
use super::level_history::{self, HostLimits};
use super::observer::Observer;
use super::{quality, verdict};
use crate::experiment::turns::CellLog;
use crate::plan::{Architecture, Plan, PlanEstimate, StopRules};

/// Parameter that the search increases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Variable {
    /// Records per second
    Rate,
    /// Number of clients
    Clients,
}

impl Variable {
    /// Returns the name in results, including the unit.
    fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate_per_s",
            Self::Clients => "clients",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Rate => "records/s",
            Self::Clients => "clients",
        }
    }
}

/// Options of a search for the maximum sustained load.
#[derive(Debug, Clone, PartialEq)]
pub struct FindMaxOptions {
    /// Architecture under load.
    pub architecture: Architecture,
    /// Parameter that the search increases.
    pub variable: Variable,
    /// Number of clients when the rate is increased.
    pub clients: u64,
    /// First load; `None`: the load of the plan.
    pub start: Option<f64>,
    /// Upper limit of the search.
    pub highest: f64,
    /// Resolution of the result as a share of the load.
    pub resolution_share: f64,
    /// Maximum p99 response time of a sustained load, in milliseconds.
    pub p99_ms: Option<f64>,
    /// A/A test: searches twice.
    pub aa_test: bool,
}

pub(super) fn run(
    context: CellContext<'_>,
    options: &FindMaxOptions,
    observer: &mut dyn Observer,
) -> (Vec<Cell>, FindMax) {
    let mut steps = SearchSteps {
        context,
        limits: HostLimits::of(context.run),
        options,
        log: CellLog::new(context.run, observer, verdict::cell, 0),
        steps: Vec::new(),
    };
    let mut found = steps.search();
    if options.aa_test {
        found.again = Some(Box::new(steps.search()));
    }
    (steps.log.cells, found)
}

fn range(plan: &Plan, options: &FindMaxOptions) -> Range {
    let planned = match options.variable {
        Variable::Rate => plan.workload.rate_per_s,
        Variable::Clients => plan.levels.first().map_or(1.0, |level| *level as f64),
    };
    Range {
        start: options.start.unwrap_or(planned),
        highest: options.highest,
        resolution_share: options.resolution_share,
        whole: options.variable == Variable::Clients,
    }
}

struct SearchSteps<'a> {
    context: CellContext<'a>,
    limits: HostLimits,
    options: &'a FindMaxOptions,
    log: CellLog<'a>,
    steps: Vec<FindMaxStep>,
}

impl SearchSteps<'_> {
    /// Searches from the first load to the result.
    fn search(&mut self) -> FindMax {
        let mut search = Search::new(range(self.context.plan, self.options));
        let outcome = loop {
            let (value, phase) = match search.next().clone() {
                NextStep::Done(outcome) => break outcome,
                NextStep::Try { value, phase } => (value, phase),
            };
            if let Some(reason) = self.log.end_reason() {
                break FindMaxOutcome::Inconclusive { reason };
            }
            search.record_result(self.attempt(value, phase));
        };
        self.describe(outcome)
    }

    fn attempt(&mut self, value: f64, phase: FindMaxPhase) -> Trial {
        let (options, mut plan) = (self.options, self.context.plan.clone());
        let mut clients = options.clients;
        match options.variable {
            Variable::Rate => {
                plan.workload.rate_per_s = value;
                // Adds the rate to the parameters of the cell.
                plan.grid_rates_per_s = vec![value];
            }
            // The range of the search has whole numbers only.
            Variable::Clients => clients = value as u64,
        }
        if phase == FindMaxPhase::Confirm {
            plan.hold = plan.hold.saturating_mul(CONFIRM_HOLDS);
        }
        let mut subjects = self.context.plan.subjects().into_iter();
        let own = subjects.find(|subject| subject.architecture == options.architecture);
        let spec = CellSpec {
            architecture: options.architecture,
            variant: own.and_then(|subject| Some(subject.variant?.name.as_str())),
            clients,
            repetition: self.log.cells.len() as u64 + 1,
        };
        let unit = options.variable.unit();
        let note = format!("{} {value} {unit}", phase_name(phase));
        self.log.observer.note(&note);
        let context = CellContext {
            plan: &plan,
            ..self.context
        };
        let (rules, p99_ms) = (&plan.stop, options.p99_ms);
        let limits = &self.limits;
        let cell = self.log.turn(
            spec.empty_cell(&plan),
            || level_history::too_many_connections(options.architecture, clients, rules, limits),
            |cell, observer| {
                cell::run(context, spec, cell, observer);
                if let Trial::NotSustained(reason) = judge(cell, rules, p99_ms) {
                    cell.not_sustained = Some(reason);
                }
                Ok(())
            },
        );
        let trial = judge(cell, rules, p99_ms);
        self.steps.push(step(value, phase, cell, &trial));
        trial
    }

    /// Returns the search that ended with `outcome`, with its steps.
    fn describe(&mut self, mut outcome: FindMaxOutcome) -> FindMax {
        let unit = self.options.variable.unit();
        let name = self.options.architecture.name();
        let summary = match &mut outcome {
            FindMaxOutcome::Found {
                value,
                first_not_sustained,
                saturated_role,
                saturation_reason,
            } => {
                let last = self.log.cells.last().cloned().unwrap_or_default();
                let (limit, saturated) = (
                    last.not_sustained.as_deref(),
                    level_history::saturated(&last),
                );
                let limit = limit.unwrap_or_default();
                let summary = format!(
                    "{name} sustains {value} {unit} (confirmed), not {first_not_sustained}: \
                     {limit}{saturated}."
                );
                *saturated_role = last.saturated_role;
                *saturation_reason = last.saturation_reason;
                summary
            }
            FindMaxOutcome::AtLeast { value, reason } => {
                format!("{name} sustains at least {value} {unit} (confirmed): {reason}.")
            }
            FindMaxOutcome::Inconclusive { reason } => {
                format!("No maximum load of {name} was found: {reason}.")
            }
        };
        FindMax {
            variable: self.options.variable.name().to_owned(),
            architecture: name.to_owned(),
            steps: mem::take(&mut self.steps),
            outcome,
            summary,
            again: None,
        }
    }
}

fn step(value: f64, phase: FindMaxPhase, cell: &Cell, trial: &Trial) -> FindMaxStep {
    let (held, why) = match trial {
        Trial::Sustained => (Some(true), None),
        Trial::NotSustained(reason) => (Some(false), Some(reason.clone())),
        Trial::Unmeasured(reason) => (None, Some(reason.clone())),
    };
    FindMaxStep {
        value,
        phase,
        cell: cell.id(),
        sustained: held,
        reason: why,
        saturated_role: cell.saturated_role.clone(),
    }
}

fn judge(cell: &Cell, rules: &StopRules, p99_ms: Option<f64>) -> Trial {
    match &cell.status {
        CellStatus::Skipped { reason } => Trial::Unmeasured(reason.clone()),
        // A record that finds the producer's queue full is late because the broker accepts no more
        // records.
        CellStatus::Invalid { .. } if queue_full(cell) > 0.0 => Trial::NotSustained(format!(
            "the broker did not accept the records in time: {:.0} records found the producer's \
             queue full",
            queue_full(cell)
        )),
        CellStatus::Invalid { reasons } => Trial::Unmeasured(reasons.join("; ")),
        CellStatus::Valid => match overload_reason(cell, rules, p99_ms) {
            Some(reason) => Trial::NotSustained(reason),
            None => Trial::Sustained,
        },
    }
}

fn queue_full(cell: &Cell) -> f64 {
    cell.figures.get(QUEUE_FULL).copied().unwrap_or(0.0)
}

fn overload_reason(cell: &Cell, rules: &StopRules, p99_ms: Option<f64>) -> Option<String> {
    if let Some(reason) = level_history::not_sustained_reason(cell, rules, ACHIEVED_SHARE_MIN) {
        return Some(reason);
    }
    let p99 = cell.response().and_then(|response| response.p99_us);
    if let Some((us, limit)) = p99.zip(p99_ms).filter(|(us, limit)| us / 1e3 > *limit) {
        let ms = us / 1e3;
        return Some(format!("p99 response {ms:.1} ms, limit {limit} ms"));
    }
    let disconnects = cell.delivery.as_ref().map_or(0, |it| it.disconnects);
    if disconnects > 0 {
        return Some(format!("{disconnects} clients were disconnected"));
    }
    rise_reason(&cell.series, cell.hold_s)
}

/// Returns the reason if the median response time rises throughout the window, which means that the
/// backlog grows.
fn rise_reason(series: &[SeriesPoint], hold_s: f64) -> Option<String> {
    let window = quality::inside(series, hold_s);
    let medians: Vec<(f64, f64)> = window
        .filter_map(|point| Some((point.t_s, point.p50_us? / 1e3)))
        .collect();
    if medians.len() < steady_state::VALUES_MIN {
        return None;
    }
    let ms_per_s = trend::theil_sen(&medians)?;
    let share = trend::drift_share(&medians.iter().map(|(_, ms)| *ms).collect::<Vec<_>>())?;
    (ms_per_s * hold_s > RISE_MS_MIN && share > RISE_SHARE_MIN).then(|| {
        format!("response time keeps rising: the median grows by {ms_per_s:.1} ms per second")
    })
}

fn phase_name(phase: FindMaxPhase) -> &'static str {
    match phase {
        FindMaxPhase::Bracket => "testing",
        FindMaxPhase::Bisect => "narrowing down:",
        FindMaxPhase::Confirm => "confirming",
        FindMaxPhase::ConfirmAbove => "confirming the limit:",
    }
}

impl FindMaxOptions {
    /// Returns the duration of the run if the architecture sustains [`ASSUMED_MAX`] times the
    /// first load. The number of steps grows with the logarithm of the real ratio.
    pub fn estimated_time(&self, plan: &Plan) -> Duration {
        let range = range(plan, self);
        let capacity = (range.start * ASSUMED_MAX).min(range.highest);
        let mut search = Search::new(range);
        let mut time = Duration::ZERO;
        while let NextStep::Try { value, phase } = *search.next() {
            let clients = match self.variable {
                Variable::Rate => self.clients,
                // The range of the search has whole numbers only.
                Variable::Clients => value as u64,
            };
            time += PlanEstimate::cell_time(plan, self.architecture, clients);
            if matches!(phase, FindMaxPhase::Confirm) {
                time += plan.hold.saturating_mul(CONFIRM_HOLDS - 1);
            }
            search.record_result(match value <= capacity {
                true => Trial::Sustained,
                false => Trial::NotSustained(String::new()),
            });
        }
        let searches = if self.aa_test { 2 } else { 1 };
        PlanEstimate::start(plan.broker_warm_up, 0).time + time * searches
    }

    /// Returns the measured window of a confirmation step for a plan's `hold`.
    pub fn confirm_hold(hold: Duration) -> Duration {
        hold.saturating_mul(CONFIRM_HOLDS)
    }
}

/// Maximum load that an estimate assumes, as a multiple of the first load.
const ASSUMED_MAX: f64 = 8.0;
/// Length of a confirmation window as a multiple of a step's window.
const CONFIRM_HOLDS: u32 = 2;
const ACHIEVED_SHARE_MIN: f64 = 0.995;
const RISE_MS_MIN: f64 = 10.0;
const RISE_SHARE_MIN: f64 = 0.5;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use weir_stats::run::{DeliveryTotals, LatencySummary, STAGE_RESPONSE};

    use super::*;

    fn cell(change: impl FnOnce(&mut Cell)) -> Cell {
        let summary = LatencySummary {
            mean_us: Some(5_000.0),
            p99_us: Some(20_000.0),
            ..LatencySummary::default()
        };
        let mut cell = Cell {
            hold_s: 20.0,
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), summary)]),
            delivery: Some(DeliveryTotals::default()),
            offered_records_per_s: 1000.0,
            achieved_records_per_s: Some(999.0),
            ..Cell::default()
        };
        change(&mut cell);
        cell
    }

    fn outcome(cell: &Cell, p99_ms: Option<f64>) -> String {
        match judge(cell, &StopRules::default(), p99_ms) {
            Trial::Sustained => "sustained".to_owned(),
            Trial::NotSustained(reason) => reason,
            Trial::Unmeasured(reason) => format!("unmeasured: {reason}"),
        }
    }

    fn medians(ms: impl Fn(i32) -> f64) -> Vec<SeriesPoint> {
        let point = |second: i32| SeriesPoint {
            t_s: f64::from(second),
            p50_us: Some(ms(second) * 1e3),
            ..SeriesPoint::default()
        };
        (1..=20).map(point).collect()
    }

    #[test]
    fn estimate_assumes_eight_times_the_first_load() {
        let plan = crate::plan::tests::built_in("broadcast");
        let options = FindMaxOptions {
            architecture: Architecture::Floor,
            variable: Variable::Rate,
            clients: 10,
            start: Some(100.0),
            highest: 1e7,
            resolution_share: 0.05,
            p99_ms: None,
            aa_test: false,
        };
        let cell = PlanEstimate::cell_time(&plan, Architecture::Floor, 10);
        let time = options.estimated_time(&plan);
        // Loads 100, 200, 400, 800, 1600; four between 800 and 1600; 800 for longer; the load above
        // it.
        assert!(time > cell * 10 && time < cell * 14, "{time:?} {cell:?}");
        let twice = FindMaxOptions {
            aa_test: true,
            ..options.clone()
        };
        let longer = twice.estimated_time(&plan) - time;
        assert!(longer > cell * 10 && longer < time, "{longer:?} {time:?}");
        let bounded = FindMaxOptions {
            highest: 100.0,
            ..options
        };
        assert!(bounded.estimated_time(&plan) < cell * 4);
    }

    #[test]
    fn load_is_evaluated_by_its_window() {
        assert_eq!(outcome(&cell(|_| {}), Some(50.0)), "sustained");
        assert_eq!(
            outcome(&cell(|_| {}), Some(10.0)),
            "p99 response 20.0 ms, limit 10 ms"
        );
        let slow = cell(|cell| cell.achieved_records_per_s = Some(992.0));
        assert_eq!(
            outcome(&slow, None),
            "the broker accepted 992.0 of 1000 records/s"
        );
        let disconnected = cell(|cell| cell.delivery.as_mut().unwrap().disconnects = 3);
        assert_eq!(outcome(&disconnected, None), "3 clients were disconnected");
        let growing = cell(|cell| cell.series = medians(|second| 3.0 * f64::from(second)));
        let text = outcome(&growing, None);
        assert!(
            text.starts_with("response time keeps rising: the median grows by 3.0 ms per"),
            "{text}"
        );
        let flat = cell(|cell| cell.series = medians(|second| 5.0 + f64::from(second % 3)));
        assert_eq!(outcome(&flat, None), "sustained");
    }

    #[test]
    fn invalid_cells_do_not_evaluate_the_load() {
        let late = |cell: &mut Cell| {
            cell.status = CellStatus::Invalid {
                reasons: vec!["generator late: p99 90.0 ms, limit 20 ms".to_owned()],
            };
        };
        assert_eq!(
            outcome(&cell(late), None),
            "unmeasured: generator late: p99 90.0 ms, limit 20 ms"
        );
        let rejected = cell(|cell| {
            late(cell);
            cell.figures.insert(QUEUE_FULL.to_owned(), 500.0);
        });
        let text = outcome(&rejected, None);
        assert!(
            text.contains("500 records found the producer's queue full"),
            "{text}"
        );
    }
}
