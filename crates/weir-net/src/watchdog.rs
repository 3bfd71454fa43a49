//! Watchdog of event loops: detects a stalled loop, logs its activity and reports the process as
//! dead.
//!
//! An event loop records in its heartbeat when it wakes, when it sleeps and its activity, with
//! relaxed stores. The watchdog thread checks the heartbeats. A loop that ended by panic or error
//! is never recorded as sleeping, so it counts as stalled.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{RecvTimeoutError, Sender, bounded};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::log::{Truncated, report_suppressed};
use crate::memory;

/// Time between two checks.
const INTERVAL: Duration = Duration::from_millis(250);
/// Checks between two reports of suppressed log lines.
const CHECKS_PER_LOG_REPORT: u32 = 40;
/// Checks between two returns of freed memory to the operating system; they take one second.
const CHECKS_PER_MEMORY_RETURN: u32 = 4;
/// Interval at which [`join_until`] checks its threads.
const JOIN_INTERVAL: Duration = Duration::from_millis(5);

/// Activity of an event loop. Its owner defines those from [`Activity::FIRST_OWN`] on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Activity(pub usize);

impl Activity {
    /// Accepting connections.
    pub const ACCEPT: Self = Self(0);
    /// Handling input of a peer.
    pub const INPUT: Self = Self(1);
    /// Handling events posted by other threads.
    pub const POSTED: Self = Self(2);
    /// Handling timers.
    pub const TIMERS: Self = Self(3);
    /// Writing to sockets.
    pub const WRITE: Self = Self(4);
    /// First activity that the owner of the loop defines.
    pub const FIRST_OWN: usize = 5;

    const NAMES: [&'static str; Self::FIRST_OWN] = [
        "accepting connections",
        "input of a peer",
        "events of other threads",
        "timers",
        "writing",
    ];
}

/// Progress record of one event loop.
#[derive(Debug)]
pub struct Heartbeat {
    name: String,
    epoch: Instant,
    /// Names of the activities from [`Activity::FIRST_OWN`] on.
    own_activities: &'static [&'static str],
    /// Start of the iteration since `epoch`, plus one; 0 while the loop sleeps.
    awake_since_ms: AtomicU64,
    activity: AtomicUsize,
    /// Halves of the IPv6 address of the last peer; read only while the loop is stalled.
    peer: [AtomicU64; 2],
}

impl Heartbeat {
    /// Creates the heartbeat of a sleeping loop. `epoch` is the zero of its clock; `own_activities`
    /// are the names of its activities from [`Activity::FIRST_OWN`] on.
    pub fn new(
        name: impl Into<String>,
        epoch: Instant,
        own_activities: &'static [&'static str],
    ) -> Self {
        Self {
            name: name.into(),
            epoch,
            own_activities,
            awake_since_ms: AtomicU64::new(0),
            activity: AtomicUsize::new(0),
            peer: [AtomicU64::new(0), AtomicU64::new(0)],
        }
    }

    /// Records the start of an iteration.
    pub fn wake(&self, now_ms: u64) {
        self.awake_since_ms.store(now_ms + 1, Ordering::Relaxed);
    }

    /// Records that the loop is about to wait for events, or has ended without an error.
    pub fn sleep(&self) {
        self.awake_since_ms.store(0, Ordering::Relaxed);
    }

    /// Records the start of an activity.
    pub fn begin(&self, activity: Activity) {
        self.activity.store(activity.0, Ordering::Relaxed);
    }

    /// Records the start of an activity for a peer.
    pub fn begin_for(&self, activity: Activity, peer: IpAddr) {
        let bits = match peer {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => address.to_bits(),
        };
        self.peer[0].store((bits >> 64) as u64, Ordering::Relaxed);
        self.peer[1].store(bits as u64, Ordering::Relaxed);
        self.begin(activity);
    }

    pub(crate) fn now_ms(&self) -> u64 {
        u64::try_from(self.epoch.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Returns the start of the current iteration; `None` while the loop sleeps.
    fn awake_since(&self) -> Option<u64> {
        self.awake_since_ms.load(Ordering::Relaxed).checked_sub(1)
    }

    fn describe(&self) -> String {
        let activity = self.activity.load(Ordering::Relaxed);
        let own_index = activity.checked_sub(Activity::FIRST_OWN);
        let name = match own_index {
            Some(index) => self
                .own_activities
                .get(index)
                .copied()
                .unwrap_or("unknown activity"),
            None => Activity::NAMES[activity],
        };
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
    /// Creates a heartbeat that no watchdog checks.
    fn default() -> Self {
        Self::new("event loop", Instant::now(), &[])
    }
}

/// Thresholds for the duration of one iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(remote = "Self", deny_unknown_fields, default)]
pub struct WatchdogConfig {
    /// Milliseconds after which a stall is logged and counted.
    pub stall_ms: u64,
    /// Milliseconds after which the process counts as dead.
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

impl<'de> Deserialize<'de> for WatchdogConfig {
    fn deserialize<D: Deserializer<'de>>(table: D) -> Result<Self, D::Error> {
        // `serde(remote)` derives this function, which does not check ranges.
        let config = Self::deserialize(table)?;
        let Self { stall_ms, dead_ms } = config;
        match (100..=600_000).contains(&stall_ms) && (stall_ms..=600_000).contains(&dead_ms) {
            true => Ok(config),
            false => Err(D::Error::custom(format_args!(
                "watchdog: stall_ms = {stall_ms}, dead_ms = {dead_ms}: \
                 use 100 to 600000, dead_ms not less than stall_ms"
            ))),
        }
    }
}

/// Stalls that the watchdog has found.
#[derive(Debug, Default)]
pub struct WatchdogStatus {
    stalls: AtomicU64,
    longest_ms: AtomicU64,
    dead_loops: AtomicU64,
}

impl WatchdogStatus {
    /// Returns `true` if no event loop has stalled for `dead_ms` or longer.
    pub fn is_alive(&self) -> bool {
        self.dead_loops.load(Ordering::Relaxed) == 0
    }

    /// Returns the number of stalls.
    pub fn stalls(&self) -> u64 {
        self.stalls.load(Ordering::Relaxed)
    }

    /// Returns the length of the longest stall in milliseconds, including a current one.
    pub fn longest_ms(&self) -> u64 {
        self.longest_ms.load(Ordering::Relaxed)
    }
}

/// Stall detection, without a clock or a thread.
#[derive(Debug)]
struct StallDetector {
    loops: Vec<WatchedLoop>,
    config: WatchdogConfig,
    status: Arc<WatchdogStatus>,
}

#[derive(Debug)]
struct WatchedLoop {
    heartbeat: Arc<Heartbeat>,
    /// Start and current length of the stalled iteration, in milliseconds.
    stall: Option<(u64, u64)>,
}

impl StallDetector {
    fn new(
        loops: Vec<Arc<Heartbeat>>,
        config: WatchdogConfig,
        status: Arc<WatchdogStatus>,
    ) -> Self {
        let loops = loops.into_iter().map(|heartbeat| WatchedLoop {
            heartbeat,
            stall: None,
        });
        Self {
            loops: loops.collect(),
            config,
            status,
        }
    }

    /// Checks all loops; `now` returns the time on a loop's own clock. Logs stalls that begin or
    /// end.
    fn check(&mut self, now: impl Fn(&Heartbeat) -> u64) {
        let mut dead = 0;
        for watched in &mut self.loops {
            let awake_since = watched.heartbeat.awake_since();
            let now_ms = now(&watched.heartbeat);
            let event_loop = &watched.heartbeat.name;
            match (watched.stall, awake_since) {
                (Some((began, after_ms)), since) if since != Some(began) => {
                    watched.stall = None;
                    tracing::warn!(%event_loop, after_ms, "event loop recovered");
                }
                (None, Some(since)) if now_ms.saturating_sub(since) >= self.config.stall_ms => {
                    watched.stall = Some((since, 0));
                    self.status.stalls.fetch_add(1, Ordering::Relaxed);
                    let activity = Truncated(watched.heartbeat.describe());
                    tracing::error!(%event_loop, %activity, "event loop stalled");
                }
                _ => {}
            }
            if let Some((began, length_ms)) = &mut watched.stall {
                *length_ms = now_ms.saturating_sub(*began);
                let longest_ms = &self.status.longest_ms;
                longest_ms.fetch_max(*length_ms, Ordering::Relaxed);
                dead += u64::from(*length_ms >= self.config.dead_ms);
            }
        }
        self.status.dead_loops.store(dead, Ordering::Relaxed);
    }

    #[cfg(test)]
    fn stall(&self) -> Option<(u64, u64)> {
        self.loops[0].stall
    }
}

/// Thread that checks event loops until it is dropped.
#[derive(Debug)]
pub struct Watchdog {
    status: Arc<WatchdogStatus>,
    /// Nothing is sent: dropping the sender ends the thread.
    _stop: Sender<()>,
}

impl Watchdog {
    /// Starts to check `loops`. The thread also logs sums of suppressed log lines and returns freed
    /// memory to the operating system.
    pub fn start(loops: Vec<Arc<Heartbeat>>, config: WatchdogConfig) -> std::io::Result<Self> {
        let status = Arc::<WatchdogStatus>::default();
        let mut detector = StallDetector::new(loops, config, Arc::clone(&status));
        let (stop, stopped) = bounded::<()>(0);
        std::thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                let mut checks = 0_u32;
                let mut checked_at = Instant::now();
                while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                    let is_late = checked_at.elapsed() > 5 * INTERVAL;
                    checked_at = Instant::now();
                    // If this thread did not run for a while either, the process was suspended.
                    if !is_late {
                        detector.check(Heartbeat::now_ms);
                    }
                    checks = checks.wrapping_add(1);
                    if checks % CHECKS_PER_LOG_REPORT == 0 {
                        report_suppressed();
                    }
                    if checks % CHECKS_PER_MEMORY_RETURN == 0 {
                        memory::return_freed();
                    }
                }
                report_suppressed();
            })?;
        Ok(Self {
            status,
            _stop: stop,
        })
    }

    /// Returns what has been found.
    pub fn watchdog_status(&self) -> Arc<WatchdogStatus> {
        Arc::clone(&self.status)
    }
}

/// Waits for threads to end, at most until `deadline`. Returns the names of those that have not
/// ended; they end with the process. Logs panics.
pub fn join_until(threads: Vec<JoinHandle<()>>, deadline: Instant) -> Vec<String> {
    let mut waiting = threads;
    loop {
        let (ended, left): (Vec<_>, Vec<_>) =
            waiting.into_iter().partition(JoinHandle::is_finished);
        for thread in ended {
            let name = name_of(&thread);
            if thread.join().is_err() {
                tracing::error!(thread = name, "thread panicked");
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

    fn detector() -> (Arc<Heartbeat>, StallDetector, Arc<WatchdogStatus>) {
        let own_activities = &["a subscription"];
        let heartbeat = Arc::new(Heartbeat::new("shard-0", Instant::now(), own_activities));
        let status = Arc::<WatchdogStatus>::default();
        let loops = vec![Arc::clone(&heartbeat)];
        let detector = StallDetector::new(loops, WatchdogConfig::default(), Arc::clone(&status));
        (heartbeat, detector, status)
    }

    #[test]
    fn stall_and_recovery_are_reported_once() {
        let (heartbeat, mut detector, status) = detector();
        detector.check(|_| 100_000);
        heartbeat.wake(100_000);
        heartbeat.begin_for(Activity::INPUT, [10, 0, 0, 7].into());
        heartbeat.begin(Activity(Activity::FIRST_OWN));
        detector.check(|_| 100_999);
        assert_eq!((detector.stall(), status.stalls()), (None, 0));
        let activity = "a subscription, last peer 10.0.0.7";
        assert_eq!(heartbeat.describe(), activity);
        detector.check(|_| 101_000);
        detector.check(|_| 104_999);
        assert!(status.is_alive());
        detector.check(|_| 105_000);
        assert!(!status.is_alive());
        assert_eq!(detector.stall(), Some((100_000, 5_000)));
        assert_eq!((status.stalls(), status.longest_ms()), (1, 5_000));
        // The next iteration, which takes no time.
        heartbeat.wake(105_050);
        detector.check(|_| 105_100);
        assert_eq!(detector.stall(), None);
        assert!(status.is_alive());
        heartbeat.sleep();
        detector.check(|_| 900_000);
        assert_eq!(detector.stall(), None);
        assert_eq!((status.stalls(), status.longest_ms()), (1, 5_000));
    }

    #[test]
    fn join_until_names_unfinished_threads() {
        let (release, released) = bounded::<()>(0);
        let spawn = |name: &str, released: Option<crossbeam_channel::Receiver<()>>| {
            let thread = std::thread::Builder::new().name(name.to_owned());
            thread
                .spawn(move || assert!(released.is_none_or(|released| released.recv().is_err())))
                .unwrap()
        };
        let threads = vec![spawn("quick", None), spawn("stalled", Some(released))];
        let deadline = Instant::now() + Duration::from_millis(300);
        assert_eq!(join_until(threads, deadline), ["stalled"]);
        drop(release);
    }
}
