//! Frequency limits of subscriptions, and the timer for all sessions that wait for a limit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use foldhash::HashMap;
use weir_mapping::RowCommand;
use weir_tlcp::request::{Add, BufferSize, Frequency};
use weir_tlcp::server::{FrequencyTimer, period_us};

use super::keys::SessionKey;

/// Limits of one subscription; absent if the client has requested none.
#[derive(Debug, Default)]
pub struct FrequencyLimit {
    /// Maximum number of queued updates per item; 0: the default of the mode.
    pub(crate) buffer: usize,
    /// Updates per second and item; `None` if unlimited.
    pub frequency: Option<f64>,
    /// Highest frequency that the client may request.
    pub frequency_max: Option<f64>,
    /// Timers by position; empty until the first limited update.
    items: Vec<ItemTimers>,
}

#[derive(Debug, Default)]
struct ItemTimers {
    timer: FrequencyTimer,
    /// Mode COMMAND: timers of recently updated rows.
    rows: HashMap<Arc<str>, FrequencyTimer>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FrequencyScope<'a> {
    Item,
    Row(&'a Arc<str>),
    /// No frequency limit; only the bandwidth limit applies.
    Free,
}

/// Time before which nothing may be sent, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendDelay {
    /// The session has used up its bandwidth.
    Session(u64),
    /// The item or row was updated recently.
    Item(u64),
}

impl<'a> FrequencyScope<'a> {
    /// Returns the scope of a row command. Only updates of rows are limited.
    pub(crate) fn row(key: &'a Arc<str>, command: RowCommand) -> Self {
        match command {
            RowCommand::Update => Self::Row(key),
            RowCommand::Add | RowCommand::Delete => Self::Free,
        }
    }
}

impl FrequencyLimit {
    /// Returns the limits that a subscription request contains, if they differ from the default.
    /// The caller has already reduced the requested frequency to `frequency_max`.
    pub fn of(add: &Add<'_>, frequency_max: Option<f64>) -> Option<Box<Self>> {
        let buffer = match add.requested_buffer_size {
            Some(BufferSize::Limited(most)) => most as usize,
            Some(BufferSize::Unlimited) => usize::MAX,
            None => 0,
        };
        let frequency = match add.requested_max_frequency {
            Frequency::PerSecond(frequency) => Some(frequency),
            Frequency::Unlimited | Frequency::Unfiltered => None,
        };
        let is_limited = buffer > 0 || frequency.is_some();
        is_limited.then(|| {
            Box::new(Self {
                buffer,
                frequency,
                frequency_max,
                items: Vec::new(),
            })
        })
    }

    pub(crate) fn set_frequency(&mut self, frequency: Option<f64>, now_ms: u64) {
        self.frequency = frequency;
        match frequency {
            None => self.items = Vec::new(),
            Some(frequency) => {
                for item in &mut self.items {
                    item.timer.cut(period_us(frequency), now_ms);
                    for timer in item.rows.values_mut() {
                        timer.cut(period_us(frequency), now_ms);
                    }
                }
            }
        }
    }

    /// Returns the time from which updates of a scope may be sent; `None` if they may be sent now.
    pub(crate) fn wait_until_ms(
        &self,
        position: u32,
        scope: FrequencyScope<'_>,
        now_ms: u64,
    ) -> Option<u64> {
        let item = self.items.get(position as usize - 1)?;
        match scope {
            FrequencyScope::Item => item.timer.wait_until_ms(now_ms),
            FrequencyScope::Row(key) => item.rows.get(key)?.wait_until_ms(now_ms),
            FrequencyScope::Free => None,
        }
    }

    pub(crate) fn note_sent(&mut self, position: u32, scope: FrequencyScope<'_>, now_ms: u64) {
        let Some(period_us) = self.frequency.map(period_us) else {
            return;
        };
        let index = position as usize - 1;
        if self.items.len() <= index {
            self.items.resize_with(index + 1, ItemTimers::default);
        }
        let ItemTimers { timer, rows } = &mut self.items[index];
        match scope {
            FrequencyScope::Item => timer.note_sent(period_us, now_ms),
            FrequencyScope::Row(key) => {
                if rows.len() == rows.capacity() {
                    // Rows that are due again need no timer.
                    rows.retain(|_, timer| timer.wait_until_ms(now_ms).is_some());
                    // Reserve as many again, so that this is not repeated for a few rows.
                    rows.reserve(rows.len() + 1);
                }
                let timer = rows.entry(Arc::clone(key)).or_default();
                timer.note_sent(period_us, now_ms);
            }
            FrequencyScope::Free => {}
        }
    }
}

/// Times, in event loop milliseconds, at which sessions may continue to send.
#[derive(Debug, Default)]
pub(crate) struct SessionTimers {
    due: BinaryHeap<Reverse<(u64, u64)>>,
    /// Time of the event loop timer that is set; 0 if none is.
    armed_ms: u64,
}

impl SessionTimers {
    pub(crate) fn set(&mut self, session: SessionKey, at_ms: u64) {
        self.due.push(Reverse((at_ms, session.to_bits())));
    }

    /// Returns the time for which an event loop timer must be set, if the current one is not early
    /// enough.
    pub(crate) fn arm(&mut self) -> Option<u64> {
        let Reverse((at_ms, _)) = self.due.peek()?;
        let is_armed = self.armed_ms > 0 && self.armed_ms <= *at_ms;
        if is_armed {
            return None;
        }
        self.armed_ms = (*at_ms).max(1);
        Some(*at_ms)
    }

    pub(crate) fn on_fired(&mut self) {
        self.armed_ms = 0;
    }

    /// Removes and returns a session that may continue to send at `now_ms`.
    pub(crate) fn next(&mut self, now_ms: u64) -> Option<SessionKey> {
        let Reverse((at_ms, session)) = *self.due.peek()?;
        (at_ms <= now_ms).then(|| {
            self.due.pop();
            SessionKey::from_bits(session)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_earliest_time_arms_the_timer() {
        let key = |index| SessionKey { index, serial: 1 };
        let mut session_timers = SessionTimers::default();
        assert_eq!(session_timers.arm(), None);
        session_timers.set(key(1), 500);
        assert_eq!(
            (session_timers.arm(), session_timers.arm()),
            (Some(500), None)
        );
        session_timers.set(key(2), 300);
        session_timers.set(key(3), 400);
        assert_eq!(
            (session_timers.arm(), session_timers.arm()),
            (Some(300), None)
        );
        session_timers.on_fired();
        assert_eq!(session_timers.next(299), None);
        assert_eq!(session_timers.next(450), Some(key(2)));
        assert_eq!(session_timers.next(450), Some(key(3)));
        assert_eq!(session_timers.next(450), None);
        assert_eq!(session_timers.arm(), Some(500));
    }

    #[test]
    fn rows_have_separate_timers_which_expire() {
        let mut limit = FrequencyLimit {
            frequency: Some(2.0),
            ..FrequencyLimit::default()
        };
        let (a, b): (Arc<str>, Arc<str>) = ("a".into(), "b".into());
        limit.note_sent(3, FrequencyScope::Row(&a), 1_000);
        assert_eq!(
            limit.wait_until_ms(3, FrequencyScope::Row(&a), 1_100),
            Some(1_500)
        );
        assert_eq!(limit.wait_until_ms(3, FrequencyScope::Row(&b), 1_100), None);
        assert_eq!(limit.wait_until_ms(2, FrequencyScope::Row(&a), 1_100), None);
        assert_eq!(limit.wait_until_ms(3, FrequencyScope::Free, 1_100), None);
        limit.set_frequency(Some(10.0), 1_100);
        assert_eq!(
            limit.wait_until_ms(3, FrequencyScope::Row(&a), 1_100),
            Some(1_200)
        );
        for number in 0..10_000u64 {
            let key: Arc<str> = number.to_string().into();
            limit.note_sent(1, FrequencyScope::Row(&key), 2_000 + number);
        }
        assert!(
            limit.items[0].rows.len() <= 500,
            "100 ms of 1000 rows per second, plus spare capacity"
        );
        limit.set_frequency(None, 20_000);
        assert_eq!(limit.wait_until_ms(1, FrequencyScope::Item, 1_000), None);
    }
}
