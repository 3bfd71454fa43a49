//! TLS of one connection, at either end.
//!
//! A TLS stream stores bytes only while necessary: received bytes of an incomplete record, sent
//! records that the socket has not accepted, and plain text that the reader has not taken.
//! Decryption and encryption use buffers that the connections of an event loop share.

use std::io::{self, IoSlice};
use std::ops::DerefMut;

use mio::net::TcpStream;
use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{
    ConnectionState, EncodeError, EncodeTlsData, EncryptError, UnbufferedConnectionCommon,
    UnbufferedStatus,
};

use super::send_queue::{Flushed, SendQueue};
use super::socket::{Input, read_some, write_some};

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
/// Minimum number of bytes to read, with room for an incomplete record.
const READ_BYTES_MIN: usize = 64 * 1024;

/// Buffers that all TLS connections of an event loop share.
#[derive(Debug, Default)]
pub struct TlsBuffers {
    incoming: Vec<u8>,
    /// Plain text of the next records to send.
    plain: Vec<u8>,
    outgoing: Vec<u8>,
}

/// State of TLS at one end.
pub trait TlsSession: DerefMut<Target = UnbufferedConnectionCommon<Self::Data>> {
    /// Type of the end.
    type Data;

    /// Processes records until a new state is reached.
    fn process<'c, 'i>(&'c mut self, records: &'i mut [u8])
    -> UnbufferedStatus<'c, 'i, Self::Data>;
}

impl TlsSession for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }
}

impl TlsSession for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        records: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data> {
        self.process_tls_records(records)
    }
}

/// A socket with TLS.
pub struct TlsStream<S> {
    pub(super) socket: TcpStream,
    tls: S,
    /// Received bytes of an incomplete record.
    partial: Vec<u8>,
    /// Plain text that did not fit into the reader's buffer.
    unread: Vec<u8>,
    /// Records that the socket has not accepted, from `written` on.
    outgoing: Vec<u8>,
    written: usize,
    /// An error occurred; nothing is received or sent any more.
    failed: bool,
    peer_closed: bool,
    sent_close_notify: bool,
}

impl<S: TlsSession> std::fmt::Debug for TlsStream<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TlsStream")
            .field("socket", &self.socket)
            .field("handshaking", &self.is_handshaking())
            .finish_non_exhaustive()
    }
}

struct DecryptResult {
    plain: usize,
    /// Number of processed bytes at the front.
    used: usize,
    failed: Option<rustls::Error>,
}

impl<S: TlsSession> TlsStream<S> {
    /// Creates the stream. A client's first message is then ready to be written.
    pub(super) fn new(socket: TcpStream, tls: S) -> Self {
        let mut stream = Self {
            socket,
            tls,
            partial: Vec::new(),
            unread: Vec::new(),
            outgoing: Vec::new(),
            written: 0,
            failed: false,
            peer_closed: false,
            sent_close_notify: false,
        };
        stream.process(&mut [], &mut [], &mut Vec::new());
        stream
    }

    /// Creates the stream of a server that has already received bytes. Its response is then ready
    /// to be written.
    pub(super) fn with_received(
        socket: TcpStream,
        tls: S,
        mut received: Vec<u8>,
        buffers: &mut TlsBuffers,
    ) -> io::Result<Self> {
        let mut stream = Self::new(socket, tls);
        let progress = stream.process(&mut received, &mut [], &mut buffers.outgoing);
        stream.check(progress.failed)?;
        received.drain(..progress.used);
        stream.partial = received;
        Ok(stream)
    }

    /// Sends the alert of an error and returns it.
    fn check(&mut self, failed: Option<rustls::Error>) -> io::Result<()> {
        let Some(error) = failed else { return Ok(()) };
        self.failed = true;
        // The peer gets an alert; if sending fails, nothing changes.
        let _ = self.write_outgoing(&mut Flushed::default());
        Err(io::Error::new(io::ErrorKind::InvalidData, error))
    }

    pub(super) fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Returns the certificate that the peer has sent, in DER form, after the handshake.
    pub(super) fn peer_certificate(&self) -> Option<&[u8]> {
        let chain = self
            .tls
            .peer_certificates()
            .filter(|_| !self.is_handshaking())?;
        Some(chain.first()?)
    }

    pub(super) fn wants_write(&self) -> bool {
        self.written < self.outgoing.len()
    }

    /// Reads once from the socket and decrypts.
    pub(super) fn read(&mut self, out: &mut [u8], buffers: &mut TlsBuffers) -> io::Result<Input> {
        if !self.unread.is_empty() {
            let plain = self.unread.len().min(out.len());
            out[..plain].copy_from_slice(&self.unread[..plain]);
            self.unread.drain(..plain);
            if self.unread.is_empty() {
                self.unread = Vec::new();
            }
            return Ok(Input {
                plain,
                ..Input::default()
            });
        }
        let ended = Input {
            ended: true,
            ..Input::default()
        };
        if self.peer_closed || self.failed {
            return Ok(ended);
        }
        let stored = self.partial.len();
        if stored > PARTIAL_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let capacity = out.len().max(READ_BYTES_MIN);
        grow(&mut buffers.incoming, capacity);
        let incoming = &mut buffers.incoming[..capacity];
        let wire = match read_some(&mut self.socket, &mut incoming[stored..])? {
            None => {
                return Ok(Input {
                    drained: true,
                    ..Input::default()
                });
            }
            Some(0) => return Ok(ended),
            Some(wire) => wire,
        };
        incoming[..stored].copy_from_slice(&self.partial);
        let filled = &mut incoming[..stored + wire];
        let progress = self.process(filled, out, &mut buffers.outgoing);
        self.check(progress.failed)?;
        let is_short = filled.len() < capacity;
        self.partial.clear();
        self.partial.extend_from_slice(&filled[progress.used..]);
        if self.partial.is_empty() {
            // Most reads end with a complete record, so nothing is stored.
            self.partial = Vec::new();
        }
        Ok(Input {
            wire,
            plain: progress.plain,
            ended: self.peer_closed && progress.plain == 0,
            drained: is_short && !self.peer_closed && self.unread.is_empty(),
        })
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
                self.tls.process(&mut incoming[progress.used..]);
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
                                let fits = record.payload.len().min(out.len() - progress.plain);
                                let (first, rest) = record.payload.split_at(fits);
                                out[progress.plain..][..fits].copy_from_slice(first);
                                progress.plain += fits;
                                self.unread.extend_from_slice(rest);
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
            match self.tls.process(incoming).state {
                Ok(ConnectionState::EncodeTlsData(mut message)) => {
                    let encoded = encode(&mut message, flight);
                    self.outgoing.extend_from_slice(&flight[..encoded]);
                }
                _ => return,
            }
        }
    }

    /// Writes outgoing records, then encrypts and writes `queue` in portions. `done` is set when
    /// nothing is left.
    pub(super) fn flush(
        &mut self,
        queue: &mut SendQueue,
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
            if queue.is_empty() && (!last || self.sent_close_notify) {
                flushed.done = true;
                return Ok(flushed);
            }
            if self.is_handshaking() && !last {
                return Ok(flushed);
            }
            let encoded = self.encrypt_records(queue, buffers)?;
            let records = &buffers.outgoing[..encoded];
            let accepted = write_all(&mut self.socket, records, &mut flushed)?;
            // Usually the socket accepts all of it, and nothing is stored here.
            self.outgoing.extend_from_slice(&records[accepted..]);
        }
    }

    /// Encrypts the next records, or close_notify if `queue` is empty. Returns 0 if protocol
    /// messages of TLS have to be written first.
    fn encrypt_records(
        &mut self,
        queue: &mut SendQueue,
        buffers: &mut TlsBuffers,
    ) -> io::Result<usize> {
        grow(&mut buffers.plain, ENCRYPT_BYTES);
        grow(&mut buffers.outgoing, ENCRYPT_BYTES + OVERHEAD_BYTES);
        let outgoing = &mut buffers.outgoing;
        loop {
            // An incomplete handshake message is passed again because rustls refers to it.
            let UnbufferedStatus { discard, state } = self.tls.process(&mut self.partial);
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
                Ok(ConnectionState::WriteTraffic(mut traffic)) if queue.is_empty() => {
                    self.sent_close_notify = true;
                    Some(
                        traffic
                            .queue_close_notify(outgoing)
                            .map_err(encrypt_error)?,
                    )
                }
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let count = queue.copy_to(&mut buffers.plain);
                    let encoded = traffic.encrypt(&buffers.plain[..count], outgoing);
                    queue.advance(count);
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
        self.written += write_all(&mut self.socket, rest, flushed)?;
        if self.wants_write() {
            return Ok(false);
        }
        self.outgoing = Vec::new();
        self.written = 0;
        Ok(true)
    }
}

/// Encodes a protocol message of TLS and returns its length.
fn encode<D>(message: &mut EncodeTlsData<'_, D>, out: &mut Vec<u8>) -> usize {
    grow(out, FLIGHT_BYTES);
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

fn grow(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
}

/// Writes until all is written or the socket is full. Returns how many bytes it accepted.
fn write_all(socket: &mut TcpStream, bytes: &[u8], flushed: &mut Flushed) -> io::Result<usize> {
    let mut accepted = 0;
    while accepted < bytes.len() {
        flushed.calls += 1;
        match write_some(socket, &[IoSlice::new(&bytes[accepted..])])? {
            0 => break,
            count => accepted += count,
        }
    }
    flushed.bytes += accepted;
    Ok(accepted)
}
