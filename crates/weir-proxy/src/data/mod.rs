//! The event loops: each owns its listeners and pairs of connections, and shares nothing on the way of
//! a frame.

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

/// What a listener stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ListenerTarget {
    /// Any broker.
    Bootstrap,
    /// The broker of that number.
    Broker(i32),
}

/// One pair of connections, told apart from one that had its place before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PairId {
    pub(crate) index: usize,
    pub(crate) generation: u32,
}

/// What other threads tell an event loop.
#[derive(Debug)]
pub(crate) enum LoopEvent {
    /// Accept connections of a cluster at this socket, too.
    Listen(usize, ListenerTarget, TcpListener),
    /// No longer accept connections of a cluster for a target.
    Unlisten(usize, ListenerTarget),
    /// Where the broker is that a pair wants to connect to; none if nobody knows.
    Resolved(PairId, Vec<Candidate>),
    /// The filters of a frame have done their work.
    Filtered(Box<Finished>),
    /// A broker of a cluster has not answered the probe for long.
    Silent(usize, HostPort),
    /// Tell of all connections, at most so many.
    List(usize, crossbeam_channel::Sender<Vec<ConnectionInfo>>),
    /// Accept nothing more; end every connection as soon as its requests are answered.
    Drain,
    /// End.
    Stop,
}
