//! A token bucket for rate limits with bursts.

/// A bucket with a capacity of two seconds' tokens, at least ten, so that a page with several
/// widgets can connect at once.
#[derive(Debug, Clone, Copy)]
pub struct RateBucket {
    tokens: f32,
    at_ms: u64,
}

fn capacity(rate: f32) -> f32 {
    (2.0 * rate).max(10.0)
}

impl RateBucket {
    /// Creates a full bucket for `rate` tokens per second.
    pub fn full(rate: f32, now_ms: u64) -> Self {
        Self {
            tokens: capacity(rate),
            at_ms: now_ms,
        }
    }

    /// Takes one token; returns `false` if there is none. Time never goes backwards here, because
    /// the clocks of callers may differ slightly.
    pub fn take(&mut self, rate: f32, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        self.at_ms = self.at_ms.max(now_ms);
        self.tokens = (self.tokens + passed_ms as f32 / 1000.0 * rate).min(capacity(rate));
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }

    /// Returns `true` if the bucket is as a new one.
    pub fn is_full(&self, rate: f32, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        self.tokens + passed_ms as f32 / 1000.0 * rate >= capacity(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_then_rate() {
        let mut bucket = RateBucket::full(2.0, 0);
        let taken =
            |bucket: &mut RateBucket, now_ms| (0..100).filter(|_| bucket.take(2.0, now_ms)).count();
        assert_eq!(taken(&mut bucket, 0), 10);
        assert_eq!(taken(&mut bucket, 1_000), 2);
        assert_eq!(taken(&mut bucket, 500), 0, "an earlier time adds no tokens");
        assert_eq!(taken(&mut bucket, 1_000_000), 10);
        let mut fast = RateBucket::full(50.0, 0);
        assert_eq!((0..1_000).filter(|_| fast.take(50.0, 0)).count(), 100);
    }
}
