//! Search for the maximum sustained load: selects the next load from the results so far.
//!
//! The load is doubled until it is not sustained, then bisected on a logarithmic scale. The result
//! is then confirmed with a longer window, and the next higher load must again not be sustained. A
//! search with contradictory results ends without a value.

use crate::run::{FindMaxOutcome, FindMaxPhase};

/// Bounds and resolution of a search.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    /// First load.
    pub start: f64,
    /// Maximum load.
    pub highest: f64,
    /// Maximum difference between the result and the lowest load that is not sustained, as a share.
    pub resolution_share: f64,
    /// `true` if loads are whole numbers.
    pub whole: bool,
}

/// Result of one load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Trial {
    /// The system under test sustained the load.
    Sustained,
    /// The system under test did not sustain the load, with the reason.
    NotSustained(String),
    /// No result, with the reason: an invalid cell, or a limit of the machine.
    Unmeasured(String),
}

/// Next action of a search.
#[derive(Debug, Clone, PartialEq)]
pub enum NextStep {
    /// Run a load.
    Try {
        /// The load.
        value: f64,
        /// Reason for it.
        phase: FindMaxPhase,
    },
    /// The search has ended.
    Done(FindMaxOutcome),
}

/// A search and its results so far.
#[derive(Debug, Clone)]
pub struct Search {
    range: Range,
    /// Highest load that was sustained.
    low: Option<f64>,
    /// Lowest load that was not sustained.
    high: Option<f64>,
    /// Reason why loads above `low` cannot be measured.
    ceiling: Option<String>,
    next: NextStep,
    steps: u32,
    /// Number of results that a confirmation contradicted.
    contradictions: u32,
    /// Load that could not be measured once.
    unmeasured: Option<f64>,
}

impl Search {
    /// Creates a search that has no results.
    pub fn new(range: Range) -> Self {
        let mut search = Self {
            range,
            low: None,
            high: None,
            ceiling: None,
            next: inconclusive(String::new()),
            steps: 0,
            contradictions: 0,
            unmeasured: None,
        };
        let start = search.rounded(range.start.min(range.highest));
        search.next = search.attempt(start, FindMaxPhase::Bracket);
        search
    }

    /// Returns the next action.
    pub fn next(&self) -> &NextStep {
        &self.next
    }

    /// Records the result of the load returned by `next` and selects the next action.
    pub fn record_result(&mut self, trial: Trial) {
        let NextStep::Try { value, phase } = self.next else {
            return;
        };
        self.steps += 1;
        self.next = match trial {
            _ if self.steps >= STEPS_MAX => {
                inconclusive(format!("the search did not end within {STEPS_MAX} loads"))
            }
            Trial::Unmeasured(reason) => self.unmeasured(value, phase, reason),
            Trial::Sustained => {
                self.unmeasured = None;
                self.sustained(value, phase)
            }
            Trial::NotSustained(reason) => {
                self.unmeasured = None;
                self.not_sustained(value, phase, &reason)
            }
        };
    }

    fn sustained(&mut self, value: f64, phase: FindMaxPhase) -> NextStep {
        match (phase, self.high) {
            (FindMaxPhase::Confirm, Some(high)) => {
                self.low = Some(value);
                self.attempt(high, FindMaxPhase::ConfirmAbove)
            }
            (FindMaxPhase::Confirm, None) => NextStep::Done(FindMaxOutcome::AtLeast {
                value,
                reason: self
                    .ceiling
                    .clone()
                    .unwrap_or_else(|| "the search tries no higher load".to_owned()),
            }),
            // The earlier result is contradicted: the range above is open again.
            (FindMaxPhase::ConfirmAbove, _) => {
                (self.low, self.high) = (Some(value), None);
                self.resolve_contradiction(value, FindMaxPhase::Bracket)
            }
            (FindMaxPhase::Bracket | FindMaxPhase::Bisect, _) => {
                self.low = Some(value);
                self.narrow()
            }
        }
    }

    fn not_sustained(&mut self, value: f64, phase: FindMaxPhase, reason: &str) -> NextStep {
        match phase {
            FindMaxPhase::ConfirmAbove => NextStep::Done(FindMaxOutcome::Found {
                // Invariant: `low` was confirmed before the load above it was run.
                value: self.low.unwrap_or(value),
                first_not_sustained: value,
                // The caller names the role.
                saturated_role: None,
                saturation_reason: None,
            }),
            FindMaxPhase::Confirm => {
                (self.low, self.high) = (None, Some(value));
                let below = self.rounded(value / (1.0 + self.range.resolution_share));
                let is_below = below < value;
                let below = if is_below { below } else { self.below(value) };
                self.resolve_contradiction(below, FindMaxPhase::Confirm)
            }
            FindMaxPhase::Bracket | FindMaxPhase::Bisect => {
                self.high = Some(value);
                if self.low.is_none() && self.is_lowest(value) {
                    return inconclusive(format!(
                        "{value} is not sustained and no lower load can be tried: {reason}"
                    ));
                }
                self.narrow()
            }
        }
    }

    /// Repeats a load that could not be measured once; a second failure makes it the limit.
    fn unmeasured(&mut self, value: f64, phase: FindMaxPhase, reason: String) -> NextStep {
        if self.unmeasured.replace(value) != Some(value) {
            return self.attempt(value, phase);
        }
        self.unmeasured = None;
        match (phase, self.low) {
            (FindMaxPhase::Bracket | FindMaxPhase::Bisect, Some(low)) => {
                self.high = None;
                self.ceiling = Some(format!("{value} could not be measured: {reason}"));
                self.attempt(low, FindMaxPhase::Confirm)
            }
            (FindMaxPhase::ConfirmAbove, Some(low)) => NextStep::Done(FindMaxOutcome::AtLeast {
                value: low,
                reason: format!("{value} could not be measured again: {reason}"),
            }),
            _ => inconclusive(format!("{value} could not be measured: {reason}")),
        }
    }

    /// Selects a load between `low` and `high`, or beyond the one that is known.
    fn narrow(&mut self) -> NextStep {
        match (self.low, self.high) {
            (Some(low), None) if low >= self.range.highest || self.ceiling.is_some() => {
                self.attempt(low, FindMaxPhase::Confirm)
            }
            (Some(low), None) => {
                let next = self.rounded((low * 2.0).min(self.range.highest));
                self.attempt(next, FindMaxPhase::Bracket)
            }
            (None, Some(high)) => self.attempt(self.below(high), FindMaxPhase::Bracket),
            (Some(low), Some(high)) => {
                let middle = self.rounded((low * high).sqrt());
                let is_close = high <= low * (1.0 + self.range.resolution_share);
                match is_close || middle <= low || middle >= high {
                    true => self.attempt(low, FindMaxPhase::Confirm),
                    false => self.attempt(middle, FindMaxPhase::Bisect),
                }
            }
            (None, None) => inconclusive("no load was measured".to_owned()),
        }
    }

    /// Continues after a confirmation contradicted a result. A few contradictions occur by chance;
    /// more mean that there is no definite limit.
    fn resolve_contradiction(&mut self, value: f64, phase: FindMaxPhase) -> NextStep {
        self.contradictions += 1;
        if self.contradictions > CONTRADICTIONS_MAX {
            return inconclusive(format!(
                "loads up to {value} were sustained in one measurement and not in the next, \
                 {CONTRADICTIONS_MAX} times: the results do not depend on the load alone"
            ));
        }
        match phase {
            FindMaxPhase::Confirm => self.attempt(value, phase),
            _ => {
                let above = value * (1.0 + 2.0 * self.range.resolution_share);
                let above = self.rounded(above.min(self.range.highest));
                match above > value {
                    true => self.attempt(above, FindMaxPhase::Bracket),
                    false => self.attempt(value, FindMaxPhase::Confirm),
                }
            }
        }
    }

    fn attempt(&self, value: f64, phase: FindMaxPhase) -> NextStep {
        NextStep::Try { value, phase }
    }

    fn below(&self, value: f64) -> f64 {
        let half = self.rounded(value / 2.0);
        if half < value { half } else { value / 2.0 }
    }

    fn is_lowest(&self, value: f64) -> bool {
        let smallest = if self.range.whole { 1.0 } else { 0.0 };
        value <= smallest || value <= self.range.start / START_HALVED_MAX
    }

    /// Rounds to whole numbers, or to three digits.
    fn rounded(&self, value: f64) -> f64 {
        if self.range.whole {
            return value.round().max(1.0);
        }
        let unit = 10_f64.powf(value.log10().floor() - 2.0);
        (value / unit).round() * unit
    }
}

fn inconclusive(reason: String) -> NextStep {
    NextStep::Done(FindMaxOutcome::Inconclusive { reason })
}

const STEPS_MAX: u32 = 48;
const CONTRADICTIONS_MAX: u32 = 4;
/// Divisor of the first load below which the search gives up.
const START_HALVED_MAX: f64 = 1024.0;

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: Range = Range {
        start: 100.0,
        highest: 1e9,
        resolution_share: 0.05,
        whole: false,
    };

    /// Runs a search with results from `system`. Returns the outcome and all loads.
    fn search(
        range: Range,
        mut system: impl FnMut(f64) -> Trial,
    ) -> (FindMaxOutcome, Vec<(f64, FindMaxPhase)>) {
        let mut search = Search::new(range);
        let mut loads = Vec::new();
        loop {
            match search.next().clone() {
                NextStep::Done(outcome) => return (outcome, loads),
                NextStep::Try { value, phase } => {
                    assert!(value > 0.0 && value <= range.highest, "{value}");
                    loads.push((value, phase));
                    search.record_result(system(value));
                }
            }
        }
    }

    fn up_to(capacity: f64) -> impl FnMut(f64) -> Trial {
        move |load| match load <= capacity {
            true => Trial::Sustained,
            false => Trial::NotSustained("late".to_owned()),
        }
    }

    #[test]
    fn sharp_limit_is_found_from_any_start() {
        for start in [3.0, 70.0, 5_000.0, 100_000.0] {
            for capacity in [317.0, 5_000.0, 44_321.0] {
                let range = Range { start, ..RANGE };
                let (outcome, loads) = search(range, up_to(capacity));
                let FindMaxOutcome::Found {
                    value,
                    first_not_sustained: above,
                    ..
                } = outcome
                else {
                    panic!("{start} {capacity}: {outcome:?}");
                };
                assert!(value <= capacity && capacity < above, "{value} {above}");
                assert!(above <= value * 1.06, "{value} {above}");
                let [
                    ..,
                    (confirmed, FindMaxPhase::Confirm),
                    (confirmed_above, FindMaxPhase::ConfirmAbove),
                ] = loads[..]
                else {
                    panic!("not confirmed: {loads:?}");
                };
                assert_eq!((confirmed, confirmed_above), (value, above));
                assert!(loads.len() < 30, "{}", loads.len());
            }
        }
    }

    #[test]
    fn whole_number_search_finds_exact_limit() {
        let range = Range {
            start: 1.0,
            whole: true,
            ..RANGE
        };
        let (outcome, loads) = search(range, up_to(7.5));
        assert_eq!(
            outcome,
            FindMaxOutcome::Found {
                value: 7.0,
                first_not_sustained: 8.0,
                saturated_role: None,
                saturation_reason: None,
            }
        );
        assert!(loads.iter().all(|(load, _)| load.fract() == 0.0));
    }

    #[test]
    fn search_without_sustained_load_is_inconclusive() {
        let (outcome, _) = search(RANGE, up_to(0.0));
        let FindMaxOutcome::Inconclusive { reason } = outcome else {
            panic!("{outcome:?}");
        };
        assert!(
            reason.starts_with("0.0") && reason.ends_with("late"),
            "{reason}"
        );
    }

    #[test]
    fn search_within_capacity_returns_maximum_as_bound() {
        let range = Range {
            highest: 3_000.0,
            ..RANGE
        };
        let (outcome, loads) = search(range, up_to(1e12));
        let reason = "the search tries no higher load".to_owned();
        assert_eq!(
            outcome,
            FindMaxOutcome::AtLeast {
                value: 3_000.0,
                reason
            }
        );
        assert_eq!(loads.last(), Some(&(3_000.0, FindMaxPhase::Confirm)));
    }

    #[test]
    fn unmeasurable_loads_give_a_lower_bound() {
        let (outcome, _) = search(RANGE, |load| match load <= 900.0 {
            true => Trial::Sustained,
            false => Trial::Unmeasured("generator behind schedule".to_owned()),
        });
        let FindMaxOutcome::AtLeast { value, reason } = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(value, 800.0);
        assert_eq!(
            reason,
            "1600 could not be measured: generator behind schedule"
        );
        let (outcome, loads) = search(RANGE, |_| Trial::Unmeasured("no broker".to_owned()));
        assert!(matches!(outcome, FindMaxOutcome::Inconclusive { .. }));
        assert_eq!(loads.len(), 2, "repeated once");
    }

    #[test]
    fn single_invalid_cells_are_repeated() {
        let mut count = 0;
        let (outcome, _) = search(RANGE, |load| {
            count += 1;
            match count % 3 {
                0 => Trial::Unmeasured("invalid".to_owned()),
                _ => up_to(2_000.0)(load),
            }
        });
        assert!(
            matches!(outcome, FindMaxOutcome::Found { .. }),
            "{outcome:?}"
        );
    }

    /// The limit varies by up to 10 % between measurements; every result must be plausible.
    #[test]
    fn varying_limit_gives_plausible_result_or_none() {
        let mut found = 0;
        for seed in 0..300_u64 {
            let mut state = seed;
            let (outcome, loads) = search(RANGE, |load| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
                up_to(2_000.0 * (0.9 + 0.2 * unit))(load)
            });
            assert!(loads.len() <= STEPS_MAX as usize);
            match outcome {
                FindMaxOutcome::Found { value, .. } => {
                    found += 1;
                    assert!((1_700.0..=2_200.0).contains(&value), "seed {seed}: {value}");
                }
                FindMaxOutcome::AtLeast { .. } => panic!("seed {seed}: {outcome:?}"),
                FindMaxOutcome::Inconclusive { .. } => {}
            }
        }
        assert!(found > 200, "{found} of 300");
    }

    /// Random results have no limit.
    #[test]
    fn random_results_are_often_inconclusive() {
        let mut figures = Vec::new();
        for seed in 0..200_u64 {
            let mut state = seed ^ 0x5DEE_CE66;
            let (outcome, _) = search(RANGE, |_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                match state >> 63 {
                    0 => Trial::Sustained,
                    _ => Trial::NotSustained("late".to_owned()),
                }
            });
            if let FindMaxOutcome::Found {
                value,
                first_not_sustained,
                ..
            } = outcome
            {
                assert!(first_not_sustained > value);
                figures.push(value);
            }
        }
        assert!(
            figures.len() < 150,
            "{} of 200 searches returned a value",
            figures.len()
        );
    }
}
