//! Arguments of `weir bench run`, for all kinds of plans.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use weir_bench::libraries::Profile;
use weir_bench::overhead::ProxyPath;
use weir_bench::plan::Architecture;
use weir_load::units::{parse_bytes, parse_count, parse_duration};

use crate::cmd::bench_common::parse_rate;
use crate::cmd::bench_compare::ComparisonArgs;
use crate::cmd::bench_options::GivenOptions;
use crate::cmd::load_common::key_value;

const AFTER_HELP: &str = "\
Examples:
  weir bench run keyed --quick
  weir bench run broadcast --levels 1k,2k --architectures groups,standalone,gateway
  weir bench run keyed --levels 1k,5k --hold 30s --architectures gateway,floor
  weir bench run keyed --quick --repetitions 5 --baseline weir-runs/before --fail-on worse";

/// Arguments of `weir bench run`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct BenchRunArgs {
    // Must be the first field; see `GivenOptions`.
    #[command(flatten)]
    pub(crate) given: GivenOptions,
    /// Built-in plan (see `weir bench list`), or a plan file ending in .toml
    pub(crate) plan: String,
    /// Use the quick values of the plan: fewer clients, shorter windows
    #[arg(long)]
    pub(crate) quick: bool,
    /// Compare a subject with itself (A/A test)
    ///
    /// The gateway of the plan, or the first client library, runs as two subjects that take turns.
    /// All differences between the two come from the machine. With client libraries, the expected
    /// result is no difference in at least 90 % of all cells. Other runs can be compared with `weir
    /// bench compare --aa` and the directory of this run.
    #[arg(long)]
    pub(crate) aa_test: bool,
    /// Numbers of clients, for example 500,1k,10k
    #[arg(long, value_name = "COUNTS", value_parser = parse_count, value_delimiter = ',')]
    pub(crate) levels: Option<Vec<u64>>,
    /// Architectures: groups, standalone, gateway, floor
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) architectures: Option<Vec<Architecture>>,
    /// Repetitions of each cell
    #[arg(long, value_name = "COUNT")]
    pub(crate) repetitions: Option<u32>,
    /// Records per second of all producers together
    #[arg(long, value_name = "RECORDS_PER_S", value_parser = parse_rate)]
    pub(crate) rate: Option<f64>,
    /// Records per second of a grid, for example 500,2k,8k
    ///
    /// Every rate runs with every number of clients.
    #[arg(long, value_name = "RECORDS_PER_S", value_parser = parse_rate, value_delimiter = ',',
          conflicts_with = "rate")]
    pub(crate) rates: Option<Vec<f64>>,
    /// Existing topic to use instead of a new topic per cell
    ///
    /// Records of other producers in this topic count as background load.
    #[arg(long, value_name = "NAME", requires = "bootstrap")]
    pub(crate) topic: Option<String>,
    /// Sweeps: record sizes in bytes, for example 100,1k
    #[arg(long, value_name = "BYTES", value_parser = parse_count, value_delimiter = ',')]
    pub(crate) record_sizes: Option<Vec<u64>>,
    /// Sweeps: target rates in records per second, for example 1k,5k
    #[arg(long, value_name = "RECORDS_PER_S", value_parser = parse_count, value_delimiter = ',')]
    pub(crate) target_rates: Option<Vec<u64>>,
    /// Sweeps: maximum bytes per fetch request and partition
    #[arg(long, value_name = "BYTES", value_parser = parse_count, value_delimiter = ',')]
    pub(crate) fetch_sizes: Option<Vec<u64>>,
    /// Sweeps and proxy-overhead: records per cell
    ///
    /// In a sweep, the number of records that each consumer reads. In proxy-overhead, the number of
    /// records that each cell writes and reads.
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    pub(crate) records: Option<u64>,
    /// Run Apache Kafka's performance tools on the same cells as well
    #[arg(long)]
    pub(crate) kafka_tools: bool,
    /// Key that all clients subscribe to; the producers write it among others
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Option<String>,
    /// Length of the load before each measured window
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) warm_up: Option<Duration>,
    /// Length of each measured window
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) hold: Option<Duration>,
    /// Longest wait for late deliveries
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) drain: Option<Duration>,
    /// Bootstrap servers of a running cluster [default: a broker started for the run]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) bootstrap: Option<String>,
    /// Parent directory of the run directory
    #[arg(long, value_name = "DIR", default_value = "weir-runs")]
    pub(crate) out: PathBuf,
    /// Print the content of run.json instead of the table
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) overhead: OverheadArgs,
    #[command(flatten)]
    pub(crate) libraries: LibrariesArgs,
    /// Directory of an earlier run to compare this run with
    #[arg(long, value_name = "DIR")]
    pub(crate) baseline: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) compare: ComparisonArgs,
}

/// Options of the plan proxy-overhead.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of proxy-overhead")]
pub(crate) struct OverheadArgs {
    /// Size of each value in bytes
    #[arg(long, value_name = "BYTES", value_parser = parse_count)]
    pub(crate) record_size: Option<u64>,
    /// Producer property of Apache Kafka; repeatable
    #[arg(long = "kafka-property", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) kafka_properties: Vec<(String, String)>,
    /// Paths to the broker: direct, relay, pass-through, lower-case
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) subjects: Option<Vec<ProxyPath>>,
    /// Another proxy in front of the same broker, with any name; repeatable
    #[arg(long = "external-proxy", value_name = "NAME=HOST:PORT", value_parser = key_value)]
    pub(crate) external_proxies: Vec<(String, String)>,
    /// Port of the broker started for the run
    ///
    /// A fixed port allows an external proxy to be configured before the run.
    #[arg(long, value_name = "PORT", conflicts_with = "bootstrap")]
    pub(crate) broker_port: Option<u16>,
}

/// Options of the plan client-libraries.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options of client-libraries")]
pub(crate) struct LibrariesArgs {
    /// Libraries to compare; the first one is the reference of all ratios
    ///
    /// java, librdkafka, franz-go, confluent-kafka, aiokafka, kafkajs, or all.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub(crate) libraries: Option<Vec<String>>,
    /// Additional driver (docs/drivers.md), started by a shell; repeatable
    #[arg(long = "driver", value_name = "NAME=COMMAND")]
    pub(crate) drivers: Vec<String>,
    /// Client settings: fair, legacy or default-settings
    ///
    /// fair: equal settings in all libraries; legacy: settings of the published comparison;
    /// default-settings: the defaults of each library.
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<Profile>,
    /// Cells to run, in this order
    ///
    /// A cell is written as WORK.MODE/BYTESxRECORDS, or as roundtrip.open/BYTES@RATE; * matches
    /// anything. Modes of produce: cold, metadata, warm; of consume: group, assign; of roundtrip:
    /// burst, open. Profile legacy has produce.legacy.
    #[arg(long, value_name = "PATTERNS", value_delimiter = ',')]
    pub(crate) cells: Option<Vec<String>>,
    /// Sizes of values in bytes, for example 100,1k
    #[arg(long, value_name = "BYTES", value_parser = parse_count, value_delimiter = ',')]
    pub(crate) value_sizes: Option<Vec<u64>>,
    /// Numbers of records per repetition, for example 100,10k
    #[arg(long, value_name = "COUNTS", value_parser = parse_count, value_delimiter = ',')]
    pub(crate) burst_records: Option<Vec<u64>>,
    /// Repetitions of cells above 500 MB per repetition, which are skipped otherwise
    #[arg(long, value_name = "COUNT")]
    pub(crate) large_cell_repetitions: Option<u32>,
    /// Acknowledgements to wait for: 0, 1, or -1 for all
    #[arg(long, value_name = "ACKS", allow_negative_numbers = true)]
    pub(crate) acks: Option<i64>,
    /// Compare every key and value read with the expected one
    ///
    /// Runs once per cell and library and is not part of the results.
    #[arg(long)]
    pub(crate) verify: bool,
    /// Directory of an interrupted run to resume; all other options must be the same
    #[arg(long, value_name = "RUN_DIR", conflicts_with = "out")]
    pub(crate) resume: Option<PathBuf>,
    /// Maximum disk space of the topics of the run, for example 20GB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub(crate) disk_cap: Option<u64>,
    /// Base timeout of a driver command; scaled with the amount of data
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) command_timeout: Option<Duration>,
    /// Time after which no further cell starts
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) time_limit: Option<Duration>,
    /// Prefix of topic names
    #[arg(long, value_name = "TEXT")]
    pub(crate) topic_prefix: Option<String>,
    /// Template of topic names
    ///
    /// Placeholders: {prefix}, {run}, {cell}, {work}, {mode}, {name}, {packets}, {length}, {rate},
    /// {repetition}.
    #[arg(long, value_name = "TEXT")]
    pub(crate) topic_template: Option<String>,
}
