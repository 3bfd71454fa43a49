//! Listener for agents, which checks their token.

use std::io::{self, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use super::{AgentHello, CoordinatorMessage, TOKEN_VARIABLE};
use weir_load::clock::Clock;
use weir_load::worker::protocol::WorkerEvent;
use weir_load::worker::{line, read_message};

#[derive(Debug)]
pub(super) struct AgentListener {
    listener: TcpListener,
    token: String,
    /// Connections without a complete hello, oldest first.
    ///
    /// Agents send a hello immediately. If there are too many connections, the oldest is therefore
    /// disconnected: idle peers never block agents, and peers of one address affect only each
    /// other.
    pending: Vec<PendingPeer>,
    /// Peers that were rejected, with the reason, for the error message.
    rejected: Vec<String>,
    without_hello: u64,
}

#[derive(Debug)]
struct PendingPeer {
    stream: TcpStream,
    address: SocketAddr,
    deadline: Instant,
    line: Vec<u8>,
}

#[derive(Debug)]
pub(super) enum CoordinatorEvent {
    Join(JoinedAgent),
    Event(usize, WorkerEvent),
    Closed(usize, String),
}

#[derive(Debug)]
pub(super) struct JoinedAgent {
    pub(super) stream: TcpStream,
    pub(super) peer: SocketAddr,
    pub(super) pid: u32,
    pub(super) clock: io::Result<ClockDifference>,
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
    pub(super) fn open(address: SocketAddr, token: &str) -> io::Result<(Self, SocketAddr)> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let listener = Self {
            listener,
            token: token.to_owned(),
            pending: Vec::new(),
            rejected: Vec::new(),
            without_hello: 0,
        };
        Ok((listener, address))
    }

    /// Accepts connections and reads hellos. Never blocks: the clock of an agent is read in its own
    /// thread, which then sends a join event.
    pub(super) fn poll(&mut self, events: &SyncSender<CoordinatorEvent>) {
        self.accept();
        for mut peer in std::mem::take(&mut self.pending) {
            match peer.read_hello() {
                Ok(None) => self.pending.push(peer),
                Ok(Some(hello)) => match check(&hello, &self.token) {
                    None => join(peer, hello.pid, events.clone()),
                    Some(reason) => self.reject(peer.stream, peer.address, &reason),
                },
                // The content of a line that is not a hello does not matter.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                    self.on_no_hello(&peer, "no hello");
                }
                Err(error) => self.on_no_hello(&peer, &format!("no hello: {error}")),
            }
        }
    }

    fn on_no_hello(&mut self, peer: &PendingPeer, reason: &str) {
        self.without_hello += 1;
        // Logged once, because peers control how often this happens.
        if self.without_hello == 1 {
            let peer = peer.address;
            tracing::warn!(%peer, reason, "disconnected peer without hello");
        }
        send_rejection(&peer.stream, reason);
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTS_PER_ITERATION {
            let Ok((stream, address)) = self.listener.accept() else {
                return;
            };
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let is_same = |peer: &PendingPeer| peer.address.ip() == address.ip();
            let same = self.pending.iter().filter(|peer| is_same(peer)).count();
            let oldest = match same >= ADDRESS_PENDING_MAX {
                true => self.pending.iter().position(is_same),
                false => (self.pending.len() >= PENDING_MAX).then_some(0),
            };
            if let Some(oldest) = oldest {
                let peer = self.pending.remove(oldest);
                self.on_no_hello(&peer, "no hello: too many connections");
            }
            self.pending.push(PendingPeer {
                stream,
                address,
                deadline: Instant::now() + HELLO_TIMEOUT,
                line: Vec::new(),
            });
        }
    }

    /// Sends the reason to an agent that cannot take part, and stores it for the error message.
    pub(super) fn reject(&mut self, stream: TcpStream, peer: SocketAddr, reason: &str) {
        tracing::warn!(%peer, reason, "rejected agent");
        if self.rejected.len() < REJECTED_STORED_MAX {
            self.rejected.push(format!("{peer}: {reason}"));
        }
        send_rejection(&stream, reason);
    }

    /// Describes the rejected peers in parentheses; empty if there are none.
    pub(super) fn rejected(&self) -> String {
        let mut rejected = self.rejected.clone();
        if self.without_hello > 0 {
            rejected.push(format!("{} peers without a hello", self.without_hello));
        }
        match rejected.is_empty() {
            true => String::new(),
            false => format!(" (rejected: {})", rejected.join("; ")),
        }
    }
}

impl PendingPeer {
    /// Reads available bytes. Returns the hello once its line is complete; no data may follow it.
    fn read_hello(&mut self) -> io::Result<Option<AgentHello>> {
        let mut piece = [0; 512];
        loop {
            match self.stream.read(&mut piece) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.line.extend_from_slice(&piece[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return match Instant::now() > self.deadline {
                        true => Err(io::ErrorKind::TimedOut.into()),
                        false => Ok(None),
                    };
                }
                Err(error) => return Err(error),
            }
            if self.line.ends_with(b"\n") {
                let hello = serde_json::from_slice(&self.line).map(Some);
                return hello.map_err(|_| io::ErrorKind::InvalidData.into());
            }
            if self.line.len() > HELLO_BYTES_MAX {
                return Err(io::ErrorKind::InvalidData.into());
            }
        }
    }
}

/// Compares the clocks in a thread, then sends the agent.
fn join(peer: PendingPeer, pid: u32, events: SyncSender<CoordinatorEvent>) {
    thread::spawn(move || {
        let agent = JoinedAgent {
            clock: compare_clocks(&peer.stream),
            stream: peer.stream,
            peer: peer.address,
            pid,
        };
        // The coordinator may have ended.
        let _ = events.send(CoordinatorEvent::Join(agent));
    });
}

/// Compares the clocks several times and uses the fastest response, which is the most exact one.
fn compare_clocks(mut stream: &TcpStream) -> io::Result<ClockDifference> {
    stream.set_nonblocking(false)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(HELLO_TIMEOUT))?;
    let clock = Clock::start();
    let mut input = BufReader::new(stream.take(HELLO_BYTES_MAX as u64));
    let mut compare = || -> io::Result<ClockDifference> {
        let requested_at = clock.now_unix_ns();
        stream.write_all(&line(&CoordinatorMessage::Clock))?;
        let unix_ns: u64 = read_message(&mut input)?.ok_or(io::ErrorKind::UnexpectedEof)?;
        let error_ns = (clock.now_unix_ns() - requested_at) / 2;
        let ahead_ns = i128::from(unix_ns) - i128::from(requested_at + error_ns);
        Ok(ClockDifference { ahead_ns, error_ns })
    };
    let mut best = compare()?;
    for _ in 1..CLOCK_REQUESTS {
        let next = compare()?;
        if next.error_ns < best.error_ns {
            best = next;
        }
    }
    stream.set_read_timeout(None)?;
    Ok(best)
}

pub(super) fn send_rejection(mut stream: &TcpStream, reason: &str) {
    let reason = reason.to_owned();
    // The few bytes fit the buffer of a new socket. On a write error the peer only misses the
    // reason.
    let _ = stream.write_all(&line(&CoordinatorMessage::Refused { reason }));
}

/// Returns the reason to reject an agent; `None` if it may join.
fn check(hello: &AgentHello, token: &str) -> Option<String> {
    let own = env!("CARGO_PKG_VERSION");
    if !is_same(hello.token.as_bytes(), token.as_bytes()) {
        return Some(format!(
            "wrong token: set {TOKEN_VARIABLE} to the token of the run"
        ));
    }
    let version = &hello.version;
    let reason =
        || format!("agent has version {version}, the coordinator {own}: use the same program");
    (version != own).then(reason)
}

/// Compares in constant time.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Limit of a hello, which has a few hundred bytes, and of all responses about the clock.
pub(super) const HELLO_BYTES_MAX: usize = 4096;
/// Maximum number of connections without a hello.
const PENDING_MAX: usize = 64;
/// Maximum number of connections without a hello from one address.
const ADDRESS_PENDING_MAX: usize = 32;
/// Maximum accepts per iteration of the coordinator (20 ms). It gives agents two iterations for
/// their hello before their connection can be the oldest of too many.
const ACCEPTS_PER_ITERATION: usize = 16;
const CLOCK_REQUESTS: usize = 8;
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
const REJECTED_STORED_MAX: usize = 8;
