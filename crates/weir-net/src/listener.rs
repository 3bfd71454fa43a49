//! Listening sockets shared by several event loops.

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Socket, Type};

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
