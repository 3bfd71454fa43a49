//! Threads for what filters cannot do at once on an event loop, such as unpacking large batches.
//!
//! Frames take turns: each gets a little CPU time, then whoever comes from the address that has had
//! the least is next. One thread takes only frames that are new, so that large ones never occupy
//! all of them.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weir_kafka::wire::WireError;
use weir_net::{MailboxSender, PostError};

use super::{LoopEvent, PairId};
use crate::filter::{
    BudgetStep, Direction, FilterBuffers, FilterChain, FilterCounts, FilterLimits, FilterResult,
    FrameOutput, MemoryMeter,
};
use crate::wire::{Asked, Unfinished};

/// The threads, and the frames that wait for them. At most two frames wait per connection.
#[derive(Debug)]
pub(crate) struct FilterPool {
    limits: FilterLimits,
    threads: usize,
    queues: Mutex<Queues>,
    wake: Condvar,
}

/// A frame with work left, and whose it is.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) pair: PairId,
    pub(super) direction: Direction,
    pub(super) address: IpAddr,
    pub(super) filters: Arc<FilterChain>,
    pub(super) unfinished: Unfinished,
    pub(super) cancelled: Arc<AtomicBool>,
    pub(super) reply: MailboxSender<LoopEvent>,
}

/// A frame whose filters have done their work.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(super) pair: PairId,
    pub(super) direction: Direction,
    pub(super) request: Option<Asked>,
    pub(super) outcome: Result<(FilterResult, Vec<u8>), WireError>,
    pub(super) tally: FilterCounts,
}

/// Cancels a task when its connection is gone.
#[derive(Debug)]
pub(super) struct Cancel(pub(super) Arc<AtomicBool>);

impl Drop for Cancel {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[derive(Debug, Default)]
struct Queues {
    /// New frames, and those that have had a turn, by the time of their address and their number.
    fresh: BTreeMap<(u64, u64), Task>,
    begun: BTreeMap<(u64, u64), Task>,
    next: u64,
    /// Time of the last frame taken, in microseconds. No address is behind it.
    now_us: u64,
    by_address: HashMap<IpAddr, u64>,
    cpu_us: u64,
    ended: bool,
}

impl Queues {
    fn put(&mut self, task: Task, is_fresh: bool) {
        let time_us = self.by_address.entry(task.address).or_default();
        *time_us = (*time_us).max(self.now_us);
        let key = (*time_us, self.next);
        // Several frames of one address must not all come before those of others.
        *time_us += TURN_ESTIMATE_US;
        self.next += 1;
        match is_fresh {
            true => self.fresh.insert(key, task),
            false => self.begun.insert(key, task),
        };
    }

    fn take(&mut self, only_fresh: bool) -> Option<Task> {
        let fresh = self.fresh.first_key_value().map(|(key, _)| *key);
        let begun = self.begun.first_key_value().map(|(key, _)| *key);
        let begun = begun.filter(|_| !only_fresh);
        let (key, task) = match (fresh, begun) {
            (Some(fresh), Some(begun)) if begun < fresh => self.begun.pop_first()?,
            (Some(_), _) => self.fresh.pop_first()?,
            (None, Some(_)) => self.begun.pop_first()?,
            (None, None) => return None,
        };
        self.now_us = self.now_us.max(key.0);
        if self.by_address.len() > ADDRESSES_KEPT {
            let now_us = self.now_us;
            self.by_address.retain(|_, time_us| *time_us > now_us);
        }
        Some(task)
    }

    fn charge(&mut self, address: IpAddr, used_us: u64) {
        self.cpu_us += used_us;
        if let Some(time_us) = self.by_address.get_mut(&address) {
            *time_us += used_us.saturating_sub(TURN_ESTIMATE_US);
        }
    }
}

impl FilterPool {
    /// Starts the threads.
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

    /// Ends the threads; frames that wait are dropped.
    pub(crate) fn stop(&self) {
        self.queues().ended = true;
        self.wake.notify_all();
    }

    /// Returns the frames that wait, and the CPU time used so far.
    pub(crate) fn figures(&self) -> (usize, Duration) {
        let queues = self.queues();
        let waiting = queues.fresh.len() + queues.begun.len();
        (waiting, Duration::from_micros(queues.cpu_us))
    }

    pub(super) fn submit(&self, task: Task) {
        self.queues().put(task, true);
        // The thread that is woken may be one that does not take it.
        self.wake.notify_all();
    }

    fn run(&self, number: usize) {
        // The first of several threads is for new frames alone.
        let only_fresh = number == 0 && self.threads > 1;
        let mut workspace = FilterBuffers::new(self.limits);
        let mut queues = self.queues();
        while !queues.ended {
            let Some(task) = queues.take(only_fresh) else {
                queues = self
                    .wake
                    .wait(queues)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            drop(queues);
            let address = task.address;
            let (rest, used) = self.advance(task, &mut workspace, only_fresh);
            queues = self.queues();
            queues.charge(address, used.as_micros() as u64);
            if let Some(task) = rest {
                queues.put(task, false);
                self.wake.notify_all();
            }
        }
    }

    /// Works on a frame for one turn; returns what is left of it, and the CPU time used.
    fn advance(
        &self,
        mut task: Task,
        workspace: &mut FilterBuffers,
        only_fresh: bool,
    ) -> (Option<Task>, Duration) {
        if task.cancelled.load(Ordering::Relaxed) {
            return (None, Duration::ZERO);
        }
        let begun = thread_cpu();
        let batch_bytes = match only_fresh {
            true => FRESH_BATCH_BYTES,
            false => usize::MAX,
        };
        let Unfinished { work, frame, .. } = &mut task.unfinished;
        let left = work.cpu_left(&self.limits);
        workspace.allow(MemoryMeter::timed(thread_cpu_us, batch_bytes, TURN, left));
        let step = work.advance(&task.filters, frame, workspace);
        let used = thread_cpu().saturating_sub(begun);
        work.count_cpu(used);
        match step {
            Ok(BudgetStep::More) => (Some(task), used),
            Ok(BudgetStep::Done) => {
                finish(task, None, workspace);
                (None, used)
            }
            Err(error) => {
                finish(task, Some(error), workspace);
                (None, used)
            }
        }
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sends a frame back to its event loop.
fn finish(task: Task, error: Option<WireError>, workspace: &mut FilterBuffers) {
    let Unfinished {
        work,
        frame,
        request,
    } = task.unfinished;
    let outcome = match error {
        Some(error) => Err(error),
        None => {
            let verdict = work.finish(&frame, workspace);
            let frame = match verdict.pass {
                FrameOutput::InPlace => frame,
                FrameOutput::Rebuilt => workspace.take_frame(),
                FrameOutput::Nothing => Vec::new(),
            };
            Ok((verdict, frame))
        }
    };
    let tally = workspace.take_tally();
    workspace.tidy();
    let mut mail = LoopEvent::Filtered(Box::new(Finished {
        pair: task.pair,
        direction: task.direction,
        request,
        outcome,
        tally,
    }));
    // Without it the connection would wait for ever; the loop empties its inbox every turn.
    while let Err(PostError::Full(again)) = task.reply.post(mail, POST_TIMEOUT) {
        mail = again;
    }
}

fn thread_cpu() -> Duration {
    Duration::from_micros(thread_cpu_us())
}

fn thread_cpu_us() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// CPU time of a turn.
const TURN: Duration = Duration::from_millis(5);
/// What a turn is thought to cost before it is known.
const TURN_ESTIMATE_US: u64 = 1_000;
/// Bytes that a batch may unpack to on the thread for new frames.
const FRESH_BATCH_BYTES: usize = 1 << 20;
/// Addresses whose time is remembered although it is over.
const ADDRESSES_KEPT: usize = 4_096;
/// How long an event loop's inbox may be full before it is tried again.
const POST_TIMEOUT: Duration = Duration::from_secs(1);
