//! A token bucket: so many a second, and some at once.

/// Holds what comes in two seconds, ten at least, so that a page with some widgets may open them at
/// once.
#[derive(Debug, Clone, Copy)]
pub(super) struct RateBucket {
    tokens: f32,
    at_ms: u64,
}

fn capacity(rate: f32) -> f32 {
    (2.0 * rate).max(10.0)
}

impl RateBucket {
    pub(super) fn full(rate: f32, now_ms: u64) -> Self {
        Self {
            tokens: capacity(rate),
            at_ms: now_ms,
        }
    }

    /// Takes one; false when there is none. Clocks of different callers may differ a little, so time
    /// does not go back here.
    pub(super) fn take(&mut self, rate: f32, now_ms: u64) -> bool {
        let passed_ms = now_ms.saturating_sub(self.at_ms);
        self.at_ms = self.at_ms.max(now_ms);
        self.tokens = (self.tokens + passed_ms as f32 / 1000.0 * rate).min(capacity(rate));
        let allowed = self.tokens >= 1.0;
        if allowed {
            self.tokens -= 1.0;
        }
        allowed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_at_once_then_the_rate() {
        let mut bucket = RateBucket::full(2.0, 0);
        let taken =
            |bucket: &mut RateBucket, now_ms| (0..100).filter(|_| bucket.take(2.0, now_ms)).count();
        assert_eq!(taken(&mut bucket, 0), 10);
        assert_eq!(taken(&mut bucket, 1_000), 2);
        assert_eq!(taken(&mut bucket, 500), 0, "a late clock brings nothing");
        assert_eq!(taken(&mut bucket, 1_000_000), 10);
        let mut fast = RateBucket::full(50.0, 0);
        assert_eq!((0..1_000).filter(|_| fast.take(50.0, 0)).count(), 100);
    }
}
