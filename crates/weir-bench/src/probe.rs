//! Runs one unmodified SDK client alongside the simulated clients, to confirm their results.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use serde::Deserialize;
use thiserror::Error;
use weir_engine::machines::{ConnectedMachine, RoleInput, RoleSession, StartedSession};
use weir_engine::session::{EVENT_PREFIX, RoleProcessRequest};
use weir_lab::LabError;
use weir_lab::sdk::{self, NodeSdk};
use weir_stats::run::{LatencySummary, SdkProbe};
use weir_stats::{Histogram, NegativeCount};

use super::child::{OwnedChild, log_tail};
use super::observer::Observer;
use super::result::MeasuredWindow;
use crate::plan::{Architecture, Plan};
use weir_load::child_environment::without_weir_variables;
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

/// Returns the SDK installed on this machine, or the reason why the plan does not use it.
pub(super) fn find_sdk(
    plan: &Plan,
    is_remote: bool,
    observer: &mut dyn Observer,
    stop: &AtomicBool,
) -> Result<NodeSdk, ProbeError> {
    let absent = |reason: &str| Err(ProbeError::Absent(reason.to_owned()));
    if !plan.clients.sdk || !plan.architectures.contains(&Architecture::Gateway) {
        return absent("no gateway in this plan");
    }
    if is_remote {
        return absent("it runs on another machine");
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

/// Program and configuration of an SDK client with one item, chosen by the plan's seed.
#[derive(Debug)]
pub(super) struct ProbeScript {
    /// Path of the program.
    pub(super) path: PathBuf,
    config: String,
    /// Key of its item; `None` if the item receives every record.
    key: Option<String>,
}

impl ProbeScript {
    /// Writes the program into `dir`.
    pub(super) fn write(dir: &Path, server: &str, plan: &Plan) -> io::Result<Self> {
        let published = plan.clients.scenario.corrected();
        let (key, item) = plan.clients.item(plan.workload.seed);
        let path = dir.join("probe.js");
        fs::write(&path, SCRIPT)?;
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
        Ok(Self {
            path,
            config: config.to_string(),
            key,
        })
    }

    /// Returns the arguments for Node.
    pub(super) fn args(&self) -> [String; 2] {
        [self.path.display().to_string(), self.config.clone()]
    }

    fn log(&self) -> PathBuf {
        self.path.with_extension("log")
    }
}

/// Running SDK client; killed when dropped.
#[derive(Debug)]
pub(super) struct ProbeProcess {
    _client: ProbeHandle,
    script: ProbeScript,
    output: Arc<Mutex<SdkOutput>>,
    /// Nanoseconds to add to its timestamps to get this machine's time.
    clock_offset_ns: i64,
}

#[derive(Debug)]
enum ProbeHandle {
    Here {
        _child: OwnedChild,
    },
    Remote {
        _session: RoleSession,
        _input: Box<dyn RoleInput>,
    },
}

/// Lines of an SDK client.
#[derive(Debug, Default)]
struct SdkOutput {
    lines: Vec<SdkEvent>,
    has_ended: bool,
}

impl ProbeProcess {
    /// Starts the client on this machine. Its output and its log are stored next to the program.
    pub(super) fn start(sdk: &NodeSdk, script: ProbeScript) -> Result<Self, ProbeError> {
        let mut command = Command::new(&sdk.node_bin);
        let mut child = without_weir_variables(&mut command)
            .args(script.args())
            .env("NODE_PATH", sdk.modules())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(File::create(script.log())?)
            .process_group(0)
            .spawn()?;
        let stdout = child.stdout.take();
        // Owned first, so that it is killed if the pipe is missing.
        let client = ProbeHandle::Here {
            _child: OwnedChild(child),
        };
        let stdout = stdout.ok_or(io::ErrorKind::BrokenPipe);
        Self::read(client, script, stdout.map_err(io::Error::from)?, 0)
    }

    /// Starts the client on another machine, as [`start`](Self::start) does on this one.
    pub(super) fn remote(
        machine: &ConnectedMachine,
        request: RoleProcessRequest,
        script: ProbeScript,
    ) -> Result<Self, ProbeError> {
        let clock_offset_ns = request.clock_offset_ns;
        let StartedSession {
            input,
            output,
            session,
        } = machine.start(request, File::create(script.log())?)?;
        let client = ProbeHandle::Remote {
            _session: session,
            _input: input,
        };
        Self::read(client, script, output, clock_offset_ns)
    }

    fn read(
        client: ProbeHandle,
        script: ProbeScript,
        stdout: impl io::Read + Send + 'static,
        clock_offset_ns: i64,
    ) -> Result<Self, ProbeError> {
        let raw = File::create(script.path.with_extension("jsonl"))?;
        let output = Arc::new(Mutex::new(SdkOutput::default()));
        let sink = Arc::clone(&output);
        thread::spawn(move || read_lines(stdout, raw, &sink));
        Ok(Self {
            _client: client,
            script,
            output,
            clock_offset_ns,
        })
    }

    pub(super) fn is_subscribed(&self) -> bool {
        let output = self.output();
        let mut lines = output.lines.iter();
        lines.any(|line| matches!(line, SdkEvent::Subscribed))
    }

    /// Returns the reason if the client has ended.
    pub(super) fn ended(&self) -> Option<String> {
        let has_ended = self.output().has_ended;
        has_ended.then(|| log_tail(&self.script.log()))
    }

    /// Ends the client and checks the received updates against the producers' ledger.
    pub(super) fn finish(self, window: &MeasuredWindow, ledger: &[LedgerEntry]) -> SdkProbe {
        let lines = &self.output().lines;
        let key = self.script.key.as_deref();
        SdkProbe {
            sdk: "lightstreamer-client-node".to_owned(),
            version: sdk::NODE_SDK_VERSION.to_owned(),
            ..summarize((lines, self.clock_offset_ns), key, window, ledger)
        }
    }

    fn output(&self) -> MutexGuard<'_, SdkOutput> {
        locked(&self.output)
    }
}

fn locked(output: &Mutex<SdkOutput>) -> MutexGuard<'_, SdkOutput> {
    output.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read_lines(stdout: impl io::Read, mut raw: File, sink: &Mutex<SdkOutput>) {
    for line in BufReader::new(stdout).lines() {
        let Ok(line) = line else { break };
        if let Err(error) = writeln!(raw, "{line}") {
            tracing::warn!(%error, "writing a line of the SDK client failed");
        }
        if line.as_bytes().starts_with(EVENT_PREFIX) {
            continue;
        }
        match serde_json::from_str(&line) {
            Ok(line) => locked(sink).lines.push(line),
            Err(error) => tracing::warn!(%error, "SDK client sent an invalid line"),
        }
    }
    locked(sink).has_ended = true;
}

/// Computes counts, order of updates, connection states and latency from the lines of a client, to
/// whose timestamps `clock_offset_ns` is added.
fn summarize(
    (lines, clock_offset_ns): (&[SdkEvent], i64),
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
                let response_ns = response_us.saturating_mul(1000);
                negative.record(&mut histogram, response_ns.saturating_add(clock_offset_ns));
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
