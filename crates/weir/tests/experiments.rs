//! End-to-end tests of the filtering and broker experiments with a real broker.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use support::{TestBroker, run_dir, text, weir};

/// Returns `weir bench run` of a plan whose limits a busy machine meets. These tests check the
/// counts, not the speed.
fn run(broker: &TestBroker, plan: &str, name: &str, args: &[&str]) -> (PathBuf, Value) {
    let tolerant = plan
        .replace("schedule_lag_p99_ms = 20", "schedule_lag_p99_ms = 60000")
        .replace("clients_busy_share = 0.9", "clients_busy_share = 1.1")
        .replace("response_mean_ms = 100\n", "response_mean_ms = 60000\n")
        .replace("marked_per_s = 1000", "marked_per_s = 200");
    assert_ne!(tolerant, plan);
    let file = broker.scratch.path().join(format!("{name}.toml"));
    fs::write(&file, tolerant).unwrap();
    let out = broker.scratch.path().join(name);
    let mut command = weir(&["bench", "run"]);
    command.arg(&file).arg("--out").arg(&out);
    command.args(["--bootstrap", &broker.bootstrap, "--warm-up", "500ms"]);
    let output = command.args(args).output().unwrap();
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    read(&out)
}

/// Returns the only run directory in `out`, and its run.
fn read(out: &Path) -> (PathBuf, Value) {
    let directory = run_dir(out).expect("a run directory");
    let run = fs::read_to_string(directory.join("run.json")).unwrap();
    assert!(directory.join("report.html").is_file() && directory.join("report.md").is_file());
    (directory, serde_json::from_str(&run).unwrap())
}

/// All tests share one broker, because its start takes the most time.
#[test]
fn experiments_run_on_a_real_broker() {
    let broker = TestBroker::start();
    background_is_counted_and_marked_records_are_timed(&broker);
    one_element_of_a_large_key_is_found(&broker);
    existing_topic_and_key_are_used(&broker);
    a_grid_of_clients_and_rates(&broker);
    sweep_files_match_kafkas_tools(&broker);
    groups_drain_the_backlog_of_several_topics(&broker);
}

fn background_is_counted_and_marked_records_are_timed(broker: &TestBroker) {
    let args = ["--rates", "600,800", "--hold", "2s", "--drain", "20s"];
    let (_, run) = run(broker, FILTER_BASIC, "basic", &args);
    let cells = run["cells"].as_array().unwrap();
    let labels: Vec<_> = cells
        .iter()
        .map(|cell| {
            (
                cell["variant"].as_str().unwrap(),
                cell["parameters"]["rate_per_s"].as_f64().unwrap(),
            )
        })
        .collect();
    let (one, four) = ("1-thread", "4-threads");
    assert_eq!(
        labels,
        [(one, 600.0), (four, 600.0), (one, 800.0), (four, 800.0)]
    );
    for cell in cells {
        assert_eq!(cell["status"]["state"], "valid", "{cell}");
        let delivery = &cell["delivery"];
        for figure in ["lost", "duplicated", "reordered", "unchecked"] {
            assert_eq!(delivery[figure], 0, "{figure}: {cell}");
        }
        // One of the 40 keys of all records; only its marked records are timed.
        let delivered = delivery["delivered"].as_u64().unwrap();
        let timed = cell["latency"]["response"]["count"].as_u64().unwrap();
        assert!((10..80).contains(&delivered), "{cell}");
        assert!(timed > 0 && timed < delivered, "{timed} of {delivered}");
        // Only the marked records: 200 per second.
        assert_eq!(cell["latency"]["schedule_lag"]["count"], 400, "{cell}");
        assert!(
            cell["figures"]["mapping_thread_busy_share"].is_number(),
            "{cell}"
        );
    }
    let derived = run["derived"].to_string();
    assert!(derived.contains("highest sustained rate"), "{derived}");
    let reference = run["reference"]["rows"].as_array().unwrap();
    assert_eq!(reference[0]["parameters"]["rate_per_s"], 64000.0);
}

fn one_element_of_a_large_key_is_found(broker: &TestBroker) {
    let plan = FILTER_DEEP_KEY.replace("marked_per_s = 400", "marked_per_s = 100");
    let args = ["--rates", "200", "--hold", "2s", "--drain", "20s"];
    let (_, run) = run(broker, &plan, "deep", &args);
    for cell in run["cells"].as_array().unwrap() {
        assert_eq!(cell["status"]["state"], "valid", "{cell}");
        let delivery = &cell["delivery"];
        assert!(delivery["delivered"].as_u64() > Some(0), "{cell}");
        assert_eq!(
            (&delivery["lost"], &delivery["unchecked"]),
            (&0.into(), &0.into())
        );
    }
}

fn existing_topic_and_key_are_used(broker: &TestBroker) {
    let produce = [
        "load",
        "produce",
        "--topic",
        "experiment-orders",
        "--create-topic",
        "2",
        "--count",
        "1",
    ];
    let mut produce = weir(&produce);
    produce.args(["--bootstrap", &broker.bootstrap]);
    let output = produce.output().unwrap();
    // A producer on a busy machine may be late, which makes its measurement invalid.
    let produced = matches!(output.status.code(), Some(0 | 4));
    assert!(produced, "{}{}", text(&output.stdout), text(&output.stderr));
    let args = [
        "--rates",
        "400",
        "--hold",
        "2s",
        "--drain",
        "20s",
        "--topic",
        "experiment-orders",
        "--key",
        "order-17",
    ];
    let (_, run) = run(broker, FILTER_BASIC, "own", &args);
    for cell in run["cells"].as_array().unwrap() {
        assert_eq!(cell["status"]["state"], "valid", "{cell}");
        assert!(cell["delivery"]["delivered"].as_u64() > Some(0), "{cell}");
        assert_eq!(cell["delivery"]["lost"], 0);
    }
}

fn a_grid_of_clients_and_rates(broker: &TestBroker) {
    let args = [
        "--levels", "20,40", "--rates", "50,100", "--hold", "1s", "--drain", "20s",
    ];
    let (_, run) = run(broker, FILTER_MATRIX, "matrix", &args);
    let cells = run["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        assert_eq!(cell["delivery"]["lost"], 0, "{cell}");
    }
    assert_eq!(cells[1]["clients"], 40);
    assert_eq!(cells[2]["parameters"]["rate_per_s"], 100.0);
}

fn sweep_files_match_kafkas_tools(broker: &TestBroker) {
    let args = [
        "--record-sizes",
        "100,1k",
        "--target-rates",
        "500",
        "--fetch-sizes",
        "3k",
        "--records",
        "2k",
        "--hold",
        "2s",
    ];
    let (directory, run) = run(broker, BROKER_SWEEP, "sweep", &args);
    let cells = run["cells"].as_array().unwrap();
    let architectures: Vec<_> = cells
        .iter()
        .map(|cell| cell["architecture"].as_str().unwrap())
        .collect();
    assert_eq!(architectures, ["producer", "producer", "consumer"]);
    for cell in cells {
        assert_eq!(cell["status"]["state"], "valid", "{cell}");
    }
    assert_eq!(
        cells[0]["latency"]["publish_ack"]["count"], 1000,
        "{}",
        cells[0]
    );
    assert_eq!(cells[1]["record_bytes_mean"], 1000.0);
    let consumer = &cells[2]["figures"];
    assert_eq!(consumer["messages"], 2000.0);
    let data_mib = consumer["data_mib"].as_f64().unwrap();
    assert!(
        (data_mib - 2_000_000.0 / 1_048_576.0).abs() < 0.001,
        "{data_mib}"
    );
    assert!(run["derived"].to_string().contains("knee"));

    let file = |name: &str| directory.join(name);
    let producer = fs::read_to_string(file("test-producer-1000-500.txt")).unwrap();
    let last = producer.lines().last().unwrap();
    assert!(
        last.starts_with("1000 records sent, ") && last.ends_with(" ms 99.9th."),
        "{last}"
    );
    let consumer = fs::read_to_string(file("test-consumer-3000.txt")).unwrap();
    assert!(
        consumer.starts_with("start.time, end.time, data.consumed.in.MB,"),
        "{consumer}"
    );

    // The written files can be read like those of the tools.
    let out = broker.scratch.path().join("imported");
    let mut import = weir(&["bench", "import"]);
    import
        .arg(file("test-producer-1000-500.txt"))
        .arg(file("test-consumer-3000.txt"));
    let output = import.arg("--out").arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let (_, imported) = read(&out);
    let [producer, consumer] = &imported["cells"].as_array().unwrap()[..] else {
        panic!("two cells: {imported}");
    };
    assert_eq!(producer["parameters"]["record_size_bytes"], 1000.0);
    assert_eq!(consumer["figures"]["messages"], 2000.0);
}

#[test]
fn import_rejects_other_files() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("notes.txt");
    fs::write(&file, "nothing of theirs\n").unwrap();
    let out = dir.path().join("out");
    let mut import = weir(&["bench", "import"]);
    let output = import.arg(&file).arg("--out").arg(&out).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("no output line of kafka-producer-perf-test")
            && errors.contains("notes.txt"),
        "{errors}"
    );
    assert_eq!(fs::read_dir(&out).unwrap().count(), 0);
}

fn groups_drain_the_backlog_of_several_topics(broker: &TestBroker) {
    let plan = TOPICS_AND_GROUPS
        .replace("# transaction_duration", "transaction_duration")
        .replace("backlog = \"20s\"", "backlog = \"1s\"")
        .replace("partitions = 16", "partitions = 3");
    let args = [
        "--levels", "16", "--rate", "400", "--hold", "3s", "--drain", "20s",
    ];
    let (directory, run) = run(broker, &plan, "groups", &args);
    let cell = &run["cells"][0];
    let delivery = &cell["delivery"];
    // Each record is in one of four topics and goes to one of its groups, of which there is one.
    assert_eq!(delivery["expected"], 1200, "{delivery}");
    let faults = ["lost", "duplicated", "reordered", "unchecked"].map(|name| &delivery[name]);
    assert!(faults.iter().all(|count| **count == 0), "{delivery}");
    let figure = |name: &str| cell["figures"][name].as_f64().unwrap();
    assert_eq!(figure("backlog_deliveries"), 400.0);
    let drain_s = figure("backlog_drain_s");
    assert!(drain_s > 0.0, "{drain_s}");
    // Of 40; a transaction takes longer on a busy machine.
    let committed = figure("transactions_committed");
    assert!(committed >= 4.0, "{committed}");
    let report = fs::read_to_string(directory.join("report.md")).unwrap();
    let answer = "16 consumers drain a backlog of 400 deliveries in ";
    assert!(report.contains(answer), "{report}");
}

const FILTER_BASIC: &str = include_str!("../../../plans/filter-basic.toml");
const FILTER_DEEP_KEY: &str = include_str!("../../../plans/filter-deep-key.toml");
const FILTER_MATRIX: &str = include_str!("../../../plans/filter-matrix.toml");
const TOPICS_AND_GROUPS: &str = include_str!("../../../plans/topics-and-groups.toml");
const BROKER_SWEEP: &str = include_str!("../../../plans/broker-sweep.toml");
