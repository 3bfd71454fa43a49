//! The end of an event loop at shutdown: each connection ends as soon as no request is in flight.

use super::loop_state::LoopState;
use super::pair::ConnectionPair;
use super::proxy_loop::ProxyLoop;

impl ProxyLoop {
    /// Closes the listeners, and each connection as soon as its in-flight requests are complete.
    /// New connections get a response to their first request.
    pub(super) fn drain(&mut self) {
        self.state.draining = true;
        self.state.core.listeners.retain(|_| false);
        self.drain_arrivals();
        let now_ms = self.state.now_ms();
        let all: Vec<_> = self.pairs.iter().map(|(id, _)| id).collect();
        for id in all {
            if let Some(pair) = self.pairs.get_mut(id).filter(|pair| pair.is_new(now_ms)) {
                self.state.arm(pair, pair.new_until_ms());
            }
            self.forward(id);
        }
    }
}

impl LoopState {
    /// Returns `true` if a connection ends as soon as its in-flight requests are complete.
    pub(super) fn ends(&self, pair: &ConnectionPair) -> bool {
        pair.leaving || self.draining && !pair.is_new(self.now_ms())
    }
}
