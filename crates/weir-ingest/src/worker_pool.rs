//! Maps records on the polling thread or on a pool of workers with bounded queues, in the order
//! that the strategy guarantees.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use foldhash::fast::FixedState;
use weir_kafka::{LentRecord, SourceError};
use weir_mapping::OrderStrategy;

use crate::item_event::ItemEvent;
use crate::worker::Mapper;

/// Maximum number of batches queued for one worker; then polling waits.
const QUEUE_BATCHES: usize = 8;
/// Interval at which an idle worker applies interests.
const IDLE: Duration = Duration::from_millis(100);

/// One worker's share of a batch. The token exists until all shares of the batch are mapped.
struct BatchSlice<'a> {
    records: Vec<LentRecord<'a>>,
    _token: Arc<()>,
}

pub(crate) enum Mappers<'s, 'a, E> {
    Inline(&'s mut Mapper<E>),
    Pool(WorkerPool<'a>),
}

pub(crate) struct WorkerPool<'a> {
    queues: Vec<Sender<BatchSlice<'a>>>,
    shares: Vec<Vec<LentRecord<'a>>>,
    order: OrderStrategy,
    /// Next worker of [`OrderStrategy::Unordered`].
    next_worker: usize,
    tokens: Vec<Arc<()>>,
}

pub(crate) struct InFlightBatches(Vec<Arc<()>>);

impl InFlightBatches {
    /// Returns `true` if all their updates have been posted.
    pub(crate) fn is_done(&self) -> bool {
        // Besides the workers, this list and the pool hold a reference.
        let done = self.0.iter().all(|token| Arc::strong_count(token) <= 2);
        fence(Ordering::Acquire);
        done
    }
}

impl<'s, 'a, E: From<ItemEvent> + Send> Mappers<'s, 'a, E> {
    /// Starts one worker per mapper, or none if the caller maps all records.
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
            let (sender, receiver) = crossbeam_channel::bounded(QUEUE_BATCHES);
            std::thread::Builder::new()
                .name(format!("map-{index}"))
                .spawn_scoped(scope, move || work(mapper, &receiver))
                .map_err(|error| SourceError::Thread {
                    reason: error.to_string(),
                })?;
            queues.push(sender);
        }
        Ok(Self::Pool(WorkerPool {
            shares: queues.iter().map(|_| Vec::new()).collect(),
            queues,
            order,
            next_worker: 0,
            tokens: Vec::new(),
        }))
    }

    /// Maps a batch or queues it for the workers; waits while a worker's queue is full.
    pub(crate) fn map(&mut self, batch: &mut Vec<LentRecord<'a>>) {
        match self {
            Self::Inline(mapper) => {
                mapper.apply_interests();
                for record in batch.drain(..) {
                    mapper.on_record(&record);
                }
            }
            Self::Pool(pool) => pool.share(batch),
        }
    }

    pub(crate) fn pending(&self) -> InFlightBatches {
        match self {
            Self::Inline(_) => InFlightBatches(Vec::new()),
            Self::Pool(pool) => InFlightBatches(pool.tokens.clone()),
        }
    }
}

impl<'a> WorkerPool<'a> {
    fn share(&mut self, batch: &mut Vec<LentRecord<'a>>) {
        self.tokens.retain(|token| Arc::strong_count(token) > 1);
        if batch.is_empty() {
            return;
        }
        for record in batch.drain(..) {
            let worker = self.worker(&record);
            self.shares[worker].push(record);
        }
        let token = Arc::new(());
        for (share, queue) in self.shares.iter_mut().zip(&self.queues) {
            if share.is_empty() {
                continue;
            }
            let room = Vec::with_capacity(share.len());
            let share = BatchSlice {
                records: std::mem::replace(share, room),
                _token: Arc::clone(&token),
            };
            // A worker does not end before its queue is closed.
            let _ = queue.send(share);
        }
        self.tokens.push(token);
    }

    fn worker(&mut self, record: &LentRecord<'a>) -> usize {
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

/// Runs a worker's thread. Interests are applied after a share was received and before it is
/// mapped, because its records were polled before it was sent.
fn work<E: From<ItemEvent>>(mapper: &mut Mapper<E>, queue: &Receiver<BatchSlice<'_>>) {
    loop {
        match queue.recv_timeout(IDLE) {
            Ok(share) => {
                mapper.apply_interests();
                for record in &share.records {
                    mapper.on_record(record);
                }
            }
            Err(RecvTimeoutError::Timeout) => mapper.apply_interests(),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
