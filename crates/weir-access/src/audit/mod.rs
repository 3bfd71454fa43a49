//! Audit log: who did what, one JSON object per line (docs/session-administration.md).
//!
//! Event loops add records to a bounded queue; a thread writes them. Nothing here runs per update.

mod config;
mod sink;

pub use self::config::AuditConfig;
pub use self::config::{AuditError, RawAudit};

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_identity::audit::{
    AuditEvent, AuditOutcome, AuditQueue, AuditRecord, RejectionLimiter, RejectionLimits,
};
use weir_net::limited;

use self::sink::AuditSink;
use weir_net::lock;

/// Bytes of lines that are written with one call.
const BATCH_BYTES: usize = 64 * 1024;
/// Time after which summaries of rejections are written if nothing else is.
const SUMMARY_INTERVAL: Duration = Duration::from_secs(1);

/// Sending end of the audit log, shared by all threads.
#[derive(Debug)]
pub struct AuditLog {
    gateway: String,
    state: Mutex<AuditState>,
    wake: Condvar,
    /// Records that could not be written.
    unwritten: AtomicU64,
}

#[derive(Debug)]
struct AuditState {
    queue: AuditQueue,
    limiter: RejectionLimiter,
    reopen: bool,
    closed: bool,
}

impl AuditLog {
    /// Opens the log and starts its writer, which ends after [`Self::close`].
    pub fn start(config: &AuditConfig) -> Result<(Arc<Self>, JoinHandle<()>), AuditError> {
        let sink = AuditSink::open(&config.target)?;
        let log = Arc::new(Self::new(config));
        let writer = Arc::clone(&log);
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let thread = thread.spawn(move || writer.write(sink));
        let thread = thread.map_err(AuditError::Thread)?;
        Ok((log, thread))
    }

    fn new(config: &AuditConfig) -> Self {
        Self {
            gateway: config.gateway.clone(),
            state: Mutex::new(AuditState {
                queue: AuditQueue::new(config.queue),
                limiter: RejectionLimiter::new(RejectionLimits::default()),
                reopen: false,
                closed: false,
            }),
            wake: Condvar::new(),
            unwritten: AtomicU64::new(0),
        }
    }

    /// Returns a record of this gateway at the current time, for [`Self::record`].
    pub fn event(&self, event: AuditEvent, outcome: AuditOutcome) -> AuditRecord {
        AuditRecord::new(&self.gateway, now_ms(), event, outcome)
    }

    /// Queues a record. Rejections of one address above the limit per second are counted instead.
    pub fn record(&self, record: AuditRecord) {
        let mut state = lock(&self.state);
        if record.outcome() == AuditOutcome::Deny {
            self.summarize(&mut state);
            let address = record.address_text().unwrap_or_default();
            if !state.limiter.admit(address, record.event()) {
                drop(state);
                // The writer summarizes them after this second.
                return self.wake.notify_one();
            }
        }
        state.queue.push(record);
        drop(state);
        self.wake.notify_one();
    }

    /// Returns the number of records that were dropped or could not be written.
    pub fn dropped(&self) -> u64 {
        let dropped = lock(&self.state).queue.dropped();
        dropped.allowed_subscriptions + dropped.others + self.unwritten.load(Ordering::Relaxed)
    }

    /// Opens the file again, after it was renamed by log rotation.
    pub fn reopen(&self) {
        lock(&self.state).reopen = true;
        self.wake.notify_one();
    }

    /// Ends the writer after the records in the queue.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.wake.notify_one();
    }

    /// Queues a record for each address whose rejections of an earlier second were not all written.
    fn summarize(&self, state: &mut AuditState) {
        for summary in state.limiter.summaries(now_ms()) {
            let record = self.event(summary.event, AuditOutcome::Deny);
            let record = record.reason("summary").count(summary.count.into());
            state.queue.push(match summary.address.as_deref() {
                None | Some("") => record,
                Some(address) => record.address(address),
            });
        }
    }

    fn write(&self, mut sink: AuditSink) {
        let mut lines = String::new();
        loop {
            lines.clear();
            let Some((count, reopen)) = self.next_batch(&mut lines) else {
                return;
            };
            if reopen {
                if let Err(error) = sink.reopen() {
                    tracing::error!(%error, "audit log not opened again, kept the current file");
                }
            }
            if let Err(error) = sink.write(lines.as_bytes()) {
                self.unwritten.fetch_add(count, Ordering::Relaxed);
                limited!(error, "audit log not written", %error, "audit log not written");
            }
        }
    }

    /// Waits for records and appends their lines. Returns their number and whether the file must be
    /// opened again before them, `None` at the end.
    fn next_batch(&self, lines: &mut String) -> Option<(u64, bool)> {
        let mut state = lock(&self.state);
        loop {
            self.summarize(&mut state);
            let mut count = 0;
            while lines.len() < BATCH_BYTES {
                let Some(record) = state.queue.pop() else {
                    break;
                };
                // All members are texts and numbers, which JSON can represent.
                let _ = record.push_line(lines);
                count += 1;
            }
            let reopen = std::mem::take(&mut state.reopen);
            if count > 0 || reopen {
                return Some((count, reopen));
            }
            if state.closed {
                return None;
            }
            state = match state.limiter.has_excess() {
                true => {
                    let waited = self.wake.wait_timeout(state, SUMMARY_INTERVAL);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                false => (self.wake.wait(state)).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

/// Returns Unix time in milliseconds.
fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Instant;

    use super::config::AuditTarget;
    use super::*;

    fn config(path: &Path, queue: usize) -> AuditConfig {
        AuditConfig {
            target: AuditTarget::File(path.to_owned()),
            queue,
            gateway: "gw-1".to_owned(),
        }
    }

    fn lines(path: &Path) -> Vec<AuditRecord> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let parse = |line| serde_json::from_str(line).expect("a record");
        text.lines().map(parse).collect()
    }

    fn wait_for(what: &str, done: impl Fn() -> bool) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while !done() {
            assert!(Instant::now() < deadline, "timed out: {what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn records_are_written_and_file_is_reopened() {
        let dir = tempfile::tempdir().unwrap();
        let (path, old) = (dir.path().join("audit.log"), dir.path().join("audit.1"));
        let (log, thread) = AuditLog::start(&config(&path, 10)).unwrap();
        log.record(log.event(AuditEvent::Create, AuditOutcome::Allow));
        wait_for("the first line", || lines(&path).len() == 1);
        std::fs::rename(&path, &old).unwrap();
        log.reopen();
        wait_for("a new file", || path.exists());
        log.record(log.event(AuditEvent::End, AuditOutcome::Allow));
        log.close();
        thread.join().unwrap();
        let events = |path| {
            lines(path)
                .iter()
                .map(AuditRecord::event)
                .collect::<Vec<_>>()
        };
        assert_eq!(events(&old), [AuditEvent::Create]);
        assert_eq!(events(&path), [AuditEvent::End]);
        assert_eq!(log.dropped(), 0);
    }

    #[test]
    fn excess_rejections_become_one_summary() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("audit.log");
        let (log, thread) = AuditLog::start(&config(&path, 1_000)).unwrap();
        let rejected = 1_000;
        for _ in 0..rejected {
            let record = log.event(AuditEvent::Subscribe, AuditOutcome::Deny);
            log.record(record.address("10.0.0.7"));
        }
        let is_summary = |line: &str| line.contains("\"reason\":\"summary\"");
        wait_for("a summary", || {
            std::fs::read_to_string(&path).is_ok_and(|text| text.lines().any(is_summary))
        });
        log.close();
        thread.join().unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let single = text.lines().filter(|line| !is_summary(line)).count();
        let summarized: u64 = text
            .lines()
            .filter(|line| is_summary(line))
            .map(|line| {
                let line: serde_json::Value = serde_json::from_str(line).unwrap();
                assert_eq!(
                    (&line["address"], &line["event"]),
                    (&"10.0.0.7".into(), &"subscribe".into())
                );
                line["item_count"].as_u64().unwrap()
            })
            .sum();
        assert_eq!(single as u64 + summarized, rejected);
        // The test may have begun shortly before the end of a second.
        assert!((100..=300).contains(&single), "{single}");
    }

    #[test]
    fn unwritable_records_are_counted() {
        let full = Path::new("/dev/full");
        let (log, thread) = AuditLog::start(&config(full, 10)).unwrap();
        log.record(log.event(AuditEvent::Create, AuditOutcome::Allow));
        log.close();
        thread.join().unwrap();
        assert_eq!(log.dropped(), 1);
    }
}
