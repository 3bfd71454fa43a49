//! Requests over a blocking connection to one broker, next to those of librdkafka, with the same
//! encryption and login.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::ResponseHeader;
use kafka_protocol::protocol::{Decodable, HeaderVersion, Request};
use rustls::{ClientConnection, StreamOwned};
use thiserror::Error;

use crate::connect_error::ConnectError;
use crate::secure::{BrokerSecurity, TlsFailure};
use weir_sasl::client::{LoginDialogue, LoginError, LoginProgress, LoginSession};
use weir_wire::frame::{KafkaFrameReader, SIZE_BYTES};
use weir_wire::header::write_request;
use weir_wire::io_reason::io_reason;
use weir_wire::{EncodeError, WireError};

/// Reason why a request has no response.
#[derive(Debug, Error)]
enum ExchangeError {
    #[error("{}", io_reason(.0))]
    Io(io::Error),
    #[error("closed by the broker")]
    Closed,
    #[error(
        "closed by the broker before its first response: if the listener requires TLS, a client \
         certificate or a login, set security.protocol and what belongs to it"
    )]
    ClosedAtOnce,
    #[error(
        "no response in time: check that this is the port of a Kafka broker, and that it uses the \
         encryption of security.protocol"
    )]
    Silent,
    #[error("the first response is not one of Kafka: check that this is the port of a broker")]
    NotKafka,
    #[error(transparent)]
    Tls(Box<TlsFailure>),
    #[error(transparent)]
    Login(Box<LoginError>),
    #[error("invalid response: {0}")]
    Wire(#[from] WireError),
    #[error("invalid response header: {0}")]
    Header(String),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error("response to another request")]
    Mismatch,
}

impl ExchangeError {
    /// Returns the error of an operation on the connection to `host`.
    fn from_io(error: io::Error, host: &str, is_first: bool) -> Self {
        let of_tls = error.get_ref();
        let of_tls = of_tls.and_then(|error| error.downcast_ref::<rustls::Error>());
        if let Some(error) = of_tls {
            return Self::from(TlsFailure::from_rustls(error, host));
        }
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset if is_first => Self::ClosedAtOnce,
            ErrorKind::UnexpectedEof => Self::Closed,
            ErrorKind::WouldBlock | ErrorKind::TimedOut if is_first => Self::Silent,
            _ => Self::Io(error),
        }
    }

    fn from_wire(error: WireError, is_first: bool) -> Self {
        match TlsFailure::from_wire(&error) {
            Some(failure) => Self::from(failure),
            // Text, for example of HTTP, is an impossible length.
            None if is_first => Self::NotKafka,
            None => Self::Wire(error),
        }
    }

    fn of_broker(self, broker: &str) -> ConnectError {
        let broker = broker.to_owned();
        match self {
            Self::Tls(failure) => ConnectError::Encryption { broker, failure },
            Self::Login(error) => ConnectError::Rejected { broker, error },
            error => ConnectError::Io {
                broker,
                reason: error.to_string(),
            },
        }
    }
}

impl From<TlsFailure> for ExchangeError {
    fn from(failure: TlsFailure) -> Self {
        Self::Tls(Box::new(failure))
    }
}

impl From<LoginError> for ExchangeError {
    fn from(error: LoginError) -> Self {
        Self::Login(Box::new(error))
    }
}

/// A connection to one broker, over the network unless in tests.
#[derive(Debug)]
pub(crate) struct BrokerStream<S = BrokerSocket> {
    stream: S,
    host: String,
    /// `host:port`, for errors.
    broker: String,
    security: Arc<BrokerSecurity>,
    session: Option<LoginSession>,
    correlation_id: i32,
    has_response: bool,
}

/// A socket with or without TLS.
#[derive(Debug)]
pub(crate) enum BrokerSocket {
    Plain(TcpStream),
    Tls(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl BrokerSocket {
    fn tcp(&self) -> &TcpStream {
        match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => &stream.sock,
        }
    }
}

impl Read for BrokerSocket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }
}

impl Write for BrokerSocket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::Tls(stream) => stream.flush(),
        }
    }
}

impl BrokerStream {
    /// Connects to the first reachable address of a host. `timeout` also bounds each later read and
    /// write. The TLS handshake and the login follow with the first request.
    pub(crate) fn connect(
        security: &Arc<BrokerSecurity>,
        (host, port): (&str, u16),
        timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let broker = format!("{host}:{port}");
        let socket = open(host, port, timeout);
        let socket = socket.map_err(|error| ConnectError::unreachable(&broker, &error))?;
        let stream = encrypt(socket, security, host);
        let stream = stream.map_err(|error| ExchangeError::from(error).of_broker(&broker))?;
        Ok(Self::new(stream, (host, port), security))
    }

    /// Sets the timeout of each read.
    pub(crate) fn set_read_timeout(&self, timeout: Duration) -> Result<(), ConnectError> {
        let set = self.stream.tcp().set_read_timeout(Some(timeout));
        set.map_err(|error| self.failed(error))
    }

    /// Returns a handle by which another thread can close the connection.
    pub(crate) fn socket(&self) -> Result<TcpStream, ConnectError> {
        let socket = self.stream.tcp().try_clone();
        socket.map_err(|error| self.failed(error))
    }
}

fn encrypt(
    socket: TcpStream,
    security: &BrokerSecurity,
    host: &str,
) -> Result<BrokerSocket, TlsFailure> {
    let Some((config, name)) = security.tls(host)? else {
        return Ok(BrokerSocket::Plain(socket));
    };
    let tls = ClientConnection::new(config, name);
    let tls = tls.map_err(|error| TlsFailure::from_rustls(&error, host))?;
    Ok(BrokerSocket::Tls(Box::new(StreamOwned::new(tls, socket))))
}

impl<S: Read + Write> BrokerStream<S> {
    fn new(stream: S, (host, port): (&str, u16), security: &Arc<BrokerSecurity>) -> Self {
        Self {
            stream,
            host: host.to_owned(),
            broker: format!("{host}:{port}"),
            security: Arc::clone(security),
            session: None,
            correlation_id: 0,
            has_response: false,
        }
    }

    /// Sends a request and returns the body of its response. Logs in before the first request, and
    /// again before the login ends.
    pub(crate) fn exchange<R: Request>(
        &mut self,
        client_id: &str,
        version: i16,
        body: &R,
    ) -> Result<Bytes, ConnectError> {
        let response = self.exchange_at(Instant::now(), client_id, version, body);
        response.map_err(|error| error.of_broker(&self.broker))
    }

    /// Returns an error of this broker.
    pub(crate) fn failed(&self, error: io::Error) -> ConnectError {
        ConnectError::io(&self.broker, error)
    }

    /// Returns an error of this broker for an invalid response.
    pub(crate) fn invalid(&self, error: WireError) -> ConnectError {
        ExchangeError::Wire(error).of_broker(&self.broker)
    }

    /// Sends the request that `write` encodes with a correlation id, and reads the frame of its
    /// response, of at most `bytes_max` bytes, to the start of `buffer`. Old bytes of the buffer
    /// are overwritten, not removed. Returns the correlation id and the length of the frame.
    pub(crate) fn exchange_into(
        &mut self,
        client_id: &str,
        (buffer, bytes_max): (&mut Vec<u8>, usize),
        write: impl FnOnce(&mut BytesMut, i32) -> Result<(), EncodeError>,
    ) -> Result<(i32, usize), ConnectError> {
        let outcome = self.exchange_into_at(Instant::now(), client_id, (buffer, bytes_max), write);
        outcome.map_err(|error| error.of_broker(&self.broker))
    }

    fn exchange_into_at(
        &mut self,
        now: Instant,
        client_id: &str,
        (buffer, bytes_max): (&mut Vec<u8>, usize),
        write: impl FnOnce(&mut BytesMut, i32) -> Result<(), EncodeError>,
    ) -> Result<(i32, usize), ExchangeError> {
        if self.session.is_none_or(|session| session.is_due(now)) {
            self.log_in(now, client_id)?;
        }
        let number = self.next_id();
        let mut request = BytesMut::new();
        write(&mut request, number)?;
        self.send(&request)?;
        Ok((number, self.read_into(buffer, bytes_max)?))
    }

    fn exchange_at<R: Request>(
        &mut self,
        now: Instant,
        client_id: &str,
        version: i16,
        body: &R,
    ) -> Result<Bytes, ExchangeError> {
        if self.session.is_none_or(|session| session.is_due(now)) {
            self.log_in(now, client_id)?;
        }
        let number = self.next_id();
        let mut request = BytesMut::new();
        write_request(&mut request, version, number, client_id, body)?;
        let response = self.round_trip(&request)?;
        body_of(response, R::Response::header_version(version), number)
    }

    fn log_in(&mut self, now: Instant, client_id: &str) -> Result<(), ExchangeError> {
        let Some(exchange) = self.security.begin_login(&self.host)? else {
            return Ok(());
        };
        let mut dialogue = LoginDialogue::new(exchange, self.session.as_ref());
        let spread = self.host.bytes().fold(0, u8::wrapping_add);
        loop {
            let number = self.next_id();
            let mut request = BytesMut::new();
            dialogue.write(&mut request, number, client_id)?;
            let frame = body_of(self.round_trip(&request)?, 0, number)?;
            if let LoginProgress::Complete(session) = dialogue.read(&frame, now, spread)? {
                self.session = Some(session);
                return Ok(());
            }
        }
    }

    fn next_id(&mut self) -> i32 {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        self.correlation_id
    }

    /// Sends a frame and returns the next one received.
    fn round_trip(&mut self, request: &[u8]) -> Result<Bytes, ExchangeError> {
        self.send(request)?;
        let frame = self.read_frame()?;
        self.has_response = true;
        Ok(frame)
    }

    fn send(&mut self, request: &[u8]) -> Result<(), ExchangeError> {
        let is_first = !self.has_response;
        let outcome = self.stream.write_all(request);
        let outcome = outcome.and_then(|()| self.stream.flush());
        outcome.map_err(|error| ExchangeError::from_io(error, &self.host, is_first))
    }

    /// Reads one frame without its prefix to the start of `buffer`, which grows to at most twice
    /// the bytes that arrived.
    fn read_into(&mut self, buffer: &mut Vec<u8>, max: usize) -> Result<usize, ExchangeError> {
        let mut prefix = [0; SIZE_BYTES];
        self.read_exact(&mut prefix)?;
        let size = i64::from(i32::from_be_bytes(prefix));
        let what = "frame size";
        let length = usize::try_from(size).map_err(|_| WireError::Length { what, value: size });
        let length = length.map_err(|error| ExchangeError::from_wire(error, !self.has_response))?;
        if length > max {
            let error = WireError::FrameTooLarge {
                bytes: length as u64,
                bytes_max: max,
            };
            return Err(ExchangeError::from_wire(error, !self.has_response));
        }
        let mut filled = 0;
        while filled < length {
            if buffer.len() < length {
                let grown = (2 * filled).max(READ_BYTES_MIN).min(length);
                if buffer.len() < grown {
                    buffer.resize(grown, 0);
                }
            }
            let end = buffer.len().min(length);
            self.read_exact(&mut buffer[filled..end])?;
            filled = end;
        }
        self.has_response = true;
        Ok(length)
    }

    fn read_exact(&mut self, buffer: &mut [u8]) -> Result<(), ExchangeError> {
        let is_first = !self.has_response;
        let read = self.stream.read_exact(buffer);
        read.map_err(|error| ExchangeError::from_io(error, &self.host, is_first))
    }

    fn read_frame(&mut self) -> Result<Bytes, ExchangeError> {
        let mut frames = KafkaFrameReader::new(FRAME_BYTES_MAX);
        let mut buffer = vec![0; 16 << 10];
        let mut complete = None;
        loop {
            let count = match self.stream.read(&mut buffer) {
                Ok(0) => Err(ErrorKind::UnexpectedEof.into()),
                count => count,
            };
            let is_first = !self.has_response;
            let count =
                count.map_err(|error| ExchangeError::from_io(error, &self.host, is_first))?;
            let fed = frames.feed::<WireError>(&buffer[..count], |frame| {
                complete = Some(Bytes::copy_from_slice(frame));
                Ok(())
            });
            fed.map_err(|error| ExchangeError::from_wire(error, is_first))?;
            if let Some(frame) = complete.take() {
                return Ok(frame);
            }
        }
    }
}

/// Returns host and port of each server in a comma-separated list, or an error for those without.
pub(crate) fn servers(list: &str) -> impl Iterator<Item = Result<(&str, u16), ConnectError>> {
    let parts = list
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty());
    parts.map(|server| {
        let invalid = || ConnectError::io(server, io::Error::other("is not HOST:PORT"));
        let (host, port) = server.rsplit_once(':').ok_or_else(invalid)?;
        let inner = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let port = port.parse().map_err(|_| invalid())?;
        Ok((inner.unwrap_or(host), port))
    })
}

fn open(host: &str, port: u16, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::other("host name has no address");
    for address in (host, port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => {
                stream.set_read_timeout(Some(timeout))?;
                stream.set_write_timeout(Some(timeout))?;
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn body_of(
    mut frame: Bytes,
    header_version: i16,
    correlation_id: i32,
) -> Result<Bytes, ExchangeError> {
    let header = ResponseHeader::decode(&mut frame, header_version);
    let header = header.map_err(|error| ExchangeError::Header(error.to_string()))?;
    match header.correlation_id == correlation_id {
        true => Ok(frame),
        false => Err(ExchangeError::Mismatch),
    }
}

const FRAME_BYTES_MAX: usize = 16 << 20;
/// First size of an empty buffer.
const READ_BYTES_MIN: usize = 64 << 10;

#[cfg(test)]
mod tests;
