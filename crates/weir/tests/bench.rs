//! End-to-end tests of `weir bench` and `weir load` with a real broker.

mod support;

use std::fs;
use std::io::{BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Process, Signal, TestBroker, run_dir, send_signal, text, weir};

impl TestBroker {
    /// A separate directory.
    fn dir(&self, name: &str) -> PathBuf {
        let dir = self.scratch.path().join(name);
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    /// Returns `weir bench run` on this broker with a plan whose limits a busy machine meets. These
    /// tests check the counts, not the speed.
    fn bench(&self, out: &Path, args: &[&str]) -> Command {
        self.bench_plan(KEYED, out, args)
    }

    /// Returns the same command with another plan.
    fn bench_plan(&self, plan: &str, out: &Path, args: &[&str]) -> Command {
        let mut command = bench(self.scratch.path(), plan, out, args);
        command.args(["--bootstrap", &self.bootstrap]);
        command
    }
}

/// Returns `weir bench run` with a plan that is written into `scratch`.
fn bench(scratch: &Path, text: &str, out: &Path, args: &[&str]) -> Command {
    let plan = scratch.join("tolerant.toml");
    let tolerant = text
        .replace("schedule_lag_p99_ms = 20", "schedule_lag_p99_ms = 60000")
        .replace("clients_busy_share = 0.9", "clients_busy_share = 1.1")
        .replace("response_mean_ms = 1000", "response_mean_ms = 60000")
        .replace("broker_warm_up = \"20s\"", "broker_warm_up = \"0s\"");
    assert_ne!(tolerant, text);
    fs::write(&plan, tolerant).unwrap();
    let mut command = weir(&["bench", "run"]);
    command.arg(plan).arg("--out").arg(out).args(args);
    command
}

fn run_json(dir: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(dir.join("run.json")).unwrap()).unwrap()
}

/// All tests share one broker, because its start takes the most time.
#[test]
fn runs_on_a_real_broker() {
    let broker = TestBroker::start();
    all_architectures_are_measured(&broker);
    only_changed_fields_are_sent(&broker);
    only_patches_are_sent(&broker);
    consumers_and_floor_deliver_all_records(&broker);
    interrupted_run_stores_measured_cells(&broker);
    unreachable_targets_set_the_exit_code(&broker);
}

fn all_architectures_are_measured(broker: &TestBroker) {
    let out = broker.dir("all");
    let args = [
        "--levels",
        "20",
        "--warm-up",
        "500ms",
        "--hold",
        "2s",
        "--drain",
        "20s",
    ];
    let output = broker.bench(&out, &args).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    assert!(
        stdout.contains("COMPLETE") && stdout.contains("report.html"),
        "{stdout}"
    );

    let dir = run_dir(&out).unwrap();
    let run = run_json(&dir);
    assert_eq!(run["schema"], "weir.run/3");
    assert_eq!(run["outcome"], "complete");
    let cells = run["cells"].as_array().unwrap();
    let names: Vec<_> = cells
        .iter()
        .map(|cell| cell["architecture"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["groups", "standalone", "gateway", "floor"]);
    for cell in cells {
        check_cell(cell, &dir);
    }
    let probe = &cells[2]["probe"];
    if probe.is_null() {
        // Without Node, a note reports the missing probe.
        assert!(
            cells[2]["notes"].to_string().contains("no SDK client"),
            "{}",
            cells[2]["notes"]
        );
    } else {
        assert_eq!(probe["ok"], true, "{probe}");
    }
    for file in ["report.md", "report.html", "cells.csv", "series.csv"] {
        assert!(dir.join(file).is_file(), "{file}");
    }
    fs::remove_file(dir.join("report.html")).unwrap();
    let rebuilt = weir(&["bench", "report"]).arg(&dir).output().unwrap();
    assert!(rebuilt.status.success() && text(&rebuilt.stdout).contains("20 clients"));
    assert!(dir.join("report.html").is_file());
}

/// Asserts that twenty clients of a cell received all their records, and that all counters agree.
fn check_cell(cell: &Value, dir: &Path) {
    let name = cell["architecture"].as_str().unwrap();
    assert_eq!(cell["status"]["state"], "valid", "{cell}");
    let delivery = &cell["delivery"];
    for figure in [
        "lost",
        "duplicated",
        "reordered",
        "unchecked",
        "disconnects",
    ] {
        // The first groups of a new cluster retry, because its group coordinator is not ready.
        if (name, figure) == ("groups", "disconnects") {
            continue;
        }
        assert_eq!(delivery[figure], 0, "{name}: {figure}: {delivery}");
    }
    let delivered = delivery["delivered"].as_u64().unwrap();
    let reads_all = ["groups", "standalone"].contains(&name);
    if reads_all {
        // 200 records are due in two seconds, and each client reads all of them.
        assert_eq!(delivered, 4000, "{cell}");
    } else {
        // The keys are random: about one in forty of 200 records for each of 20 clients.
        assert!((20..400).contains(&delivered), "{name}: {delivered}");
    }
    assert_eq!(
        cell["latency"]["response"]["count"].as_u64(),
        Some(delivered),
        "{name}"
    );
    assert_eq!(
        cell["latency"]["service"]["count"].as_u64(),
        Some(delivered),
        "{name}"
    );
    assert_eq!(
        cell["latency"]["publish_ack"]["count"].as_u64(),
        Some(200),
        "{name}"
    );
    let roles: Vec<_> = cell["roles"]
        .as_array()
        .unwrap()
        .iter()
        .map(|role| &role["role"])
        .collect();
    let receiving = if reads_all { "consume" } else { "clients" };
    assert!(roles.iter().any(|role| *role == receiving), "{roles:?}");
    assert!(roles.iter().any(|role| *role == "produce"), "{roles:?}");
    let log = fs::read_to_string(dir.join(cell["hlog_file"].as_str().unwrap())).unwrap();
    for tag in ["response", "service", "schedule_lag", "publish_ack"] {
        assert!(log.contains(&format!("Tag={tag},")), "{name}: {tag}");
    }
    let raw = dir.join(format!("{name}-20-1"));
    assert!(raw.join("produce.jsonl").is_file() && raw.join("produce.log").is_file());
}

/// Returns the cells of a short run of another plan. Each must be valid, without lost records.
fn cells_of(broker: &TestBroker, plan: &str, name: &str, architectures: &str) -> Vec<Value> {
    let out = broker.dir(name);
    let args = [
        "--levels",
        "40",
        "--warm-up",
        "1s",
        "--hold",
        "3s",
        "--drain",
        "20s",
        "--architectures",
        architectures,
    ];
    let output = broker.bench_plan(plan, &out, &args).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    let run = run_json(&run_dir(&out).unwrap());
    let cells = run["cells"].as_array().unwrap().clone();
    for cell in &cells {
        assert_eq!(cell["status"]["state"], "valid", "{cell}");
        let delivery = &cell["delivery"];
        assert_eq!(
            (&delivery["lost"], &delivery["errors"]),
            (&0.into(), &serde_json::json!({}))
        );
        assert!(
            cell["probe"].is_null() || cell["probe"]["ok"] == true,
            "{cell}"
        );
    }
    cells
}

/// Scenario 3: a consumer reads whole records; clients of the gateway and of the floor receive a
/// fraction.
fn only_changed_fields_are_sent(broker: &TestBroker) {
    let cells = cells_of(broker, JSON_FIELDS, "json", "standalone,gateway,floor");
    let bytes_each = |cell: &Value| {
        let delivery = &cell["delivery"];
        delivery["received_bytes"].as_f64().unwrap() / delivery["delivered"].as_f64().unwrap()
    };
    let [standalone, gateway, floor] = [&cells[0], &cells[1], &cells[2]].map(bytes_each);
    assert!(standalone > 1200.0, "{standalone}");
    assert!(gateway < 800.0 && floor < 800.0, "{gateway} {floor}");
}

/// Scenario 3 with JSON Patch: clients have whole records, and gateway and floor send patches.
fn only_patches_are_sent(broker: &TestBroker) {
    for cell in cells_of(broker, JSON_PATCH, "patch", "gateway,floor") {
        let delivery = &cell["delivery"];
        let delivered = delivery["delivered"].as_f64().unwrap();
        let bytes_each = delivery["received_bytes"].as_f64().unwrap() / delivered;
        assert!((400.0..700.0).contains(&bytes_each), "{cell}");
    }
}

/// Scenario 1: 4 records per second to each of 40 clients.
fn consumers_and_floor_deliver_all_records(broker: &TestBroker) {
    for cell in cells_of(broker, BROADCAST, "broadcast", "gateway,floor") {
        assert_eq!(cell["delivery"]["delivered"], 12 * 40, "{cell}");
    }
}

fn interrupted_run_stores_measured_cells(broker: &TestBroker) {
    let out = broker.dir("interrupted");
    let args = [
        "--levels",
        "10,20",
        "--warm-up",
        "0s",
        "--hold",
        "10m",
        "--architectures",
        "floor",
    ];
    let mut command = broker.bench(&out, &args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Process::spawn(&mut command);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    wait_for_line(&mut stdout, "hold");
    let dir = run_dir(&out).unwrap();
    wait_until("an interval in the log", || {
        let log = fs::read_to_string(dir.join("floor-10-1.hlog")).unwrap_or_default();
        let events = dir.join("floor-10-1/clients.jsonl");
        let events = fs::read_to_string(events).unwrap_or_default();
        log.contains("Tag=") || events.contains("\"interval\"")
    });
    send_signal(child.id(), Signal::INT);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(exit_code(&mut child), Some(130), "{rest}");
    assert!(rest.contains("INTERRUPTED"), "{rest}");

    let run = run_json(&dir);
    assert_eq!(run["outcome"], "interrupted");
    let cells = run["cells"].as_array().unwrap();
    assert_eq!(cells[0]["status"]["state"], "valid", "{}", cells[0]);
    assert!(cells[0]["delivery"]["delivered"].as_u64() > Some(0));
    assert_eq!(cells[0]["delivery"]["lost"], 0);
    assert_eq!(cells[1]["status"]["state"], "skipped");
    assert!(dir.join("report.html").is_file());
    for part in ["produce", "clients", "floor"] {
        let events = fs::read_to_string(dir.join(format!("floor-10-1/{part}.jsonl"))).unwrap();
        let hello: Value = serde_json::from_str(events.lines().next().unwrap()).unwrap();
        let process = PathBuf::from(format!("/proc/{}", hello["pid"]));
        assert!(!process.exists(), "{part} is still there");
    }
}

fn unreachable_targets_set_the_exit_code(broker: &TestBroker) {
    let out = broker.dir("unreachable");
    let mut command = weir(&[
        "bench",
        "run",
        "keyed",
        "--quick",
        "--bootstrap",
        "127.0.0.1:1",
    ]);
    let output = command.arg("--out").arg(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", text(&output.stderr));
    assert!(
        text(&output.stderr).contains("127.0.0.1:1"),
        "{}",
        text(&output.stderr)
    );
    let output = weir(&["load", "clients", "--server", "ws://127.0.0.1:1"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(
        text(&output.stderr).contains("connection refused"),
        "{}",
        text(&output.stderr)
    );
}

/// The run starts its own broker, which is killed within the window.
#[test]
fn broker_exit_invalidates_the_run() {
    let scratch = tempfile::tempdir().unwrap();
    let out = scratch.path().join("runs");
    let args = [
        "--levels",
        "5,10",
        "--warm-up",
        "0s",
        "--hold",
        "10m",
        "--architectures",
        "floor",
    ];
    let mut command = bench(scratch.path(), KEYED, &out, &args);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Process::spawn(&mut command);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    wait_for_line(&mut stdout, "hold");
    let brokers = children_of(child.id(), "java");
    assert_eq!(brokers.len(), 1, "{brokers:?}");
    send_signal(brokers[0], Signal::KILL);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(exit_code(&mut child), Some(4), "{rest}");
    assert!(
        rest.contains("INVALID") && rest.contains(BROKER_GONE),
        "{rest}"
    );

    let run = run_json(&run_dir(&out).unwrap());
    assert_eq!(run["outcome"], "invalid");
    let cells = run["cells"].as_array().unwrap();
    let status = &cells[0]["status"];
    assert_eq!(status["state"], "invalid");
    assert!(
        status["reasons"].to_string().contains(BROKER_GONE),
        "{status}"
    );
    let next = &cells[1]["status"];
    assert_eq!(
        (&next["state"], &next["reason"]),
        (&"skipped".into(), &BROKER_GONE.into())
    );
}

/// The demo prints all parameters for clients, serves them, and ends with Ctrl-C.
#[test]
fn demo_serve_accepts_clients() {
    let scratch = tempfile::tempdir().unwrap();
    let mut command = weir(&["demo", "--serve", "--listen", "127.0.0.1:0"]);
    command.args(["--admin", "127.0.0.1:0", "--out"]);
    command.arg(scratch.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = Process::spawn(&mut command);
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let gateway = wait_for_line(&mut stdout, "gateway ");
    let item = wait_for_line(&mut stdout, "item ");
    assert!(item.ends_with("ltest-[key=Apple]\n"), "{item}");
    let dashboard = wait_for_line(&mut stdout, "dashboard ");
    wait_for_line(&mut stdout, "Stop with Ctrl-C");
    let page = dashboard.split_once("http://").unwrap().1.trim_end();
    let (address, path) = page.split_once('/').unwrap();
    assert!(get(address, &format!("/{path}")).starts_with("HTTP/1.1 200 OK\r\n"));
    let url = gateway.split(['(', ')']).nth(1).unwrap();
    wait_until("records to be written", || {
        let events = scratch.path().join("live/produce.jsonl");
        let events = fs::read_to_string(events).unwrap_or_default();
        let mut events = events
            .lines()
            .filter_map(|line| serde_json::from_str(line).ok());
        events.any(|event: Value| event["counters"]["acked"].as_u64() > Some(0))
    });
    let clients = [
        "load",
        "clients",
        "--clients",
        "40",
        "--duration",
        "2s",
        "--json",
        "--url",
        url,
    ];
    let output = weir(&clients).output().unwrap();
    // The event loop may be saturated here (exit code 4); the results are printed anyway.
    assert!(
        matches!(output.status.code(), Some(0 | 4)),
        "{}",
        text(&output.stderr)
    );
    let events = text(&output.stdout);
    let last: Value = serde_json::from_str(events.lines().last().unwrap()).unwrap();
    let updates = &last["summary"]["updates_total"];
    assert!(updates.as_u64() > Some(0), "{last}");
    let parts = children_of(child.id(), "weir");
    assert_eq!(parts.len(), 2, "gateway and producers");
    send_signal(child.id(), Signal::INT);
    assert_eq!(exit_code(&mut child), Some(0));
    assert!(
        parts
            .iter()
            .all(|pid| !Path::new(&format!("/proc/{pid}")).exists())
    );
}

/// Returns the child processes of a process by program name.
fn children_of(parent: u32, name: &str) -> Vec<u32> {
    let pids = fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid = entry.unwrap().file_name();
        pid.to_str()?.parse::<u32>().ok()
    });
    pids.filter(|pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // `pid (name) state parent ...`; the name may contain any character.
        let Some((head, tail)) = stat.rsplit_once(") ") else {
            return false;
        };
        let is_child = tail.split(' ').nth(1) == Some(&parent.to_string());
        is_child && head.split_once('(').is_some_and(|(_, found)| found == name)
    })
    .collect()
}

fn wait_for_line(stdout: &mut impl std::io::BufRead, part: &str) -> String {
    let mut line = String::new();
    while !line.contains(part) {
        line.clear();
        assert!(
            stdout.read_line(&mut line).unwrap() > 0,
            "ended before \"{part}\""
        );
    }
    line
}

/// Returns the response of a server to the request of a page.
fn get(address: &str, path: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let deadline = Instant::now() + TEST_TIMEOUT;
    while !done() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(LOOK);
    }
}

/// Waits for the exit, and kills the process after a timeout.
fn exit_code(child: &mut Child) -> Option<i32> {
    let deadline = Instant::now() + TEST_TIMEOUT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if Instant::now() > deadline {
            child.kill().unwrap();
        }
        std::thread::sleep(LOOK);
    }
}

const TEST_TIMEOUT: Duration = Duration::from_secs(60);
const BROKER_GONE: &str = "the broker of this run has exited";
/// Interval at which a condition is polled.
const LOOK: Duration = Duration::from_millis(20);
const BROADCAST: &str = include_str!("../../../plans/broadcast.toml");
const JSON_FIELDS: &str = include_str!("../../../plans/json-fields.toml");
const JSON_PATCH: &str = include_str!("../../../plans/json-patch.toml");
const KEYED: &str = include_str!("../../../plans/keyed.toml");
