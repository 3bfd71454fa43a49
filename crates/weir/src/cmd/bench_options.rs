//! Which options of `weir bench run` each kind of plan has: one that the plan cannot use is an error,
//! since a run without it would answer another question.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::exit::{Exit, Failure};

/// Kinds of plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanKind {
    /// Clients of architectures or variants, by number or over a grid.
    Clients,
    /// Record sizes and rates against a broker.
    Sweep,
    /// Ways to a broker through proxies.
    Overhead,
    /// Client libraries.
    Libraries,
}

use PlanKind::{Clients, Libraries, Overhead, Sweep};

/// Every option by its field in the arguments, with the kinds that use it.
const OPTIONS: &[(&str, &[PlanKind])] = &[
    ("plan", ALL),
    ("quick", ALL),
    ("out", ALL),
    ("json", ALL),
    ("bootstrap", ALL),
    ("repetitions", ALL),
    ("baseline", &[Clients, Sweep]),
    ("aa", &[Clients, Sweep]),
    ("margin", &[Clients, Sweep]),
    ("metrics", &[Clients, Sweep]),
    ("fail_on", &[Clients, Sweep]),
    ("twice", &[Clients]),
    ("levels", &[Clients]),
    ("architectures", &[Clients]),
    ("rate", &[Clients]),
    ("rates", &[Clients, Overhead, Libraries]),
    ("key", &[Clients]),
    ("topic", &[Clients, Sweep]),
    ("warm_up", &[Clients, Sweep, Overhead]),
    ("hold", ALL),
    ("drain", &[Clients, Sweep]),
    ("record_sizes", &[Sweep]),
    ("targets", &[Sweep]),
    ("fetch_sizes", &[Sweep]),
    ("messages", &[Sweep, Overhead]),
    ("kafka_tools", &[Sweep, Overhead]),
    ("record_size", &[Overhead]),
    ("producer_properties", &[Overhead]),
    ("subjects", &[Overhead]),
    ("foreign", &[Overhead]),
    ("broker_port", &[Overhead]),
    ("libraries", &[Libraries]),
    ("drivers", &[Libraries]),
    ("profile", &[Libraries]),
    ("cells", &[Libraries]),
    ("payloads", &[Libraries]),
    ("bursts", &[Libraries]),
    ("big_repetitions", &[Libraries]),
    ("acks", &[Libraries]),
    ("verify", &[Libraries]),
    ("null_test", &[Libraries]),
    ("resume", &[Libraries]),
    ("disk_cap", &[Libraries]),
    ("command_timeout", &[Libraries]),
    ("time_limit", &[Libraries]),
    ("topic_prefix", &[Libraries]),
    ("topic_template", &[Libraries]),
];

const ALL: &[PlanKind] = &[Clients, Sweep, Overhead, Libraries];

/// The options that the command line gives, by field; adds none of its own.
///
/// Must come before the fields that it observes: these take their values out of the matches.
#[derive(Debug, Clone, Default)]
pub(crate) struct Given(Vec<String>);

impl Args for Given {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for Given {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |id: &&clap::Id| {
            let source = matches.value_source(id.as_str());
            source == Some(ValueSource::CommandLine)
        };
        let given = matches.ids().filter(is_given).map(ToString::to_string);
        // Groups have identifiers too.
        let is_option = |id: &String| OPTIONS.iter().any(|(name, _)| name == id);
        Ok(Self(given.filter(is_option).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Given {
    /// Fails with exit code 2 if an option means nothing to a plan of this kind.
    pub(crate) fn check<A: Args>(&self, plan: &str, kind: PlanKind) -> Result<(), Failure> {
        let unknown = self.0.iter().find(|id| !knows(kind, id));
        let Some(id) = unknown else { return Ok(()) };
        let flags = |wanted: &dyn Fn(&str) -> bool| -> Vec<String> {
            let command = A::augment_args(Command::new("run"));
            let options = command.get_arguments();
            let options = options.filter(|option| wanted(option.get_id().as_str()));
            let flags = options.filter_map(|option| option.get_long());
            flags.map(|flag| format!("--{flag}")).collect()
        };
        let text = format!(
            "{}: plan {plan} has no such option, it has {}",
            flags(&|other| other == id.as_str()).join(""),
            flags(&|other| knows(kind, other)).join(", ")
        );
        Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
    }
}

fn knows(kind: PlanKind, id: &str) -> bool {
    let found = OPTIONS.iter().find(|(name, _)| *name == id);
    found.is_some_and(|(_, kinds)| kinds.contains(&kind))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;

    use super::*;
    use crate::cmd::bench::BenchRunArgs;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: BenchRunArgs,
    }

    /// A valid value for every option, and the options that it requires.
    fn values() -> BTreeMap<&'static str, &'static [&'static str]> {
        let counts: &[&str] = &["5"];
        let mut values: BTreeMap<&str, &[&str]> =
            OPTIONS.iter().map(|(id, _)| (*id, counts)).collect();
        for flag in [
            "quick",
            "json",
            "twice",
            "kafka_tools",
            "verify",
            "null_test",
        ] {
            values.insert(flag, &[]);
        }
        values.insert("fail_on", &["worse"]);
        values.insert("architectures", &["gateway"]);
        values.insert("subjects", &["direct"]);
        values.insert("profile", &["fair"]);
        values.insert("topic", &["t", "--bootstrap", "localhost:1"]);
        for option in ["producer_properties", "foreign", "drivers"] {
            values.insert(option, &["a=localhost:1"]);
        }
        for option in ["warm_up", "hold", "drain", "command_timeout", "time_limit"] {
            values.insert(option, &["5s"]);
        }
        values
    }

    #[test]
    fn every_option_is_accepted_only_by_its_plans() {
        let command = BenchRunArgs::augment_args(Command::new("run"));
        let values = values();
        for option in command.get_arguments() {
            let id = option.get_id().as_str();
            let entry = OPTIONS.iter().find(|(name, _)| *name == id);
            let (_, kinds) = entry.unwrap_or_else(|| panic!("option {id} is in no row of OPTIONS"));
            let Some(flag) = option.get_long() else {
                continue;
            };
            let flag = format!("--{flag}");
            let given = ["run", "plan", &flag]
                .into_iter()
                .chain(values[id].iter().copied());
            let cli = Cli::try_parse_from(given).unwrap_or_else(|error| panic!("{flag}: {error}"));
            for kind in ALL {
                let checked = cli.args.given.check::<BenchRunArgs>("p", *kind);
                match checked {
                    Ok(()) => assert!(kinds.contains(kind), "{flag} was accepted by {kind:?}"),
                    Err(failure) => {
                        assert!(!kinds.contains(kind), "{flag} was rejected by {kind:?}");
                        let text = format!("{failure:?}");
                        assert!(
                            text.contains(&format!("{flag}: plan p has no such option")),
                            "{text}"
                        );
                        assert!(text.contains("--repetitions"), "{text}");
                    }
                }
            }
        }
        for (id, _) in OPTIONS {
            let mut options = command.get_arguments();
            assert!(
                options.any(|option| option.get_id() == *id),
                "{id} is no option"
            );
        }
    }

    #[test]
    fn defaults_are_not_given() {
        let cli = Cli::try_parse_from(["run", "keyed"]).unwrap();
        for kind in ALL {
            assert!(cli.args.given.check::<BenchRunArgs>("keyed", *kind).is_ok());
        }
    }
}
