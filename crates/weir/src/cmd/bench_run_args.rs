//! Arguments of `weir bench run`: one type per kind of plan.
//!
//! The command line accepts the options of all kinds, because the kind is known only after the plan
//! has been read. [`RunArgs::of`] then parses them as the type of that kind. An option that this
//! type does not have is an error: ignoring it would measure something else than requested.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use weir_bench::libraries::LibrariesOverrides;
use weir_bench::overhead::OverheadOverrides;
use weir_bench::plan::{AnyPlan, PlanOverrides};
use weir_bench::sweep::SweepOverrides;

use crate::cmd::bench_common::{CommonArgs, load_plan};
use crate::cmd::bench_compare::ComparisonArgs;
use crate::cmd::bench_dry_run::DryRunArgs;
use crate::cmd::bench_engine::KubernetesArgs;
use crate::cmd::bench_gateways::GatewaysArgs;
use crate::exit::Failure;

const AFTER_HELP: &str = "\
With a plan before -h or --help, only the options of that plan are shown.

Examples:
  weir bench run keyed --quick
  weir bench run broadcast --levels 1k,2k \\
    --architectures groups,standalone,gateway
  weir bench run keyed --levels 1k,5k --hold 30s --architectures gateway,floor
  weir bench run keyed --quick --repetitions 5 --baseline weir-runs/before \\
    --fail-on worse";

#[derive(Debug, Args)]
pub(crate) struct AaTestArgs {
    /// Compare a subject with itself (A/A test)
    ///
    /// The gateway of the plan, the relay of proxy-overhead, all cells of a sweep, or the first
    /// client library, runs as two subjects that take turns. All differences between the two come
    /// from the machine. With client libraries, the expected result is no difference in at least
    /// 90 % of all cells. Other runs can be compared with `weir bench compare --aa` and the
    /// directory of this run.
    #[arg(id = "aa_test", long = "aa-test")]
    pub(crate) is_requested: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ClientsArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) aa_test: AaTestArgs,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArgs,
    #[command(flatten)]
    pub(crate) gateways: GatewaysArgs,
    #[command(flatten)]
    pub(crate) kubernetes: KubernetesArgs,
    #[command(flatten)]
    pub(crate) values: PlanOverrides,
    #[command(flatten)]
    pub(crate) baseline: BaselineArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SweepArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) aa_test: AaTestArgs,
    #[command(flatten)]
    pub(crate) dry_run: DryRunArgs,
    #[command(flatten)]
    pub(crate) values: SweepOverrides,
    #[command(flatten)]
    pub(crate) baseline: BaselineArgs,
}

#[derive(Debug, Args)]
pub(crate) struct OverheadArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) aa_test: AaTestArgs,
    #[command(flatten)]
    pub(crate) values: OverheadOverrides,
    /// Port of the broker started for the run
    ///
    /// A fixed port allows an external proxy to be configured before the run.
    #[arg(
        long,
        value_name = "PORT",
        conflicts_with = "bootstrap",
        help_heading = "Options of proxy-overhead"
    )]
    pub(crate) broker_port: Option<u16>,
}

#[derive(Debug, Args)]
pub(crate) struct LibrariesArgs {
    #[command(flatten)]
    pub(crate) common: CommonArgs,
    #[command(flatten)]
    pub(crate) values: LibrariesOverrides,
    /// Directory of an interrupted run to resume; all other options must be the same
    #[arg(long, value_name = "RUN_DIR", conflicts_with = "out")]
    pub(crate) resume: Option<PathBuf>,
    /// Print the cells that would run, with estimated times, and exit
    #[arg(
        long,
        conflicts_with = "resume",
        help_heading = "Options of client-libraries"
    )]
    pub(crate) list_cells: bool,
}

#[derive(Debug, Args)]
pub(crate) struct BaselineArgs {
    /// Directory of an earlier run to compare this run with
    #[arg(long, value_name = "DIR")]
    pub(crate) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) compare: ComparisonArgs,
}

/// Arguments before the kind of the plan is known.
#[derive(Debug, Clone)]
pub(crate) struct RunArgs {
    pub(crate) plan: String,
    given: Vec<GivenOption>,
}

/// Option on the command line: its id, and its words as typed.
#[derive(Debug, Clone)]
struct GivenOption {
    id: clap::Id,
    flag: String,
    words: Vec<OsString>,
}

/// Returns the options of all kinds of plans, each once.
fn all_options() -> Vec<Arg> {
    let kinds = [
        ClientsArgs::augment_args(Command::new("run")),
        SweepArgs::augment_args(Command::new("run")),
        OverheadArgs::augment_args(Command::new("run")),
        LibrariesArgs::augment_args(Command::new("run")),
    ];
    let mut all: Vec<Arg> = Vec::new();
    for arg in kinds.iter().flat_map(Command::get_arguments) {
        if all.iter().all(|known| known.get_id() != arg.get_id()) {
            all.push(arg.clone());
        }
    }
    all
}

/// Hides the options of `weir bench run` that the plan among the words does not have.
///
/// They stay valid arguments, so that their error can name the plan.
pub(crate) fn for_plan(command: Command, words: &[OsString]) -> Command {
    let mut words = words.iter().skip(1).filter_map(|word| word.to_str());
    if words.next() != Some("bench") || words.next() != Some("run") {
        return command;
    }
    let plan = words.find_map(|word| match word.starts_with('-') {
        true => None,
        false => load_plan(word).ok(),
    });
    let Some(plan) = plan else {
        return command;
    };
    let own = options_of(&plan);
    let is_own = |arg: &Arg| own.iter().any(|own| own.get_id() == arg.get_id());
    command.mut_subcommand("bench", |bench| {
        bench.mut_subcommand("run", |run| {
            run.mut_args(|arg| match is_own(&arg) {
                true => arg,
                false => arg.hide(true),
            })
        })
    })
}

/// Returns the options of a plan's kind.
fn options_of(plan: &AnyPlan) -> Vec<Arg> {
    let run = Command::new("run");
    let run = match plan {
        AnyPlan::Clients(_) => ClientsArgs::augment_args(run),
        AnyPlan::Sweep(_) => SweepArgs::augment_args(run),
        AnyPlan::Overhead(_) => OverheadArgs::augment_args(run),
        AnyPlan::Libraries(_) => LibrariesArgs::augment_args(run),
    };
    run.get_arguments().cloned().collect()
}

impl Args for RunArgs {
    fn augment_args(command: Command) -> Command {
        command.args(all_options()).after_help(AFTER_HELP)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for RunArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut given = Vec::new();
        for arg in all_options() {
            let id = arg.get_id();
            let source = matches.value_source(id.as_str());
            if !matches!(
                source,
                Some(ValueSource::CommandLine | ValueSource::EnvVariable)
            ) {
                continue;
            }
            let flag = arg.get_long().map(|long| format!("--{long}"));
            let flag = flag.unwrap_or_default();
            let is_switch = !arg.get_action().takes_values()
                || arg
                    .get_num_args()
                    .is_some_and(|count| !count.takes_values());
            // A variable may switch an option off.
            if is_switch && matches!(matches.try_get_one(id.as_str()), Ok(Some(false))) {
                continue;
            }
            let values = matches.get_raw(id.as_str()).into_iter().flatten();
            let words = match is_switch {
                true => vec![OsString::from(&flag)],
                false if flag.is_empty() => values.map(OsString::from).collect(),
                false => values
                    .map(|value| {
                        // One word, so that a value may start with a dash.
                        let mut word = OsString::from(format!("{flag}="));
                        word.push(value);
                        word
                    })
                    .collect(),
            };
            given.push(GivenOption {
                id: id.clone(),
                flag,
                words,
            });
        }
        let plan: Option<&String> = matches.get_one("plan");
        Ok(Self {
            plan: plan.cloned().unwrap_or_default(),
            given,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl RunArgs {
    /// Returns the given options and the plan, each with its id and as one word.
    pub(crate) fn words(&self) -> impl Iterator<Item = (&str, String)> {
        self.given.iter().flat_map(|given| {
            let words = given.words.iter();
            words.map(|word| (given.id.as_str(), word.to_string_lossy().into_owned()))
        })
    }

    /// Returns the arguments of the plan's kind, or a usage failure if an option is not one of it.
    pub(crate) fn of<A: Args>(&self) -> Result<A, Failure> {
        let command = A::augment_args(Command::new("weir bench run").no_binary_name(true));
        let options: Vec<&Arg> = command.get_arguments().collect();
        let is_known = |given: &GivenOption| options.iter().any(|it| *it.get_id() == given.id);
        if let Some(unknown) = self.given.iter().find(|given| !is_known(given)) {
            let flags = options.iter().filter_map(|option| option.get_long());
            let flags: Vec<String> = flags.map(|flag| format!("--{flag}")).collect();
            return Err(Failure::usage(format!(
                "{}: plan {} does not support this option; supported are {}",
                unknown.flag,
                self.plan,
                flags.join(", ")
            )));
        }
        let words = self.given.iter().flat_map(|given| given.words.clone());
        let parsed = command.try_get_matches_from(words);
        parsed
            .and_then(|matches| A::from_arg_matches(&matches))
            .map_err(|error| Failure::usage(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Cli {
        #[command(flatten)]
        args: RunArgs,
    }

    /// Returns a valid value for an option, and the options that it requires.
    fn words(option: &Arg) -> &'static [&'static str] {
        if option
            .get_num_args()
            .is_some_and(|count| !count.takes_values())
            || !option.get_action().takes_values()
        {
            return &[];
        }
        match option.get_id().as_str() {
            "fail_on" => &["worse"],
            "architectures" => &["gateway"],
            "subjects" => &["direct"],
            "profile" => &["fair"],
            "metrics" => &["response_p99_ms"],
            "topic" => &["t", "--bootstrap", "localhost:1"],
            "inventory" => &["machines.toml"],
            "engine" => &["ssh"],
            "namespace" | "run_name" => &["a"],
            "agents_listen" => &["127.0.0.1:1"],
            "kafka_properties" | "external_proxies" | "drivers" => &["a=localhost:1"],
            "warm_up" | "hold" | "drain" | "join_timeout" | "command_timeout" | "time_limit" => {
                &["5s"]
            }
            "acks" => &["-1"],
            _ => &["5"],
        }
    }

    fn ids<A: Args>() -> Vec<String> {
        let command = A::augment_args(Command::new("run"));
        let ids = command.get_arguments().map(|option| option.get_id());
        ids.map(ToString::to_string).collect()
    }

    fn check<A: Args + std::fmt::Debug>(args: &RunArgs, option: &Arg) -> bool {
        let is_own = ids::<A>().contains(&option.get_id().to_string());
        match args.of::<A>() {
            Ok(_) => assert!(is_own, "{} was accepted", option.get_id()),
            Err(failure) => {
                let text = format!("{failure:?}");
                assert!(!is_own, "{} was rejected: {text}", option.get_id());
                let expected = "plan p does not support this option; supported are ";
                assert!(
                    text.contains(expected) && text.contains("--repetitions"),
                    "{text}"
                );
            }
        }
        is_own
    }

    #[test]
    fn options_are_accepted_only_by_their_plans() {
        for option in all_options() {
            let Some(flag) = option.get_long() else {
                continue;
            };
            let flag = format!("--{flag}");
            let given = ["run", "p", &flag].into_iter();
            let given = given.chain(words(&option).iter().copied());
            let cli = Cli::try_parse_from(given).unwrap_or_else(|error| panic!("{flag}: {error}"));
            let own = [
                check::<ClientsArgs>(&cli.args, &option),
                check::<SweepArgs>(&cli.args, &option),
                check::<OverheadArgs>(&cli.args, &option),
                check::<LibrariesArgs>(&cli.args, &option),
            ];
            let expected = match option.get_id().as_str() {
                "quick" | "out" | "json" | "summary_json" | "bootstrap" | "kafka_config"
                | "kafka_properties" | "repetitions" | "hold" | "require_conclusive"
                | "aa_test" => [true; 4],
                "baseline" | "aa" | "margin" | "metrics" | "fail_on" | "topic" | "drain"
                | "dry_run" | "inventory" | "engine" | "agents_listen" | "agent_token_file"
                | "join_timeout" => [true, true, false, false],
                "print" | "image" | "namespace" | "run_name" | "pod_cpu" | "pod_memory"
                | "producers_agents" | "consumers_agents" | "clients_agents" | "any_node"
                | "archive_to_log" => [true, false, false, false],
                "levels" | "architectures" | "rate" | "key" | "gateway" | "gateways"
                | "skip_missing" | "adapter_set" | "data_adapter" | "items" => {
                    [true, false, false, false]
                }
                "rates" => [true, false, true, true],
                "warm_up" => [true, true, true, false],
                "record_sizes_bytes" | "target_rates_per_s" | "fetch_sizes_bytes" => {
                    [false, true, false, false]
                }
                "records" | "kafka_tools" => [false, true, true, false],
                "record_bytes" | "subjects" | "external_proxies" | "broker_port"
                | "repetitions_max" => [false, false, true, false],
                _ => [false, false, false, true],
            };
            assert_eq!(own, expected, "{flag}");
        }
    }

    #[test]
    fn values_arrive_as_typed() {
        let words = "run client-libraries --acks -1 --verify --cells a,b --rates 2k,1.4 --aa-test";
        let cli = Cli::try_parse_from(words.split(' ')).unwrap();
        let args = cli.args.of::<LibrariesArgs>().unwrap();
        assert_eq!(args.values.acks, Some(-1));
        assert_eq!(
            (args.values.verify, args.values.aa_test),
            (Some(true), Some(true))
        );
        assert_eq!(
            args.values.cells,
            Some(vec!["a".to_owned(), "b".to_owned()])
        );
        assert_eq!(args.values.rates_per_s, Some(vec![2000, 1]));
        assert_eq!(args.common.plan, "client-libraries");
        let words = "run proxy-overhead --rates 0 --kafka-property a=1 --kafka-property b=2";
        let cli = Cli::try_parse_from(words.split(' ')).unwrap();
        let args = cli.args.of::<OverheadArgs>().unwrap();
        assert_eq!(args.common.run.kafka.client.without_connection().len(), 2);
        assert_eq!((args.values.kafka_tools, args.common.quick), (None, false));
    }
}
