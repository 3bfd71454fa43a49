//! A watchdog for event loops: notices one that is stuck, says with what, and makes liveness false.
//!
//! A loop marks when it wakes, when it goes to sleep and what it does, with relaxed stores; a thread
//! looks at the marks. A loop that ended by panic or error never goes to sleep, so it counts as stuck.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};

use crate::log::{Truncated, report_suppressed};
use crate::memory;

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(250);
/// Looks between two sums of suppressed log lines.
const LOOKS_PER_LOG_REPORT: u32 = 40;
/// Looks between two returns of freed memory: a second.
const LOOKS_PER_RETURN: u32 = 4;
/// How often threads that are to end are looked at.
const JOIN_INTERVAL: Duration = Duration::from_millis(5);

/// What an event loop is doing; names that follow [`Activity::FIRST_OWN`] are its owner's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity(pub usize);

impl Activity {
    /// Accepting connections.
    pub const ACCEPT: Self = Self(0);
    /// Handling what a peer has sent.
    pub const INPUT: Self = Self(1);
    /// Handling what other threads have posted.
    pub const POSTED: Self = Self(2);
    /// Handling timers.
    pub const TIMERS: Self = Self(3);
    /// Writing to sockets.
    pub const WRITE: Self = Self(4);
    /// The first that a loop's owner names.
    pub const FIRST_OWN: usize = 5;

    const NAMES: [&'static str; Self::FIRST_OWN] = [
        "accepting connections",
        "input of a peer",
        "events of other threads",
        "timers",
        "writing",
    ];
}

/// The marks of one event loop.
#[derive(Debug)]
pub struct Heartbeat {
    name: String,
    epoch: Instant,
    own: &'static [&'static str],
    /// When the loop woke, plus one; 0 while it sleeps.
    awake_since_ms: AtomicU64,
    activity: AtomicUsize,
    /// Halves of the IPv6 address that was served last; read only while the loop is stuck.
    peer: [AtomicU64; 2],
}

impl Heartbeat {
    /// Creates the marks of a loop that sleeps; `epoch` is instant 0 of its clock, and `own` names
    /// its activities from [`Activity::FIRST_OWN`] on.
    pub fn new(name: impl Into<String>, epoch: Instant, own: &'static [&'static str]) -> Self {
        Self {
            name: name.into(),
            epoch,
            own,
            awake_since_ms: AtomicU64::new(0),
            activity: AtomicUsize::new(0),
            peer: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Marks the start of an iteration.
    pub fn wake(&self, now_ms: u64) {
        self.awake_since_ms.store(now_ms + 1, Ordering::Relaxed);
    }

    /// Marks that the loop is about to wait for events, or has ended in order.
    pub fn sleep(&self) {
        self.awake_since_ms.store(0, Ordering::Relaxed);
    }

    /// Marks what the loop begins to do.
    pub fn begin(&self, activity: Activity) {
        self.activity.store(activity.0, Ordering::Relaxed);
    }

    /// Marks what the loop begins to do, for whom.
    pub fn begin_for(&self, activity: Activity, peer: IpAddr) {
        let bits = match peer {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        self.peer[0].store((bits >> 64) as u64, Ordering::Relaxed);
        self.peer[1].store(bits as u64, Ordering::Relaxed);
        self.begin(activity);
    }

    fn awake_since(&self) -> Option<u64> {
        self.awake_since_ms.load(Ordering::Relaxed).checked_sub(1)
    }

    /// What the loop does, with the peer it last began something for.
    fn describe(&self) -> String {
        let activity = self.activity.load(Ordering::Relaxed);
        let own = activity.checked_sub(Activity::FIRST_OWN);
        let name = match own {
            Some(own) => self.own.get(own).copied(),
            None => Some(Activity::NAMES[activity]),
        };
        let name = name.unwrap_or("unknown activity");
        let [high, low] = [0, 1].map(|half| self.peer[half].load(Ordering::Relaxed));
        match (u128::from(high) << 64) | u128::from(low) {
            0 => name.to_owned(),
            bits => {
                let peer = Ipv6Addr::from_bits(bits).to_canonical();
                format!("{name}, last peer {peer}")
            }
        }
    }
}

impl Default for Heartbeat {
    /// Creates marks at which nobody looks.
    fn default() -> Self {
        Self::new("event loop", Instant::now(), &[])
    }
}

/// How long an event loop may take for one iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// Milliseconds after which a stall is logged and counted.
    pub stall_ms: u64,
    /// Milliseconds after which the process does not count as alive.
    pub dead_ms: u64,
}

impl Default for WatchdogConfig {
    fn default() -> Self {
        Self {
            stall_ms: 1_000,
            dead_ms: 5_000,
        }
    }
}

/// What the watchdog has seen.
#[derive(Debug, Default)]
pub struct Vitals {
    stalls: AtomicU64,
    longest_ms: AtomicU64,
    dead_loops: AtomicU64,
}

impl Vitals {
    /// Returns whether no event loop has been stuck for longer than `dead_ms`.
    pub fn is_alive(&self) -> bool {
        self.dead_loops.load(Ordering::Relaxed) == 0
    }

    /// Returns how many stalls there were.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// Returns the length of the longest stall in milliseconds, also of one that goes on.
    pub fn longest_ms(&self) -> u64 {
        self.longest_ms.load(Ordering::Relaxed)
    }
}

/// The rules, without a clock or a thread.
#[derive(Debug)]
struct StallDetector {
    loops: Vec<WatchedLoop>,
    config: WatchdogConfig,
    vitals: Arc<Vitals>,
}

#[derive(Debug)]
struct WatchedLoop {
    heartbeat: Arc<Heartbeat>,
    /// The iteration that is stuck: when it began, and how long it has taken so far.
    stall: Option<(u64, u64)>,
}

/// A stall that began or ended.
#[derive(Debug, PartialEq, Eq)]
enum StallChange {
    Stuck { name: String, doing: String },
    Recovered { name: String, after_ms: u64 },
}

impl StallDetector {
    fn new(loops: Vec<Arc<Heartbeat>>, config: WatchdogConfig, vitals: Arc<Vitals>) -> Self {
        let loops = loops.into_iter().map(|heartbeat| WatchedLoop {
            heartbeat,
            stall: None,
        });
        Self {
            loops: loops.collect(),
            config,
            vitals,
        }
    }

    /// Looks at all loops; `now` tells the time on a loop's own clock.
    fn look(&mut self, now: impl Fn(&Heartbeat) -> u64) -> Vec<StallChange> {
        let mut changes = Vec::new();
        let mut dead = 0;
        for one in &mut self.loops {
            let since = one.heartbeat.awake_since();
            let now_ms = now(&one.heartbeat);
            let name = || one.heartbeat.name.clone();
            match (one.stall, since) {
                (Some((began, after_ms)), since) if since != Some(began) => {
                    one.stall = None;
                    changes.push(StallChange::Recovered {
                        name: name(),
                        after_ms,
                    });
                }
                (None, Some(since)) if now_ms.saturating_sub(since) >= self.config.stall_ms => {
                    one.stall = Some((since, 0));
                    self.vitals.stalls.fetch_add(1, Ordering::Relaxed);
                    changes.push(StallChange::Stuck {
                        name: name(),
                        doing: one.heartbeat.describe(),
                    });
                }
                _ => {}
            }
            if let Some((began, length_ms)) = &mut one.stall {
                *length_ms = now_ms.saturating_sub(*began);
                self.vitals
                    .longest_ms
                    .fetch_max(*length_ms, Ordering::Relaxed);
                dead += u64::from(*length_ms >= self.config.dead_ms);
            }
        }
        self.vitals.dead_loops.store(dead, Ordering::Relaxed);
        changes
    }
}

/// A thread that looks at event loops until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    vitals: Arc<Vitals>,
    /// Nothing is ever sent: the thread ends when this is gone.
    _stop: Sender<()>,
}

impl Watchdog {
    /// Starts to look at `loops`; also logs the sums of suppressed log lines, and has freed memory
    /// returned to the operating system.
    ///
    /// # Errors
    /// When the operating system refuses a thread.
    pub fn start(loops: Vec<Arc<Heartbeat>>, config: WatchdogConfig) -> std::io::Result<Self> {
        let vitals = Arc::<Vitals>::default();
        let mut watch = StallDetector::new(loops, config, Arc::clone(&vitals));
        let (stop, stopped) = bounded::<()>(0);
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                let mut looks = 0_u32;
                let mut looked_at = Instant::now();
                while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    let late = looked_at.elapsed() > 5 * INTERVAL;
                    looked_at = Instant::now();
                    // If this thread did not run either, the whole process was suspended.
                    if !late {
                        report(watch.look(|one| one.epoch.elapsed().as_millis() as u64));
                    }
                    looks = looks.wrapping_add(1);
                    if looks % LOOKS_PER_LOG_REPORT == 0 {
                        report_suppressed();
                    }
                    if looks % LOOKS_PER_RETURN == 0 {
                        memory::return_freed();
                    }
                }
                report_suppressed();
            })?;
        Ok(Self {
            vitals,
            _stop: stop,
        })
    }

    /// Returns what it has seen.
    pub fn vitals(&self) -> Arc<Vitals> {
        Arc::clone(&self.vitals)
    }
}

fn report(changes: Vec<StallChange>) {
    for change in changes {
        match change {
            StallChange::Stuck { name, doing } => {
                tracing::error!(event_loop = %name, "event loop is stuck: {}", Truncated(doing));
            }
            StallChange::Recovered { name, after_ms } => {
                tracing::warn!(event_loop = %name, after_ms, "event loop goes on");
            }
        }
    }
}

/// Waits for threads to end, no longer than until `deadline`, and returns the names of those that
/// have not: they end with the process. Logs panics.
pub fn join_until(threads: Vec<JoinHandle<()>>, deadline: Instant) -> Vec<String> {
    let mut waiting = threads;
    loop {
        let (ended, left): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(JoinHandle::is_finished);
        for thread in ended {
            let name = name_of(&thread);
            if thread.join().is_err() {
                tracing::error!(thread = name, "thread ended by panic");
            }
        }
        if left.is_empty() || Instant::now() >= deadline {
            return left.iter().map(name_of).collect();
        }
        waiting = left;
        std::thread::sleep(JOIN_INTERVAL);
    }
}

fn name_of(thread: &JoinHandle<()>) -> String {
    thread.thread().name().unwrap_or("unnamed").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch() -> (Arc<Heartbeat>, StallDetector, Arc<Vitals>) {
        let own = &["a subscription"];
        let heartbeat = Arc::new(Heartbeat::new("shard-0", Instant::now(), own));
        let vitals = Arc::<Vitals>::default();
        let loops = vec![Arc::clone(&heartbeat)];
        let watch = StallDetector::new(loops, WatchdogConfig::default(), Arc::clone(&vitals));
        (heartbeat, watch, vitals)
    }

    #[test]
    fn a_stall_is_reported_once_with_its_cause_and_its_end() {
        let (heartbeat, mut watch, vitals) = watch();
        assert_eq!(watch.look(|_| 100_000), []);
        heartbeat.wake(100_000);
        heartbeat.begin_for(Activity::INPUT, [10, 0, 0, 7].into());
        heartbeat.begin(Activity(Activity::FIRST_OWN));
        assert_eq!(watch.look(|_| 100_999), []);
        let stuck = StallChange::Stuck {
            name: "shard-0".to_owned(),
            doing: "a subscription, last peer 10.0.0.7".to_owned(),
        };
        assert_eq!(watch.look(|_| 101_000), [stuck]);
        assert_eq!(watch.look(|_| 104_999), []);
        assert!(vitals.is_alive());
        assert_eq!(watch.look(|_| 105_000), []);
        assert!(!vitals.is_alive());
        assert_eq!((vitals.stalls(), vitals.longest_ms()), (1, 5_000));
        // Its next iteration, which takes no time.
        heartbeat.wake(105_050);
        let recovered = StallChange::Recovered {
            name: "shard-0".to_owned(),
            after_ms: 5_000,
        };
        assert_eq!(watch.look(|_| 105_100), [recovered]);
        assert!(vitals.is_alive());
        heartbeat.sleep();
        assert_eq!(watch.look(|_| 900_000), []);
        assert_eq!((vitals.stalls(), vitals.longest_ms()), (1, 5_000));
    }

    #[test]
    fn threads_that_do_not_end_are_named_and_left() {
        let (hold, held) = bounded::<()>(0);
        let spawn = |name: &str, held: Option<crossbeam_channel::Receiver<()>>| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread
                .spawn(move || assert!(held.is_none_or(|held| held.recv().is_err())))
                .unwrap()
        };
        let threads = vec![spawn("quick", None), spawn("stuck", Some(held))];
        let deadline = Instant::now() + Duration::from_millis(300);
        assert_eq!(join_until(threads, deadline), ["stuck"]);
        drop(hold);
    }
}
