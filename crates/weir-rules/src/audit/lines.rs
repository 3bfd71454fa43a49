//! Bounded queue of audit lines. Equal denials are counted and become one line per minute.

use std::collections::{HashMap, VecDeque};

use weir_access::audit::{AuditConfig, LineSource, unix_ms};
use weir_identity::audit::timestamp;

use super::record::{AuditKind, AuditLine, NumberedLine};

/// Interval for which equal denials are counted, in milliseconds.
const DENIED_INTERVAL_MS: u64 = 60_000;
/// Maximum number of different denials that are counted; each further denial gets a line.
const DENIED_MAX: usize = 10_000;
/// Interval at which the counted denials are checked, in milliseconds.
const CHECK_INTERVAL_MS: u64 = 1_000;

/// Lines queued for the writer, and counted denials.
#[derive(Debug)]
pub(super) struct AuditLines {
    proxy: String,
    queue: VecDeque<Box<str>>,
    lines_max: usize,
    /// Sequence number of the last line.
    seq: u64,
    dropped: u64,
    /// Denials with the Unix time of their last line, in milliseconds, and their number since then.
    denied: HashMap<AuditLine, (u64, u64)>,
    /// Unix time of the last check of `denied`.
    checked_ms: u64,
}

impl AuditLines {
    pub(super) fn new(config: &AuditConfig) -> Self {
        Self {
            proxy: config.gateway.clone(),
            queue: VecDeque::new(),
            lines_max: config.queue,
            seq: 0,
            dropped: 0,
            denied: HashMap::new(),
            checked_ms: 0,
        }
    }

    /// Returns `true` if the queue is not full.
    pub(super) fn has_room(&self) -> bool {
        self.queue.len() < self.lines_max
    }

    /// Returns the numbers of queued and of dropped lines.
    pub(super) fn counts(&self) -> (u64, u64) {
        (self.seq, self.dropped)
    }

    /// Adds an event, unless it is a denial that is only counted.
    pub(super) fn push(&mut self, line: AuditLine, now_ms: u64) {
        if line.event == AuditKind::Denied {
            if let Some((_, count)) = self.denied.get_mut(&line) {
                *count += 1;
                return;
            }
            self.add(&line, None, now_ms);
            if self.denied.len() < DENIED_MAX {
                self.denied.insert(line, (now_ms, 0));
            }
            return;
        }
        self.add(&line, None, now_ms);
    }

    /// Queues a line with its sequence number; drops and counts it if the queue is full.
    fn add(&mut self, line: &AuditLine, count: Option<u64>, now_ms: u64) {
        if !self.has_room() {
            self.dropped += 1;
            return;
        }
        self.seq += 1;
        let line = NumberedLine {
            time: timestamp(now_ms),
            proxy: &self.proxy,
            seq: self.seq,
            line,
            count,
        };
        // All fields are strings and numbers, which JSON can represent.
        let text = serde_json::to_string(&line).unwrap_or_default();
        self.queue.push_back(text.into());
    }

    /// Adds a line for each denial that was repeated in its interval. Stops counting the others.
    fn add_repeated(&mut self, now_ms: u64) {
        let is_due = |since_ms: u64| now_ms >= since_ms + DENIED_INTERVAL_MS;
        let due = self
            .denied
            .iter()
            .filter(|(_, (since_ms, _))| is_due(*since_ms));
        let due: Vec<_> = due
            .map(|(line, (_, count))| (line.clone(), *count))
            .collect();
        for (line, count) in due {
            match count {
                0 => drop(self.denied.remove(&line)),
                _ => {
                    self.add(&line, Some(count), now_ms);
                    self.denied.insert(line, (now_ms, 0));
                }
            }
        }
    }
}

impl LineSource for AuditLines {
    fn prepare(&mut self) {
        let now_ms = unix_ms();
        if now_ms.abs_diff(self.checked_ms) >= CHECK_INTERVAL_MS && !self.denied.is_empty() {
            self.checked_ms = now_ms;
            self.add_repeated(now_ms);
        }
    }

    fn pop_line(&mut self, lines: &mut String) -> bool {
        let Some(line) = self.queue.pop_front() else {
            return false;
        };
        lines.push_str(&line);
        lines.push('\n');
        true
    }

    fn has_pending(&self) -> bool {
        !self.denied.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::audit::record::AuditDetails;

    fn lines(queue: usize) -> AuditLines {
        let name = Some("p-1".to_owned());
        let config = AuditConfig::new("a".into(), Some(queue), name, Path::new("/"));
        AuditLines::new(&config.expect("valid"))
    }

    fn denied(resource: &str) -> AuditLine {
        AuditLine {
            principal: Some("User:anna".into()),
            details: AuditDetails {
                resource: Some(resource.into()),
                ..AuditDetails::default()
            },
            ..AuditLine::new(AuditKind::Denied)
        }
    }

    fn taken(lines: &mut AuditLines) -> Vec<serde_json::Value> {
        let mut text = String::new();
        while lines.pop_line(&mut text) {}
        let parsed = text
            .lines()
            .map(|line| serde_json::from_str(line).expect("JSON"));
        parsed.collect()
    }

    #[test]
    fn equal_denials_become_one_line_per_minute() {
        let mut lines = lines(100);
        for at_ms in 0..50 {
            lines.push(denied("a"), at_ms);
        }
        lines.push(denied("b"), 50);
        let first = taken(&mut lines);
        assert_eq!(first.len(), 2, "{first:?}");
        assert_eq!(first[0]["resource"], "a");
        assert_eq!(
            (&first[1]["seq"], &first[1]["count"]),
            (&2.into(), &().into())
        );
        lines.add_repeated(59_000);
        assert!(taken(&mut lines).is_empty());
        lines.add_repeated(61_000);
        let repeated = taken(&mut lines);
        assert_eq!(repeated.len(), 1);
        assert_eq!(
            (&repeated[0]["resource"], &repeated[0]["count"]),
            (&"a".into(), &49.into())
        );
        lines.add_repeated(122_000);
        assert!(taken(&mut lines).is_empty() && !lines.has_pending());
    }

    #[test]
    fn full_queue_drops_and_counts() {
        let mut lines = lines(2);
        for _ in 0..5 {
            lines.push(AuditLine::new(AuditKind::Login), 0);
        }
        assert!(!lines.has_room());
        assert_eq!(lines.counts(), (2, 3));
        let taken = taken(&mut lines);
        assert_eq!(
            (&taken[0]["event"], &taken[0]["proxy"]),
            (&"login".into(), &"p-1".into())
        );
        assert!(lines.has_room());
    }
}
