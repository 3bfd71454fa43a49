//! The filters of a cluster, and frames that go through them.

use std::ops::Range;
use std::time::Duration;

use smallvec::SmallVec;
use weir_kafka::records::{Front, front};
use weir_kafka::wire::WireError;
use weir_kafka::wire::layout::{
    self, FETCH_VERSION_MAX, Layout, PRODUCE_VERSION_MAX, PartitionSpan, TopicSpan,
    fetch_is_flexible, produce_is_flexible, put_length,
};

use super::batch::{self, Outcome, Refused};
use super::rejected::Rejected;
use super::settings::Scoped;
use super::workspace::Workspace;
use super::{Direction, Filter, FilterError, FilterSettings};

/// The filters of one cluster, in the order they were written: each sees what the one before has left,
/// in both directions.
#[derive(Debug, Default)]
pub struct Filters {
    all: Vec<Scoped>,
}

/// What is to become of a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Which bytes go on.
    pub pass: Pass,
    /// How long to hold them before, and all that comes behind them.
    pub hold: Duration,
    /// Partitions that do not go on, whose producer waits for an answer.
    pub rejected: Option<Rejected>,
}

/// Which bytes of a frame go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// The frame, which may have been changed where it lies.
    InPlace,
    /// [`Workspace::frame`].
    Rebuilt,
    /// None: nothing is left of it.
    Nothing,
}

/// Filters that see the records of one topic.
type Chain<'a> = SmallVec<[&'a dyn Filter; 4]>;

impl Filters {
    /// Checks the settings of all filters.
    ///
    /// # Errors
    /// [`FilterError`] with filter, key, value and remedy.
    pub fn new(settings: &[FilterSettings]) -> Result<Self, FilterError> {
        let all = settings.iter().map(FilterSettings::build);
        Ok(Self {
            all: all.collect::<Result<_, _>>()?,
        })
    }

    /// Whether any filter looks at records that travel this way. If not, frames need not be held.
    #[must_use]
    pub fn wants(&self, direction: Direction) -> bool {
        self.all.iter().any(|filter| filter.is_on(direction))
    }

    /// The newest version of an API to offer; `Some(-1)`: none; `None`: any.
    ///
    /// From these versions on topics have ids in place of names. Share groups have always had ids, and
    /// would get what filters on fetch are meant to change.
    #[must_use]
    pub fn version_max(&self, api_key: i16) -> Option<i16> {
        match api_key {
            PRODUCE if self.wants(Direction::Produce) => Some(PRODUCE_VERSION_MAX),
            FETCH if self.wants(Direction::Fetch) => Some(FETCH_VERSION_MAX),
            SHARE_GROUP_HEARTBEAT | SHARE_FETCH | SHARE_ACKNOWLEDGE
                if self.wants(Direction::Fetch) =>
            {
                Some(-1)
            }
            _ => None,
        }
    }

    /// One line per filter, for people.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        self.all.iter().map(Scoped::describe).collect()
    }

    /// Takes a produce request through the filters. `frame` starts with its size; `body_at` is where its
    /// body starts.
    ///
    /// # Errors
    /// [`WireError`] if it is no such request, or of a version with topic ids.
    pub fn produce(
        &self,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        workspace: &mut Workspace,
    ) -> Result<Verdict, WireError> {
        check_version(version, PRODUCE_VERSION_MAX)?;
        workspace.begin();
        let mut layout = std::mem::take(&mut workspace.layout);
        let found = layout::produce(body(frame, body_at)?, version, &mut layout);
        let job = Job {
            filters: self,
            direction: Direction::Produce,
            body_at,
            flexible: produce_is_flexible(version),
        };
        let verdict = found.map(|()| job.requests(frame, &layout, workspace));
        workspace.layout = layout;
        verdict
    }

    /// Takes an answer to Fetch through the filters. `frame` starts with its size; `body_at` is where its
    /// body starts. Nothing is rejected: what can not be opened is replaced by an error.
    ///
    /// # Errors
    /// [`WireError`] if it is no such answer, or of a version with topic ids.
    pub fn fetch(
        &self,
        frame: &mut [u8],
        body_at: usize,
        version: i16,
        workspace: &mut Workspace,
    ) -> Result<Verdict, WireError> {
        check_version(version, FETCH_VERSION_MAX)?;
        workspace.begin();
        let mut layout = std::mem::take(&mut workspace.layout);
        let found = layout::fetch(body(frame, body_at)?, version, &mut layout);
        let job = Job {
            filters: self,
            direction: Direction::Fetch,
            body_at,
            flexible: fetch_is_flexible(version),
        };
        let verdict = found.map(|()| job.answers(frame, &layout, workspace));
        workspace.layout = layout;
        verdict
    }

    /// The filters that see a topic's records, and how long its frames are held.
    fn chain(&self, topic: &str, direction: Direction) -> (Chain<'_>, Duration) {
        let mut chain = Chain::new();
        let mut hold = Duration::ZERO;
        for scoped in &self.all {
            if scoped.takes(topic, direction) {
                hold += scoped.filter.hold();
                if scoped.filter.reads_records() {
                    chain.push(&*scoped.filter);
                }
            }
        }
        (chain, hold)
    }
}

/// One frame on its way.
struct Job<'a> {
    filters: &'a Filters,
    direction: Direction,
    body_at: usize,
    flexible: bool,
}

impl Job<'_> {
    fn requests(&self, frame: &mut [u8], layout: &Layout, workspace: &mut Workspace) -> Verdict {
        let mut rejected = Rejected::default();
        let mut longest = Duration::ZERO;
        let (mut topics_left, mut any_left) = (layout.topics.len(), false);
        for topic in &layout.topics {
            let (chain, hold) = self.chain(frame, topic);
            longest = longest.max(hold);
            let first_patch = workspace.patches.len();
            let mut left = topic.partitions.len();
            for partition in &layout.partitions[topic.partitions.clone()] {
                let Err(refused) = self.partition(frame, partition, &chain, workspace) else {
                    continue;
                };
                left -= 1;
                workspace.tally.partitions_refused += 1;
                workspace.patches.remove(self.place(&partition.whole));
                rejected.add(self.name(frame, topic), partition.index, refused);
            }
            if left == topic.partitions.len() {
                any_left = true;
            } else if left == 0 {
                topics_left -= 1;
                workspace.patches.truncate(first_patch);
                workspace.patches.remove(self.place(&topic.whole));
            } else {
                any_left = true;
                self.count(&topic.partition_count, left, workspace);
            }
        }
        let is_rejected = !rejected.is_empty();
        if topics_left < layout.topics.len() {
            self.count(&layout.topic_count, topics_left, workspace);
        }
        let pass = match is_rejected && !any_left {
            true => Pass::Nothing,
            false => finish(frame, workspace),
        };
        // Nobody waits for an answer that was not asked for.
        let rejected = Some(rejected).filter(|_| is_rejected && layout.acks != 0);
        Verdict {
            pass,
            hold: longest,
            rejected,
        }
    }

    fn answers(&self, frame: &mut [u8], layout: &Layout, workspace: &mut Workspace) -> Verdict {
        let mut longest = Duration::ZERO;
        for topic in &layout.topics {
            let (chain, hold) = self.chain(frame, topic);
            longest = longest.max(hold);
            for partition in &layout.partitions[topic.partitions.clone()] {
                let first_patch = workspace.patches.len();
                if self.partition(frame, partition, &chain, workspace).is_ok() {
                    continue;
                }
                workspace.tally.partitions_withheld += 1;
                workspace.patches.truncate(first_patch);
                let error = self.body_at + partition.error_at;
                frame[error..error + 2].copy_from_slice(&CORRUPT_MESSAGE.to_be_bytes());
                let records = partition.length.start..partition.records.end;
                let flexible = self.flexible;
                let place = self.place(&records);
                let empty = |out: &mut Vec<u8>| put_length(out, flexible, 0);
                workspace.patches.replace(place, empty);
            }
        }
        Verdict {
            pass: finish(frame, workspace),
            hold: longest,
            rejected: None,
        }
    }

    /// All batches of one partition.
    fn partition(
        &self,
        frame: &mut [u8],
        partition: &PartitionSpan,
        chain: &[&dyn Filter],
        workspace: &mut Workspace,
    ) -> Result<(), Refused> {
        if chain.is_empty() {
            return Ok(());
        }
        let all = self.place(&partition.records);
        let (mut at, mut length) = (all.start, partition.records.len());
        while at < all.end {
            let batch = match front(&frame[at..all.end]) {
                Front::Batch(bytes) => at..at + bytes,
                Front::Old(_) => return Err(Refused::OldFormat),
                // Consumers know it from brokers; brokers refuse it themselves.
                Front::Cut => break,
                Front::Garbage => return Err(Refused::Unreadable("no batch".to_owned())),
            };
            at = batch.end;
            let old_bytes = batch.len();
            let Workspace {
                patches,
                tools,
                tally,
                ..
            } = &mut *workspace;
            let mut outcome = Ok(Outcome::Untouched);
            let new_bytes = patches.replace_if(batch.clone(), |out| {
                outcome = batch::run(&mut frame[batch], chain, tools, tally, out);
                outcome == Ok(Outcome::Rebuilt)
            });
            match (outcome, self.direction) {
                // The broker tells the producer, as it would without us.
                (Err(Refused::Corrupt), Direction::Produce) => continue,
                (Err(refused), _) => return Err(refused),
                (Ok(_), _) => {}
            }
            if let Some(new_bytes) = new_bytes {
                length = length - old_bytes + new_bytes;
            }
        }
        if length != partition.records.len() {
            self.count(&partition.length, length, workspace);
        }
        Ok(())
    }

    /// Puts a new count or length in the place of a field.
    fn count(&self, field: &Range<usize>, count: usize, workspace: &mut Workspace) {
        let flexible = self.flexible;
        let place = self.place(field);
        workspace
            .patches
            .replace(place, |out| put_length(out, flexible, count));
    }

    fn chain(&self, frame: &[u8], topic: &TopicSpan) -> (Chain<'_>, Duration) {
        self.filters.chain(self.name(frame, topic), self.direction)
    }

    fn name<'f>(&self, frame: &'f [u8], topic: &TopicSpan) -> &'f str {
        let bytes = &frame[self.place(&topic.name)];
        // Invariant: the layout has checked it.
        std::str::from_utf8(bytes).unwrap_or_default()
    }

    /// Where in the frame a range of the body lies.
    fn place(&self, range: &Range<usize>) -> Range<usize> {
        range.start + self.body_at..range.end + self.body_at
    }
}

/// Puts the frame together anew if any of its bytes have to be replaced.
fn finish(frame: &[u8], workspace: &mut Workspace) -> Pass {
    if workspace.patches.is_empty() {
        return Pass::InPlace;
    }
    workspace.patches.apply(frame, &mut workspace.frame);
    let size = workspace.frame.len().saturating_sub(SIZE_BYTES);
    // Invariant: filters may not grow a batch beyond their limit, so this is far below 31 bits.
    let size = i32::try_from(size).unwrap_or(i32::MAX);
    workspace.frame[..SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
    Pass::Rebuilt
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
const PRODUCE: i16 = 0;
const FETCH: i16 = 1;
const SHARE_GROUP_HEARTBEAT: i16 = 76;
const SHARE_FETCH: i16 = 78;
const SHARE_ACKNOWLEDGE: i16 = 79;
/// What consumers take as a fault of what is stored.
const CORRUPT_MESSAGE: i16 = 2;
