//! The search for the highest load that is held: which load to try next, given what came of those before.
//!
//! Doubling until a load is not held, halving what lies between on a logarithmic scale, and then the part that
//! other tools leave out: the answer is tried again, for longer, and so is the load just above it, which must not
//! be held. A search that contradicts itself ends without a figure.

use weir_stats::run::FindMaxPhase as ClientPhase;

/// Where to begin, and when to be content.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Range {
    /// The first load.
    pub(super) start: f64,
    /// Nothing above it is tried.
    pub(super) highest: f64,
    /// The answer and the lowest load that is not held differ by at most this share.
    pub(super) resolution_share: f64,
    /// Whether loads are whole numbers.
    pub(super) whole: bool,
}

/// What came of a load.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Trial {
    Held,
    /// Why the system under test did not.
    NotHeld(String),
    /// Why nothing can be said: the instrument failed, or the machine does not allow the load.
    Unmeasured(String),
}

/// What to do next.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum NextStep {
    Try { value: f64, phase: ClientPhase },
    Done(SearchOutcome),
}

/// How the search ended.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum SearchOutcome {
    Found { value: f64, not_held: f64 },
    AtLeast { value: f64, why: String },
    Inconclusive { why: String },
}

/// The search.
#[derive(Debug, Clone)]
pub(super) struct Search {
    range: Range,
    /// Highest load that was held.
    low: Option<f64>,
    /// Lowest load that was not.
    high: Option<f64>,
    /// Why loads above `low` cannot be measured.
    ceiling: Option<String>,
    next: NextStep,
    steps: u32,
    /// Times that an answer did not stand when it was tried again.
    taken_back: u32,
    /// The load that could not be measured once already.
    unmeasured: Option<f64>,
}

impl Search {
    pub(super) fn new(range: Range) -> Self {
        let mut search = Self {
            range,
            low: None,
            high: None,
            ceiling: None,
            next: NextStep::Done(SearchOutcome::Inconclusive { why: String::new() }),
            steps: 0,
            taken_back: 0,
            unmeasured: None,
        };
        let start = search.rounded(range.start.min(range.highest));
        search.next = search.attempt(start, ClientPhase::Bracket);
        search
    }

    /// What to do now.
    pub(super) fn next(&self) -> &NextStep {
        &self.next
    }

    /// Takes what came of the load that was to be tried.
    pub(super) fn learn(&mut self, tried: Trial) {
        let NextStep::Try { value, phase } = self.next else {
            return;
        };
        self.steps += 1;
        self.next = match tried {
            _ if self.steps >= STEPS_MAX => inconclusive(format!(
                "{STEPS_MAX} loads were tried without coming to an end"
            )),
            Trial::Unmeasured(why) => self.unmeasured(value, phase, why),
            Trial::Held => {
                self.unmeasured = None;
                self.held(value, phase)
            }
            Trial::NotHeld(why) => {
                self.unmeasured = None;
                self.not_held(value, phase, &why)
            }
        };
    }

    fn held(&mut self, value: f64, phase: ClientPhase) -> NextStep {
        match (phase, self.high) {
            (ClientPhase::Confirm, Some(high)) => {
                self.low = Some(value);
                self.attempt(high, ClientPhase::ConfirmAbove)
            }
            (ClientPhase::Confirm, None) => NextStep::Done(SearchOutcome::AtLeast {
                value,
                why: self.ceiling.clone().unwrap_or_else(|| {
                    format!("{} is the highest load to be tried", self.range.highest)
                }),
            }),
            // It was not held before: what lies above is open again.
            (ClientPhase::ConfirmAbove, _) => {
                (self.low, self.high) = (Some(value), None);
                self.take_back(value, ClientPhase::Bracket)
            }
            (ClientPhase::Bracket | ClientPhase::Bisect, _) => {
                self.low = Some(value);
                self.narrow()
            }
        }
    }

    fn not_held(&mut self, value: f64, phase: ClientPhase, why: &str) -> NextStep {
        match phase {
            ClientPhase::ConfirmAbove => NextStep::Done(SearchOutcome::Found {
                // Invariant: it was confirmed before the load above it was tried.
                value: self.low.unwrap_or(value),
                not_held: value,
            }),
            ClientPhase::Confirm => {
                (self.low, self.high) = (None, Some(value));
                let below = self.rounded(value / (1.0 + self.range.resolution_share));
                let below = if below < value {
                    below
                } else {
                    self.below(value)
                };
                self.take_back(below, ClientPhase::Confirm)
            }
            ClientPhase::Bracket | ClientPhase::Bisect => {
                self.high = Some(value);
                if self.low.is_none() && self.is_lowest(value) {
                    return inconclusive(format!("not even {value} is held: {why}"));
                }
                self.narrow()
            }
        }
    }

    /// Once is chance; what fails twice cannot be measured here.
    fn unmeasured(&mut self, value: f64, phase: ClientPhase, why: String) -> NextStep {
        if self.unmeasured.replace(value) != Some(value) {
            return self.attempt(value, phase);
        }
        self.unmeasured = None;
        match (phase, self.low) {
            (ClientPhase::Bracket | ClientPhase::Bisect, Some(low)) => {
                self.high = None;
                self.ceiling = Some(format!("{value} could not be measured: {why}"));
                self.attempt(low, ClientPhase::Confirm)
            }
            (ClientPhase::ConfirmAbove, Some(low)) => NextStep::Done(SearchOutcome::AtLeast {
                value: low,
                why: format!("{value} could not be measured again: {why}"),
            }),
            _ => inconclusive(format!("{value} could not be measured: {why}")),
        }
    }

    /// Between what is held and what is not, or beyond either.
    fn narrow(&mut self) -> NextStep {
        match (self.low, self.high) {
            (Some(low), None) if low >= self.range.highest || self.ceiling.is_some() => {
                self.attempt(low, ClientPhase::Confirm)
            }
            (Some(low), None) => {
                let next = self.rounded((low * 2.0).min(self.range.highest));
                self.attempt(next, ClientPhase::Bracket)
            }
            (None, Some(high)) => self.attempt(self.below(high), ClientPhase::Bracket),
            (Some(low), Some(high)) => {
                let middle = self.rounded((low * high).sqrt());
                let is_close = high <= low * (1.0 + self.range.resolution_share);
                match is_close || middle <= low || middle >= high {
                    true => self.attempt(low, ClientPhase::Confirm),
                    false => self.attempt(middle, ClientPhase::Bisect),
                }
            }
            (None, None) => inconclusive("no load was tried".to_owned()),
        }
    }

    /// An answer that did not stand. A few times that is chance; more often there is no limit to be found.
    fn take_back(&mut self, value: f64, phase: ClientPhase) -> NextStep {
        self.taken_back += 1;
        if self.taken_back > TAKEN_BACK_MAX {
            return inconclusive(format!(
                "the same loads were held one time and not the next, {TAKEN_BACK_MAX} times up to \
                 {value}: something else than the load decides"
            ));
        }
        match phase {
            ClientPhase::Confirm => self.attempt(value, phase),
            _ => {
                let above = value * (1.0 + 2.0 * self.range.resolution_share);
                let above = self.rounded(above.min(self.range.highest));
                match above > value {
                    true => self.attempt(above, ClientPhase::Bracket),
                    false => self.attempt(value, ClientPhase::Confirm),
                }
            }
        }
    }

    fn attempt(&self, value: f64, phase: ClientPhase) -> NextStep {
        NextStep::Try { value, phase }
    }

    /// Half of it.
    fn below(&self, value: f64) -> f64 {
        let half = self.rounded(value / 2.0);
        if half < value { half } else { value / 2.0 }
    }

    fn is_lowest(&self, value: f64) -> bool {
        let smallest = if self.range.whole { 1.0 } else { 0.0 };
        value <= smallest || value <= self.range.start / START_HALVED_MAX
    }

    /// To whole numbers, or three digits.
    fn rounded(&self, value: f64) -> f64 {
        if self.range.whole {
            return value.round().max(1.0);
        }
        let unit = 10_f64.powf(value.log10().floor() - 2.0);
        (value / unit).round() * unit
    }
}

fn inconclusive(why: String) -> NextStep {
    NextStep::Done(SearchOutcome::Inconclusive { why })
}

const STEPS_MAX: u32 = 48;
const TAKEN_BACK_MAX: u32 = 4;
/// Below this fraction of the start, the start was no sensible one.
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

    /// Runs a search against a system that answers by itself; the loads that were tried.
    fn search(
        range: Range,
        mut system: impl FnMut(f64) -> Trial,
    ) -> (SearchOutcome, Vec<(f64, ClientPhase)>) {
        let mut search = Search::new(range);
        let mut tried = Vec::new();
        loop {
            match search.next().clone() {
                NextStep::Done(answer) => return (answer, tried),
                NextStep::Try { value, phase } => {
                    assert!(value > 0.0 && value <= range.highest, "{value}");
                    tried.push((value, phase));
                    search.learn(system(value));
                }
            }
        }
    }

    fn up_to(capacity: f64) -> impl FnMut(f64) -> Trial {
        move |load| match load <= capacity {
            true => Trial::Held,
            false => Trial::NotHeld("late".to_owned()),
        }
    }

    #[test]
    fn a_sharp_limit_is_found_from_any_start() {
        for start in [3.0, 70.0, 5_000.0, 100_000.0] {
            for capacity in [317.0, 5_000.0, 44_321.0] {
                let range = Range { start, ..RANGE };
                let (answer, tried) = search(range, up_to(capacity));
                let SearchOutcome::Found { value, not_held } = answer else {
                    panic!("{start} {capacity}: {answer:?}");
                };
                assert!(
                    value <= capacity && capacity < not_held,
                    "{value} {not_held}"
                );
                assert!(not_held <= value * 1.06, "{value} {not_held}");
                let [
                    ..,
                    (confirmed, ClientPhase::Confirm),
                    (above, ClientPhase::ConfirmAbove),
                ] = tried[..]
                else {
                    panic!("not confirmed: {tried:?}");
                };
                assert_eq!((confirmed, above), (value, not_held));
                assert!(tried.len() < 30, "{}", tried.len());
            }
        }
    }

    #[test]
    fn whole_numbers_are_searched_to_the_last_one() {
        let range = Range {
            start: 1.0,
            whole: true,
            ..RANGE
        };
        let (answer, tried) = search(range, up_to(7.5));
        assert_eq!(
            answer,
            SearchOutcome::Found {
                value: 7.0,
                not_held: 8.0
            }
        );
        assert!(tried.iter().all(|(load, _)| load.fract() == 0.0));
    }

    #[test]
    fn what_holds_nothing_has_no_figure() {
        let (answer, _) = search(RANGE, up_to(0.0));
        let SearchOutcome::Inconclusive { why } = answer else {
            panic!("{answer:?}");
        };
        assert!(
            why.starts_with("not even 0.0") && why.ends_with("late"),
            "{why}"
        );
    }

    #[test]
    fn what_holds_everything_is_at_least_the_highest() {
        let range = Range {
            highest: 3_000.0,
            ..RANGE
        };
        let (answer, tried) = search(range, up_to(1e12));
        let why = "3000 is the highest load to be tried".to_owned();
        assert_eq!(
            answer,
            SearchOutcome::AtLeast {
                value: 3_000.0,
                why
            }
        );
        assert_eq!(tried.last(), Some(&(3_000.0, ClientPhase::Confirm)));
    }

    #[test]
    fn an_instrument_at_its_end_gives_a_lower_bound() {
        let (answer, _) = search(RANGE, |load| match load <= 900.0 {
            true => Trial::Held,
            false => Trial::Unmeasured("generator late".to_owned()),
        });
        let SearchOutcome::AtLeast { value, why } = answer else {
            panic!("{answer:?}");
        };
        assert_eq!(value, 800.0);
        assert_eq!(why, "1600 could not be measured: generator late");
        let (answer, tried) = search(RANGE, |_| Trial::Unmeasured("no broker".to_owned()));
        assert!(matches!(answer, SearchOutcome::Inconclusive { .. }));
        assert_eq!(tried.len(), 2, "once is chance");
    }

    #[test]
    fn one_failure_of_the_instrument_is_forgiven() {
        let mut count = 0;
        let (answer, _) = search(RANGE, |load| {
            count += 1;
            match count % 3 {
                0 => Trial::Unmeasured("late".to_owned()),
                _ => up_to(2_000.0)(load),
            }
        });
        assert!(matches!(answer, SearchOutcome::Found { .. }), "{answer:?}");
    }

    /// A limit that moves by a tenth from one try to the next: whatever comes out, it is no nonsense.
    #[test]
    fn a_moving_limit_gives_a_figure_inside_it_or_none() {
        let mut found = 0;
        for seed in 0..300_u64 {
            let mut state = seed;
            let (answer, tried) = search(RANGE, |load| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let unit = (state >> 11) as f64 / (1_u64 << 53) as f64;
                up_to(2_000.0 * (0.9 + 0.2 * unit))(load)
            });
            assert!(tried.len() <= STEPS_MAX as usize);
            match answer {
                SearchOutcome::Found { value, .. } => {
                    found += 1;
                    assert!((1_700.0..=2_200.0).contains(&value), "seed {seed}: {value}");
                }
                SearchOutcome::AtLeast { .. } => panic!("seed {seed}: {answer:?}"),
                SearchOutcome::Inconclusive { .. } => {}
            }
        }
        assert!(found > 200, "{found} of 300");
    }

    /// Coin tosses have no limit.
    #[test]
    fn chance_is_not_taken_for_a_limit() {
        let mut figures = Vec::new();
        for seed in 0..200_u64 {
            let mut state = seed ^ 0x5DEE_CE66;
            let (answer, _) = search(RANGE, |_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                match state >> 63 {
                    0 => Trial::Held,
                    _ => Trial::NotHeld("late".to_owned()),
                }
            });
            if let SearchOutcome::Found { value, not_held } = answer {
                assert!(not_held > value);
                figures.push(value);
            }
        }
        assert!(
            figures.len() < 150,
            "{} of 200 were given a figure",
            figures.len()
        );
    }
}
