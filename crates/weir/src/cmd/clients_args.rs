//! Arguments of `weir load clients` and their conversion to options of the load engine.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use weir_load::clients::scenario::{KeyPool, probe, probe_key};
use weir_load::clients::simulator_file::SimulatorFile;
use weir_load::clients::{
    ClientProtocol, ClientsOptions, DiffChoice, JsonClients, JsonProtocol, Mode, Scenario,
    Subscribe,
};
use weir_load::share::WorkerShare;
use weir_load::units::{parse_count, parse_duration};

use crate::cmd::load_common::ReceiverOutputArgs;
use crate::cmd::trust_args::TrustArgs;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ClientsArgs {
    /// Server URLs, used in turn [default: ws://127.0.0.1:8080]
    ///
    /// Several URLs are separated by commas, or the option is repeated.
    #[arg(
        long,
        visible_alias = "server",
        value_name = "URL",
        value_delimiter = ','
    )]
    url: Vec<String>,
    /// Protocol of the server
    ///
    /// With another protocol than tlcp, messages are JSON and URLs have a path, in which {item} is
    /// the item of a client. --fields names the members: NAME=PATH, or NAME if both are equal.
    #[arg(long, value_enum, default_value_t = ProtocolName::Tlcp, conflicts_with_all = ["floor",
          "probe", "configuration", "verify_values", "diffs", "adapter_set", "data_adapter"])]
    protocol: ProtocolName,
    /// First message to a WebSocket server; {item} is the item of a client
    #[arg(long, value_name = "TEXT", help_heading = SUBSCRIBING)]
    subscribe_message: Option<String>,
    /// Text of the message that confirms a subscription [default: none is awaited]
    #[arg(long, value_name = "TEXT", help_heading = SUBSCRIBING)]
    live_when: Option<String>,
    #[command(flatten)]
    trust: TrustArgs,
    /// Require WebSocket compression (permessage-deflate)
    ///
    /// A server that does not negotiate it is an error.
    #[arg(long, conflicts_with = "floor")]
    compression: bool,
    /// Number of clients, for example 500 or 10k [default: 100]
    #[arg(long, value_name = "COUNT", value_parser = parse_count)]
    clients: Option<u64>,
    /// New clients per second [default: 1000]
    #[arg(long, value_name = "CLIENTS_PER_S", value_parser = parse_count)]
    ramp: Option<u64>,
    /// Time to receive after all clients are connected [default: until Ctrl-C]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, conflicts_with = "worker")]
    duration: Option<Duration>,
    /// Configuration file of the published client simulator
    ///
    /// Sets scenario, number of sessions, pause, duration, address and adapter set, unless an
    /// option overrides them.
    #[arg(long, value_name = "FILE")]
    configuration: Option<PathBuf>,

    /// Scenario of the published load test to subscribe to [default: 2]
    ///
    /// 1: all records; 2: one of 40 fruits; 3: one of 40 first names, JSON fields; 3jp and 3td: one
    /// of 40 first names, whole JSON values with changes as JSON Patch or text diff. Subscriptions
    /// match the published connector configuration.
    #[arg(long, value_name = "NAME", value_parser = scenario, help_heading = SUBSCRIBING)]
    scenario: Option<Scenario>,
    /// Use the subscriptions of the published simulator verbatim
    ///
    /// They do not fit the published connector configuration: scenarios 1 and 3 request a field
    /// that is not mapped, and scenario 2 uses another data adapter.
    #[arg(long, help_heading = SUBSCRIBING)]
    verbatim: bool,
    /// Subscribe like the measuring client of the filtering tests
    ///
    /// One item in mode DISTINCT with the fields timestamp, fstValue, sndValue and intNum. Only
    /// records marked with PREFIX- are timed.
    #[arg(long, conflicts_with_all = ["scenario", "verbatim"], help_heading = SUBSCRIBING)]
    probe: bool,
    /// Use keys of 500 characters; with --probe, the item with such a key
    #[arg(long, help_heading = SUBSCRIBING)]
    extended_key: bool,
    /// Use the item of records with a JSON key (kind jsonkeyx), with --probe
    #[arg(long, requires = "probe", help_heading = SUBSCRIBING)]
    json_key: bool,
    /// Fields to subscribe to, instead of those of the scenario
    ///
    /// With the field `weir` (mapped to the record header), every delivery is checked. Without it,
    /// latency is computed from the text in `timestamp` or `value`, and order from `partition` and
    /// `offset`.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', help_heading = SUBSCRIBING)]
    fields: Vec<String>,
    /// Diff formats that sessions accept
    ///
    /// none, json-patch, tlcp-diff, or the latter two separated by a comma. The default is
    /// json-patch for scenario 3jp, tlcp-diff for 3td, and none otherwise.
    #[arg(long, value_name = "FORMATS", value_parser = DiffChoice::parse,
          conflicts_with = "probe", help_heading = SUBSCRIBING)]
    diffs: Option<DiffChoice>,
    /// Compare all values with those of a client without diffs
    ///
    /// One additional client per key receives whole values. Needs the field `weir`.
    #[arg(long, conflicts_with = "floor", help_heading = SUBSCRIBING)]
    verify_values: bool,
    /// Subscription mode [default: RAW, with --probe DISTINCT]
    #[arg(long, value_parser = ["raw", "merge", "distinct"], ignore_case = true,
          help_heading = SUBSCRIBING)]
    mode: Option<String>,
    /// Adapter set of the sessions, instead of that of the scenario
    #[arg(long, value_name = "NAME", help_heading = SUBSCRIBING)]
    adapter_set: Option<String>,
    /// Data adapter of the subscriptions, instead of that of the scenario
    ///
    /// An empty name selects the default of the server.
    #[arg(long, value_name = "NAME", help_heading = SUBSCRIBING)]
    data_adapter: Option<String>,
    /// Item of each client, instead of that of the scenario; {key} is its key
    #[arg(long, value_name = "TEMPLATE", help_heading = SUBSCRIBING)]
    items: Option<String>,
    /// Number of keys, distributed evenly over the clients
    #[arg(long, value_name = "COUNT", default_value_t = 40,
          value_parser = clap::value_parser!(u16).range(1..), help_heading = SUBSCRIBING)]
    keys: u16,
    /// Names of the keys, instead of those of the scenario
    #[arg(long, value_enum, help_heading = SUBSCRIBING)]
    key_names: Option<KeyPool>,
    /// Record key that all clients subscribe to
    #[arg(long, value_name = "KEY", help_heading = SUBSCRIBING)]
    key: Option<String>,
    /// Records that are timed [default: all, with --probe marked]
    #[arg(long, value_enum, help_heading = SUBSCRIBING)]
    timed: Option<TimedRecords>,
    /// Random seed that assigns keys to clients
    #[arg(long, value_name = "NUMBER", default_value_t = 1, help_heading = SUBSCRIBING)]
    seed: u64,

    /// Distribute the clients over agent processes
    #[arg(long, value_enum, help_heading = AGENTS)]
    pub(crate) engine: Option<EngineArg>,
    /// Number of agents [default: as needed for the file descriptor limit]
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u16).range(1..=1000),
          requires = "engine", help_heading = AGENTS)]
    pub(crate) agents: Option<u16>,
    /// Listen address for agents
    ///
    /// Every address except loopback opens this port to the network.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0",
          requires = "engine", help_heading = AGENTS)]
    pub(crate) listen: SocketAddr,
    /// Longest wait for all agents to join
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s",
          requires = "engine", help_heading = AGENTS)]
    pub(crate) join_timeout: Duration,

    /// Share of the clients that this worker runs, for example 2/3
    #[arg(
        long,
        value_name = "NUMBER/COUNT",
        requires = "worker",
        conflicts_with = "engine",
        hide = true
    )]
    share: Option<WorkerShare>,

    /// Longest time for one client to connect and subscribe
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, default_value = "30s")]
    setup_timeout: Duration,
    /// Use the protocol of the floor server instead of TLCP
    #[arg(long)]
    floor: bool,
    #[command(flatten)]
    pub(crate) output: ReceiverOutputArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum EngineArg {
    /// Agents are started by this command, on this machine
    Local,
    /// Agents are started by you with `weir agent`, on any machine that reaches this one
    Manual,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum ProtocolName {
    /// TLCP over WebSocket
    Tlcp,
    /// One JSON document per message of a WebSocket
    Websocket,
    /// One JSON document per server-sent event
    Sse,
    /// JSON protocol of Centrifugo over WebSocket; items are channels
    Centrifugo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum TimedRecords {
    /// All records
    All,
    /// Records marked with PREFIX-
    Marked,
}

#[derive(Debug)]
pub(crate) struct ClientsRun {
    pub(crate) options: ClientsOptions,
    pub(crate) duration: Option<Duration>,
    /// Parameters of the configuration file that are not supported.
    pub(crate) notes: Vec<String>,
}

impl ClientsArgs {
    pub(crate) fn run(&self) -> anyhow::Result<ClientsRun> {
        let read = |path: &PathBuf| SimulatorFile::read(path);
        let file = self.configuration.as_ref().map(read).transpose()?;
        let file = file.as_ref();
        let clients = self.clients.or_else(|| file.map(|file| file.sessions));
        let clients = clients.unwrap_or(CLIENTS);
        ensure!(clients > 0, "--clients \"0\": must be at least 1");
        let servers = match (self.url.is_empty(), file) {
            (true, Some(file)) => file.urls.clone(),
            (true, None) => vec![URL.to_owned()],
            (false, _) => self.url.clone(),
        };
        let ramp = self.ramp.map(|ramp| ramp.max(1) as f64);
        let ramp = ramp.or_else(|| file.and_then(|file| file.ramp_per_s));
        let scenario = self.scenario.or_else(|| file.map(|file| file.scenario));
        let scenario = scenario.unwrap_or(Scenario::Two);
        let mut subscribe = self.subscribe(scenario, file);
        let json = self.json_clients(&mut subscribe.fields)?;
        if self.verify_values && !subscribe.fields.iter().any(|field| field == "weir") {
            bail!("--verify-values: needs the field weir to identify records; add it to --fields");
        }
        let diffs = match self.probe || json.is_some() {
            true => DiffChoice::NONE,
            false => scenario.diffs(),
        };
        let options = ClientsOptions {
            servers,
            compression: self.compression,
            tls: self.trust.read()?,
            keys: self.key_names(&subscribe),
            kind: match (json, self.floor) {
                (Some(json), _) => ClientProtocol::Json(json),
                (None, true) => ClientProtocol::Floor,
                (None, false) => ClientProtocol::Tlcp {
                    adapter_set: subscribe.adapter_set,
                    data_adapter: Some(subscribe.data_adapter).filter(|name| !name.is_empty()),
                    mode: self.mode(),
                },
            },
            // A larger number exceeds the file descriptor limit and is rejected later.
            clients: usize::try_from(clients).unwrap_or(usize::MAX),
            share: self.share.unwrap_or(WorkerShare::WHOLE),
            ramp_per_s: ramp.unwrap_or(RAMP_PER_S),
            items: subscribe.items,
            seed: self.seed,
            fields: subscribe.fields,
            diffs: self.diffs.unwrap_or(diffs),
            verify_values: self.verify_values,
            marked_only: match self.timed {
                Some(timed) => timed == TimedRecords::Marked,
                None => self.probe,
            },
            // In a plan, records without a stamp are background load of other producers.
            record_timestamps: !self.output.output.worker,
            published_report: self.output.interval(),
            setup_timeout: self.setup_timeout,
        };
        let file_duration = file.and_then(|file| file.duration);
        Ok(ClientsRun {
            options,
            duration: self.duration.or(file_duration),
            notes: file.map_or_else(Vec::new, |file| file.notes.clone()),
        })
    }

    /// Returns the clients of a server whose messages are JSON; `None` for TLCP. Removes the paths
    /// of members from `fields`.
    fn json_clients(&self, fields: &mut [String]) -> anyhow::Result<Option<JsonClients>> {
        let protocol = match self.protocol {
            ProtocolName::Tlcp => None,
            ProtocolName::Websocket => Some(JsonProtocol::WebSocket),
            ProtocolName::Sse => Some(JsonProtocol::ServerSentEvents),
            ProtocolName::Centrifugo => Some(JsonProtocol::Centrifugo),
        };
        if protocol != Some(JsonProtocol::WebSocket) {
            let options = [
                ("--subscribe-message", &self.subscribe_message),
                ("--live-when", &self.live_when),
            ];
            for (option, value) in options {
                ensure!(value.is_none(), "{option}: needs --protocol websocket");
            }
        }
        let Some(protocol) = protocol else {
            return Ok(None);
        };
        let split = |field: &mut String| match field.split_once('=') {
            Some((name, path)) => {
                let path = path.to_owned();
                *field = name.to_owned();
                path
            }
            None => field.clone(),
        };
        Ok(Some(JsonClients {
            protocol,
            members: fields.iter_mut().map(split).collect(),
            subscribe: self.subscribe_message.clone(),
            live_when: self.live_when.clone(),
            may_conflate: self.mode() == Mode::Merge,
        }))
    }

    /// Returns the subscription of the scenario with the parts given by options.
    fn subscribe(&self, scenario: Scenario, file: Option<&SimulatorFile>) -> Subscribe {
        let base = match (self.probe, self.verbatim) {
            (true, _) => probe(),
            (false, true) => scenario.verbatim(),
            (false, false) => scenario.corrected(),
        };
        let adapter_set = self.adapter_set.as_ref();
        let adapter_set = adapter_set.or_else(|| file.map(|file| &file.adapter_set));
        let fields = Some(&self.fields).filter(|fields| !fields.is_empty());
        Subscribe {
            adapter_set: adapter_set.cloned().unwrap_or(base.adapter_set),
            data_adapter: self.data_adapter.clone().unwrap_or(base.data_adapter),
            items: self.items.clone().unwrap_or(base.items),
            fields: fields.cloned().unwrap_or(base.fields),
            ..base
        }
    }

    fn mode(&self) -> Mode {
        match &self.mode {
            None if self.probe => Mode::Distinct,
            None => Mode::Raw,
            // Invariant: the names of modes that the parser accepts.
            Some(name) => Mode::from_word(&name.to_uppercase()).unwrap_or(Mode::Raw),
        }
    }

    fn key_names(&self, subscribe: &Subscribe) -> Vec<String> {
        if let Some(key) = &self.key {
            return vec![key.clone()];
        }
        let pool = match self.key_names {
            None if self.probe => return vec![probe_key(self.extended_key, self.json_key)],
            names => names.unwrap_or(subscribe.pool),
        };
        pool.names(self.keys.into(), self.extended_key)
    }
}

fn scenario(name: &str) -> anyhow::Result<Scenario> {
    Scenario::of_name(name).with_context(|| {
        let names = Scenario::names();
        format!("must be one of {names}")
    })
}

const SUBSCRIBING: &str = "Subscriptions";
const AGENTS: &str = "Agents";
const URL: &str = "ws://127.0.0.1:8080";
const CLIENTS: u64 = 100;
const RAMP_PER_S: f64 = 1000.0;

const EXAMPLES: &str = "\
Examples:
  Scenario 2 as published, 10,000 clients for a minute:
    weir load clients --url ws://127.0.0.1:8080 --scenario 2 --clients 10k \\
      --duration 1m
  JSON fields in mode MERGE, only two of the fields:
    weir load clients --scenario 3 --mode merge --fields timestamp,firstnumber
  Every delivery checked by its stamp (field mapped from HEADERS.weir):
    weir load clients --fields key,value,weir
  Only the marked records of one item timed, next to a background load:
    weir load clients --probe --extended-key --clients 1
  JSON Patch, every value compared with that of a client without diffs:
    weir load clients --scenario 3jp --fields key,value,weir --verify-values
  Configuration file of the published simulator, for one minute:
    weir load clients --configuration client-simulator-configuration.xml \\
      --duration 1m
  Server-sent events of a gateway, with delivery checked:
    weir load clients --protocol sse --fields key=values.key,weir=values.weir \\
      --url 'http://127.0.0.1:8080/sse?item={item}&mode=raw'
  Centrifugo, channels by key, records of kind json2:
    weir load clients --protocol centrifugo --items '{key}' \\
      --fields key=sndValue,weir --url ws://127.0.0.1:8000/connection/websocket
  TLS with a private CA:
    weir load clients --url wss://localhost:8443 --ca ca.pem --clients 1k
  40,000 clients of two gateways, in as many processes as needed:
    weir load clients --url ws://10.0.0.1:8080,ws://10.0.0.2:8080 \\
      --clients 40k --ramp 2k --engine local";

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
    fn default_is_scenario_2() {
        let mut expected =
            ClientsOptions::new("ws://127.0.0.1:8080", &Scenario::Two.corrected(), 100);
        expected.record_timestamps = true;
        assert_eq!(options(""), expected);
        assert!(
            !options("--worker").record_timestamps,
            "workers ignore record timestamps"
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
        assert!(error.contains("add it to --fields"), "{error}");
    }

    #[test]
    fn json_protocols_name_members() {
        let sse = options("--protocol sse --fields key=values.key,weir --mode merge");
        assert_eq!(sse.fields, ["key", "weir"]);
        let ClientProtocol::Json(json) = sse.kind else {
            panic!("JSON");
        };
        assert_eq!(json.members, ["values.key", "weir"]);
        assert!(json.may_conflate && !sse.diffs.any());
        let failed = |line: &str| {
            let words = line.split_ascii_whitespace();
            let line = TestCli::try_parse_from(std::iter::once("clients").chain(words)).unwrap();
            line.args.run().unwrap_err().to_string()
        };
        let expected = "--live-when: needs --protocol websocket";
        assert_eq!(failed("--protocol sse --live-when x"), expected);
        assert_eq!(failed("--live-when x"), expected);
    }

    #[test]
    fn probe_times_marked_records_of_one_item() {
        let probe = options("--probe --json-key");
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
    fn options_override_the_simulator_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.xml");
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
        assert!(
            error.contains("must be one of 1, 2, 3, 3jp, 3td"),
            "{error}"
        );
    }
}
