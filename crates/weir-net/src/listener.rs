//! Listening sockets shared by several event loops.

use std::collections::HashMap;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Mutex;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

use crate::lock;

/// Length of the kernel's queue of pending connections, large enough for a reconnect storm.
const BACKLOG: i32 = 4096;

/// Opens listening sockets, or takes them from those that another process handed over.
#[derive(Debug)]
pub struct ListenerSource {
    /// Sockets per address, one per event loop.
    count: usize,
    inherited: Mutex<HashMap<SocketAddr, Vec<TcpListener>>>,
}

impl ListenerSource {
    /// Creates a source of `count` sockets per address, without inherited ones.
    pub fn new(count: usize) -> Self {
        Self {
            count,
            inherited: Mutex::default(),
        }
    }

    /// Creates a source of `count` sockets per address that uses `sockets` first.
    ///
    /// # Errors
    /// One of the sockets has no address.
    pub fn inheriting(count: usize, sockets: Vec<TcpListener>) -> io::Result<Self> {
        let mut inherited = HashMap::<_, Vec<_>>::new();
        for socket in sockets {
            let address = socket.local_addr()?;
            inherited.entry(address).or_default().push(socket);
        }
        Ok(Self {
            count,
            inherited: Mutex::new(inherited),
        })
    }

    /// Returns the sockets of an address, as [`listen_shared`] opens them.
    ///
    /// # Errors
    /// The address cannot be bound, or another process listens there.
    pub fn open(&self, address: SocketAddr) -> io::Result<Vec<TcpListener>> {
        match self.take(address) {
            Some(mut sockets) => {
                let missing = self.count.saturating_sub(sockets.len());
                sockets.extend(listen_again(address, missing)?);
                Ok(sockets)
            }
            None => listen_shared(address, self.count),
        }
    }

    /// Returns further sockets of an address at which this process listens already.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn open_again(&self, address: SocketAddr) -> io::Result<Vec<TcpListener>> {
        listen_again(address, self.count)
    }

    /// Returns the socket of an address that only one thread uses.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn open_one(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let inherited = self.take(address).and_then(|mut sockets| sockets.pop());
        inherited.map_or_else(|| TcpListener::bind(address), Ok)
    }

    /// Closes the inherited sockets that were not needed. Returns their addresses.
    pub fn close_unused(&self) -> Vec<SocketAddr> {
        let unused = std::mem::take(&mut *lock(&self.inherited));
        unused.into_keys().collect()
    }

    fn take(&self, address: SocketAddr) -> Option<Vec<TcpListener>> {
        lock(&self.inherited).remove(&address)
    }
}

/// Opens `count` non-blocking sockets that listen on the same address. The kernel distributes new
/// connections among them (SO_REUSEPORT), so event loops share nothing. Port 0 selects one free
/// port.
///
/// # Errors
/// The address cannot be bound, or another process listens there: with SO_REUSEPORT it would
/// silently get a part of the connections.
pub fn listen_shared(address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    if address.port() != 0 {
        drop(TcpListener::bind(address)?);
    }
    listen_again(address, count)
}

/// Opens further sockets at an address at which this process listens already, see
/// [`listen_shared`].
fn listen_again(mut address: SocketAddr, count: usize) -> io::Result<Vec<TcpListener>> {
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let listener = listen(address)?;
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Sets TCP_USER_TIMEOUT on connections that `listener` accepts from now on. The kernel ends a
/// connection when the peer acknowledges none of the sent bytes for `timeout`, because it is
/// unreachable or does not read. Reads and writes then fail.
pub fn end_stalled(listener: &TcpListener, timeout: Duration) -> io::Result<()> {
    // Accepted sockets inherit the option, so it needs no call per connection.
    SockRef::from(listener).set_tcp_user_timeout(Some(timeout))
}

/// Sets TCP_NOTSENT_LOWAT on connections that `listener` accepts from now on: the kernel accepts at
/// most `bytes` that it cannot send yet. The rest stays in the send queue, where newer values can
/// replace it.
pub fn limit_unsent(listener: &TcpListener, bytes: u32) -> io::Result<()> {
    SockRef::from(listener).set_tcp_notsent_lowat(bytes)
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inherited_sockets_are_used_first_and_once() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let old = listen_shared(any, 1).expect("a port");
        let address = old[0].local_addr().expect("bound");
        let copies = vec![old[0].try_clone().expect("copies")];
        let source = ListenerSource::inheriting(2, copies).expect("bound");
        let waiting = std::net::TcpStream::connect(address).expect("the old socket listens");
        let sockets = source.open(address).expect("one inherited, one new");
        assert_eq!(sockets.len(), 2);
        drop(old);
        // The connection has outlived the socket at which it arrived.
        let (_, peer) = sockets[0].accept().expect("a connection waits");
        assert_eq!(Some(peer), waiting.local_addr().ok());
        let again = source.open(address).expect_err("another listens");
        assert_eq!(again.kind(), io::ErrorKind::AddrInUse);
    }

    #[test]
    fn unused_sockets_are_closed() {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let old = listen_shared(any, 1).expect("a port");
        let address = old[0].local_addr().expect("bound");
        let source = ListenerSource::inheriting(1, old).expect("bound");
        assert_eq!(source.close_unused(), [address]);
        std::net::TcpStream::connect(address).expect_err("no socket listens");
        assert!(source.close_unused().is_empty());
    }
}
