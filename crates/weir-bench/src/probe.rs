//! Runs one unmodified SDK client alongside the simulated clients, to confirm their results.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::Deserialize;
use thiserror::Error;
use weir_lab::LabError;
use weir_lab::sdk::{self, NodeSdk};
use weir_stats::run::{LatencySummary, SdkProbe};
use weir_stats::{Histogram, NegativeCount};

use super::child::OwnedChild;
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
    #[error(transparent)]
    Lab(#[from] LabError),
    #[error("cannot start it: {0}")]
    Start(#[from] io::Error),
}

/// Returns the installed SDK, or the reason why the plan has none.
pub(super) fn find_sdk(
    plan: &Plan,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<NodeSdk, ProbeError> {
    if !plan.clients.sdk || !plan.architectures.contains(&Architecture::Gateway) {
        return Err(ProbeError::Absent("no gateway in this plan".to_owned()));
    }
    Ok(sdk::node(&mut |text| observer.note(text), stop)?)
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
    _child: OwnedChild,
    lines: Arc<Mutex<Vec<SdkEvent>>>,
    /// Key of its item; `None` if the item receives every record.
    key: Option<String>,
}

impl ProbeProcess {
    /// Starts the client with one item, chosen by the plan's seed. Its output is stored in `dir`.
    pub(super) fn start(
        sdk: &NodeSdk,
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
        let mut child = Command::new(&sdk.node_bin)
            .arg(&script)
            .arg(config.to_string())
            .env("NODE_PATH", sdk.modules())
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
            _child: OwnedChild(child),
            lines,
            key,
        })
    }

    pub(super) fn is_subscribed(&self) -> bool {
        let lines = self.lines();
        lines
            .iter()
            .any(|line| matches!(line, SdkEvent::Subscribed))
    }

    /// Ends the client and checks the received updates against the producers' ledger.
    pub(super) fn finish(self, window: &MeasuredWindow, ledger: &[LedgerEntry]) -> SdkProbe {
        let lines = self.lines();
        SdkProbe {
            sdk: "lightstreamer-client-node".to_owned(),
            version: sdk::NODE_SDK_VERSION.to_owned(),
            ..summarize(&lines, self.key.as_deref(), window, ledger)
        }
    }

    fn lines(&self) -> MutexGuard<'_, Vec<SdkEvent>> {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_lines(stdout: impl io::Read, mut raw: File, sink: &Mutex<Vec<SdkEvent>>) {
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { return };
        if let Err(error) = writeln!(raw, "{line}") {
            tracing::warn!(%error, "writing a line of the SDK client failed");
        }
        let mut all = sink.lock().unwrap_or_else(PoisonError::into_inner);
        match serde_json::from_str(&line) {
            Ok(line) => all.push(line),
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
    let wanted = ledger
        .iter()
        .filter(|entry| key.is_none_or(|key| entry.key == key));
    probe.lost = wanted.map(|entry| missing(entry, &seen)).sum();
    probe.latency = Some(LatencySummary::of(&histogram, negative, 1.0));
    let mut states = probe.status_changes.iter();
    let streams = states.any(|status| status == "CONNECTED:WS-STREAMING");
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
mod tests;
