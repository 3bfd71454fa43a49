//! The time for the first message of WebSockets whose clients get JSON.

use std::collections::VecDeque;

use weir_net::server::ConnId;

use super::timers::LOGIN_TIMER;
use super::wire::Wire;

/// Time for the first message, in milliseconds.
const LOGIN_MS: u64 = 10_000;

/// WebSockets whose first message may be outstanding, by the end of their time. There is one entry
/// for each upgrade of the last [`LOGIN_MS`].
#[derive(Debug, Default)]
pub(super) struct ExpectedLogins(VecDeque<(u64, ConnId)>);

impl ExpectedLogins {
    /// Expects a message over a new WebSocket.
    pub(super) fn expect(&mut self, wire: &mut impl Wire, conn: ConnId) {
        let until_ms = wire.now_ms() + LOGIN_MS;
        if self.0.is_empty() {
            wire.set_timer(until_ms, LOGIN_TIMER);
        }
        self.0.push_back((until_ms, conn));
    }

    /// Returns the next WebSocket whose time is over, or sets the timer for the next one.
    pub(super) fn pop_due(&mut self, wire: &mut impl Wire) -> Option<ConnId> {
        let (until_ms, conn) = *self.0.front()?;
        if until_ms > wire.now_ms() {
            wire.set_timer(until_ms, LOGIN_TIMER);
            return None;
        }
        self.0.pop_front();
        Some(conn)
    }
}
