//! Alarm of an event loop: the kernel's timer for its next deadline.
//!
//! A poll with a timeout starts and cancels a timer of the kernel in each call, about 3 % of the
//! CPU time of a busy proxy. The alarm is set once for a deadline, which is seconds ahead in most
//! loops, and the polls until then have no timeout.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};

use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

/// Timer that wakes a poll.
#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
    /// Time for which it is set, in milliseconds of the loop's clock; it may have passed.
    at_ms: u64,
}

impl Alarm {
    /// Creates an alarm that is not set. Its events have `token` and need no handling.
    pub(super) fn new(registry: &Registry, token: Token) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { timer, at_ms: 0 })
    }

    /// Returns the timeout in milliseconds of a poll that must end in `in_ms`; `None` if the alarm
    /// ends it. The alarm may end it earlier.
    pub(super) fn poll_timeout(&mut self, now_ms: u64, in_ms: u64) -> Option<u64> {
        let due_ms = now_ms.saturating_add(in_ms);
        let is_set = self.at_ms > now_ms && self.at_ms <= due_ms;
        if is_set || (in_ms >= SET_MIN_MS && self.set(in_ms).is_ok()) {
            if !is_set {
                self.at_ms = due_ms;
            }
            return None;
        }
        Some(in_ms)
    }

    /// Sets the alarm; an earlier time is forgotten.
    fn set(&self, in_ms: u64) -> io::Result<()> {
        let value = Timespec {
            tv_sec: i64::try_from(in_ms / 1000).unwrap_or(i64::MAX),
            // Below one second, so it fits.
            tv_nsec: (in_ms % 1000 * 1_000_000) as _,
        };
        let never = Timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        let times = Itimerspec {
            it_interval: never,
            it_value: value,
        };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &times)?;
        Ok(())
    }
}

/// Shortest time for which the alarm is set, in milliseconds: setting it is a system call.
const SET_MIN_MS: u64 = 50;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mio::{Events, Poll};

    use super::*;

    #[test]
    fn alarm_ends_polls_of_its_deadline_and_is_set_once() {
        let mut poll = Poll::new().unwrap();
        let mut alarm = Alarm::new(poll.registry(), Token(7)).unwrap();
        assert_eq!(alarm.poll_timeout(1_000, 20), Some(20), "too short");
        assert_eq!(alarm.poll_timeout(1_000, 60), None);
        assert_eq!(alarm.at_ms, 1_060);
        // Later deadlines leave it; earlier ones need a timeout, or set it again.
        assert_eq!(alarm.poll_timeout(1_010, 900), None);
        assert_eq!(alarm.poll_timeout(1_020, 30), Some(30));
        assert_eq!(alarm.at_ms, 1_060);
        let mut events = Events::with_capacity(4);
        poll.poll(&mut events, Some(Duration::from_secs(20)))
            .unwrap();
        assert_eq!(
            events.iter().next().map(mio::event::Event::token),
            Some(Token(7))
        );
        // It has expired and ends later polls too, without being read.
        assert_eq!(alarm.poll_timeout(1_060, 50), None);
        assert_eq!(alarm.at_ms, 1_110);
        poll.poll(&mut events, Some(Duration::from_secs(20)))
            .unwrap();
        assert!(!events.is_empty());
    }
}
