//! TLS of one server connection.
//!
//! A TLS stream stores bytes only while necessary: received bytes of an incomplete record and sent
//! records that the socket has not accepted. Decryption and encryption use buffers that the
//! connections of an event loop share.

use std::io::{self, Read, Write};

use mio::net::TcpStream;
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedStatus,
};

use crate::send_queue::{Flushed, SendQueue};

/// Maximum number of bytes encrypted at a time. It is small because encrypted bytes that the socket
/// does not accept cannot be replaced by newer ones.
const ENCRYPT_BYTES: usize = 32 * 1024;
/// Upper bound of what encryption adds to [`ENCRYPT_BYTES`], which are split into up to three
/// records.
const OVERHEAD_BYTES: usize = 512;
/// Initial buffer size for TLS protocol messages, mostly for a certificate chain.
const FLIGHT_BYTES: usize = 32 * 1024;
/// Maximum size of an incomplete record or handshake message, with its overhead.
const PARTIAL_BYTES_MAX: usize = 40 * 1024;

/// Result of one read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Input {
    /// Number of bytes read from the socket.
    pub(super) wire: usize,
    /// Number of bytes for the handler, at the front of the buffer.
    pub(super) plain: usize,
    /// The peer has closed its direction.
    pub(super) ended: bool,
    /// The socket is empty; the next readable event reports new input.
    pub(super) drained: bool,
}

/// Buffers that all TLS connections of an event loop share.
#[derive(Debug, Default)]
pub(super) struct TlsBuffers {
    /// Records as received.
    pub(super) incoming: Vec<u8>,
    /// Plain text of the next records to send.
    pub(super) plain: Vec<u8>,
    /// Records to send.
    pub(super) outgoing: Vec<u8>,
}

/// A socket with TLS.
pub(super) struct TlsStream {
    pub(super) socket: TcpStream,
    tls: UnbufferedServerConnection,
    /// Received bytes of an incomplete record.
    partial: Vec<u8>,
    /// Records that the socket has not accepted, from `written` on.
    outgoing: Vec<u8>,
    written: usize,
    /// An error occurred; nothing is received or sent any more.
    failed: bool,
    peer_closed: bool,
    sent_close_notify: bool,
}

impl std::fmt::Debug for TlsStream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsStream")
            .field("socket", &self.socket)
            .field("handshaking", &self.is_handshaking())
            .finish_non_exhaustive()
    }
}

/// Result of processing received bytes.
struct DecryptResult {
    plain: usize,
    /// Number of processed bytes at the front.
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
            sent_close_notify: false,
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    pub(super) fn wants_write(&self) -> bool {
        self.written < self.outgoing.len()
    }

    /// Reads once from the socket and decrypts. Reads so little that the plain text fits into
    /// `out`.
    pub(super) fn read(&mut self, out: &mut [u8], buffers: &mut TlsBuffers) -> io::Result<Input> {
        if self.peer_closed || self.failed {
            return Ok(Input {
                ended: true,
                ..Input::default()
            });
        }
        let stored = self.partial.len();
        if stored > PARTIAL_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        buffers.incoming.resize(out.len(), 0);
        let incoming = &mut buffers.incoming[..out.len()];
        let wire = self.socket.read(&mut incoming[stored..])?;
        if wire == 0 {
            return Ok(Input {
                ended: true,
                ..Input::default()
            });
        }
        incoming[..stored].copy_from_slice(&self.partial);
        let filled = &mut incoming[..stored + wire];
        let progress = self.process(filled, out, &mut buffers.outgoing);
        if let Some(error) = progress.failed {
            self.failed = true;
            // The peer gets an alert; if sending fails, nothing changes.
            let _ = self.write_outgoing(&mut Flushed::default());
            return Err(io::Error::new(io::ErrorKind::InvalidData, error));
        }
        self.store_partial(&filled[progress.used..]);
        Ok(Input {
            wire,
            plain: progress.plain,
            ended: self.peer_closed && progress.plain == 0,
            drained: false,
        })
    }

    /// Stores an incomplete record. Most reads end with a complete one, so nothing is stored.
    fn store_partial(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            self.partial = Vec::new();
        } else {
            self.partial.clear();
            self.partial.extend_from_slice(rest);
        }
    }

    /// Decrypts `incoming` into `out` and appends protocol messages of TLS to the outgoing records.
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
                                let Some(target) = out.get_mut(progress.plain..end) else {
                                    progress.failed = Some(rustls::Error::PeerSentOversizedRecord);
                                    return progress;
                                };
                                target.copy_from_slice(record.payload);
                                progress.plain = end;
                            }
                            Err(error) => progress.failed = Some(error),
                        }
                    }
                }
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let encoded = encode(&mut message, flight);
                    self.outgoing.extend_from_slice(&flight[..encoded]);
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => transmit.done(),
                Ok(ConnectionState::PeerClosed) => self.peer_closed = true,
                // Blocked until more input arrives, ready to write, or closed.
                Ok(_) => idle = true,
            }
            progress.used += discard;
            if idle {
                return progress;
            }
        }
    }

    /// Encodes the alert that follows an error. While an alert is pending, rustls does not read
    /// from `incoming`.
    fn pending_alert(&mut self, incoming: &mut [u8], flight: &mut Vec<u8>) {
        while self.tls.wants_write() {
            match self.tls.process_tls_records(incoming).state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let encoded = encode(&mut message, flight);
                    self.outgoing.extend_from_slice(&flight[..encoded]);
                }
                _ => return,
            }
        }
    }

    /// Writes outgoing records, then encrypts and writes `send_queue` in portions. `done` is set
    /// when nothing is left.
    pub(super) fn flush(
        &mut self,
        send_queue: &mut SendQueue,
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
            if send_queue.is_empty() && (!last || self.sent_close_notify) {
                flushed.done = true;
                return Ok(flushed);
            }
            let encoded = self.encrypt_records(send_queue, buffers)?;
            let records = &buffers.outgoing[..encoded];
            let accepted = write_some(&mut self.socket, records, &mut flushed)?;
            // Usually the socket accepts all of it, and nothing is stored here.
            self.outgoing.extend_from_slice(&records[accepted..]);
        }
    }

    /// Encrypts the next records, or close_notify if `send_queue` is empty. Returns 0 if protocol
    /// messages of TLS have to be written first.
    fn encrypt_records(
        &mut self,
        send_queue: &mut SendQueue,
        buffers: &mut TlsBuffers,
    ) -> io::Result<usize> {
        buffers.plain.resize(ENCRYPT_BYTES, 0);
        let outgoing = &mut buffers.outgoing;
        outgoing.resize(outgoing.len().max(ENCRYPT_BYTES + OVERHEAD_BYTES), 0);
        loop {
            // An incomplete handshake message is passed again because rustls refers to it.
            let UnbufferedStatus { discard, state } =
                self.tls.process_tls_records(&mut self.partial);
            let encoded = match state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let encoded = encode(&mut message, outgoing);
                    self.outgoing.extend_from_slice(&outgoing[..encoded]);
                    None
                }
                Ok(ConnectionState::TransmitTlsData(transmit)) => {
                    transmit.done();
                    None
                }
                Ok(ConnectionState::WriteTraffic(_)) if !self.outgoing.is_empty() => Some(0),
                Ok(ConnectionState::WriteTraffic(mut traffic)) if send_queue.is_empty() => {
                    self.sent_close_notify = true;
                    Some(
                        traffic
                            .queue_close_notify(outgoing)
                            .map_err(encrypt_error)?,
                    )
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let count = send_queue.copy_to(&mut buffers.plain);
                    let encoded = traffic.encrypt(&buffers.plain[..count], outgoing);
                    send_queue.advance(count);
                    Some(encoded.map_err(encrypt_error)?)
                }
                _ => return Err(io::ErrorKind::NotConnected.into()),
            };
            self.partial.drain(..discard);
            if let Some(encoded) = encoded {
                return Ok(encoded);
            }
        }
    }

    /// Writes outgoing records. Returns `true` if none are left.
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

/// Encodes a protocol message of TLS and returns its length.
fn encode(message: &mut EncodeTlsData<'_, ServerConnectionData>, out: &mut Vec<u8>) -> usize {
    out.resize(out.len().max(FLIGHT_BYTES), 0);
    let mut encoded = message.encode(out);
    if let Err(EncodeError::InsufficientSize(size)) = &encoded {
        out.resize(size.required_size, 0);
        encoded = message.encode(out);
    }
    // The buffer is large enough now; a message is never encoded twice.
    encoded.unwrap_or(0)
}

fn encrypt_error(error: EncryptError) -> io::Error {
    let kind = match error {
        EncryptError::InsufficientSize(_) => io::ErrorKind::OutOfMemory,
        EncryptError::EncryptExhausted => io::ErrorKind::ConnectionAborted,
    };
    kind.into()
}

/// Writes `bytes` and returns how many the socket accepted.
fn write_some(socket: &mut TcpStream, bytes: &[u8], flushed: &mut Flushed) -> io::Result<usize> {
    let mut accepted = 0;
    while accepted < bytes.len() {
        flushed.calls += 1;
        match socket.write(&bytes[accepted..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => accepted += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    flushed.bytes += accepted;
    Ok(accepted)
}
