//! Events that other threads post to event loops, and the types in them.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use weir_net::event_loop::ConnId;
use weir_sasl::server::Check;
use weir_wire::WireError;

use super::closing::{ClosingByCluster, ClosingCounts};
use crate::broker_login::StepOutcome;
use crate::cluster_id::ClusterId;
use crate::config::HostPort;
use crate::login::CheckOutcome;
use crate::wire::ProduceHeader;
use weir_filters::{Direction, FilterCounts, FilterResult};

/// The broker that the connections of a listener go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ListenerTarget {
    /// Any broker.
    Bootstrap,
    /// The broker with this node id.
    Broker(i32),
}

impl ListenerTarget {
    /// Returns the node id of the broker; `None` for any broker.
    pub(crate) fn node_id(self) -> Option<i32> {
        match self {
            Self::Bootstrap => None,
            Self::Broker(id) => Some(id),
        }
    }
}

/// Identifies a listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListenerKey {
    /// The listener for a target of a cluster.
    Target(ClusterId, ListenerTarget),
    /// The listener for all clusters with server names at this configured address.
    Names(SocketAddr),
}

/// Purpose of a timer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum LoopTimer {
    Pair(PairId),
    Arrival(ConnId),
}

/// Identifies a connection pair.
pub(crate) use weir_net::event_loop::ConnId as PairId;

#[derive(Debug)]
pub(crate) enum LoopEvent {
    /// A new listening socket.
    Listen(ListenerKey, TcpListener),
    /// The end of a listener.
    Unlisten(ListenerKey),
    /// A request for copies of the listening sockets.
    CopyListeners(crossbeam_channel::Sender<std::io::Result<Vec<TcpListener>>>),
    /// Candidate addresses for a pair's broker; none if the name cannot be resolved.
    Resolved(PairId, Vec<Candidate>),
    /// A reload: the current generation is another one. The loop replies with the number of
    /// connections that have to end.
    Reload(crossbeam_channel::Sender<ClosingCounts>),
    /// A frame whose filter work is done.
    Filtered(Box<FinishedFrame>),
    /// A request for the numbers of connections that a switch to the candidate of the current
    /// generation would end.
    Preview(crossbeam_channel::Sender<ClosingByCluster>),
    /// The result of a check of credentials.
    LoginChecked(PairId, Check, CheckOutcome),
    /// The result of a step of a login at a broker.
    BrokerLogin(PairId, StepOutcome),
    /// A broker of a cluster that has not responded to probes for the response timeout.
    Unresponsive(ClusterId, HostPort),
    /// A request for a list of at most this many connections.
    List(usize, crossbeam_channel::Sender<Vec<ConnectionInfo>>),
    /// A request to close the listeners, and each connection as soon as its in-flight requests are
    /// complete.
    Drain,
    Stop,
}

/// A frame whose filter work is done.
#[derive(Debug)]
pub(crate) struct FinishedFrame {
    pub(super) pair: PairId,
    pub(super) direction: Direction,
    pub(super) request: Option<ProduceHeader>,
    pub(super) outcome: Result<(FilterResult, Vec<u8>), WireError>,
    pub(super) counts: FilterCounts,
}

/// An address to connect to, and the host name for certificate verification.
pub(crate) type Candidate = (SocketAddr, Arc<str>);

/// A connection pair in `/connections`.
#[derive(Debug, Clone, serde::Serialize)]
pub(crate) struct ConnectionInfo {
    pub(crate) cluster: String,
    pub(crate) client: String,
    /// Load balancer that forwards the connection with a PROXY header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) via: Option<String>,
    /// Server name that the client requested with TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_name: Option<String>,
    /// Verified common name of the client certificate that the load balancer reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) forwarded_common_name: Option<String>,
    /// Name and version of the client software, as sent by the client.
    pub(crate) software: Option<String>,
    /// Owner of the connection, if it has logged in at the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) principal: Option<String>,
    pub(crate) broker: Option<String>,
    /// Node id of the broker whose port the client uses; `None` for the bootstrap port.
    pub(crate) node_id: Option<i32>,
    /// `waiting` for a first request, `connecting` to a broker, or `open`.
    pub(crate) state: &'static str,
    pub(crate) age_ms: u64,
    /// Milliseconds since either side last sent bytes.
    pub(crate) idle_ms: u64,
    pub(crate) requests: u64,
    pub(crate) in_flight: usize,
    pub(crate) request_bytes: u64,
    pub(crate) response_bytes: u64,
    pub(crate) buffered_bytes: usize,
}
