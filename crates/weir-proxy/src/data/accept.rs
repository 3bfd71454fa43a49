//! The listening sockets of one loop, and the connection limits that all loops share.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use super::ListenerTarget;

/// First token of listeners. The tokens of connection pairs are below.
const FIRST_TOKEN: usize = usize::MAX / 2;

/// The connection limits of the whole proxy.
#[derive(Debug)]
pub(crate) struct Admission {
    max: usize,
    max_per_address: usize,
    open: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

impl Admission {
    pub(crate) fn new(max: usize, max_per_address: usize) -> Self {
        Self {
            max,
            max_per_address,
            open: AtomicUsize::new(0),
            by_address: Mutex::new(HashMap::new()),
        }
    }

    /// Reserves a connection for `address`. Returns `false` if a limit is reached.
    pub(super) fn enter(&self, address: IpAddr) -> bool {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.max {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        if self.max_per_address == 0 {
            return true;
        }
        let mut by_address = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let open = by_address.entry(address).or_default();
        if *open >= self.max_per_address {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        *open += 1;
        true
    }

    pub(super) fn leave(&self, address: IpAddr) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if self.max_per_address == 0 {
            return;
        }
        let mut by_address = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(open) = by_address.get_mut(&address) {
            *open -= 1;
            if *open == 0 {
                by_address.remove(&address);
            }
        }
    }
}

#[derive(Debug)]
struct BoundListener {
    socket: TcpListener,
    cluster: usize,
    target: ListenerTarget,
    /// More connections may be pending.
    may_have_pending: bool,
}

/// The listening sockets of a loop.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    list: slab::Slab<BoundListener>,
    /// Set if `may_have_pending` is set for any listener.
    may_have_pending: bool,
}

/// An accepted connection.
#[derive(Debug)]
pub(super) struct AcceptedConnection {
    pub(super) socket: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) cluster: usize,
    pub(super) target: ListenerTarget,
}

impl Listeners {
    pub(super) fn open(
        &mut self,
        cluster: usize,
        target: ListenerTarget,
        socket: std::net::TcpListener,
        registry: &Registry,
    ) -> io::Result<()> {
        let entry = self.list.vacant_entry();
        let mut socket = TcpListener::from_std(socket);
        registry.register(
            &mut socket,
            Token(FIRST_TOKEN + entry.key()),
            Interest::READABLE,
        )?;
        entry.insert(BoundListener {
            socket,
            cluster,
            target,
            may_have_pending: true,
        });
        self.may_have_pending = true;
        Ok(())
    }

    pub(super) fn close(&mut self, cluster: usize, target: ListenerTarget) {
        self.list
            .retain(|_, listener| listener.cluster != cluster || listener.target != target);
    }

    pub(super) fn close_all(&mut self) {
        // The kernel closes pending connections at once, and another process may bind the address.
        self.list.clear();
    }

    /// Handles an event of a listener. Returns `false` if the token is not of a listener.
    pub(super) fn on_readable(&mut self, token: Token) -> bool {
        let Some(key) = token.0.checked_sub(FIRST_TOKEN) else {
            return false;
        };
        if let Some(listener) = self.list.get_mut(key) {
            listener.may_have_pending = true;
            self.may_have_pending = true;
        }
        true
    }

    pub(super) fn resume(&mut self) {
        self.list
            .iter_mut()
            .for_each(|(_, listener)| listener.may_have_pending = true);
        self.may_have_pending = true;
    }

    /// Accepts no connections until [`Self::resume`] or an event.
    pub(super) fn pause(&mut self) {
        self.list
            .iter_mut()
            .for_each(|(_, listener)| listener.may_have_pending = false);
        self.may_have_pending = false;
    }

    pub(super) fn may_have_pending(&self) -> bool {
        self.may_have_pending
    }

    /// Accepts the next connection; `WouldBlock` if none is pending.
    pub(super) fn accept(&mut self) -> io::Result<AcceptedConnection> {
        if self.may_have_pending {
            for (_, listener) in self
                .list
                .iter_mut()
                .filter(|(_, listener)| listener.may_have_pending)
            {
                match listener.socket.accept() {
                    Ok((socket, peer)) => {
                        return Ok(AcceptedConnection {
                            socket,
                            peer,
                            cluster: listener.cluster,
                            target: listener.target,
                        });
                    }
                    Err(error) => {
                        listener.may_have_pending = is_transient(&error);
                        if error.kind() != io::ErrorKind::WouldBlock && !listener.may_have_pending {
                            return Err(error);
                        }
                    }
                }
            }
            self.may_have_pending = self
                .list
                .iter()
                .any(|(_, listener)| listener.may_have_pending);
        }
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// Returns `true` if an error of `accept` concerns one connection and not the listener.
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

    #[test]
    fn limits_are_enforced_and_reservations_returned() {
        let admission = Admission::new(3, 2);
        let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        assert!(admission.enter(a) && admission.enter(a));
        assert!(!admission.enter(a), "two per address");
        assert!(admission.enter(b));
        assert!(!admission.enter(b), "three in total");
        admission.leave(a);
        assert!(admission.enter(b));
        admission.leave(a);
        admission.leave(b);
        admission.leave(b);
        assert!(admission.by_address.lock().unwrap().is_empty());
        assert_eq!(admission.open.load(Ordering::Relaxed), 0);
    }
}
