//! Options of `weir bench run` by kind of plan.
//!
//! An option that the plan cannot use is an error. Ignoring it would measure something else than
//! requested.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};

use crate::exit::{Exit, Failure};

/// Kinds of plans.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PlanKind {
    /// Plan over numbers of clients, or over a grid of clients and rates.
    Clients,
    /// Sweep over record sizes and rates of a broker.
    Sweep,
    /// Comparison of proxies.
    Overhead,
    /// Comparison of client libraries.
    Libraries,
}

use PlanKind::{Clients, Libraries, Overhead, Sweep};

/// All options by field name, with the kinds of plans that use them.
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
    ("aa_test", &[Clients, Libraries]),
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
    ("target_rates", &[Sweep]),
    ("fetch_sizes", &[Sweep]),
    ("records", &[Sweep, Overhead]),
    ("kafka_tools", &[Sweep, Overhead]),
    ("record_size", &[Overhead]),
    ("kafka_properties", &[Overhead]),
    ("subjects", &[Overhead]),
    ("external_proxies", &[Overhead]),
    ("broker_port", &[Overhead]),
    ("libraries", &[Libraries]),
    ("drivers", &[Libraries]),
    ("profile", &[Libraries]),
    ("cells", &[Libraries]),
    ("value_sizes", &[Libraries]),
    ("burst_records", &[Libraries]),
    ("large_cell_repetitions", &[Libraries]),
    ("acks", &[Libraries]),
    ("verify", &[Libraries]),
    ("resume", &[Libraries]),
    ("disk_cap", &[Libraries]),
    ("command_timeout", &[Libraries]),
    ("time_limit", &[Libraries]),
    ("topic_prefix", &[Libraries]),
    ("topic_template", &[Libraries]),
];

const ALL: &[PlanKind] = &[Clients, Sweep, Overhead, Libraries];

/// Field names of the options given on the command line. Adds no options itself.
///
/// Must be the first field of the arguments, because the other fields remove their values from the
/// matches.
#[derive(Debug, Clone, Default)]
pub(crate) struct GivenOptions(Vec<String>);

impl Args for GivenOptions {
    fn augment_args(command: Command) -> Command {
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        command
    }
}

impl FromArgMatches for GivenOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_given = |id: &&clap::Id| {
            let source = matches.value_source(id.as_str());
            source == Some(ValueSource::CommandLine)
        };
        let given = matches.ids().filter(is_given).map(ToString::to_string);
        // Argument groups have ids too.
        let is_option = |id: &String| OPTIONS.iter().any(|(name, _)| name == id);
        Ok(Self(given.filter(is_option).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl GivenOptions {
    /// Returns a usage failure if a plan of this kind does not support one of the options.
    pub(crate) fn check<A: Args>(&self, plan: &str, kind: PlanKind) -> Result<(), Failure> {
        let unsupported = self.0.iter().find(|id| !is_supported(kind, id));
        let Some(id) = unsupported else { return Ok(()) };
        let flags = |is_included: &dyn Fn(&str) -> bool| -> Vec<String> {
            let command = A::augment_args(Command::new("run"));
            let options = command.get_arguments();
            let options = options.filter(|option| is_included(option.get_id().as_str()));
            let flags = options.filter_map(|option| option.get_long());
            flags.map(|flag| format!("--{flag}")).collect()
        };
        let text = format!(
            "{}: plan {plan} does not support this option; supported are {}",
            flags(&|other| other == id.as_str()).join(""),
            flags(&|other| is_supported(kind, other)).join(", ")
        );
        Err(Failure::new(Exit::Usage, anyhow::anyhow!(text)))
    }
}

fn is_supported(kind: PlanKind, id: &str) -> bool {
    let found = OPTIONS.iter().find(|(name, _)| *name == id);
    found.is_some_and(|(_, kinds)| kinds.contains(&kind))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use clap::Parser;

    use super::*;
    use crate::cmd::bench_run_args::BenchRunArgs;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: BenchRunArgs,
    }

    /// Returns a valid value for every option, and the options that it requires.
    fn values() -> BTreeMap<&'static str, &'static [&'static str]> {
        let counts: &[&str] = &["5"];
        let mut values: BTreeMap<&str, &[&str]> =
            OPTIONS.iter().map(|(id, _)| (*id, counts)).collect();
        for flag in ["quick", "json", "aa_test", "kafka_tools", "verify"] {
            values.insert(flag, &[]);
        }
        values.insert("fail_on", &["worse"]);
        values.insert("architectures", &["gateway"]);
        values.insert("subjects", &["direct"]);
        values.insert("profile", &["fair"]);
        values.insert("topic", &["t", "--bootstrap", "localhost:1"]);
        for option in ["kafka_properties", "external_proxies", "drivers"] {
            values.insert(option, &["a=localhost:1"]);
        }
        for option in ["warm_up", "hold", "drain", "command_timeout", "time_limit"] {
            values.insert(option, &["5s"]);
        }
        values
    }

    #[test]
    fn options_are_accepted_only_by_their_plans() {
        let command = BenchRunArgs::augment_args(Command::new("run"));
        let values = values();
        for option in command.get_arguments() {
            let id = option.get_id().as_str();
            let entry = OPTIONS.iter().find(|(name, _)| *name == id);
            let (_, kinds) = entry.unwrap_or_else(|| panic!("option {id} is missing in OPTIONS"));
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
                            text.contains(&format!("{flag}: plan p does not support this option")),
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
                "OPTIONS contains {id}, which is not an option"
            );
        }
    }

    #[test]
    fn default_values_do_not_count_as_given() {
        let cli = Cli::try_parse_from(["run", "keyed"]).unwrap();
        for kind in ALL {
            assert!(cli.args.given.check::<BenchRunArgs>("keyed", *kind).is_ok());
        }
    }
}
