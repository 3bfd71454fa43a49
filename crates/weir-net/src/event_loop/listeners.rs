//! Listening sockets of an event loop. Their connections are accepted in turn.

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};
use slab::Slab;

/// Token of the first listener; tokens of connections are lower.
const FIRST: usize = usize::MAX / 2;

/// Listeners with their properties.
#[derive(Debug)]
pub struct Listeners<L> {
    list: Slab<BoundListener<L>>,
    /// Listeners that may have pending connections, each once.
    pending: VecDeque<usize>,
}

#[derive(Debug)]
struct BoundListener<L> {
    socket: TcpListener,
    properties: L,
    is_pending: bool,
}

impl<L> Default for Listeners<L> {
    fn default() -> Self {
        Self {
            list: Slab::new(),
            pending: VecDeque::new(),
        }
    }
}

impl<L: Clone> Listeners<L> {
    pub(super) fn on_readable(&mut self, token: Token) -> bool {
        let Some(key) = token.0.checked_sub(FIRST) else {
            return false;
        };
        self.mark(key);
        true
    }

    fn mark(&mut self, key: usize) {
        if let Some(listener) = self.list.get_mut(key) {
            if !std::mem::replace(&mut listener.is_pending, true) {
                self.pending.push_back(key);
            }
        }
    }

    pub(super) fn pause(&mut self) {
        self.pending.clear();
        for (_, listener) in &mut self.list {
            listener.is_pending = false;
        }
    }

    pub(super) fn resume(&mut self) {
        let keys: Vec<usize> = self.list.iter().map(|(key, _)| key).collect();
        keys.into_iter().for_each(|key| self.mark(key));
    }

    /// Accepts the next connection; `None` if none is pending.
    pub(super) fn accept(&mut self) -> io::Result<Option<(TcpStream, SocketAddr, L)>> {
        while let Some(key) = self.pending.pop_front() {
            let Some(listener) = self.list.get_mut(key) else {
                continue;
            };
            listener.is_pending = false;
            match listener.socket.accept() {
                Ok((socket, peer)) => {
                    let properties = listener.properties.clone();
                    self.mark(key);
                    return Ok(Some((socket, peer, properties)));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) if is_transient(&error) => self.mark(key),
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl<L> Listeners<L> {
    pub(super) fn open(
        &mut self,
        socket: std::net::TcpListener,
        properties: L,
        registry: &Registry,
    ) -> io::Result<()> {
        let entry = self.list.vacant_entry();
        let key = entry.key();
        let mut socket = TcpListener::from_std(socket);
        registry.register(&mut socket, Token(FIRST + key), Interest::READABLE)?;
        entry.insert(BoundListener {
            socket,
            properties,
            // Connections may have arrived before the socket was registered.
            is_pending: true,
        });
        self.pending.push_back(key);
        Ok(())
    }

    /// Returns a copy of each listening socket. Both accept connections of the same queue.
    ///
    /// # Errors
    /// The process has no more file descriptors.
    pub fn copies(&self) -> io::Result<Vec<std::net::TcpListener>> {
        let sockets = self.list.iter().map(|(_, listener)| &listener.socket);
        let copies = sockets.map(|socket| socket.as_fd().try_clone_to_owned());
        copies.map(|copy| Ok(copy?.into())).collect()
    }

    /// Closes the listeners that `keeps` does not keep. The kernel resets their pending
    /// connections, and other processes may bind their addresses.
    pub fn retain(&mut self, keeps: impl Fn(&L) -> bool) {
        self.list.retain(|_, listener| keeps(&listener.properties));
        self.pending.retain(|key| self.list.contains(*key));
    }

    pub(super) fn may_have_pending(&self) -> bool {
        !self.pending.is_empty()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener as StdListener, TcpStream as StdStream};

    #[test]
    fn listeners_accept_in_turn_until_closed() {
        let poll = mio::Poll::new().unwrap();
        let mut listeners = Listeners::default();
        let mut clients = Vec::new();
        for name in ["a", "b"] {
            let socket = StdListener::bind("127.0.0.1:0").unwrap();
            socket.set_nonblocking(true).unwrap();
            let address = socket.local_addr().unwrap();
            clients.extend([(); 3].map(|()| StdStream::connect(address).unwrap()));
            listeners.open(socket, name, poll.registry()).unwrap();
        }
        let accept = |listeners: &mut Listeners<&'static str>| {
            let accepted = listeners.accept().unwrap();
            accepted.map(|(_, _, name)| name)
        };
        let first = [(); 3].map(|()| accept(&mut listeners));
        assert_eq!(first, [Some("a"), Some("b"), Some("a")]);
        listeners.pause();
        assert!(!listeners.may_have_pending());
        assert_eq!(accept(&mut listeners), None);
        listeners.resume();
        listeners.retain(|name| *name == "b");
        let rest = [(); 3].map(|()| accept(&mut listeners));
        assert_eq!(rest, [Some("b"), Some("b"), None]);
        assert!(!listeners.may_have_pending());
    }
}
