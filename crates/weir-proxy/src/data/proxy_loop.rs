//! The handler of an event loop. Other files implement its methods by topic.

use std::sync::Arc;

use weir_net::event_loop::Connections;

use super::arrival::Arrival;
use super::events::PairId;
use super::loop_state::LoopState;
use super::pair::ConnectionPair;
use crate::counters::LoopMetrics;

#[derive(Debug)]
pub(crate) struct ProxyLoop {
    pub(super) state: LoopState,
    pub(super) pairs: Connections<ConnectionPair>,
    pub(super) arrivals: Connections<Arrival>,
    pub(super) ready_pairs: Vec<PairId>,
    pub(super) metrics: Arc<LoopMetrics>,
    pub(super) buffered_at_ms: u64,
    /// Partitions so far for which a limit on filter work was reached.
    pub(super) limited: u64,
}
