//! Where connections come from: listening sockets, each with or without TLS.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use super::io::LoopTimer;
use super::stream::SocketStream;
use super::tls_stream::TlsStream;
use super::{ConnId, EventLoop, ServerHandler};
use crate::limited;
use crate::tls::TlsAcceptor;

/// The first of the listeners; connections are counted from 0.
const FIRST: usize = usize::MAX - 64;
/// Connections accepted before anything else gets its turn again.
const ACCEPTS_PER_ITERATION: usize = 256;
/// Pause before accepting again after the descriptors ran out, in milliseconds.
const ACCEPT_RETRY_MS: u64 = 100;

/// A listening socket and what is spoken on it.
#[derive(Debug)]
pub struct Listener {
    /// Non-blocking, the shard's own, see [`crate::listener::listen_shared`].
    pub socket: std::net::TcpListener,
    /// TLS is spoken with whoever comes; shards share it.
    pub tls: Option<Arc<TlsAcceptor>>,
}

/// The listeners of a shard at work.
#[derive(Debug)]
pub(super) struct Listeners {
    list: Vec<BoundListener>,
}

#[derive(Debug)]
struct BoundListener {
    socket: TcpListener,
    tls: Option<Arc<TlsAcceptor>>,
    /// More connections may wait than were accepted last turn.
    again: bool,
}

impl Listeners {
    pub(super) fn open(listeners: Vec<Listener>, registry: &Registry) -> io::Result<Self> {
        let mut list = Vec::with_capacity(listeners.len());
        for (number, listener) in listeners.into_iter().enumerate() {
            let mut socket = TcpListener::from_std(listener.socket);
            registry.register(&mut socket, Token(FIRST + number), Interest::READABLE)?;
            list.push(BoundListener {
                socket,
                tls: listener.tls,
                again: false,
            });
        }
        Ok(Self { list })
    }

    /// Notes an event of a listener; false if the token is not one's.
    pub(super) fn knock(&mut self, token: Token) -> bool {
        let number = token.0.checked_sub(FIRST);
        let door = number.and_then(|number| self.list.get_mut(number));
        door.map(|door| door.again = true).is_some()
    }

    /// Looks for connections at every listener.
    pub(super) fn try_all(&mut self) {
        self.list.iter_mut().for_each(|door| door.again = true);
    }

    pub(super) fn some_may_wait(&self) -> bool {
        self.list.iter().any(|door| door.again)
    }
}

impl<H: ServerHandler> EventLoop<H> {
    /// Takes in those who wait, some from each door.
    pub(super) fn accept(&mut self) {
        if !self.io.accepting {
            // Those who wait in the kernel are told at once, and another process may listen here.
            self.doors.list.clear();
        }
        for number in 0..self.doors.list.len() {
            if std::mem::take(&mut self.doors.list[number].again) {
                self.doors.list[number].again = self.accept_pending(number);
            }
        }
    }

    /// Whether more connections may wait at this door.
    fn accept_pending(&mut self, number: usize) -> bool {
        for _ in 0..ACCEPTS_PER_ITERATION {
            match self.doors.list[number].socket.accept() {
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
        let Some(acceptor) = &self.doors.list[door].tls else {
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
