//! End-to-end tests of the programs of `examples/` with a running gateway and the published SDKs.

mod support;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use support::Process;
use weir_kafka::{Admin, Producer, ProducerConfig};
use weir_lab::{Lab, LabOptions};

/// Upper limit of every wait; reached only by failing tests.
const TEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Time to wait for a record before the next one is written.
const PERIOD: Duration = Duration::from_millis(200);

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// Starts a gateway with the configuration of the examples and returns its client URL.
fn gateway(dir: &Path, bootstrap: &str) -> (Process, String) {
    let xml = fs::read_to_string(examples().join("adapters.xml")).unwrap();
    assert!(xml.contains("localhost:9092"));
    let xml = xml.replace("localhost:9092", bootstrap);
    let (process, listen) = support::gateway(dir, "examples", &xml);
    (process, format!("http://{listen}"))
}

/// Starts a program and returns the lines of its standard output.
fn start(command: &mut Command) -> (Process, Receiver<String>) {
    let mut child = Process::spawn(command.stdout(Stdio::piped()));
    let out = BufReader::new(child.stdout.take().unwrap());
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in out.lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    (child, lines)
}

/// Returns the programs of the examples, without arguments.
fn programs() -> [Command; 3] {
    let stop = AtomicBool::new(false);
    let node = weir_lab::sdk::node(&mut |_| {}, &stop).unwrap();
    let python = weir_lab::sdk::python(&mut |_| {}, &stop).unwrap();
    let java = weir_lab::sdk::java(&mut |_| {}, &stop).unwrap();
    let mut in_node = Command::new(&node.node_bin);
    in_node.arg(examples().join("node/live.js"));
    in_node.env("NODE_PATH", node.modules());
    let mut in_python = Command::new(&python.python_bin);
    in_python.arg(examples().join("python/live.py"));
    let mut in_java = Command::new(&java.java_bin);
    in_java.args(["-cp", &java.class_path]);
    in_java.arg(examples().join("java/Live.java"));
    [in_node, in_python, in_java]
}

/// Returns the programs that need no SDK, without arguments.
fn programs_of_events() -> [Command; 2] {
    let mut in_node = Command::new("node");
    in_node.arg(examples().join("events/live.mjs"));
    let mut in_python = Command::new("python3");
    in_python.arg("-u").arg(examples().join("events/live.py"));
    [in_node, in_python]
}

#[test]
fn programs_without_a_gateway_name_its_address() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let expected = format!("no gateway answers at {server}, trying again");
    for mut command in programs().into_iter().chain(programs_of_events()) {
        let mut child = Process::spawn(command.arg(&server).stderr(Stdio::piped()));
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let found = lines
            .by_ref()
            .map_while(Result::ok)
            .find(|line| *line == expected);
        assert!(found.is_some(), "{command:?}");
    }
}

#[test]
fn programs_show_live_records() {
    let stop = AtomicBool::new(false);
    let options = LabOptions {
        heap_mb: 256,
        ready_timeout: 2 * TEST_TIMEOUT,
        ..LabOptions::default()
    };
    let lab = Lab::up(&options, &mut |_| {}, &stop).unwrap();
    let bootstrap = lab.bootstrap();
    let admin = Admin::connect(
        &weir_kafka::KafkaSettings::plaintext(&bootstrap),
        TEST_TIMEOUT,
    )
    .unwrap();
    admin.create_topic("LTest", 2, 1, &[]).unwrap();
    let config = ProducerConfig {
        kafka: weir_kafka::KafkaSettings::plaintext(&bootstrap),
        ..ProducerConfig::default()
    };
    let producer = Producer::start(&config, Box::new(|_| {})).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let (_gateway, server) = gateway(dir.path(), &bootstrap);

    for mut command in programs() {
        let (_program, lines) = start(command.args([server.as_str(), "Apple", "Kiwi"]));
        let deadline = Instant::now() + TEST_TIMEOUT;
        let line = loop {
            let (key, value) = (Some(&b"Kiwi"[..]), "grün 猕猴桃".as_bytes());
            producer
                .send("LTest", None, key, Some(value), &[], None, 0)
                .unwrap();
            match lines.recv_timeout(PERIOD) {
                Ok(line) => break line,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => panic!("the program ended"),
            }
            assert!(Instant::now() < deadline, "no record is shown");
        };
        assert!(line.starts_with("ltest-[key=Kiwi]  "), "{line}");
        assert!(line.ends_with("  grün 猕猴桃"), "{line}");
    }
}
