//! Who maps the records: the polling thread itself, or workers that get theirs by bounded queues in
//! the order that the strategy promises.

use std::hash::BuildHasher;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::thread::Scope;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};
use foldhash::fast::FixedState;
use weir_kafka::{LentRecord, SourceError};
use weir_mapping::OrderStrategy;

use super::worker::Mapper;

/// Batches that wait for one worker; when they are so many, polling waits.
const QUEUE_BATCHES: usize = 8;
/// How often a worker without records looks for interests.
const IDLE: Duration = Duration::from_millis(100);

/// One worker's share of a batch. The token lives as long as any share of its batch.
struct BatchSlice<'a> {
    records: Vec<LentRecord<'a>>,
    _token: Arc<()>,
}

/// Who maps.
pub(super) enum Mappers<'s, 'a> {
    Inline(&'s mut Mapper),
    Pool(WorkerPool<'a>),
}

/// Workers and what they have been given.
pub(super) struct WorkerPool<'a> {
    queues: Vec<Sender<BatchSlice<'a>>>,
    shares: Vec<Vec<LentRecord<'a>>>,
    order: OrderStrategy,
    /// Next worker of [`OrderStrategy::Unordered`].
    next_worker: usize,
    tokens: Vec<Arc<()>>,
}

/// Batches that were being mapped at some moment.
pub(super) struct InFlightBatches(Vec<Arc<()>>);

impl InFlightBatches {
    /// Whether all their updates have been posted.
    pub(super) fn is_done(&self) -> bool {
        // Two holders besides the workers: this list and the crew's.
        let done = self.0.iter().all(|token| Arc::strong_count(token) <= 2);
        fence(Ordering::Acquire);
        done
    }
}

impl<'s, 'a> Mappers<'s, 'a> {
    /// Starts a worker for each mapper, or none if the caller is to be the only one.
    pub(super) fn start(
        scope: &'s Scope<'s, '_>,
        mappers: &'s mut [Mapper],
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

    /// Maps a batch, or gives it to the workers; waits while one of them has too much to do.
    pub(super) fn map(&mut self, batch: &mut Vec<LentRecord<'a>>) {
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

    /// What has been given to workers and is not mapped yet.
    pub(super) fn pending(&self) -> InFlightBatches {
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
            // A worker ends only after its queue.
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

/// A worker's thread. Wishes are read after a share was received and before it is mapped: its records
/// were polled before it was sent.
fn work(mapper: &mut Mapper, queue: &Receiver<BatchSlice<'_>>) {
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
