//! Connects to a broker when a client has sent its first request.

use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use std::os::fd::AsRawFd;
use weir_net::descriptors::client_limit;
use weir_net::proxy_header::ProxyHeader;
use weir_net::stream::{SocketStream, connect_result};
use weir_net::tls::ClientTls;

use super::ListenerTarget;
use super::arrival::Origin;
use super::events::Candidate;
use super::loop_state::{LoopState, PairCloseReason};
use super::pair::{ConnectionPair, Endpoint, Upstream};
use crate::config::HostPort;
use crate::resolve::ResolveRequest;

impl LoopState {
    /// Starts connecting a pair to a broker.
    pub(super) fn connect(&mut self, pair: &mut ConnectionPair) -> Result<(), PairCloseReason> {
        let cluster = &pair.cluster;
        let wanted: Vec<HostPort> = match pair.target {
            ListenerTarget::Broker(id) => {
                cluster.broker_registry.upstream(id).into_iter().collect()
            }
            ListenerTarget::Bootstrap => {
                let upstream = &cluster.config.upstream;
                let (late, early) = upstream.split_at(self.next_broker % upstream.len().max(1));
                let known = cluster.broker_registry.upstreams();
                let all = early.iter().chain(late).cloned().chain(known);
                let mut all: Vec<_> = all.collect();
                all.sort_by_key(|broker| cluster.health.is_unresponsive(broker));
                all
            }
        };
        self.next_broker = self.next_broker.wrapping_add(1);
        let numeric: Option<Vec<Candidate>> = wanted
            .iter()
            .map(|one| Some((one.numeric()?, Arc::clone(&one.host))))
            .collect();
        match numeric {
            Some(candidates) => self.try_next(pair, candidates),
            None => {
                let request = ResolveRequest {
                    pair: pair.id,
                    hosts: wanted,
                    reply: self.sender.clone(),
                };
                // Too many lookups are pending. The client will reconnect.
                if self.shared.resolver.try_send(request).is_err() {
                    let reason = "too many pending name lookups".to_owned();
                    return Err(PairCloseReason::NoBroker(reason));
                }
                let until_ms = self.now_ms() + self.generation.limits.connect_timeout_ms;
                pair.upstream = Upstream::Resolving(until_ms);
                self.arm(pair, until_ms);
                Ok(())
            }
        }
    }

    /// Starts connecting to the first address that accepts a connection attempt, and stores the
    /// others.
    pub(super) fn try_next(
        &mut self,
        pair: &mut ConnectionPair,
        candidates: Vec<Candidate>,
    ) -> Result<(), PairCloseReason> {
        self.drop_upstream(pair);
        let mut candidates = candidates.into_iter();
        let mut last = "address unknown".to_owned();
        while let Some((address, host)) = candidates.next() {
            match self.begin(pair, address, &host) {
                Ok(side) => {
                    let until_ms = self.now_ms() + self.generation.limits.connect_timeout_ms;
                    let rest = candidates.collect();
                    pair.broker = Some(address);
                    pair.broker_host = Some(host);
                    pair.upstream = Upstream::Connecting(Box::new(side), rest, until_ms);
                    self.counters.broker_connections += 1;
                    self.arm(pair, until_ms);
                    return Ok(());
                }
                Err(error) => last = format!("{address}: {error}"),
            }
        }
        Err(PairCloseReason::NoBroker(last))
    }

    fn begin(
        &mut self,
        pair: &ConnectionPair,
        address: SocketAddr,
        host: &str,
    ) -> io::Result<Endpoint> {
        let mut socket = TcpStream::connect(address)?;
        if socket.as_raw_fd() >= client_limit() {
            return Err(io::Error::other("no file descriptors left"));
        }
        self.core.register(&mut socket, pair.id.index() * 2 + 1)?;
        let own = pair.broker_session.as_ref().and_then(|one| one.tls());
        let tls = match own.or(pair.cluster.config.upstream_tls.as_ref()) {
            None => None,
            Some(tls) => {
                let authority = match host.contains(':') {
                    true => format!("[{host}]"),
                    false => host.to_owned(),
                };
                let name = ClientTls::server_name(&authority).map_err(io::Error::other)?;
                Some((tls, name))
            }
        };
        let mut side = Endpoint::new(SocketStream::connecting(socket, tls)?);
        side.readable = false;
        side.blocked = true;
        Ok(side)
    }

    /// Handles an event of a socket that is being connected.
    pub(super) fn connecting(&mut self, pair: &mut ConnectionPair) -> Result<(), PairCloseReason> {
        let Upstream::Connecting(side, rest, _) = &mut pair.upstream else {
            return Ok(());
        };
        let socket = side.stream.socket();
        match connect_result(socket) {
            Ok(false) => Ok(()),
            Ok(true) => {
                // Small requests must be sent at once. A socket that does not support the option
                // still works.
                let _ = socket.set_nodelay(true);
                if pair.cluster.config.sends_proxy_header {
                    send_header(socket, &pair.downstream, pair.peer, pair.origin.as_deref())
                        .map_err(PairCloseReason::Broker)?;
                }
                let Upstream::Connecting(mut side, ..) =
                    std::mem::replace(&mut pair.upstream, Upstream::None)
                else {
                    return Ok(());
                };
                side.readable = true;
                side.blocked = false;
                pair.broker_active_ms = self.now_ms();
                let until_ms = self.now_ms() + self.generation.limits.connect_timeout_ms;
                if !side.stream.is_plain() {
                    self.arm(pair, until_ms);
                }
                pair.upstream = Upstream::Open(side, until_ms);
                Ok(())
            }
            Err(error) => {
                let rest = std::mem::take(rest);
                if rest.is_empty() {
                    let broker = pair.broker.map_or_else(String::new, |it| it.to_string());
                    return Err(PairCloseReason::NoBroker(format!("{broker}: {error}")));
                }
                self.try_next(pair, rest)
            }
        }
    }

    pub(super) fn drop_upstream(&mut self, pair: &mut ConnectionPair) {
        if let Some(side) = pair.upstream.side() {
            self.core.deregister(side.stream.socket());
            self.counters.broker_connections -= 1;
        }
        pair.upstream = Upstream::None;
    }
}

/// Sends a PROXY header with the addresses of the client as first bytes to a broker.
fn send_header(
    broker: &mut TcpStream,
    downstream: &Endpoint,
    client: SocketAddr,
    origin: Option<&Origin>,
) -> io::Result<()> {
    let mut header = origin.map_or_else(ProxyHeader::default, |origin| origin.header.clone());
    let (_, server) = match header.addresses {
        Some(addresses) => addresses,
        None => (client, downstream.stream.local_address()?),
    };
    header.addresses = Some((client, server));
    // A new socket accepts a few hundred bytes, or has failed.
    broker.write_all(&header.to_version_2())
}
