//! Options of `weir load clients`, and what they mean for the load engine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::Args;
use weir_load::clients::scenario::{KeyPool, probe, probe_key};
use weir_load::clients::simulator_file::SimulatorFile;
use weir_load::clients::{
    ClientProtocol, ClientShare, ClientsOptions, DiffChoice, Mode, Scenario, Subscribe, TlsTrust,
};
use weir_load::units::{parse_count, parse_duration};

/// What the clients do.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClientsArgs {
    /// Where to connect [default: ws://127.0.0.1:8080]; several, in turn, when given several times or
    /// with commas.
    #[arg(
        long,
        visible_alias = "server",
        value_name = "URL",
        value_delimiter = ','
    )]
    url: Vec<String>,
    /// Trust servers (wss://) whose certificates lead to one of those in this PEM file.
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    ca: Option<PathBuf>,
    /// Check no server's certificate (wss://): for measurements only.
    #[arg(long)]
    insecure: bool,
    /// Ask for compressed messages (permessage-deflate); a server that does not agree is an error.
    #[arg(long, conflicts_with = "floor")]
    compression: bool,
    /// Number of clients, for example 500 or 10k [default: 100].
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    clients: Option<u64>,
    /// New clients per second [default: 1000].
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    ramp: Option<u64>,
    /// How long to receive once all are connected, for example 30s; without it until Ctrl-C.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    duration: Option<Duration>,
    /// A configuration file of the published client simulator: scenario, sessions, pause, duration,
    /// address and adapter set are taken from it where no option says otherwise.
    #[arg(long, value_name = "FILE")]
    configuration: Option<PathBuf>,

    /// What to subscribe: a scenario of the published load test, matched to the published connector
    /// configuration. 1: all records; 2: one of 40 fruits; 3: one of 40 first names, JSON fields;
    /// 3jp, 3td: one of 40 first names, whole JSON values, changes as JSON Patch or text diff [default: 2].
    #[arg(long, value_name = "NAME", value_parser = scenario, help_heading = SUBSCRIBING)]
    scenario: Option<Scenario>,
    /// Subscribe word by word what the published simulator does, although in scenario 1 and 3 it asks
    /// for a field that is not mapped, and in 2 for another data adapter than the published one.
    #[arg(long, help_heading = SUBSCRIBING)]
    as_committed: bool,
    /// Be the client that measures the filtering tests: one item, mode DISTINCT, fields timestamp,
    /// fstValue, sndValue and intNum; only records marked PREFIX- are timed.
    #[arg(long, conflicts_with_all = ["scenario", "as_committed"], help_heading = SUBSCRIBING)]
    probe: bool,
    /// With --probe, the item of the key's 500-character form; else all keys in that form.
    #[arg(long, help_heading = SUBSCRIBING)]
    extended_key: bool,
    /// With --probe, the item of records with a JSON key (kind jsonkeyx).
    #[arg(long, requires = "probe", help_heading = SUBSCRIBING)]
    kj: bool,
    /// Fields to subscribe, in place of the scenario's. With `weir` (mapped to the record header)
    /// deliveries are checked one by one; without, latency comes from the text in `timestamp` or
    /// `value`, and order from `partition` and `offset`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = SUBSCRIBING)]
    fields: Vec<String>,
    /// Diffs that sessions allow instead of whole values: none, json-patch, tlcp-diff, or the latter two
    /// with a comma. [default: json-patch for 3jp, tlcp-diff for 3td, else none]
    #[arg(long, value_name = "FORMATS", value_parser = DiffChoice::parse, conflicts_with = "probe", help_heading = SUBSCRIBING)]
    diffs: Option<DiffChoice>,
    /// Compare all values with those of one client per key that allows no diffs; needs the field `weir`.
    #[arg(long, conflicts_with = "floor", help_heading = SUBSCRIBING)]
    verify_values: bool,
    /// Subscription mode; RAW unless --probe.
    #[arg(long, value_enum, ignore_case = true, help_heading = SUBSCRIBING)]
    mode: Option<ModeArg>,
    /// Adapter set of the sessions, in place of the scenario's.
    #[arg(long, value_name = "NAME", help_heading = SUBSCRIBING)]
    adapter_set: Option<String>,
    /// Data adapter of the subscriptions, in place of the scenario's; empty for the server's default.
    #[arg(long, value_name = "NAME", help_heading = SUBSCRIBING)]
    data_adapter: Option<String>,
    /// Item of each client, in place of the scenario's; {key} stands for its key.
    #[arg(long, value_name = "TEMPLATE", help_heading = SUBSCRIBING)]
    items: Option<String>,
    /// Number of keys the clients are spread over, evenly.
    #[arg(long, value_name = "COUNT", default_value_t = 40, value_parser = clap::value_parser!(u16).range(1..), help_heading = SUBSCRIBING)]
    keys: u16,
    /// Names of the keys, in place of the scenario's.
    #[arg(long, value_enum, help_heading = SUBSCRIBING)]
    key_names: Option<KeyNames>,
    /// The one key that all clients want, as records have it.
    #[arg(long, value_name = "KEY", help_heading = SUBSCRIBING)]
    key: Option<String>,
    /// Take latencies of all records, or only of those marked PREFIX-; all unless --probe.
    #[arg(long, value_enum, help_heading = SUBSCRIBING)]
    timed: Option<TimedRecords>,
    /// Decides which client has which key.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = SUBSCRIBING)]
    seed: u64,

    /// Share the clients out over agents: processes of this machine, or ones you start yourself with
    /// `weir agent`.
    #[arg(long, value_enum, help_heading = AGENTS)]
    pub(crate) engine: Option<EngineArg>,
    /// Number of agents; as many as the limit of file descriptors asks for, if not given.
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1000), requires = "engine", help_heading = AGENTS)]
    pub(crate) agents: Option<u16>,
    /// Where agents dial; any address but loopback opens this port to the network.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0", requires = "engine", help_heading = AGENTS)]
    pub(crate) listen: SocketAddr,
    /// How long to wait for all agents.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s", requires = "engine", help_heading = AGENTS)]
    pub(crate) join_timeout: Duration,

    /// Longest time for one client to be connected and subscribed.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    setup_timeout: Duration,
    /// Speak the floor server's line instead of TLCP.
    #[arg(long)]
    floor: bool,
    /// Print the published programs' report, and nothing else of ours.
    #[arg(long, conflicts_with_all = ["json", "engine"])]
    pub(crate) seed_report: bool,
    /// How often that report comes; once more at the end.
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "60s",
          requires = "seed_report")]
    report_every: Duration,
    /// Print events and the result as JSON lines.
    #[arg(long)]
    pub(crate) json: bool,
    /// Take commands from standard input and write events to standard output.
    #[arg(long, conflicts_with_all = ["duration", "json"])]
    pub(crate) worker: bool,
}

/// Modes a client can ask for.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum ModeArg {
    Raw,
    Merge,
    Distinct,
}

/// Pools of key names.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum KeyNames {
    /// Of the kinds keyed and json.
    Fruits,
    /// Of the kinds complex, verycomplex and jsonkeyx.
    FirstNames,
}

/// Who starts agents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineArg {
    /// This command, as processes of this machine.
    Local,
    /// You, on any machine that reaches this one.
    Manual,
}

/// Which records are timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TimedRecords {
    All,
    Marked,
}

/// What a run is, from options and the simulator's file together.
#[derive(Debug)]
pub(crate) struct ClientsRun {
    pub(crate) options: ClientsOptions,
    pub(crate) duration: Option<Duration>,
    /// What of the file is not honoured.
    pub(crate) notes: Vec<String>,
}

impl ClientsArgs {
    /// The whole run as the load engine takes it.
    pub(crate) fn run(&self) -> anyhow::Result<ClientsRun> {
        if self.report_every < REPORT_EVERY_MIN {
            let every = self.report_every.as_millis();
            bail!("--report-every {every} ms: give at least 1s");
        }
        let read = |path: &PathBuf| SimulatorFile::read(path);
        let file = self.configuration.as_ref().map(read).transpose()?;
        let file = file.as_ref();
        let clients = self.clients.or_else(|| file.map(|file| file.sessions));
        let clients = clients.unwrap_or(CLIENTS);
        if clients == 0 {
            bail!("--clients 0: give at least 1");
        }
        let servers = match (self.url.is_empty(), file) {
            (true, Some(file)) => file.urls.clone(),
            (true, None) => vec![URL.to_owned()],
            (false, _) => self.url.clone(),
        };
        let ramp = self.ramp.map(|ramp| ramp.max(1) as f64);
        let ramp = ramp.or_else(|| file.and_then(|file| file.ramp_per_s));
        let subscribe = self.subscribe(file);
        if self.verify_values && !subscribe.fields.iter().any(|field| field == "weir") {
            bail!("--verify-values: add weir to --fields, by which records are told apart");
        }
        let diffs = match self.probe {
            true => DiffChoice::NONE,
            false => self.scenario(file).diffs(),
        };
        let options = ClientsOptions {
            servers,
            compression: self.compression,
            tls: self.trust()?,
            kind: match self.floor {
                true => ClientProtocol::Floor,
                false => ClientProtocol::Tlcp {
                    adapter_set: subscribe.adapter_set.clone(),
                    data_adapter: Some(subscribe.data_adapter.clone())
                        .filter(|name| !name.is_empty()),
                    mode: self.mode(),
                },
            },
            // More than memory could hold are refused by the limit of descriptors.
            clients: usize::try_from(clients).unwrap_or(usize::MAX),
            share: ClientShare::WHOLE,
            ramp_per_s: ramp.unwrap_or(RAMP_PER_S),
            keys: self.key_names(&subscribe),
            items: subscribe.items,
            seed: self.seed,
            fields: subscribe.fields,
            diffs: self.diffs.unwrap_or(diffs),
            verify_values: self.verify_values,
            marked_only: match self.timed {
                Some(timed) => timed == TimedRecords::Marked,
                None => self.probe,
            },
            // In a plan they are background: others write them.
            record_timestamps: !self.worker,
            seed_report: self.seed_report.then_some(self.report_every),
            setup_timeout: self.setup_timeout,
        };
        Ok(ClientsRun {
            options,
            duration: self
                .duration
                .or_else(|| file.and_then(|file| file.duration)),
            notes: file.map_or_else(Vec::new, |file| file.notes.clone()),
        })
    }

    fn scenario(&self, file: Option<&SimulatorFile>) -> Scenario {
        let scenario = self.scenario.or_else(|| file.map(|file| file.scenario));
        scenario.unwrap_or(Scenario::Two)
    }

    /// The scenario with what was given in place of its parts.
    fn subscribe(&self, file: Option<&SimulatorFile>) -> Subscribe {
        let scenario = self.scenario(file);
        let mut subscribe = match (self.probe, self.as_committed) {
            (true, _) => probe(),
            (false, true) => scenario.as_committed(),
            (false, false) => scenario.corrected(),
        };
        if let Some(file) = file {
            subscribe.adapter_set.clone_from(&file.adapter_set);
        }
        if let Some(adapter_set) = &self.adapter_set {
            subscribe.adapter_set.clone_from(adapter_set);
        }
        if let Some(data_adapter) = &self.data_adapter {
            subscribe.data_adapter.clone_from(data_adapter);
        }
        if let Some(items) = &self.items {
            subscribe.items.clone_from(items);
        }
        if !self.fields.is_empty() {
            subscribe.fields.clone_from(&self.fields);
        }
        subscribe
    }

    fn key_names(&self, subscribe: &Subscribe) -> Vec<String> {
        if let Some(key) = &self.key {
            return vec![key.clone()];
        }
        let pool = match self.key_names {
            None if self.probe => return vec![probe_key(self.extended_key, self.kj)],
            None => subscribe.pool,
            Some(KeyNames::Fruits) => KeyPool::Fruits,
            Some(KeyNames::FirstNames) => KeyPool::FirstNames,
        };
        pool.names(self.keys.into(), self.extended_key)
    }

    fn trust(&self) -> anyhow::Result<TlsTrust> {
        match &self.ca {
            Some(path) => match std::fs::read_to_string(path) {
                Ok(pem) => Ok(TlsTrust::Authorities(pem)),
                Err(error) => bail!("--ca {}: {error}", path.display()),
            },
            None if self.insecure => Ok(TlsTrust::Anybody),
            None => Ok(TlsTrust::Nobody),
        }
    }

    fn mode(&self) -> Mode {
        match self.mode {
            Some(ModeArg::Raw) => Mode::Raw,
            Some(ModeArg::Merge) => Mode::Merge,
            Some(ModeArg::Distinct) => Mode::Distinct,
            None if self.probe => Mode::Distinct,
            None => Mode::Raw,
        }
    }
}

fn scenario(name: &str) -> Result<Scenario, String> {
    Scenario::of_name(name).ok_or_else(|| {
        let names = Scenario::ALL.map(Scenario::name).join(", ");
        format!("it is one of {names}")
    })
}

const SUBSCRIBING: &str = "What is subscribed";
const AGENTS: &str = "More than one process";
const URL: &str = "ws://127.0.0.1:8080";
const CLIENTS: u64 = 100;
const REPORT_EVERY_MIN: Duration = Duration::from_secs(1);
const RAMP_PER_S: f64 = 1000.0;

const EXAMPLES: &str = "\
Examples:
  Scenario 2 as published, 10,000 clients for a minute:
    weir load clients --url ws://127.0.0.1:8080 --scenario 2 --clients 10k --duration 1m
  JSON fields in mode MERGE, two of the fields only:
    weir load clients --scenario 3 --mode merge --fields timestamp,firstnumber
  Every delivery checked by the stamp in the record headers (field mapped from HEADERS.weir):
    weir load clients --fields key,value,weir
  Beside a background load, time only the marked records of one item:
    weir load clients --probe --extended-key --clients 1
  JSON Patch, every value compared with what a client without it gets:
    weir load clients --scenario 3jp --fields key,value,weir --verify-values
  As the published simulator is told by its file, for a minute only:
    weir load clients --configuration client-simulator-configuration.xml --duration 1m
  Over TLS, with a certificate of your own authority:
    weir load clients --url wss://localhost:8443 --ca ca.pem --clients 1k
  40,000 clients at two gateways, in as many processes as the limit of descriptors asks for:
    weir load clients --url ws://10.0.0.1:8080,ws://10.0.0.2:8080 --clients 40k --ramp 2k --engine local";

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct TestCli {
        #[command(flatten)]
        args: ClientsArgs,
    }

    fn options(line: &str) -> ClientsOptions {
        let words = line.split_ascii_whitespace();
        let line = TestCli::try_parse_from(std::iter::once("clients").chain(words)).unwrap();
        line.args.run().unwrap().options
    }

    #[test]
    fn a_bare_call_is_scenario_2() {
        let mut expected =
            ClientsOptions::new("ws://127.0.0.1:8080", &Scenario::Two.corrected(), 100);
        expected.record_timestamps = true;
        assert_eq!(options(""), expected);
        assert!(
            !options("--worker").record_timestamps,
            "background of a plan"
        );
        expected.servers = vec!["ws://a:1".to_owned(), "b:2".to_owned()];
        assert_eq!(options("--url ws://a:1,b:2"), expected);
        assert_eq!(options("--server ws://a:1 --url b:2"), expected);
        assert!(options("--compression").compression && !expected.compression);
    }

    #[test]
    fn diffs_follow_the_scenario() {
        let diffs = |line: &str| options(line).diffs.name();
        assert_eq!(diffs("--scenario 3jp"), "json-patch");
        assert_eq!(diffs("--scenario 3td"), "tlcp-diff");
        assert_eq!(diffs("--scenario 3jp --diffs none"), "none");
        assert_eq!(
            diffs("--scenario 3 --diffs json-patch,tlcp-diff"),
            "json-patch,tlcp-diff"
        );
        assert!(options("--verify-values --fields key,weir").verify_values);
        let line = TestCli::try_parse_from(["clients", "--verify-values"]).unwrap();
        let error = line.args.run().unwrap_err().to_string();
        assert!(error.starts_with("--verify-values: add weir"), "{error}");
    }

    #[test]
    fn the_probe_has_one_item_and_times_marked_records() {
        let probe = options("--probe --kj");
        assert_eq!(probe.keys, ["Timothy"]);
        assert_eq!(probe.fields.join(" "), "timestamp fstValue sndValue intNum");
        assert!(probe.marked_only);
        assert!(matches!(
            probe.kind,
            ClientProtocol::Tlcp {
                mode: Mode::Distinct,
                ..
            }
        ));
        let extended = options("--probe --extended-key --timed all --mode RAW");
        assert!(extended.keys[0].len() == 500 && !extended.marked_only);
        assert!(matches!(
            extended.kind,
            ClientProtocol::Tlcp {
                mode: Mode::Raw,
                ..
            }
        ));
    }

    #[test]
    fn options_win_over_the_simulators_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("client.xml");
        let params = [
            ("protocol", "ws://"),
            ("host", "gateway"),
            ("port", "8088"),
            ("adapterSetName", "Other"),
            ("scenarioLKC", "1"),
            ("numberOfSessions", "7"),
            ("delaySessionStartMillis", "5"),
        ];
        let params = params.map(|(name, value)| format!("<param name=\"{name}\">{value}</param>"));
        let text = format!("<client_conf>{}</client_conf>", params.concat());
        std::fs::write(&path, text).unwrap();
        let line = format!("--configuration {}", path.display());
        let file = options(&line);
        assert_eq!(
            (file.servers.join(" ").as_str(), file.clients),
            ("ws://gateway:8088", 7)
        );
        assert_eq!((file.items.as_str(), file.ramp_per_s), ("ltest", 200.0));
        let ClientProtocol::Tlcp { adapter_set, .. } = &file.kind else {
            panic!("TLCP");
        };
        assert_eq!(adapter_set, "Other");
        let more = options(&format!("{line} --clients 9 --scenario 2 --url a:1"));
        assert_eq!((more.clients, more.servers.join(" ").as_str()), (9, "a:1"));
        assert!(more.is_keyed());
    }

    #[test]
    fn parts_of_a_scenario_can_be_replaced() {
        let three = options("--scenario 3 --fields timestamp,firstText --items x-{key} --keys 2");
        assert_eq!(
            (three.keys.join(" ").as_str(), three.items.as_str()),
            ("James John", "x-{key}")
        );
        assert_eq!(three.fields, ["timestamp", "firstText"]);
        let ClientProtocol::Tlcp { data_adapter, .. } = three.kind else {
            panic!("TLCP");
        };
        assert_eq!(data_adapter.as_deref(), Some("JsonStart-k"));
        assert!(!options("--scenario 1").is_keyed());
        let words = ["clients", "--scenario", "4"];
        let error = TestCli::try_parse_from(words).unwrap_err().to_string();
        assert!(error.contains("it is one of 1, 2, 3, 3jp, 3td"), "{error}");
    }
}
