//! Maps records to item updates, on the polling thread or on a pool of workers with bounded queues,
//! in the order that the connection's [`OrderStrategy`] guarantees.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use foldhash::fast::FixedState;
use weir_kafka::{BorrowedRecord, SourceError};
use weir_mapping::OrderStrategy;

use crate::item_event::ItemEvent;
use crate::worker::Mapper;

/// Maximum number of batch slices queued for one worker; then polling waits.
const SLICES_QUEUED_MAX: usize = 8;
/// Interval at which an idle worker applies the interests that shards have sent.
const IDLE_INTERVAL: Duration = Duration::from_millis(100);

/// Records of a batch for one worker. The token exists until all slices of the batch are mapped.
struct BatchSlice<'a> {
    records: Vec<BorrowedRecord<'a>>,
    _token: Arc<()>,
}

/// Mapping of records: on the calling thread, or on a pool of workers.
pub(crate) enum Mappers<'s, 'a, E> {
    Inline(&'s mut Mapper<E>),
    Pool(WorkerPool<'a>),
}

/// Queues of the workers.
pub(crate) struct WorkerPool<'a> {
    queues: Vec<Sender<BatchSlice<'a>>>,
    /// Records of the next slice of each worker.
    slices: Vec<Vec<BorrowedRecord<'a>>>,
    order: OrderStrategy,
    /// Next worker of [`OrderStrategy::Unordered`].
    next_worker: usize,
    /// Tokens of the batches that may not be mapped completely.
    tokens: Vec<Arc<()>>,
}

/// Tokens of batches that were queued for the workers.
pub(crate) struct InFlightBatches(Vec<Arc<()>>);

impl InFlightBatches {
    /// Returns `true` if all updates of the batches have been sent to the shards.
    pub(crate) fn is_done(&self) -> bool {
        // Besides the workers, this list and the pool hold a reference.
        let done = self.0.iter().all(|token| Arc::strong_count(token) <= 2);
        // Pairs with the release of each token by its worker.
        fence(Ordering::Acquire);
        done
    }
}

impl<'s, 'a, E: From<ItemEvent> + Send> Mappers<'s, 'a, E> {
    /// Starts one worker per mapper, or none for a single mapper, which the caller runs.
    pub(crate) fn start(
        scope: &'s Scope<'s, '_>,
        mappers: &'s mut [Mapper<E>],
        order: OrderStrategy,
    ) -> Result<Self, SourceError>
    where
        'a: 's,
    {
        if let [mapper] = mappers {
            return Ok(Self::Inline(mapper));
        }
        let mut queues = Vec::new();
        for (index, mapper) in mappers.iter_mut().enumerate() {
            let (sender, receiver) = crossbeam_channel::bounded(SLICES_QUEUED_MAX);
            std::thread::Builder::new()
                .name(format!("map-{index}"))
                .spawn_scoped(scope, move || work(mapper, &receiver))
                .map_err(|error| SourceError::Thread {
                    reason: error.to_string(),
                })?;
            queues.push(sender);
        }
        Ok(Self::Pool(WorkerPool {
            slices: queues.iter().map(|_| Vec::new()).collect(),
            queues,
            order,
            next_worker: 0,
            tokens: Vec::new(),
        }))
    }

    /// Maps a batch or queues it for the workers; waits while a worker's queue is full.
    pub(crate) fn map(&mut self, batch: &mut Vec<BorrowedRecord<'a>>) {
        match self {
            Self::Inline(mapper) => {
                mapper.apply_interests();
                for record in batch.drain(..) {
                    mapper.on_record(&record);
                }
            }
            Self::Pool(pool) => pool.distribute(batch),
        }
    }

    /// Returns the batches that may not be mapped completely.
    pub(crate) fn pending(&self) -> InFlightBatches {
        match self {
            Self::Inline(_) => InFlightBatches(Vec::new()),
            Self::Pool(pool) => InFlightBatches(pool.tokens.clone()),
        }
    }
}

impl<'a> WorkerPool<'a> {
    /// Queues the records of a batch for their workers.
    fn distribute(&mut self, batch: &mut Vec<BorrowedRecord<'a>>) {
        self.tokens.retain(|token| Arc::strong_count(token) > 1);
        if batch.is_empty() {
            return;
        }
        for record in batch.drain(..) {
            let worker = self.worker(&record);
            self.slices[worker].push(record);
        }
        let token = Arc::new(());
        for (records, queue) in self.slices.iter_mut().zip(&self.queues) {
            if records.is_empty() {
                continue;
            }
            let next = Vec::with_capacity(records.len());
            let slice = BatchSlice {
                records: std::mem::replace(records, next),
                _token: Arc::clone(&token),
            };
            // A worker does not end before its queue is closed.
            let _ = queue.send(slice);
        }
        self.tokens.push(token);
    }

    /// Returns the index of the worker that must map a record.
    fn worker(&mut self, record: &BorrowedRecord<'a>) -> usize {
        let workers = self.queues.len();
        let hash = match self.order {
            OrderStrategy::Unordered => {
                self.next_worker = (self.next_worker + 1) % workers;
                return self.next_worker;
            }
            OrderStrategy::ByKey => match record.key() {
                None => return 0,
                Some(key) => FixedState::default().hash_one(key),
            },
            OrderStrategy::ByPartition => {
                let topic = FixedState::default().hash_one(record.topic());
                topic.wrapping_add(record.partition() as u64)
            }
        };
        (hash % workers as u64) as usize
    }
}

/// Runs a worker's thread. It applies interests after it has received a slice and before it maps
/// the records, so that all interests apply that were sent before the records were polled.
fn work<E: From<ItemEvent>>(mapper: &mut Mapper<E>, queue: &Receiver<BatchSlice<'_>>) {
    loop {
        match queue.recv_timeout(IDLE_INTERVAL) {
            Ok(slice) => {
                mapper.apply_interests();
                for record in &slice.records {
                    mapper.on_record(record);
                }
            }
            Err(RecvTimeoutError::Timeout) => mapper.apply_interests(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
