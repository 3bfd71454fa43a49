//! Listener for agents: encrypts connections and checks the token of each.

use std::io;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::channel::{Channel, RunToken};
use super::frames::{AgentHello, DATA_BYTES_MAX, FrameKind};

/// Agent with the token and the program of the run. It waits for the acceptance.
#[derive(Debug)]
pub(super) struct OfferedAgent {
    pub(super) machine: String,
    pub(super) peer: SocketAddr,
    pub(super) channel: Channel,
}

/// Listener in its own thread; closed when dropped.
#[derive(Debug)]
pub(super) struct AgentListener {
    pub(super) address: SocketAddr,
    offered: Receiver<OfferedAgent>,
    peers: Arc<Peers>,
    thread: Option<JoinHandle<()>>,
}

/// Connections that have not offered an agent yet, and those that never will.
#[derive(Debug, Default)]
struct Peers {
    stop: AtomicBool,
    pending: Mutex<Vec<PendingPeer>>,
    rejected: Mutex<RejectedPeers>,
}

/// Connection without a hello. Agents send theirs at once. If there are too many connections, the
/// oldest is therefore closed: silent peers never block agents, which connect again.
#[derive(Debug)]
struct PendingPeer {
    number: u64,
    address: IpAddr,
    socket: TcpStream,
}

#[derive(Debug, Default)]
struct RejectedPeers {
    reasons: Vec<String>,
    more: u64,
}

impl AgentListener {
    /// Listens at an address for agents with a token that run the program with a hash.
    pub(super) fn open(address: SocketAddr, token: RunToken, sha256: &str) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let (sender, offered) = mpsc::sync_channel(PENDING_MAX);
        let peers = Arc::new(Peers::default());
        let (own, sha256) = (Arc::clone(&peers), sha256.to_owned());
        let thread = thread::spawn(move || accept(&listener, &token, &sha256, &own, &sender));
        Ok(Self {
            address,
            offered,
            peers,
            thread: Some(thread),
        })
    }

    /// Returns the next agent, after `timeout` none.
    pub(super) fn next(&self, timeout: Duration) -> Option<OfferedAgent> {
        match self.offered.recv_timeout(timeout) {
            Ok(agent) => Some(agent),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                thread::sleep(timeout);
                None
            }
        }
    }

    /// Sends the reason to an agent that cannot take part, and stores it for the error message.
    pub(super) fn reject(&self, agent: &OfferedAgent, reason: &str) {
        self.peers.reject(agent.peer, reason);
        send_rejection(&agent.channel, reason);
    }

    /// Describes the rejected peers in parentheses; empty if there are none.
    pub(super) fn rejected(&self) -> String {
        let rejected = lock(&self.peers.rejected);
        let mut reasons = rejected.reasons.clone();
        if rejected.more > 0 {
            reasons.push(format!("and {} more", rejected.more));
        }
        match reasons.is_empty() {
            true => String::new(),
            false => format!(" (rejected: {})", reasons.join("; ")),
        }
    }
}

impl Drop for AgentListener {
    fn drop(&mut self) {
        self.peers.stop.store(true, Ordering::Relaxed);
        for peer in lock(&self.peers.pending).drain(..) {
            let _ = peer.socket.shutdown(Shutdown::Both);
        }
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has been printed.
            let _ = thread.join();
        }
    }
}

impl Peers {
    /// Adds a connection and closes the oldest if there are too many, of its address or at all.
    fn add(&self, number: u64, address: IpAddr, socket: &TcpStream) -> io::Result<()> {
        let socket = socket.try_clone()?;
        let mut pending = lock(&self.pending);
        let is_same = |peer: &PendingPeer| peer.address == address;
        let same = pending.iter().filter(|peer| is_same(peer)).count();
        let oldest = match same >= ADDRESS_PENDING_MAX {
            true => pending.iter().position(is_same),
            false => (pending.len() >= PENDING_MAX).then_some(0),
        };
        if let Some(oldest) = oldest {
            let _ = pending.remove(oldest).socket.shutdown(Shutdown::Both);
        }
        pending.push(PendingPeer {
            number,
            address,
            socket,
        });
        Ok(())
    }

    fn remove(&self, number: u64) {
        lock(&self.pending).retain(|peer| peer.number != number);
    }

    fn reject(&self, peer: SocketAddr, reason: &str) {
        let mut rejected = lock(&self.rejected);
        // Logged a few times only, because peers control how often this happens.
        if rejected.reasons.len() < REJECTED_STORED_MAX {
            tracing::warn!(%peer, reason, "rejected agent");
            rejected.reasons.push(format!("{peer}: {reason}"));
        } else {
            rejected.more += 1;
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn accept(
    listener: &TcpListener,
    token: &RunToken,
    sha256: &str,
    peers: &Arc<Peers>,
    sender: &SyncSender<OfferedAgent>,
) {
    for number in 0.. {
        let (socket, peer) = loop {
            if peers.stop.load(Ordering::Relaxed) {
                return;
            }
            match listener.accept() {
                Ok(accepted) => break accepted,
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        };
        let is_blocking = socket.set_nonblocking(false).is_ok();
        if !is_blocking || peers.add(number, peer.ip(), &socket).is_err() {
            continue;
        }
        let (token, sha256) = (token.clone(), sha256.to_owned());
        let (peers, sender) = (Arc::clone(peers), sender.clone());
        thread::spawn(move || {
            let offered = greet(socket, &token, &sha256);
            peers.remove(number);
            match offered {
                // Fails only if all agents have joined.
                Ok((machine, channel)) => drop(sender.try_send(OfferedAgent {
                    machine,
                    peer,
                    channel,
                })),
                Err(reason) if peers.stop.load(Ordering::Relaxed) => drop(reason),
                Err(reason) => peers.reject(peer, &reason.to_string()),
            }
        });
    }
}

/// Encrypts a connection, and checks the hello of the agent. Returns the name of its machine.
fn greet(
    socket: TcpStream,
    token: &RunToken,
    sha256: &str,
) -> Result<(String, Channel), PeerError> {
    let deadline = Instant::now() + HELLO_TIMEOUT;
    let channel = Channel::accept(socket, token, deadline)?;
    let frame = channel.receive_until(deadline)?;
    let frame = frame.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
    let hello: Option<AgentHello> = match frame.kind {
        FrameKind::Hello => serde_json::from_slice(&frame.data).ok(),
        _ => None,
    };
    let Some(hello) = hello else {
        return Err(PeerError::NoHello);
    };
    let reason = if !is_same(hello.token.as_bytes(), token.text().as_bytes()) {
        PeerError::Token
    } else if hello.sha256 != sha256 {
        PeerError::Program(hello.version)
    } else {
        return Ok((hello.machine, channel));
    };
    send_rejection(&channel, &reason.to_string());
    Err(reason)
}

/// Reason to close the connection of a peer.
#[derive(Debug, thiserror::Error)]
enum PeerError {
    #[error("no agent with the token of this run: {0}")]
    Connection(#[from] io::Error),
    #[error("its first message is not that of an agent")]
    NoHello,
    #[error("wrong token")]
    Token,
    #[error(
        "agent runs another program (version {0}, coordinator {version}): use the same file",
        version = env!("CARGO_PKG_VERSION")
    )]
    Program(String),
}

fn send_rejection(channel: &Channel, reason: &str) {
    let reason = &reason.as_bytes()[..reason.len().min(DATA_BYTES_MAX)];
    // On a write error the peer only misses the reason.
    let _ = channel.send(FrameKind::Rejected, 0, reason);
    channel.finish();
}

/// Compares in constant time.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |all, (a, b)| all | (a ^ b)) == 0
}

/// Maximum number of connections without a hello.
const PENDING_MAX: usize = 64;
/// Maximum number of connections without a hello from one address.
const ADDRESS_PENDING_MAX: usize = 32;
/// Maximum time for the handshake and the hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(10);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const REJECTED_STORED_MAX: usize = 8;
