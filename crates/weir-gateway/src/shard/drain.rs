//! The end of a gateway: sessions are told to start over elsewhere, spread over a time, so that the
//! others do not get all clients at once.

use weir_net::server::ServerIo;
use weir_tlcp::codes::SessionCode;

use super::session::SessionKey;
use super::wire::Wire;
use super::{DRAIN_OVER, DRAIN_STEP, Shard};

/// Time between two steps.
const STEP_MS: u64 = 20;

/// A drain on its way.
#[derive(Debug)]
pub(super) struct Drain {
    /// Sessions still to be ended.
    keys: Vec<SessionKey>,
    total: usize,
    began_ms: u64,
    spread_ms: u64,
}

impl Drain {
    /// How many sessions must have been ended by now: the first at once, the last before the end.
    fn due(&self, now_ms: u64) -> usize {
        let elapsed_ms = now_ms.saturating_sub(self.began_ms);
        if elapsed_ms >= self.spread_ms {
            return self.total;
        }
        let share = self.total as u64 * elapsed_ms / self.spread_ms;
        (share as usize + 1).min(self.total)
    }
}

impl Shard {
    pub(super) fn draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Begins: nobody is accepted any more, and what is left at the end of both times is cut off.
    pub(super) fn drain(&mut self, io: &mut ServerIo, spread_ms: u64, within_ms: u64) {
        io.stop_accepting();
        io.set_timer(io.now_ms() + spread_ms + within_ms, DRAIN_OVER);
        self.begin_drain(io, spread_ms);
    }

    pub(super) fn begin_drain(&mut self, wire: &mut impl Wire, spread_ms: u64) {
        let keys = self.sessions.keys();
        self.drain = Some(Drain {
            total: keys.len(),
            keys,
            began_ms: wire.now_ms(),
            spread_ms,
        });
        self.drain_step(wire);
    }

    /// Ends the sessions whose turn it is.
    pub(super) fn drain_step(&mut self, wire: &mut impl Wire) {
        let now_ms = wire.now_ms();
        let Some(drain) = &mut self.drain else {
            return;
        };
        let left = drain.total - drain.due(now_ms);
        let from = left.min(drain.keys.len());
        let due = drain.keys.split_off(from);
        if !drain.keys.is_empty() {
            wire.set_timer(now_ms + STEP_MS, DRAIN_STEP);
        }
        for key in due {
            // 48 makes SDKs come back at once, to whichever gateway the balancer offers.
            let text = "the gateway is shutting down";
            self.finish(wire, key, SessionCode::EXPIRED, text, false);
        }
    }

    /// Whether all sessions have been ended.
    pub(super) fn drained(&self) -> bool {
        self.drain
            .as_ref()
            .is_some_and(|drain| drain.keys.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_spread_evenly() {
        let drain = |total, spread_ms| Drain {
            keys: Vec::new(),
            total,
            began_ms: 1_000,
            spread_ms,
        };
        let due = |drain: &Drain, after_ms: u64| drain.due(1_000 + after_ms);
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
