//! What makes no sense in a plan, whatever it is for.

use super::read::{RuleViolation, settle};
use super::{Plan, PlanError};

impl Plan {
    pub(super) fn check(&self, file: &str) -> Result<(), PlanError> {
        let broken = self.load_fault().or_else(|| match &self.sweep {
            Some(sweep) => sweep.fault(),
            None => self.cells_fault(),
        });
        settle(broken, file)
    }

    /// Architectures, clients and rates.
    fn cells_fault(&self) -> Option<RuleViolation> {
        let first_level = self.levels.iter().min().copied();
        let none = || "[]".to_owned();
        let marked = self.workload.marked_per_s;
        let rates = self.rates_per_s();
        let wrong_rate = rates.iter().find(|rate| !is_rate(**rate));
        let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
        let names: Vec<&str> = self.variants.iter().map(|it| it.name.as_str()).collect();
        let twice = names
            .iter()
            .enumerate()
            .find(|(at, name)| names[..*at].contains(name));
        if let Some((_, name)) = twice {
            return Some((
                "variants.name",
                (*name).to_owned(),
                "give each a name of its own",
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
                "give at least one number",
            ),
            (
                first_level == Some(0),
                "levels",
                "0".to_owned(),
                "a level needs a client",
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
                "give less than the least rate, or 0 for none",
            ),
        ];
        first_broken(rules)
    }

    /// What every plan has.
    fn load_fault(&self) -> Option<RuleViolation> {
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
                "nothing would be measured",
            ),
            (workload.producers == 0, "workload.producers", zero(), ONE),
            (workload.partitions == 0, "workload.partitions", zero(), ONE),
            (workload.keys == 0, "workload.keys", zero(), ONE),
        ];
        first_broken(rules)
    }
}

fn first_broken(
    rules: impl IntoIterator<Item = (bool, &'static str, String, &'static str)>,
) -> Option<RuleViolation> {
    let mut broken = rules.into_iter().filter(|(broken, ..)| *broken);
    broken
        .next()
        .map(|(_, key, value, remedy)| (key, value, remedy))
}

fn is_rate(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

const POSITIVE: &str = "give a number above 0";
const ONE: &str = "give at least 1";
