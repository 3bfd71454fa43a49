//! Invalid files of every kind that users write, with the errors of the commands as one snapshot.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use weir_lab::derived_file::assert_derived;

/// Kinds of files by the suffix of their names, with the command that reads them.
const KINDS: [(&str, &[&str]); 6] = [
    (".adapters.xml", &["gateway", "check", "--adapters"]),
    (".gateway.toml", &["gateway", "check", "--config"]),
    (
        ".conf.xml",
        &[
            "gateway",
            "check",
            "--adapters",
            GOOD,
            "--lightstreamer-conf",
        ],
    ),
    (
        ".record.json",
        &["gateway", "explain", "--adapters", GOOD, "--record"],
    ),
    (".proxy.toml", &["proxy", "check", "--config"]),
    (".plan.toml", &["bench", "run"]),
];

const GOOD: &str = "../../../../examples/adapters.xml";

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wrong")
}

/// Returns the error lines of a command, without the other output.
fn errors(file: &str, command: &[&str]) -> String {
    let mut command_line = Command::new(env!("CARGO_BIN_EXE_weir"));
    command_line.args(command).arg(file).current_dir(dir());
    let output = command_line.output().expect("the binary can be started");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(2), "{file}: {out}{err}");
    let errors = out
        .split_once("\nerrors\n")
        .map_or("", |(_, errors)| errors);
    let lines = errors.lines().take_while(|line| line.starts_with("  "));
    // The list of valid keys is not part of this test.
    let short = |line: &'_ str| match line.split_once(", expected one of `") {
        Some((start, _)) => format!("{start}, expected one of ..."),
        None => line.trim_end().to_owned(),
    };
    let lines: Vec<_> = lines.chain(err.lines()).map(short).collect();
    let named = lines.iter().any(|line| line.contains(file));
    assert!(named, "{file} is not named: {out}{err}");
    lines.join("\n")
}

#[test]
fn invalid_files_are_reported_with_location_and_remedy() {
    let entries = fs::read_dir(dir()).expect("the dir can be read");
    let names = entries.map(|entry| entry.expect("an entry").file_name());
    let mut names: Vec<_> = names.filter_map(|name| name.into_string().ok()).collect();
    names.sort_unstable();
    let mut report = String::new();
    for name in names {
        let kind = KINDS.iter().find(|(end, _)| name.ends_with(end));
        let (_, command) = kind.unwrap_or_else(|| panic!("{name} is of no known kind"));
        writeln!(report, "{name}\n{}\n", errors(&name, command)).expect("a String is writable");
    }
    assert_derived("crates/weir/tests/expected/wrong_files.txt", &report);
}

/// `check --json` prints JSON with the same errors for every invalid file.
#[test]
fn check_json_reports_errors_as_json() {
    for entry in fs::read_dir(dir()).expect("the dir can be read") {
        let name = entry.expect("an entry").file_name();
        let name = name.to_str().expect("our file names are UTF-8");
        let kind = KINDS.iter().find(|(end, _)| name.ends_with(end));
        let Some((_, command)) = kind.filter(|(_, command)| command.contains(&"check")) else {
            continue;
        };
        let mut command_line = Command::new(env!("CARGO_BIN_EXE_weir"));
        let output = command_line.args(*command).args([name, "--json"]);
        let output = output.current_dir(dir()).output().expect("it starts");
        let json: serde_json::Value =
            serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(output.status.code(), Some(2), "{name}: {json:#}");
        assert_eq!(json["usable"], false, "{name}");
        let errors = json["errors"].as_array().expect(name);
        assert!(!errors.is_empty(), "{name}");
        for error in errors {
            assert!(error["text"].is_string(), "{name}: {error}");
        }
    }
}
