//! Finds the latest matching record of a topic, searching backwards from the end.

use std::time::Duration;

use rdkafka::message::{BorrowedMessage, Message};
use weir_security::KafkaSettings;

use crate::peek::{OwnedRecord, PeekError, RecordSelector, TopicReader, owned};

/// Number of offsets in the first block; each further block is ten times as large.
const FIRST_STEP: u64 = 100;

/// Result of a backward search.
#[derive(Debug)]
pub struct LookBack {
    /// Latest matching record, or the latest record if none matches.
    pub record: OwnedRecord,
    /// `record` matches.
    pub matches: bool,
    /// Records read.
    pub read: u64,
    /// All records of the searched partitions were considered.
    pub is_complete: bool,
}

/// Finds the latest record that `fits` among the last `records_max` offsets of a topic, or of one
/// partition. All partitions get an equal number of offsets.
///
/// The tuple contains cluster, topic and partition. Joins no group and commits nothing.
///
/// # Errors
/// The topic or partition does not exist or is empty, or brokers do not respond within `timeout`.
pub fn look_back(
    (kafka, topic, partition): (&KafkaSettings, &str, Option<i32>),
    records_max: u64,
    timeout: Duration,
    fits: &mut dyn FnMut(&OwnedRecord) -> bool,
) -> Result<LookBack, PeekError> {
    let reader = TopicReader::open(kafka, topic, timeout)?;
    let chosen = reader.select(partition, RecordSelector::Last)?;
    let offsets_max = records_max.div_ceil(chosen.len() as u64).max(1);
    let mut scan = BackwardScan {
        reader: &reader,
        fits,
        matching: None,
        newest: None,
        read: 0,
        is_complete: true,
    };
    for partition in chosen {
        let searched = scan.search_partition(partition, offsets_max);
        searched.map_err(|error| match error {
            PeekError::Kafka(text) => {
                PeekError::Kafka(format!("{text}, after {} records", scan.read))
            }
            other => other,
        })?;
    }
    let matches = scan.matching.is_some();
    let nothing = || PeekError::NoRecord(format!("topic \"{topic}\" is empty"));
    Ok(LookBack {
        record: scan.matching.or(scan.newest).ok_or_else(nothing)?,
        matches,
        read: scan.read,
        is_complete: scan.is_complete,
    })
}

struct BackwardScan<'a> {
    reader: &'a TopicReader<'a>,
    fits: &'a mut dyn FnMut(&OwnedRecord) -> bool,
    matching: Option<OwnedRecord>,
    newest: Option<OwnedRecord>,
    read: u64,
    is_complete: bool,
}

impl BackwardScan<'_> {
    fn search_partition(&mut self, partition: i32, offsets_max: u64) -> Result<(), PeekError> {
        let (low, high) = self.reader.watermarks(partition)?;
        let offsets_max = i64::try_from(offsets_max).unwrap_or(i64::MAX);
        let oldest = high.saturating_sub(offsets_max).max(low);
        let mut end = high;
        let mut step = FIRST_STEP as i64;
        let mut newest = None;
        while end > oldest {
            let start = end.saturating_sub(step).max(oldest);
            let (last, matching) = self.read_block(partition, start, end)?;
            newest = newest.or(last);
            if matching.is_some() {
                replace_if_later(&mut self.matching, matching);
                break;
            }
            end = start;
            step = step.saturating_mul(10);
        }
        replace_if_later(&mut self.newest, newest);
        self.is_complete &= oldest == low;
        Ok(())
    }

    /// Reads the records from `start` to before `end`. Returns the last record and the last
    /// matching one.
    fn read_block(
        &mut self,
        partition: i32,
        start: i64,
        end: i64,
    ) -> Result<(Option<OwnedRecord>, Option<OwnedRecord>), PeekError> {
        let (mut last, mut matching) = (None, None);
        let take = |record: &BorrowedMessage<'_>| {
            if record.offset() >= end {
                return false;
            }
            self.read += 1;
            let has_more = record.offset() + 1 < end;
            let record = owned(record);
            if (self.fits)(&record) {
                matching = Some(record.clone());
            }
            last = Some(record);
            has_more
        };
        self.reader.read(partition, start, take)?;
        Ok((last, matching))
    }
}

/// Replaces `latest` by `other` if `other` has a later timestamp.
fn replace_if_later(latest: &mut Option<OwnedRecord>, other: Option<OwnedRecord>) {
    let time = |record: &Option<OwnedRecord>| record.as_ref().map(|r| r.timestamp_ms);
    if time(&other) > time(latest) {
        *latest = other;
    }
}
