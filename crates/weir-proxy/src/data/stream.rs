//! A socket with or without TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use rustls::Connection;

/// The byte stream of a connection.
#[derive(Debug)]
pub(super) enum SocketStream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

/// The result of a read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Input {
    /// Number of bytes at the start of the buffer.
    pub(super) count: usize,
    /// The socket is empty; an event reports further bytes.
    pub(super) drained: bool,
    /// The peer has closed; no bytes follow.
    pub(super) ended: bool,
}

impl SocketStream {
    pub(super) fn tls(socket: TcpStream, tls: impl Into<Connection>) -> Self {
        let mut tls = tls.into();
        tls.set_buffer_limit(Some(TLS_BUFFER_BYTES_MAX));
        Self::Tls(Box::new(TlsStream { socket, tls }))
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &mut stream.socket,
        }
    }

    /// Returns `true` if the stream does not use TLS.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.tls.is_handshaking())
    }

    /// Reads available bytes, up to the length of `buffer`.
    pub(super) fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        match self {
            Self::Plain(socket) => loop {
                match socket.read(buffer) {
                    Ok(count) => {
                        return Ok(Input {
                            count,
                            drained: count < buffer.len(),
                            ended: count == 0,
                        });
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                        return Ok(Input {
                            drained: true,
                            ..Input::default()
                        });
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            },
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    /// Writes as much as the socket accepts. Returns the number of bytes written.
    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => write_some(socket, slices),
            Self::Tls(stream) => stream.write(slices),
        }
    }

    /// Returns `true` if TLS records are waiting to be sent.
    pub(super) fn wants_write(&self) -> bool {
        matches!(self, Self::Tls(stream) if stream.tls.wants_write())
    }

    /// Sends waiting TLS records as far as the socket accepts them.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(stream) => stream.flush(),
        }
    }

    /// Closes the sending direction.
    pub(super) fn finish(&mut self) {
        if let Self::Tls(stream) = self {
            stream.tls.send_close_notify();
            // A peer that reads nothing more sees the close of the socket.
            let _ = stream.flush();
        }
        // Fails if the peer has already closed, which changes nothing.
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

/// A TLS connection with its own buffers.
#[derive(Debug)]
pub(super) struct TlsStream {
    socket: TcpStream,
    tls: Connection,
}

impl TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<Input> {
        let mut input = Input::default();
        loop {
            input.count += read_plain(&mut self.tls, &mut buffer[input.count..], &mut input.ended)?;
            if input.count == buffer.len() || input.ended {
                return Ok(input);
            }
            match self.tls.read_tls(&mut self.socket) {
                Ok(0) => {
                    input.ended = true;
                    return Ok(input);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    input.drained = true;
                    return Ok(input);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            }
            let processed = self.tls.process_new_packets();
            // Sends handshake messages, and after an error the alert.
            self.flush()?;
            processed.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        }
    }

    fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let mut taken = 0;
        for slice in slices {
            let mut rest = &slice[..];
            while !rest.is_empty() {
                let count = self.tls.writer().write(rest)?;
                taken += count;
                rest = &rest[count..];
                self.flush()?;
                if count == 0 && self.tls.wants_write() {
                    return Ok(taken);
                }
                if count == 0 {
                    // During the handshake TLS stores no more than its limit.
                    return Ok(taken);
                }
            }
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Reads bytes that are already decrypted.
fn read_plain(tls: &mut Connection, buffer: &mut [u8], ended: &mut bool) -> io::Result<usize> {
    let mut count = 0;
    while count < buffer.len() {
        match tls.reader().read(&mut buffer[count..]) {
            Ok(0) => {
                *ended = true;
                break;
            }
            Ok(more) => count += more,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // The peer closed without close_notify. This is treated as a normal end.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                *ended = true;
                break;
            }
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

fn write_some(socket: &mut TcpStream, slices: &[IoSlice<'_>]) -> io::Result<usize> {
    loop {
        let written = match slices {
            [one] => socket.write(one),
            more => socket.write_vectored(more),
        };
        match written {
            Ok(count) => return Ok(count),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Maximum bytes of encrypted records that TLS stores for a socket.
const TLS_BUFFER_BYTES_MAX: usize = 64 * 1024;
