//! The floor for proxies: bytes copied between two sockets in one thread, not looked at.

use std::io::{self, Read, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Registry, Token};
use serde::{Deserialize, Serialize};
use slab::Slab;

const LISTENER: Token = Token(usize::MAX);
/// Read at once; the same as the proxy's, so that the difference is what it does with them.
const READ_BYTES: usize = 256 * 1024;
/// Reads of one connection before others get their turn.
const READS_PER_ITERATION: usize = 8;
/// How often the stop flag is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// What a relay counts.
#[derive(Debug, Default)]
pub struct RelayCounters {
    connections: AtomicU64,
    upstream_bytes: AtomicU64,
    downstream_bytes: AtomicU64,
}

/// What a relay did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelaySummary {
    /// Connections accepted.
    pub connections: u64,
    /// Bytes from clients.
    pub upstream_bytes: u64,
    /// Bytes to clients.
    pub downstream_bytes: u64,
}

impl RelayCounters {
    /// The numbers as they are now.
    #[must_use]
    pub fn summary(&self) -> RelaySummary {
        RelaySummary {
            connections: self.connections.load(Ordering::Relaxed),
            upstream_bytes: self.upstream_bytes.load(Ordering::Relaxed),
            downstream_bytes: self.downstream_bytes.load(Ordering::Relaxed),
        }
    }
}

/// A listening relay.
#[derive(Debug)]
pub struct Relay {
    poll: Poll,
    listener: TcpListener,
    upstream: SocketAddr,
    pairs: Slab<[RelaySocket; 2]>,
    buffer: Vec<u8>,
    counters: Arc<RelayCounters>,
}

/// One socket, with what it has not taken yet.
#[derive(Debug)]
struct RelaySocket {
    socket: TcpStream,
    readable: bool,
    hung_up: bool,
    ended: bool,
    waiting: Vec<u8>,
}

impl Relay {
    /// Listens; nothing is relayed until [`Self::run`].
    ///
    /// # Errors
    /// When the address cannot be listened on.
    pub fn open(listen: SocketAddr, upstream: SocketAddr) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(listen)?;
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            poll,
            listener,
            upstream,
            pairs: Slab::new(),
            buffer: vec![0; READ_BYTES],
            counters: Arc::default(),
        })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the socket does not know.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What is counted while it runs.
    #[must_use]
    pub fn counters(&self) -> Arc<RelayCounters> {
        Arc::clone(&self.counters)
    }

    /// Relays until `stop` is set.
    ///
    /// # Errors
    /// When polling fails.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut again = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let timeout = if again.is_empty() {
                LOOK
            } else {
                Duration::ZERO
            };
            match self.poll.poll(&mut events, Some(timeout)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            let mut due = std::mem::take(&mut again);
            for event in &events {
                let token = event.token();
                if token == LISTENER {
                    self.accept()?;
                    continue;
                }
                let index = token.0 / 2;
                if let Some(pair) = self.pairs.get_mut(index) {
                    let end = &mut pair[token.0 % 2];
                    end.readable |= event.is_readable() || event.is_read_closed();
                    end.hung_up |= event.is_read_closed();
                    due.push(index);
                }
            }
            for index in due {
                match self.turn(index) {
                    Some(Ok(false)) | None => {}
                    Some(Ok(true)) => again.push(index),
                    Some(Err(_)) => drop(self.pairs.try_remove(index)),
                }
            }
        }
        Ok(())
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let (client, _) = match self.listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let broker = TcpStream::connect(self.upstream)?;
            let index = self.pairs.vacant_key();
            let registry = self.poll.registry();
            let ends = [
                RelaySocket::new(client, index * 2, registry)?,
                RelaySocket::new(broker, index * 2 + 1, registry)?,
            ];
            self.pairs.insert(ends);
            self.counters.connections.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Copies what is there; whether there may be more. `None`: the pair is gone.
    fn turn(&mut self, index: usize) -> Option<io::Result<bool>> {
        let [client, broker] = self.pairs.get_mut(index)?;
        let buffer = &mut self.buffer;
        let up = copy(client, broker, buffer, &self.counters.upstream_bytes);
        let down = up.and_then(|up| {
            copy(broker, client, buffer, &self.counters.downstream_bytes).map(|down| up || down)
        });
        let over = |from: &RelaySocket, to: &RelaySocket| from.ended && to.waiting.is_empty();
        Some(match down {
            Ok(_) if over(client, broker) || over(broker, client) => {
                Err(io::ErrorKind::ConnectionAborted.into())
            }
            other => other,
        })
    }
}

impl RelaySocket {
    fn new(mut socket: TcpStream, token: usize, registry: &Registry) -> io::Result<Self> {
        // A connection still being made may refuse; it is small writes that matter.
        let _ = socket.set_nodelay(true);
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut socket, Token(token), interest)?;
        Ok(Self {
            socket,
            readable: false,
            hung_up: false,
            ended: false,
            waiting: Vec::new(),
        })
    }

    /// How much the socket takes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.socket.write(bytes) {
            Ok(count) => Ok(count),
            // A connection still being made is told by an event when it is there.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::WouldBlock | io::ErrorKind::NotConnected
                ) =>
            {
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }
}

/// Moves bytes in one direction; whether there may be more at once.
fn copy(
    from: &mut RelaySocket,
    to: &mut RelaySocket,
    buffer: &mut [u8],
    count: &AtomicU64,
) -> io::Result<bool> {
    if !to.waiting.is_empty() {
        let waiting = std::mem::take(&mut to.waiting);
        let written = to.write(&waiting)?;
        to.waiting.extend_from_slice(&waiting[written..]);
    }
    for _ in 0..READS_PER_ITERATION {
        if !from.readable || from.ended || !to.waiting.is_empty() {
            return Ok(false);
        }
        let read = match from.socket.read(buffer) {
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                from.readable = false;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        from.ended = read == 0;
        // A short read has emptied the socket, unless the end is behind it.
        from.readable = read == buffer.len() || (from.hung_up && read > 0);
        count.fetch_add(read as u64, Ordering::Relaxed);
        let written = to.write(&buffer[..read])?;
        to.waiting.extend_from_slice(&buffer[written..read]);
    }
    Ok(from.readable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream as Plain;

    #[test]
    fn bytes_come_out_as_they_went_in_both_ways() {
        let broker = std::net::TcpListener::bind("127.0.0.1:0").expect("binds");
        let upstream = broker.local_addr().expect("an address");
        let relay = Relay::open("127.0.0.1:0".parse().expect("address"), upstream);
        let relay = relay.expect("opens");
        let (address, counters) = (relay.address().expect("address"), relay.counters());
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let thread = std::thread::spawn(move || relay.run(&flag));
        let mut client = Plain::connect(address).expect("connects");
        let (mut server, _) = broker.accept().expect("accepts");
        // More than the sockets hold, so that something waits in between.
        let sent: Vec<u8> = (0..16_000_000_u32).map(|i| (i % 251) as u8).collect();
        let copy = sent.clone();
        let writer = std::thread::spawn(move || client.write_all(&copy).map(|()| client));
        let mut got = vec![0; sent.len()];
        server.read_exact(&mut got).expect("reads");
        assert!(got == sent);
        let mut client = writer.join().expect("writer").expect("writes");
        server.write_all(b"answer").expect("writes");
        let mut answer = [0; 6];
        client.read_exact(&mut answer).expect("reads");
        assert_eq!(&answer, b"answer");
        drop(server);
        assert_eq!(
            client.read(&mut answer).expect("reads"),
            0,
            "the end is passed on"
        );
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("relay").expect("ends");
        let summary = counters.summary();
        assert_eq!(summary.upstream_bytes, sent.len() as u64);
        assert_eq!((summary.connections, summary.downstream_bytes), (1, 6));
    }
}
