//! End-to-end tests of `weir load clients` and `weir agent` with real gateways and a broker.

mod support;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Process, Signal, TestBroker, send_signal, text, weir};

/// Upper limit of every wait; reached only by failing tests.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// A gateway and its client address.
struct Gateway {
    _process: Process,
    listen: String,
}

impl TestBroker {
    /// Writes `count` records of two keys and kind `keyed`.
    fn produce(&self, topic: &str, count: u32) {
        self.produce_with(topic, count, &["--size", "64", "--text-stamp"]);
    }

    /// Writes `count` records of two keys, and creates the topic if it does not exist.
    fn produce_with(&self, topic: &str, count: u32, args: &[&str]) {
        let count = count.to_string();
        let usual = [
            "--rate",
            "200",
            "--keys",
            "2",
            "--create-topic",
            "--max-lag",
            "1m",
        ];
        let output = weir(&["load", "produce", "--topic", topic, "--count", &count])
            .args(["--bootstrap", &self.bootstrap])
            .args(usual)
            .args(args)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }

    /// Starts a gateway with the configuration of scenario 2 and the stamp.
    fn gateway(&self, name: &str, topic: &str) -> Gateway {
        let xml = include_str!("../../../plans/keyed-adapters.xml");
        self.gateway_with(name, &xml.replace("@TOPIC@", topic))
    }

    fn gateway_with(&self, name: &str, xml: &str) -> Gateway {
        let xml = xml.replace("@BOOTSTRAP@", &self.bootstrap);
        let (process, listen) = support::gateway(self.scratch.path(), name, &xml);
        Gateway {
            _process: process,
            listen,
        }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }
}

/// A run of `weir load clients --json`.
struct TestClients {
    child: Process,
    lines: std::io::Lines<BufReader<ChildStdout>>,
    seen: Vec<Value>,
}

impl TestClients {
    fn start(url: &str, args: &[&str]) -> Self {
        let mut command = weir(&["load", "clients", "--json", "--url", url]);
        command.args(args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Process::spawn(&mut command);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self {
            child,
            lines,
            seen: Vec::new(),
        }
    }

    /// Reads until the event with this name.
    fn event(&mut self, name: &str) -> Value {
        for line in self.lines.by_ref() {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            self.seen.push(event.clone());
            if event["event"] == name {
                return event;
            }
        }
        let output = self.child.wait_with_output_of();
        panic!("no event {name}: {output}");
    }

    /// Reads until the clients have received `updates` in total.
    fn updates(&mut self, updates: u64) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let progress = self.event("progress");
            if progress["counters"]["updates"].as_u64().unwrap() >= updates {
                return;
            }
            assert!(Instant::now() < deadline, "{progress}");
        }
    }

    /// Sends SIGINT, like Ctrl-C, and returns the last event.
    fn interrupt(&mut self) -> Value {
        send_signal(self.child.id(), Signal::INT);
        let end = self.event("end");
        assert!(self.child.wait().unwrap().success());
        end
    }

    /// Waits until the command ends by itself.
    fn finish(mut self) -> Output {
        for line in self.lines.by_ref() {
            self.seen
                .push(serde_json::from_str(&line.unwrap()).unwrap());
        }
        self.child.output()
    }
}

trait ErrorText {
    fn wait_with_output_of(&mut self) -> String;
}

impl ErrorText for Child {
    /// Returns the exit status and the errors.
    fn wait_with_output_of(&mut self) -> String {
        let mut printed = String::new();
        if let Some(mut stderr) = self.stderr.take() {
            let _ = std::io::Read::read_to_string(&mut stderr, &mut printed);
        }
        format!("{:?} {printed}", self.wait())
    }
}

/// All tests share one broker, because its start takes the most time.
#[test]
fn clients_at_real_gateways() {
    let env = TestBroker::start();
    let topic = format!("clients-{}", std::process::id());
    env.produce(&topic, 1);
    let gateways = [env.gateway("one", &topic), env.gateway("two", &topic)];
    let urls = format!("ws://{},ws://{}", gateways[0].listen, gateways[1].listen);
    agents_at_two_gateways_count_as_one(&env, &topic, &urls);
    a_killed_agent_is_named(&urls);
    published_fields_are_enough_to_check(&env, &topic, &urls);
    agents_have_one_published_report(&env, &topic, &urls);
    all_modes_deliver(&env, &topic, &urls);
    simulator_file_is_used(&env, &gateways[0].listen);
    server_sent_events_are_checked(&env, &topic, &gateways[0].listen);
    agents_can_be_started_manually(&urls);
    json_fields_are_timed_and_probed(&env);
    fields_of_avro_values_are_timed(&env);
    diffs_yield_the_same_values(&env);
}

fn agents_at_two_gateways_count_as_one(env: &TestBroker, topic: &str, urls: &str) {
    let args = [
        "--clients",
        "31",
        "--keys",
        "2",
        "--fields",
        "key,value,weir",
        "--engine",
        "local",
        "--agents",
        "3",
    ];
    let mut clients = TestClients::start(urls, &args);
    assert_eq!(clients.event("ready")["connections"], 31);
    let hellos = clients
        .seen
        .iter()
        .filter(|event| event["event"] == "hello");
    assert_eq!(hellos.count(), 4, "the coordinator's and one of each agent");
    env.produce(topic, 200);
    // Two random keys, with 15 or 16 clients each.
    clients.updates(200 * 15);
    let end = clients.interrupt();
    let summary = &end["summary"];
    assert_eq!(summary["clients"], 31, "{end}");
    for figure in [
        "lost",
        "duplicated",
        "reordered",
        "unchecked",
        "conflated",
        "disconnects",
    ] {
        assert_eq!(summary[figure], 0, "{figure}: {end}");
    }
    assert_eq!(summary["errors"], serde_json::json!({}), "{end}");
    let delivered = summary["deliveries_in_window"].as_u64().unwrap();
    assert!((200 * 15..=200 * 16).contains(&delivered), "{end}");
    assert_eq!(end["response"]["count"].as_u64(), Some(delivered), "{end}");
    assert_eq!(end["client_deliveries"]["clients"], 31, "{end}");
}

/// The published report of clients in two processes is one report.
fn agents_have_one_published_report(env: &TestBroker, topic: &str, urls: &str) {
    let mut produce = weir(&["load", "produce", "--topic", topic, "--rate", "200"]);
    produce.args(["--bootstrap", &env.bootstrap, "--max-lag", "1h", "--json"]);
    let mut producer = Process::spawn(produce.stdout(Stdio::piped()));
    let mut events = BufReader::new(producer.stdout.take().unwrap()).lines();
    let is_acked = |line: &str| {
        let event: Value = serde_json::from_str(line).unwrap();
        event["counters"]["acked"].as_u64() > Some(0)
    };
    assert!(events.any(|line| is_acked(&line.unwrap())));
    let mut command = weir(&["load", "clients", "--published-report", "--url", urls]);
    command.args(["--clients", "10", "--keys", "1", "--report-interval", "1s"]);
    command.args(["--engine", "local", "--agents", "2"]);
    let mut clients = Process::spawn(command.stdout(Stdio::piped()));
    let mut lines = BufReader::new(clients.stdout.take().unwrap()).lines();
    let has_samples = |line: &str| {
        let samples = line.strip_prefix("Number of samples: ");
        samples.is_some_and(|all| all.parse::<u64>().unwrap() > 0)
    };
    assert!(lines.any(|line| has_samples(&line.unwrap())));
    send_signal(clients.id(), Signal::INT);
    // The report at the end is of all clients, too.
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(clients.wait().unwrap().success());
    let reports = rest.iter().filter(|line| line.starts_with("Test Duration"));
    assert!(reports.count() > 0, "{rest:?}");
}

fn a_killed_agent_is_named(urls: &str) {
    let args = ["--clients", "10", "--engine", "local", "--agents", "2"];
    let mut clients = TestClients::start(urls, &args);
    clients.event("ready");
    let hello = clients.seen.iter().rfind(|event| event["event"] == "hello");
    let pid = hello.unwrap()["pid"].as_u64().unwrap();
    send_signal(u32::try_from(pid).unwrap(), Signal::KILL);
    let output = clients.finish();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{stderr}");
    assert!(stderr.contains(&format!("of 2 (pid {pid}, ")), "{stderr}");
    assert!(
        stderr.contains("was lost, so the run is not valid"),
        "{stderr}"
    );
    assert!(stderr.contains("signal: 9"), "{stderr}");
}

fn published_fields_are_enough_to_check(env: &TestBroker, topic: &str, urls: &str) {
    let mut clients = TestClients::start(urls, &["--clients", "4", "--keys", "2"]);
    clients.event("ready");
    env.produce(topic, 100);
    clients.updates(200);
    let end = clients.interrupt();
    assert_eq!(end["summary"]["unchecked"], 0, "{end}");
    assert_eq!(end["summary"]["latency_resolution_ns"], 1_000_000, "{end}");
    assert!(end["response"]["count"].as_u64() >= Some(200), "{end}");
}

fn all_modes_deliver(env: &TestBroker, topic: &str, urls: &str) {
    // Three clients per key; in MERGE mode, a slow machine may skip all updates but the last.
    for (mode, least) in [("MERGE", 6), ("DISTINCT", 180)] {
        let args = [
            "--clients",
            "6",
            "--keys",
            "2",
            "--mode",
            mode,
            "--fields",
            "key,value,weir",
        ];
        let mut clients = TestClients::start(urls, &args);
        clients.event("ready");
        env.produce(topic, 60);
        clients.updates(least);
        let end = clients.interrupt();
        for figure in [
            "lost",
            "duplicated",
            "reordered",
            "unchecked",
            "disconnects",
        ] {
            assert_eq!(end["summary"][figure], 0, "{mode} {figure}: {end}");
        }
        assert_eq!(
            end["summary"]["errors"],
            serde_json::json!({}),
            "{mode}: {end}"
        );
    }
}

fn server_sent_events_are_checked(env: &TestBroker, topic: &str, listen: &str) {
    let url = format!("http://{listen}/sse?mode=raw&item={{item}}");
    let fields = "key=values.key,weir=values.weir";
    let args = ["--protocol", "sse", "--keys", "2", "--clients", "6"];
    let mut clients = TestClients::start(&url, &[&args[..], &["--fields", fields]].concat());
    clients.event("ready");
    env.produce(topic, 60);
    // Three clients per key.
    clients.updates(180);
    let end = clients.interrupt();
    let summary = &end["summary"];
    assert_eq!(summary["errors"], serde_json::json!({}), "{end}");
    for figure in [
        "lost",
        "duplicated",
        "reordered",
        "unchecked",
        "disconnects",
    ] {
        assert_eq!(summary[figure], 0, "{figure}: {end}");
    }
    assert_eq!(end["response"]["count"], 180, "{end}");
}

fn simulator_file_is_used(env: &TestBroker, listen: &str) {
    let (host, port) = listen.split_once(':').unwrap();
    let path = env.file("client.xml");
    write_simulator_file(&path, host, port);
    let output = weir(&["load", "clients", "--json", "--configuration"])
        .arg(&path)
        .output()
        .unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{stdout}{stderr}");
    assert!(
        stderr.contains("line 9: itemsPerSession: ignored"),
        "{stderr}"
    );
    assert!(stdout.contains("\"connections\":5"), "{stdout}");

    let wrong = fs::read_to_string(&path).unwrap().replace(">5<", ">five<");
    fs::write(&path, wrong).unwrap();
    let output = weir(&["load", "clients", "--configuration"])
        .arg(&path)
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let place = format!("{}:8: numberOfSessions \"five\"", path.display());
    assert!(stderr.contains(&place), "{stderr}");
}

fn write_simulator_file(path: &Path, host: &str, port: &str) {
    let text = format!(
        "<?xml version=\"1.0\"?>\n<client_conf>\n\
         <param name=\"protocol\">ws://</param>\n\
         <param name=\"host\">{host}</param>\n\
         <param name=\"port\">{port}</param>\n\
         <param name=\"scenarioLKC\">2</param>\n\
         <param name=\"adapterSetName\">KafkaConnector</param>\n\
         <param name=\"numberOfSessions\">5</param>\n\
         <param name=\"itemsPerSession\">1</param>\n\
         <param name=\"delaySessionStartMillis\">1</param>\n\
         <param name=\"sessionDurationSeconds\">1</param>\n\
         </client_conf>\n"
    );
    fs::write(path, text).unwrap();
}

fn agents_can_be_started_manually(urls: &str) {
    // The port was free a moment ago and is unlikely to be used in between.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let agent = |token: &str| {
        let mut command = weir(&[
            "agent",
            "--connect-timeout",
            "1m",
            "--coordinator",
            &address,
        ]);
        command.env("WEIR_AGENT_TOKEN", token);
        Process::spawn(command.stderr(Stdio::piped()))
    };
    let agents = [agent("right"), agent("right"), agent("wrong")];
    let mut clients = weir(&["load", "clients", "--json", "--url", urls, "--clients", "3"]);
    let output = clients
        .args(["--engine", "manual", "--agents", "2", "--duration", "1s"])
        .args(["--listen", &address, "--join-timeout", "1m"])
        .env("WEIR_AGENT_TOKEN", "right")
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{}{stderr}", text(&output.stdout));
    assert!(stderr.contains("waiting for 2 agents"), "{stderr}");
    let [first, second, mut wrong] = agents;
    for agent in [first, second] {
        let output = agent.output();
        assert!(output.status.success(), "{}", text(&output.stderr));
    }
    // Rejected, or too late: the coordinator may have ended before.
    let _ = wrong.kill();
    assert!(!wrong.wait().unwrap().success());
}

/// Scenario 3 as published with current names, and the mapping of the filtering test.
const JSON_ADAPTERS: &str = r##"<?xml version="1.0"?>
<adapters_conf id="KafkaConnector">
    <metadata_provider>
  <adapter_class>com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter</adapter_class>
    </metadata_provider>
    <data_provider name="JsonStart-k">
        <adapter_class>com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>
        <param name="bootstrap.servers">@BOOTSTRAP@</param>
        <param name="record.value.evaluator.type">JSON</param>
        <param name="item-template.jsontest">jsontest-#{key=KEY}</param>
        <param name="map.@COMPLEX@.to">item-template.jsontest</param>
        <param name="field.key">#{KEY}</param>
        <param name="field.timestamp">#{VALUE.timestamp}</param>
        <param name="field.firstText">#{VALUE.firstText}</param>
        <param name="field.secondText">#{VALUE.secondText}</param>
        <param name="field.thirdText">#{VALUE.thirdText}</param>
        <param name="field.fourthText">#{VALUE.fourthText}</param>
        <param name="field.firstnumber">#{VALUE.firstnumber}</param>
        <param name="field.secondNumber">#{VALUE.secondNumber}</param>
        <param name="field.thirdNumber">#{VALUE.thirdNumber}</param>
        <param name="field.fourthNumber">#{VALUE.fourthNumber}</param>
        <param name="field.hobbies">#{VALUE.hobbies[0]}</param>
        <param name="field.ts">#{TIMESTAMP}</param>
        <param name="field.partition">#{PARTITION}</param>
        <param name="field.offset">#{OFFSET}</param>
    </data_provider>
    <data_provider name="QuickStart">
        <adapter_class>com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>
        <param name="bootstrap.servers">@BOOTSTRAP@</param>
        <param name="record.value.evaluator.type">JSON</param>
        <param name="item-template.ltest">ltest-#{key=KEY}</param>
        <param name="map.@JSON@.to">item-template.ltest</param>
        <param name="field.key">#{KEY}</param>
        <param name="field.timestamp">#{VALUE.timestamp}</param>
        <param name="field.fstValue">#{VALUE.fstValue}</param>
        <param name="field.sndValue">#{VALUE.sndValue}</param>
        <param name="field.intNum">#{VALUE.intNum}</param>
    </data_provider>
</adapters_conf>
"##;

const AVRO_ADAPTERS: &str = r##"<?xml version="1.0"?>
<adapters_conf id="KafkaConnector">
    <metadata_provider>
  <adapter_class>com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter</adapter_class>
    </metadata_provider>
    <data_provider name="QuickStart">
        <adapter_class>com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>
        <param name="bootstrap.servers">@BOOTSTRAP@</param>
        <param name="record.value.evaluator.type">AVRO</param>
        <param name="record.value.evaluator.schema.path">trade.avsc</param>
        <param name="item-template.ltest">ltest-#{key=VALUE.name}</param>
        <param name="map.@TOPIC@.to">item-template.ltest</param>
        <param name="field.key">#{VALUE.name}</param>
        <param name="field.timestamp">#{VALUE.at}</param>
        <param name="field.price">#{VALUE.price}</param>
        <param name="field.weir">#{VALUE.note}</param>
    </data_provider>
</adapters_conf>
"##;

const TRADE: &str = r#"{"type": "record", "name": "Trade", "fields": [
    {"name": "name", "type": "string"}, {"name": "price", "type": "double"},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "note", "type": ["null", "string"]}]}"#;

/// The stamp and a Unix time are in the values, the records have no headers.
fn fields_of_avro_values_are_timed(env: &TestBroker) {
    let topic = format!("clients-avro-{}", std::process::id());
    let schema = env.file("trade.avsc");
    fs::write(&schema, TRADE).unwrap();
    let schema = schema.to_str().unwrap();
    let fields = [
        "--time-field",
        "at",
        "--stamp-field",
        "note",
        "--key-field",
        "name",
    ];
    let own = ["--kind", "avro", "--schema", schema, "--no-stamp"];
    let args = [own.as_slice(), &fields].concat();
    env.produce_with(&topic, 1, &args);
    let gateway = env.gateway_with("avro", &AVRO_ADAPTERS.replace("@TOPIC@", &topic));
    for (fields, unchecked) in [("key,price,weir", 0), ("key,price,timestamp", 40)] {
        let options = ["--keys", "2", "--clients", "2", "--fields", fields];
        let mut clients = TestClients::start(&gateway.listen, &options);
        clients.event("ready");
        env.produce_with(&topic, 40, &args);
        clients.updates(40);
        let end = clients.interrupt();
        assert_eq!(end["summary"]["errors"], serde_json::json!({}), "{end}");
        assert_eq!(end["summary"]["unchecked"], unchecked, "{end}");
        assert_eq!(end["response"]["count"], 40, "{end}");
        // Within the time of the test: neither the unit nor the epoch is wrong.
        let max_us = end["response"]["max_us"].as_f64();
        assert!(max_us.is_some_and(|us| us < 60e6), "{end}");
    }
}

/// Scenario 3 with whole values: one client per key receives whole values, the other one diffs.
fn diffs_yield_the_same_values(env: &TestBroker) {
    let topic = format!("clients-diffs-{}", std::process::id());
    let records = ["--kind", "complex", "--text-stamp"];
    env.produce_with(&topic, 1, &records);
    let conf = env.file("conf.xml");
    let settings = "<default_diff_order>jsonpatch,diff_match_patch</default_diff_order>";
    let text = format!("<lightstreamer_conf>{settings}</lightstreamer_conf>");
    fs::write(&conf, text).unwrap();
    let xml = include_str!("../../../plans/json-patch-adapters.xml");
    let xml = xml.replace("@TOPIC@", &topic);
    let xml = xml.replace("@BOOTSTRAP@", &env.bootstrap);
    let options = ["--lightstreamer-conf", conf.to_str().unwrap()];
    let dir = env.scratch.path();
    let (_process, listen) = support::gateway_with(dir, "diffs", &xml, &options);
    for scenario in ["3jp", "3td"] {
        let verified = ["--fields", "key,value,weir", "--verify-values"];
        let args = ["--scenario", scenario, "--keys", "2", "--clients", "4"];
        let mut clients = TestClients::start(&listen, &[args.as_slice(), &verified].concat());
        clients.event("ready");
        env.produce_with(&topic, 40, &records);
        clients.updates(80);
        let last = clients.seen.last().unwrap();
        assert_eq!(last["counters"]["values_compared"], 40, "{last}");
        let end = clients.interrupt();
        assert_eq!(end["summary"]["errors"], serde_json::json!({}), "{end}");
        // After the first update, half of the clients receive about a third of the bytes.
        let bytes = end["summary"]["bytes_received"].as_u64().unwrap();
        assert!(bytes < 80 * 1150, "{end}");

        // Without the stamp, the value contains the time.
        let args = ["--scenario", scenario, "--keys", "2", "--clients", "2"];
        let mut clients = TestClients::start(&listen, &args);
        clients.event("ready");
        env.produce_with(&topic, 40, &records);
        clients.updates(40);
        let end = clients.interrupt();
        assert_eq!(end["summary"]["errors"], serde_json::json!({}), "{end}");
        assert_eq!(end["response"]["count"], 40, "{end}");
    }
}

fn json_fields_are_timed_and_probed(env: &TestBroker) {
    let topics = ["complex", "json"].map(|kind| format!("clients-{kind}-{}", std::process::id()));
    let [complex, json] = &topics;
    let extended = ["--kind", "json", "--extended-key"];
    env.produce_with(complex, 1, &["--kind", "complex"]);
    env.produce_with(json, 1, &extended);
    let xml = JSON_ADAPTERS
        .replace("@COMPLEX@", complex)
        .replace("@JSON@", json);
    let gateway = env.gateway_with("json", &xml);

    let args = ["--scenario", "3", "--keys", "2", "--clients", "2"];
    let mut clients = TestClients::start(&gateway.listen, &args);
    clients.event("ready");
    env.produce_with(complex, 40, &["--kind", "complex"]);
    clients.updates(40);
    let end = clients.interrupt();
    assert_eq!(end["summary"]["errors"], serde_json::json!({}), "{end}");
    assert_eq!(end["summary"]["unchecked"], 0, "{end}");
    assert_eq!(end["response"]["count"], 40, "{end}");

    let args = ["--probe", "--extended-key", "--clients", "1"];
    let mut probe = TestClients::start(&gateway.listen, &args);
    probe.event("ready");
    let marked = [extended.as_slice(), &["--mark"]].concat();
    env.produce_with(json, 40, &extended);
    env.produce_with(json, 40, &marked);
    // The key of the probe, one of two random keys with a fixed seed.
    let updates = |probe: &TestClients, counter: &str| {
        let last = probe
            .seen
            .iter()
            .rfind(|event| event["event"] == "progress");
        last.unwrap()["counters"][counter].as_u64().unwrap()
    };
    probe.updates(1);
    while updates(&probe, "updates") == updates(&probe, "background") {
        probe.event("progress");
    }
    let background = updates(&probe, "background");
    let end = probe.interrupt();
    assert_eq!(end["summary"]["errors"], serde_json::json!({}), "{end}");
    let (total, timed) = (&end["summary"]["updates_total"], &end["response"]["count"]);
    assert!(timed.as_u64() > Some(0) && background > 0, "{end}");
    assert_eq!(
        timed.as_u64().unwrap() + background,
        total.as_u64().unwrap(),
        "{end}"
    );
}

#[test]
fn agent_without_token_or_coordinator_fails() {
    let output = weir(&["agent", "--coordinator", "127.0.0.1:1"])
        .env_remove("WEIR_AGENT_TOKEN")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("set WEIR_AGENT_TOKEN"));
    let output = weir(&[
        "agent",
        "--coordinator",
        "127.0.0.1:1",
        "--connect-timeout",
        "0s",
    ])
    .env("WEIR_AGENT_TOKEN", "any")
    .output()
    .unwrap();
    assert_eq!(output.status.code(), Some(3));
    let stderr = text(&output.stderr);
    assert!(stderr.contains("coordinator at 127.0.0.1:1"), "{stderr}");
}

#[test]
fn agents_report_unreachable_servers() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = closed.local_addr().unwrap().to_string();
    drop(closed);
    let output = weir(&["load", "clients", "--clients", "4", "--url", &address])
        .args(["--engine", "local", "--agents", "2"])
        .output()
        .unwrap();
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("no client could subscribe"), "{stderr}");
}
