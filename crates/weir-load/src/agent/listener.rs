//! Listener for agents, which checks their token.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::wire::{self, AgentHello, ClockReading, CoordinatorMessage, HELLO_BYTES_MAX};
use crate::clock::Clock;

/// Listening socket for agents.
#[derive(Debug)]
pub(super) struct AgentListener {
    listener: TcpListener,
    token: Arc<str>,
    handshakes: Arc<Handshakes>,
}

/// Result of one connection.
#[derive(Debug)]
pub(super) enum JoinAttempt {
    /// An agent with the correct token.
    Agent {
        stream: TcpStream,
        peer: SocketAddr,
        hello: AgentHello,
        clock: ClockDifference,
    },
    /// An agent that cannot take part. It was sent the reason.
    Rejected { peer: SocketAddr, reason: String },
    /// A peer without a hello: idle, with other data, or one connection too many. Disconnected.
    NoHello { peer: SocketAddr, reason: String },
}

/// Clock of an agent minus the coordinator's.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockDifference {
    pub(super) ahead_ns: i128,
    /// Maximum error of the difference: half of the round trip.
    pub(super) error_ns: u64,
}

impl ClockDifference {
    /// Returns `true` if the difference certainly exceeds `ns`.
    pub(super) fn exceeds(&self, ns: u64) -> bool {
        self.ahead_ns.unsigned_abs() > u128::from(ns) + u128::from(self.error_ns)
    }
}

impl AgentListener {
    pub(super) fn open(address: SocketAddr, token: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            token: token.into(),
            handshakes: Arc::default(),
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts pending connections and sends the results to `attempts`. Never blocks: each peer is
    /// read in its own thread, with limits on their number and duration.
    pub(super) fn poll<V: From<JoinAttempt> + Send + 'static>(&self, attempts: &SyncSender<V>) {
        for _ in 0..ACCEPTS_PER_ITERATION {
            let Ok((stream, peer)) = self.listener.accept() else {
                return;
            };
            // Without a handle to disconnect it, an idle peer would occupy its thread.
            let Ok(handle) = stream.try_clone() else {
                continue;
            };
            let (token, clock) = (Arc::clone(&self.token), Clock::start());
            let (handshakes, attempts) = (Arc::clone(&self.handshakes), attempts.clone());
            let id = handshakes.add(peer.ip(), handle);
            thread::spawn(move || {
                let attempt = handshake(stream, peer, &token, clock, || handshakes.remove(id));
                // The coordinator may have ended.
                let _ = attempts.send(attempt.into());
            });
        }
    }
}

/// Connections without a hello so far.
///
/// Agents send a hello immediately. If there are too many connections, the oldest is therefore
/// disconnected: idle peers never block agents, and peers of one address affect only each other.
#[derive(Debug, Default)]
struct Handshakes(Mutex<PendingHandshakes>);

#[derive(Debug, Default)]
struct PendingHandshakes {
    last_id: u64,
    /// Oldest first.
    connections: Vec<(u64, IpAddr, TcpStream)>,
}

impl Handshakes {
    /// Adds a connection. Disconnects the oldest if there are too many.
    fn add(&self, address: IpAddr, handle: TcpStream) -> u64 {
        let mut pending = self.pending();
        let of_address = |(_, other, _): &(u64, IpAddr, TcpStream)| *other == address;
        let same = pending
            .connections
            .iter()
            .filter(|it| of_address(it))
            .count();
        let surplus = match () {
            () if same >= ADDRESS_HANDSHAKES_MAX => pending.connections.iter().position(of_address),
            () if pending.connections.len() >= HANDSHAKES_MAX => Some(0),
            () => None,
        };
        if let Some(oldest) = surplus {
            let (_, _, stream) = pending.connections.remove(oldest);
            // Its thread then reads the end of the stream. The peer may already have closed it.
            let _ = stream.shutdown(Shutdown::Both);
        }
        pending.last_id += 1;
        let id = pending.last_id;
        pending.connections.push((id, address, handle));
        id
    }

    fn remove(&self, id: u64) {
        self.pending()
            .connections
            .retain(|(other, ..)| *other != id);
    }

    fn pending(&self) -> MutexGuard<'_, PendingHandshakes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the hello, calls `on_hello` and compares the clocks.
fn handshake(
    stream: TcpStream,
    peer: SocketAddr,
    token: &str,
    clock: Clock,
    on_hello: impl FnOnce(),
) -> JoinAttempt {
    let hello = read_hello(&stream);
    on_hello();
    let accepted = match hello {
        Ok(hello) => check(&hello, token).and_then(|()| {
            let compared = compare_clocks(&stream, clock);
            let difference =
                compared.map_err(|error| format!("clock comparison failed: {error}"))?;
            Ok((hello, difference))
        }),
        Err(reason) => {
            reject(stream, &reason);
            return JoinAttempt::NoHello { peer, reason };
        }
    };
    match accepted {
        Ok((hello, clock)) => JoinAttempt::Agent {
            stream,
            peer,
            hello,
            clock,
        },
        Err(reason) => {
            reject(stream, &reason);
            JoinAttempt::Rejected { peer, reason }
        }
    }
}

/// Compares the clocks several times and uses the fastest response, which is the most exact one.
fn compare_clocks(mut stream: &TcpStream, clock: Clock) -> io::Result<ClockDifference> {
    stream.set_nodelay(true)?;
    let mut best: Option<ClockDifference> = None;
    for _ in 0..CLOCK_REQUESTS {
        let requested_at = clock.now_unix_ns();
        stream.write_all(&wire::line(&CoordinatorMessage::Clock))?;
        let line = short_line(stream)?;
        let received_at = clock.now_unix_ns();
        let reading: ClockReading = wire::parse(&line)?;
        let error_ns = (received_at - requested_at) / 2;
        if best.is_none_or(|best| error_ns < best.error_ns) {
            let middle = i128::from(requested_at + error_ns);
            best = Some(ClockDifference {
                ahead_ns: i128::from(reading.unix_ns) - middle,
                error_ns,
            });
        }
    }
    best.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Sends a rejection with its reason.
pub(super) fn reject(mut stream: TcpStream, reason: &str) {
    let rejection = CoordinatorMessage::Refused {
        reason: reason.to_owned(),
    };
    // On a write error the peer only misses the reason.
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    let _ = stream.write_all(&wire::line(&rejection));
}

fn read_hello(stream: &TcpStream) -> Result<AgentHello, String> {
    let line = short_line(stream).map_err(|error| format!("no hello: {error}"))?;
    wire::parse(&line).map_err(|_| "no hello".to_owned())
}

fn check(hello: &AgentHello, token: &str) -> Result<(), String> {
    if !is_same(hello.token.as_bytes(), token.as_bytes()) {
        return Err(format!(
            "wrong token: set {} to that of the run",
            "wrong token: set {} to the token of the run",
        ));
    }
    let own = env!("CARGO_PKG_VERSION");
    if hello.version != own {
        return Err(format!(
            "agent has version {}, the coordinator {own}: use the same program",
            hello.version
        ));
    }
    Ok(())
}

/// Reads a short line within the timeout; no data may follow it.
fn short_line(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + HELLO_TIMEOUT;
    let mut line = Vec::new();
    let mut piece = [0; 512];
    stream.set_nonblocking(false)?;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut piece)?;
        line.extend_from_slice(&piece[..count]);
        if line.last() == Some(&b'\n') {
            stream.set_read_timeout(None)?;
            return Ok(line);
        }
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if line.len() > HELLO_BYTES_MAX {
            return Err(io::ErrorKind::InvalidData.into());
        }
    }
}

/// Compares in constant time.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Maximum number of connections without a hello.
const HANDSHAKES_MAX: usize = 64;
/// Maximum number of connections without a hello from one address.
const ADDRESS_HANDSHAKES_MAX: usize = 32;
/// Maximum accepts per iteration of the coordinator (20 ms). It gives agents two iterations for
/// their hello before their connection can be the oldest of too many.
const ACCEPTS_PER_ITERATION: usize = 16;
const CLOCK_REQUESTS: usize = 8;
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
