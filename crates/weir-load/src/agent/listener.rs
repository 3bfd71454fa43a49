//! Where agents come in: a listening socket that answers only those who know the token.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::wire::{self, AgentHello, ClockReading, CoordinatorMessage, HELLO_BYTES_MAX};
use crate::clock::Clock;

/// The listening socket.
#[derive(Debug)]
pub(super) struct AgentListener {
    listener: TcpListener,
    token: Arc<str>,
    strangers: Arc<Strangers>,
}

/// Who came.
#[derive(Debug)]
pub(super) enum Visitor {
    /// An agent that knows the token.
    Agent {
        stream: TcpStream,
        peer: SocketAddr,
        hello: AgentHello,
        clock: ClockDifference,
    },
    /// An agent that cannot take part, already sent away.
    Refused { peer: SocketAddr, reason: String },
    /// A peer that sent no hello: silent, foreign, or one connection too many. Already disconnected.
    Foreign { peer: SocketAddr, reason: String },
}

/// An agent's clock minus ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockDifference {
    pub(super) ahead_ns: i128,
    /// How far off that may be: half of the way there and back.
    pub(super) error_ns: u64,
}

impl ClockDifference {
    /// Whether it is more than `ns` for certain.
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
            strangers: Arc::default(),
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Accepts pending connections; what became of them goes to `visitors`. Never blocks: each peer
    /// is read on a thread of its own, a bounded number at once and for a bounded time.
    pub(super) fn look<V: From<Visitor> + Send + 'static>(&self, visitors: &SyncSender<V>) {
        for _ in 0..ACCEPTED_AT_ONCE_MAX {
            let Ok((stream, peer)) = self.listener.accept() else {
                return;
            };
            // Without a handle to disconnect it by, a silent peer would keep its thread.
            let Ok(handle) = stream.try_clone() else {
                continue;
            };
            let (token, clock) = (Arc::clone(&self.token), Clock::start());
            let (strangers, visitors) = (Arc::clone(&self.strangers), visitors.clone());
            let id = strangers.add(peer.ip(), handle);
            thread::spawn(move || {
                let visitor = greet(stream, peer, &token, clock, || strangers.remove(id));
                // The run may be over.
                let _ = visitors.send(visitor.into());
            });
        }
    }
}

/// Connections that have not sent a hello yet.
///
/// Agents send theirs at once, so that the oldest of too many is the one to disconnect: silent peers
/// never keep agents out, and those of one address only each other.
#[derive(Debug, Default)]
struct Strangers(Mutex<JoinAttempt>);

#[derive(Debug, Default)]
struct JoinAttempt {
    last_id: u64,
    /// The oldest first.
    connections: Vec<(u64, IpAddr, TcpStream)>,
}

impl Strangers {
    /// Adds a connection, and disconnects the oldest if there are too many.
    fn add(&self, address: IpAddr, handle: TcpStream) -> u64 {
        let mut waiting = self.waiting();
        let of_address = |(_, other, _): &(u64, IpAddr, TcpStream)| *other == address;
        let same = waiting
            .connections
            .iter()
            .filter(|it| of_address(it))
            .count();
        let surplus = match () {
            () if same >= ADDRESS_STRANGERS_MAX => waiting.connections.iter().position(of_address),
            () if waiting.connections.len() >= HANDSHAKES_MAX => Some(0),
            () => None,
        };
        if let Some(oldest) = surplus {
            let (_, _, stream) = waiting.connections.remove(oldest);
            // Its thread reads the end of the stream; one that is gone has ended already.
            let _ = stream.shutdown(Shutdown::Both);
        }
        waiting.last_id += 1;
        let id = waiting.last_id;
        waiting.connections.push((id, address, handle));
        id
    }

    fn remove(&self, id: u64) {
        self.waiting()
            .connections
            .retain(|(other, ..)| *other != id);
    }

    fn waiting(&self) -> MutexGuard<'_, JoinAttempt> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the hello, then calls `heard`; compares clocks with an agent.
fn greet(
    stream: TcpStream,
    peer: SocketAddr,
    token: &str,
    clock: Clock,
    heard: impl FnOnce(),
) -> Visitor {
    let hello = read_hello(&stream);
    heard();
    let met = match hello {
        Ok(hello) => check(&hello, token).and_then(|()| {
            let compared = compare_clocks(&stream, clock);
            let difference = compared.map_err(|error| format!("no clock: {error}"))?;
            Ok((hello, difference))
        }),
        Err(reason) => {
            reject(stream, &reason);
            return Visitor::Foreign { peer, reason };
        }
    };
    match met {
        Ok((hello, clock)) => Visitor::Agent {
            stream,
            peer,
            hello,
            clock,
        },
        Err(reason) => {
            reject(stream, &reason);
            Visitor::Refused { peer, reason }
        }
    }
}

/// Asks several times and keeps the quickest answer, which is the most exact one.
fn compare_clocks(mut stream: &TcpStream, clock: Clock) -> io::Result<ClockDifference> {
    stream.set_nodelay(true)?;
    let mut best: Option<ClockDifference> = None;
    for _ in 0..CLOCK_QUESTIONS {
        let asked = clock.now_unix_ns();
        stream.write_all(&wire::line(&CoordinatorMessage::Clock))?;
        let line = short_line(stream)?;
        let answered = clock.now_unix_ns();
        let reading: ClockReading = wire::parse(&line)?;
        let error_ns = (answered - asked) / 2;
        if best.is_none_or(|best| error_ns < best.error_ns) {
            let middle = i128::from(asked + error_ns);
            best = Some(ClockDifference {
                ahead_ns: i128::from(reading.unix_ns) - middle,
                error_ns,
            });
        }
    }
    best.ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Tells somebody that there is no work.
pub(super) fn reject(mut stream: TcpStream, reason: &str) {
    let refused = CoordinatorMessage::Refused {
        reason: reason.to_owned(),
    };
    // Who does not listen misses only the reason.
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    let _ = stream.write_all(&wire::line(&refused));
}

fn read_hello(stream: &TcpStream) -> Result<AgentHello, String> {
    let line = short_line(stream).map_err(|error| format!("no hello: {error}"))?;
    wire::parse(&line).map_err(|_| "no hello".to_owned())
}

fn check(hello: &AgentHello, token: &str) -> Result<(), String> {
    if !is_same(hello.token.as_bytes(), token.as_bytes()) {
        return Err(format!(
            "wrong token: set {} to that of the run",
            super::TOKEN_VARIABLE
        ));
    }
    let own = env!("CARGO_PKG_VERSION");
    if hello.version != own {
        return Err(format!(
            "version {} of the agent is not {own}: use the same program",
            hello.version
        ));
    }
    Ok(())
}

/// A line, which must be short, soon there, and all that is said.
fn short_line(mut stream: &TcpStream) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + HELLO_WITHIN;
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

/// Takes the same time wherever the first difference is.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Connections without a hello.
const HANDSHAKES_MAX: usize = 64;
/// Of these, those of one address.
const ADDRESS_STRANGERS_MAX: usize = 32;
/// Per turn of the coordinator (20 ms): the hello of an agent has two turns before its connection can be
/// the oldest of too many.
const ACCEPTED_AT_ONCE_MAX: usize = 16;
const CLOCK_QUESTIONS: usize = 8;
const HELLO_WITHIN: Duration = Duration::from_secs(10);
