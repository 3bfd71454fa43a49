//! Listening sockets of an event loop, each with or without TLS.

use std::io;
use std::sync::Arc;

use mio::net::TcpListener;
use mio::{Interest, Registry, Token};

use crate::tls::TlsAcceptor;

/// The first of the listeners; connections are counted from 0.
const FIRST: usize = usize::MAX - 64;

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
    pub(super) list: Vec<BoundListener>,
}

#[derive(Debug)]
pub(super) struct BoundListener {
    pub(super) socket: TcpListener,
    pub(super) tls: Option<Arc<TlsAcceptor>>,
    /// More connections may wait than were accepted last turn.
    pub(super) again: bool,
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
