//! Listening sockets shared by several event loops.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Length of the kernel's queue of pending connections, large enough for a reconnect storm.
const BACKLOG: i32 = 4096;

/// Opens `count` non-blocking sockets that listen on the same address. The kernel distributes new
/// connections among them (SO_REUSEPORT), so event loops share nothing. Port 0 selects one free
/// port.
///
/// # Errors
/// The address cannot be bound, or another process listens there: with SO_REUSEPORT it would
/// silently get a part of the connections.
pub fn listen_shared(address: SocketAddr, count: usize) -> io::Result<Vec<std::net::TcpListener>> {
    if address.port() != 0 {
        drop(std::net::TcpListener::bind(address)?);
    }
    listen_again(address, count)
}

/// Opens further sockets at an address at which this process listens already, see
/// [`listen_shared`].
pub fn listen_again(
    mut address: SocketAddr,
    count: usize,
) -> io::Result<Vec<std::net::TcpListener>> {
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
pub fn end_stalled(listener: &std::net::TcpListener, timeout: Duration) -> io::Result<()> {
    // Accepted sockets inherit the option, so it needs no call per connection.
    SockRef::from(listener).set_tcp_user_timeout(Some(timeout))
}

/// Sets TCP_NOTSENT_LOWAT on connections that `listener` accepts from now on: the kernel accepts at
/// most `bytes` that it cannot send yet. The rest stays in the send queue, where newer values can
/// replace it.
pub fn limit_unsent(listener: &std::net::TcpListener, bytes: u32) -> io::Result<()> {
    SockRef::from(listener).set_tcp_notsent_lowat(bytes)
}

fn listen(address: SocketAddr) -> io::Result<std::net::TcpListener> {
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
