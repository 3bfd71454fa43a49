//! `weir bench list`, and errors in plans.

mod support;

use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use support::{text, weir};

#[test]
fn plans_are_listed_exported_and_read_back() {
    let dir = tempfile::tempdir().unwrap();
    let export = dir.path().join("plans");
    let mut command = weir(&["bench", "list", "--export"]);
    let Output { status, stdout, .. } = command.arg(&export).output().unwrap();
    assert!(
        status.success()
            && text(&stdout).starts_with("broadcast\n")
            && text(&stdout).contains("\nkeyed\n")
            && text(&stdout).contains("--quick: about "),
        "{}",
        text(&stdout)
    );
    let keyed = fs::read_to_string(export.join("keyed.toml")).unwrap();
    let keyed = keyed.strip_prefix("#:schema plan.schema.json\n").unwrap();
    let limits = keyed.strip_prefix(KEYED).unwrap();
    assert!(
        limits.contains("[[thresholds]]") && limits.contains("at_most = "),
        "{limits}"
    );
    for file in [
        "broadcast.toml",
        "broadcast-adapters.xml",
        "keyed-adapters.xml",
        "json-fields-adapters.xml",
        "json-patch-adapters.xml",
        "json-patch-lightstreamer_conf.xml",
        "filter-deep-key.toml",
        "broker-sweep.toml",
        "topics-and-groups.toml",
        "proxy-overhead.toml",
        "plan.schema.json",
    ] {
        assert!(export.join(file).is_file(), "{file}");
    }
}

#[test]
fn broken_pipe_exits_cleanly() {
    let mut list = weir(&["bench", "list"]);
    let list = list.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut listing = list.spawn().unwrap();
    drop(listing.stdout.take());
    let Output { stderr, .. } = listing.wait_with_output().unwrap();
    assert_eq!(text(&stderr), "");
}

#[test]
fn plan_errors_name_file_and_key() {
    let dir = tempfile::tempdir().unwrap();
    let plan = dir.path().join("mine.toml");
    let stderr = |plan: &Path, args: &[&str]| {
        let output = weir(&["bench", "run"])
            .arg(plan)
            .args(args)
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
        text(&output.stderr)
    };
    fs::write(&plan, KEYED.replace("hold = \"60s\"", "hodl = \"60s\"")).unwrap();
    let unknown = stderr(&plan, &[]);
    assert!(
        unknown.contains("mine.toml:") && unknown.contains("`hodl`"),
        "{unknown}"
    );
    fs::write(&plan, KEYED).unwrap();
    let zero = stderr(&plan, &["--levels", "0"]);
    assert!(zero.contains("command line: levels = 0"), "{zero}");
    let missing = stderr(&dir.path().join("other.toml"), &[]);
    assert!(
        missing.contains("cannot read plan") && missing.contains("other.toml"),
        "{missing}"
    );
    let unnamed = stderr(Path::new("nosuch"), &[]);
    assert!(
        unnamed.contains(
            "unknown plan \"nosuch\": built-in plans are broadcast, keyed, json-fields, json-patch"
        ),
        "{unnamed}"
    );
    let architecture = stderr(&plan, &["--architectures", "gatewy"]);
    assert!(
        architecture.contains("expected groups, standalone, gateway or floor"),
        "{architecture}"
    );
}

const KEYED: &str = include_str!("../../../plans/keyed.toml");

/// A build must not pass because no metric could be compared.
#[test]
fn fail_on_without_comparable_metrics_exits_with_4() {
    let runs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bench/runs");
    let once = "20261129T221005Z/scenario3/keyed/20261129T221010Z-keyed";
    let once_again = "20261129T221005Z/scenario3/keyed/20261129T221337Z-keyed";
    let five_times = "20261121T195033Z/keyed/20261121T195033Z-keyed";
    let compare = |sides: [&str; 2], gate: &[&str]| {
        let mut command = weir(&["bench", "compare"]);
        let command = command.args(sides.map(|side| runs.join(side))).args(gate);
        let Output { status, stderr, .. } = command.output().unwrap();
        (status.code(), text(&stderr))
    };
    let gate = ["--fail-on", "worse"];
    for sides in [[once, once_again], [once, five_times]] {
        let (code, printed) = compare(sides, &gate);
        assert_eq!(code, Some(4), "{sides:?}: {printed}");
        assert!(
            printed.contains("--fail-on: no deciding metric could be compared"),
            "{printed}"
        );
    }
    let (code, printed) = compare([once, once_again], &[]);
    assert_eq!(
        code,
        Some(0),
        "only --fail-on needs a comparable metric: {printed}"
    );
    let (code, printed) = compare([five_times, five_times], &gate);
    assert_eq!(code, Some(0), "{printed}");
}
