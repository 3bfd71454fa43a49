//! Listening sockets shared by several event loops.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use socket2::{Domain, Protocol, SockRef, Socket, Type};

/// Connections the kernel keeps ready for `accept`; a reconnect storm needs the depth.
const BACKLOG: i32 = 4096;

/// Opens `count` non-blocking sockets that listen on the same address: the kernel spreads new
/// connections over them (SO_REUSEPORT), so event loops share nothing. Port 0 picks one free port.
pub fn listen_shared(address: SocketAddr, count: usize) -> io::Result<Vec<std::net::TcpListener>> {
    let mut address = address;
    let mut listeners = Vec::with_capacity(count);
    for _ in 0..count {
        let listener = listen(address)?;
        address = listener.local_addr()?;
        listeners.push(listener);
    }
    Ok(listeners)
}

/// Has the kernel end every connection accepted from now on whose peer, for so long, acknowledges
/// nothing of what was sent to it, be it that it has vanished or that it does not read: `write` and
/// `read` then fail.
///
/// # Errors
/// When the operating system refuses the option.
pub fn end_stalled(listener: &std::net::TcpListener, after: Duration) -> io::Result<()> {
    // An accepted socket inherits it, so it costs nothing per connection.
    SockRef::from(listener).set_tcp_user_timeout(Some(after))
}

/// Has the kernel take only so many bytes that it cannot send yet, per connection accepted from now
/// on. The rest waits here, where it can still be replaced by something newer.
///
/// # Errors
/// When the operating system refuses the option.
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
