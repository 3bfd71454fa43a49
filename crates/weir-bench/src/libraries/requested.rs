//! Drivers that a plan or a command names.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use weir_drivers::{BUILT_IN, BUNDLED_DRIVERS, DriverError, DriverProgram, known};

use super::plan::LibrariesPlan;
use crate::{BenchError, Observer};

/// Requested driver.
#[derive(Debug, Clone)]
pub(super) enum DriverRequest {
    /// Name of a driver whose source is part of this program.
    Library(String),
    /// Driver supplied by the user.
    Given(DriverProgram),
}

impl DriverRequest {
    /// Parses a driver `NAME=COMMAND`, or the name of a library.
    pub(super) fn parse(text: &str) -> Result<Self, BenchError> {
        match text.contains('=') {
            true => DriverProgram::given(text)
                .map(Self::Given)
                .map_err(|error| BenchError::Libraries(error.to_string())),
            false if is_library(text) => Ok(Self::Library(text.to_owned())),
            false => Err(BenchError::Libraries(format!(
                "unknown driver \"{text}\": use {}, or NAME=COMMAND for your own",
                library_names()
            ))),
        }
    }

    /// Builds the driver if needed; a failure is reported.
    pub(super) fn build(
        self,
        exe: &Path,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<DriverProgram, DriverError> {
        match self {
            Self::Given(program) => Ok(program),
            Self::Library(name) if name == BUILT_IN => Ok(DriverProgram::built_in(exe)),
            Self::Library(name) => {
                DriverProgram::known(&name, &mut |text| observer.note(text), stop)
            }
        }
    }
}

/// Driver of a plan.
#[derive(Debug, Clone)]
pub(super) struct PlannedDriver {
    /// Name in the run.
    pub(super) name: String,
    pub(super) request: DriverRequest,
    /// `true` if it may be missing, because the user did not name it.
    pub(super) is_optional: bool,
}

/// Returns the drivers of a plan, with unique names.
pub(super) fn requested_drivers(plan: &LibrariesPlan) -> Result<Vec<PlannedDriver>, BenchError> {
    let mut all: Vec<PlannedDriver> = Vec::new();
    let library = |name: &str| PlannedDriver {
        name: name.to_owned(),
        request: DriverRequest::Library(name.to_owned()),
        is_optional: plan.is_default_choice && !plan.aa_test,
    };
    for name in &plan.libraries {
        if name == "all" {
            let tested = BUNDLED_DRIVERS.iter().filter(|known| known.is_tested);
            let first = all.len();
            all.extend(tested.map(|known| library(known.name)));
            all.insert(first + 1, library(BUILT_IN));
        } else if is_library(name) {
            all.push(library(name));
        } else {
            return Err(BenchError::Libraries(format!(
                "unknown library \"{name}\", expected {} or all; use --driver NAME=COMMAND for \
                 your own driver",
                library_names()
            )));
        }
    }
    for text in &plan.drivers {
        let given = DriverProgram::given(text);
        let given = given.map_err(|error| BenchError::Libraries(error.to_string()))?;
        all.push(PlannedDriver {
            name: given.name.clone(),
            request: DriverRequest::Given(given),
            is_optional: false,
        });
    }
    if plan.aa_test {
        // Invariant: the plan names at least one driver.
        let first = all.swap_remove(0);
        let sides = ["a", "b"].map(|side| PlannedDriver {
            name: format!("{}-{side}", first.name),
            ..first.clone()
        });
        all = sides.into();
    }
    for (at, PlannedDriver { name, .. }) in all.iter().enumerate() {
        if name == HELPER || all[..at].iter().any(|other| other.name == *name) {
            return Err(BenchError::Libraries(format!(
                "driver name \"{name}\" is used twice: give every driver a unique name"
            )));
        }
    }
    Ok(all)
}

fn is_library(name: &str) -> bool {
    name == BUILT_IN || known(name).is_some()
}

fn library_names() -> String {
    let names = BUNDLED_DRIVERS.iter().map(|known| known.name);
    [BUILT_IN]
        .into_iter()
        .chain(names)
        .collect::<Vec<_>>()
        .join(", ")
}

/// Name of the internal driver that is not measured; also of its files.
pub(super) const HELPER: &str = "helper";

#[cfg(test)]
mod tests {
    use super::super::plan::LibrariesOverrides;
    use super::*;

    fn names(overrides: LibrariesOverrides) -> Result<Vec<String>, String> {
        let plan = LibrariesPlan::built_in().unwrap();
        let plan = plan.with(overrides, "test").unwrap();
        let all = requested_drivers(&plan).map_err(|error| error.to_string())?;
        Ok(all.into_iter().map(|driver| driver.name).collect())
    }

    fn libraries(names: &[&str]) -> LibrariesOverrides {
        LibrariesOverrides {
            libraries: Some(names.iter().map(|it| (*it).to_owned()).collect()),
            ..LibrariesOverrides::default()
        }
    }

    #[test]
    fn drivers_are_found_by_name_in_order() {
        assert_eq!(
            names(LibrariesOverrides::default()).unwrap(),
            ["java", "librdkafka", "franz-go"]
        );
        let all = names(libraries(&["all"])).unwrap();
        assert_eq!(all[..3], ["java", "librdkafka", "franz-go"]);
        assert!(all.iter().any(|name| name == "kafkajs"));
        assert!(!all.iter().any(|name| name.starts_with("dotnet")));
        let with_own = LibrariesOverrides {
            drivers: Some(vec!["mine=./driver".to_owned()]),
            ..libraries(&["librdkafka"])
        };
        assert_eq!(names(with_own).unwrap(), ["librdkafka", "mine"]);
    }

    #[test]
    fn only_unnamed_libraries_may_be_missing() {
        let optional = |overrides: LibrariesOverrides| {
            let plan = LibrariesPlan::built_in().unwrap();
            let plan = plan.with(overrides, "test").unwrap();
            let all = requested_drivers(&plan).unwrap().into_iter();
            let optional = all.filter(|driver| driver.is_optional);
            optional.map(|driver| driver.name).collect::<Vec<_>>()
        };
        let defaults = ["java", "librdkafka", "franz-go"];
        let with_own = LibrariesOverrides {
            drivers: Some(vec!["mine=./driver".to_owned()]),
            ..LibrariesOverrides::default()
        };
        assert_eq!(optional(with_own), defaults);
        assert!(optional(libraries(&defaults)).is_empty());
        let aa_test = LibrariesOverrides {
            aa_test: Some(true),
            ..LibrariesOverrides::default()
        };
        assert!(optional(aa_test).is_empty());
        let plan = LibrariesPlan::built_in().unwrap();
        assert!(plan.quick("quick").unwrap().is_default_choice);
    }

    #[test]
    fn driver_is_a_library_or_a_command() {
        let parse = |text| DriverRequest::parse(text).map_err(|error| error.to_string());
        assert!(matches!(parse("java"), Ok(DriverRequest::Library(_))));
        assert!(matches!(parse("librdkafka"), Ok(DriverRequest::Library(_))));
        assert!(matches!(
            parse("mine=./driver"),
            Ok(DriverRequest::Given(_))
        ));
        let unknown = parse("sarama").unwrap_err();
        assert!(unknown.contains("use librdkafka, java, "), "{unknown}");
        assert!(parse("=x").unwrap_err().contains("--driver"));
    }

    #[test]
    fn aa_test_has_first_driver_twice() {
        let aa_test = LibrariesOverrides {
            aa_test: Some(true),
            ..libraries(&["librdkafka", "java"])
        };
        assert_eq!(names(aa_test).unwrap(), ["librdkafka-a", "librdkafka-b"]);
    }

    #[test]
    fn invalid_driver_names_are_rejected_with_remedy() {
        let unknown = names(libraries(&["sarama"])).unwrap_err();
        assert!(
            unknown.contains("sarama") && unknown.contains("--driver NAME=COMMAND"),
            "{unknown}"
        );
        let repeated = names(libraries(&["java", "java"])).unwrap_err();
        assert!(repeated.contains("\"java\" is used twice"), "{repeated}");
        let wrong = LibrariesOverrides {
            drivers: Some(vec!["mine".to_owned()]),
            ..libraries(&["librdkafka"])
        };
        assert!(names(wrong).unwrap_err().contains("NAME=COMMAND"));
    }
}
