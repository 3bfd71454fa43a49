//! Rate limits: a token bucket for the bandwidth of a session, a timer for the frequency of an
//! item. Callers pass the current time.

/// Seconds of unused bandwidth that a session may accumulate.
const BURST_S: f64 = 0.25;
/// Maximum delay of a timer, in microseconds, that does not postpone the next update.
const SLACK_US: u64 = 20_000;
/// Maximum wait of any limit, one year, so that sums never overflow.
const WAIT_MAX_MS: f64 = 31_536_000_000.0;

/// Bandwidth limit of one session. In any period it allows the rate, a quarter of a second of
/// unused bandwidth, and the remainder of one frame.
#[derive(Clone, Debug)]
pub struct TokenBucket {
    bytes_per_ms: f64,
    /// Bytes that may be sent; below 0 after a frame that exceeded the balance.
    balance: f64,
    at_ms: u64,
}

impl TokenBucket {
    /// Creates a full bucket for `kbps` (1000 bits per second, above 0).
    pub fn new(kbps: f64, now_ms: u64) -> Self {
        let bytes_per_ms = kbps / 8.0;
        Self {
            bytes_per_ms,
            balance: burst(bytes_per_ms),
            at_ms: now_ms,
        }
    }

    /// Changes the rate.
    pub fn set_rate(&mut self, kbps: f64, now_ms: u64) {
        self.refill(now_ms);
        self.bytes_per_ms = kbps / 8.0;
        self.balance = self.balance.min(burst(self.bytes_per_ms));
    }

    /// Returns `None` if data may be sent now, else the time from which it may, in milliseconds.
    pub fn wait_until_ms(&mut self, now_ms: u64) -> Option<u64> {
        self.refill(now_ms);
        if self.balance > 0.0 {
            return None;
        }
        let wait_ms = (-self.balance / self.bytes_per_ms).min(WAIT_MAX_MS);
        Some(now_ms.saturating_add(wait_ms as u64 + 1))
    }

    /// Notes that `bytes` were sent.
    pub fn spend(&mut self, bytes: usize, now_ms: u64) {
        self.refill(now_ms);
        self.balance -= bytes as f64;
    }

    fn refill(&mut self, now_ms: u64) {
        let passed_ms = now_ms.saturating_sub(self.at_ms) as f64;
        self.at_ms = self.at_ms.max(now_ms);
        let limit = burst(self.bytes_per_ms);
        self.balance = (self.balance + passed_ms * self.bytes_per_ms).min(limit);
    }
}

fn burst(bytes_per_ms: f64) -> f64 {
    bytes_per_ms * 1_000.0 * BURST_S
}

/// Returns the microseconds between two updates at `per_second` (above 0).
pub fn period_us(per_second: f64) -> u64 {
    (1_000_000.0 / per_second).min(WAIT_MAX_MS * 1_000.0).ceil() as u64
}

/// Earliest time of the next update of an item or of one of its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FrequencyTimer {
    next_us: u64,
}

impl FrequencyTimer {
    /// Returns `None` if an update may be sent now, else the time from which it may, in
    /// milliseconds.
    pub fn wait_until_ms(&self, now_ms: u64) -> Option<u64> {
        let next_ms = self.next_us.div_ceil(1_000);
        (next_ms > now_ms).then_some(next_ms)
    }

    /// Notes that an update was sent. The next one is due one period after this one *was due*, so
    /// that timer delays do not accumulate; after a pause, one period from now.
    pub fn note_sent(&mut self, period_us: u64, now_ms: u64) {
        let now_us = now_ms.saturating_mul(1_000);
        let is_late = now_us > self.next_us.saturating_add(SLACK_US);
        let from_us = if is_late { now_us } else { self.next_us };
        self.next_us = from_us.saturating_add(period_us);
    }

    /// Shortens the wait to one period from now at most. Call it when the period became shorter.
    pub fn cut(&mut self, period_us: u64, now_ms: u64) {
        let limit = now_ms.saturating_mul(1_000).saturating_add(period_us);
        self.next_us = self.next_us.min(limit);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn token_bucket_enforces_rate() {
        // 80 kbps are 10 bytes per millisecond; the burst is 2500 bytes.
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
            "unused bandwidth is limited to the burst"
        );
    }

    #[test]
    fn tiny_rates_do_not_overflow() {
        let mut bucket = TokenBucket::new(1e-300, 5);
        bucket.spend(1, 5);
        assert!(bucket.wait_until_ms(5).is_some());
        let mut timer = FrequencyTimer::default();
        timer.note_sent(period_us(1e-300), 5);
        assert!(timer.wait_until_ms(u64::MAX / 2_000).is_none());
        assert!(timer.wait_until_ms(6).is_some());
    }

    #[test]
    fn late_timers_do_not_accumulate() {
        let period = period_us(10.0);
        let mut timer = FrequencyTimer::default();
        assert_eq!(timer.wait_until_ms(7_000), None);
        timer.note_sent(period, 7_000);
        assert_eq!(timer.wait_until_ms(7_099), Some(7_100));
        timer.note_sent(period, 7_112);
        assert_eq!(timer.wait_until_ms(7_112), Some(7_200));
        timer.note_sent(period, 7_900);
        assert_eq!(timer.wait_until_ms(7_900), Some(8_000));
        timer.note_sent(period_us(0.1), 8_000);
        assert_eq!(timer.wait_until_ms(8_000), Some(18_000));
        timer.cut(period, 8_050);
        assert_eq!(timer.wait_until_ms(8_050), Some(8_150));
    }

    proptest! {
        #[test]
        fn rates_hold_over_random_steps(
            steps in proptest::collection::vec((0u64..60, 1usize..900), 1..200),
        ) {
            let (mut bucket, mut timer) = (TokenBucket::new(40.0, 0), FrequencyTimer::default());
            let (mut now, mut sent, mut updates) = (0, 0usize, 0u64);
            for (passed, bytes) in steps {
                now += passed;
                if bucket.wait_until_ms(now).is_none() {
                    bucket.spend(bytes, now);
                    sent += bytes;
                }
                if timer.wait_until_ms(now).is_none() {
                    timer.note_sent(period_us(8.0), now);
                    updates += 1;
                }
            }
            prop_assert!(sent as f64 <= 1_250.0 + now as f64 * 5.0 + 900.0);
            prop_assert!(updates <= 1 + (now + 20) * 8 / 1_000 + 1);
        }
    }
}
