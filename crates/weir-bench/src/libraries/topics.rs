//! Names of a run's topics.

use std::collections::BTreeSet;

use super::grid::LibraryCellSpec;
use super::plan::LibrariesPlan;
use super::profile::{DriverOperation, Profile};
use crate::BenchError;

/// Topic name template and its fixed values. All names are valid and different.
#[derive(Debug, Clone)]
pub(super) struct TopicNames {
    template: String,
    prefix: String,
    /// Id that distinguishes this run's topics from those of other runs.
    run: String,
}

impl TopicNames {
    /// Creates the names of the topics of `cells` and `drivers`, which must be valid and unique.
    pub(super) fn new<'a>(
        plan: &LibrariesPlan,
        run: &str,
        cells: impl Iterator<Item = &'a LibraryCellSpec>,
        drivers: &[String],
    ) -> Result<Self, BenchError> {
        let default = match plan.profile {
            Profile::Legacy => LEGACY,
            Profile::Fair | Profile::DefaultSettings => DEFAULT,
        };
        let names = Self {
            template: plan.topic_template.as_deref().unwrap_or(default).to_owned(),
            prefix: plan.topic_prefix.clone(),
            run: run.to_owned(),
        };
        let mut all = BTreeSet::new();
        for cell in cells {
            let repetitions = (0..cell.cell.repetitions)
                .flat_map(|repetition| drivers.iter().map(move |driver| (driver, repetition)));
            for (driver, repetition) in repetitions {
                let topic = names.topic(cell, driver, repetition);
                let problem = match topic.chars().find(|c| !is_legal(*c)) {
                    Some(wrong) => format!(
                        "topic name \"{topic}\" contains \"{wrong}\": use letters, digits, '.', \
                         '_' and '-', and {PLACEHOLDERS}"
                    ),
                    None if topic.is_empty() || topic.len() > NAME_MAX => format!(
                        "topic name \"{topic}\" has {} characters, allowed are 1 to {NAME_MAX}",
                        topic.len()
                    ),
                    None if all.contains(&topic) => format!(
                        "two topics would be named \"{topic}\": make the names unique in \
                         --topic-template with {PLACEHOLDERS}"
                    ),
                    None => {
                        all.insert(topic);
                        continue;
                    }
                };
                return Err(BenchError::Libraries(problem));
            }
        }
        Ok(names)
    }

    /// Returns the names with another run id of the same form.
    pub(super) fn of_run(mut self, run: String) -> Self {
        self.run = run;
        self
    }

    /// Returns the topic of a cell that all drivers read.
    pub(super) fn shared(&self, spec: &LibraryCellSpec) -> String {
        self.topic(spec, SHARED, 0)
    }

    pub(super) fn run(&self) -> &str {
        &self.run
    }

    /// Returns the topic of driver `name` in a repetition.
    pub(super) fn topic(&self, spec: &LibraryCellSpec, name: &str, repetition: u32) -> String {
        // The published comparison used other programs for round trips and copies.
        let program = match spec.operation() {
            DriverOperation::RoundTrip if self.template == LEGACY => "RoundTrip",
            DriverOperation::Copy if self.template == LEGACY => "Copy",
            _ => "",
        };
        let cell = &spec.cell;
        let values = [
            ("{prefix}", format!("{}{program}", self.prefix)),
            ("{run}", self.run.clone()),
            ("{cell}", format!("{}.{}", cell.operation, cell.mode)),
            ("{work}", cell.operation.clone()),
            ("{mode}", cell.mode.clone()),
            ("{name}", name.to_owned()),
            ("{packets}", cell.records.to_string()),
            ("{length}", cell.value_bytes.to_string()),
            ("{rate}", cell.rate_per_s.unwrap_or(0.0).to_string()),
            ("{repetition}", repetition.to_string()),
        ];
        let mut topic = self.template.clone();
        for (placeholder, value) in values {
            topic = topic.replace(placeholder, &value);
        }
        topic
    }
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// As published, plus the number of records, so that burst sizes have different names.
const LEGACY: &str = "{prefix}__{name}__{packets}__{length}__{repetition}";
const DEFAULT: &str = "{prefix}__{run}__{cell}__{name}__{packets}__{length}__{repetition}";
const PLACEHOLDERS: &str =
    "{prefix}, {run}, {cell}, {work}, {mode}, {name}, {packets}, {length}, {rate}, {repetition}";
const NAME_MAX: usize = 249;
/// Replaces the driver's name in topics that all drivers read.
const SHARED: &str = "all";

#[cfg(test)]
mod tests {
    use super::super::grid;
    use super::super::plan::LibrariesOverrides;
    use super::*;
    use crate::plan::Valid;

    fn plan(overrides: LibrariesOverrides) -> Valid<LibrariesPlan> {
        let plan = LibrariesPlan::built_in().unwrap();
        plan.with(overrides, "test").unwrap()
    }

    fn drivers() -> Vec<String> {
        ["java", "librdkafka"].map(str::to_owned).to_vec()
    }

    #[test]
    fn legacy_names_match_the_published_names() {
        let plan = plan(LibrariesOverrides {
            profile: Some(Profile::Legacy),
            ..LibrariesOverrides::default()
        });
        let cells = grid::cells(&plan).unwrap();
        let names = TopicNames::new(&plan, "run", cells[..1].iter(), &drivers()).unwrap();
        assert_eq!(
            names.topic(&cells[0], "java", 7),
            "testTopic__java__10__10__7"
        );
        let roundtrip = cells
            .iter()
            .find(|cell| cell.operation() == DriverOperation::RoundTrip);
        assert_eq!(
            names.topic(roundtrip.unwrap(), "java", 0),
            "testTopicRoundTrip__java__10000__10__0"
        );
    }

    #[test]
    fn topic_names_are_unique() {
        let plan = LibrariesPlan::built_in().unwrap();
        let cells = grid::cells(&plan).unwrap();
        let names = TopicNames::new(&plan, "run", cells.iter(), &drivers()).unwrap();
        let names = names.of_run("20261122T030000Z".to_owned());
        assert_eq!(
            names.topic(&cells[0], "franz-go", 0),
            "testTopic__20261122T030000Z__produce.warm__franz-go__10__10__0"
        );
    }

    #[test]
    fn invalid_templates_are_rejected() {
        let check = |template: &str| {
            let plan = plan(LibrariesOverrides {
                topic_template: Some(template.to_owned()),
                ..LibrariesOverrides::default()
            });
            let cells = grid::cells(&plan).unwrap();
            let names = TopicNames::new(&plan, "run", cells.iter(), &drivers());
            names.map_err(|error| error.to_string())
        };
        check("{run}-{cell}-{name}-{packets}-{length}-{rate}-{repetition}").unwrap();
        let repeated = check("{name}-{packets}-{length}-{repetition}").unwrap_err();
        assert!(repeated.contains("two topics would be"), "{repeated}");
        let illegal = check("{nam}-{cell}-{packets}-{length}-{repetition}").unwrap_err();
        assert!(illegal.contains("contains \"{\""), "{illegal}");
        let long = check(&"x".repeat(300)).unwrap_err();
        assert!(long.contains("300 characters"), "{long}");
    }
}
