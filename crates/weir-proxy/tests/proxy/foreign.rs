//! Unmodified Kafka clients in other languages through the proxy. The drivers are in
//! `conformance/`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use super::support::*;

const COUNT: usize = 500;

/// Runs a driver and checks the values that it read and the addresses that it saw.
fn run_driver(command: Command) {
    let proxy = proxy("");
    let topic = topic(&proxy.bootstrap(), "foreign", 2, 1);
    run_driver_with(command, &proxy, &topic, &[]);
}

/// Runs a driver with a given proxy, an empty topic and further arguments.
pub(crate) fn run_driver_with(command: Command, proxy: &TestProxy, topic: &str, more: &[&str]) {
    run_driver_at(&proxy.bootstrap(), command, proxy, topic, more);
}

/// Runs a driver that connects to `bootstrap` first.
pub(crate) fn run_driver_at(
    bootstrap: &str,
    mut command: Command,
    proxy: &TestProxy,
    topic: &str,
    more: &[&str],
) {
    let (group, id, count) = (unique("group"), unique("t"), COUNT.to_string());
    let output = command
        .args([bootstrap, topic, &group, &id, &count])
        .args(more)
        .output();
    let output = output.expect("runs");
    let output_text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{command:?}\n{output_text}\n{errors}"
    );
    let result: serde_json::Value = serde_json::from_str(&output_text).expect("JSON");
    let texts = |key: &str| -> Vec<String> {
        let list = result[key].as_array().expect("a list");
        let texts = list
            .iter()
            .map(|text| text.as_str().expect("text").to_owned());
        texts.collect()
    };
    let mut values = texts("values");
    values.sort_unstable();
    let mut wanted = numbered("value", COUNT);
    wanted.insert(0, "committed".to_owned());
    assert_eq!(values, wanted);
    let advertised = proxy.get().brokers("default");
    let seen = texts("brokers");
    assert!(!seen.is_empty());
    for address in seen {
        assert!(
            advertised.iter().any(|row| row.advertised == address),
            "{address}"
        );
    }
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
}

fn conformance_dir(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../conformance")
        .join(name)
}

/// Reports a test that cannot run here.
pub(crate) fn skipped(reason: &str) {
    // A closed terminal is not a failure.
    let _ = writeln!(std::io::stderr(), "\nskipped: proxy with {reason}");
}

/// Builds a client in Go in a directory, if there is Go.
pub(crate) fn go_driver(name: &str) -> Option<(Command, tempfile::TempDir)> {
    if Command::new("go").arg("version").output().is_err() {
        skipped(&format!("{name}: no go in PATH; install Go 1.26 or newer"));
        return None;
    }
    let target = tempfile::tempdir().expect("a directory");
    let driver = target.path().join("driver");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&driver)
        .arg(".")
        .current_dir(conformance_dir(name))
        .output()
        .expect("runs");
    let errors = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success(), "{errors}");
    Some((Command::new(driver), target))
}

/// Builds and runs a client in Go, if there is Go.
fn run_go(name: &str) {
    if let Some((command, _target)) = go_driver(name) {
        run_driver(command);
    }
}

#[test]
fn franz_go() {
    run_go("kafka-go");
}

#[test]
fn segmentio_kafka_go() {
    run_go("segmentio-kafka-go");
}

#[test]
fn aiokafka() {
    run_driver(aiokafka_driver());
}

pub(crate) fn aiokafka_driver() -> Command {
    let python = weir_lab::sdk::aiokafka(&mut |_| (), &AtomicBool::new(false));
    let mut command = Command::new(python.expect("aiokafka"));
    command.arg(conformance_dir("kafka-python").join("driver.py"));
    command
}
