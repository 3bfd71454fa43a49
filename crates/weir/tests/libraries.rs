//! End-to-end tests of the comparison of client libraries: the built-in driver, failed drivers,
//! interrupted runs.

mod support;

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use flate2::read::MultiGzDecoder;
use serde_json::Value;
use weir_drivers::DriverProgram;
use weir_stats::run::LibrarySample;

use support::{Process, Signal, TestBroker, run_dir, schema, send_signal, text, weir};

/// The built-in plan with a shorter warm-up.
fn plan(broker: &TestBroker, name: &str, warm_up_records: u64) -> PathBuf {
    let plan = include_str!("../../../plans/client-libraries.toml");
    let less = plan
        .replace(
            "records = 10000\nvalue",
            &format!("records = {warm_up_records}\nvalue"),
        )
        .replace("rounds_min = 4", "rounds_min = 1")
        .replace("rounds_max = 20", "rounds_max = 2");
    assert_ne!(less, plan);
    let file = broker.scratch.path().join(format!("{name}.toml"));
    fs::write(&file, less).unwrap();
    file
}

fn arguments(broker: &TestBroker, plan: &Path, out: &Path, args: &[&str]) -> Vec<String> {
    let path = |path: &Path| path.display().to_string();
    let mut all = vec!["bench".to_owned(), "run".to_owned(), path(plan)];
    let own = [
        "--bootstrap",
        &broker.bootstrap,
        "--libraries",
        "librdkafka",
    ];
    all.extend(
        own.into_iter()
            .chain(args.iter().copied())
            .map(str::to_owned),
    );
    if !args.contains(&"--resume") {
        all.extend(["--out".to_owned(), path(out)]);
    }
    all
}

fn run(broker: &TestBroker, plan: &Path, out: &Path, args: &[&str]) -> Output {
    let all = arguments(broker, plan, out, args);
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    weir(&all).output().unwrap()
}

/// Returns the only run directory in `out`.
fn directory(out: &Path) -> PathBuf {
    run_dir(out).expect("a run directory")
}

fn read(directory: &Path) -> Value {
    let text = fs::read_to_string(directory.join("run.json")).unwrap();
    let run: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(schema::findings(&run), Vec::<String>::new());
    run
}

fn samples(run: &Value) -> &Vec<Value> {
    run["libraries"]["samples"].as_array().unwrap()
}

/// Returns the lines of a raw file, which is compressed when the run has ended.
fn raw_lines(directory: &Path, name: &str) -> Vec<String> {
    let packed = fs::File::open(directory.join(format!("{name}.gz")));
    let text = match packed {
        Ok(file) => {
            let mut text = String::new();
            MultiGzDecoder::new(file).read_to_string(&mut text).unwrap();
            text
        }
        Err(_) => fs::read_to_string(directory.join(name)).unwrap_or_default(),
    };
    text.lines().map(str::to_owned).collect()
}

fn lines(directory: &Path) -> Vec<String> {
    raw_lines(directory, "libraries.jsonl")
}

/// All tests share one broker, because its start takes the most time.
#[test]
fn libraries_are_compared_on_a_real_broker() {
    let broker = TestBroker::start();
    all_operations_are_measured_in_rotation(&broker);
    killed_and_interrupted_runs_can_be_resumed(&broker);
    failed_drivers_do_not_stop_the_others(&broker);
    aa_test_respects_the_disk_cap(&broker);
    legacy_profile_reads_own_records(&broker);
    legacy_settings_follow_the_library(&broker);
}

fn all_operations_are_measured_in_rotation(broker: &TestBroker) {
    let out = broker.scratch.path().join("all");
    let again = format!("again={} bench driver", env!("CARGO_BIN_EXE_weir"));
    let args = [
        "--cells",
        "produce.*,consume.*,copy.assign/10x500,copy.group/10x500,roundtrip.burst/10x500,\
         roundtrip.open/10@200",
        "--value-sizes",
        "10",
        "--burst-records",
        "100",
        "--hold",
        "500ms",
        "--repetitions",
        "2",
        "--verify",
        "--driver",
        &again,
    ];
    let output = run(broker, &plan(broker, "all", 200), &out, &args);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    let directory = directory(&out);
    let run = read(&directory);
    let found = &run["libraries"];
    assert_eq!(found["profile"], "fair");
    let cells = found["cells"].as_array().unwrap();
    assert_eq!(cells.len(), 9);
    assert_eq!(samples(&run).len(), 9 * 2 * 2);
    assert_eq!(lines(&directory).len(), 9 * 2 * 2);
    for (line, sample) in lines(&directory).iter().zip(samples(&run)) {
        let mut raw: LibrarySample = serde_json::from_str(line).unwrap();
        for found in [&mut raw.latency, &mut raw.pacing].into_iter().flatten() {
            *found = found.thinned();
        }
        assert_eq!(&serde_json::to_value(raw).unwrap(), sample);
        assert_eq!(sample["invalid"].as_array().unwrap().len(), 0, "{sample}");
        assert!(sample["cpu_us"].as_f64() > Some(0.0), "{sample}");
        assert!(sample["threads"].as_u64() > Some(0), "{sample}");
        assert!(sample["peak_rss_kb"].as_u64() > Some(0), "{sample}");
        assert!(
            sample["wire_bytes"].as_u64() >= sample["bytes"].as_u64(),
            "{sample}"
        );
        let cell = sample["cell"].as_str().unwrap();
        let (figure, records) = match cell.split_once('.').unwrap() {
            ("produce", _) => ("delivered_us", 100),
            ("consume", _) => ("drain_us", 100),
            ("copy", _) => ("copied_us", 500),
            (_, "burst/10x500") => ("roundtrip_us", 500),
            _ => ("achieved_per_s", 100),
        };
        assert!(sample[figure].as_f64() > Some(0.0), "{sample}");
        assert_eq!(sample["records"], records, "{sample}");
    }
    // The second repetition runs in reverse order.
    let turns: Vec<_> = samples(&run)[..4]
        .iter()
        .map(|sample| {
            (
                sample["driver"].as_str().unwrap(),
                sample["turn"].as_u64().unwrap(),
            )
        })
        .collect();
    let (first, second) = ("librdkafka", "again");
    assert_eq!(turns, [(first, 0), (second, 1), (second, 0), (first, 1)]);
    for driver in found["drivers"].as_array().unwrap() {
        assert!(driver["failed"].is_null(), "{driver}");
        assert!(driver["warm_up_rounds"].as_u64() > Some(0), "{driver}");
        let settings = driver["settings"].as_array().unwrap();
        let acks = settings.iter().find(|it| it["name"] == "acks").unwrap();
        assert_eq!(
            (&acks["requested"], &acks["effective"]),
            (&"1".into(), &"1".into())
        );
    }
    no_topic_is_left(broker, &directory);
    for file in ["report.html", "report.md", "configuration.json"] {
        assert!(directory.join(file).is_file(), "{file}");
    }
}

/// Asserts that all topics given to a driver are deleted.
fn no_topic_is_left(broker: &TestBroker, directory: &Path) {
    let lines = raw_lines(directory, "drivers/librdkafka.jsonl").join("\n");
    let mut topics: Vec<&str> = lines
        .split("\"topic\":\"")
        .skip(1)
        .filter_map(|rest| rest.split('"').next())
        .collect();
    topics.sort_unstable();
    topics.dedup();
    assert!(topics.len() > 5, "{topics:?}");
    let admin = weir_kafka::Admin::connect(
        &weir_kafka::KafkaSettings::plaintext(&broker.bootstrap),
        Duration::from_secs(20),
    )
    .unwrap();
    for topic in topics {
        assert!(!admin.topic_exists(topic).unwrap(), "{topic}");
    }
}

fn killed_and_interrupted_runs_can_be_resumed(broker: &TestBroker) {
    let out = broker.scratch.path().join("resumed");
    let plan = plan(broker, "resumed", 0);
    let args = [
        "--cells",
        "produce.warm/10x10,consume.assign/10x10",
        "--repetitions",
        "40",
    ];
    let begin = |args: &[&str]| {
        let all = arguments(broker, &plan, &out, args);
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        Process::spawn(weir(&all).stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let killed = begin(&args);
    until(|| run_dir(&out).is_some_and(|directory| lines(&directory).len() >= 3));
    send_signal(killed.id(), Signal::KILL);
    assert!(!killed.output().status.success());
    let directory = directory(&out);
    let before = lines(&directory);
    assert!(before.len() < 80 && !directory.join("run.json").exists());

    let dir = directory.display().to_string();
    let other = [
        "--resume",
        &dir,
        "--cells",
        "produce.warm/10x10",
        "--repetitions",
        "40",
    ];
    let refused = run(broker, &plan, &out, &other);
    assert_eq!(refused.status.code(), Some(2));
    let printed = text(&refused.stderr);
    assert!(
        printed.contains("options differ from those of the run") && printed.contains("cells was"),
        "{printed}"
    );

    let resumed: Vec<&str> = ["--resume", &dir].into_iter().chain(args).collect();
    let interrupted = begin(&resumed);
    until(|| lines(&directory).len() > before.len() + 2);
    send_signal(interrupted.id(), Signal::INT);
    let output = interrupted.output();
    assert_eq!(output.status.code(), Some(130), "{}", text(&output.stderr));
    let run = read(&directory);
    assert_eq!(run["outcome"], "interrupted");
    assert!(samples(&run).len() < 80, "{}", samples(&run).len());

    let output = self::run(broker, &plan, &out, &resumed);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let after = lines(&directory);
    assert_eq!(after[..before.len()], before);
    let run = read(&directory);
    let mut all: Vec<_> = samples(&run)
        .iter()
        .map(|sample| (sample["cell"].to_string(), sample["repetition"].as_u64()))
        .collect();
    all.sort_unstable();
    all.dedup();
    assert_eq!((all.len(), after.len()), (80, 80));
    assert!(run["notes"].to_string().contains("more than one session"));
}

fn until(done: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !done() {
        assert!(Instant::now() < deadline, "it has not come so far");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A driver script that responds to all commands and executes the given text on `produce`.
const SCRIPT: &str = r#"while read -r line; do
  id=${line#*'"id":'}
  id=${id%%[,\}]*}
  case "$line" in
    *'"op":"hello"'*) rest='"protocol":1,"library":"none","library_version":"1","binding":""'
      rest="$rest"',"runtime":"sh","capabilities":["produce.cold"]' ;;
    *'"op":"configure"'*) rest='"effective":{"acks":1,"linger_ms":5,"batch_bytes":1'
      rest="$rest"',"batch_records":0,"max_in_flight":5,"retries":0,"idempotence":false'
      rest="$rest"',"compression":null,"queue_bytes":1,"queue_records":1,"max_request_bytes":1'
      rest="$rest"',"send_buffer_bytes":0,"receive_buffer_bytes":0,"fetch_min_bytes":1'
      rest="$rest"',"fetch_wait_ms":500,"fetch_partition_bytes":1,"check_crcs":true'
      rest="$rest"',"auto_commit":false},"unsupported":["compression"]' ;;
    *'"op":"stats"'*) rest='"rss_kb":1,"threads":1,"heap_kb":null' ;;
    *'"op":"produce"'*) PRODUCE ;;
    *) rest='"done":true' ;;
  esac
  echo "{\"id\":$id,\"ok\":true,$rest}"
done
"#;

fn failed_drivers_do_not_stop_the_others(broker: &TestBroker) {
    let liar = r#"rest='"marks":{"t0":0,"t1":1000,"t2":2000},"cpu_us":1,"acked":10,"failed":0'"#;
    let out = broker.scratch.path().join("failing");
    let mut args: Vec<String> = ["--cells", "produce.cold/10x10", "--repetitions", "3"]
        .map(str::to_owned)
        .to_vec();
    args.extend(["--command-timeout".to_owned(), "3s".to_owned()]);
    for (name, produce) in [
        ("crashes", "exit 3"),
        ("hangs", "sleep 600"),
        ("lies", liar),
    ] {
        let script = broker.scratch.path().join(format!("{name}.sh"));
        fs::write(&script, SCRIPT.replace("PRODUCE", produce)).unwrap();
        args.extend([
            "--driver".to_owned(),
            format!("{name}=sh {}", script.display()),
        ]);
    }
    args.extend(["--driver".to_owned(), "absent=/nowhere/driver".to_owned()]);
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let output = run(broker, &plan(broker, "failing", 0), &out, &args);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    // None of the faulty drivers has a single valid result.
    assert_eq!(output.status.code(), Some(3), "{stdout}{stderr}");
    let run = read(&directory(&out));
    assert_eq!(run["outcome"], "incomplete");
    let expected = "Nothing was measured except librdkafka. Requested, but took no part: crashes, \
                    hangs, lies, absent.";
    assert_eq!(run["verdict"], expected);
    let of = |name: &str| -> Vec<&Value> {
        let samples = samples(&run).iter();
        samples.filter(|sample| sample["driver"] == name).collect()
    };
    let good = of("librdkafka");
    assert_eq!(good.len(), 3);
    assert!(
        good.iter()
            .all(|sample| sample["invalid"] == Value::Array(Vec::new()))
    );
    let drivers = run["libraries"]["drivers"].as_array().unwrap();
    let warnings = run["warnings"].to_string();
    for (name, word, count) in [
        ("crashes", "crashed", 1),
        ("hangs", "timed out", 1),
        ("lies", "10 records acknowledged, but the topic has 0", 1),
        ("absent", "crashed", 0),
    ] {
        let driver = drivers
            .iter()
            .find(|driver| driver["name"] == name)
            .unwrap();
        let failed = driver["failed"].as_str().unwrap();
        assert!(failed.contains(word), "{name}: {failed}");
        assert!(warnings.contains(name), "{warnings}");
        let own = of(name);
        assert_eq!(own.len(), count, "{own:?}");
        assert!(
            own.iter()
                .all(|sample| sample["invalid"].to_string().contains(word))
        );
    }
}

fn aa_test_respects_the_disk_cap(broker: &TestBroker) {
    let out = broker.scratch.path().join("null");
    let args = [
        "--aa-test",
        "--cells",
        "produce.warm/1000x10000,produce.warm/10x10",
        "--repetitions",
        "6",
        "--disk-cap",
        "5MB",
    ];
    let output = run(broker, &plan(broker, "null", 0), &out, &args);
    let stdout = text(&output.stdout);
    // Six pairs of bursts of ten records may have any result.
    assert!(
        matches!(output.status.code(), Some(0 | 1)),
        "{stdout}{}",
        text(&output.stderr)
    );
    let run = read(&directory(&out));
    let found = &run["libraries"];
    assert_eq!(found["aa_test"], true);
    let names: Vec<_> = found["drivers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|driver| driver["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["librdkafka-a", "librdkafka-b"]);
    let skipped = found["cells"][0]["skipped"].as_str().unwrap();
    assert!(skipped.contains("above --disk-cap 0.01GB"), "{skipped}");
    assert_eq!(samples(&run).len(), 12);
    let limit = &run["thresholds"][0];
    assert_eq!(
        (&limit["limit"], limit["actual"].is_number()),
        (&0.9.into(), true)
    );
    let expected = match output.status.code() {
        Some(0) => "passed",
        _ => "failed",
    };
    assert_eq!(limit["status"], expected);
}

fn legacy_profile_reads_own_records(broker: &TestBroker) {
    let out = broker.scratch.path().join("legacy");
    let args = [
        "--profile",
        "legacy",
        "--cells",
        "*/10x10",
        "--repetitions",
        "2",
        "--acks",
        "0",
    ];
    let output = run(broker, &plan(broker, "legacy", 0), &out, &args);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let run = read(&directory(&out));
    let cells: Vec<_> = samples(&run)
        .iter()
        .map(|sample| sample["cell"].as_str().unwrap())
        .collect();
    let (produce, consume) = ("produce.legacy/10x10", "consume.group/10x10");
    assert_eq!(cells, [produce, consume, produce, consume]);
    for sample in samples(&run) {
        assert_eq!(sample["invalid"], Value::Array(Vec::new()), "{sample}");
        match sample["cell"] == produce {
            true => assert!(sample["create_us"].is_number() && sample["send_calls_us"].is_number()),
            // The broker delays the response to a fetch that is not full.
            false => {
                assert!(sample["legacy_us"].as_f64() > Some(500_000.0), "{sample}");
                assert!(sample["commit_us"].as_f64() > Some(0.0), "{sample}");
            }
        }
    }
    let settings = run["libraries"]["drivers"][0]["settings"]
        .as_array()
        .unwrap();
    let requested = |name: &str| {
        settings
            .iter()
            .find(|it| it["name"] == name)
            .map(|it| it["requested"].clone())
    };
    assert_eq!(requested("fetch_min_bytes"), Some("100000".into()));
    assert_eq!(requested("acks"), Some("0".into()));
    assert!(run["notes"].to_string().contains("about 85 %"));
}

/// The Java client under another name gets the Java settings of the published programs. With those
/// of librdkafka it would reject its configuration.
fn legacy_settings_follow_the_library(broker: &TestBroker) {
    let never = AtomicBool::new(false);
    let java = DriverProgram::known("java", &mut |_| (), &never).expect("the driver is built");
    // Its class path ends in a star, which the shell must not expand.
    let words = java.line();
    let words = words.split(' ').map(|word| format!("'{word}'"));
    let driver = format!("other={}", words.collect::<Vec<_>>().join(" "));
    let out = broker.scratch.path().join("other");
    let args = [
        "--profile",
        "legacy",
        "--cells",
        "*/10x10",
        "--repetitions",
        "1",
        "--driver",
    ];
    let args: Vec<&str> = args.into_iter().chain([driver.as_str()]).collect();
    let output = run(broker, &plan(broker, "other", 0), &out, &args);
    let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{stdout}{stderr}");
    let run = read(&directory(&out));
    let drivers = run["libraries"]["drivers"].as_array().unwrap();
    let other = drivers.iter().find(|it| it["name"] == "other").unwrap();
    assert_eq!(other["library"], "kafka-clients");
    assert!(other["failed"].is_null(), "{other}");
    let settings = other["settings"].as_array().unwrap();
    let requested = |name: &str| {
        let found = settings.iter().find(|it| it["name"] == name);
        found.map(|it| it["requested"].clone())
    };
    assert_eq!(requested("queue_bytes"), Some("134217728".into()));
    assert_eq!(requested("idempotence"), Some("false".into()));
    let notes = run["notes"].to_string();
    assert!(
        notes.contains("other: knows the topic before its clock starts"),
        "{notes}"
    );
    assert!(
        notes.contains("librdkafka: starts its clock with a new producer"),
        "{notes}"
    );
    assert_eq!(samples(&run).len(), 2 * 2);
    for sample in samples(&run) {
        assert_eq!(sample["invalid"], Value::Array(Vec::new()), "{sample}");
    }
}

#[test]
fn cells_are_listed_without_a_run() {
    let out = tempfile::tempdir().unwrap();
    let mut command = weir(&["bench", "run", "client-libraries", "--list-cells"]);
    let output = command.arg("--out").arg(out.path()).output().unwrap();
    let printed = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let lines: Vec<&str> = printed.lines().collect();
    assert_eq!(lines.len(), 137, "{printed}");
    let words = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>();
    assert_eq!(words(0), ["cell", "repetitions", "time", "skipped"]);
    assert_eq!(words(1)[..2], ["produce.warm/10x10", "20"]);
    let large = lines
        .iter()
        .find(|it| it.starts_with("produce.warm/100000x10000 "));
    assert!(
        large.unwrap().contains(" 1.0 GB per repetition"),
        "{large:?}"
    );
    let last = lines.last().unwrap();
    assert!(
        last.contains(" of 135 cells run, with 3 drivers: about "),
        "{last}"
    );
    assert!(last.ends_with(" minutes (estimated)"), "{last}");
    assert_eq!(fs::read_dir(out.path()).unwrap().count(), 0);
    let wrong = weir(&["bench", "run", "keyed", "--list-cells"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn invalid_options_are_rejected_before_start() {
    for (args, expected) in [
        (
            ["--cells", "produce.hot/*"],
            "no cell of profile fair matches",
        ),
        (["--libraries", "sarama"], "unknown library \"sarama\""),
        (["--driver", "mine"], "NAME=COMMAND"),
        (["--acks", "2"], "acks = 2"),
        (["--profile", "loose"], "unknown profile"),
        (["--topic-template", "{name}"], "two topics would be"),
        (["--resume", "/nowhere"], "/nowhere/configuration.json"),
        (
            ["--baseline", "/nowhere"],
            "--baseline: plan client-libraries does not support this option",
        ),
    ] {
        let all: Vec<&str> = ["bench", "run", "client-libraries"]
            .into_iter()
            .chain(args)
            .collect();
        let output = weir(&all).output().unwrap();
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {printed}");
        assert!(printed.contains(expected), "{args:?}: {printed}");
    }
}
