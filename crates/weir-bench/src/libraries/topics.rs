//! Names of a run's topics.

use std::collections::BTreeSet;

use super::grid::LibraryCellSpec;
use super::operation::DriverOperation;
use super::plan::LibrariesPlan;
use super::profile::Profile;

/// Topic name template and its fixed values.
#[derive(Debug, Clone)]
pub(super) struct TopicNames {
    template: String,
    prefix: String,
    /// Id that distinguishes this run's topics from those of other runs.
    run: String,
}

impl TopicNames {
    /// Creates the names; `run` distinguishes this run's topics from those of other runs.
    pub(super) fn new(plan: &LibrariesPlan, run: &str) -> Self {
        let template = plan.topic_template.as_deref();
        let default = match plan.profile {
            Profile::Legacy => LEGACY,
            Profile::Fair | Profile::DefaultSettings => DEFAULT,
        };
        Self {
            template: template.unwrap_or(default).to_owned(),
            prefix: plan.topic_prefix.clone(),
            run: run.to_owned(),
        }
    }

    /// Returns the topic of driver `name` in a repetition.
    pub(super) fn topic(&self, cell: &LibraryCellSpec, name: &str, repetition: u32) -> String {
        // The published comparison used another program for round trips.
        let prefix = match cell.operation() {
            DriverOperation::RoundTrip if self.template == LEGACY => {
                format!("{}RoundTrip", self.prefix)
            }
            _ => self.prefix.clone(),
        };
        let mode = cell.mode.name();
        let operation = cell.operation().name();
        let rate = cell.rate_per_s.unwrap_or(0).to_string();
        let values = [
            ("{prefix}", prefix),
            ("{run}", self.run.clone()),
            ("{cell}", format!("{operation}.{mode}")),
            ("{work}", operation.to_owned()),
            ("{mode}", mode.to_owned()),
            ("{name}", name.to_owned()),
            ("{packets}", cell.records.to_string()),
            ("{length}", cell.value_bytes.to_string()),
            ("{rate}", rate),
            ("{repetition}", repetition.to_string()),
        ];
        let mut topic = self.template.clone();
        for (placeholder, value) in values {
            topic = topic.replace(placeholder, &value);
        }
        topic
    }

    /// Checks that every topic name of the run is valid in Kafka and unique.
    ///
    /// # Errors
    /// A message that describes the error in the template and its remedy.
    pub(super) fn check<'a>(
        &self,
        cells: impl Iterator<Item = &'a LibraryCellSpec>,
        drivers: &[String],
    ) -> Result<(), String> {
        let mut all = BTreeSet::new();
        for cell in cells {
            for name in drivers {
                for repetition in 0..cell.repetitions {
                    let topic = self.topic(cell, name, repetition);
                    if let Some(wrong) = topic.chars().find(|c| !is_legal(*c)) {
                        return Err(format!(
                            "topic name \"{topic}\" contains \"{wrong}\": use letters, digits, \
                             '.', '_' and '-', and {PLACEHOLDERS}"
                        ));
                    }
                    if topic.is_empty() || topic.len() > NAME_MAX {
                        return Err(format!(
                            "topic name \"{topic}\" has {} characters, allowed are 1 to {NAME_MAX}",
                            topic.len()
                        ));
                    }
                    if !all.insert(topic.clone()) {
                        return Err(format!(
                            "two topics would be named \"{topic}\": make the names unique in \
                             --topic-template with {PLACEHOLDERS}"
                        ));
                    }
                }
            }
        }
        Ok(())
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
        let names = TopicNames::new(&plan, "run");
        let cells = grid::cells(&plan).unwrap();
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
        let names = TopicNames::new(&plan, "20261122T030000Z");
        names.check(cells.iter(), &drivers()).unwrap();
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
            TopicNames::new(&plan, "run").check(cells.iter(), &drivers())
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
