//! A socket, plain or with TLS around it.

use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;

use mio::net::TcpStream;
use rustls::Connection;

/// What bytes come from and go to.
#[derive(Debug)]
pub(super) enum SocketStream {
    Plain(TcpStream),
    Tls(Box<TlsStream>),
}

/// What reading brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Input {
    /// Bytes at the front of the buffer.
    pub(super) count: usize,
    /// The socket is empty; an event tells of more.
    pub(super) drained: bool,
    /// Nothing more will come.
    pub(super) ended: bool,
}

impl SocketStream {
    pub(super) fn tls(socket: TcpStream, tls: impl Into<Connection>) -> Self {
        let mut tls = tls.into();
        tls.set_buffer_limit(Some(SEALED_BYTES_MAX));
        Self::Tls(Box::new(TlsStream { socket, tls }))
    }

    pub(super) fn socket(&mut self) -> &mut TcpStream {
        match self {
            Self::Plain(socket) => socket,
            Self::Tls(sealed) => &mut sealed.socket,
        }
    }

    /// Whether nothing stands between the bytes and the socket.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    pub(super) fn is_handshaking(&self) -> bool {
        matches!(self, Self::Tls(sealed) if sealed.tls.is_handshaking())
    }

    /// Reads what is there, up to the length of `buffer`.
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
            Self::Tls(sealed) => sealed.read(buffer),
        }
    }

    /// Writes as much as is taken now; how much that is.
    pub(super) fn write(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => write_some(socket, slices),
            Self::Tls(sealed) => sealed.write(slices),
        }
    }

    /// Whether TLS itself has something to send.
    pub(super) fn wants_write(&self) -> bool {
        matches!(self, Self::Tls(sealed) if sealed.tls.wants_write())
    }

    /// Sends what TLS itself has to send, as far as it is taken.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Tls(sealed) => sealed.flush(),
        }
    }

    /// Nothing more is sent.
    pub(super) fn finish(&mut self) {
        if let Self::Tls(sealed) = self {
            sealed.tls.send_close_notify();
            // A peer that takes nothing any more learns it from the socket.
            let _ = sealed.flush();
        }
        // A peer that is gone already makes this fail, which changes nothing.
        let _ = self.socket().shutdown(Shutdown::Write);
    }
}

/// TLS with its own buffers.
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
            // Answers of the handshake; after an error the peer is told why.
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
                    // During the handshake nothing more is kept than the limit allows.
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

/// Takes what was opened already.
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
            // The peer closed without saying so: the same as an end here.
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

/// Bytes that TLS may hold for a socket that does not take them.
const SEALED_BYTES_MAX: usize = 64 * 1024;
