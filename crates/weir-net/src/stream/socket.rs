//! One read from a socket, one write to it, and the result of connecting it.

use std::io::{self, IoSlice, Read, Write};

use mio::net::TcpStream;

/// Result of one read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Input {
    /// Number of bytes read from the socket.
    pub wire: usize,
    /// Number of bytes for the handler, at the front of the buffer.
    pub plain: usize,
    /// The peer has closed its direction.
    pub ended: bool,
    /// The socket is empty; the next readable event reports new input.
    pub drained: bool,
}

/// Reads once. Returns `None` if the socket is empty.
pub(super) fn read_some(socket: &mut TcpStream, out: &mut [u8]) -> io::Result<Option<usize>> {
    loop {
        match socket.read(out) {
            Ok(count) => return Ok(Some(count)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Writes once. Returns how many bytes the socket accepted, 0 if it is full.
pub(super) fn write_some(socket: &mut impl Write, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        let written = match slices {
            [one] => socket.write(one),
            more => socket.write_vectored(more),
        };
        match written {
            Ok(0) if slices.iter().any(|slice| !slice.is_empty()) => {
                return Err(io::ErrorKind::WriteZero.into());
            }
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns `true` if a socket is connected, `false` if the attempt is still in progress.
pub fn connect_result(socket: &TcpStream) -> io::Result<bool> {
    if let Some(error) = socket.take_error()? {
        return Err(error);
    }
    match socket.peer_addr() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
        Err(error) => Err(error),
    }
}
