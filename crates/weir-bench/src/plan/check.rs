//! Validation rules that hold for all plans.

use super::read::{RuleViolation, reject_violation};
use super::{Plan, PlanError};

impl Plan {
    pub(super) fn check(&self, file: &str) -> Result<(), PlanError> {
        let violation = self.load_violation().or_else(|| match &self.sweep {
            Some(sweep) => sweep.violation(),
            None => self.cells_violation(),
        });
        reject_violation(violation, file)
    }

    /// Returns the first violation in architectures, variants, levels and rates.
    fn cells_violation(&self) -> Option<RuleViolation> {
        let first_level = self.levels.iter().min().copied();
        let none = || "[]".to_owned();
        let marked = self.workload.marked_per_s;
        let rates = self.rates_per_s();
        let wrong_rate = rates.iter().find(|rate| !is_rate(**rate));
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let names: Vec<&str> = self.variants.iter().map(|it| it.name.as_str()).collect();
        let repeated = names
            .iter()
            .enumerate()
            .find(|(at, name)| names[..*at].contains(name));
        if let Some((_, name)) = repeated {
            return Some((
                "variants.name",
                (*name).to_owned(),
                "give every variant a unique name",
            ));
        }
        let rules = [
            (
                self.architectures.is_empty(),
                "architectures",
                none(),
                "name at least one",
            ),
            (
                first_level.is_none(),
                "levels",
                none(),
                "list at least one number",
            ),
            (
                first_level == Some(0),
                "levels",
                "0".to_owned(),
                "use at least 1 client",
            ),
            (
                wrong_rate.is_some(),
                if self.is_grid() {
                    "rates_per_s"
                } else {
                    "workload.rate_per_s"
                },
                wrong_rate.copied().unwrap_or_default().to_string(),
                POSITIVE,
            ),
            (
                !(marked == 0.0 || is_rate(marked) && marked < least),
                "workload.marked_per_s",
                marked.to_string(),
                "use less than the lowest rate, or 0 for none",
            ),
        ];
        first_violation(rules)
    }

    /// Returns the first violation in the values that every plan has.
    fn load_violation(&self) -> Option<RuleViolation> {
        let zero = || "0".to_owned();
        let workload = &self.workload;
        let rules = [
            (self.repetitions == 0, "repetitions", zero(), ONE),
            (
                !is_rate(self.ramp_per_s),
                "ramp_per_s",
                self.ramp_per_s.to_string(),
                POSITIVE,
            ),
            (
                self.hold.is_zero(),
                "hold",
                "0s".to_owned(),
                "use a duration above 0",
            ),
            (workload.producers == 0, "workload.producers", zero(), ONE),
            (workload.partitions == 0, "workload.partitions", zero(), ONE),
            (workload.keys == 0, "workload.keys", zero(), ONE),
        ];
        first_violation(rules)
    }
}

fn first_violation(
    rules: impl IntoIterator<Item = (bool, &'static str, String, &'static str)>,
) -> Option<RuleViolation> {
    let mut violations = rules.into_iter().filter(|(is_violated, ..)| *is_violated);
    violations
        .next()
        .map(|(_, key, value, remedy)| (key, value, remedy))
}

fn is_rate(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

const POSITIVE: &str = "use a number above 0";
const ONE: &str = "use at least 1";
