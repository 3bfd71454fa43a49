//! The server side event loop: one thread, its own listener, its own connections, nothing shared.
//!
//! An [`EventLoop`] owns sockets and drives a [`Handler`]; the handler responds through [`Io`].
//! Output is queued during an iteration and leaves at its end with one call per connection, however
//! many pieces it has: the system call, not the user code, is what a delivery costs. Under load
//! iterations share one flush round over the connections (`flush_schedule.rs`).

mod accept;
mod connection;
mod event_loop;
mod flush_schedule;
mod input;
mod input_queue;
mod io;
mod listeners;
mod stream;
mod tls_stream;

pub use connection::Detached;
pub use event_loop::{EventLoop, ShardOptions};
pub use io::{IoCounters, ServerIo};
pub use listeners::Listener;

use std::net::SocketAddr;
use std::os::fd::RawFd;

use crate::http1::{HttpRequest, ParseLimits, Response};

/// Names a connection of one shard; an id of a closed connection is never valid again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// What a peer may cost.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Open connections of one shard; the next one is closed at once.
    pub connections: usize,
    /// Head and body of one HTTP request.
    pub http: ParseLimits,
    /// Bytes of one incoming WebSocket message.
    pub message_bytes: usize,
    /// Bytes queued for a connection that does not read; [`Io::send`] refuses beyond it.
    pub outbox_bytes: usize,
    /// Bytes queued behind a full socket from which on [`Io::offer`] refuses.
    pub lag_bytes: usize,
    /// Milliseconds in which a whole HTTP request must arrive, and a kept-alive one may idle.
    pub request_ms: u64,
    /// Milliseconds a closing connection has to take its last bytes.
    pub close_ms: u64,
    /// First descriptor number that no connection may have, see [`crate::descriptors`].
    pub descriptor_ceiling: RawFd,
}

impl ConnId {
    /// An id made of its parts, for handlers that run without a shard.
    pub const fn from_parts(index: u32, generation: u32) -> Self {
        Self { index, generation }
    }
}

impl Default for ConnectionLimits {
    fn default() -> Self {
        Self {
            connections: 1_000_000,
            http: ParseLimits {
                head_bytes: 16 * 1024,
                body_bytes: 64 * 1024,
            },
            message_bytes: 64 * 1024,
            outbox_bytes: 1024 * 1024,
            lag_bytes: 16 * 1024,
            request_ms: 10_000,
            close_ms: 2_000,
            descriptor_ceiling: RawFd::MAX,
        }
    }
}

/// How a handler answers an HTTP request.
#[derive(Debug)]
pub enum RequestOutcome {
    /// With this; the connection stays open if the client wants it, else it is closed and the
    /// handler hears no more of it.
    Reply(Response),
    /// By [`Io::reply`] or [`Io::begin_body`], now or later; requests that follow on the connection
    /// wait for the end of the answer. Also after [`Io::detach`].
    Later,
    /// By speaking WebSocket with this subprotocol from here on.
    WebSocket {
        /// The subprotocol to confirm, one of those the client offered.
        protocol: Option<&'static str>,
        /// Agree to compressed messages (permessage-deflate) if the client offers them.
        deflate: bool,
    },
}

/// What became of bytes offered to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrySend {
    /// They will be written.
    Queued,
    /// The peer does not keep up: offer something newer when it does.
    Behind,
    /// The connection is gone or closing.
    Gone,
}

/// Why a connection ended without the handler asking for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed it, in order.
    PeerClosed,
    /// The network or the peer broke it.
    Lost,
    /// The peer broke a framing rule or a limit.
    Protocol,
    /// No complete request arrived in time.
    Idle,
}

/// What happens on a shard's connections.
pub trait ServerHandler {
    /// What other threads post to this shard.
    type Mail: Send + 'static;

    /// A connection comes: `None` closes it at once, a number stays with it ([`Io::ticket`]) and is handed
    /// back when it is gone.
    fn on_arrival(&mut self, peer: SocketAddr) -> Option<u32> {
        let _ = peer;
        Some(0)
    }
    /// A connection is gone, or has been sent to another shard, which asks anew.
    fn on_departure(&mut self, ticket: u32) {
        let _ = ticket;
    }

    /// A whole HTTP request arrived.
    fn on_request(
        &mut self,
        io: &mut ServerIo,
        conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> RequestOutcome;
    /// A whole text message arrived on a WebSocket.
    fn on_message(&mut self, io: &mut ServerIo, conn: ConnId, text: &str);
    /// WebSocket frames arrived that are not messages: pings, pongs and fragments.
    fn on_frames(&mut self, io: &mut ServerIo, conn: ConnId, count: u32) {
        let _ = (io, conn, count);
    }
    /// The connection is gone; `tag` is what [`Io::set_tag`] left on it.
    fn on_closed(&mut self, io: &mut ServerIo, conn: ConnId, tag: u64, reason: CloseReason);
    /// A timer set with [`Io::set_timer`] ran out.
    fn on_timer(&mut self, io: &mut ServerIo, token: u64);
    /// A connection whose [`Io::offer`] was refused has written all it had queued.
    fn on_room(&mut self, io: &mut ServerIo, conn: ConnId, tag: u64);
    /// A connection has left after [`Io::detach`]; [`Io::adopt`] takes it in elsewhere. Dropping it
    /// closes it.
    fn on_detached(&mut self, io: &mut ServerIo, connection: Detached);
    /// A mail arrived.
    fn on_mail(&mut self, io: &mut ServerIo, mail: Self::Mail);
    /// A turn of the loop is over, its output not yet flushed.
    fn on_turn(&mut self, io: &mut ServerIo);
    /// All that was queued has been offered to the sockets.
    fn on_flushed(&mut self, io: &mut ServerIo) {
        let _ = io;
    }
}
