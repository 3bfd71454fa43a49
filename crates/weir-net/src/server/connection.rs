//! One connection: its socket, what it speaks, what waits to be written.

use std::net::{IpAddr, SocketAddr};

use super::stream::SocketStream;
use crate::http1::BodyProgress;
use crate::send_queue::SendQueue;
use crate::websocket::{DeflateWindow, WebSocketFrameReader};

/// Kept small: a shard holds tens of thousands of these.
#[derive(Debug)]
pub(super) struct ServerConnection {
    pub(super) stream: SocketStream,
    pub(super) generation: u32,
    pub(super) peer: IpAddr,
    /// What the handler gave it on arrival.
    pub(super) ticket: u32,
    /// Set by the handler, handed back when the connection is lost.
    pub(super) tag: u64,
    pub(super) outbox: SendQueue,
    pub(super) protocol: Protocol,
    pub(super) phase: ConnectionPhase,
    /// Its WebSocket takes compressed messages that refer no farther back.
    pub(super) window: Option<DeflateWindow>,
    /// Already in the shard's list of connections to flush.
    pub(super) dirty: bool,
    /// The kernel took no more; a writable event will clear it.
    pub(super) blocked: bool,
    /// The handler holds something back until the queue is empty.
    pub(super) wants_room: bool,
    /// In the queue of connections with input.
    pub(super) input_queued: bool,
    /// Input that was read earlier comes before what is in the socket.
    pub(super) parked: bool,
    /// The handler has paused reading with [`super::ServerIo::pause_input`].
    pub(super) input_paused: bool,
    /// What the request in hand still has to get.
    pub(super) exchange: HttpExchange,
}

/// Where an HTTP connection is between a request and the end of its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpExchange {
    /// Nothing is owed.
    None,
    /// An answer.
    Due { keep_alive: bool },
    /// The rest of a body of unknown length, and its end.
    Body { keep_alive: bool },
}

/// What a connection speaks.
#[derive(Debug)]
pub(super) enum Protocol {
    Http(Box<HttpState>),
    WebSocket(WebSocketFrameReader),
    /// The state is in use by the caller further up.
    Taken,
}

/// Only connections that have not become a WebSocket pay for this.
#[derive(Debug)]
pub(super) struct HttpState {
    pub(super) peer: SocketAddr,
    pub(super) buffer: Vec<u8>,
    pub(super) deadline_ms: u64,
    /// How far the first request in the buffer has been read.
    pub(super) progress: Option<Box<BodyProgress>>,
}

/// Where a connection is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    /// Reads and writes.
    Open,
    /// Writes what is queued, then says goodbye.
    Closing,
    /// Moves to another shard as soon as the message in hand is dealt with.
    Leaving,
    /// Has said goodbye and swallows what still comes: closing with unread input would reset the
    /// connection and could destroy the last lines on their way to the peer.
    Lingering,
}

/// A connection between two shards, with all that has been read and not been dealt with.
#[derive(Debug)]
pub struct Detached {
    pub(super) connection: ServerConnection,
    pub(super) input: Vec<u8>,
}

impl ServerConnection {
    pub(super) fn new(
        stream: SocketStream,
        generation: u32,
        peer: SocketAddr,
        deadline_ms: u64,
    ) -> Self {
        let http = HttpState {
            peer,
            buffer: Vec::new(),
            deadline_ms,
            progress: None,
        };
        Self {
            stream,
            generation,
            peer: peer.ip(),
            ticket: 0,
            tag: 0,
            outbox: SendQueue::default(),
            protocol: Protocol::Http(Box::new(http)),
            phase: ConnectionPhase::Open,
            window: None,
            dirty: false,
            blocked: false,
            wants_room: false,
            input_queued: false,
            parked: false,
            input_paused: false,
            exchange: HttpExchange::None,
        }
    }

    /// After the last byte: close our direction and wait for the peer to close its own.
    pub(super) fn linger(&mut self) {
        self.phase = ConnectionPhase::Lingering;
        self.stream.finish();
    }
}
