//! The event loop of a connection to an adapter: a socket, and the protocol that uses it.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mio::Events;
use mio::event::Event;
use mio::net::TcpStream;
use rustls::pki_types::ServerName;
use weir_identity::ari::{AdapterRequest, NotificationResult};
use weir_net::event_loop::{LoopCore, LoopHandler};
use weir_net::limited;
use weir_net::stream::{SendQueue, SocketStream, TlsBuffers, connect_result};
use weir_net::tls::{ClientTls, TlsAcceptor};

use crate::protocol::{AdapterProtocol, NotificationTicket, ProtocolAction, WhileDown};
use crate::sink::AdapterSink;

/// Maximum bytes of one read.
const READ_BYTES: usize = 64 * 1024;
/// Maximum reads per iteration.
const READS_PER_ITERATION: usize = 16;
/// Unsent bytes above which the connection is closed: the adapter does not read.
const UNSENT_BYTES_MAX: usize = 32 << 20;
/// Time in milliseconds to connect, with TLS.
const CONNECT_TIMEOUT_MS: u64 = 5_000;
/// Time in milliseconds to send the last line of a connection.
const CLOSE_TIMEOUT_MS: u64 = 1_000;
/// Minimum pause in milliseconds before the next connection attempt.
const RETRY_INTERVAL_MS: u64 = 1_000;

/// Event that other threads post to the loop.
pub(crate) enum Posted<T> {
    Request(AdapterRequest, T, WhileDown),
    Close(AdapterRequest),
    Reply(NotificationTicket, NotificationResult),
    /// Ends the connection and the loop, after this time at the latest.
    Stop(Duration),
}

/// Side that opens the connection to an adapter.
#[derive(Debug)]
pub(crate) enum LinkSource {
    Listen,
    Dial {
        /// `host:port`.
        address: String,
        /// Number of attempts; each uses the next address of the host.
        attempts: usize,
    },
}

impl LinkSource {
    pub(crate) fn dial(address: String) -> Self {
        let attempts = 0;
        Self::Dial { address, attempts }
    }
}

/// TLS of connections.
pub(crate) enum Tls {
    None,
    Server(Arc<TlsAcceptor>),
    Client(ClientTls, ServerName<'static>),
}

#[derive(Debug)]
struct AdapterLink {
    stream: SocketStream,
    queue: SendQueue,
    step: LinkStep,
    /// Input may be left in the socket.
    has_unread: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LinkStep {
    /// TCP or TLS is not established.
    Connecting {
        until_ms: u64,
    },
    Open,
    /// The last line is being sent.
    Closing {
        until_ms: u64,
    },
}

/// Handler of the event loop. It has at most one connection at a time.
pub(crate) struct AdapterLoop<T, S> {
    core: LoopCore<(), ()>,
    protocol: AdapterProtocol<T>,
    source: LinkSource,
    tls: Tls,
    sink: S,
    link: Option<AdapterLink>,
    /// Time before which no connection begins.
    pause_until_ms: u64,
    /// Time at which the loop ends at the latest; `None` while the gateway runs.
    stop_ms: Option<u64>,
    input: Vec<u8>,
    buffers: TlsBuffers,
}

impl<T, S: AdapterSink<T>> AdapterLoop<T, S> {
    pub(crate) fn new(
        core: LoopCore<(), ()>,
        protocol: AdapterProtocol<T>,
        source: LinkSource,
        tls: Tls,
        sink: S,
    ) -> Self {
        Self {
            core,
            protocol,
            source,
            tls,
            sink,
            link: None,
            pause_until_ms: 0,
            stop_ms: None,
            input: vec![0; READ_BYTES],
            buffers: TlsBuffers::default(),
        }
    }

    /// Registers a socket and starts a connection with it.
    fn open(&mut self, stream: io::Result<SocketStream>) {
        let registered = stream.and_then(|mut stream| {
            self.core.register(stream.socket(), 0)?;
            Ok(stream)
        });
        match registered {
            Ok(stream) => {
                self.link = Some(AdapterLink {
                    stream,
                    queue: SendQueue::default(),
                    step: LinkStep::Connecting {
                        until_ms: self.core.now_ms() + CONNECT_TIMEOUT_MS,
                    },
                    has_unread: false,
                });
            }
            Err(error) => {
                limited!(warn, "adapter connection failed", %error, "adapter connection failed");
                self.pause_until_ms = self.core.now_ms() + RETRY_INTERVAL_MS;
            }
        }
    }

    /// Starts a connection attempt if there is no connection and the pause is over.
    fn dial(&mut self) {
        let LinkSource::Dial { address, attempts } = &mut self.source else {
            return;
        };
        let is_due = self.link.is_none() && self.core.now_ms() >= self.pause_until_ms;
        if !is_due || self.stop_ms.is_some() {
            return;
        }
        let resolved = address.to_socket_addrs().map(Iterator::collect);
        let socket = resolved.and_then(|found: Vec<SocketAddr>| {
            let count = found.len().max(1);
            let next = found.get(*attempts % count).copied();
            *attempts += 1;
            TcpStream::connect(next.ok_or(io::ErrorKind::NotFound)?)
        });
        let stream = socket.and_then(|socket| {
            let tls = match &self.tls {
                Tls::Client(tls, name) => Some((tls, name.clone())),
                Tls::None | Tls::Server(_) => None,
            };
            SocketStream::connecting(socket, tls)
        });
        self.open(stream);
    }

    /// Reads while there is input and the protocol accepts it.
    fn read(&mut self) {
        for _ in 0..READS_PER_ITERATION {
            let now_ms = self.core.now_ms();
            let Some(link) = &mut self.link else { return };
            if link.step != LinkStep::Open && !link.stream.is_handshaking() {
                return;
            }
            link.has_unread = true;
            if !self.protocol.wants_input() {
                return;
            }
            match link.stream.read(&mut self.input, &mut self.buffers) {
                Ok(input) => {
                    link.has_unread = !input.drained;
                    self.establish();
                    if input.plain > 0 {
                        self.protocol
                            .on_received(&self.input[..input.plain], now_ms);
                    }
                    if input.ended {
                        return self.lose("the adapter closed the connection");
                    }
                    if input.drained {
                        return;
                    }
                }
                Err(error) => {
                    limited!(info, "adapter connection lost", %error, "adapter connection lost");
                    return self.drop_link();
                }
            }
        }
    }

    /// Starts the protocol when TCP and TLS are established.
    fn establish(&mut self) {
        let now_ms = self.core.now_ms();
        let Some(link) = &mut self.link else { return };
        if !matches!(link.step, LinkStep::Connecting { .. }) || link.stream.is_handshaking() {
            return;
        }
        link.step = LinkStep::Open;
        link.has_unread = true;
        self.protocol.on_connected(now_ms);
    }

    /// Checks a connection attempt. Drops it if it failed. Returns `true` if TCP is established.
    fn finish_connect(&mut self) -> bool {
        let Some(link) = &mut self.link else {
            return false;
        };
        match connect_result(link.stream.socket()) {
            Ok(connected) => connected,
            Err(error) => {
                limited!(warn, "adapter unreachable", %error, "cannot connect to the adapter");
                self.drop_link();
                false
            }
        }
    }

    /// Performs what the protocol requests.
    fn act(&mut self) {
        for action in self.protocol.take_actions() {
            match action {
                ProtocolAction::Complete(token, outcome) => self.sink.complete(token, outcome),
                ProtocolAction::Notify(ticket, notification) => {
                    self.sink.notified(ticket, notification);
                }
                ProtocolAction::Ready => {}
                ProtocolAction::Close => {
                    let until_ms = self.core.now_ms() + CLOSE_TIMEOUT_MS;
                    if let Some(link) = &mut self.link {
                        link.step = LinkStep::Closing { until_ms };
                    }
                }
            }
        }
    }

    /// Writes what the socket accepts.
    fn flush(&mut self) {
        let now_ms = self.core.now_ms();
        let output = self.protocol.take_output();
        let Some(link) = &mut self.link else { return };
        link.queue.push(Bytes::from(output));
        let is_last = matches!(link.step, LinkStep::Closing { .. });
        match link
            .stream
            .flush(&mut link.queue, &mut self.buffers, is_last)
        {
            Err(error) => {
                limited!(info, "adapter connection lost", %error, "adapter connection lost");
                self.drop_link();
            }
            Ok(flushed) if is_last && flushed.done => {
                link.stream.finish(&mut self.buffers);
                self.drop_link();
            }
            Ok(_) if link.queue.bytes() > UNSENT_BYTES_MAX => {
                self.lose("the adapter does not read")
            }
            Ok(_) => match link.step {
                LinkStep::Closing { until_ms } | LinkStep::Connecting { until_ms }
                    if now_ms >= until_ms =>
                {
                    self.drop_link();
                }
                _ => {}
            },
        }
    }

    /// Logs the reason and drops the connection.
    fn lose(&mut self, reason: &'static str) {
        limited!(
            info,
            "adapter connection lost",
            reason,
            "adapter connection lost"
        );
        self.drop_link();
    }

    fn drop_link(&mut self) {
        let now_ms = self.core.now_ms();
        if let Some(mut link) = self.link.take() {
            self.core.deregister(link.stream.socket());
            self.protocol.on_lost(now_ms);
            let least_ms = match self.source {
                LinkSource::Listen => 0,
                LinkSource::Dial { .. } => RETRY_INTERVAL_MS,
            };
            self.pause_until_ms = now_ms + self.protocol.pause_ms().max(least_ms);
        }
    }

    /// Ends the connection when the gateway stops, then the loop.
    fn stop_if_due(&mut self) {
        let Some(stop_ms) = self.stop_ms else { return };
        if self.protocol.is_idle() || self.core.now_ms() >= stop_ms {
            self.protocol.stop();
            self.act();
            self.flush();
            if self.link.is_none() {
                self.core.stop();
            }
        }
    }

    /// Returns the time of the next work without input.
    fn next_ms(&self) -> Option<u64> {
        let link = self.link.as_ref().and_then(|link| match link.step {
            LinkStep::Connecting { until_ms } | LinkStep::Closing { until_ms } => Some(until_ms),
            LinkStep::Open => None,
        });
        let dial = match self.source {
            LinkSource::Dial { .. } if self.link.is_none() => Some(self.pause_until_ms),
            _ => None,
        };
        let all = [link, dial, self.stop_ms, self.protocol.next_deadline_ms()];
        all.into_iter().flatten().min()
    }
}

impl<T, S: AdapterSink<T>> LoopHandler for AdapterLoop<T, S> {
    type Posted = Posted<T>;
    type Timer = ();
    type Listener = ();
    const ACCEPTS: usize = 8;
    const POSTED: usize = 1024;

    fn core(&mut self) -> &mut LoopCore<(), ()> {
        &mut self.core
    }

    fn wait_max(&mut self) -> Option<Duration> {
        let link = self.link.as_ref();
        if link.is_some_and(|link| link.has_unread) && self.protocol.wants_input() {
            return Some(Duration::ZERO);
        }
        let wait_ms = self.next_ms()?.saturating_sub(self.core.now_ms());
        Some(Duration::from_millis(wait_ms))
    }

    fn begin(&mut self, _events: &Events) {}

    fn on_event(&mut self, _token: usize, event: &Event) {
        let is_connecting = self.link.as_ref().is_some_and(|link| {
            matches!(link.step, LinkStep::Connecting { .. }) && !link.has_unread
        });
        if is_connecting && !self.finish_connect() {
            return;
        }
        self.establish();
        if let Some(link) = &mut self.link {
            link.has_unread |= event.is_readable() || event.is_read_closed() || event.is_error();
        }
    }

    fn on_accept(&mut self, socket: TcpStream, peer: SocketAddr, _listener: ()) {
        let is_pausing = self.core.now_ms() < self.pause_until_ms;
        if self.link.is_some() || is_pausing || self.stop_ms.is_some() {
            let reason = match is_pausing {
                true => "an adapter was rejected shortly before",
                false => "an adapter is connected",
            };
            limited!(warn, "adapter rejected", %peer, reason, "connection rejected");
            return;
        }
        let tls = match &self.tls {
            Tls::Server(acceptor) => Some(&**acceptor),
            Tls::None | Tls::Client(..) => None,
        };
        self.open(SocketStream::accepted(socket, tls));
    }

    fn on_accept_paused(&mut self) {}

    fn on_posted(&mut self, posted: Posted<T>) {
        let now_ms = self.core.now_ms();
        match posted {
            Posted::Request(request, token, while_down) => {
                self.protocol.request(request, token, while_down, now_ms);
            }
            Posted::Close(request) => self.protocol.notify_close(request, now_ms),
            Posted::Reply(ticket, result) => self.protocol.respond(ticket, &result, now_ms),
            Posted::Stop(timeout) => {
                let timeout_ms = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
                self.stop_ms = Some(now_ms.saturating_add(timeout_ms));
            }
        }
    }

    fn on_timer(&mut self, _timer: ()) {}

    fn end(&mut self) {
        if self.link.as_ref().is_some_and(|link| link.has_unread) {
            self.read();
        }
        self.protocol.on_tick(self.core.now_ms());
        self.act();
        self.flush();
        // The end of a connection completes requests.
        self.act();
        self.dial();
        self.stop_if_due();
    }
}
