//! Audit log: who did what, one JSON object per line (docs/session-administration.md).
//!
//! Event loops add records to a bounded queue; a thread writes them. Item updates are not recorded.

mod config;
mod sink;
mod writer;

pub use self::config::{AuditConfig, AuditError, AuditTarget, RawAudit};
pub use self::writer::{LineSource, LineWriter, unix_ms};

use std::sync::Arc;
use std::thread::JoinHandle;

use weir_identity::audit::{
    AuditEvent, AuditOutcome, AuditQueue, AuditRecord, RejectionLimiter, RejectionLimits,
};

/// Sending end of the audit log, shared by all threads.
#[derive(Debug)]
pub struct AuditLog {
    gateway: String,
    writer: Arc<LineWriter<GatewayLines>>,
}

/// Records queued for the writer, and rejections that are only counted.
#[derive(Debug)]
struct GatewayLines {
    gateway: String,
    queue: AuditQueue,
    limiter: RejectionLimiter,
}

impl AuditLog {
    /// Opens the log and starts its writer, which ends after [`Self::close`].
    pub fn start(config: &AuditConfig) -> Result<(Arc<Self>, JoinHandle<()>), AuditError> {
        let lines = GatewayLines {
            gateway: config.gateway.clone(),
            queue: AuditQueue::new(config.queue),
            limiter: RejectionLimiter::new(RejectionLimits::default()),
        };
        let (writer, thread) = LineWriter::start(lines, &config.target)?;
        let gateway = config.gateway.clone();
        Ok((Arc::new(Self { gateway, writer }), thread))
    }

    /// Returns a record of this gateway at the current time, for [`Self::record`].
    pub fn event(&self, event: AuditEvent, outcome: AuditOutcome) -> AuditRecord {
        AuditRecord::new(&self.gateway, unix_ms(), event, outcome)
    }

    /// Queues a record. Rejections of one address above the limit per second are only counted.
    pub fn record(&self, record: AuditRecord) {
        self.writer.add(|lines| lines.record(record));
    }

    /// Returns the number of records that were dropped or could not be written.
    pub fn dropped(&self) -> u64 {
        let dropped = self.writer.read(|lines| lines.queue.dropped());
        dropped.allowed_subscriptions + dropped.others + self.writer.unwritten()
    }

    /// Opens the file again, after it was renamed by log rotation.
    pub fn reopen(&self) {
        self.writer.reopen();
    }

    /// Ends the writer after it has written the queued records.
    pub fn close(&self) {
        self.writer.close();
    }
}

impl GatewayLines {
    fn record(&mut self, record: AuditRecord) {
        if record.outcome() == AuditOutcome::Deny {
            self.prepare();
            let address = record.address_text().unwrap_or_default();
            if !self.limiter.admit(address, record.event()) {
                // Counted for a summary, which is queued after this second.
                return;
            }
        }
        self.queue.push(record);
    }
}

impl LineSource for GatewayLines {
    /// Queues summaries of the rejections that were only counted in earlier seconds.
    fn prepare(&mut self) {
        let now_ms = unix_ms();
        for summary in self.limiter.summaries(now_ms) {
            let (event, outcome) = (summary.event, AuditOutcome::Deny);
            let record = AuditRecord::new(&self.gateway, now_ms, event, outcome);
            let record = record.reason("summary").count(summary.count.into());
            self.queue.push(match summary.address.as_deref() {
                None | Some("") => record,
                Some(address) => record.address(address),
            });
        }
    }

    fn pop_line(&mut self, lines: &mut String) -> bool {
        let Some(record) = self.queue.pop() else {
            return false;
        };
        // All fields are strings and numbers, which JSON can represent.
        let _ = record.push_line(lines);
        true
    }

    fn has_pending(&self) -> bool {
        self.limiter.has_excess()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::{Duration, Instant};

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
            std::thread::sleep(Duration::from_millis(10));
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
        // 100 rejections a second are written; the test may extend over up to three seconds.
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
