//! The newest record of a topic that fits, looked for from the end.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message;

use crate::peek::{
    OwnedRecord, PeekError, RecordSelector, choose, left, owned, partitions, read, reader, remark,
};

/// Offsets that are read first; each further step reads ten times as many.
const FIRST_STEP: u64 = 100;

/// What looking back came to.
#[derive(Debug)]
pub struct LookBack {
    /// The newest record that fits, or the newest of all.
    pub record: OwnedRecord,
    /// Whether it fits.
    pub matches: bool,
    /// Records read.
    pub read: u64,
    /// Whether no older records are there.
    pub is_whole: bool,
}

/// Looks for the newest record that `fits`, in at most `records_max` offsets counted back from the
/// ends of all partitions of a topic, or of the one named; each partition has an equal share.
///
/// The topic is named by bootstrap servers, name and partition. Joins no group and commits nothing.
///
/// # Errors
/// The topic or partition is not there or empty, or brokers do not answer within `timeout`.
pub fn look_back(
    (servers, topic, partition): (&str, &str, Option<i32>),
    records_max: u64,
    timeout: Duration,
    fits: &mut dyn FnMut(&OwnedRecord) -> bool,
) -> Result<LookBack, PeekError> {
    let deadline = Instant::now() + timeout;
    let consumer = reader(servers)?;
    let partitions = partitions(&consumer, servers, topic, deadline)?;
    let chosen = choose(partitions, topic, partition, RecordSelector::Last)?;
    let share = records_max.div_ceil(chosen.len() as u64).max(1);
    let mut look = BackwardScan {
        consumer: &consumer,
        topic,
        deadline,
        fits,
        fitting: None,
        newest: None,
        read: 0,
        is_whole: true,
    };
    for partition in chosen {
        look.partition(partition, share)
            .map_err(|error| remark(error, look.read))?;
    }
    let matches = look.fitting.is_some();
    let nothing = || PeekError::Nothing(format!("topic \"{topic}\" is empty"));
    Ok(LookBack {
        record: look.fitting.or(look.newest).ok_or_else(nothing)?,
        matches,
        read: look.read,
        is_whole: look.is_whole,
    })
}

struct BackwardScan<'a> {
    consumer: &'a BaseConsumer,
    topic: &'a str,
    deadline: Instant,
    fits: &'a mut dyn FnMut(&OwnedRecord) -> bool,
    fitting: Option<OwnedRecord>,
    newest: Option<OwnedRecord>,
    read: u64,
    is_whole: bool,
}

impl BackwardScan<'_> {
    /// Looks through a partition, block by block from its end.
    fn partition(&mut self, partition: i32, share: u64) -> Result<(), PeekError> {
        let left = left(self.deadline);
        let (low, high) = self
            .consumer
            .fetch_watermarks(self.topic, partition, left)?;
        let share = i64::try_from(share).unwrap_or(i64::MAX);
        let oldest = high.saturating_sub(share).max(low);
        let mut end = high;
        let mut step = FIRST_STEP as i64;
        let mut newest = None;
        while end > oldest {
            let start = end.saturating_sub(step).max(oldest);
            let (last, fitting) = self.block(partition, start, end)?;
            newest = newest.or(last);
            if fitting.is_some() {
                newer(&mut self.fitting, fitting);
                break;
            }
            end = start;
            step = step.saturating_mul(10);
        }
        newer(&mut self.newest, newest);
        self.is_whole &= oldest == low;
        Ok(())
    }

    /// Reads the records from `start` to before `end`; the last of all and the last that fits.
    fn block(
        &mut self,
        partition: i32,
        start: i64,
        end: i64,
    ) -> Result<(Option<OwnedRecord>, Option<OwnedRecord>), PeekError> {
        let (mut last, mut fitting) = (None, None);
        let take = |record: &rdkafka::message::BorrowedMessage<'_>| {
            if record.offset() >= end {
                return false;
            }
            self.read += 1;
            let goes_on = record.offset() + 1 < end;
            let record = owned(record);
            if (self.fits)(&record) {
                fitting = Some(record.clone());
            }
            last = Some(record);
            goes_on
        };
        read(
            self.consumer,
            self.topic,
            partition,
            start,
            self.deadline,
            take,
        )?;
        Ok((last, fitting))
    }
}

/// Keeps the newer one of two records, by time.
fn newer(kept: &mut Option<OwnedRecord>, other: Option<OwnedRecord>) {
    let time = |record: &Option<OwnedRecord>| record.as_ref().map(|r| r.timestamp_ms);
    if time(&other) > time(kept) {
        *kept = other;
    }
}
