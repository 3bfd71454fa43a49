//! `weir bench check-driver` as its users run it: drivers with a fault each, caught by the check
//! that is named after it.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use support::{TestBroker, text, weir};
use weir_drivers::DriverProgram;

/// All tests share one broker, because its start takes the most time.
#[test]
fn faulty_drivers_are_caught_by_name() {
    let broker = TestBroker::start();
    responses_on_standard_error_are_named(&broker);
    late_responses_are_caught(&broker);
    wrong_marks_are_caught(&broker);
    built_in_driver_passes(&broker);
}

fn check(broker: &TestBroker, driver: &str, checks: &str) -> (Output, String) {
    let out = broker.scratch.path().join("checks").display().to_string();
    let mut args = vec!["bench", "check-driver", driver, "--out", &out];
    args.extend(["--bootstrap", &broker.bootstrap]);
    if !checks.is_empty() {
        args.extend(["--checks", checks]);
    }
    let output = weir(&args).output().unwrap();
    let printed = text(&output.stdout) + &text(&output.stderr);
    (output, printed)
}

/// Returns the line of a check.
fn line<'a>(printed: &'a str, word: &str, name: &str) -> &'a str {
    let mut lines = printed.lines();
    let is_line = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next() == Some(word) && words.next() == Some(name)
    };
    lines
        .find(is_line)
        .unwrap_or_else(|| panic!("no {word} {name}: {printed}"))
}

fn responses_on_standard_error_are_named(broker: &TestBroker) {
    let driver = format!("mute={} bench driver 1>&2", env!("CARGO_BIN_EXE_weir"));
    let began = Instant::now();
    let (output, printed) = check(broker, &driver, "");
    let took = began.elapsed();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let hello = line(&printed, "FAILED", "hello");
    assert!(
        hello.contains("wrote its responses to standard error")
            && hello.contains("write them to standard output")
            && hello.contains("{\""),
        "{hello}"
    );
    assert!(line(&printed, "skipped", "bye").contains("does not start"));
    // Twice: for the check, and to find out that later checks cannot run.
    assert!(took < Duration::from_secs(60), "{took:?}");
}

/// Returns the command of the Python driver with a changed function for sending lines.
fn python(broker: &TestBroker, name: &str, change: &str) -> String {
    let never = AtomicBool::new(false);
    let program = DriverProgram::known("confluent-kafka", &mut |_| (), &never);
    let line = program.expect("the driver is built").line();
    let (python, driver) = line.split_once(' ').expect("program and argument");
    let dir = Path::new(driver).parent().expect("a directory");
    let path: PathBuf = broker.scratch.path().join(format!("{name}.py"));
    let program = format!(
        "import runpy, sys, time\n\
         sys.path.insert(0, {dir:?})\n\
         import weir_driver\n\
         say = weir_driver.say\n\
         def changed(line):\n\
         {change}\
         \x20   say(line)\n\
         weir_driver.say = changed\n\
         runpy.run_path({driver:?}, run_name=\"__main__\")\n"
    );
    fs::write(&path, program).unwrap();
    format!("{name}={python} {}", path.display())
}

fn late_responses_are_caught(broker: &TestBroker) {
    let change = "    if line.get(\"ok\") is False: time.sleep(0.75)\n";
    let driver = python(broker, "late", change);
    let names = "consume.assign,missing-topic.consume.assign";
    let (output, printed) = check(broker, &driver, names);
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let late = line(&printed, "FAILED", "missing-topic.consume.assign");
    let expected = "expected an error, or all records failed, after at most 4s of a timeout of 5s";
    assert!(late.contains(expected), "{late}");
    assert!(
        late.contains("got the error \"") && late.contains(" after 4."),
        "{late}"
    );
    line(&printed, "passed", "consume.assign");
    assert!(
        printed.contains("1 passed, 1 failed, 0 skipped; log "),
        "{printed}"
    );
}

fn wrong_marks_are_caught(broker: &TestBroker) {
    let change = "    m = line.get(\"marks\", {})\n    \
                  if \"t1\" in m: m[\"t0\"], m[\"t1\"] = m[\"t1\"], m[\"t0\"]\n";
    let driver = python(broker, "marks", change);
    let (output, printed) = check(broker, &driver, "produce.cold,consume.group");
    assert_eq!(output.status.code(), Some(1), "{printed}");
    let wrong = line(&printed, "FAILED", "produce.cold");
    assert!(
        wrong.contains("expected a valid response to produce; got produce: returned an impossible")
            && wrong.contains("mark t1 (")
            && wrong.contains(") is before t0 ("),
        "{wrong}"
    );
    // The driver is started again for the next check.
    line(&printed, "passed", "consume.group");
}

fn built_in_driver_passes(broker: &TestBroker) {
    let names = "hello,stats,configure,wrong-settings,produce.warm,steady.*,bye";
    let (output, printed) = check(broker, "librdkafka", names);
    assert_eq!(output.status.code(), Some(0), "{printed}");
    for name in ["hello", "wrong-settings", "steady.consume", "bye"] {
        line(&printed, "passed", name);
    }
    assert!(
        printed.contains("8 passed, 0 failed, 0 skipped; log "),
        "{printed}"
    );
}

#[test]
fn invalid_arguments_are_rejected_before_start() {
    for (args, expected) in [
        (
            vec!["sarama"],
            "unknown driver \"sarama\": use librdkafka, java, ",
        ),
        (vec!["mine="], "the command is missing"),
        (
            vec!["librdkafka", "--checks", "produce.hot"],
            "no check matches \"produce.hot\"; checks are hello, ",
        ),
    ] {
        let out = tempfile::tempdir().unwrap();
        let mut command = weir(&["bench", "check-driver"]);
        let output = command.args(&args).arg("--out").arg(out.path()).output();
        let output = output.unwrap();
        let printed = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {printed}");
        assert!(printed.contains(expected), "{args:?}: {printed}");
        assert_eq!(
            fs::read_dir(out.path()).unwrap().count(),
            0,
            "nothing is left"
        );
    }
}

#[test]
fn unreachable_cluster_ends_with_exit_code_3() {
    let out = tempfile::tempdir().unwrap();
    let mut command = weir(&[
        "bench",
        "check-driver",
        "librdkafka",
        "--bootstrap",
        "127.0.0.1:1",
    ]);
    let output = command.arg("--out").arg(out.path()).output().unwrap();
    let printed = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{printed}");
    assert!(printed.contains("127.0.0.1:1"), "{printed}");
}
