//! Topics of a run: their names, and making and deleting them cell by cell.

use std::collections::BTreeSet;

use super::grid::{DriverOperation, LibraryCellSpec};
use super::plan::LibrariesPlan;
use super::profile::Profile;

/// How the run's topics are named.
#[derive(Debug, Clone)]
pub(super) struct Names {
    template: String,
    prefix: String,
    /// Tells this run from others.
    run: String,
}

impl Names {
    /// `run` tells this run's topics from those of others.
    pub(super) fn new(plan: &LibrariesPlan, run: &str) -> Self {
        let template = plan.topic_template.as_deref();
        let own = match plan.profile {
            Profile::Legacy => LEGACY,
            Profile::Fair | Profile::DefaultSettings => OWN,
        };
        Self {
            template: template.unwrap_or(own).to_owned(),
            prefix: plan.topic_prefix.clone(),
            run: run.to_owned(),
        }
    }

    /// The topic that driver `name` has in a repetition.
    pub(super) fn topic(&self, cell: &LibraryCellSpec, name: &str, repetition: u32) -> String {
        // Bursts there and back were another program's.
        let prefix = match cell.work() {
            DriverOperation::RoundTrip if self.template == LEGACY => {
                format!("{}RoundTrip", self.prefix)
            }
            _ => self.prefix.clone(),
        };
        let mode = cell.mode.name();
        let work = cell.work().name();
        let rate = cell.rate_per_s.unwrap_or(0).to_string();
        let values = [
            ("{prefix}", prefix),
            ("{run}", self.run.clone()),
            ("{cell}", format!("{work}.{mode}")),
            ("{work}", work.to_owned()),
            ("{mode}", mode.to_owned()),
            ("{name}", name.to_owned()),
            ("{packets}", cell.records.to_string()),
            ("{length}", cell.value_bytes.to_string()),
            ("{rate}", rate),
            ("{repetition}", repetition.to_string()),
        ];
        let mut topic = self.template.clone();
        for (place, value) in values {
            topic = topic.replace(place, &value);
        }
        topic
    }

    /// Whether every topic of the run has a name that Kafka takes, and none has that of another.
    ///
    /// # Errors
    /// What is wrong with the template, and the remedy.
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
                            "topic name \"{topic}\" has \"{wrong}\" in it: use letters, digits, '.', '_' and '-', \
                             and {PLACES}"
                        ));
                    }
                    if topic.is_empty() || topic.len() > NAME_MAX {
                        return Err(format!(
                            "topic name \"{topic}\" has {} characters: 1 to {NAME_MAX} are allowed",
                            topic.len()
                        ));
                    }
                    if !all.insert(topic.clone()) {
                        return Err(format!(
                            "two topics would be \"{topic}\": tell them apart in --topic-template with {PLACES}"
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

/// As published, with the number of records so that two burst sizes do not meet.
const LEGACY: &str = "{prefix}__{name}__{packets}__{length}__{repetition}";
const OWN: &str = "{prefix}__{run}__{cell}__{name}__{packets}__{length}__{repetition}";
const PLACES: &str =
    "{prefix}, {run}, {cell}, {work}, {mode}, {name}, {packets}, {length}, {rate}, {repetition}";
const NAME_MAX: usize = 249;

#[cfg(test)]
mod tests {
    use super::super::grid;
    use super::super::plan::LibrariesOverrides;
    use super::*;

    fn plan(overrides: LibrariesOverrides) -> LibrariesPlan {
        let plan = LibrariesPlan::built_in().unwrap();
        plan.with(&overrides, "test").unwrap()
    }

    fn drivers() -> Vec<String> {
        ["java", "librdkafka"].map(str::to_owned).to_vec()
    }

    #[test]
    fn names_are_as_published_with_the_number_of_records() {
        let plan = plan(LibrariesOverrides {
            profile: Some(Profile::Legacy),
            ..LibrariesOverrides::default()
        });
        let names = Names::new(&plan, "run");
        let cells = grid::cells(&plan).unwrap();
        assert_eq!(
            names.topic(&cells[0], "java", 7),
            "testTopic__java__10__10__7"
        );
        let back = cells
            .iter()
            .find(|cell| cell.work() == DriverOperation::RoundTrip);
        assert_eq!(
            names.topic(back.unwrap(), "java", 0),
            "testTopicRoundTrip__java__10000__10__0"
        );
    }

    #[test]
    fn all_topics_of_a_run_differ() {
        let plan = LibrariesPlan::built_in().unwrap();
        let cells = grid::cells(&plan).unwrap();
        let names = Names::new(&plan, "20261122T030000Z");
        names.check(cells.iter(), &drivers()).unwrap();
        assert_eq!(
            names.topic(&cells[0], "franz-go", 0),
            "testTopic__20261122T030000Z__produce.warm__franz-go__10__10__0"
        );
    }

    #[test]
    fn templates_that_do_not_work_are_named() {
        let check = |template: &str| {
            let plan = plan(LibrariesOverrides {
                topic_template: Some(template.to_owned()),
                ..LibrariesOverrides::default()
            });
            let cells = grid::cells(&plan).unwrap();
            Names::new(&plan, "run").check(cells.iter(), &drivers())
        };
        check("{run}-{cell}-{name}-{packets}-{length}-{rate}-{repetition}").unwrap();
        let twice = check("{name}-{packets}-{length}-{repetition}").unwrap_err();
        assert!(twice.contains("two topics would be"), "{twice}");
        let odd = check("{nam}-{cell}-{packets}-{length}-{repetition}").unwrap_err();
        assert!(odd.contains("has \"{\" in it"), "{odd}");
        let long = check(&"x".repeat(300)).unwrap_err();
        assert!(long.contains("300 characters"), "{long}");
    }
}
