//! `bench/published`, the script of `make published`: stops at its budget, resumes, lists what was
//! not run; and the commands of its list are ones that the program accepts.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::{Process, Signal, TestBroker, send_signal, text, weir};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns a call of the script with this list.
fn published(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg(root().join("bench/published")).args(args);
    command.arg("--list").arg(dir.join("cells.toml"));
    command
        .arg("--out")
        .arg(dir.join("out"))
        .stdin(Stdio::null());
    command.env("WEIR", env!("CARGO_BIN_EXE_weir"));
    command
}

/// Returns a cell: a sweep of one point on this broker.
fn cell(name: &str, minutes: u32, hold: &str, broker: &TestBroker) -> String {
    let bootstrap = &broker.bootstrap;
    format!(
        r#"
[[cell]]
name = "{name}"
minutes = {minutes}
weir = ["bench", "run", "broker-sweep", "--quick", "--bootstrap", "{bootstrap}",
  "--record-sizes", "100", "--target-rates", "50", "--fetch-sizes", "3000", "--records", "100",
  "--repetitions", "1", "--warm-up", "100ms", "--hold", "{hold}"]
"#
    )
}

/// Returns the cells of the state file by name.
fn state(dir: &Path) -> BTreeMap<String, Value> {
    let file = fs::read_to_string(dir.join("out/state.json")).unwrap();
    let file: Value = serde_json::from_str(&file).unwrap();
    serde_json::from_value(file["cells"].clone()).unwrap()
}

/// Returns what a call prints; its exit code must be `code`.
fn printed(command: &mut Command, code: i32) -> String {
    let output = command.output().unwrap();
    let printed = text(&output.stdout);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{printed}{stderr}");
    printed
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < deadline, "timed out waiting for {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn calls_stop_at_their_budget_and_resume() {
    let broker = TestBroker::start();
    let dir = broker.scratch.path();
    let list = cell("one", 4, "500ms", &broker) + &cell("two", 5, "500ms", &broker);
    let elsewhere = r#"
[[table]]
publication = "000"
title = "A large one"
reason = "ninety machines"
command = "weir bench run broadcast --levels 90k"
"#;
    fs::write(dir.join("cells.toml"), list + elsewhere).unwrap();

    // The second cell no longer fits after the first one.
    let first = printed(&mut published(dir, &["--budget", "5"]), 0);
    assert!(first.contains("published: 1 of 2 cells done"), "{first}");
    assert!(first.contains("not run (5 minutes):\n  two "), "{first}");
    assert!(
        first.contains("000 A large one: ninety machines\n"),
        "{first}"
    );
    assert!(
        first.contains("    weir bench run broadcast --levels 90k\n"),
        "{first}"
    );
    let cells = state(dir);
    assert_eq!(cells.keys().collect::<Vec<_>>(), ["one"]);
    let run = dir.join("out").join(cells["one"]["run"].as_str().unwrap());
    assert!(run.join("run.json").is_file(), "{cells:?}");
    let answer = cells["one"]["answer"].as_str().unwrap();
    assert!(
        answer.len() > 10 && first.contains(answer),
        "{answer}: {first}"
    );

    let second = printed(&mut published(dir, &["--budget", "90"]), 0);
    assert!(!second.contains("published: one: about"), "{second}");
    assert!(second.contains("published: 2 of 2 cells done"), "{second}");
    assert_eq!(state(dir)["one"], cells["one"], "the first one ran again");

    let again = ["--again", "two", "--status"];
    let status = printed(&mut published(dir, &again), 0);
    assert!(status.contains("published: 1 of 2 cells done"), "{status}");
    printed(&mut published(dir, &["--only", "three"]), 2);
}

#[test]
fn interrupted_and_failed_cells_are_run_again() {
    let broker = TestBroker::start();
    let dir = broker.scratch.path();
    let long = cell("long", 4, "10m", &broker);
    let wrong =
        "[[cell]]\nname = \"wrong\"\nminutes = 1\nweir = [\"bench\", \"run\", \"nothing\"]\n";
    let away = cell("away", 1, "1s", &broker).replace(&broker.bootstrap, "127.0.0.1:1");
    fs::write(dir.join("cells.toml"), format!("{wrong}{away}{long}")).unwrap();
    let unreachable = printed(&mut published(dir, &["--only", "away"]), 1);
    assert!(
        unreachable.contains("away: failed with exit code 3"),
        "{unreachable}"
    );
    let failed = printed(&mut published(dir, &["--only", "wrong"]), 1);
    assert!(
        failed.contains("wrong: failed with exit code 2"),
        "{failed}"
    );

    let mut call = published(dir, &["--only", "long"]);
    let child = Process::spawn(call.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let log = dir.join("out/long/output.txt");
    let is_running = || fs::read_to_string(&log).is_ok_and(|text| text.contains("produce"));
    wait_until("the cell", is_running);
    send_signal(child.id(), Signal::INT);
    let output = child.output();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    assert_eq!(state(dir)["long"]["result"], "interrupted");
    let status = printed(&mut published(dir, &["--status"]), 0);
    assert!(status.contains("published: 0 of 3 cells done"), "{status}");
    assert!(status.contains("  (interrupted)\n"), "{status}");

    // The budget ends a cell that lasts longer than expected.
    let short = cell("long", 0, "10m", &broker);
    fs::write(dir.join("cells.toml"), short).unwrap();
    let ended = printed(&mut published(dir, &["--budget", "0.2"]), 0);
    assert!(ended.contains("published: long: interrupted"), "{ended}");
    assert!(ended.contains("published: 0 of 1 cells done"), "{ended}");
}

/// The commands of the list, without running them.
#[test]
fn listed_commands_are_accepted() {
    let list = fs::read_to_string(root().join("bench/published.toml")).unwrap();
    let list: toml::Table = toml::from_str(&list).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let mut started = Vec::new();
    for cell in list["cell"].as_array().unwrap() {
        let Some(words) = cell.get("weir").and_then(toml::Value::as_array) else {
            let script = cell["script"].as_array().unwrap()[0].as_str().unwrap();
            assert!(root().join("bench").join(script).is_file(), "{script}");
            continue;
        };
        let words: Vec<&str> = words.iter().map(|word| word.as_str().unwrap()).collect();
        // An experiment without a dry run is stopped by a broker that is not there.
        let (more, code): (&[&str], i32) = match words[2] {
            "client-libraries" => (&["--list-cells"], 0),
            "proxy-overhead" => (&["--bootstrap", "127.0.0.1:1"], 3),
            _ => (&["--dry-run"], 0),
        };
        let mut command = weir(&words);
        command.args(more).arg("--out").arg(dir.path());
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        // All at once, because some wait for that broker.
        started.push((words.join(" "), code, Process::spawn(&mut command)));
    }
    assert!(started.len() > 20, "{}", started.len());
    for (words, code, process) in started {
        let output = process.output();
        let found = output.status.code();
        // A dry run also ends with 1: a limit of this machine is too low.
        let accepted = found == Some(code) || (code == 0 && found == Some(1));
        assert!(accepted, "{words}: {found:?} {}", text(&output.stderr));
    }
}
