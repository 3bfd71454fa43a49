//! Baseline TCP proxy: copies bytes between two sockets in one thread, without decoding.

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
/// Maximum size of a read; the same as the proxy's, so that a comparison shows the cost of its
/// processing.
const READ_BYTES: usize = 256 * 1024;
/// Reads of one connection per iteration, before the other connections.
const READS_PER_ITERATION: usize = 8;
const STOP_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Counters of a relay.
#[derive(Debug, Default)]
pub struct RelayCounters {
    connections: AtomicU64,
    upstream_bytes: AtomicU64,
    downstream_bytes: AtomicU64,
}

/// Totals of a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelaySummary {
    /// Number of accepted connections.
    pub connections: u64,
    /// Bytes from clients.
    pub upstream_bytes: u64,
    /// Bytes to clients.
    pub downstream_bytes: u64,
}

impl RelayCounters {
    /// Returns the current values.
    pub fn summary(&self) -> RelaySummary {
        let value = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RelaySummary {
            connections: value(&self.connections),
            upstream_bytes: value(&self.upstream_bytes),
            downstream_bytes: value(&self.downstream_bytes),
        }
    }
}

/// Listening relay.
#[derive(Debug)]
pub struct Relay {
    poll: Poll,
    listener: TcpListener,
    upstream: SocketAddr,
    pairs: Slab<[RelaySocket; 2]>,
    buffer: Vec<u8>,
    counters: Arc<RelayCounters>,
}

/// One socket and the bytes it has not accepted yet.
#[derive(Debug)]
struct RelaySocket {
    socket: TcpStream,
    readable: bool,
    peer_closed: bool,
    ended: bool,
    waiting: Vec<u8>,
}

impl Relay {
    /// Opens the listener; relaying starts with [`Self::run`].
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

    /// Returns the listen address.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Returns the counters, which are updated while the relay runs.
    pub fn counters(&self) -> Arc<RelayCounters> {
        Arc::clone(&self.counters)
    }

    /// Relays until `stop` is set.
    pub fn run(mut self, stop: &AtomicBool) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut again = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let timeout = match again.is_empty() {
                true => STOP_CHECK_INTERVAL,
                false => Duration::ZERO,
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
                    let side = &mut pair[token.0 % 2];
                    side.readable |= event.is_readable() || event.is_read_closed();
                    side.peer_closed |= event.is_read_closed();
                    due.push(index);
                }
            }
            for index in due {
                match self.relay_pair(index) {
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
            let sides = [
                RelaySocket::new(client, index * 2, registry)?,
                RelaySocket::new(broker, index * 2 + 1, registry)?,
            ];
            self.pairs.insert(sides);
            self.counters.connections.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Copies available bytes. Returns `true` if there may be more, `None` if the pair is closed.
    fn relay_pair(&mut self, index: usize) -> Option<io::Result<bool>> {
        let [client, broker] = self.pairs.get_mut(index)?;
        let buffer = &mut self.buffer;
        let mut copy_both = || {
            let up = copy(client, broker, buffer, &self.counters.upstream_bytes)?;
            let down = copy(broker, client, buffer, &self.counters.downstream_bytes)?;
            let is_finished =
                |from: &RelaySocket, to: &RelaySocket| from.ended && to.waiting.is_empty();
            match is_finished(client, broker) || is_finished(broker, client) {
                true => Err(io::ErrorKind::ConnectionAborted.into()),
                false => Ok(up || down),
            }
        };
        Some(copy_both())
    }
}

impl RelaySocket {
    fn new(mut socket: TcpStream, token: usize, registry: &Registry) -> io::Result<Self> {
        // May fail before the connection is established; only small writes need it.
        let _ = socket.set_nodelay(true);
        let interest = Interest::READABLE | Interest::WRITABLE;
        registry.register(&mut socket, Token(token), interest)?;
        Ok(Self {
            socket,
            readable: false,
            peer_closed: false,
            ended: false,
            waiting: Vec::new(),
        })
    }

    /// Writes to the socket; returns the number of accepted bytes.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        use io::ErrorKind::{NotConnected, WouldBlock};
        match self.socket.write(bytes) {
            // An event follows when the connection is established.
            Err(error) if matches!(error.kind(), WouldBlock | NotConnected) => Ok(0),
            result => result,
        }
    }
}

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
        // A short read has emptied the socket, unless the peer closed the connection.
        from.readable = read == buffer.len() || (from.peer_closed && read > 0);
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
    fn bytes_are_relayed_unchanged_both_ways() {
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
        // More than the sockets buffer, so that the relay has to store bytes.
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
            "the close is forwarded"
        );
        stop.store(true, Ordering::Relaxed);
        thread.join().expect("relay").expect("sides");
        let summary = counters.summary();
        assert_eq!(summary.upstream_bytes, sent.len() as u64);
        assert_eq!((summary.connections, summary.downstream_bytes), (1, 6));
    }
}
