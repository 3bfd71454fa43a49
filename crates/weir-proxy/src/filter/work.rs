//! The work on one frame, batch by batch: it can stop between batches and go on later, elsewhere.

use std::ops::Range;
use std::time::Duration;

use weir_kafka::records::{FirstBatch, front};
use weir_kafka::wire::WireError;
use weir_kafka::wire::byte_edits::ByteEdits;
use weir_kafka::wire::layout::{
    self, FETCH_VERSION_MAX, MessageLayout, PRODUCE_VERSION_MAX, PartitionSpan, TopicSpan,
    fetch_is_flexible, produce_is_flexible, put_length,
};

use super::batch::{self, BatchOutcome, BatchRejection, TOO_SLOW};
use super::buffers::{FilterBuffers, FilterLimits};
use super::chain::{FilterChain, FilterResult, FrameOutput};
use super::rejected::RejectedPartitions;
use super::{Direction, Filter};

/// One frame on its way through filters.
#[derive(Debug)]
pub struct FilterBudget {
    direction: Direction,
    version: i16,
    body_at: usize,
    flexible: bool,
    has_layout: bool,
    layout: MessageLayout,
    patches: ByteEdits,
    topic: usize,
    partition: usize,
    open: Option<Open>,
    /// Patches before those of the topic.
    topic_patch: usize,
    /// Partitions of the topic that go on.
    partitions_left: usize,
    topics_left: usize,
    any_left: bool,
    hold: Duration,
    rejected: RejectedPartitions,
    spent: Spent,
}

/// The partition that is being worked on.
#[derive(Debug, Clone, Copy)]
struct Open {
    /// Where in the frame its next batch begins.
    at: usize,
    /// New length of its records.
    length: usize,
    /// Patches before its own.
    first_patch: usize,
}

/// What the frame has cost so far.
#[derive(Debug, Default, Clone, Copy)]
struct Spent {
    batches: u64,
    bytes: usize,
    records: usize,
    cpu: Duration,
}

/// How far the work has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BudgetStep {
    /// All is done.
    Done,
    /// As much as was allowed is done.
    More,
}

impl FilterBudget {
    /// Returns the whole work on a frame whose body starts at `body_at`.
    pub(super) fn new(
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
            patches: ByteEdits::default(),
            topic: 0,
            partition: 0,
            open: None,
            topic_patch: 0,
            partitions_left: 0,
            topics_left: 0,
            any_left: false,
            hold: Duration::ZERO,
            rejected: RejectedPartitions::default(),
            spent: Spent::default(),
        })
    }

    /// Takes memory of the workspace, which [`Self::finish`] gives back.
    pub(super) fn borrow_from(&mut self, workspace: &mut FilterBuffers) {
        workspace.tidy();
        self.layout = std::mem::take(&mut workspace.layout);
        self.patches = std::mem::take(&mut workspace.patches);
    }

    /// Returns the CPU time that the frame may still have.
    pub(crate) fn cpu_left(&self, limits: &FilterLimits) -> Duration {
        limits.frame_cpu.saturating_sub(self.spent.cpu)
    }

    /// Counts CPU time of the frame.
    pub(crate) fn count_cpu(&mut self, time: Duration) {
        self.spent.cpu += time;
    }

    /// Goes on for as long as the workspace allows.
    ///
    /// # Errors
    /// [`WireError`] if the frame is not what its version says.
    pub(crate) fn advance(
        &mut self,
        filters: &FilterChain,
        frame: &mut [u8],
        workspace: &mut FilterBuffers,
    ) -> Result<BudgetStep, WireError> {
        if !self.has_layout {
            let body = body(frame, self.body_at)?;
            match self.direction {
                Direction::Produce => layout::produce(body, self.version, &mut self.layout)?,
                Direction::Fetch => layout::fetch(body, self.version, &mut self.layout)?,
            }
            self.has_layout = true;
            self.topics_left = self.layout.topics.len();
            self.begin_topic();
        }
        while let Some(topic) = self.layout.topics.get(self.topic).cloned() {
            workspace.tools.meter.charge(TOPIC_UNITS);
            let (chain, hold) =
                filters.chain(name(&frame[self.place(&topic.name)]), self.direction);
            self.hold = self.hold.max(hold);
            while self.partition < topic.partitions.end {
                let span = self.layout.partitions[self.partition].clone();
                match self.batches(frame, &span, &chain, workspace) {
                    Ok(BudgetStep::Done) => {}
                    Ok(BudgetStep::More) => return Ok(BudgetStep::More),
                    Err(refused) => {
                        workspace.tally.limited +=
                            u64::from(matches!(refused, BatchRejection::TooLarge(_)));
                        self.give_up(frame, &topic, &span, refused, workspace);
                    }
                }
                self.open = None;
                self.partition += 1;
            }
            self.end_topic(&topic);
        }
        Ok(BudgetStep::Done)
    }

    /// Puts the frame together, into the workspace if it has to be made anew.
    pub(crate) fn finish(mut self, frame: &[u8], workspace: &mut FilterBuffers) -> FilterResult {
        let is_rejected = !self.rejected.is_empty();
        if self.topics_left < self.layout.topics.len() {
            self.count(&self.layout.topic_count.clone(), self.topics_left);
        }
        let is_nothing = self.direction == Direction::Produce && is_rejected && !self.any_left;
        let pass = if is_nothing {
            FrameOutput::Nothing
        } else if self.patches.is_empty() {
            FrameOutput::InPlace
        } else {
            self.patches.apply(frame, &mut workspace.frame);
            let size = workspace.frame.len().saturating_sub(SIZE_BYTES);
            // Invariant: frames may not grow beyond their limit, so this is far below 31 bits.
            let size = i32::try_from(size).unwrap_or(i32::MAX);
            workspace.frame[..SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
            FrameOutput::Rebuilt
        };
        // Nobody waits for an answer that was not asked for.
        let rejected = Some(self.rejected).filter(|_| is_rejected && self.layout.acks != 0);
        workspace.layout = self.layout;
        workspace.patches = self.patches;
        FilterResult {
            pass,
            hold: self.hold,
            rejected,
        }
    }

    /// Takes the batches of a partition through the filters.
    fn batches(
        &mut self,
        frame: &mut [u8],
        span: &PartitionSpan,
        chain: &[&dyn Filter],
        workspace: &mut FilterBuffers,
    ) -> Result<BudgetStep, BatchRejection> {
        workspace.tools.meter.charge(PARTITION_UNITS);
        if chain.is_empty() {
            return Ok(BudgetStep::Done);
        }
        let all = self.place(&span.records);
        let mut open = self.open.unwrap_or_else(|| Open {
            at: all.start,
            length: all.len(),
            first_patch: self.patches.len(),
        });
        self.open = Some(open);
        while open.at < all.end {
            let batch = match front(&frame[open.at..all.end]) {
                FirstBatch::Batch(bytes) => open.at..open.at + bytes,
                FirstBatch::Old(_) => return Err(BatchRejection::OldFormat),
                // Consumers know it from brokers; brokers refuse it themselves.
                FirstBatch::Cut => break,
                FirstBatch::Garbage => {
                    return Err(BatchRejection::Unreadable("no batch".to_owned()));
                }
            };
            self.check_spent(&workspace.tools.limits)?;
            if workspace.tools.meter.is_due() {
                return Ok(BudgetStep::More);
            }
            let (tools, tally) = (&mut workspace.tools, &mut workspace.tally);
            let records = tally.records;
            let mut outcome = Ok(BatchOutcome::Untouched);
            let new_bytes = self.patches.replace_if(batch.clone(), |out| {
                outcome = batch::run(&mut frame[batch.clone()], chain, tools, tally, out);
                outcome == Ok(BatchOutcome::Rebuilt)
            });
            match (outcome, self.direction) {
                (Ok(BatchOutcome::Later), _) => return Ok(BudgetStep::More),
                // The broker tells the producer, as it would without us.
                (Err(BatchRejection::Corrupt), Direction::Produce) => {}
                (Err(refused), _) => return Err(refused),
                (Ok(_), _) => {}
            }
            self.spent.batches += 1;
            self.spent.bytes += tools.unpacked_bytes;
            self.spent.records += (tally.records - records) as usize;
            tools.meter.charge(BATCH_UNITS);
            if let Some(new_bytes) = new_bytes {
                open.length = open.length - batch.len() + new_bytes;
            }
            open.at = batch.end;
            self.open = Some(open);
        }
        if open.length != all.len() {
            self.count(&span.length, open.length);
        }
        Ok(BudgetStep::Done)
    }

    /// Returns an error once the frame has had what it may have.
    fn check_spent(&self, limits: &FilterLimits) -> Result<(), BatchRejection> {
        let spent = &self.spent;
        if spent.records >= limits.frame_records {
            return Err(batch::too_many(limits.frame_records));
        }
        let bytes = spent.bytes.max(self.patches.bytes());
        if bytes >= limits.frame_bytes {
            let most = limits.frame_bytes;
            let text = format!("a request unpacks to more than {most} bytes: send smaller ones");
            return Err(BatchRejection::TooLarge(text));
        }
        match spent.cpu < limits.frame_cpu {
            true => Ok(()),
            false => Err(BatchRejection::TooLarge(TOO_SLOW.to_owned())),
        }
    }

    fn give_up(
        &mut self,
        frame: &mut [u8],
        topic: &TopicSpan,
        span: &PartitionSpan,
        refused: BatchRejection,
        workspace: &mut FilterBuffers,
    ) {
        let tally = &mut workspace.tally;
        match self.direction {
            Direction::Produce => {
                if let Some(open) = self.open {
                    self.patches.truncate(open.first_patch);
                }
                self.partitions_left -= 1;
                tally.partitions_refused += 1;
                self.patches.remove(self.place(&span.whole));
                let name = name(&frame[self.place(&topic.name)]);
                self.rejected.add(name, span.index, refused);
            }
            Direction::Fetch => {
                if self.cut(span, &refused) {
                    tally.partitions_cut += 1;
                    return;
                }
                tally.partitions_withheld += 1;
                let error = self.body_at + span.error_at;
                frame[error..error + 2].copy_from_slice(&CORRUPT_MESSAGE.to_be_bytes());
                self.empty(span);
            }
        }
    }

    /// Ends a partition of a fetch response before the batch that cannot go on; `false` if its
    /// consumer has to be told of an error instead, since it would fetch the same again for ever.
    fn cut(&mut self, span: &PartitionSpan, refused: &BatchRejection) -> bool {
        let all = self.place(&span.records);
        let Some(open) = self.open else { return false };
        if open.at > all.start {
            self.patches.remove(open.at..all.end);
            self.count(&span.length, open.length - (all.end - open.at));
            return true;
        }
        // A later response begins with this partition and has all of the limits for it.
        let is_limit = matches!(refused, BatchRejection::TooLarge(_));
        let may_come_later = is_limit && self.spent.batches > 0;
        if may_come_later {
            self.empty(span);
        }
        may_come_later
    }

    /// Leaves no records in a partition of a fetch response.
    fn empty(&mut self, span: &PartitionSpan) {
        if let Some(open) = self.open {
            self.patches.truncate(open.first_patch);
        }
        let place = self.place(&(span.length.start..span.records.end));
        let flexible = self.flexible;
        self.patches
            .replace(place, |out| put_length(out, flexible, 0));
    }

    fn begin_topic(&mut self) {
        let topic = self.layout.topics.get(self.topic);
        self.partitions_left = topic.map_or(0, |topic| topic.partitions.len());
        self.topic_patch = self.patches.len();
    }

    fn end_topic(&mut self, topic: &TopicSpan) {
        if self.partitions_left == topic.partitions.len() {
            self.any_left = true;
        } else if self.partitions_left == 0 {
            self.topics_left -= 1;
            self.patches.truncate(self.topic_patch);
            self.patches.remove(self.place(&topic.whole));
        } else {
            self.any_left = true;
            self.count(&topic.partition_count, self.partitions_left);
        }
        self.topic += 1;
        self.begin_topic();
    }

    /// Puts a new count or length in the place of a field.
    fn count(&mut self, field: &Range<usize>, count: usize) {
        let (flexible, place) = (self.flexible, self.place(field));
        self.patches
            .replace(place, |out| put_length(out, flexible, count));
    }

    /// Where in the frame a range of the body lies.
    fn place(&self, range: &Range<usize>) -> Range<usize> {
        range.start + self.body_at..range.end + self.body_at
    }
}

fn name(bytes: &[u8]) -> &str {
    // Invariant: the layout has checked it.
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
            what: "api version that was not offered",
            value: i64::from(version),
        }),
    }
}

const SIZE_BYTES: usize = 4;
/// What consumers take as a fault of what is stored.
const CORRUPT_MESSAGE: i16 = 2;
/// What topics, partitions and batches cost besides their bytes.
const TOPIC_UNITS: u64 = 256;
const PARTITION_UNITS: u64 = 32;
const BATCH_UNITS: u64 = 1024;
