//! Accepts connections from the listeners of an event loop.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use mio::net::TcpStream;

use super::io::LoopTimer;
use super::stream::SocketStream;
use super::tls_stream::TlsStream;
use super::{ConnId, EventLoop, ServerHandler};
use crate::limited;

/// Connections accepted from one listener before other work continues.
const ACCEPTS_PER_ITERATION: usize = 256;
/// Pause in milliseconds before accepting again when file descriptors are exhausted.
const ACCEPT_RETRY_MS: u64 = 100;

impl<H: ServerHandler> EventLoop<H> {
    /// Accepts pending connections, a bounded number per listener.
    pub(super) fn accept(&mut self) {
        if !self.io.accepting {
            // Closing the listeners resets pending connections and frees the port.
            self.listeners.list.clear();
        }
        for number in 0..self.listeners.list.len() {
            if std::mem::take(&mut self.listeners.list[number].may_have_pending) {
                self.listeners.list[number].may_have_pending = self.accept_pending(number);
            }
        }
    }

    /// Accepts connections from one listener. Returns `true` if more connections may be pending.
    fn accept_pending(&mut self, number: usize) -> bool {
        for _ in 0..ACCEPTS_PER_ITERATION {
            match self.listeners.list[number].socket.accept() {
                Ok((socket, peer)) => {
                    if self.io.connections() >= self.io.limits.connections {
                        self.io.counters.rejected += 1;
                        continue;
                    }
                    if socket.as_raw_fd() >= self.io.limits.descriptor_ceiling {
                        limited!(
                            warn,
                            "reserved file descriptors reached",
                            "file descriptors exhausted, paused accepting"
                        );
                        self.io.counters.rejected += 1;
                        self.accept_later();
                        return false;
                    }
                    let Some(admission_id) = self.handler.on_accept(peer) else {
                        continue;
                    };
                    // Small messages must be sent at once; without this option the socket works
                    // too.
                    let _ = socket.set_nodelay(true);
                    match self.add_connection(socket, peer, number) {
                        Some(conn) => {
                            self.io.set_admission_id(conn, admission_id);
                            self.io.counters.accepted += 1;
                        }
                        None => self.handler.on_release(admission_id),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if is_transient(&error) => {}
                Err(error) => {
                    // File descriptors are exhausted: pending connections stay in the kernel's
                    // queue.
                    limited!(
                        warn,
                        "connection not accepted",
                        %error,
                        "failed to accept connection, retrying"
                    );
                    self.io.counters.rejected += 1;
                    self.accept_later();
                    return false;
                }
            }
        }
        true
    }

    fn accept_later(&mut self) {
        let at_ms = self.io.now_ms() + ACCEPT_RETRY_MS;
        self.io.timers.set(at_ms, LoopTimer::Accept);
    }

    fn add_connection(
        &mut self,
        socket: TcpStream,
        peer: SocketAddr,
        listener: usize,
    ) -> Option<ConnId> {
        let Some(acceptor) = &self.listeners.list[listener].tls else {
            let timeout_ms = self.io.limits.request_timeout_ms;
            return self
                .io
                .insert(SocketStream::Plain(socket), peer, timeout_ms);
        };
        let timeout_ms = acceptor.handshake_timeout_ms();
        match acceptor.accept() {
            Ok(tls) => {
                let stream = SocketStream::Tls(Box::new(TlsStream::new(socket, tls)));
                self.io.insert(stream, peer, timeout_ms)
            }
            Err(error) => {
                limited!(warn, "TLS setup failed", %error, "failed to create TLS session");
                self.io.counters.tls_failures += 1;
                None
            }
        }
    }
}

/// Returns `true` for errors of `accept` that concern one connection, not the listener.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
