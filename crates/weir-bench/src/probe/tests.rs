//! Tests of results of the SDK client.

use super::*;

const WINDOW: MeasuredWindow = MeasuredWindow {
    start_unix_ns: 0,
    from_unix_ns: 1_000_000,
    until_unix_ns: 9_000_000,
    interrupted: false,
};

fn lines(text: &str) -> Vec<SdkEvent> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn ledger(last_seq: u64) -> Vec<LedgerEntry> {
    let entry = |key: &str| LedgerEntry {
        key: key.to_owned(),
        producer: 0,
        first_seq: 1,
        last_seq,
        missing: vec![2],
        last_due_unix_ns: 0,
    };
    vec![entry("Fig"), entry("Pear")]
}

const GOOD: &str = r#"{"event":"status","status":"CONNECTED:WS-STREAMING"}
{"event":"subscribed"}
{"event":"update","at_us":900,"values":{"key":"Fig","weir":"500000.0.0.500000"}}
{"event":"update","at_us":2500,"values":{"key":"Fig","weir":"2000000.0.1.2000000"}}
{"event":"update","at_us":3500,"values":{"key":"Fig","weir":"3000000.0.3.3000000"}}"#;

#[test]
fn complete_ordered_updates_are_ok() {
    let probe = summarize((&lines(GOOD), 0), Some("Fig"), &WINDOW, &ledger(3));
    assert_eq!((probe.updates, probe.lost, probe.duplicated), (2, 0, 0));
    assert!(probe.ok);
    assert_eq!(probe.latency.unwrap().count, 2);
    assert_eq!(probe.status_changes, ["CONNECTED:WS-STREAMING"]);
}

#[test]
fn loss_other_keys_and_disorder_fail() {
    let lost = summarize((&lines(GOOD), 0), Some("Fig"), &WINDOW, &ledger(4));
    assert!(lost.lost == 1 && !lost.ok);
    let foreign = summarize((&lines(GOOD), 0), Some("Pear"), &WINDOW, &ledger(3));
    assert!(foreign.updates == 0 && foreign.lost == 2 && !foreign.ok);
    let late = r#"{"event":"update","at_us":4500,"values":{"key":"Fig","weir":"2500000.1.0.1"}}"#;
    let disorder = summarize(
        (&lines(&format!("{GOOD}\n{late}")), 0),
        Some("Fig"),
        &WINDOW,
        &ledger(3),
    );
    assert!(!disorder.ok && disorder.lost == 0);
    let all = summarize((&lines(GOOD), 0), None, &WINDOW, &ledger(4));
    assert_eq!(all.lost, 2, "one of each key");
}

#[test]
fn timestamps_of_another_machine_are_corrected() {
    let mean_us = |offset_ns| {
        let probe = summarize((&lines(GOOD), offset_ns), Some("Fig"), &WINDOW, &ledger(3));
        probe.latency.unwrap().mean_us.unwrap()
    };
    let moved_us: f64 = mean_us(100_000) - mean_us(0);
    assert!((moved_us - 100.0).abs() < 1.0, "{moved_us}");
}

#[test]
fn lines_of_the_session_are_not_those_of_the_client() {
    let usage = r#"{"remote":"ready_file","content":""}"#;
    let output = Mutex::new(SdkOutput::default());
    let text = format!("{usage}\n{GOOD}\n{usage}\n");
    read_lines(text.as_bytes(), tempfile::tempfile().unwrap(), &output);
    let output = output.into_inner().unwrap();
    assert!(output.has_ended);
    assert_eq!(output.lines.len(), GOOD.lines().count());
}
