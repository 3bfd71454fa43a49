//! How fast a client may be sent to: a token bucket for the bandwidth of a session, a schedule for
//! the frequency of an item. Time is an argument.

/// How much of a second's bytes an idle session saves up.
const BURST_SHARE: f64 = 0.25;
/// How late a timer may be without the next update being put off by it.
const SLACK_US: u64 = 20_000;
/// Longest time any limit asks to wait; a year, so that sums never overflow.
const WAIT_MAX_MS: f64 = 31_536_000_000.0;

/// The bandwidth of one session. Over any time it spends at most its rate, a quarter of a second
/// saved up, and the rest of one last frame.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    bytes_per_ms: f64,
    /// Bytes that may be spent; below 0 after a frame that was larger than what there was.
    balance: f64,
    at_ms: u64,
}

impl TokenBucket {
    /// A bucket for `kbps` (1000 bits per second, above 0), full at first.
    pub fn new(kbps: f64, now_ms: u64) -> Self {
        let bytes_per_ms = kbps / 8.0;
        Self {
            bytes_per_ms,
            balance: burst(bytes_per_ms),
            at_ms: now_ms,
        }
    }

    /// Goes on with another rate.
    pub fn set_rate(&mut self, kbps: f64, now_ms: u64) {
        self.refill(now_ms);
        self.bytes_per_ms = kbps / 8.0;
        self.balance = self.balance.min(burst(self.bytes_per_ms));
    }

    /// `None` if something may be sent now, else the instant at which it may.
    pub fn wait_until_ms(&mut self, now_ms: u64) -> Option<u64> {
        self.refill(now_ms);
        if self.balance > 0.0 {
            return None;
        }
        let wait_ms = (-self.balance / self.bytes_per_ms).min(WAIT_MAX_MS);
        Some(now_ms.saturating_add(wait_ms as u64 + 1))
    }

    /// Tells that so many bytes were sent.
    pub fn spend(&mut self, bytes: usize, now_ms: u64) {
        self.refill(now_ms);
        self.balance -= bytes as f64;
    }

    fn refill(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.at_ms) as f64;
        self.at_ms = self.at_ms.max(now_ms);
        let most = burst(self.bytes_per_ms);
        self.balance = (self.balance + passed_ms * self.bytes_per_ms).min(most);
    }
}

fn burst(bytes_per_ms: f64) -> f64 {
    bytes_per_ms * 1_000.0 * BURST_SHARE
}

/// Microseconds between two updates at `per_second` (above 0).
pub fn period_us(per_second: f64) -> u64 {
    (1_000_000.0 / per_second).min(WAIT_MAX_MS * 1_000.0).ceil() as u64
}

/// When an item, or a key of it, may be updated next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrequencyTimer {
    next_us: u64,
}

impl FrequencyTimer {
    /// `None` if an update may be sent now, else the instant at which it may.
    pub fn wait_until_ms(&self, now_ms: u64) -> Option<u64> {
        let next_ms = self.next_us.div_ceil(1_000);
        (next_ms > now_ms).then_some(next_ms)
    }

    /// Tells that an update was sent. The next is due a period after this one *was due*, so that late
    /// timers do not add up; after a pause a period from now.
    pub fn note_sent(&mut self, period_us: u64, now_ms: u64) {
        let now_us = now_ms.saturating_mul(1_000);
        let is_late = now_us > self.next_us.saturating_add(SLACK_US);
        let from_us = if is_late { now_us } else { self.next_us };
        self.next_us = from_us.saturating_add(period_us);
    }

    /// Puts the next update off no further than a period from now, after the period became shorter.
    pub fn cut(&mut self, period_us: u64, now_ms: u64) {
        let most = now_ms.saturating_mul(1_000).saturating_add(period_us);
        self.next_us = self.next_us.min(most);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bucket_keeps_its_rate() {
        // 80 kbps are 10 bytes per millisecond; 2500 are saved up.
        let mut bucket = TokenBucket::new(80.0, 1_000);
        assert_eq!(bucket.wait_until_ms(1_000), None);
        bucket.spend(3_000, 1_000);
        assert_eq!(bucket.wait_until_ms(1_000), Some(1_051));
        assert_eq!(bucket.wait_until_ms(1_050), Some(1_051));
        assert_eq!(bucket.wait_until_ms(1_051), None);
        bucket.spend(1_010, 1_051);
        bucket.set_rate(8.0, 1_051);
        assert_eq!(bucket.wait_until_ms(1_051), Some(2_052));
        assert_eq!(bucket.wait_until_ms(60_000), None);
        bucket.spend(251, 60_000);
        assert_eq!(
            bucket.wait_until_ms(60_000),
            Some(60_002),
            "no more than a burst is saved up"
        );
    }

    #[test]
    fn tiny_rates_do_not_overflow() {
        let mut bucket = TokenBucket::new(1e-300, 5);
        bucket.spend(1, 5);
        assert!(bucket.wait_until_ms(5).is_some());
        let mut pace = FrequencyTimer::default();
        pace.note_sent(period_us(1e-300), 5);
        assert!(pace.wait_until_ms(u64::MAX / 2_000).is_none());
        assert!(pace.wait_until_ms(6).is_some());
    }

    #[test]
    fn a_pace_forgives_late_timers_but_saves_nothing_up() {
        let period = period_us(10.0);
        let mut pace = FrequencyTimer::default();
        assert_eq!(pace.wait_until_ms(7_000), None);
        pace.note_sent(period, 7_000);
        assert_eq!(pace.wait_until_ms(7_099), Some(7_100));
        pace.note_sent(period, 7_112);
        assert_eq!(pace.wait_until_ms(7_112), Some(7_200));
        pace.note_sent(period, 7_900);
        assert_eq!(pace.wait_until_ms(7_900), Some(8_000));
        pace.note_sent(period_us(0.1), 8_000);
        assert_eq!(pace.wait_until_ms(8_000), Some(18_000));
        pace.cut(period, 8_050);
        assert_eq!(pace.wait_until_ms(8_050), Some(8_150));
    }

    proptest! {
        #[test]
        fn no_window_has_more_than_the_rate(
            steps in proptest::collection::vec((0u64..60, 1usize..900), 1..200),
        ) {
            let (mut bucket, mut pace) = (TokenBucket::new(40.0, 0), FrequencyTimer::default());
            let (mut now, mut sent, mut updates) = (0, 0usize, 0u64);
            for (passed, bytes) in steps {
                now += passed;
                if bucket.wait_until_ms(now).is_none() {
                    bucket.spend(bytes, now);
                    sent += bytes;
                }
                if pace.wait_until_ms(now).is_none() {
                    pace.note_sent(period_us(8.0), now);
                    updates += 1;
                }
            }
            prop_assert!(sent as f64 <= 1_250.0 + now as f64 * 5.0 + 900.0);
            prop_assert!(updates <= 1 + (now + 20) * 8 / 1_000 + 1);
        }
    }
}
