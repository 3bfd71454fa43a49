//! Results of reads and writes that do not wait.

use std::io;

use tokio::net::TcpStream;

/// Number of bytes of one read; none at all if the peer has closed the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Received {
    /// From the socket.
    pub(super) wire: usize,
    /// Decrypted.
    pub(super) plain: usize,
}

#[derive(Debug)]
pub(super) enum TransportError {
    Io(io::Error),
    Tls(rustls::Error),
}

/// Writes as much as the socket takes, and returns the number of bytes.
pub(super) fn try_write(socket: &TcpStream, bytes: &[u8]) -> io::Result<usize> {
    let mut taken = 0;
    while taken < bytes.len() {
        match socket.try_write(&bytes[taken..]) {
            Ok(count) => taken += count,
            Err(error) if would_block(&error) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(taken)
}

pub(super) fn would_block(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::WouldBlock
}
