//! Alert rules and boards in `docs`: valid, tested, and of metrics that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

fn read(path: &str) -> String {
    let path = docs().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the names of metrics in a text; series of a histogram count as the histogram.
fn metrics(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let names =
        words.filter(|word| word.starts_with("weir_gateway_") || word.starts_with("weir_proxy_"));
    let names = names.map(|name| name.strip_suffix("_bucket").unwrap_or(name));
    names.map(str::to_owned).collect()
}

/// Returns the names after `- alert:`.
fn alerts(rules: &str) -> Vec<&str> {
    let lines = rules.lines().map(str::trim);
    lines
        .filter_map(|line| line.strip_prefix("- alert: "))
        .collect()
}

#[test]
fn rules_and_boards_use_documented_metrics() {
    let documented = metrics(&read("metrics.md"));
    for product in ["gateway", "proxy"] {
        for file in [
            format!("prometheus/weir-{product}.rules.yml"),
            format!("grafana/weir-{product}.json"),
        ] {
            let used = metrics(&read(&file));
            assert!(used.len() > 10, "{file}");
            let unknown: Vec<_> = used.difference(&documented).collect();
            assert!(unknown.is_empty(), "{file}: {unknown:?}");
        }
        let board: Value =
            serde_json::from_str(&read(&format!("grafana/weir-{product}.json"))).expect("JSON");
        let panels = board["panels"].as_array().expect("panels");
        let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
        assert_eq!(ids.len(), panels.len(), "{product}: ids of panels");
        assert!(
            panels
                .iter()
                .all(|panel| panel["targets"][0]["expr"].is_string())
        );
    }
}

#[test]
fn each_alert_is_tested_and_documented() {
    let page = read("alerts.md");
    for product in ["gateway", "proxy"] {
        let rules = read(&format!("prometheus/weir-{product}.rules.yml"));
        let tests = read(&format!("prometheus/tests/weir-{product}.test.yml"));
        let names = alerts(&rules);
        assert!(names.len() > 10, "{product}");
        for name in names {
            assert!(
                tests.contains(&format!("alertname=\"{name}\"")),
                "no test of {name}"
            );
            assert!(
                page.contains(&format!("`{name}`")),
                "{name} is not in docs/alerts.md"
            );
        }
        let series = metrics(&tests);
        let missing: Vec<_> = metrics(&rules).difference(&series).cloned().collect();
        assert!(
            missing.is_empty(),
            "{product}: no series of {missing:?} in its test"
        );
    }
}

#[test]
#[expect(clippy::print_stdout, reason = "says what was skipped")]
fn promtool_accepts_rules_and_their_tests() {
    let found = Command::new(docs().join("../scripts/promtool"))
        .output()
        .unwrap();
    if found.status.code() == Some(2) {
        println!("skipped: {}", String::from_utf8_lossy(&found.stderr).trim());
        return;
    }
    assert!(found.status.success(), "{found:?}");
    let promtool = String::from_utf8(found.stdout).unwrap();
    for (kind, directory, ending) in [
        ("check", "prometheus", ".rules.yml"),
        ("test", "prometheus/tests", ".test.yml"),
    ] {
        let files = fs::read_dir(docs().join(directory)).unwrap();
        let files: Vec<_> = files
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.to_string_lossy().ends_with(ending))
            .collect();
        assert_eq!(files.len(), 2);
        let output = Command::new(promtool.trim())
            .args([kind, "rules"])
            .args(files)
            .output()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
    }
}
