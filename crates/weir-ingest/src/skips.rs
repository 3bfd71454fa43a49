//! Log lines about skipped records. The first record of each cause is logged, the others are summed
//! up, so the number of lines is bounded.

use std::time::{Duration, Instant};

use weir_kafka::Record;
use weir_mapping::ExtractionError;

/// Time between two summaries; a cause without records for this time is new again.
const INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of causes; the mapping and topics bound them too, this bounds the search.
const CAUSES_MAX: usize = 64;

#[derive(Debug)]
pub(crate) struct Skips {
    causes: Vec<SkipCause>,
    summed_up: Instant,
    /// Undecodable records since the last one that could be decoded.
    undecodable: u64,
}

/// Records of one topic that failed in the same field for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkipCause {
    topic: Box<str>,
    pub(crate) error: ExtractionError,
    /// Number of records since the last line.
    pub(crate) records: u64,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

impl Skips {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            causes: Vec::new(),
            summed_up: now,
            undecodable: 0,
        }
    }

    /// Counts an undecodable record. Returns the number of such records in a row.
    pub(crate) fn note_undecodable(&mut self) -> u64 {
        self.undecodable += 1;
        self.undecodable
    }

    /// Notes a record that could be decoded. Returns `true` if it follows one that could not.
    #[inline]
    pub(crate) fn note_decoded(&mut self) -> bool {
        std::mem::take(&mut self.undecodable) > 0
    }

    /// Counts a record; returns `true` if it is the first of its cause.
    pub(crate) fn note(&mut self, record: &Record<'_>, error: &ExtractionError) -> bool {
        let is_same = |cause: &SkipCause| {
            *cause.topic == *record.topic
                && cause.error.kind() == error.kind()
                && cause.error.target == error.target
        };
        let room = self.causes.len() < CAUSES_MAX;
        let known = self.causes.iter().position(is_same);
        // Over the limit, the last cause counts all further records.
        let index = known.or_else(|| (!room).then_some(CAUSES_MAX - 1));
        match index.and_then(|index| self.causes.get_mut(index)) {
            Some(cause) => {
                cause.records += 1;
                (cause.partition, cause.offset) = (record.partition, record.offset);
                false
            }
            None => {
                self.causes.push(SkipCause {
                    topic: record.topic.into(),
                    error: error.clone(),
                    records: 0,
                    partition: record.partition,
                    offset: record.offset,
                });
                true
            }
        }
    }

    /// Logs one line per cause with further records, every 10 s.
    pub(crate) fn sum_up(&mut self, connection: &str, now: Instant) {
        if self.causes.is_empty() || now < self.summed_up + INTERVAL {
            return;
        }
        for cause in self.take_summary(now) {
            cause.log(connection);
        }
    }

    /// Returns the causes with further records and forgets the others.
    fn take_summary(&mut self, now: Instant) -> Vec<SkipCause> {
        self.summed_up = now;
        self.causes.retain(|cause| cause.records > 0);
        let summary = self.causes.clone();
        self.causes.iter_mut().for_each(|cause| cause.records = 0);
        summary
    }

    pub(crate) fn finish(&mut self, connection: &str) {
        for cause in self.take_summary(self.summed_up) {
            cause.log(connection);
        }
    }
}

impl SkipCause {
    fn log(&self, connection: &str) {
        tracing::warn!(
            connection, topic = &*self.topic, records = self.records,
            last_partition = self.partition, last_offset = self.offset,
            reason = self.error.kind().label(), cause = %self.error,
            "records skipped"
        );
    }
}

#[cfg(test)]
mod tests {
    use weir_kafka::HeaderList;
    use weir_mapping::{ExtractionTarget, PathFailure};

    use super::*;

    fn error(field: &str) -> ExtractionError {
        ExtractionError {
            target: ExtractionTarget::Field(field.into()),
            expression: "VALUE.a".into(),
            reason: PathFailure::NotFound("a".into()).into(),
        }
    }

    fn note(skips: &mut Skips, topic: &str, offset: i64, field: &str) -> bool {
        let record = Record {
            topic,
            partition: 3,
            offset,
            timestamp_ms: 0,
            key: None,
            value: None,
            headers: HeaderList::new(),
        };
        skips.note(&record, &error(field))
    }

    #[test]
    fn first_record_is_logged_others_are_counted() {
        let mut skips = Skips::new(Instant::now());
        assert!(note(&mut skips, "t", 1, "a"));
        assert!(!note(&mut skips, "t", 2, "a"));
        assert!(!note(&mut skips, "t", 5, "a"));
        assert!(note(&mut skips, "t", 6, "b"));
        assert!(note(&mut skips, "u", 7, "a"));
        let now = Instant::now();
        let summary = skips.take_summary(now);
        assert_eq!(summary.len(), 1, "the others had no further records");
        assert_eq!((summary[0].records, summary[0].offset), (2, 5));
        assert!(!note(&mut skips, "t", 8, "a"));
        assert_eq!(skips.take_summary(now)[0].records, 1);
        assert!(skips.take_summary(now).is_empty());
        assert!(
            note(&mut skips, "t", 9, "a"),
            "new after an interval without records"
        );
    }

    #[test]
    fn causes_are_bounded_and_all_records_counted() {
        let mut skips = Skips::new(Instant::now());
        let all = 10_000;
        let logged = (0..all).filter(|number| note(&mut skips, &number.to_string(), 0, "a"));
        let logged = logged.count() as u64;
        assert_eq!(logged, CAUSES_MAX as u64);
        let counted: u64 = skips.causes.iter().map(|cause| cause.records).sum();
        assert_eq!(logged + counted, all);
    }
}
