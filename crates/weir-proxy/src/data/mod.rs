//! The event loops. Each owns its listeners and connection pairs; forwarding a frame uses no state
//! shared between loops.

mod accept;
mod connect;
mod counters;
mod event_loop;
mod filter_pool;
mod forward;
mod holding;
mod memory;
mod pair;
mod pipe;
mod send_buffer;
mod splice;
mod stream;

use std::net::TcpListener;

pub(crate) use self::accept::Admission;
pub(crate) use self::counters::{LoopMetrics, METRICS, MetricKind};
pub(crate) use self::event_loop::{EventLoop, LoopCluster, LoopOptions};
pub(crate) use self::filter_pool::{FilterPool, Finished};
pub(crate) use self::memory::Memory;
pub(crate) use self::pair::Candidate;
pub use self::pair::ConnectionInfo;

use crate::config::HostPort;

/// The broker that the connections of a listener go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ListenerTarget {
    /// Any broker.
    Bootstrap,
    /// The broker with this node id.
    Broker(i32),
}

/// Identifies a connection pair. The generation distinguishes it from earlier pairs with the same
/// index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PairId {
    pub(crate) index: usize,
    pub(crate) generation: u32,
}

/// Events that other threads post to an event loop.
#[derive(Debug)]
pub(crate) enum LoopEvent {
    /// Accept connections for a target of a cluster at this socket.
    Listen(usize, ListenerTarget, TcpListener),
    /// Close the listener for a target of a cluster.
    Unlisten(usize, ListenerTarget),
    /// Candidate addresses for a pair's broker; none if the name cannot be resolved.
    Resolved(PairId, Vec<Candidate>),
    /// The filter work on a frame is done.
    Filtered(Box<Finished>),
    /// A broker of a cluster has not responded to probes for the response timeout.
    Unresponsive(usize, HostPort),
    /// List the connections, at most this many.
    List(usize, crossbeam_channel::Sender<Vec<ConnectionInfo>>),
    /// Close the listeners, and each connection as soon as its in-flight requests are complete.
    Drain,
    /// Stop.
    Stop,
}
