//! The bars of this repository (`plans/bars.toml`): limits of the built-in plans, which the plan
//! files themselves do not contain, so that all of them are in one place.

use serde::Deserialize;

use super::{BuiltIn, PlanError};
use crate::experiment::plan_file::from_toml;

const FILE: &str = "bars.toml";
const TEXT: &str = include_str!("../../../../plans/bars.toml");
/// Keys of a bar that are not part of a limit.
const OWN_KEYS: [&str; 3] = ["id", "plan", "history"];

#[derive(Deserialize)]
struct BarFile {
    bars: Vec<toml::Table>,
}

impl BuiltIn {
    /// Returns the plan file with the plan's bars as limits.
    ///
    /// # Errors
    /// [`PlanError::Syntax`] if the file of the bars is not TOML.
    pub fn text_with_bars(&self) -> Result<String, PlanError> {
        let mut text = self.text.to_owned();
        let file: BarFile = from_toml(TEXT, FILE)?;
        for mut bar in file.bars {
            if bar.get("plan").and_then(toml::Value::as_str) != Some(self.name) {
                continue;
            }
            bar.retain(|key, _| !OWN_KEYS.contains(&key));
            // Only the limits of proxy overhead are about one side.
            let key = match bar.contains_key("side") {
                true => "limits",
                false => "thresholds",
            };
            text.push_str(&format!("\n[[{key}]]\n{bar}"));
        }
        Ok(text)
    }
}

/// Returns the minimum of the bar `id`.
///
/// # Panics
/// There is no such bar: a mistake in the program.
pub(crate) fn at_least(id: &str) -> f64 {
    let file: BarFile = from_toml(TEXT, FILE).expect("bars.toml is part of the program");
    let mut bars = file.bars.iter();
    let bar = bars.find(|bar| bar.get("id").and_then(toml::Value::as_str) == Some(id));
    let value = bar.and_then(|bar| bar.get("at_least")?.as_float());
    value.unwrap_or_else(|| panic!("bars.toml has no bar \"{id}\""))
}

#[cfg(test)]
mod tests {
    use super::super::{AnyPlan, BUILT_IN};
    use super::*;

    #[test]
    fn every_bar_of_a_plan_is_one_of_its_limits() {
        let file: BarFile = from_toml(TEXT, FILE).unwrap();
        for plan in BUILT_IN {
            let name = |bar: &&toml::Table| {
                bar.get("plan")
                    .is_some_and(|it| it.as_str() == Some(plan.name))
            };
            let expected = file.bars.iter().filter(name).count();
            let found = match AnyPlan::built_in(plan.name).unwrap().unwrap() {
                AnyPlan::Clients(plan) => plan.thresholds.len(),
                AnyPlan::Overhead(plan) => plan.limits.len(),
                AnyPlan::Sweep(_) | AnyPlan::Libraries(_) => 0,
            };
            assert_eq!(found, expected, "{}", plan.name);
            assert!(
                !plan.text.contains("\nat_most"),
                "{}: belongs in {FILE}",
                plan.name
            );
        }
        let plans = file.bars.iter().filter_map(|bar| bar.get("plan")?.as_str());
        for name in plans {
            assert!(BUILT_IN.iter().any(|plan| plan.name == name), "{name}");
        }
        assert_eq!(at_least("libraries-aa-share"), 0.9);
    }
}
