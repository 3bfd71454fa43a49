//! The handler of the event loop: connect ramp, dispatch, tick.

use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::Events;
use mio::event::Event;
use mio::net::TcpStream;

use super::connection::ClientConnection;
use super::{ClientHandler, ClientOptions, DisconnectReason, LoopUtilization};
use crate::event_loop::{EventLoop, LoopCore, LoopHandler};
use crate::stream::TlsBuffers;
use crate::watchdog::Heartbeat;

/// Operations that a handler has on the connections.
#[derive(Debug)]
pub struct ClientIo {
    core: LoopCore<(), ()>,
    options: ClientOptions,
    connections: Vec<Option<ClientConnection>>,
    /// Number of connections started so far, and so the number of the next one.
    started: usize,
    connecting: usize,
    open: usize,
    bytes_received: u64,
    bytes_sent: u64,
    utilization: LoopUtilization,
    tls: TlsBuffers,
    /// Connections that ended during a handler's call, reported after it.
    failed: Vec<(usize, DisconnectReason)>,
}

impl ClientIo {
    /// Sends `bytes` on connection `conn`, if it is open. A failure ends the connection, and
    /// [`ClientHandler::on_closed`] reports it after the current call.
    pub fn send(&mut self, conn: usize, bytes: &[u8]) {
        let Some(Some(connection)) = self.connections.get_mut(conn) else {
            return;
        };
        let limit = self.options.write_queue_bytes_max;
        let registry = self.core.registry();
        match connection.send(bytes, limit, conn, registry, &mut self.tls) {
            Ok(sent) => self.bytes_sent += sent as u64,
            Err(reason) => self.failed.push((conn, reason)),
        }
    }

    /// Closes connection `conn` without a further call of the handler.
    pub fn close(&mut self, conn: usize) {
        self.remove(conn);
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.open
    }

    /// Returns the number of connections started so far.
    pub fn started(&self) -> usize {
        self.started
    }

    /// Returns the number of bytes read from all connections.
    pub fn bytes_received(&self) -> u64 {
        self.bytes_received
    }

    /// Returns the number of bytes written to all connections.
    pub fn bytes_sent(&self) -> u64 {
        self.bytes_sent
    }

    /// Returns the utilization of the loop.
    pub fn utilization(&self) -> LoopUtilization {
        self.utilization
    }

    /// Returns when connection `conn` is due, from the start of the loop.
    fn due(&self, conn: usize) -> Duration {
        let seconds = conn as f64 / self.options.ramp_per_s;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    fn may_start(&self) -> bool {
        self.started < self.options.connections && self.connecting < CONNECTING_MAX
    }

    fn flush(&mut self, conn: usize) -> Result<(), DisconnectReason> {
        if let Some(Some(connection)) = self.connections.get_mut(conn) {
            let sent = connection.flush(conn, self.core.registry(), &mut self.tls)?;
            self.bytes_sent += sent as u64;
        }
        Ok(())
    }

    /// Closes a socket by dropping it. Returns `false` if it was closed already.
    fn remove(&mut self, conn: usize) -> bool {
        let Some(connection) = self.connections.get_mut(conn).and_then(Option::take) else {
            return false;
        };
        match connection.connecting_since {
            Some(_) => self.connecting -= 1,
            None => self.open -= 1,
        }
        true
    }
}

/// Runs an event loop with thousands of outgoing connections until the handler returns `Break`.
/// Open connections are closed on return.
pub fn run(options: ClientOptions, handler: &mut impl ClientHandler) -> io::Result<()> {
    let start = Instant::now();
    let heartbeat = Arc::<Heartbeat>::default();
    let (event_loop, _) = EventLoop::open(heartbeat, 0, RawFd::MAX, |core, _| {
        let connections = std::iter::repeat_with(|| None).take(options.connections);
        let io = ClientIo {
            core,
            connections: connections.collect(),
            options,
            started: 0,
            connecting: 0,
            open: 0,
            bytes_received: 0,
            bytes_sent: 0,
            utilization: LoopUtilization::default(),
            tls: TlsBuffers::default(),
            failed: Vec::new(),
        };
        Ok(ClientRun {
            io,
            handler,
            buffer: vec![0; READ_BUFFER_BYTES],
            start,
            woken: start,
            idle_from: start,
            next_tick: start,
        })
    })?;
    event_loop.run()
}

#[derive(Debug)]
struct ClientRun<'h, H> {
    io: ClientIo,
    handler: &'h mut H,
    /// Bytes of one read; shared by all connections.
    buffer: Vec<u8>,
    start: Instant,
    woken: Instant,
    idle_from: Instant,
    next_tick: Instant,
}

impl<H: ClientHandler> LoopHandler for ClientRun<'_, H> {
    type Posted = ();
    type Timer = ();
    type Listener = ();
    const ACCEPTS: usize = 0;
    const POSTED: usize = 0;

    fn core(&mut self) -> &mut LoopCore<(), ()> {
        &mut self.io.core
    }

    fn wait_max(&mut self) -> Option<Duration> {
        self.idle_from = Instant::now();
        let io = &mut self.io;
        io.utilization.add_iteration(self.idle_from - self.woken);
        let wait = self.next_tick.saturating_duration_since(self.idle_from);
        if !io.may_start() {
            return Some(wait);
        }
        let due = io.due(io.started).saturating_sub(self.start.elapsed());
        // At least 1 ms: a handler that delays the ramp must not cause a busy loop.
        Some(wait.min(due.max(Duration::from_millis(1))))
    }

    fn begin(&mut self, _events: &Events) {
        self.woken = Instant::now();
        self.io.utilization.add_wait(self.woken - self.idle_from);
    }

    fn on_event(&mut self, conn: usize, event: &Event) {
        if let Err(reason) = self.dispatch(event, conn) {
            self.io.failed.push((conn, reason));
        }
        self.report_failed();
    }

    fn on_accept(&mut self, _socket: TcpStream, _peer: SocketAddr, (): ()) {}
    fn on_accept_paused(&mut self) {}
    fn on_posted(&mut self, (): ()) {}
    fn on_timer(&mut self, (): ()) {}

    fn end(&mut self) {
        self.ramp();
        let now = Instant::now();
        if now < self.next_tick {
            return;
        }
        self.next_tick = now + self.io.options.tick;
        self.expire(now);
        if self.handler.on_tick(&mut self.io, now).is_break() {
            self.io.core.stop();
        }
        self.report_failed();
    }
}

impl<H: ClientHandler> ClientRun<'_, H> {
    /// Opens the connections that are due according to the ramp.
    fn ramp(&mut self) {
        while self.io.may_start()
            && self.start.elapsed() >= self.io.due(self.io.started)
            && self.handler.may_connect(self.io.started)
        {
            let io = &mut self.io;
            let conn = io.started;
            io.started += 1;
            let registry = io.core.registry();
            match ClientConnection::start(&io.options, conn, registry, Instant::now()) {
                Ok(connection) => {
                    io.connections[conn] = Some(connection);
                    io.connecting += 1;
                }
                Err(error) => {
                    let reason = DisconnectReason::ConnectFailed(error.kind());
                    self.handler.on_closed(io, conn, reason);
                    self.report_failed();
                }
            }
        }
    }

    fn dispatch(&mut self, event: &Event, conn: usize) -> Result<(), DisconnectReason> {
        let io = &mut self.io;
        let Some(Some(connection)) = io.connections.get_mut(conn) else {
            return Ok(());
        };
        if connection.connecting_since.is_some() {
            if !connection.finish_connect()? {
                return Ok(());
            }
            io.connecting -= 1;
            io.open += 1;
            io.flush(conn)?;
            self.handler.on_connected(io, conn);
        } else if event.is_writable() {
            io.flush(conn)?;
        }
        if event.is_readable() || event.is_read_closed() {
            self.drain(conn, event.is_read_closed())?;
        }
        Ok(())
    }

    /// Reads all available bytes. A read that does not fill the buffer has emptied the socket, and
    /// new bytes cause a new event (epoll(7), question 9). If the peer has closed, reads until the
    /// end.
    fn drain(&mut self, conn: usize, ends: bool) -> Result<(), DisconnectReason> {
        // Looked up each time because the handler may have closed the connection.
        while let Some(Some(connection)) = self.io.connections.get_mut(conn) {
            let input = connection.stream.read(&mut self.buffer, &mut self.io.tls)?;
            let read_at = Instant::now();
            self.io.bytes_received += input.wire as u64;
            if !connection.stream.is_plain() {
                // Protocol messages of TLS, and what had to wait for the end of the handshake.
                self.io.flush(conn)?;
            }
            if input.plain > 0 {
                let bytes = &self.buffer[..input.plain];
                self.handler.on_data(&mut self.io, conn, bytes, read_at);
            }
            if input.ended {
                return Err(DisconnectReason::ByPeer);
            }
            if input.drained && (!ends || input.wire == 0) {
                break;
            }
        }
        Ok(())
    }

    /// Ends attempts that exceed the connect timeout.
    fn expire(&mut self, now: Instant) {
        let io = &mut self.io;
        if io.connecting == 0 {
            return;
        }
        for (conn, connection) in io.connections[..io.started].iter().enumerate() {
            let since = connection.as_ref().and_then(|one| one.connecting_since);
            if since.is_some_and(|since| now - since > CONNECT_TIMEOUT) {
                io.failed.push((conn, DisconnectReason::ConnectTimeout));
            }
        }
        self.report_failed();
    }

    fn report_failed(&mut self) {
        while let Some((conn, reason)) = self.io.failed.pop() {
            if self.io.remove(conn) {
                self.handler.on_closed(&mut self.io, conn, reason);
            }
        }
    }
}

impl LoopUtilization {
    fn add_iteration(&mut self, iteration: Duration) {
        let iteration_ns = nanoseconds(iteration);
        self.busy_ns += iteration_ns;
        self.total_ns += iteration_ns;
        self.iteration_max_ns = self.iteration_max_ns.max(iteration_ns);
    }

    fn add_wait(&mut self, wait: Duration) {
        self.total_ns += nanoseconds(wait);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Maximum number of concurrent connection attempts. It is below the usual accept backlog, so that
/// a slow server slows the ramp instead of losing handshakes. The handler can slow it further.
const CONNECTING_MAX: usize = 256;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
