//! Runs one unmodified SDK client alongside the simulated clients, to confirm their results.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::Deserialize;
use thiserror::Error;
use weir_lab::LabError;
use weir_stats::run::{LatencySummary, SdkProbe};
use weir_stats::{Histogram, NegativeCount};

use super::observer::Observer;
use super::result::MeasuredWindow;
use crate::plan::{Architecture, Plan};
use weir_load::stamp::Stamp;
use weir_load::worker::protocol::LedgerEntry;

/// Reason for a cell without an SDK client.
#[derive(Debug, Error)]
pub(super) enum ProbeError {
    /// Plan without gateway, or SDK that is not installed.
    #[error("{0}")]
    Absent(String),
    /// SDK that cannot be installed.
    #[error(transparent)]
    Lab(#[from] LabError),
    /// Process or file that cannot be created.
    #[error("cannot start it: {0}")]
    Start(#[from] io::Error),
}

/// Installed SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sdk {
    /// Path of the Node.js interpreter.
    pub(super) node: PathBuf,
    /// Path of the `node_modules` directory.
    pub(super) modules: PathBuf,
    /// Name of the package.
    pub(super) package: String,
    /// Version of the package.
    pub(super) version: String,
}

impl Sdk {
    /// Returns the installed SDK, or the reason why the plan has none.
    pub(super) fn find(
        plan: &Plan,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Self, ProbeError> {
        if !plan.clients.sdk || !plan.architectures.contains(&Architecture::Gateway) {
            return Err(ProbeError::Absent("no gateway in this plan".to_owned()));
        }
        let sdk = weir_lab::sdk::node(&mut |text| observer.note(text), stop)?;
        Ok(Self {
            modules: sdk.modules(),
            node: sdk.node_bin,
            package: "lightstreamer-client-node".to_owned(),
            version: weir_lab::sdk::NODE_SDK_VERSION.to_owned(),
        })
    }
}

/// Output line of the SDK driver (docs/conformance.md), with the fields used here.
#[derive(Debug, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
enum SdkEvent {
    Status {
        status: String,
    },
    Subscribed,
    Unsubscribed,
    Update {
        at_us: u64,
        values: HashMap<String, Option<String>>,
    },
    Lost {
        n: u64,
    },
    #[serde(alias = "subscription_error")]
    ServerError {
        code: i32,
        message: String,
    },
}

/// Running SDK client; killed when dropped.
#[derive(Debug)]
pub(super) struct ProbeProcess {
    child: Child,
    lines: Arc<Mutex<Vec<SdkEvent>>>,
    /// Key of its item; `None` if the item receives every record.
    key: Option<String>,
    sdk: Sdk,
}

impl ProbeProcess {
    /// Starts the client with one item, chosen by the plan's seed. Its output is stored in `dir`.
    pub(super) fn start(
        sdk: &Sdk,
        server: &str,
        plan: &Plan,
        dir: &Path,
    ) -> Result<Self, ProbeError> {
        let published = plan.clients.scenario.corrected();
        let (key, item) = plan.clients.item(plan.workload.seed);
        let script = dir.join("probe.js");
        fs::write(&script, SCRIPT)?;
        let raw = File::create(dir.join("probe.jsonl"))?;
        let config = serde_json::json!({
            "server": format!("http://{server}"),
            "adapter_set": published.adapter_set,
            "subscriptions": [{
                "data_adapter": published.data_adapter,
                "mode": "RAW",
                "items": [item],
                "fields": plan.clients.fields,
            }],
        });
        let mut child = Command::new(&sdk.node)
            .arg(&script)
            .arg(config.to_string())
            .env("NODE_PATH", &sdk.modules)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(dir.join("probe.log"))?)
            .process_group(0)
            .spawn()?;
        let lines = Arc::new(Mutex::new(Vec::new()));
        if let Some(stdout) = child.stdout.take() {
            let sink = Arc::clone(&lines);
            thread::spawn(move || read_lines(stdout, raw, &sink));
        }
        Ok(Self {
            child,
            lines,
            key,
            sdk: sdk.clone(),
        })
    }

    /// Returns `true` if the subscription is active.
    pub(super) fn is_subscribed(&self) -> bool {
        self.lines()
            .iter()
            .any(|line| matches!(line, SdkEvent::Subscribed))
    }

    /// Ends the client and checks the received updates against the producers' ledger.
    pub(super) fn finish(self, window: &MeasuredWindow, ledger: &[LedgerEntry]) -> SdkProbe {
        let lines = self.lines();
        let mut probe = summarize(&lines, self.key.as_deref(), window, ledger);
        probe.sdk.clone_from(&self.sdk.package);
        probe.version.clone_from(&self.sdk.version);
        probe
    }

    fn lines(&self) -> MutexGuard<'_, Vec<SdkEvent>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ProbeProcess {
    fn drop(&mut self) {
        // Both calls fail only if the process has exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(stdout: impl io::Read, mut raw: File, sink: &Mutex<Vec<SdkEvent>>) {
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { return };
        if let Err(error) = writeln!(raw, "{line}") {
            tracing::warn!(%error, "writing a line of the SDK client failed");
        }
        match serde_json::from_str(&line) {
            Ok(line) => sink
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(line),
            Err(error) => tracing::warn!(%error, "SDK client sent an invalid line"),
        }
    }
}

/// Computes counts, order of updates, connection states and latency.
fn summarize(
    lines: &[SdkEvent],
    key: Option<&str>,
    window: &MeasuredWindow,
    ledger: &[LedgerEntry],
) -> SdkProbe {
    let mut probe = SdkProbe::default();
    let mut histogram = Histogram::new();
    let mut negative = NegativeCount::default();
    let mut seen = HashSet::new();
    let (mut in_order, mut last_due_unix_ns, mut errors) = (true, 0, 0);
    for line in lines {
        match line {
            SdkEvent::Status { status } => probe.status_changes.push(status.clone()),
            SdkEvent::Subscribed | SdkEvent::Unsubscribed => {}
            SdkEvent::ServerError { code, message } => {
                let text = format!("error {code}: {message}");
                probe.status_changes.push(text);
            }
            SdkEvent::Lost { n } => errors += n,
            SdkEvent::Update { at_us, values } => {
                let field = |name: &str| values.get(name).and_then(Option::as_deref);
                let (seen_key, stamp) = (field("key"), field("weir"));
                let stamp = stamp.and_then(|text| Stamp::parse_text(text.as_bytes()));
                let Some(stamp) = stamp.filter(|_| key.is_none() || seen_key == key) else {
                    errors += 1;
                    continue;
                };
                if !window.contains(stamp.due_unix_ns) {
                    continue;
                }
                probe.updates += 1;
                if !seen.insert((stamp.producer, stamp.seq)) {
                    probe.duplicated += 1;
                    continue;
                }
                in_order &= stamp.due_unix_ns >= last_due_unix_ns;
                last_due_unix_ns = stamp.due_unix_ns;
                let response_us = *at_us as i64 - (stamp.due_unix_ns / 1000) as i64;
                negative.record(&mut histogram, response_us.saturating_mul(1000));
            }
        }
    }
    probe.lost = ledger
        .iter()
        .filter(|entry| key.is_none_or(|key| entry.key == key))
        .map(|e| missing(e, &seen))
        .sum();
    probe.latency = Some(LatencySummary::of(&histogram, negative, 1.0));
    let streams = probe
        .status_changes
        .iter()
        .any(|status| status == "CONNECTED:WS-STREAMING");
    probe.ok = streams && in_order && errors == 0 && probe.lost == 0 && probe.updates > 0;
    probe
}

/// Returns the number of acknowledged records of the entry that were not received.
fn missing(entry: &LedgerEntry, seen: &HashSet<(u32, u64)>) -> u64 {
    let numbers = entry.first_seq..=entry.last_seq;
    let due = numbers.filter(|seq| !entry.missing.contains(seq));
    due.filter(|seq| !seen.contains(&(entry.producer, *seq)))
        .count() as u64
}

/// Driver program of the conformance suite.
const SCRIPT: &str = include_str!("../../../conformance/node/driver.js");

#[cfg(test)]
mod tests {
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
        let probe = summarize(&lines(GOOD), Some("Fig"), &WINDOW, &ledger(3));
        assert_eq!((probe.updates, probe.lost, probe.duplicated), (2, 0, 0));
        assert!(probe.ok);
        assert_eq!(probe.latency.unwrap().count, 2);
        assert_eq!(probe.status_changes, ["CONNECTED:WS-STREAMING"]);
    }

    #[test]
    fn loss_other_keys_and_disorder_fail() {
        let lost = summarize(&lines(GOOD), Some("Fig"), &WINDOW, &ledger(4));
        assert!(lost.lost == 1 && !lost.ok);
        let foreign = summarize(&lines(GOOD), Some("Pear"), &WINDOW, &ledger(3));
        assert!(foreign.updates == 0 && foreign.lost == 2 && !foreign.ok);
        let late =
            r#"{"event":"update","at_us":4500,"values":{"key":"Fig","weir":"2500000.1.0.1"}}"#;
        let disorder = summarize(
            &lines(&format!("{GOOD}\n{late}")),
            Some("Fig"),
            &WINDOW,
            &ledger(3),
        );
        assert!(!disorder.ok && disorder.lost == 0);
        let all = summarize(&lines(GOOD), None, &WINDOW, &ledger(4));
        assert_eq!(all.lost, 2, "one of each key");
    }
}
