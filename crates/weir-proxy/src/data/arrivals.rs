//! Arrivals: connections that begin with a PROXY header, or with a server name at an address that
//! clusters share. They become connection pairs when these bytes are complete.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::event::Event;
use mio::net::TcpStream;
use weir_net::event_loop::ConnId;
use weir_net::limited;
use weir_net::log::Truncated;
use weir_net::stream::{HandshakeAlert, Preface, PrefaceError};

use super::admission::Admitted;
use super::arrival::{Arrival, ArrivalError, FIRST};
use super::events::{ListenerKey, ListenerTarget, LoopTimer};
use super::loop_state::LoopState;
use super::pair::{ConnectionPair, FIRST_REQUEST_MS};
use super::proxy_loop::ProxyLoop;
use crate::virtual_cluster::VirtualCluster;

impl LoopState {
    /// Reads the first bytes, and counts the client as soon as its address is known. Returns `true`
    /// if they are complete.
    fn read_arrival(&mut self, arrival: &mut Arrival) -> Result<bool, ArrivalError> {
        let outcome = arrival.preface.read(&mut self.buffer);
        if let (None, Some(header)) = (arrival.client, arrival.preface.header()) {
            self.counters.proxy_headers += 1;
            let client = header.addresses.map_or(arrival.peer, |(client, _)| client);
            let admission = &self.shared.admission;
            let admitted = admission.identify(arrival.admitted, client.ip());
            arrival.admitted = admitted.ok_or(ArrivalError::Limit)?;
            arrival.client = Some(client);
        }
        outcome.map_err(ArrivalError::Preface)
    }

    /// Counts and logs an arrival that ends.
    fn record_arrival(&mut self, arrival: &Arrival, error: &ArrivalError) {
        let (counters, client, peer) = (&mut self.counters, arrival.client(), arrival.peer);
        let text = "first bytes of a connection rejected, connection closed";
        match error {
            ArrivalError::Timeout => {
                counters.timeouts += 1;
                limited!(debug, "arrival timed out", %client, %peer, "connection closed");
            }
            ArrivalError::Limit => {
                counters.rejected += 1;
                limited!(debug, "arrival over limit", %client, %peer, "connection closed");
            }
            ArrivalError::Preface(PrefaceError::Closed | PrefaceError::Socket(_)) => {
                limited!(debug, "arrival closed", %client, %peer, "connection closed");
            }
            ArrivalError::Preface(error @ PrefaceError::Header(_)) => {
                counters.proxy_headers_rejected += 1;
                limited!(warn, "PROXY header rejected", %peer, %error, "{text}");
            }
            ArrivalError::Preface(error) => {
                counters.tls_failures += 1;
                let error = Truncated(error);
                limited!(debug, "TLS hello rejected", %client, %peer, %error, "{text}");
            }
        }
    }
}

impl ProxyLoop {
    /// Waits for the first bytes of a connection.
    pub(super) fn begin_arrival(
        &mut self,
        mut socket: TcpStream,
        (peer, admitted): (SocketAddr, Admitted),
        (listener, needs_header): (ListenerKey, bool),
    ) -> io::Result<()> {
        let id = self.arrivals.next_id();
        let core = &mut self.state.core;
        core.register(&mut socket, FIRST + id.index())?;
        let since_ms = core.now_ms();
        let timeout_ms = self.state.generation.limits.handshake_timeout_ms;
        core.set_timer(since_ms + timeout_ms, LoopTimer::Arrival(id));
        let needs_hello = matches!(listener, ListenerKey::Names(_));
        self.arrivals.insert(Arrival {
            preface: Preface::new(socket, needs_header, needs_hello),
            peer,
            client: (!needs_header).then_some(peer),
            admitted,
            listener,
            since_ms,
        });
        Ok(())
    }

    pub(super) fn on_arrival_event(&mut self, position: usize, event: &Event) {
        let Some((id, arrival)) = self.arrivals.at(position) else {
            return;
        };
        match self.state.read_arrival(arrival) {
            Ok(true) => self.open_arrival(id),
            Ok(false) if event.is_read_closed() || event.is_error() => {
                self.end_arrival(id, &ArrivalError::Preface(PrefaceError::Closed));
            }
            Ok(false) => {}
            Err(error) => self.end_arrival(id, &error),
        }
    }

    pub(super) fn on_arrival_timer(&mut self, id: ConnId) {
        self.end_arrival(id, &ArrivalError::Timeout);
    }

    /// Closes the arrivals that have had the time for a first request. None has sent one.
    pub(super) fn drain_arrivals(&mut self) {
        let now_ms = self.state.now_ms();
        let all: Vec<_> = self
            .arrivals
            .iter()
            .map(|(id, one)| (id, one.since_ms))
            .collect();
        for (id, since_ms) in all {
            let until_ms = since_ms + FIRST_REQUEST_MS;
            if until_ms <= now_ms {
                self.end_arrival(id, &ArrivalError::Preface(PrefaceError::Closed));
            } else {
                self.state.core.set_timer(until_ms, LoopTimer::Arrival(id));
            }
        }
    }

    fn end_arrival(&mut self, id: ConnId, error: &ArrivalError) {
        if let Some(arrival) = self.arrivals.remove(id) {
            self.state.record_arrival(&arrival, error);
            self.leave(&arrival);
        }
    }

    /// Ends the reservation of a connection that has not become a pair.
    fn leave(&mut self, arrival: &Arrival) {
        self.state.counters.connections -= 1;
        let client = arrival.client().ip();
        self.state.shared.admission.leave(client, arrival.admitted);
    }

    /// Continues as a connection pair, if its cluster is known.
    fn open_arrival(&mut self, id: ConnId) {
        let Some(arrival) = self.arrivals.remove(id) else {
            return;
        };
        let found = self.destination(&arrival);
        let (cluster, target) = match found {
            Ok(found) => found,
            Err(alert) => {
                self.leave(&arrival);
                self.state.counters.names_rejected += 1;
                let (client, name) = (arrival.client(), arrival.preface.server_name());
                let text = "server name not known, connection closed";
                limited!(warn, "server name rejected", %client, server_name = name, "{text}");
                return arrival.preface.reject(alert);
            }
        };
        let client = arrival.client();
        let (admitted, since_ms) = (arrival.admitted, arrival.since_ms);
        match self.open_stream(arrival, cluster, target) {
            Ok(pair) => {
                let id = pair.id;
                self.open(pair);
                self.forward(id);
            }
            Err(error) => {
                self.state.counters.connections -= 1;
                self.state.counters.tls_failures += 1;
                self.state.shared.admission.leave(client.ip(), admitted);
                let age_ms = self.state.now_ms() - since_ms;
                limited!(debug, "arrival failed", %client, age_ms, %error, "connection closed");
            }
        }
    }

    fn destination(
        &self,
        arrival: &Arrival,
    ) -> Result<(Arc<VirtualCluster>, ListenerTarget), HandshakeAlert> {
        let generation = &self.state.generation;
        match arrival.listener {
            ListenerKey::Names(address) => generation.named(address, arrival.preface.server_name()),
            ListenerKey::Target(cluster, target) => {
                // A reload may have removed it.
                let cluster = generation.cluster(cluster).cloned();
                Ok((cluster.ok_or(HandshakeAlert::UnknownName)?, target))
            }
        }
    }

    fn open_stream(
        &mut self,
        mut arrival: Arrival,
        cluster: Arc<VirtualCluster>,
        target: ListenerTarget,
    ) -> io::Result<ConnectionPair> {
        let (client, origin) = (arrival.client(), arrival.origin());
        let id = self.pairs.next_id();
        let core = &self.state.core;
        core.reregister(arrival.preface.socket(), id.index() * 2)?;
        let tls = cluster.config.certificate(arrival.preface.server_name());
        let stream = arrival.preface.into_stream(tls, &mut self.state.tls)?;
        let opened = (stream, arrival.admitted);
        let since_ms = arrival.since_ms;
        let mut pair = ConnectionPair::new(id, cluster, target, client, since_ms, opened);
        pair.by_name = matches!(arrival.listener, ListenerKey::Names(_));
        pair.origin = Some(Box::new(origin));
        Ok(pair)
    }
}
