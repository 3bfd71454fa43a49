//! State shared by all tasks of one run, and the positions of each consumer. Single-threaded, so
//! there are no locks; borrows never span an await.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::cluster::ClusterCache;
use super::command::LeanCommand;
use super::config::LeanConfig;
use super::connect_pacer::ConnectPacer;
use super::error::LeanError;
use super::link::{BrokerAddress, LinkContext};
use super::report::LeanReport;
use super::sink::{LeanRecord, LeanSink};
use crate::fetch::AbortedFilter;
use weir_wire::fetch::FetchedPartition;
use weir_wire::records::{Batches, DecompressBuffer};

pub(super) struct LeanState<S> {
    pub(super) config: LeanConfig,
    pub(super) cluster: ClusterCache,
    pub(super) pacer: ConnectPacer,
    pub(super) report: Cell<LeanReport>,
    pub(super) members: GroupMembers,
    pub(super) links: Rc<LinkContext>,
    /// Partitions at the start of the run.
    pub(super) partitions: Cell<usize>,
    sink: RefCell<S>,
    scratch: RefCell<DecompressBuffer>,
    consumers: RefCell<Vec<Consumer>>,
    fetchers: RefCell<HashSet<(usize, i32)>>,
    /// Brokers that have accepted a connection.
    accepted: RefCell<HashSet<SocketAddr>>,
    /// First rejection by a broker that never accepted a connection.
    rejection: watch::Sender<Option<LeanError>>,
    last_warning: Cell<Option<Instant>>,
    commands: watch::Receiver<LeanCommand>,
    /// Leave out records of aborted transactions.
    pub(super) committed_only: bool,
}

#[derive(Debug, Default)]
pub(super) struct GroupMembers {
    pub(super) leaving: watch::Sender<bool>,
    /// Number of members that have not left.
    pub(super) present: watch::Sender<usize>,
}

/// Positions of one consumer, by partition number.
#[derive(Debug, Default)]
struct Consumer {
    positions: Box<[Position]>,
    /// Incremented with each change of the assignment.
    assignment: u64,
    reported_ready: bool,
}

/// Position of a consumer in one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Assigned to another consumer.
    Foreign,
    /// Assigned to this consumer; the start offset is not known yet.
    Unknown,
    /// Assigned to this consumer; the next offset to read.
    At(i64),
}

impl<S: LeanSink> LeanState<S> {
    pub(super) fn new(
        config: LeanConfig,
        sink: S,
        commands: watch::Receiver<LeanCommand>,
    ) -> Result<Self, LeanError> {
        let links = Rc::new(LinkContext::new(&config)?);
        Ok(Self {
            cluster: ClusterCache::new(&config, &links),
            pacer: ConnectPacer::new(config.connect_rate_per_s),
            report: Cell::default(),
            members: GroupMembers::default(),
            links,
            partitions: Cell::default(),
            sink: RefCell::new(sink),
            scratch: RefCell::default(),
            consumers: RefCell::default(),
            fetchers: RefCell::default(),
            accepted: RefCell::default(),
            rejection: watch::Sender::new(None),
            last_warning: Cell::default(),
            commands,
            committed_only: config.committed_only()?,
            config,
        })
    }

    /// Creates the consumers. Without groups each gets all partitions; group members get theirs
    /// later.
    pub(super) fn create_consumers(&self) {
        let partitions = self.cluster.partition_count();
        self.partitions.set(partitions);
        let first = match self.config.groups {
            Some(_) => Position::Foreign,
            None => Position::Unknown,
        };
        let fresh = || Consumer {
            positions: vec![first; partitions].into_boxed_slice(),
            assignment: 0,
            reported_ready: false,
        };
        let mut consumers = self.consumers.borrow_mut();
        consumers.resize_with(self.config.consumers, fresh);
    }

    /// Returns `true` if no fetcher is running for this consumer and broker, and marks it as
    /// running.
    pub(super) fn claim_fetcher(&self, consumer: usize, broker: i32) -> bool {
        self.fetchers.borrow_mut().insert((consumer, broker))
    }

    pub(super) fn release_fetcher(&self, consumer: usize, broker: i32) {
        self.fetchers.borrow_mut().remove(&(consumer, broker));
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
        let state = consumers.get(consumer).zip(index);
        let slot = state.and_then(|(state, index)| state.positions.get(index));
        slot.copied().unwrap_or(Position::Foreign)
    }

    /// Returns the number of the consumer's current assignment.
    pub(super) fn assignment_version(&self, consumer: usize) -> u64 {
        let consumers = self.consumers.borrow();
        consumers.get(consumer).map_or(0, |state| state.assignment)
    }

    /// Sets a member's partitions, each with its committed offset if there is one.
    pub(super) fn assign(&self, consumer: usize, assignment: &[(i32, Option<i64>)]) {
        self.change(consumer, |state| {
            state.positions.fill(Position::Foreign);
            for (partition, committed) in assignment {
                let index = usize::try_from(*partition).ok();
                // Partitions that were added during the run are not read.
                if let Some(slot) = index.and_then(|index| state.positions.get_mut(index)) {
                    *slot = committed.map_or(Position::Unknown, Position::At);
                }
            }
            state.assignment += 1;
        });
    }

    /// Removes all partitions of a member and returns its positions.
    pub(super) fn revoke(&self, consumer: usize) -> Vec<(i32, i64)> {
        let positions = self.positions(consumer);
        let mut consumers = self.consumers.borrow_mut();
        if let Some(state) = consumers.get_mut(consumer) {
            state.positions.fill(Position::Foreign);
            state.assignment += 1;
        }
        positions
    }

    /// Returns the known positions of a consumer, in ascending order of partitions.
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

    /// Sets the position of a partition, if the consumer owns it.
    pub(super) fn set_position(&self, consumer: usize, partition: i32, offset: i64) {
        let slot = self.slot(consumer, partition);
        if slot != Position::Foreign {
            self.set(consumer, partition, slot, offset);
        }
    }

    /// Sets the start offset of a partition, unless its position is already known.
    pub(super) fn set_start(&self, consumer: usize, partition: i32, offset: i64) {
        let slot = self.slot(consumer, partition);
        if slot == Position::Unknown {
            self.set(consumer, partition, slot, offset);
        }
    }

    /// Replaces the position `slot`.
    fn set(&self, consumer: usize, partition: i32, slot: Position, offset: i64) {
        // A partition that is not `Foreign` has a valid index.
        let Ok(index) = usize::try_from(partition) else {
            return;
        };
        if slot != Position::Unknown {
            // The usual case, after a fetch: the consumer does not become ready by it.
            if let Some(state) = self.consumers.borrow_mut().get_mut(consumer) {
                state.positions[index] = Position::At(offset);
            }
            return;
        }
        self.change(consumer, |state| {
            state.positions[index] = Position::At(offset);
        });
    }

    /// Changes the state of a consumer. Reports it as ready, once, when all its positions are
    /// known.
    fn change(&self, consumer: usize, change: impl FnOnce(&mut Consumer)) {
        let became_ready = {
            let mut consumers = self.consumers.borrow_mut();
            let Some(state) = consumers.get_mut(consumer) else {
                return;
            };
            change(state);
            let all_known = !state.positions.contains(&Position::Unknown);
            all_known && !std::mem::replace(&mut state.reported_ready, true)
        };
        if became_ready {
            self.count(|report| report.ready += 1);
            self.sink.borrow_mut().on_ready(consumer);
        }
    }

    /// Waits while the consumers are paused.
    pub(super) async fn until_reading(&self) {
        if *self.commands.borrow() == LeanCommand::Pause {
            let mut commands = self.commands.clone();
            // Without a sender, the run ends.
            let _ = commands
                .wait_for(|command| *command != LeanCommand::Pause)
                .await;
        }
    }

    /// Passes a fetched partition's records to the sink and advances the position.
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
        let filter = || AbortedFilter::new(fetched.aborted().collect());
        let mut aborted = self.committed_only.then(filter);
        for batch in Batches::new(fetched.records) {
            let batch = batch?;
            let is_left_out = match &mut aborted {
                Some(aborted) => aborted.leaves_out(&batch)?,
                None => batch.is_control(),
            };
            if !is_left_out {
                for record in batch.records(&mut scratch)? {
                    let record = record?;
                    // A fetch response contains whole batches, which may start before the requested
                    // offset.
                    if record.offset >= *next {
                        *next = record.offset.saturating_add(1);
                        *delivered += 1;
                        let record = LeanRecord {
                            topic: fetched.topic,
                            partition: fetched.partition,
                            slice: record,
                        };
                        sink.on_record(consumer, &record);
                    }
                }
            }
            // Compaction may remove the last records of a batch, and control records are skipped.
            *next = batch.next_offset()?.max(*next);
        }
        Ok(())
    }

    pub(super) fn on_bytes(&self, consumer: usize, count: usize) {
        self.count(|report| report.bytes += count as u64);
        self.sink.borrow_mut().on_bytes(consumer, count);
    }

    /// Waits for a rejection that ends the run.
    pub(super) async fn rejected(&self) -> LeanError {
        let mut rejection = self.rejection.subscribe();
        loop {
            if let Some(error) = &*rejection.borrow_and_update() {
                return error.clone();
            }
            if rejection.changed().await.is_err() {
                // The sender lives as long as this state.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Notes that a broker accepted a connection. Later rejections do not end the run, because
    /// certificates and passwords are replaced while it is running.
    pub(super) fn accepted_by(&self, address: &BrokerAddress) {
        self.accepted.borrow_mut().insert(address.socket);
    }

    /// Ends the run if `error` is a rejection by a broker that never accepted a connection, and
    /// consumers are still starting.
    pub(super) fn end_if_rejected(&self, address: &BrokerAddress, error: &LeanError) {
        let is_starting = self.report.get().ready < self.config.consumers;
        let is_first = !self.accepted.borrow().contains(&address.socket);
        if error.is_rejection() && is_starting && is_first {
            self.rejection.send_if_modified(|first| {
                let is_first = first.is_none();
                if is_first {
                    *first = Some(error.clone());
                }
                is_first
            });
        }
    }

    /// Logs a rejection, at most one per `WARNING_INTERVAL`.
    fn warn(&self, error: &LeanError) {
        let (now, last) = (Instant::now(), self.last_warning.get());
        if last.is_none_or(|last| now.duration_since(last) >= WARNING_INTERVAL) {
            self.last_warning.set(Some(now));
            tracing::warn!(%error, "connection rejected, trying again");
        }
    }

    pub(super) fn on_error(&self, consumer: usize, error: &LeanError) {
        if error.is_rejection() {
            self.warn(error);
        }
        self.count(|report| report.errors += 1);
        self.sink.borrow_mut().on_error(consumer, error);
    }

    pub(super) fn count(&self, change: impl FnOnce(&mut LeanReport)) {
        let mut report = self.report.get();
        change(&mut report);
        self.report.set(report);
    }
}

const WARNING_INTERVAL: Duration = Duration::from_secs(30);
