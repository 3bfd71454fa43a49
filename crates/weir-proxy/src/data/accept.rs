//! Who comes in: listening sockets of one loop, and the limits that all loops share.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Registry, Token};

use super::ListenerTarget;

/// Tokens of listeners begin here; those of pairs lie below.
const FIRST: usize = usize::MAX / 2;

/// The limits on connections of the whole proxy, asked when one begins and told when it ends.
#[derive(Debug)]
pub(crate) struct Admission {
    most: usize,
    most_per_address: usize,
    open: AtomicUsize,
    by_address: Mutex<HashMap<IpAddr, usize>>,
}

impl Admission {
    pub(crate) fn new(most: usize, most_per_address: usize) -> Self {
        Self {
            most,
            most_per_address,
            open: AtomicUsize::new(0),
            by_address: Mutex::new(HashMap::new()),
        }
    }

    /// Whether one more of that address may be open.
    pub(super) fn enter(&self, address: IpAddr) -> bool {
        if self.open.fetch_add(1, Ordering::Relaxed) >= self.most {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        if self.most_per_address == 0 {
            return true;
        }
        let mut by_address = self
            .by_address
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let open = by_address.entry(address).or_default();
        if *open >= self.most_per_address {
            self.open.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        *open += 1;
        true
    }

    pub(super) fn leave(&self, address: IpAddr) {
        self.open.fetch_sub(1, Ordering::Relaxed);
        if self.most_per_address == 0 {
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
    /// More connections may wait.
    again: bool,
}

/// The listening sockets of a loop.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    list: slab::Slab<BoundListener>,
    /// Some may have connections waiting.
    again: bool,
}

/// Who has come.
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
        let place = self.list.vacant_entry();
        let mut socket = TcpListener::from_std(socket);
        registry.register(&mut socket, Token(FIRST + place.key()), Interest::READABLE)?;
        place.insert(BoundListener {
            socket,
            cluster,
            target,
            again: true,
        });
        self.again = true;
        Ok(())
    }

    pub(super) fn close(&mut self, cluster: usize, target: ListenerTarget) {
        self.list
            .retain(|_, door| door.cluster != cluster || door.target != target);
    }

    pub(super) fn close_all(&mut self) {
        // Those who wait in the kernel are told at once, and another process may listen here.
        self.list.clear();
    }

    /// Notes an event of a listener; false if the token is not one's.
    pub(super) fn on_readable(&mut self, token: Token) -> bool {
        let Some(key) = token.0.checked_sub(FIRST) else {
            return false;
        };
        if let Some(door) = self.list.get_mut(key) {
            door.again = true;
            self.again = true;
        }
        true
    }

    pub(super) fn try_all(&mut self) {
        self.list.iter_mut().for_each(|(_, door)| door.again = true);
        self.again = true;
    }

    /// Looks for nobody until [`Self::try_all`] or an event.
    pub(super) fn pause(&mut self) {
        self.list
            .iter_mut()
            .for_each(|(_, door)| door.again = false);
        self.again = false;
    }

    pub(super) fn some_may_wait(&self) -> bool {
        self.again
    }

    /// The next who waits; `WouldBlock` when nobody does.
    pub(super) fn next(&mut self) -> io::Result<AcceptedConnection> {
        if self.again {
            for (_, door) in self.list.iter_mut().filter(|(_, door)| door.again) {
                match door.socket.accept() {
                    Ok((socket, peer)) => {
                        return Ok(AcceptedConnection {
                            socket,
                            peer,
                            cluster: door.cluster,
                            target: door.target,
                        });
                    }
                    Err(error) => {
                        door.again = is_transient(&error);
                        if error.kind() != io::ErrorKind::WouldBlock && !door.again {
                            return Err(error);
                        }
                    }
                }
            }
            self.again = self.list.iter().any(|(_, door)| door.again);
        }
        Err(io::ErrorKind::WouldBlock.into())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_hold_and_places_come_back() {
        let admission = Admission::new(3, 2);
        let [a, b] = [[10, 0, 0, 1], [10, 0, 0, 2]].map(IpAddr::from);
        assert!(admission.enter(a) && admission.enter(a));
        assert!(!admission.enter(a), "two per address");
        assert!(admission.enter(b));
        assert!(!admission.enter(b), "three in all");
        admission.leave(a);
        assert!(admission.enter(b));
        admission.leave(a);
        admission.leave(b);
        admission.leave(b);
        assert!(admission.by_address.lock().unwrap().is_empty());
        assert_eq!(admission.open.load(Ordering::Relaxed), 0);
    }
}
