//! Listening sockets of an event loop, each with or without TLS.

use std::io;
use std::sync::Arc;

use mio::net::TcpListener;
use mio::{Interest, Registry, Token};

use crate::tls::TlsAcceptor;

/// Token of the first listener; tokens of connections count from 0.
const FIRST: usize = usize::MAX - 64;

/// A listening socket, with or without TLS.
#[derive(Debug)]
pub struct Listener {
    /// Non-blocking; used by one event loop only, see [`crate::listener::listen_shared`].
    pub socket: std::net::TcpListener,
    /// TLS for all connections of this listener; shared by all event loops.
    pub tls: Option<Arc<TlsAcceptor>>,
}

/// The registered listeners of an event loop.
#[derive(Debug)]
pub(super) struct Listeners {
    pub(super) list: Vec<BoundListener>,
}

#[derive(Debug)]
pub(super) struct BoundListener {
    pub(super) socket: TcpListener,
    pub(super) tls: Option<Arc<TlsAcceptor>>,
    /// More connections may be pending.
    pub(super) may_have_pending: bool,
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
                may_have_pending: false,
            });
        }
        Ok(Self { list })
    }

    /// Records a readable event of a listener. Returns `false` if `token` is not a listener's.
    pub(super) fn on_readable(&mut self, token: Token) -> bool {
        let number = token.0.checked_sub(FIRST);
        let listener = number.and_then(|number| self.list.get_mut(number));
        listener
            .map(|listener| listener.may_have_pending = true)
            .is_some()
    }

    /// Marks all listeners as readable.
    pub(super) fn retry_all(&mut self) {
        self.list
            .iter_mut()
            .for_each(|listener| listener.may_have_pending = true);
    }

    pub(super) fn may_have_pending(&self) -> bool {
        self.list.iter().any(|listener| listener.may_have_pending)
    }
}
