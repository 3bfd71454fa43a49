//! The thread of a connection to an adapter, and how other threads use it.

use std::fmt;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use thiserror::Error;
use weir_identity::ari::{AdapterRequest, NotificationResult, Parameter};
use weir_net::MailboxSender;
use weir_net::descriptors::client_limit;
use weir_net::event_loop::EventLoop;
use weir_net::tls::{ClientTls, TlsError, TlsFiles, TlsFilesError};
use weir_net::watchdog::{Heartbeat, join_until};

use crate::config::{AdapterConfig, AdapterDirection, AdapterTls};
use crate::event_loop::{AdapterLoop, LinkSource, Posted, Tls};
use crate::metrics::AdapterMetrics;
use crate::port::AdapterPort;
use crate::protocol::{AdapterProtocol, NotificationTicket, ProtocolOptions, WhileDown};
use crate::sink::AdapterSink;

/// Requests and answers that wait for the thread. It takes them faster than it gets replies.
const MAILBOX_CAPACITY: usize = 16 * 1024;
/// Wait of a thread that answers a notification or ends the connection.
const POST_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for the thread to end after its deadline.
const JOIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Error at start.
#[derive(Debug, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum AdapterError {
    #[error("[adapter] cannot listen on {address}: {error}")]
    Listen {
        address: SocketAddr,
        error: std::io::Error,
    },
    #[error("[adapter] {0}")]
    Files(#[from] TlsFilesError),
    #[error("[adapter] connect: {0}")]
    Name(#[from] TlsError),
    #[error("[adapter] cannot start the thread: {0}")]
    Thread(#[from] std::io::Error),
}

/// Properties of the gateway that are not in the configuration.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// Parameters of the first request: the adapter set and the instance.
    pub parameters: Vec<Parameter>,
}

/// Sends requests to the adapter from any thread. Clones share the connection.
pub struct AdapterHandle<T> {
    mailbox: MailboxSender<Posted<T>>,
    metrics: Arc<AdapterMetrics>,
}

impl<T> Clone for AdapterHandle<T> {
    fn clone(&self) -> Self {
        Self {
            mailbox: self.mailbox.clone(),
            metrics: Arc::clone(&self.metrics),
        }
    }
}

impl<T> fmt::Debug for AdapterHandle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AdapterHandle").finish_non_exhaustive()
    }
}

impl<T: Send> AdapterPort<T> for AdapterHandle<T> {
    fn request(&self, request: AdapterRequest, token: T, while_down: WhileDown) -> bool {
        let posted = Posted::Request(request, token, while_down);
        self.mailbox.post(posted, Duration::ZERO).is_ok()
    }

    fn notify_close(&self, request: AdapterRequest) {
        let posted = Posted::Close(request);
        if self.mailbox.post(posted, Duration::ZERO).is_err() {
            self.metrics.close_dropped();
        }
    }

    fn respond(&self, ticket: NotificationTicket, result: NotificationResult) {
        // If the thread has ended, there is no adapter that waits for the answer.
        let posted = Posted::Reply(ticket, result);
        let _ = self.mailbox.post(posted, POST_TIMEOUT);
    }

    fn metrics(&self) -> &AdapterMetrics {
        &self.metrics
    }
}

/// A connection to an adapter, with its thread.
#[derive(Debug)]
pub struct AdapterServer<T> {
    handle: AdapterHandle<T>,
    address: Option<SocketAddr>,
    certificates: Option<Arc<TlsFiles>>,
    thread: JoinHandle<()>,
}

impl<T: Send + 'static> AdapterServer<T> {
    /// Starts to listen or to connect.
    ///
    /// # Errors
    /// The address cannot be bound, a file cannot be used, or there is no thread.
    pub fn start(
        config: AdapterConfig,
        options: ServerOptions,
        sink: impl AdapterSink<T>,
    ) -> Result<Self, AdapterError> {
        let (tls, certificates) = tls(&config)?;
        let own = config.parameters.into_iter();
        let own = own.map(|(name, value)| Parameter::new(name, value));
        let protocol_options = ProtocolOptions {
            parameters: options.parameters.into_iter().chain(own).collect(),
            users: config.users,
            timeout_ms: config.timeout_ms,
            activity_timeout_ms: config.activity_timeout_ms,
            pending_max: config.pending,
            close_recovery: config.close_recovery,
        };
        let metrics = Arc::new(AdapterMetrics::default());
        let protocol = AdapterProtocol::new(protocol_options, Arc::clone(&metrics));
        let (source, listener) = source(config.direction)?;
        let address = listener.as_ref().and_then(|one| one.local_addr().ok());
        let heartbeat = Arc::new(Heartbeat::new("adapter", Instant::now(), &[]));
        let (event_loop, mailbox) = EventLoop::open(
            heartbeat,
            MAILBOX_CAPACITY,
            client_limit(),
            |mut core, _| {
                if let Some(listener) = listener {
                    core.listen(listener, ())?;
                }
                Ok(AdapterLoop::new(core, protocol, source, tls, sink))
            },
        )?;
        let run = move || {
            if let Err(error) = event_loop.run() {
                tracing::error!(%error, "event loop of the adapter failed");
            }
        };
        let thread = std::thread::Builder::new().name("adapter".to_owned());
        Ok(Self {
            handle: AdapterHandle { mailbox, metrics },
            address,
            certificates,
            thread: thread.spawn(run)?,
        })
    }

    /// Returns the means to send requests.
    pub fn handle(&self) -> AdapterHandle<T> {
        self.handle.clone()
    }

    /// Returns the address on which the gateway waits for the adapter, unless it connects itself.
    pub fn listen_address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// Returns the certificate files, to reload them.
    pub fn certificates(&self) -> Option<&Arc<TlsFiles>> {
        self.certificates.as_ref()
    }

    /// Waits up to `timeout` for the replies to close notifications, then ends the connection and
    /// the thread. Returns the name of the thread if it does not end.
    pub fn shut_down(self, timeout: Duration) -> Vec<String> {
        let deadline = Instant::now() + timeout + JOIN_TIMEOUT;
        // If the thread has ended, there is nothing to stop.
        let _ = self
            .handle
            .mailbox
            .post(Posted::Stop(timeout), POST_TIMEOUT);
        join_until(vec![self.thread], deadline)
    }
}

fn tls(config: &AdapterConfig) -> Result<(Tls, Option<Arc<TlsFiles>>), AdapterError> {
    let table = "adapter";
    Ok(match (&config.tls, &config.direction) {
        (Some(AdapterTls::Server(files)), _) => {
            let (acceptor, files) = TlsFiles::server(table, files.clone(), None)?;
            (Tls::Server(acceptor), Some(Arc::new(files)))
        }
        (Some(AdapterTls::Client(files)), AdapterDirection::Connect(address)) => {
            let name = ClientTls::server_name(address)?;
            let (client, files) = TlsFiles::client(table, files.clone())?;
            (Tls::Client(client, name), files.map(Arc::new))
        }
        (Some(AdapterTls::Client(_)), AdapterDirection::Listen(_)) | (None, _) => (Tls::None, None),
    })
}

fn source(direction: AdapterDirection) -> Result<(LinkSource, Option<TcpListener>), AdapterError> {
    let address = match direction {
        AdapterDirection::Connect(address) => return Ok((LinkSource::dial(address), None)),
        AdapterDirection::Listen(address) => address,
    };
    let listen = || {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    };
    match listen() {
        Ok(listener) => Ok((LinkSource::Listen, Some(listener))),
        Err(error) => Err(AdapterError::Listen { address, error }),
    }
}
