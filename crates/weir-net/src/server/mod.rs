//! Server side: one event loop per thread, with its own listeners and connections.
//!
//! An [`EventLoop`] owns sockets and calls a [`ServerHandler`], which responds through
//! [`ServerIo`]. Output is queued during an iteration and written at its end with one call per
//! connection, because system calls dominate the cost of a delivery. Under load several iterations
//! share one flush round over the connections (`flush_schedule.rs`).

mod connection;
mod event_loop;
mod flush_schedule;
mod input;
mod input_queue;
mod io;

pub use crate::event_loop::ConnId;
pub use connection::Detached;
pub use event_loop::{EventLoop, EventLoopOptions, Server};
pub use io::{IoCounters, ServerIo};

use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::http1::{HttpRequest, ParseLimits, Response};
use crate::tls::TlsAcceptor;

/// A listening socket, with or without TLS.
#[derive(Debug)]
pub struct Listener {
    /// Non-blocking; used by one event loop only, see [`crate::listener::listen_shared`].
    pub socket: std::net::TcpListener,
    /// TLS for all connections of this listener; shared by all event loops.
    pub tls: Option<Arc<TlsAcceptor>>,
}

/// Limits of connections and requests.
#[derive(Debug, Clone, Copy)]
pub struct ConnectionLimits {
    /// Open connections of one event loop; further ones are closed on arrival.
    pub connections: usize,
    /// Limits of one HTTP request.
    pub http: ParseLimits,
    /// Bytes of one incoming WebSocket message.
    pub message_bytes: usize,
    /// Maximum number of queued bytes per connection; [`ServerIo::send`] rejects more.
    pub send_queue_bytes: usize,
    /// Number of queued bytes behind a full socket above which [`ServerIo::try_send`] rejects more.
    pub high_water_bytes: usize,
    /// Milliseconds for a whole HTTP request to arrive; also the idle timeout of HTTP connections.
    pub request_timeout_ms: u64,
    /// Milliseconds for a closing connection to accept its last bytes.
    pub close_timeout_ms: u64,
    /// Lowest file descriptor that connections must not use, see [`crate::descriptors`].
    pub descriptor_limit: RawFd,
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
            send_queue_bytes: 1024 * 1024,
            high_water_bytes: 16 * 1024,
            request_timeout_ms: 10_000,
            close_timeout_ms: 2_000,
            descriptor_limit: RawFd::MAX,
        }
    }
}

/// Response of a handler to an HTTP request.
#[derive(Debug)]
pub enum RequestOutcome {
    /// Respond now. The connection stays open if the client requested that, otherwise it closes
    /// without a further call of the handler.
    Respond(Response),
    /// Respond with [`ServerIo::respond`] or [`ServerIo::begin_body`], now or later. Requests that
    /// follow on the connection wait for the end of the response. Also after [`ServerIo::detach`].
    Defer,
    /// Upgrade the connection to a WebSocket.
    Upgrade {
        /// Subprotocol to confirm, one of those the client offered.
        protocol: Option<&'static str>,
        /// Accept compressed messages (permessage-deflate) if the client offers them.
        deflate: bool,
    },
}

/// Result of [`ServerIo::try_send`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrySend {
    /// Queued for writing.
    Queued,
    /// The connection lags; nothing was queued.
    Full,
    /// The connection is closed or closing.
    Closed,
}

/// Reason for the end of a connection that the handler did not close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer closed it.
    PeerClosed,
    /// The connection failed, for example with a reset.
    Lost,
    /// The peer violated the protocol or a limit.
    Protocol,
    /// No complete request arrived in time.
    Idle,
}

/// Callbacks for the connections of an event loop.
pub trait ServerHandler {
    /// Event that other threads post to this event loop.
    type Posted: Send + 'static;

    /// Called for a new connection. `None` closes it at once. A number becomes its admission id
    /// ([`ServerIo::admission_id`]), which [`Self::on_release`] gets when the connection is closed.
    fn on_accept(&mut self, peer: SocketAddr) -> Option<u32> {
        let _ = peer;
        Some(0)
    }
    /// Called after a connection was closed or detached. The loop that adopts a detached connection
    /// sets a new admission id.
    fn on_release(&mut self, ticket: u32) {
        let _ = ticket;
    }

    /// Called for a complete HTTP request.
    fn on_request(
        &mut self,
        io: &mut ServerIo,
        conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> RequestOutcome;
    /// Called for a complete WebSocket text message.
    fn on_message(&mut self, io: &mut ServerIo, conn: ConnId, text: &str);
    /// Called with the number of other WebSocket frames that arrived: pings, pongs and fragments.
    fn on_frames(&mut self, io: &mut ServerIo, conn: ConnId, count: u32) {
        let _ = (io, conn, count);
    }
    /// Called when the connection is closed; `tag` is the value set with [`ServerIo::set_tag`].
    fn on_closed(&mut self, io: &mut ServerIo, conn: ConnId, tag: u64, reason: CloseReason);
    /// Called when the id of a connection becomes invalid, also if the handler has closed it. It is
    /// not called for detached connections.
    fn on_removed(&mut self, conn: ConnId) {
        let _ = conn;
    }
    /// Called when a timer set with [`ServerIo::set_timer`] expires.
    fn on_timer(&mut self, io: &mut ServerIo, token: u64);
    /// Called when a connection that returned [`TrySend::Full`] has an empty send queue.
    fn on_writable(&mut self, io: &mut ServerIo, conn: ConnId, tag: u64);
    /// Called with a connection after [`ServerIo::detach`]. [`ServerIo::adopt`] adds it to another
    /// event loop; dropping it closes it.
    fn on_detached(&mut self, io: &mut ServerIo, connection: Detached);
    /// Called for a posted event.
    fn on_posted(&mut self, io: &mut ServerIo, posted: Self::Posted);
    /// Called at the end of an iteration, before its output is flushed.
    fn on_iteration_end(&mut self, io: &mut ServerIo);
    /// Called after the first connection of a flush was written.
    fn on_first_written(&mut self) {}
    /// Called when a flush round is complete.
    fn on_flushed(&mut self, io: &mut ServerIo) {
        let _ = io;
    }
}
