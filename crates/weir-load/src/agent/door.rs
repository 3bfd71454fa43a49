//! Where agents come in: a listening socket that answers only those who know the token.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::SyncSender;
use std::thread;
use std::time::{Duration, Instant};

use super::wire::{self, Answer, ClockReading, HELLO_BYTES_MAX, Hello};
use crate::clock::Clock;

/// The listening socket.
#[derive(Debug)]
pub(super) struct Door {
    listener: TcpListener,
    token: Arc<str>,
    /// Strangers being listened to.
    waiting: Arc<AtomicUsize>,
}

/// Who came.
#[derive(Debug)]
pub(super) enum Visitor {
    /// An agent that knows the token.
    Agent {
        stream: TcpStream,
        peer: SocketAddr,
        hello: Hello,
        clock: ClockDifference,
    },
    /// Anybody else, already sent away.
    Refused { peer: SocketAddr, reason: String },
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

impl Door {
    pub(super) fn open(address: SocketAddr, token: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            token: token.into(),
            waiting: Arc::default(),
        })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Lets in whoever waits outside; what became of them goes to `visitors`. Never blocks: each is
    /// listened to on a thread, a bounded number at once and for a bounded time.
    pub(super) fn look<V: From<Visitor> + Send + 'static>(&self, visitors: &SyncSender<V>) {
        while self.waiting.load(Ordering::Relaxed) < STRANGERS_MAX {
            let Ok((stream, peer)) = self.listener.accept() else {
                return;
            };
            let (token, clock) = (Arc::clone(&self.token), Clock::start());
            let (waiting, visitors) = (Arc::clone(&self.waiting), visitors.clone());
            waiting.fetch_add(1, Ordering::Relaxed);
            thread::spawn(move || {
                let visitor = greet(stream, peer, &token, clock);
                waiting.fetch_sub(1, Ordering::Relaxed);
                // The run may be over.
                let _ = visitors.send(visitor.into());
            });
        }
    }
}

fn greet(stream: TcpStream, peer: SocketAddr, token: &str, clock: Clock) -> Visitor {
    let met = listen(&stream, token).and_then(|hello| {
        let compared = compare_clocks(&stream, clock);
        let difference = compared.map_err(|error| format!("no clock: {error}"))?;
        Ok((hello, difference))
    });
    match met {
        Ok((hello, clock)) => Visitor::Agent {
            stream,
            peer,
            hello,
            clock,
        },
        Err(reason) => {
            send_away(stream, &reason);
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
        stream.write_all(&wire::line(&Answer::Clock))?;
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
pub(super) fn send_away(mut stream: TcpStream, reason: &str) {
    let refused = Answer::Refused {
        reason: reason.to_owned(),
    };
    // Who does not listen misses only the reason.
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    let _ = stream.write_all(&wire::line(&refused));
}

fn listen(stream: &TcpStream, token: &str) -> Result<Hello, String> {
    let line = short_line(stream).map_err(|error| format!("no hello: {error}"))?;
    let hello: Hello = wire::parse(&line).map_err(|_| "no hello".to_owned())?;
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
    Ok(hello)
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

const STRANGERS_MAX: usize = 32;
const CLOCK_QUESTIONS: usize = 8;
const HELLO_WITHIN: Duration = Duration::from_secs(10);
