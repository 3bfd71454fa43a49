//! The drain. When the gateway shuts down, it ends sessions over a period, so that other
//! gateways do not receive all clients at once.

use weir_fanout::SessionKey;

#[derive(Debug)]
pub(super) struct DrainSchedule {
    pub(super) keys: Vec<SessionKey>,
    pub(super) total: usize,
    pub(super) began_ms: u64,
    pub(super) spread_ms: u64,
}

impl DrainSchedule {
    pub(super) fn is_over(&self) -> bool {
        self.keys.is_empty()
    }

    /// Returns the number of sessions that must have ended by `now_ms`: the first at once, the last
    /// before the end of the period.
    pub(super) fn due_count(&self, now_ms: u64) -> usize {
        let elapsed_ms = now_ms.saturating_sub(self.began_ms);
        if elapsed_ms >= self.spread_ms {
            return self.total;
        }
        let share = self.total as u64 * elapsed_ms / self.spread_ms;
        (share as usize + 1).min(self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn session_ends_are_spread_evenly() {
        let drain = |total, spread_ms| DrainSchedule {
            keys: Vec::new(),
            total,
            began_ms: 1_000,
            spread_ms,
        };
        let due = |drain: &DrainSchedule, after_ms: u64| drain.due_count(1_000 + after_ms);
        let many = drain(1_000, 2_000);
        for (after_ms, ended) in [
            (0, 1),
            (500, 251),
            (1_000, 501),
            (1_999, 1_000),
            (9_000, 1_000),
        ] {
            assert_eq!(due(&many, after_ms), ended);
        }
        assert_eq!(due(&drain(1_000, 0), 0), 1_000);
        assert_eq!(due(&drain(0, 2_000), 0), 0);
        assert_eq!(
            (due(&drain(2, 2_000), 0), due(&drain(2, 2_000), 1_000)),
            (1, 2)
        );
    }
}
