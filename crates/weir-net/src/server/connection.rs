//! State of one server connection: socket, protocol, send queue and phase.

use std::net::{IpAddr, SocketAddr};

use crate::http1::BodyProgress;
use crate::stream::{SendQueue, SocketStream};
use crate::websocket::{DeflateWindow, WebSocketFrameReader};

/// A connection of an event loop. Small, because a loop can have tens of thousands.
#[derive(Debug)]
pub(super) struct ServerConnection {
    pub(super) stream: SocketStream,
    pub(super) peer: IpAddr,
    /// Value that [`super::ServerHandler::on_accept`] returned.
    pub(super) admission_id: u32,
    /// Value that the handler attached; passed back when the connection is lost.
    pub(super) tag: u64,
    pub(super) send_queue: SendQueue,
    pub(super) protocol: Protocol,
    pub(super) phase: ConnectionPhase,
    /// Negotiated window of compressed messages; `None` if the WebSocket does not accept them.
    pub(super) window: Option<DeflateWindow>,
    /// Listed for the next flush.
    pub(super) dirty: bool,
    /// The socket accepts no more bytes until the next writable event.
    pub(super) blocked: bool,
    /// The handler is called when the send queue is empty.
    pub(super) wants_writable: bool,
    /// Queued for input in a later iteration.
    pub(super) input_queued: bool,
    /// Stored input has to be handled before the socket is read.
    pub(super) parked: bool,
    /// The handler has paused reading with [`super::ServerIo::pause_input`].
    pub(super) input_paused: bool,
    pub(super) exchange: HttpExchange,
}

/// Progress of an HTTP connection between a request and the end of its response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HttpExchange {
    None,
    Pending {
        keep_alive: bool,
    },
    /// A response has begun; the rest of its body, of unknown length, is outstanding.
    Body {
        keep_alive: bool,
    },
}

#[derive(Debug)]
pub(super) enum Protocol {
    Http(Box<HttpState>),
    WebSocket(WebSocketFrameReader),
    /// The state is temporarily owned by a caller.
    Taken,
}

/// State of a connection that is not a WebSocket, boxed to keep the others small.
#[derive(Debug)]
pub(super) struct HttpState {
    pub(super) peer: SocketAddr,
    pub(super) buffer: Vec<u8>,
    pub(super) deadline_ms: u64,
    /// Parse progress of the first request in the buffer.
    pub(super) progress: Option<Box<BodyProgress>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnectionPhase {
    Open,
    /// Writes the queued bytes, then closes.
    Closing,
    /// Detached: moves to another event loop after the current message.
    Detaching,
    /// Closed for writing; input is discarded. Closing a socket with unread input would reset the
    /// connection, and the peer could lose the last bytes.
    Lingering,
}

/// A connection between two event loops, with its unhandled input.
#[derive(Debug)]
pub struct Detached {
    pub(super) connection: ServerConnection,
    pub(super) input: Vec<u8>,
}

impl ServerConnection {
    pub(super) fn new(stream: SocketStream, peer: SocketAddr, deadline_ms: u64) -> Self {
        let http = HttpState {
            peer,
            buffer: Vec::new(),
            deadline_ms,
            progress: None,
        };
        Self {
            stream,
            peer: peer.ip(),
            admission_id: 0,
            tag: 0,
            send_queue: SendQueue::default(),
            protocol: Protocol::Http(Box::new(http)),
            phase: ConnectionPhase::Open,
            window: None,
            dirty: false,
            blocked: false,
            wants_writable: false,
            input_queued: false,
            parked: false,
            input_paused: false,
            exchange: HttpExchange::None,
        }
    }

    /// Marks the connection for the next flush. Returns `false` if it is listed already or cannot
    /// be written.
    pub(super) fn mark_dirty(&mut self) -> bool {
        let is_new = !self.dirty && !self.blocked;
        self.dirty |= is_new;
        is_new
    }
}
