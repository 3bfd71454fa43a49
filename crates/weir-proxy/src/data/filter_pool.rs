//! Threads for filter work that is too expensive for an event loop, such as decompressing large
//! batches.
//!
//! Threads process frames in time slices. The next frame is one from the client address that has
//! used the least CPU time (fair queueing by virtual time). The first of several threads takes only
//! new frames, so that large frames never occupy all threads.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use weir_net::cpu::thread_time;
use weir_net::{MailboxSender, PostError};
use weir_wire::WireError;

use super::events::{FinishedFrame, LoopEvent, PairId};
use crate::wire::UnfinishedFrame;
use weir_filters::{
    Direction, FilterBuffers, FilterChain, FilterLimits, FrameOutput, WorkMeter, WorkProgress,
};

/// The filter threads and the frames queued for them, at most two per connection.
#[derive(Debug)]
pub(crate) struct FilterPool {
    limits: FilterLimits,
    threads: usize,
    queues: Mutex<Queues>,
    wake: Condvar,
}

/// Filter work of one frame.
#[derive(Debug)]
pub(super) struct FilterTask {
    pub(super) pair: PairId,
    pub(super) direction: Direction,
    /// Address of the client.
    pub(super) address: IpAddr,
    pub(super) filters: Arc<FilterChain>,
    pub(super) unfinished: UnfinishedFrame,
    pub(super) cancelled: Arc<AtomicBool>,
    /// Mailbox of the event loop of the connection.
    pub(super) reply: MailboxSender<LoopEvent>,
}

/// Cancels a task when dropped, because its connection was closed.
#[derive(Debug)]
pub(super) struct CancelOnDrop(pub(super) Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Queued tasks, by the virtual time of their client address in microseconds and a sequence number.
#[derive(Debug, Default)]
struct Queues {
    new_tasks: BTreeMap<(u64, u64), FilterTask>,
    /// Tasks that have had a time slice.
    started_tasks: BTreeMap<(u64, u64), FilterTask>,
    next_sequence: u64,
    /// Greatest virtual time of a task that was taken. An address that was idle continues from
    /// here, so that it gains no advantage.
    now_us: u64,
    /// Virtual time of each address: its CPU time, with estimates for queued tasks.
    by_address: HashMap<IpAddr, u64>,
    /// CPU time used by all tasks.
    cpu_us: u64,
    ended: bool,
}

impl Queues {
    fn put(&mut self, task: FilterTask, is_new: bool) {
        let time_us = self.by_address.entry(task.address).or_default();
        *time_us = (*time_us).max(self.now_us);
        let key = (*time_us, self.next_sequence);
        // Several frames of one address must not all come before those of others.
        *time_us += SLICE_ESTIMATE_US;
        self.next_sequence += 1;
        let tasks = match is_new {
            true => &mut self.new_tasks,
            false => &mut self.started_tasks,
        };
        tasks.insert(key, task);
    }

    /// Takes the task with the least virtual time.
    fn take(&mut self, only_new: bool) -> Option<FilterTask> {
        let new = self.new_tasks.first_key_value().map(|(key, _)| *key);
        let started = self.started_tasks.first_key_value().map(|(key, _)| *key);
        let tasks = match started {
            Some(started) if !only_new && new.is_none_or(|new| started < new) => {
                &mut self.started_tasks
            }
            _ => &mut self.new_tasks,
        };
        let (key, task) = tasks.pop_first()?;
        self.now_us = self.now_us.max(key.0);
        if self.by_address.len() > ADDRESSES_MAX {
            let now_us = self.now_us;
            self.by_address.retain(|_, time_us| *time_us > now_us);
        }
        Some(task)
    }

    /// Replaces the estimate for a slice with the CPU time that it used, if that is more.
    fn charge(&mut self, address: IpAddr, used_us: u64) {
        self.cpu_us += used_us;
        if let Some(time_us) = self.by_address.get_mut(&address) {
            *time_us += used_us.saturating_sub(SLICE_ESTIMATE_US);
        }
    }
}

impl FilterPool {
    /// Starts the filter threads. Returns the pool and their handles.
    pub(crate) fn start(
        threads: usize,
        limits: FilterLimits,
    ) -> io::Result<(Arc<Self>, Vec<JoinHandle<()>>)> {
        let pool = Arc::new(Self {
            limits,
            threads,
            queues: Mutex::default(),
            wake: Condvar::new(),
        });
        let mut started = Vec::with_capacity(threads);
        for number in 0..threads {
            let pool = Arc::clone(&pool);
            let thread = std::thread::Builder::new().name(format!("weir-filter-{number}"));
            started.push(thread.spawn(move || pool.run(number))?);
        }
        Ok((pool, started))
    }

    /// Stops the threads. Queued frames are dropped.
    pub(crate) fn stop(&self) {
        self.queues().ended = true;
        self.wake.notify_all();
    }

    /// Returns the number of queued frames and the CPU time used so far.
    pub(crate) fn usage(&self) -> (usize, Duration) {
        let queues = self.queues();
        let waiting = queues.new_tasks.len() + queues.started_tasks.len();
        (waiting, Duration::from_micros(queues.cpu_us))
    }

    /// Queues a new task.
    pub(super) fn submit(&self, task: FilterTask) {
        self.queues().put(task, true);
        // The thread that a single notification wakes may be the one that takes only new frames.
        self.wake.notify_all();
    }

    /// Runs a filter thread.
    fn run(&self, number: usize) {
        // The first of several threads takes only new frames.
        let only_new = number == 0 && self.threads > 1;
        let mut buffers = FilterBuffers::new(self.limits);
        let mut queues = self.queues();
        while !queues.ended {
            let Some(task) = queues.take(only_new) else {
                queues = self
                    .wake
                    .wait(queues)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queues);
            let address = task.address;
            let (rest, used) = self.advance(task, &mut buffers, only_new);
            queues = self.queues();
            queues.charge(address, used.as_micros() as u64);
            if let Some(task) = rest {
                queues.put(task, false);
                self.wake.notify_all();
            }
        }
    }

    /// Runs one time slice of a frame's filter work. Returns the frame if work is left, and the CPU
    /// time used.
    fn advance(
        &self,
        mut task: FilterTask,
        buffers: &mut FilterBuffers,
        only_new: bool,
    ) -> (Option<FilterTask>, Duration) {
        if task.cancelled.load(Ordering::Relaxed) {
            return (None, Duration::ZERO);
        }
        let start = thread_time();
        let batch_bytes = match only_new {
            true => NEW_FRAME_BATCH_BYTES,
            false => usize::MAX,
        };
        let UnfinishedFrame { work, frame, .. } = &mut task.unfinished;
        let left = work.cpu_left(&self.limits);
        buffers.set_meter(WorkMeter::timed(
            thread_cpu_us,
            batch_bytes,
            TIME_SLICE,
            left,
        ));
        let step = work.advance(&task.filters, frame, buffers);
        let used = thread_time().saturating_sub(start);
        work.count_cpu(used);
        if let Ok(WorkProgress::Paused) = step {
            return (Some(task), used);
        }
        finish(task, step.err(), buffers);
        (None, used)
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a filtered frame back to its event loop.
fn finish(task: FilterTask, error: Option<WireError>, buffers: &mut FilterBuffers) {
    let UnfinishedFrame {
        work,
        frame,
        request,
    } = task.unfinished;
    let outcome = match error {
        Some(error) => Err(error),
        None => {
            let result = work.finish(&frame, buffers);
            let frame = match result.output {
                FrameOutput::InPlace => frame,
                FrameOutput::Rebuilt => buffers.take_frame(),
                FrameOutput::Nothing => Vec::new(),
            };
            Ok((result, frame))
        }
    };
    let counts = buffers.take_counts();
    buffers.shrink();
    let mut event = LoopEvent::Filtered(Box::new(FinishedFrame {
        pair: task.pair,
        direction: task.direction,
        request,
        outcome,
        counts,
    }));
    // Retries without end, because without the event the connection would never continue. Event
    // loops drain their mailboxes in every iteration.
    while let Err(PostError::Timeout(again)) = task.reply.post(event, POST_TIMEOUT) {
        event = again;
    }
}

fn thread_cpu_us() -> u64 {
    thread_time().as_micros() as u64
}

/// CPU time of one slice.
const TIME_SLICE: Duration = Duration::from_millis(5);
/// Estimated CPU time of a slice, charged before it runs.
const SLICE_ESTIMATE_US: u64 = 1_000;
/// Maximum decompressed size of a batch on the thread for new frames.
const NEW_FRAME_BATCH_BYTES: usize = 1 << 20;
/// Number of addresses above which those that would continue from the current virtual time anyway
/// are removed.
const ADDRESSES_MAX: usize = 4_096;
/// Maximum wait for space in a full mailbox before the next attempt.
const POST_TIMEOUT: Duration = Duration::from_secs(1);
