//! Finds the highest load that an architecture holds: runs the steps that the search asks for, judges each by its
//! own cell, and names what had nothing left where it ended.

use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_stats::run::{
    Cell, CellStatus, FindMax, FindMaxOutcome, FindMaxPhase as ClientPhase, FindMaxStep,
    SeriesPoint,
};
use weir_stats::{steady_state, trend};

use super::cell::{self, CellContext, CellSpec};
use super::ladder::{self, HostLimits, Ladder};
use super::observer::Observer;
use super::search::{NextStep, Range, Search, SearchOutcome, Trial};
use super::verdict;
use crate::plan::{self, Architecture, Plan, PlanEstimate, StopRules, Subject};

/// What is raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Variable {
    /// Records per second, all producers together.
    Rate,
    /// Number of clients.
    Clients,
}

impl Variable {
    /// The name in results, with the unit.
    pub fn name(self) -> &'static str {
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

/// What to search for.
#[derive(Debug, Clone, PartialEq)]
pub struct FindMaxOptions {
    /// Who is loaded.
    pub architecture: Architecture,
    /// What is raised.
    pub variable: Variable,
    /// Clients, where the rate is raised.
    pub clients: u64,
    /// The first load; `None`: what the plan has.
    pub start: Option<f64>,
    /// Nothing above it is tried.
    pub highest: f64,
    /// The answer is known to this share.
    pub resolution_share: f64,
    /// 99th percentile of the response up to which a load counts as held, in milliseconds.
    pub p99_ms: Option<f64>,
}

/// The search, step by step.
pub(super) fn run(
    context: &CellContext<'_>,
    limits: &HostLimits,
    options: &FindMaxOptions,
    observer: &mut dyn Observer,
) -> (Vec<Cell>, FindMax) {
    let mut steps = SearchSteps {
        context,
        limits,
        options,
        cells: Vec::new(),
        told: Vec::new(),
    };
    let mut search = Search::new(range(context.plan, options));
    let answer = loop {
        let (value, phase) = match search.next().clone() {
            NextStep::Done(answer) => break answer,
            NextStep::Try { value, phase } => (value, phase),
        };
        if context.stop.load(Ordering::Relaxed) {
            let why = "interrupted".to_owned();
            break SearchOutcome::Inconclusive { why };
        }
        if context.broker_is_gone() {
            let why = cell::BROKER_GONE.to_owned();
            break SearchOutcome::Inconclusive { why };
        }
        search.learn(steps.attempt(value, phase, observer));
    };
    steps.finish(answer)
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

/// The loads that were tried.
struct SearchSteps<'a> {
    context: &'a CellContext<'a>,
    limits: &'a HostLimits,
    options: &'a FindMaxOptions,
    cells: Vec<Cell>,
    told: Vec<FindMaxStep>,
}

impl SearchSteps<'_> {
    /// Runs one load and judges it.
    fn attempt(&mut self, value: f64, phase: ClientPhase, observer: &mut dyn Observer) -> Trial {
        let mut plan = self.context.plan.clone();
        let mut clients = self.options.clients;
        match self.options.variable {
            Variable::Rate => {
                plan.workload.rate_per_s = value;
                // Makes it a coordinate of the cell.
                plan.grid_rates_per_s = vec![value];
            }
            // Whole by the search's range.
            Variable::Clients => clients = value as u64,
        }
        if phase == ClientPhase::Confirm {
            plan.hold = plan.hold.saturating_mul(CONFIRM_HOLDS);
        }
        let number = self.cells.len() + 1;
        let subjects = plan.subjects();
        let variant = subjects
            .iter()
            .find(|subject| subject.architecture == self.options.architecture)
            .and_then(|subject| subject.variant);
        let spec = CellSpec {
            architecture: self.options.architecture,
            variant: variant.map(|variant| variant.name.clone()),
            clients,
            repetition: number as u64,
        };
        observer.cell(number, number, &spec.empty_cell(&plan).id());
        let unit = self.options.variable.unit();
        observer.note(&format!("{} {value} {unit}", phase_name(phase)));
        let mut cell = match self.skip(clients, &plan) {
            Some(reason) => Cell {
                status: CellStatus::Skipped { reason },
                ..spec.empty_cell(&plan)
            },
            None => cell::run(&self.context.with_plan(&plan), spec, observer),
        };
        let tried = judge(&cell, &plan.stop, self.options.p99_ms);
        if let Trial::NotHeld(why) = &tried {
            cell.not_sustained = Some(why.clone());
        }
        observer.note(&verdict::cell(&cell));
        self.told.push(step(value, phase, &cell, &tried));
        self.cells.push(cell);
        tried
    }

    /// Why the machine does not allow so many clients.
    fn skip(&self, clients: u64, plan: &Plan) -> Option<String> {
        let subject = Subject {
            architecture: self.options.architecture,
            variant: None,
        };
        let point = plan::PlanPoint {
            clients,
            rate_per_s: plan.workload.rate_per_s,
        };
        Ladder::new(false).skip(&subject, point, &plan.stop, self.limits)
    }

    fn finish(self, answer: SearchOutcome) -> (Vec<Cell>, FindMax) {
        let unit = self.options.variable.unit();
        let name = self.options.architecture.name();
        let (outcome, summary) = match answer {
            SearchOutcome::Found { value, not_held } => {
                let last = self.cells.last();
                let role = last.and_then(|cell| cell.saturated_role.clone());
                let why = last.and_then(|cell| cell.saturated_why.clone());
                let limit = last.and_then(|cell| cell.not_sustained.clone());
                let saturated = match (&role, &why) {
                    (Some(role), Some(why)) => format!("; {role} saturated: {why}"),
                    _ => "; no part saturated".to_owned(),
                };
                let summary = format!(
                    "{name} holds {value} {unit} (confirmed), not {not_held}: {}{saturated}.",
                    limit.unwrap_or_default()
                );
                let outcome = FindMaxOutcome::Found {
                    value,
                    not_held,
                    saturated_role: role,
                    saturated_why: why,
                };
                (outcome, summary)
            }
            SearchOutcome::AtLeast { value, why } => {
                let summary = format!("{name} holds at least {value} {unit} (confirmed): {why}.");
                (FindMaxOutcome::AtLeast { value, why }, summary)
            }
            SearchOutcome::Inconclusive { why } => {
                let summary = format!("No highest load of {name} was found: {why}.");
                (FindMaxOutcome::Inconclusive { why }, summary)
            }
        };
        let find_max = FindMax {
            variable: self.options.variable.name().to_owned(),
            architecture: name.to_owned(),
            steps: self.told,
            outcome,
            summary,
        };
        (self.cells, find_max)
    }
}

fn step(value: f64, phase: ClientPhase, cell: &Cell, tried: &Trial) -> FindMaxStep {
    let (held, why) = match tried {
        Trial::Held => (Some(true), None),
        Trial::NotHeld(why) => (Some(false), Some(why.clone())),
        Trial::Unmeasured(why) => (None, Some(why.clone())),
    };
    FindMaxStep {
        value,
        phase,
        cell: cell.id(),
        held,
        why,
        saturated_role: cell.saturated_role.clone(),
    }
}

/// What a cell says about its load.
fn judge(cell: &Cell, rules: &StopRules, p99_ms: Option<f64>) -> Trial {
    match &cell.status {
        CellStatus::Skipped { reason } => Trial::Unmeasured(reason.clone()),
        // Records that found the producer's queue full are late because the broker took no more.
        CellStatus::Invalid { .. } if queue_full(cell) > 0.0 => Trial::NotHeld(format!(
            "the broker did not take them in time: {:.0} records found the producer's queue full",
            queue_full(cell)
        )),
        CellStatus::Invalid { reasons } => Trial::Unmeasured(reasons.join("; ")),
        CellStatus::Valid => match too_much(cell, rules, p99_ms) {
            Some(why) => Trial::NotHeld(why),
            None => Trial::Held,
        },
    }
}

fn queue_full(cell: &Cell) -> f64 {
    cell.figures.get(QUEUE_FULL).copied().unwrap_or(0.0)
}

/// Why a load is not held.
fn too_much(cell: &Cell, rules: &StopRules, p99_ms: Option<f64>) -> Option<String> {
    if let Some(reason) = ladder::can_not_hold(cell, rules) {
        return Some(reason);
    }
    let (achieved, offered) = (cell.achieved_records_per_s?, cell.offered_records_per_s);
    // One record at the edge of the window may fall on either side of it.
    if achieved * cell.hold_s + 1.0 < offered * cell.hold_s * ACHIEVED_SHARE_MIN {
        return Some(format!(
            "the broker took {achieved:.1} of {offered} records a second"
        ));
    }
    let p99 = cell.response().and_then(|response| response.p99_us);
    if let (Some(p99_us), Some(limit)) = (p99, p99_ms) {
        if p99_us / 1e3 > limit {
            let ms = p99_us / 1e3;
            return Some(format!("p99 response {ms:.1} ms, limit {limit} ms"));
        }
    }
    let lost = cell
        .delivery
        .as_ref()
        .map_or(0, |delivery| delivery.disconnects);
    if lost > 0 {
        return Some(format!("{lost} clients were disconnected"));
    }
    rising(&cell.series, cell.hold_s)
}

/// A median response that rises through the window: what waits becomes more.
fn rising(series: &[SeriesPoint], hold_s: f64) -> Option<String> {
    let window = series.iter().filter(|p| p.t_s > 0.0 && p.t_s <= hold_s);
    let medians: Vec<(f64, f64)> = window
        .filter_map(|point| Some((point.t_s, point.p50_us? / 1e3)))
        .collect();
    if medians.len() < steady_state::VALUES_MIN {
        return None;
    }
    let ms_per_s = trend::theil_sen(&medians)?;
    let share = trend::drift_share(&medians.iter().map(|(_, ms)| *ms).collect::<Vec<_>>())?;
    (ms_per_s * hold_s > RISE_MS_MIN && share > RISE_SHARE_MIN)
        .then(|| format!("ever later: the median response rises by {ms_per_s:.1} ms each second"))
}

fn phase_name(phase: ClientPhase) -> &'static str {
    match phase {
        ClientPhase::Bracket => "trying",
        ClientPhase::Bisect => "trying, between,",
        ClientPhase::Confirm => "confirming",
        ClientPhase::ConfirmAbove => "trying again, just above,",
    }
}

impl FindMaxOptions {
    /// Returns the time that the search takes if the architecture holds [`ASSUMED_MAX`] times the
    /// first load. The step count grows with the logarithm of the real ratio.
    pub fn estimated_time(&self, plan: &Plan) -> Duration {
        let range = range(plan, self);
        let capacity = (range.start * ASSUMED_MAX).min(range.highest);
        let mut search = Search::new(range);
        let mut time = PlanEstimate::start_time(plan);
        while let NextStep::Try { value, phase } = *search.next() {
            let clients = match self.variable {
                Variable::Rate => self.clients,
                // Whole by the search's range.
                Variable::Clients => value as u64,
            };
            time += PlanEstimate::cell_time(plan, self.architecture, clients);
            if matches!(phase, ClientPhase::Confirm) {
                time += plan.hold.saturating_mul(CONFIRM_HOLDS - 1);
            }
            search.learn(match value <= capacity {
                true => Trial::Held,
                false => Trial::NotHeld(String::new()),
            });
        }
        time
    }

    /// Window of a step that confirms, for a plan's hold.
    pub fn confirm_hold(hold: Duration) -> Duration {
        hold.saturating_mul(CONFIRM_HOLDS)
    }
}

/// A figure of each cell: records of the window that had to wait for room in the producer's queue.
pub(super) const QUEUE_FULL: &str = "producer_queue_full_records";
/// The highest load that an estimate assumes, as a multiple of the first load.
const ASSUMED_MAX: f64 = 8.0;
/// The window that confirms, in windows of a step.
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

    fn told(cell: &Cell, p99_ms: Option<f64>) -> String {
        match judge(cell, &StopRules::default(), p99_ms) {
            Trial::Held => "held".to_owned(),
            Trial::NotHeld(why) => why,
            Trial::Unmeasured(why) => format!("unmeasured: {why}"),
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
    fn estimate_counts_the_steps_of_a_search_up_to_eight_times_the_start() {
        let plan = Plan::built_in("broadcast").unwrap().unwrap();
        let options = FindMaxOptions {
            architecture: Architecture::Floor,
            variable: Variable::Rate,
            clients: 10,
            start: Some(100.0),
            highest: 1e7,
            resolution_share: 0.05,
            p99_ms: None,
        };
        let cell = PlanEstimate::cell_time(&plan, Architecture::Floor, 10);
        let time = options.estimated_time(&plan);
        // 100, 200, 400, 800, 1600; four between 800 and 1600; 800 for longer; the load above it.
        assert!(time > cell * 10 && time < cell * 14, "{time:?} {cell:?}");
        let bounded = FindMaxOptions {
            highest: 100.0,
            ..options
        };
        assert!(bounded.estimated_time(&plan) < cell * 4);
    }

    #[test]
    fn a_load_is_held_by_its_own_window() {
        assert_eq!(told(&cell(|_| {}), Some(50.0)), "held");
        assert_eq!(
            told(&cell(|_| {}), Some(10.0)),
            "p99 response 20.0 ms, limit 10 ms"
        );
        let slow = cell(|cell| cell.achieved_records_per_s = Some(992.0));
        assert_eq!(
            told(&slow, None),
            "the broker took 992.0 of 1000 records a second"
        );
        let gone = cell(|cell| cell.delivery.as_mut().unwrap().disconnects = 3);
        assert_eq!(told(&gone, None), "3 clients were disconnected");
        let growing = cell(|cell| cell.series = medians(|second| 3.0 * f64::from(second)));
        assert!(
            told(&growing, None).starts_with("ever later: the median response rises by 3.0 ms")
        );
        let flat = cell(|cell| cell.series = medians(|second| 5.0 + f64::from(second % 3)));
        assert_eq!(told(&flat, None), "held");
    }

    #[test]
    fn an_instrument_that_fails_says_nothing_about_the_load() {
        let late = |cell: &mut Cell| {
            cell.status = CellStatus::Invalid {
                reasons: vec!["generator late: p99 90.0 ms, limit 20 ms".to_owned()],
            };
        };
        assert_eq!(
            told(&cell(late), None),
            "unmeasured: generator late: p99 90.0 ms, limit 20 ms"
        );
        let refused = cell(|cell| {
            late(cell);
            cell.figures.insert(QUEUE_FULL.to_owned(), 500.0);
        });
        assert!(told(&refused, None).contains("500 records found the producer's queue full"));
    }
}
