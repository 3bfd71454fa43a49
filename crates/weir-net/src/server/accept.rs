//! Where connections come from: listening sockets, each with or without TLS.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;

use mio::net::TcpStream;

use super::io::LoopTimer;
use super::stream::SocketStream;
use super::tls_stream::TlsStream;
use super::{ConnId, EventLoop, ServerHandler};
use crate::limited;

/// Connections accepted before anything else gets its turn again.
const ACCEPTS_PER_ITERATION: usize = 256;
/// Pause before accepting again after the descriptors ran out, in milliseconds.
const ACCEPT_RETRY_MS: u64 = 100;

impl<H: ServerHandler> EventLoop<H> {
    /// Takes in those who wait, some from each door.
    pub(super) fn accept(&mut self) {
        if !self.io.accepting {
            // Those who wait in the kernel are told at once, and another process may listen here.
            self.listeners.list.clear();
        }
        for number in 0..self.listeners.list.len() {
            if std::mem::take(&mut self.listeners.list[number].again) {
                self.listeners.list[number].again = self.accept_pending(number);
            }
        }
    }

    /// Whether more connections may wait at this door.
    fn accept_pending(&mut self, number: usize) -> bool {
        for _ in 0..ACCEPTS_PER_ITERATION {
            match self.listeners.list[number].socket.accept() {
                Ok((socket, peer)) => {
                    if self.io.connections() >= self.io.limits.connections {
                        self.io.counters.refused += 1;
                        continue;
                    }
                    if socket.as_raw_fd() >= self.io.limits.descriptor_ceiling {
                        limited!(
                            warn,
                            "descriptors kept back",
                            "descriptors run out: connections wait"
                        );
                        self.io.counters.refused += 1;
                        self.accept_later();
                        return false;
                    }
                    let Some(ticket) = self.handler.on_arrival(peer) else {
                        continue;
                    };
                    // Small messages must leave at once; a socket that cannot say so still works.
                    let _ = socket.set_nodelay(true);
                    match self.take_in(socket, peer, number) {
                        Some(conn) => {
                            self.io.set_admission_id(conn, ticket);
                            self.io.counters.accepted += 1;
                        }
                        None => self.handler.on_departure(ticket),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return false,
                Err(error) if is_transient(&error) => {}
                Err(error) => {
                    // Out of descriptors: those who wait stay in the kernel's queue.
                    limited!(warn, "connection not accepted", %error, "cannot accept a connection, trying again");
                    self.io.counters.refused += 1;
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

    fn take_in(&mut self, socket: TcpStream, peer: SocketAddr, door: usize) -> Option<ConnId> {
        let Some(acceptor) = &self.listeners.list[door].tls else {
            let timeout_ms = self.io.limits.request_ms;
            return self
                .io
                .insert(SocketStream::Plain(socket), peer, timeout_ms);
        };
        let timeout_ms = acceptor.handshake_ms();
        match acceptor.accept() {
            Ok(tls) => {
                let stream = SocketStream::Tls(Box::new(TlsStream::new(socket, tls)));
                self.io.insert(stream, peer, timeout_ms)
            }
            Err(error) => {
                limited!(warn, "TLS not begun", %error, "cannot begin a TLS connection");
                self.io.counters.tls_failures += 1;
                None
            }
        }
    }
}

/// Errors of `accept` that concern one connection, not the listener.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}
