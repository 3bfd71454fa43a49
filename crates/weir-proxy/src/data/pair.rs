//! A client's connection and the one to a broker that goes with it.

use std::net::SocketAddr;
use std::sync::Arc;

use super::holding::{DelayAction, SlowFrame};
use super::memory::Claim;
use super::pipe::SplicePipe;
use super::send_buffer::SendBuffer;
use super::stream::SocketStream;
use super::{ListenerTarget, PairId};
use crate::config::HostPort;
use crate::wire::{InFlightRequests, RequestStream, ResponseSource, ResponseStream};

/// One of the two connections.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) stream: SocketStream,
    /// Reading may bring something.
    pub(super) readable: bool,
    /// The peer is known to have closed, so reading goes on to the end.
    pub(super) hung_up: bool,
    /// Nothing more comes.
    pub(super) ended: bool,
    /// Nothing more is sent.
    pub(super) finished: bool,
    /// The socket did not take all; an event tells when it does.
    pub(super) blocked: bool,
    /// How often less is read at once, since this side does not keep up with taking it.
    pub(super) caution: u8,
}

impl Endpoint {
    pub(super) fn new(stream: SocketStream) -> Self {
        Self {
            stream,
            // An event may have come before anybody looked.
            readable: true,
            hung_up: false,
            ended: false,
            finished: false,
            blocked: false,
            caution: 0,
        }
    }

    pub(super) fn finish(&mut self) {
        if !self.finished {
            self.finished = true;
            self.stream.finish();
        }
    }

    /// Whether trying to write may help. TLS may wait for the peer's words rather than for room.
    pub(super) fn may_write(&self) -> bool {
        !self.blocked || !self.stream.is_plain()
    }
}

/// An address to try, and the name that a certificate would be for.
pub(crate) type Candidate = (SocketAddr, Arc<str>);

/// The way to the broker.
#[derive(Debug)]
pub(super) enum Upstream {
    /// Nobody has asked for anything yet.
    None,
    /// Names are looked up, until an instant at most.
    Resolving(u64),
    /// An address is tried, until an instant at most; others may follow.
    Connecting(Box<Endpoint>, Vec<Candidate>, u64),
    /// Connected; TLS may have until an instant.
    Open(Box<Endpoint>, u64),
}

impl Upstream {
    pub(super) fn side(&mut self) -> Option<&mut Endpoint> {
        match self {
            Self::Connecting(side, ..) | Self::Open(side, _) => Some(side),
            Self::None | Self::Resolving(_) => None,
        }
    }

    /// Whether it is open, and nothing stands between the bytes and the socket.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Open(side, _) if side.stream.is_plain())
    }

    pub(super) fn open(&mut self) -> Option<&mut Endpoint> {
        match self {
            Self::Open(side, _) => Some(side),
            _ => None,
        }
    }
}

/// Both connections and what is between them.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) id: PairId,
    pub(super) cluster: usize,
    pub(super) target: ListenerTarget,
    pub(super) peer: SocketAddr,
    pub(super) broker: Option<SocketAddr>,
    /// Name of the broker's host as it was looked up.
    pub(super) broker_host: Option<Arc<str>>,
    /// When the broker last sent a byte, or was connected.
    pub(super) answered_ms: u64,
    pub(super) since_ms: u64,
    /// When a byte last came from either side.
    pub(super) active_ms: u64,
    pub(super) down: Endpoint,
    pub(super) up: Upstream,
    pub(super) to_up: SendBuffer,
    pub(super) to_down: SendBuffer,
    /// What goes to the client before `to_down`, if anything.
    pub(super) tube: Option<SplicePipe>,
    pub(super) requests: RequestStream,
    pub(super) answers: ResponseStream,
    pub(super) ring: InFlightRequests,
    pub(super) software: Option<Box<str>>,
    /// Requests so far.
    pub(super) counted: u64,
    pub(super) request_bytes: u64,
    pub(super) answer_bytes: u64,
    /// A request that filters hold; the same of an answer.
    pub(super) held_up: Option<DelayAction>,
    pub(super) held_down: Option<DelayAction>,
    /// Memory for requests that are held whole; the same for answers.
    pub(super) memory_up: Option<Claim>,
    pub(super) memory_down: Option<Claim>,
    pub(super) slow_frame: Option<SlowFrame>,
    /// When it is closed, whatever is under way: one side has ended.
    pub(super) ends_ms: Option<u64>,
    /// When its timer is next due.
    pub(super) armed_ms: u64,
}

impl Pair {
    pub(super) fn new(
        id: PairId,
        cluster: usize,
        target: ListenerTarget,
        peer: SocketAddr,
        now_ms: u64,
        down: SocketStream,
    ) -> Self {
        Self {
            id,
            cluster,
            target,
            peer,
            broker: None,
            broker_host: None,
            answered_ms: now_ms,
            since_ms: now_ms,
            active_ms: now_ms,
            down: Endpoint::new(down),
            up: Upstream::None,
            to_up: SendBuffer::default(),
            to_down: SendBuffer::default(),
            tube: None,
            requests: RequestStream::default(),
            answers: ResponseStream::default(),
            ring: InFlightRequests::default(),
            software: None,
            counted: 0,
            request_bytes: 0,
            answer_bytes: 0,
            held_up: None,
            held_down: None,
            memory_up: None,
            memory_down: None,
            slow_frame: None,
            ends_ms: None,
            armed_ms: u64::MAX,
        }
    }

    /// Whether nothing is under way: no request without an answer, and nothing in part.
    pub(super) fn is_quiet(&self) -> bool {
        self.ring.is_empty()
            && self.answers.is_between()
            && !self.requests.is_mid_request()
            && !self.requests.has_backlog()
            && self.to_up.is_empty()
            && self.has_sent_all()
            && self.held_up.is_none()
            && self.held_down.is_none()
    }

    /// Returns `true` if the broker named so has something to answer and has sent nothing since
    /// `before_ms`.
    pub(super) fn waits_for(&self, broker: &HostPort, before_ms: u64) -> bool {
        let is_it = matches!((self.broker, &self.broker_host), (Some(address), Some(host))
            if broker.is(host, address.port()));
        let waits = match self.ring.front() {
            Some(entry) => !matches!(entry.answer, ResponseSource::Ready(_)),
            None => false,
        };
        is_it && waits && self.answered_ms <= before_ms
    }

    /// Whether nothing waits for the client to take it.
    pub(super) fn has_sent_all(&self) -> bool {
        self.to_down.is_empty() && self.tube.is_none()
    }

    pub(super) fn held_bytes(&self) -> usize {
        let held = [&self.held_up, &self.held_down].into_iter().flatten();
        held.map(DelayAction::bytes).sum::<usize>()
            + self.to_up.held_bytes()
            + self.to_down.held_bytes()
            + self.tube.as_ref().map_or(0, SplicePipe::held)
            + self.requests.held_bytes()
            + self.answers.held_bytes()
            + self.ring.own_bytes()
    }

    pub(super) fn row(&self, cluster: &str, now_ms: u64) -> ConnectionInfo {
        let state = match &self.up {
            Upstream::None => "waiting",
            Upstream::Resolving(_) | Upstream::Connecting(..) => "connecting",
            Upstream::Open(..) => "open",
        };
        ConnectionInfo {
            cluster: cluster.to_owned(),
            client: self.peer.to_string(),
            software: self.software.as_deref().map(str::to_owned),
            broker: self.broker.map(|broker| broker.to_string()),
            node_id: match self.target {
                ListenerTarget::Bootstrap => None,
                ListenerTarget::Broker(id) => Some(id),
            },
            state,
            age_ms: now_ms.saturating_sub(self.since_ms),
            idle_ms: now_ms.saturating_sub(self.active_ms),
            requests: self.counted,
            in_flight: self.ring.len(),
            request_bytes: self.request_bytes,
            answer_bytes: self.answer_bytes,
            held_bytes: self.held_bytes(),
        }
    }
}

/// A connection, for people.
#[derive(Debug, Clone, serde::Serialize)]
pub struct ConnectionInfo {
    /// Virtual cluster.
    pub cluster: String,
    /// Address of the client.
    pub client: String,
    /// What the client says it is.
    pub software: Option<String>,
    /// Address of the broker.
    pub broker: Option<String>,
    /// Number of the broker whose port the client came to; none: it began here.
    pub node_id: Option<i32>,
    /// `waiting` for a first request, `connecting` to a broker, `open`.
    pub state: &'static str,
    /// How long it is open.
    pub age_ms: u64,
    /// For how long no byte came.
    pub idle_ms: u64,
    /// Requests so far.
    pub requests: u64,
    /// Requests without an answer.
    pub in_flight: usize,
    /// Bytes from the client.
    pub request_bytes: u64,
    /// Bytes from the broker.
    pub answer_bytes: u64,
    /// Bytes held for it.
    pub held_bytes: usize,
}
