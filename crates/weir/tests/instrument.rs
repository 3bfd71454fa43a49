//! End-to-end tests of `weir bench`: a failing generator, a comparison of runs, a search.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Process, Signal, TestBroker, run_dir, schema, send_signal, text, weir};

/// A small plan with limits that a busy machine meets; the tests do not depend on its speed.
const PLAN: &str = r#"
name = "small"
title = "A small load"
question = "What does the instrument say?"
architectures = ["floor"]
levels = [5]
repetitions = 2
ramp_per_s = 100
warm_up = "500ms"
hold = "1s"
drain = "20s"

[workload]
kind = "keyed"
rate_per_s = 100
size_bytes = 64
producers = 2

[validity]
schedule_lag_p99_ms = 1000
clients_busy_share = 1.1

[stop]
response_mean_ms = 60000
"#;

/// Returns `weir bench <command>` with that plan on this broker.
fn bench(broker: &TestBroker, command: &str, out: &Path, args: &[&str]) -> Command {
    let plan = broker.scratch.path().join("small.toml");
    fs::write(&plan, PLAN).unwrap();
    let mut bench = weir(&["bench", command]);
    bench.arg(plan).arg("--out").arg(out);
    bench.args(["--bootstrap", &broker.bootstrap]).args(args);
    bench
}

fn run_json(dir: &Path) -> Value {
    let run = fs::read_to_string(dir.join("run.json")).unwrap();
    let run = serde_json::from_str(&run).unwrap();
    let found = schema::findings(&run);
    assert!(found.is_empty(), "{found:#?}");
    run
}

/// Waits until a file contains a text.
fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(120);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

#[test]
fn runs_are_judged() {
    let broker = TestBroker::start();
    stalled_generator_exits_with_4(&broker);
    let base = measured(&broker, "base", &[]);
    two_runs_are_compared(&broker, &base);
    search_ends_with_confirmed_load(&broker);
}

fn stalled_generator_exits_with_4(broker: &TestBroker) {
    let out = broker.scratch.path().join("stalled");
    let args = ["--repetitions", "1", "--hold", "6s"];
    let mut command = bench(broker, "run", &out, &args);
    let run = Process::spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let file = |name: &str| {
        let path = run_dir(&out)?.join("floor-5-1").join(name);
        fs::read_to_string(path).ok()
    };
    // An interval is the first event within the window.
    let produce = wait("the window", || {
        file("produce.jsonl").filter(|printed| printed.contains("\"interval\""))
    });
    let hello: Value = serde_json::from_str(produce.lines().next().unwrap()).unwrap();
    let pid = u32::try_from(hello["pid"].as_u64().unwrap()).unwrap();
    let reports =
        || file("clients.jsonl").map_or(0, |printed| printed.matches("\"progress\"").count());
    send_signal(pid, Signal::STOP);
    let before = reports();
    wait("three more seconds", || {
        (reports() >= before + 3).then_some(())
    });
    send_signal(pid, Signal::CONT);
    let output = run.output();
    let stdout = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(4),
        "{stdout}{}",
        text(&output.stderr)
    );
    assert!(
        stdout.contains("generator behind schedule: p99"),
        "{stdout}"
    );
    let run = run_json(&run_dir(&out).unwrap());
    assert_eq!(run["outcome"], "invalid");
    assert_eq!(run["cells"][0]["status"]["state"], "invalid");
}

/// Runs two repetitions and returns the run directory.
fn measured(broker: &TestBroker, name: &str, args: &[&str]) -> PathBuf {
    let out = broker.scratch.path().join(name);
    let output = bench(broker, "run", &out, args).output().unwrap();
    let printed = format!("{}{}", text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{printed}");
    run_dir(&out).unwrap()
}

fn two_runs_are_compared(broker: &TestBroker, base: &Path) {
    let path = base.to_str().unwrap();
    let other = measured(
        broker,
        "other",
        &["--baseline", path, "--margin", "1000", "--fail-on", "worse"],
    );
    let run = run_json(&other);
    let comparison = &run["comparisons"][0];
    assert_eq!(comparison["base"]["label"], path);
    assert_eq!(
        comparison["subjects"].as_array().unwrap().len(),
        1,
        "{comparison}"
    );
    let metrics = comparison["subjects"][0]["metrics"].as_array().unwrap();
    let lost = metrics
        .iter()
        .find(|metric| metric["metric"] == "lost")
        .unwrap();
    assert_eq!(lost["base_values"], serde_json::json!([0.0, 0.0]));
    assert_eq!(lost["verdict"], "equivalent");

    let comment = broker.scratch.path().join("comment.md");
    let mut compare = weir(&["bench", "compare", "--json", "--margin", "1000"]);
    let output = compare
        .args([base, &other])
        .arg("--markdown")
        .arg(&comment)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let again: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(again["subjects"], comparison["subjects"]);
    let comment = fs::read_to_string(comment).unwrap();
    assert!(
        comment.contains(r"| achieved\_records\_per\_s |"),
        "{comment}"
    );

    let table = weir(&["bench", "compare"])
        .args([base, &other])
        .output()
        .unwrap();
    let table = text(&table.stdout);
    assert!(
        table.contains("floor, 5 clients") && table.contains("2+2"),
        "{table}"
    );
    let nowhere = weir(&["bench", "compare", path, "/nowhere"])
        .output()
        .unwrap();
    assert_eq!(nowhere.status.code(), Some(2));
    let alone = weir(&["bench", "run", "keyed", "--fail-on", "worse"])
        .output()
        .unwrap();
    assert_eq!(
        alone.status.code(),
        Some(2),
        "nothing to fail on without a baseline"
    );
}

fn search_ends_with_confirmed_load(broker: &TestBroker) {
    let out = broker.scratch.path().join("search");
    let args = ["--start-load", "60", "--max-load", "100", "--quick"];
    let output = bench(broker, "find-max", &out, &args).output().unwrap();
    let stdout = text(&output.stdout);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{stdout}{}",
        text(&output.stderr)
    );
    assert!(
        stdout.contains("floor sustains at least 100 records/s (confirmed)"),
        "{stdout}"
    );
    let run = run_json(&run_dir(&out).unwrap());
    let search = &run["find_max"];
    assert_eq!(search["outcome"]["state"], "at_least");
    assert_eq!(search["outcome"]["value"], 100.0);
    let tried: Vec<_> = search["steps"]
        .as_array()
        .unwrap()
        .iter()
        .map(|step| &step["value"])
        .collect();
    assert_eq!(tried, [60.0, 100.0, 100.0]);
    assert_eq!(run["cells"].as_array().unwrap().len(), 3);
    assert_eq!(
        run["cells"][2]["hold_s"], 2.0,
        "the window that confirms is twice as long"
    );
}
