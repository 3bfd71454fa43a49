//! Calls of session administration, and responses that are streams of lines.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::MailboxSender;
use crate::http1::{Response, push_chunk};
use crate::server::{ConnId, ServerIo, TrySend};

/// Time to post a chunk to an admin port whose mailbox is full.
const POST_TIMEOUT: Duration = Duration::from_secs(1);

/// A request below `/admin/v1`.
#[derive(Debug, Clone, Copy)]
pub struct ApiCall<'a> {
    /// Method.
    pub method: &'a str,
    /// Path.
    pub path: &'a str,
    /// Text after the question mark, empty if there is none.
    pub query: &'a str,
    /// Body, empty if there is none.
    pub body: &'a [u8],
    /// Address of the operator.
    pub peer: SocketAddr,
}

/// Event for the admin port.
#[derive(Debug)]
pub(super) enum Posted {
    Response(ConnId, Response),
    /// Lines of a stream.
    Lines(ConnId, Vec<u8>),
    /// End of a stream.
    End(ConnId),
    Stop,
}

#[derive(Debug, Default)]
struct StreamState {
    closed: AtomicBool,
    dropped: AtomicU64,
}

/// Sending end of a response that is a stream of lines. Dropping it ends the response.
#[derive(Debug)]
pub struct LineStream {
    conn: ConnId,
    sender: MailboxSender<Posted>,
    state: Arc<StreamState>,
}

impl LineStream {
    /// Sends complete lines. Lines for a client that does not read are dropped and counted.
    pub fn send(&self, lines: Vec<u8>) {
        if self
            .sender
            .post(Posted::Lines(self.conn, lines), POST_TIMEOUT)
            .is_err()
        {
            self.state.closed.store(true, Ordering::Relaxed);
        }
    }

    /// Returns `true` if the client has left or the admin port stops.
    pub fn is_closed(&self) -> bool {
        self.state.closed.load(Ordering::Relaxed)
    }

    /// Returns the number of lines dropped since the last call.
    pub fn take_dropped(&self) -> u64 {
        self.state.dropped.swap(0, Ordering::Relaxed)
    }
}

impl Drop for LineStream {
    fn drop(&mut self) {
        // If the loop has ended, the connection is closed.
        let _ = self.sender.post(Posted::End(self.conn), POST_TIMEOUT);
    }
}

/// Open streams of the admin port.
#[derive(Debug, Default)]
pub(super) struct LineStreams {
    open: Vec<(ConnId, Arc<StreamState>)>,
}

impl LineStreams {
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    pub(super) fn begin(&mut self, conn: ConnId, sender: MailboxSender<Posted>) -> LineStream {
        let state = Arc::<StreamState>::default();
        self.open.push((conn, Arc::clone(&state)));
        LineStream {
            conn,
            sender,
            state,
        }
    }

    pub(super) fn send(&self, io: &mut ServerIo, conn: ConnId, lines: &[u8]) {
        let Some((_, state)) = self.open.iter().find(|(open, _)| *open == conn) else {
            return;
        };
        let mut chunk = Vec::with_capacity(lines.len() + 16);
        push_chunk(&mut chunk, lines);
        if io.try_send(conn, chunk.into()) != TrySend::Queued {
            let count = lines.iter().filter(|byte| **byte == b'\n').count();
            state.dropped.fetch_add(count as u64, Ordering::Relaxed);
        }
    }

    /// Notes that a connection is closed, or its stream complete.
    pub(super) fn close(&mut self, conn: ConnId) {
        self.open.retain(|(open, state)| {
            if *open == conn {
                state.closed.store(true, Ordering::Relaxed);
            }
            *open != conn
        });
    }

    /// Has all streams end.
    pub(super) fn close_all(&self) {
        let states = self.open.iter().map(|(_, state)| state);
        states.for_each(|state| state.closed.store(true, Ordering::Relaxed));
    }
}
