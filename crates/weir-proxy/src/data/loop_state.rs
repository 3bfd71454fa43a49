//! The state of an event loop except its pairs. Other files implement its methods by topic.

use std::io;
use std::sync::Arc;

use crossbeam_channel::Sender;
use weir_net::MailboxSender;
use weir_net::event_loop::LoopCore;
use weir_net::stream::TlsBuffers;

use super::admission::Admission;
use super::events::{ListenerKey, LoopEvent, LoopTimer};
use super::generation::{CurrentGeneration, Generation};
use super::iteration::IterationLimits;
use super::memory::Memory;
use super::pair::ConnectionPair;
use super::pipe::PipePool;
use crate::address_cache::AddressCache;
use crate::connection_counters::CloseCause;
use crate::counters::LoopCounters;
use crate::resolve::ResolveRequest;
use crate::wire::{Segments, StreamError};
use weir_filters::{FilterBuffers, FilterCounts};

/// The state that all loops share.
#[derive(Debug)]
pub(crate) struct LoopShared {
    /// Splices large bodies inside the kernel.
    pub(crate) splice: bool,
    pub(crate) admission: Admission,
    pub(crate) resolver: Sender<ResolveRequest>,
    pub(crate) memory: Arc<Memory>,
    pub(crate) current: Arc<CurrentGeneration>,
}

#[derive(Debug)]
pub(super) enum PairCloseReason {
    /// A close by one side, forwarded to the other.
    Closed,
    /// Shutdown of the proxy without in-flight requests.
    Drained,
    /// No traffic or no progress for too long.
    Timeout(&'static str),
    /// Invalid bytes from either side.
    Stream(StreamError),
    /// No reachable broker.
    NoBroker(String),
    /// A broker that responds neither to the client nor to the health probe.
    BrokerUnresponsive,
    /// A failure of the client's socket or TLS.
    Client(io::Error),
    /// A failure of the broker's socket or TLS.
    Broker(io::Error),
}

impl PairCloseReason {
    /// Returns the cause to count; `is_leaving`: a reload ends the connection.
    pub(super) fn cause(&self, is_leaving: bool) -> CloseCause {
        match self {
            Self::Closed | Self::Drained if is_leaving => CloseCause::Reload,
            Self::Closed => CloseCause::Peer,
            Self::Drained => CloseCause::Drain,
            Self::Timeout(_) => CloseCause::Timeout,
            Self::Stream(_) => CloseCause::Protocol,
            Self::NoBroker(_) => CloseCause::NoBroker,
            Self::BrokerUnresponsive => CloseCause::SilentBroker,
            Self::Client(_) => CloseCause::Client,
            Self::Broker(_) => CloseCause::Broker,
        }
    }
}

impl From<StreamError> for PairCloseReason {
    fn from(error: StreamError) -> Self {
        Self::Stream(error)
    }
}

/// The kit of the loop.
pub(super) type ProxyCore = LoopCore<LoopTimer, ListenerKey>;

#[derive(Debug)]
pub(super) struct LoopState {
    pub(super) core: ProxyCore,
    pub(super) tls: TlsBuffers,
    pub(super) shared: Arc<LoopShared>,
    pub(super) generation: Arc<Generation>,
    /// Addresses that clients see, by index of the cluster.
    pub(super) addresses: Vec<AddressCache>,
    pub(super) counters: LoopCounters,
    pub(super) filter_counts: FilterCounts,
    pub(super) buffer: Vec<u8>,
    pub(super) segments: Segments,
    pub(super) filter_buffers: FilterBuffers,
    pub(super) pipes: PipePool,
    /// Number of connections to bootstrap listeners, to use the configured brokers in rotation.
    pub(super) next_broker: usize,
    /// Limits on each pair in this iteration.
    pub(super) iteration_limits: IterationLimits,
    /// Request count of the current pair at which its share of the iteration ends.
    pub(super) requests_until: u64,
    pub(super) draining: bool,
    pub(super) sender: MailboxSender<LoopEvent>,
}

impl LoopState {
    pub(super) fn now_ms(&self) -> u64 {
        self.core.now_ms()
    }

    /// Sets the pair's timer to `at_ms` unless it fires earlier.
    pub(super) fn arm(&mut self, pair: &mut ConnectionPair, at_ms: u64) {
        if at_ms < pair.armed_ms {
            pair.armed_ms = at_ms;
            self.core.set_timer(at_ms, LoopTimer::Pair(pair.id));
        }
    }
}
