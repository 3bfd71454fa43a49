//! Steps of the drain of a shard.

use weir_net::server::ServerIo;
use weir_tlcp::codes::SessionCode;

use super::drain::DrainSchedule;
use super::keys::{DRAIN_OVER, DRAIN_STEP};
use super::state::Shard;
use super::wire::Wire;

/// Time between two steps in milliseconds.
const STEP_MS: u64 = 20;

impl Shard {
    pub(super) fn is_draining(&self) -> bool {
        self.drain.is_some()
    }

    /// Starts the drain: stops accepting connections, and stops the event loop after both times.
    pub(super) fn drain(&mut self, io: &mut ServerIo, spread_ms: u64, within_ms: u64) {
        io.stop_accepting();
        io.set_timer(io.now_ms() + spread_ms + within_ms, DRAIN_OVER);
        self.begin_drain(io, spread_ms);
    }

    pub(super) fn begin_drain(&mut self, wire: &mut impl Wire, spread_ms: u64) {
        let keys = self.sessions.keys();
        self.drain = Some(DrainSchedule {
            total: keys.len(),
            keys,
            began_ms: wire.now_ms(),
            spread_ms,
        });
        self.drain_step(wire);
    }

    /// Ends the sessions that are due.
    pub(super) fn drain_step(&mut self, wire: &mut impl Wire) {
        let now_ms = wire.now_ms();
        let Some(drain) = &mut self.drain else {
            return;
        };
        let left = drain.total - drain.due_count(now_ms);
        let from = left.min(drain.keys.len());
        let due = drain.keys.split_off(from);
        if !drain.keys.is_empty() {
            wire.set_timer(now_ms + STEP_MS, DRAIN_STEP);
        }
        for key in due {
            // On code 48, SDKs reconnect at once, to the gateway that the load balancer selects.
            let text = "the gateway is shutting down";
            self.end_session(wire, key, SessionCode::EXPIRED, text, false);
        }
    }
}
