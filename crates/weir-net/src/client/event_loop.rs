//! The event loop: connect ramp, poll, dispatch.

use std::io::{self, Read as _};
use std::time::{Duration, Instant};

use mio::event::Event;
use mio::{Events, Poll, Registry};

use super::connection::{ClientConnection, SocketState};
use super::{ClientHandler, ClientOptions, DisconnectReason, LoopUtilization};

/// Event loop for thousands of outgoing connections.
#[derive(Debug)]
pub struct ClientLoop {
    poll: Poll,
    core: ClientLoopState,
}

/// State that a handler can use through [`ClientIo`].
#[derive(Debug)]
struct ClientLoopState {
    options: ClientOptions,
    registry: Registry,
    connections: Vec<Option<ClientConnection>>,
    /// Number of connections started so far, and so the number of the next one.
    started: usize,
    connecting: usize,
    open: usize,
    bytes_received: u64,
    bytes_sent: u64,
    busy: LoopUtilization,
    /// Plain text of one read; shared by all connections.
    plain: Vec<u8>,
    /// Connections that ended during a handler's call, reported after it.
    failed: Vec<(usize, DisconnectReason)>,
}

/// Operations that a handler has on the connections.
#[derive(Debug)]
pub struct ClientIo<'a> {
    core: &'a mut ClientLoopState,
}

impl ClientIo<'_> {
    /// Sends `bytes` on connection `conn`, if it is open. A failure ends the connection, and
    /// [`ClientHandler::on_closed`] reports it after the current call.
    pub fn send(&mut self, conn: usize, bytes: &[u8]) {
        let core = &mut *self.core;
        let Some(Some(connection)) = core.connections.get_mut(conn) else {
            return;
        };
        let limit = core.options.write_queue_bytes_max;
        match connection.send(bytes, limit, conn, &core.registry) {
            Ok(sent) => core.bytes_sent += sent as u64,
            Err(reason) => core.failed.push((conn, reason)),
        }
    }

    /// Closes connection `conn` without a further call of the handler.
    pub fn close(&mut self, conn: usize) {
        self.core.remove(conn);
    }

    /// Returns the number of open connections.
    pub fn open(&self) -> usize {
        self.core.open
    }

    /// Returns the number of connections started so far.
    pub fn started(&self) -> usize {
        self.core.started
    }

    /// Returns the number of payload bytes read from all connections.
    pub fn bytes_received(&self) -> u64 {
        self.core.bytes_received
    }

    /// Returns the number of payload bytes written to all connections, queued ones included.
    pub fn bytes_sent(&self) -> u64 {
        self.core.bytes_sent
    }

    /// Returns the utilization of the loop.
    pub fn utilization(&self) -> LoopUtilization {
        self.core.busy
    }
}

impl ClientLoop {
    /// Creates the loop; [`Self::run`] starts connecting.
    ///
    /// # Errors
    /// The operating system provides no epoll file descriptor.
    pub fn new(options: ClientOptions) -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let connections = std::iter::repeat_with(|| None)
            .take(options.connections)
            .collect();
        Ok(Self {
            poll,
            core: ClientLoopState {
                options,
                registry,
                connections,
                started: 0,
                connecting: 0,
                open: 0,
                bytes_received: 0,
                bytes_sent: 0,
                busy: LoopUtilization::default(),
                plain: Vec::new(),
                failed: Vec::new(),
            },
        })
    }

    /// Runs until the handler returns `Break`. Open connections are closed on return.
    ///
    /// # Errors
    /// Waiting for events fails.
    pub fn run(&mut self, handler: &mut impl ClientHandler) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_PER_ITERATION);
        let mut buffer = vec![0; READ_BUFFER_BYTES];
        let start = Instant::now();
        let mut woken = start;
        let mut next_tick = start;
        loop {
            let core = &mut self.core;
            for event in &events {
                core.dispatch(event, &mut buffer, handler);
            }
            core.ramp(start, handler);
            if Instant::now() >= next_tick {
                let now = Instant::now();
                next_tick = now + core.options.tick;
                core.expire(now, handler);
                let flow = handler.on_tick(&mut ClientIo { core }, now);
                core.report_failed(handler);
                if flow.is_break() {
                    return Ok(());
                }
            }
            let idle_from = Instant::now();
            core.busy.add_iteration(idle_from - woken);
            let timeout = next_tick.saturating_duration_since(idle_from);
            match self
                .poll
                .poll(&mut events, Some(core.until_next_connect(start, timeout)))
            {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            woken = Instant::now();
            self.core.busy.add_wait(woken - idle_from);
        }
    }
}

impl ClientLoopState {
    /// Opens the connections that are due according to the ramp.
    fn ramp(&mut self, start: Instant, handler: &mut impl ClientHandler) {
        while self.started < self.options.connections
            && self.connecting < self.options.connecting_max
            && start.elapsed() >= self.due(self.started)
            && handler.may_connect(self.started)
        {
            let conn = self.started;
            self.started += 1;
            match ClientConnection::start(&self.options, conn, &self.registry, Instant::now()) {
                Ok(connection) => {
                    self.connections[conn] = Some(connection);
                    self.connecting += 1;
                }
                Err(error) => {
                    let reason = DisconnectReason::ConnectFailed(error.kind());
                    handler.on_closed(&mut ClientIo { core: self }, conn, reason);
                    self.report_failed(handler);
                }
            }
        }
    }

    /// Returns when connection `conn` is due, from the start of the loop.
    fn due(&self, conn: usize) -> Duration {
        let seconds = conn as f64 / self.options.ramp_per_s;
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Returns the poll timeout: `timeout` or the time until the next connection is due.
    fn until_next_connect(&self, start: Instant, timeout: Duration) -> Duration {
        let waits = self.started < self.options.connections
            && self.connecting < self.options.connecting_max;
        if !waits {
            return timeout;
        }
        let due = self.due(self.started).saturating_sub(start.elapsed());
        // At least 1 ms: a handler that delays the ramp must not cause a busy loop.
        timeout.min(due.max(Duration::from_millis(1)))
    }

    fn dispatch(&mut self, event: &Event, buffer: &mut [u8], handler: &mut impl ClientHandler) {
        let conn = event.token().0;
        if let Err(reason) = self.try_dispatch(event, conn, buffer, handler) {
            self.failed.push((conn, reason));
        }
        self.report_failed(handler);
    }

    fn try_dispatch(
        &mut self,
        event: &Event,
        conn: usize,
        buffer: &mut [u8],
        handler: &mut impl ClientHandler,
    ) -> Result<(), DisconnectReason> {
        let Some(Some(connection)) = self.connections.get_mut(conn) else {
            return Ok(());
        };
        if connection.state != SocketState::Open {
            if !connection.finish_connect(conn, &self.registry)? {
                return Ok(());
            }
            self.connecting -= 1;
            self.open += 1;
            connection.flush(conn, &self.registry)?;
            handler.on_connected(&mut ClientIo { core: self }, conn);
        } else if event.is_writable() {
            connection.flush(conn, &self.registry)?;
        }
        if event.is_readable() || event.is_read_closed() {
            self.drain(conn, event.is_read_closed(), buffer, handler)?;
        }
        Ok(())
    }

    /// Reads all available bytes. A read that does not fill the buffer has emptied the socket, and
    /// new bytes cause a new event (epoll(7), question 9). If the peer has closed, reads until the
    /// end.
    fn drain(
        &mut self,
        conn: usize,
        ends: bool,
        buffer: &mut [u8],
        handler: &mut impl ClientHandler,
    ) -> Result<(), DisconnectReason> {
        // Looked up each time because the handler may have closed the connection.
        while let Some(Some(connection)) = self.connections.get_mut(conn) {
            match connection.stream.read(buffer) {
                Ok(0) => return Err(DisconnectReason::ByPeer),
                Ok(bytes) => {
                    let read_at = Instant::now();
                    self.bytes_received += bytes as u64;
                    if connection.tls.is_some() {
                        self.decrypt_records(conn, &buffer[..bytes], read_at, handler)?;
                    } else {
                        handler.on_data(
                            &mut ClientIo { core: self },
                            conn,
                            &buffer[..bytes],
                            read_at,
                        );
                    }
                    if bytes < buffer.len() && !ends {
                        break;
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(DisconnectReason::Failed(error.kind())),
            }
        }
        Ok(())
    }

    /// Passes the plain text of records to the handler, and sends protocol messages of TLS.
    fn decrypt_records(
        &mut self,
        conn: usize,
        records: &[u8],
        read_at: Instant,
        handler: &mut impl ClientHandler,
    ) -> Result<(), DisconnectReason> {
        let Some(Some(connection)) = self.connections.get_mut(conn) else {
            return Ok(());
        };
        let Some(tls) = &mut connection.tls else {
            return Ok(());
        };
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        let decrypted = tls.decrypt_records(records, &mut plain);
        let limit = self.options.write_queue_bytes_max;
        // Sends protocol messages only: of the handshake, of a key update, or an alert.
        let sent = connection.send(&[], limit, conn, &self.registry);
        if !plain.is_empty() {
            handler.on_data(&mut ClientIo { core: self }, conn, &plain, read_at);
        }
        self.plain = plain;
        let ended = decrypted?;
        self.bytes_sent += sent? as u64;
        match ended {
            true => Err(DisconnectReason::ByPeer),
            false => Ok(()),
        }
    }

    /// Ends attempts that exceed the connect timeout.
    fn expire(&mut self, now: Instant, handler: &mut impl ClientHandler) {
        if self.connecting == 0 {
            return;
        }
        let timeout = self.options.connect_timeout;
        for (conn, connection) in self.connections[..self.started].iter().enumerate() {
            if let Some(ClientConnection {
                state: SocketState::Connecting { since },
                ..
            }) = connection
            {
                if now.saturating_duration_since(*since) > timeout {
                    self.failed.push((conn, DisconnectReason::ConnectTimeout));
                }
            }
        }
        self.report_failed(handler);
    }

    fn report_failed(&mut self, handler: &mut impl ClientHandler) {
        while let Some((conn, reason)) = self.failed.pop() {
            if self.remove(conn) {
                handler.on_closed(&mut ClientIo { core: self }, conn, reason);
            }
        }
    }

    /// Closes a socket by dropping it. Returns `false` if it was closed already.
    fn remove(&mut self, conn: usize) -> bool {
        let Some(connection) = self.connections.get_mut(conn).and_then(Option::take) else {
            return false;
        };
        match connection.state {
            SocketState::Connecting { .. } => self.connecting -= 1,
            SocketState::Open => self.open -= 1,
        }
        true
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

const EVENTS_PER_ITERATION: usize = 1024;
const READ_BUFFER_BYTES: usize = 64 * 1024;
