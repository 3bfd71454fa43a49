//! What all tasks of one run share, and the positions of each consumer. One thread, no locks:
//! borrows never live across an await.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;

use bytes::BytesMut;

use super::cluster::Cluster;
use super::pace::Pacer;
use super::{LeanConfig, LeanError, LeanRecord, LeanReport, LeanSink};
use crate::records::{Batches, Scratch};
use crate::wire::fetch::FetchedPartition;

pub(super) struct Shared<S> {
    pub(super) config: LeanConfig,
    pub(super) cluster: Cluster,
    pub(super) pacer: Pacer,
    pub(super) report: Cell<LeanReport>,
    /// All sockets of the thread are read into this; only unfinished frames are kept elsewhere.
    pub(super) read_buffer: RefCell<Vec<u8>>,
    pub(super) write_buffer: RefCell<BytesMut>,
    /// Partitions at the start; those added later are not read.
    pub(super) partitions: Cell<usize>,
    sink: RefCell<S>,
    scratch: RefCell<Scratch>,
    consumers: RefCell<Vec<Consumer>>,
    links: RefCell<HashSet<(usize, i32)>>,
}

/// Positions of one consumer by partition number, and how many are missing.
#[derive(Debug, Default)]
struct Consumer {
    positions: Box<[Option<i64>]>,
    missing: usize,
}

impl<S: LeanSink> Shared<S> {
    pub(super) fn new(config: LeanConfig, sink: S) -> Self {
        Self {
            cluster: Cluster::new(&config),
            pacer: Pacer::new(config.connect_rate_per_s),
            report: Cell::default(),
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

    /// Gives every consumer all partitions the topic has now.
    pub(super) fn begin(&self) {
        let partitions = self.cluster.partition_count();
        self.partitions.set(partitions);
        let fresh = || Consumer {
            positions: vec![None; partitions].into_boxed_slice(),
            missing: partitions,
        };
        let mut consumers = self.consumers.borrow_mut();
        consumers.resize_with(self.config.consumers, fresh);
    }

    /// `true` once per running link.
    pub(super) fn claim_link(&self, consumer: usize, broker: i32) -> bool {
        self.links.borrow_mut().insert((consumer, broker))
    }

    pub(super) fn release_link(&self, consumer: usize, broker: i32) {
        self.links.borrow_mut().remove(&(consumer, broker));
    }

    pub(super) fn position(&self, consumer: usize, partition: i32) -> Option<i64> {
        let consumers = self.consumers.borrow();
        let index = usize::try_from(partition).ok()?;
        *consumers.get(consumer)?.positions.get(index)?
    }

    /// Sets where a partition goes on; the last missing one makes the consumer ready.
    pub(super) fn set_position(&self, consumer: usize, partition: i32, offset: i64) {
        let became_ready = {
            let mut consumers = self.consumers.borrow_mut();
            let index = usize::try_from(partition).ok();
            let Some(state) = consumers.get_mut(consumer) else {
                return;
            };
            let Some(slot) = index.and_then(|index| state.positions.get_mut(index)) else {
                return;
            };
            let first = slot.replace(offset).is_none();
            if first {
                state.missing -= 1;
            }
            first && state.missing == 0
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
