//! TLS around one socket. The session keeps no buffers of its own while nothing is under way: records
//! are opened and made in buffers of the shard, and only what is not whole, or what the socket did not
//! take, stays here.

use std::io::{self, Read, Write};

use mio::net::TcpStream;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};

use crate::send_queue::{Flushed, SendQueue};

/// Bytes that are made into records at once. What the socket does not take of them can no longer be
/// replaced by something newer, so it is little.
const SEAL_BYTES: usize = 32 * 1024;
/// The most a record adds to what it carries, over two records and some.
const OVERHEAD_BYTES: usize = 512;
/// Room for what TLS itself has to say in one flight: a chain of certificates, mostly.
const FLIGHT_BYTES: usize = 32 * 1024;
/// The most that may be incomplete: a record, or a handshake message, with its overhead.
const PARTIAL_BYTES_MAX: usize = 40 * 1024;

/// What one read brought.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Input {
    /// Bytes taken from the socket.
    pub(super) wire: usize,
    /// Bytes for the handler, at the front of the buffer.
    pub(super) plain: usize,
    /// Nothing more will come.
    pub(super) ended: bool,
    /// The socket is empty, and an event will tell of more.
    pub(super) drained: bool,
}

/// Buffers that all TLS connections of a shard share.
#[derive(Debug, Default)]
pub(super) struct TlsBuffers {
    /// Records as they come.
    pub(super) incoming: Vec<u8>,
    /// What the next records are made from.
    pub(super) plain: Vec<u8>,
    /// Records as they leave.
    pub(super) outgoing: Vec<u8>,
}

/// A socket with TLS.
pub(super) struct TlsStream {
    pub(super) socket: TcpStream,
    tls: UnbufferedServerConnection,
    /// Came in and is not whole yet.
    partial: Vec<u8>,
    /// Records that the socket has not taken, from `written` on.
    outgoing: Vec<u8>,
    written: usize,
    /// Nothing goes in or out any more.
    failed: bool,
    peer_closed: bool,
    said_goodbye: bool,
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sealed")
            .field("socket", &self.socket)
            .field("handshaking", &self.is_handshaking())
            .finish_non_exhaustive()
    }
}

/// What working through the bytes that are there has led to.
struct DecryptResult {
    plain: usize,
    /// Bytes at the front that are dealt with.
    used: usize,
    failed: Option<rustls::Error>,
}

impl TlsStream {
    pub(super) fn new(socket: TcpStream, tls: UnbufferedServerConnection) -> Self {
        Self {
            socket,
            tls,
            partial: Vec::new(),
            outgoing: Vec::new(),
            written: 0,
            failed: false,
            peer_closed: false,
            said_goodbye: false,
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    pub(super) fn wants_write(&self) -> bool {
        self.written < self.outgoing.len()
    }

    /// Takes what one read of the socket brings; no more plain text can come of it than fits `out`.
    pub(super) fn read(&mut self, out: &mut [u8], buffers: &mut TlsBuffers) -> io::Result<Input> {
        if self.peer_closed || self.failed {
            return Ok(Input {
                ended: true,
                ..Input::default()
            });
        }
        let kept = self.partial.len();
        if kept > PARTIAL_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        buffers.incoming.resize(out.len(), 0);
        let incoming = &mut buffers.incoming[..out.len()];
        let wire = self.socket.read(&mut incoming[kept..])?;
        if wire == 0 {
            return Ok(Input {
                ended: true,
                ..Input::default()
            });
        }
        incoming[..kept].copy_from_slice(&self.partial);
        let filled = &mut incoming[..kept + wire];
        let progress = self.process(filled, out, &mut buffers.outgoing);
        if let Some(error) = progress.failed {
            self.failed = true;
            // The peer is told why; whether that arrives changes nothing.
            let _ = self.write_outgoing(&mut Flushed::default());
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        self.keep(&filled[progress.used..]);
        Ok(Input {
            wire,
            plain: progress.plain,
            ended: self.peer_closed && progress.plain == 0,
            drained: false,
        })
    }

    /// Most reads end with a whole record, and then nothing is kept.
    fn keep(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            self.partial = Vec::new();
        } else {
            self.partial.clear();
            self.partial.extend_from_slice(rest);
        }
    }

    /// Works through `incoming`: plain text goes to `out`, answers of TLS itself to those that wait
    /// to be written.
    fn process(
        &mut self,
        incoming: &mut [u8],
        out: &mut [u8],
        flight: &mut Vec<u8>,
    ) -> DecryptResult {
        let mut progress = DecryptResult {
            plain: 0,
            used: 0,
            failed: None,
        };
        loop {
            let UnbufferedStatus { mut discard, state } =
                self.tls.process_tls_records(&mut incoming[progress.used..]);
            let mut idle = false;
            match state {
                Err(error) => {
                    progress.failed = Some(error);
                    self.pending_alert(&mut incoming[progress.used + discard..], flight);
                    return progress;
                }
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    while let Some(record) = traffic.next_record() {
                        match record {
                            Ok(record) => {
                                discard += record.discard;
                                let end = progress.plain + record.payload.len();
                                let Some(place) = out.get_mut(progress.plain..end) else {
                                    progress.failed = Some(rustls::Error::PeerSentOversizedRecord);
                                    return progress;
                                };
                                place.copy_from_slice(record.payload);
                                progress.plain = end;
                            }
                            Err(error) => progress.failed = Some(error),
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let made = encode(&mut message, flight);
                    self.outgoing.extend_from_slice(&flight[..made]);
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::PeerClosed) => self.peer_closed = true,
                // Blocked until more comes, ready to write, or over.
                Ok(_) => idle = true,
            }
            progress.used += discard;
            if idle {
                return progress;
            }
        }
    }

    /// After an error: what the peer is to be told of it. The state may not look at more input then, which
    /// it does not as long as it has something to say.
    fn pending_alert(&mut self, incoming: &mut [u8], flight: &mut Vec<u8>) {
        while self.tls.wants_write() {
            match self.tls.process_tls_records(incoming).state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let made = encode(&mut message, flight);
                    self.outgoing.extend_from_slice(&flight[..made]);
                }
                _ => return,
            }
        }
    }

    /// Writes what waits, then what `outbox` holds, sealed in portions; `done` when nothing is left.
    pub(super) fn flush(
        &mut self,
        outbox: &mut SendQueue,
        buffers: &mut TlsBuffers,
        last: bool,
    ) -> io::Result<Flushed> {
        if self.failed {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let mut flushed = Flushed::default();
        loop {
            if !self.write_outgoing(&mut flushed)? {
                return Ok(flushed);
            }
            if outbox.is_empty() && (!last || self.said_goodbye) {
                flushed.done = true;
                return Ok(flushed);
            }
            let made = self.seal(outbox, buffers)?;
            let records = &buffers.outgoing[..made];
            let taken = write_some(&mut self.socket, records, &mut flushed)?;
            // Usually the socket takes all of it, and nothing is kept here.
            self.outgoing.extend_from_slice(&records[taken..]);
        }
    }

    /// Makes the next records, or the goodbye if there is nothing to put into any. None are made while
    /// TLS itself has something to say, which is left to be written first.
    fn seal(&mut self, outbox: &mut SendQueue, buffers: &mut TlsBuffers) -> io::Result<usize> {
        buffers.plain.resize(SEAL_BYTES, 0);
        let outgoing = &mut buffers.outgoing;
        outgoing.resize(outgoing.len().max(SEAL_BYTES + OVERHEAD_BYTES), 0);
        loop {
            // A handshake message that is not whole is shown again: the state refers to it.
            let UnbufferedStatus { discard, state } =
                self.tls.process_tls_records(&mut self.partial);
            let made = match state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let made = encode(&mut message, outgoing);
                    self.outgoing.extend_from_slice(&outgoing[..made]);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => {
                    transmit.done();
                    None
                }
                Ok(ConnectionState::WriteTraffic(_)) if !self.outgoing.is_empty() => Some(0),
                Ok(ConnectionState::WriteTraffic(mut traffic)) if outbox.is_empty() => {
                    self.said_goodbye = true;
                    Some(traffic.queue_close_notify(outgoing).map_err(refused)?)
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let count = outbox.copy_to(&mut buffers.plain);
                    let made = traffic.encrypt(&buffers.plain[..count], outgoing);
                    outbox.advance(count);
                    Some(made.map_err(refused)?)
                }
                _ => return Err(io::ErrorKind::NotConnected.into()),
            };
            self.partial.drain(..discard);
            if let Some(made) = made {
                return Ok(made);
            }
        }
    }

    /// Whether all that waited is written.
    fn write_outgoing(&mut self, flushed: &mut Flushed) -> io::Result<bool> {
        let rest = &self.outgoing[self.written..];
        self.written += write_some(&mut self.socket, rest, flushed)?;
        if self.wants_write() {
            return Ok(false);
        }
        self.outgoing = Vec::new();
        self.written = 0;
        Ok(true)
    }
}

/// Encodes what TLS itself has to say; how long it is.
fn encode(message: &mut EncodeTlsData<'_, ServerConnectionData>, out: &mut Vec<u8>) -> usize {
    out.resize(out.len().max(FLIGHT_BYTES), 0);
    let mut made = message.encode(out);
    if let Err(EncodeError::InsufficientSize(size)) = &made {
        out.resize(size.required_size, 0);
        made = message.encode(out);
    }
    // There is room now, and nothing is encoded twice.
    made.unwrap_or(0)
}

fn refused(error: EncryptError) -> io::Error {
    let kind = match error {
        EncryptError::InsufficientSize(_) => io::ErrorKind::OutOfMemory,
        EncryptError::EncryptExhausted => io::ErrorKind::ConnectionAborted,
    };
    kind.into()
}

/// How much of `bytes` the socket takes.
fn write_some(socket: &mut TcpStream, bytes: &[u8], flushed: &mut Flushed) -> io::Result<usize> {
    let mut taken = 0;
    while taken < bytes.len() {
        flushed.calls += 1;
        match socket.write(&bytes[taken..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => taken += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    flushed.bytes += taken;
    Ok(taken)
}
