//! A connection to one broker, with encryption and login: sends one request at a time and reads
//! its response. Metadata requests and consumers have their own.

use std::cell::RefCell;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Mutex;

use super::config::LeanConfig;
use super::error::LeanError;
use super::socket_io::{Received, TransportError, try_write};
use super::tls::{TlsBuffers, TlsTransport};
use super::transport::Transport;
use crate::secure::{BrokerSecurity, TlsFailure};
use weir_sasl::client::{LoginDialogue, LoginError, LoginProgress, LoginSession, SaslExchange};
use weir_wire::EncodeError;
use weir_wire::frame::KafkaFrameReader;
use weir_wire::header::read_response_v0;

/// Address of one broker.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BrokerAddress {
    /// Name of which the broker's certificate must be.
    pub(super) host: Rc<str>,
    /// Resolved.
    pub(super) socket: SocketAddr,
}

/// State that all connections of a thread share.
pub(super) struct LinkContext {
    security: BrokerSecurity,
    client_id: String,
    /// Buffer for reads from all sockets of the thread. Only incomplete frames are stored
    /// elsewhere.
    read_buffer: RefCell<Vec<u8>>,
    write_buffer: RefCell<BytesMut>,
    /// Buffer of a large response that was read; the next one is stored in it.
    spare_frame: RefCell<Vec<u8>>,
    tls_buffers: RefCell<TlsBuffers>,
    /// One task at a time asks for a token; the others find it in the source's cache.
    token_request: Mutex<()>,
}

impl LinkContext {
    pub(super) fn new(config: &LeanConfig) -> Result<Self, LeanError> {
        Ok(Self {
            security: BrokerSecurity::new(&config.kafka.security)
                .map_err(|error| LeanError::Security(Box::new(error)))?,
            client_id: config.client_id.clone(),
            read_buffer: RefCell::new(vec![0; READ_BUFFER_BYTES]),
            write_buffer: RefCell::default(),
            spare_frame: RefCell::default(),
            tls_buffers: RefCell::default(),
            token_request: Mutex::new(()),
        })
    }

    pub(super) fn is_secured(&self) -> bool {
        self.security.is_encrypted() || self.security.needs_login()
    }

    /// Begins a login. A token is read on another thread, because that may block.
    async fn begin_login(
        &self,
        address: &BrokerAddress,
    ) -> Result<Option<SaslExchange>, LeanError> {
        let failed = |error| login_error(address, error);
        if !self.security.may_block() {
            return self.security.begin_login(&address.host).map_err(failed);
        }
        let _guard = self.token_request.lock().await;
        let (security, host) = (self.security.clone(), address.host.to_string());
        let login = tokio::task::spawn_blocking(move || security.begin_login(&host));
        match login.await {
            Ok(exchange) => exchange.map_err(failed),
            Err(error) => Err(connection_error(address, &error)),
        }
    }
}

pub(super) struct BrokerLink {
    transport: Transport,
    frames: KafkaFrameReader,
    correlation_id: i32,
    address: BrokerAddress,
    /// `None` without login.
    session: Option<LoginSession>,
    has_response: bool,
}

impl BrokerLink {
    /// Connects, encrypts and logs in. Responses may have up to `frame_bytes_max` bytes.
    pub(super) async fn open(
        context: &LinkContext,
        address: &BrokerAddress,
        source: Option<IpAddr>,
        frame_bytes_max: usize,
        timeout: Duration,
    ) -> Result<Self, LeanError> {
        let connecting = tokio::time::timeout(timeout, connect(address.socket, source));
        let socket = match connecting.await {
            Ok(Ok(socket)) => socket,
            Ok(Err(error)) => return Err(connection_error(address, &error)),
            Err(_) => return Err(connection_error(address, &"connect timed out")),
        };
        let mut link = Self {
            transport: transport(context, address, socket)?,
            frames: KafkaFrameReader::new(frame_bytes_max),
            correlation_id: 0,
            address: address.clone(),
            session: None,
            has_response: false,
        };
        if context.is_secured() {
            // Boxed: tasks of plaintext connections need no memory for it.
            Box::pin(link.secure(context)).await?;
        }
        Ok(link)
    }

    pub(super) fn address(&self) -> &BrokerAddress {
        &self.address
    }

    /// Sends one request and reads its response. The broker may delay the response by `max_wait`.
    /// Logs in again first if the session is about to end.
    pub(super) async fn exchange(
        &mut self,
        context: &LinkContext,
        max_wait: Duration,
        write: impl FnOnce(&mut BytesMut, i32) -> Result<(), EncodeError>,
        read: impl FnMut(&[u8]) -> Result<(), LeanError>,
        on_bytes: impl FnMut(usize),
    ) -> Result<(), LeanError> {
        if self.session.is_some_and(|it| it.is_due(Instant::now())) {
            Box::pin(self.secure(context)).await?;
        }
        self.send(context, write).await?;
        let response = self.receive(context, read, on_bytes);
        match tokio::time::timeout(max_wait + RESPONSE_TIMEOUT, response).await {
            Ok(outcome) => outcome,
            Err(_) => Err(connection_error(
                &self.address,
                &"no response before the timeout",
            )),
        }
    }

    /// Completes the TLS handshake and logs in.
    async fn secure(&mut self, context: &LinkContext) -> Result<(), LeanError> {
        let address = self.address.clone();
        let secured = async {
            self.handshake(context).await?;
            self.log_in(context).await
        };
        match tokio::time::timeout(SECURE_TIMEOUT, secured).await {
            Ok(outcome) => outcome,
            Err(_) => Err(connection_error(
                &address,
                &"TLS handshake or login timed out",
            )),
        }
    }

    async fn handshake(&mut self, context: &LinkContext) -> Result<(), LeanError> {
        let Transport::Tls(tls) = &mut self.transport else {
            return Ok(());
        };
        let address = &self.address;
        let failed = |error| connection_error(address, &error);
        loop {
            tls.flush().map_err(failed)?;
            if tls.wants_write() {
                tls.socket.writable().await.map_err(failed)?;
                continue;
            }
            if !tls.is_handshaking() {
                return Ok(());
            }
            tls.socket.readable().await.map_err(failed)?;
            let mut buffer = context.read_buffer.borrow_mut();
            let received = tls.try_read(&mut buffer, &context.tls_buffers);
            let received = received.map_err(|error| transport_error(address, error))?;
            if received == Some(Received::default()) {
                let reason = "closed by the broker in the TLS handshake: its listener may not use \
                              TLS";
                return Err(connection_error(address, &reason));
            }
        }
    }

    async fn log_in(&mut self, context: &LinkContext) -> Result<(), LeanError> {
        let Some(exchange) = context.begin_login(&self.address).await? else {
            return Ok(());
        };
        let mut dialogue = LoginDialogue::new(exchange, self.session.as_ref());
        let address = self.address.clone();
        let spread = self.spread();
        loop {
            self.send(context, |out, id| {
                dialogue.write(out, id, &context.client_id)
            })
            .await?;
            let mut complete = None;
            let read = |frame: &[u8]| {
                let progress = dialogue.read(frame, Instant::now(), spread);
                if let LoginProgress::Complete(session) =
                    progress.map_err(|error| login_error(&address, error))?
                {
                    complete = Some(session);
                }
                Ok(())
            };
            self.receive(context, read, |_| ()).await?;
            if complete.is_some() {
                self.session = complete;
                return Ok(());
            }
        }
    }

    /// Returns a number that differs between connections: their local ports do.
    fn spread(&self) -> u8 {
        let local = self.transport.socket().local_addr();
        local.map_or(0, |local| (local.port() % 256) as u8)
    }

    async fn send(
        &mut self,
        context: &LinkContext,
        write: impl FnOnce(&mut BytesMut, i32) -> Result<(), EncodeError>,
    ) -> Result<(), LeanError> {
        self.correlation_id = self.correlation_id.wrapping_add(1);
        let unsent = {
            let mut out = context.write_buffer.borrow_mut();
            out.clear();
            write(&mut out, self.correlation_id)?;
            let sent = self.transport.try_send(&out, &context.tls_buffers);
            sent.map_err(|error| transport_error(&self.address, error))?
        };
        let (mut left, socket) = (unsent.as_slice(), self.transport.socket());
        while !left.is_empty() {
            let failed = |error| connection_error(&self.address, &error);
            socket.writable().await.map_err(failed)?;
            let taken = try_write(socket, left).map_err(failed)?;
            left = &left[taken..];
        }
        Ok(())
    }

    async fn receive(
        &mut self,
        context: &LinkContext,
        mut read: impl FnMut(&[u8]) -> Result<(), LeanError>,
        mut on_bytes: impl FnMut(usize),
    ) -> Result<(), LeanError> {
        let expected = self.correlation_id;
        loop {
            let address = &self.address;
            let ready = self.transport.socket().readable().await;
            ready.map_err(|error| connection_error(address, &error))?;
            let mut buffer = context.read_buffer.borrow_mut();
            let count = self.transport.try_read(&mut buffer, &context.tls_buffers);
            let count = match count.map_err(|error| transport_error(address, error))? {
                None => continue,
                Some(count) if count == Received::default() => return Err(self.closed()),
                Some(count) => count,
            };
            on_bytes(count.wire);
            let mut received = false;
            let mut spare = context.spare_frame.borrow_mut();
            let fed = self
                .frames
                .feed_with(&mut spare, &buffer[..count.plain], |frame| {
                    let (id, body) = read_response_v0(frame)?;
                    if id != expected || received {
                        let reason = "response without a matching request";
                        return Err(connection_error(address, &reason));
                    }
                    received = true;
                    read(body)
                });
            fed.map_err(|error| self.wire_error(error))?;
            if received {
                self.has_response = true;
                return Ok(());
            }
        }
    }

    fn closed(&self) -> LeanError {
        let reason = match self.has_response {
            true => "closed by the broker",
            false => {
                "closed by the broker before its first response: if the listener requires TLS, a \
                 client certificate or a login, set security.protocol and what belongs to it"
            }
        };
        connection_error(&self.address, &reason)
    }

    /// Names the cause of an impossible first frame: the listener uses TLS.
    fn wire_error(&self, error: LeanError) -> LeanError {
        match &error {
            LeanError::Wire(wire) if !self.has_response => match TlsFailure::from_wire(wire) {
                Some(failure) => tls_error(&self.address, failure),
                None => error,
            },
            _ => error,
        }
    }
}

fn transport(
    context: &LinkContext,
    address: &BrokerAddress,
    socket: TcpStream,
) -> Result<Transport, LeanError> {
    let tls = context.security.tls(&address.host);
    let Some((config, name)) = tls.map_err(|error| tls_error(address, error))? else {
        return Ok(Transport::Plain(socket));
    };
    let tls = TlsTransport::new(socket, config, name, &context.tls_buffers);
    let tls = tls.map_err(|error| transport_error(address, error))?;
    Ok(Transport::Tls(Box::new(tls)))
}

async fn connect(address: SocketAddr, source: Option<IpAddr>) -> std::io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    if let Some(source) = source {
        socket.bind(SocketAddr::new(source, 0))?;
    }
    let stream = socket.connect(address).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

fn transport_error(address: &BrokerAddress, error: TransportError) -> LeanError {
    match error {
        TransportError::Io(error) => connection_error(address, &error),
        TransportError::Tls(error) => {
            tls_error(address, TlsFailure::from_rustls(&error, &address.host))
        }
    }
}

fn tls_error(address: &BrokerAddress, failure: TlsFailure) -> LeanError {
    LeanError::Encryption {
        address: address.socket.to_string(),
        failure: Box::new(failure),
    }
}

fn login_error(address: &BrokerAddress, error: LoginError) -> LeanError {
    LeanError::Login {
        address: address.socket.to_string(),
        error: Box::new(error),
    }
}

pub(super) fn connection_error(address: &BrokerAddress, reason: &dyn ToString) -> LeanError {
    LeanError::Connection {
        address: address.socket.to_string(),
        reason: reason.to_string(),
    }
}

/// Large enough for a typical fetch response in one read.
const READ_BUFFER_BYTES: usize = 256 << 10;
/// Timeout of a response, in addition to the time the broker may delay it.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(30);
/// Timeout of handshake and login, with the request of a token.
const SECURE_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests;
