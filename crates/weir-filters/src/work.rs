//! Filters one frame, batch by batch. The work can pause between batches and continue later in
//! another thread.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use weir_wire::WireError;
use weir_wire::byte_edits::ByteEdits;
use weir_wire::cluster::TopicId;
use weir_wire::layout::{
    self, FETCH_VERSION_MAX, MessageLayout, PRODUCE_VERSION_MAX, PartitionSpan, TopicSpan,
    fetch_is_flexible, has_topic_ids, produce_is_flexible, put_length,
};
use weir_wire::records::{FirstBatch, first_batch};

use crate::batch::{self, BatchOutcome, BatchRejection, TOO_SLOW};
use crate::buffers::{FilterBuffers, FilterLimits};
use crate::chain::FilterChain;
use crate::rejected::RejectedPartitions;
use crate::{Direction, Filter};

/// The filter work for one frame.
#[derive(Debug)]
pub struct FilterWork {
    direction: Direction,
    version: i16,
    body_at: usize,
    flexible: bool,
    has_layout: bool,
    layout: MessageLayout,
    /// Names of the topics in a version with ids; `None` for an unknown one.
    names: Vec<Option<Arc<str>>>,
    /// A fetch response contains records of an unknown topic, so the consumer must begin a new
    /// fetch session, whose first request contains all its topic ids.
    ends_session: bool,
    edits: ByteEdits,
    topic: usize,
    partition: usize,
    open: Option<OpenPartition>,
    /// Number of edits before those of the topic.
    topic_edit: usize,
    /// Partitions of the topic that are forwarded.
    partitions_left: usize,
    topics_left: usize,
    is_any_left: bool,
    delay: Duration,
    rejected: RejectedPartitions,
    spent: FilterCosts,
}

/// The partition that is being filtered.
#[derive(Debug, Clone, Copy)]
struct OpenPartition {
    /// Position of its next batch in the frame.
    at: usize,
    /// New length of its records.
    length: usize,
    /// Number of edits before its own.
    first_edit: usize,
}

/// Costs of the frame so far.
#[derive(Debug, Default, Clone, Copy)]
struct FilterCosts {
    batches: u64,
    bytes: usize,
    records: usize,
    cpu: Duration,
}

/// State of the work after a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkProgress {
    /// All batches are filtered.
    Done,
    /// The meter is used up. The work may continue in any thread.
    Paused,
}

/// The result of filtering a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterResult {
    /// Where the frame is now.
    pub output: FrameOutput,
    /// Delay of the frame and everything after it.
    pub delay: Duration,
    /// Partitions that are not forwarded and whose producer expects a response.
    pub rejected: Option<RejectedPartitions>,
}

/// The frame after filtering.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameOutput {
    /// The frame, possibly edited in place.
    InPlace,
    /// The frame in [`FilterBuffers::frame`](crate::FilterBuffers::frame).
    Rebuilt,
    /// Nothing: no partition is left.
    Nothing,
}

impl FilterWork {
    /// Creates the work for a frame whose body starts at `body_at`.
    pub(crate) fn new(
        direction: Direction,
        body_at: usize,
        version: i16,
    ) -> Result<Self, WireError> {
        let (version_max, flexible) = match direction {
            Direction::Produce => (PRODUCE_VERSION_MAX, produce_is_flexible(version)),
            Direction::Fetch => (FETCH_VERSION_MAX, fetch_is_flexible(version)),
        };
        check_version(version, version_max)?;
        Ok(Self {
            direction,
            version,
            body_at,
            flexible,
            has_layout: false,
            layout: MessageLayout::default(),
            names: Vec::new(),
            ends_session: false,
            edits: ByteEdits::default(),
            topic: 0,
            partition: 0,
            open: None,
            topic_edit: 0,
            partitions_left: 0,
            topics_left: 0,
            is_any_left: false,
            delay: Duration::ZERO,
            rejected: RejectedPartitions::default(),
            spent: FilterCosts::default(),
        })
    }

    /// Takes memory from the thread's buffers. [`Self::finish`] returns it.
    pub(crate) fn borrow_from(&mut self, buffers: &mut FilterBuffers) {
        buffers.shrink();
        self.layout = std::mem::take(&mut buffers.layout);
        self.edits = std::mem::take(&mut buffers.edits);
    }

    /// Returns the CPU time that the frame may still use.
    pub fn cpu_left(&self, limits: &FilterLimits) -> Duration {
        limits.frame_cpu.saturating_sub(self.spent.cpu)
    }

    /// Adds CPU time that the frame has used.
    pub fn count_cpu(&mut self, time: Duration) {
        self.spent.cpu += time;
    }

    /// Continues as long as the meter in `buffers` allows.
    pub fn advance(
        &mut self,
        filters: &FilterChain,
        frame: &mut [u8],
        buffers: &mut FilterBuffers,
    ) -> Result<WorkProgress, WireError> {
        if !self.has_layout {
            let body = body(frame, self.body_at)?;
            match self.direction {
                Direction::Produce => layout::produce(body, self.version, &mut self.layout)?,
                Direction::Fetch => layout::fetch(body, self.version, &mut self.layout)?,
            }
            self.has_layout = true;
            self.topics_left = self.layout.topics.len();
            if has_topic_ids(self.version) {
                let topics = self.layout.topics.iter();
                let ids = topics.map(|topic| id(&frame[self.in_frame(&topic.topic)]));
                self.names = filters.names.of(ids);
                self.ends_session = self.direction == Direction::Fetch && self.has_nameless();
            }
            self.begin_topic();
        }
        if self.ends_session {
            return Ok(WorkProgress::Done);
        }
        while let Some(topic) = self.layout.topics.get(self.topic).cloned() {
            buffers.batch_buffers.meter.charge(TOPIC_UNITS);
            let known = self.names.get(self.topic).cloned();
            let is_unknown = known == Some(None);
            let (chain, delay) = match &known {
                Some(Some(name)) => filters.chain(name, self.direction),
                Some(None) => Default::default(),
                None => {
                    let name = &frame[self.in_frame(&topic.topic)];
                    filters.chain(as_text(name), self.direction)
                }
            };
            self.delay = self.delay.max(delay);
            while self.partition < topic.partitions.end {
                let span = self.layout.partitions[self.partition].clone();
                let outcome = match is_unknown && self.direction == Direction::Produce {
                    true => Err(BatchRejection::UnknownTopic),
                    false => self.batches(frame, &span, &chain, buffers),
                };
                match outcome {
                    Ok(WorkProgress::Done) => {}
                    Ok(WorkProgress::Paused) => return Ok(WorkProgress::Paused),
                    Err(rejection) => {
                        buffers.counts.limited +=
                            u64::from(matches!(rejection, BatchRejection::TooLarge(_)));
                        self.reject_partition(frame, &topic, &span, rejection, buffers);
                    }
                }
                self.open = None;
                self.partition += 1;
            }
            self.end_topic(&topic);
        }
        Ok(WorkProgress::Done)
    }

    /// Assembles the frame, in `buffers` if it must be rebuilt.
    pub fn finish(mut self, frame: &[u8], buffers: &mut FilterBuffers) -> FilterResult {
        let is_rejected = !self.rejected.is_empty();
        if self.ends_session {
            self.edits.replace(self.body_at..frame.len(), |out| {
                // No throttle time; error; no session, no topics, no tagged fields.
                out.extend_from_slice(&[0; 4]);
                out.extend_from_slice(&FETCH_SESSION_ID_NOT_FOUND.to_be_bytes());
                out.extend_from_slice(&[0, 0, 0, 0, 1, 0]);
            });
        } else if self.topics_left < self.layout.topics.len() {
            self.count(&self.layout.topic_count.clone(), self.topics_left);
        }
        let is_nothing = self.direction == Direction::Produce && is_rejected && !self.is_any_left;
        let output = if is_nothing {
            FrameOutput::Nothing
        } else if self.edits.is_empty() {
            FrameOutput::InPlace
        } else {
            self.edits.apply(frame, &mut buffers.frame);
            let size = buffers.frame.len().saturating_sub(SIZE_BYTES);
            // Invariant: frames cannot grow beyond their limit, which is far below 31 bits.
            let size = i32::try_from(size).unwrap_or(i32::MAX);
            buffers.frame[..SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
            FrameOutput::Rebuilt
        };
        // With acks=0 the producer expects no response.
        let rejected = Some(self.rejected).filter(|_| is_rejected && self.layout.acks != 0);
        buffers.layout = self.layout;
        buffers.edits = self.edits;
        FilterResult {
            output,
            delay: self.delay,
            rejected,
        }
    }

    /// Filters the batches of a partition.
    fn batches(
        &mut self,
        frame: &mut [u8],
        span: &PartitionSpan,
        chain: &[&dyn Filter],
        buffers: &mut FilterBuffers,
    ) -> Result<WorkProgress, BatchRejection> {
        buffers.batch_buffers.meter.charge(PARTITION_UNITS);
        if chain.is_empty() {
            return Ok(WorkProgress::Done);
        }
        let all = self.in_frame(&span.records);
        let mut open = self.open.unwrap_or_else(|| OpenPartition {
            at: all.start,
            length: all.len(),
            first_edit: self.edits.len(),
        });
        self.open = Some(open);
        while open.at < all.end {
            let batch = match first_batch(&frame[open.at..all.end]) {
                FirstBatch::Batch(bytes) => open.at..open.at + bytes,
                FirstBatch::OldFormat(_) => return Err(BatchRejection::OldFormat),
                // Consumers handle an incomplete last batch; brokers reject it themselves.
                FirstBatch::Truncated => break,
                FirstBatch::Invalid => {
                    return Err(BatchRejection::Invalid("no batch".to_owned()));
                }
            };
            self.check_spent(&buffers.batch_buffers.limits)?;
            if buffers.batch_buffers.meter.is_due() {
                return Ok(WorkProgress::Paused);
            }
            let (batch_buffers, counts) = (&mut buffers.batch_buffers, &mut buffers.counts);
            let records = counts.records;
            let mut outcome = Ok(BatchOutcome::Untouched);
            let new_bytes = self.edits.replace_if(batch.clone(), |out| {
                outcome = batch::run(&mut frame[batch.clone()], chain, batch_buffers, counts, out);
                outcome == Ok(BatchOutcome::Rebuilt)
            });
            match (outcome, self.direction) {
                (Ok(BatchOutcome::Deferred), _) => return Ok(WorkProgress::Paused),
                // The broker reports a wrong checksum to the producer.
                (Err(BatchRejection::Corrupt), Direction::Produce) => {}
                (Err(rejection), _) => return Err(rejection),
                (Ok(_), _) => {}
            }
            self.spent.batches += 1;
            self.spent.bytes += batch_buffers.decompressed_bytes;
            self.spent.records += (counts.records - records) as usize;
            batch_buffers.meter.charge(BATCH_UNITS);
            if let Some(new_bytes) = new_bytes {
                open.length = open.length - batch.len() + new_bytes;
            }
            open.at = batch.end;
            self.open = Some(open);
        }
        if open.length != all.len() {
            self.count(&span.length, open.length);
        }
        Ok(WorkProgress::Done)
    }

    /// Returns an error once the frame has reached a limit.
    fn check_spent(&self, limits: &FilterLimits) -> Result<(), BatchRejection> {
        let spent = &self.spent;
        if spent.records >= limits.frame_records {
            return Err(batch::too_many(limits.frame_records));
        }
        let bytes = spent.bytes.max(self.edits.bytes());
        if bytes >= limits.frame_bytes {
            let bytes_max = limits.frame_bytes;
            let text =
                format!("a request decompresses to more than {bytes_max} bytes: send smaller ones");
            return Err(BatchRejection::TooLarge(text));
        }
        match spent.cpu < limits.frame_cpu {
            true => Ok(()),
            false => Err(BatchRejection::TooLarge(TOO_SLOW.to_owned())),
        }
    }

    fn reject_partition(
        &mut self,
        frame: &mut [u8],
        topic: &TopicSpan,
        span: &PartitionSpan,
        rejection: BatchRejection,
        buffers: &mut FilterBuffers,
    ) {
        let counts = &mut buffers.counts;
        match self.direction {
            Direction::Produce => {
                if let Some(open) = self.open {
                    self.edits.truncate(open.first_edit);
                }
                self.partitions_left -= 1;
                counts.partitions_rejected += 1;
                self.edits.remove(self.in_frame(&span.whole));
                let topic = &frame[self.in_frame(&topic.topic)];
                self.rejected.add(topic, span.index, rejection);
            }
            Direction::Fetch => {
                if self.cut(span, &rejection) {
                    counts.partitions_cut += 1;
                    return;
                }
                counts.partitions_withheld += 1;
                let error = self.body_at + span.error_at;
                frame[error..error + 2].copy_from_slice(&CORRUPT_MESSAGE.to_be_bytes());
                self.empty(span);
            }
        }
    }

    /// Ends a partition of a fetch response before the batch that cannot be forwarded. Returns
    /// `false` if the consumer must get an error instead, because it would fetch the same batch
    /// forever.
    fn cut(&mut self, span: &PartitionSpan, rejection: &BatchRejection) -> bool {
        let all = self.in_frame(&span.records);
        let Some(open) = self.open else { return false };
        if open.at > all.start {
            self.edits.remove(open.at..all.end);
            self.count(&span.length, open.length - (all.end - open.at));
            return true;
        }
        // A later response begins with this partition and has the full limits for it.
        let is_limit = matches!(rejection, BatchRejection::TooLarge(_));
        let may_come_later = is_limit && self.spent.batches > 0;
        if may_come_later {
            self.empty(span);
        }
        may_come_later
    }

    /// Removes all records from a partition of a fetch response.
    fn empty(&mut self, span: &PartitionSpan) {
        if let Some(open) = self.open {
            self.edits.truncate(open.first_edit);
        }
        let range = self.in_frame(&(span.length.start..span.records.end));
        let flexible = self.flexible;
        self.edits
            .replace(range, |out| put_length(out, flexible, 0));
    }

    /// Returns `true` if a topic with records has an unknown id.
    fn has_nameless(&self) -> bool {
        let topics = self.layout.topics.iter().zip(&self.names);
        let mut nameless = topics.filter(|(_, name)| name.is_none());
        nameless.any(|(topic, _)| {
            let partitions = &self.layout.partitions[topic.partitions.clone()];
            partitions.iter().any(|span| !span.records.is_empty())
        })
    }

    fn begin_topic(&mut self) {
        let topic = self.layout.topics.get(self.topic);
        self.partitions_left = topic.map_or(0, |topic| topic.partitions.len());
        self.topic_edit = self.edits.len();
    }

    fn end_topic(&mut self, topic: &TopicSpan) {
        if self.partitions_left == topic.partitions.len() {
            self.is_any_left = true;
        } else if self.partitions_left == 0 {
            self.topics_left -= 1;
            self.edits.truncate(self.topic_edit);
            self.edits.remove(self.in_frame(&topic.whole));
        } else {
            self.is_any_left = true;
            self.count(&topic.partition_count, self.partitions_left);
        }
        self.topic += 1;
        self.begin_topic();
    }

    /// Replaces a count or a length.
    fn count(&mut self, field: &Range<usize>, count: usize) {
        let (flexible, range) = (self.flexible, self.in_frame(field));
        self.edits
            .replace(range, |out| put_length(out, flexible, count));
    }

    /// Converts a range of the body to a range of the frame.
    fn in_frame(&self, range: &Range<usize>) -> Range<usize> {
        range.start + self.body_at..range.end + self.body_at
    }
}

fn id(bytes: &[u8]) -> TopicId {
    // Invariant: the layout has 16 bytes for an id.
    let bytes = bytes.first_chunk().copied().unwrap_or_default();
    TopicId::from_be_bytes(bytes)
}

fn as_text(bytes: &[u8]) -> &str {
    // Invariant: the layout is checked to be UTF-8.
    std::str::from_utf8(bytes).unwrap_or_default()
}

fn body(frame: &[u8], body_at: usize) -> Result<&[u8], WireError> {
    frame.get(body_at..).ok_or(WireError::Truncated {
        what: "body",
        needed: body_at,
        left: frame.len(),
    })
}

fn check_version(version: i16, version_max: i16) -> Result<(), WireError> {
    match (0..=version_max).contains(&version) {
        true => Ok(()),
        false => Err(WireError::Length {
            what: "API version that is not supported",
            value: i64::from(version),
        }),
    }
}

const SIZE_BYTES: usize = 4;
/// Error code that consumers report as corrupt stored data.
const CORRUPT_MESSAGE: i16 = 2;
/// Error code on which consumers begin a new fetch session.
const FETCH_SESSION_ID_NOT_FOUND: i16 = 70;
/// Costs of topics, partitions and batches in addition to their bytes.
const TOPIC_UNITS: u64 = 256;
const PARTITION_UNITS: u64 = 32;
const BATCH_UNITS: u64 = 1024;
