//! A connection whose first bytes decide about client, cluster or certificate.

use std::net::SocketAddr;

use weir_net::proxy_header::ProxyHeader;
use weir_net::stream::{Preface, PrefaceError};

use super::admission::Admitted;
use super::events::ListenerKey;

/// Token of the first arrival; tokens of pairs are lower, those of listeners higher.
pub(super) const FIRST: usize = usize::MAX / 4;

/// A connection of which the first bytes are expected.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) preface: Preface,
    /// Address of the socket.
    pub(super) peer: SocketAddr,
    /// Address of the client, once it is known.
    pub(super) client: Option<SocketAddr>,
    pub(super) admitted: Admitted,
    pub(super) listener: ListenerKey,
    pub(super) since_ms: u64,
}

/// Facts about a client from the first bytes of its connection.
#[derive(Debug)]
pub(super) struct Origin {
    /// The PROXY header, with the requested server name.
    pub(super) header: ProxyHeader,
    /// The load balancer that forwards the connection.
    pub(super) via: Option<SocketAddr>,
}

/// The reason why an arrival ends.
#[derive(Debug)]
pub(super) enum ArrivalError {
    Preface(PrefaceError),
    /// The client has as many connections as it may have.
    Limit,
    Timeout,
}

impl Arrival {
    pub(super) fn client(&self) -> SocketAddr {
        self.client.unwrap_or(self.peer)
    }

    /// Returns the facts about the client, if there are any.
    pub(super) fn origin(&self) -> Origin {
        let header = self.preface.header();
        let via = header.map(|_| self.peer);
        let mut header = header.cloned().unwrap_or_default();
        if let Some(name) = self.preface.server_name() {
            header.authority = Some(name.into());
        }
        Origin { header, via }
    }
}

/// Returns the position of an arrival with this token; `None` for a pair.
pub(super) fn position(token: usize) -> Option<usize> {
    token.checked_sub(FIRST)
}
