//! Selects the shard of a new session.
//!
//! A record wakes up every shard that has a subscriber, and each wake-up has a fixed cost. So
//! sessions share the first shard until it has many, or is busy; only then does the next one take
//! sessions. Selection depends on the current loads only: when sessions end, the first shards fill
//! up again.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use weir_net::cpu::thread_time;

/// Share of CPU time above which a shard gets no sessions while another one is not busy.
const BUSY: f64 = 0.5;
/// Period over which this share is measured.
const PERIOD_MS: u64 = 500;
/// A shard keeps a session that arrives there if it has at most a sixteenth more sessions than the
/// shard with the fewest: moving the connection is not worth a better balance.
const IMBALANCE: u32 = 16;

/// Loads of all shards.
#[derive(Debug)]
pub(crate) struct Placement {
    loads: Box<[ShardLoad]>,
    /// Sessions that a shard takes before the next one takes any.
    share: u32,
}

#[derive(Debug, Default)]
struct ShardLoad {
    /// Sessions, including those on their way.
    sessions: AtomicU32,
    is_busy: AtomicBool,
}

impl Placement {
    /// Creates the loads of shards without sessions.
    pub(crate) fn new(shards: usize, share: usize) -> Self {
        Self {
            loads: (0..shards).map(|_| ShardLoad::default()).collect(),
            share: u32::try_from(share).unwrap_or(u32::MAX),
        }
    }

    /// Selects the shard for a session whose connection shard `own` has accepted, and counts the
    /// session there.
    pub(super) fn select(&self, own: u16) -> u16 {
        let sessions = |shard: usize| self.loads[shard].sessions.load(Ordering::Relaxed);
        let is_busy = |shard: usize| self.loads[shard].is_busy.load(Ordering::Relaxed);
        let shards = 0..self.loads.len();
        let has_room = |shard: &usize| sessions(*shard) < self.share && !is_busy(*shard);
        let own = usize::from(own);
        let mut rest = shards.clone();
        let selected = rest.find(has_room).or_else(|| {
            let least = shards.min_by_key(|shard| sessions(*shard))?;
            let few = sessions(least);
            Some(if sessions(own) <= few + few / IMBALANCE {
                own
            } else {
                least
            })
        });
        let selected = selected.unwrap_or(own);
        self.loads[selected]
            .sessions
            .fetch_add(1, Ordering::Relaxed);
        selected as u16
    }

    /// Publishes the load of a shard.
    pub(super) fn publish(&self, shard: u16, sessions: usize, is_busy: bool) {
        let load = &self.loads[usize::from(shard)];
        load.sessions.store(sessions as u32, Ordering::Relaxed);
        load.is_busy.store(is_busy, Ordering::Relaxed);
    }
}

/// Measures whether the thread that calls it is busy.
#[derive(Debug, Default)]
pub(super) struct BusyMeter {
    begin_ms: u64,
    cpu: Duration,
    is_busy: bool,
}

impl BusyMeter {
    /// Returns `true` if the thread needed more than half of the CPU time of the last period.
    pub(super) fn is_busy(&mut self, now_ms: u64) -> bool {
        let elapsed_ms = now_ms.saturating_sub(self.begin_ms);
        if elapsed_ms >= PERIOD_MS {
            self.note(now_ms, thread_time());
        }
        self.is_busy
    }

    fn note(&mut self, now_ms: u64, cpu: Duration) {
        let elapsed = Duration::from_millis(now_ms.saturating_sub(self.begin_ms));
        self.is_busy = cpu.saturating_sub(self.cpu) > elapsed.mul_f64(BUSY);
        (self.begin_ms, self.cpu) = (now_ms, cpu);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(placement: &Placement) -> Vec<u32> {
        let loads = placement.loads.iter();
        loads
            .map(|load| load.sessions.load(Ordering::Relaxed))
            .collect()
    }

    #[test]
    fn shards_fill_in_order_then_balance() {
        let placement = Placement::new(3, 10);
        let place = |sessions: u16| {
            for number in 0..sessions {
                placement.select(number % 3);
            }
        };
        place(10);
        assert_eq!(counts(&placement), [10, 0, 0]);
        place(15);
        assert_eq!(counts(&placement), [10, 10, 5]);
        place(3_000);
        let all = counts(&placement);
        assert_eq!(all.iter().sum::<u32>(), 3_025);
        let (least, most) = (all.iter().min(), all.iter().max());
        assert!(most.unwrap() - least.unwrap() <= 64, "{all:?}");
    }

    #[test]
    fn balanced_shards_keep_arriving_sessions() {
        let placement = Placement::new(2, 1);
        placement.publish(0, 1_000, false);
        placement.publish(1, 1_010, false);
        assert_eq!(placement.select(1), 1);
        placement.publish(1, 1_200, false);
        assert_eq!(placement.select(1), 0);
    }

    #[test]
    fn busy_shards_get_sessions_only_if_all_are_busy() {
        let placement = Placement::new(2, 100);
        placement.publish(0, 5, true);
        assert_eq!(placement.select(0), 1);
        placement.publish(1, 100, false);
        assert_eq!(
            placement.select(0),
            0,
            "both have no room, so the numbers count"
        );
        placement.publish(0, 5, false);
        assert_eq!(placement.select(1), 0);
    }

    #[test]
    fn room_is_used_again_when_sessions_end() {
        let placement = Placement::new(2, 2);
        for shard in [0, 0, 1] {
            assert_eq!(placement.select(0), shard);
        }
        placement.publish(0, 0, false);
        assert_eq!(placement.select(1), 0);
    }

    #[test]
    fn half_of_a_period_is_busy() {
        let mut meter = BusyMeter::default();
        meter.note(1_000, Duration::from_millis(600));
        assert!(meter.is_busy);
        meter.note(2_000, Duration::from_millis(1_000));
        assert!(!meter.is_busy);
    }
}
