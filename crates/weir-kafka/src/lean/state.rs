//! What all tasks of one run share, and the positions of each consumer. One thread, no locks:
//! borrows never live across an await.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use bytes::BytesMut;

use super::cluster::ClusterCache;
use super::connect_pacer::ConnectPacer;
use super::group::GroupMembers;
use super::{LeanConfig, LeanError, LeanRecord, LeanReport, LeanSink};
use crate::records::{Batches, DecompressBuffer};
use crate::wire::fetch::FetchedPartition;

pub(super) struct LeanState<S> {
    pub(super) config: LeanConfig,
    pub(super) cluster: ClusterCache,
    pub(super) pacer: ConnectPacer,
    pub(super) report: Cell<LeanReport>,
    pub(super) members: GroupMembers,
    /// All sockets of the thread are read into this; only unfinished frames are kept elsewhere.
    pub(super) read_buffer: RefCell<Vec<u8>>,
    pub(super) write_buffer: RefCell<BytesMut>,
    /// Partitions at the start; those added later are not read.
    pub(super) partitions: Cell<usize>,
    sink: RefCell<S>,
    scratch: RefCell<DecompressBuffer>,
    consumers: RefCell<Vec<Consumer>>,
    links: RefCell<HashSet<(usize, i32)>>,
}

/// Positions of one consumer by partition number.
#[derive(Debug, Default)]
struct Consumer {
    positions: Box<[Position]>,
    /// Grows with each change of what it owns.
    assignment: u64,
    told_ready: bool,
}

/// Where a consumer is in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Somebody else's.
    Foreign,
    /// Its own, but where to begin is not known yet.
    Unknown,
    /// Its own; the next offset to read.
    At(i64),
}

impl<S: LeanSink> LeanState<S> {
    pub(super) fn new(config: LeanConfig, sink: S) -> Self {
        Self {
            cluster: ClusterCache::new(&config),
            pacer: ConnectPacer::new(config.connect_rate_per_s),
            report: Cell::default(),
            members: GroupMembers::default(),
            read_buffer: RefCell::new(vec![0; READ_BUFFER_BYTES]),
            write_buffer: RefCell::default(),
            partitions: Cell::default(),
            sink: RefCell::new(sink),
            scratch: RefCell::default(),
            consumers: RefCell::default(),
            links: RefCell::default(),
            config,
        }
    }

    /// Gives every consumer all partitions the topic has now; members of groups get theirs later.
    pub(super) fn begin(&self) {
        let partitions = self.cluster.partition_count();
        self.partitions.set(partitions);
        let first = match self.config.groups {
            Some(_) => Position::Foreign,
            None => Position::Unknown,
        };
        let fresh = || Consumer {
            positions: vec![first; partitions].into_boxed_slice(),
            assignment: 0,
            told_ready: false,
        };
        let mut consumers = self.consumers.borrow_mut();
        consumers.resize_with(self.config.consumers, fresh);
    }

    /// `true` once per running link.
    pub(super) fn claim_fetcher(&self, consumer: usize, broker: i32) -> bool {
        self.links.borrow_mut().insert((consumer, broker))
    }

    pub(super) fn release_fetcher(&self, consumer: usize, broker: i32) {
        self.links.borrow_mut().remove(&(consumer, broker));
    }

    pub(super) fn position(&self, consumer: usize, partition: i32) -> Option<i64> {
        match self.slot(consumer, partition) {
            Position::At(offset) => Some(offset),
            Position::Foreign | Position::Unknown => None,
        }
    }

    pub(super) fn owns(&self, consumer: usize, partition: i32) -> bool {
        self.slot(consumer, partition) != Position::Foreign
    }

    fn slot(&self, consumer: usize, partition: i32) -> Position {
        let consumers = self.consumers.borrow();
        let index = usize::try_from(partition).ok();
        let slot = consumers
            .get(consumer)
            .zip(index)
            .and_then(|(state, index)| state.positions.get(index));
        slot.copied().unwrap_or(Position::Foreign)
    }

    /// Number of the consumer's present assignment.
    pub(super) fn assignment(&self, consumer: usize) -> u64 {
        let consumers = self.consumers.borrow();
        consumers.get(consumer).map_or(0, |state| state.assignment)
    }

    /// Gives a member its share, each partition with its committed position if there is one.
    pub(super) fn assign(&self, consumer: usize, share: &[(i32, Option<i64>)]) {
        self.change(consumer, |state| {
            state.positions.fill(Position::Foreign);
            for (partition, committed) in share {
                let index = usize::try_from(*partition).ok();
                // Partitions that came later than the start are not read.
                if let Some(slot) = index.and_then(|index| state.positions.get_mut(index)) {
                    *slot = committed.map_or(Position::Unknown, Position::At);
                }
            }
            state.assignment += 1;
        });
    }

    /// Takes away all that a member owns; tells where it was.
    pub(super) fn revoke(&self, consumer: usize) -> Vec<(i32, i64)> {
        let positions = self.positions(consumer);
        let mut consumers = self.consumers.borrow_mut();
        if let Some(state) = consumers.get_mut(consumer) {
            state.positions.fill(Position::Foreign);
            state.assignment += 1;
        }
        positions
    }

    /// Where a consumer is, as far as that is known; ascending by partition.
    pub(super) fn positions(&self, consumer: usize) -> Vec<(i32, i64)> {
        let consumers = self.consumers.borrow();
        let state = consumers.get(consumer).into_iter();
        let slots = state.flat_map(|state| (0_i32..).zip(&state.positions));
        let known = slots.filter_map(|(partition, slot)| match slot {
            Position::At(offset) => Some((partition, *offset)),
            Position::Foreign | Position::Unknown => None,
        });
        known.collect()
    }

    /// Sets where a partition of the consumer goes on.
    pub(super) fn set_position(&self, consumer: usize, partition: i32, offset: i64) {
        self.set_if(consumer, partition, offset, |slot| {
            slot != Position::Foreign
        });
    }

    /// Sets where a partition begins, unless that is known by now.
    pub(super) fn begin_at(&self, consumer: usize, partition: i32, offset: i64) {
        self.set_if(consumer, partition, offset, |slot| {
            slot == Position::Unknown
        });
    }

    fn set_if(
        &self,
        consumer: usize,
        partition: i32,
        offset: i64,
        fits: impl FnOnce(Position) -> bool,
    ) {
        let slot = self.slot(consumer, partition);
        if !fits(slot) {
            return;
        }
        // Only a known slot is not foreign.
        let Ok(index) = usize::try_from(partition) else {
            return;
        };
        if slot != Position::Unknown {
            // Nothing becomes ready by it: the way of every fetch.
            if let Some(state) = self.consumers.borrow_mut().get_mut(consumer) {
                state.positions[index] = Position::At(offset);
            }
            return;
        }
        self.change(consumer, |state| {
            state.positions[index] = Position::At(offset);
        });
    }

    /// Changes what a consumer owns or knows; the last missing position makes it ready, once.
    fn change(&self, consumer: usize, change: impl FnOnce(&mut Consumer)) {
        let became_ready = {
            let mut consumers = self.consumers.borrow_mut();
            let Some(state) = consumers.get_mut(consumer) else {
                return;
            };
            change(state);
            let all_known = !state.positions.contains(&Position::Unknown);
            all_known && !std::mem::replace(&mut state.told_ready, true)
        };
        if became_ready {
            self.count(|report| report.ready += 1);
            self.sink.borrow_mut().on_ready(consumer);
        }
    }

    /// Hands a fetched partition's records to the sink and moves the position on.
    pub(super) fn deliver(
        &self,
        consumer: usize,
        fetched: &FetchedPartition<'_>,
    ) -> Result<(), LeanError> {
        let Some(mut next) = self.position(consumer, fetched.partition) else {
            return Ok(());
        };
        let mut delivered = 0;
        let outcome = self.deliver_batches(consumer, fetched, &mut next, &mut delivered);
        self.set_position(consumer, fetched.partition, next);
        self.count(|report| report.records += delivered);
        outcome
    }

    fn deliver_batches(
        &self,
        consumer: usize,
        fetched: &FetchedPartition<'_>,
        next: &mut i64,
        delivered: &mut u64,
    ) -> Result<(), LeanError> {
        let mut sink = self.sink.borrow_mut();
        let mut scratch = self.scratch.borrow_mut();
        for batch in Batches::new(fetched.records) {
            let batch = batch?;
            if !batch.is_control() {
                for record in batch.records(&mut scratch)? {
                    let record = record?;
                    // A fetch is answered with whole batches, which may begin before the offset.
                    if record.offset >= *next {
                        *next = record.offset.saturating_add(1);
                        *delivered += 1;
                        let record = LeanRecord::new(fetched.topic, fetched.partition, record);
                        sink.on_record(consumer, &record);
                    }
                }
            }
            // Compaction leaves holes at the end of batches, and markers are passed over.
            *next = batch.next_offset()?.max(*next);
        }
        Ok(())
    }

    pub(super) fn on_bytes(&self, consumer: usize, count: usize) {
        self.count(|report| report.bytes += count as u64);
        self.sink.borrow_mut().on_bytes(consumer, count);
    }

    pub(super) fn on_error(&self, consumer: usize, error: &LeanError) {
        self.count(|report| report.errors += 1);
        self.sink.borrow_mut().on_error(consumer, error);
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut LeanReport)) {
        let mut report = self.report.get();
        change(&mut report);
        self.report.set(report);
    }
}

/// Large enough for a usual fetch answer in one read.
const READ_BUFFER_BYTES: usize = 256 << 10;
