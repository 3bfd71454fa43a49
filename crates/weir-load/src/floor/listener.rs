//! Accepts connections and reads the one line each client sends, on a thread of its own.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use socket2::{Domain, Protocol, Socket, Type};

use crate::error::LoadError;

/// Somebody who has said what it wants to hear.
#[derive(Debug)]
pub(super) struct FloorSubscriber {
    pub(super) socket: TcpStream,
    pub(super) wish: KeyFilter,
}

/// Which records a guest wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyFilter {
    /// Those of one key; the empty key is that of records without one.
    Key(Box<[u8]>),
    /// All.
    All,
}

/// The listening socket and its thread; closing it ends the thread.
#[derive(Debug)]
pub(super) struct FloorListener {
    port: u16,
    guests: Receiver<FloorSubscriber>,
    waker: Waker,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FloorListener {
    /// Listens on `address`.
    pub(super) fn open(address: SocketAddr) -> Result<Self, LoadError> {
        let listener = listen(address).map_err(|reason| LoadError::Listen {
            address: address.to_string(),
            reason,
        })?;
        let failed = |reason| LoadError::System {
            what: "starting the floor's thread for new connections",
            reason,
        };
        let port = listener.local_addr().map_err(failed)?.port();
        let poll = Poll::new().map_err(failed)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(failed)?;
        let (sender, guests) = mpsc::sync_channel(SUBSCRIBERS_QUEUED_MAX);
        let closed = Arc::new(AtomicBool::new(false));
        let mut keeper =
            HandshakeLoop::new(poll, listener, sender, Arc::clone(&closed)).map_err(failed)?;
        let thread = thread::Builder::new()
            .name("floor-door".to_owned())
            .spawn(move || {
                if let Err(error) = keeper.work() {
                    tracing::error!(%error, "no more connections are accepted");
                }
            })
            .map_err(failed)?;
        Ok(Self {
            port,
            guests,
            waker,
            closed,
            thread: Some(thread),
        })
    }

    /// The port listened on.
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Who came in.
    pub(super) fn guests(&self) -> &Receiver<FloorSubscriber> {
        &self.guests
    }
}

impl Drop for FloorListener {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Room for the guest the thread may be waiting to hand over.
        while self.guests.try_recv().is_ok() {}
        let woken = self.waker.wake().is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            // A panic of the thread was reported where it happened.
            let _ = thread.join();
        }
    }
}

fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let domain = Domain::for_address(address);
    let socket = Socket::new(domain, Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// What the thread holds.
struct HandshakeLoop {
    poll: Poll,
    listener: TcpListener,
    sender: SyncSender<FloorSubscriber>,
    closed: Arc<AtomicBool>,
    /// Connections that have not said their line, each with what came of it so far.
    waiting: Slab<(TcpStream, Vec<u8>)>,
}

impl HandshakeLoop {
    fn new(
        poll: Poll,
        mut listener: TcpListener,
        sender: SyncSender<FloorSubscriber>,
        closed: Arc<AtomicBool>,
    ) -> io::Result<Self> {
        poll.registry()
            .register(&mut listener, LISTENER, Interest::READABLE)?;
        Ok(Self {
            poll,
            listener,
            sender,
            closed,
            waiting: Slab::new(),
        })
    }

    fn work(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut more = false;
        while !self.closed.load(Ordering::Acquire) {
            // Without a free descriptor the queue stays, and no event tells of it again.
            match self.poll.poll(&mut events, more.then_some(ACCEPT_PAUSE)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                outcome => outcome?,
            }
            more |= events.iter().any(|event| event.token() == LISTENER);
            if more {
                more = !self.accept_all();
            }
            for event in &events {
                if event.token().0 < LISTENER.0 {
                    self.hear(event.token().0);
                }
            }
        }
        Ok(())
    }

    /// Accepts until nobody waits; false if it should be tried again in a while.
    fn accept_all(&mut self) -> bool {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    if let Err(error) = self.greet(socket) {
                        tracing::debug!(%error, "connection refused");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "connection not accepted");
                    return false;
                }
            }
        }
    }

    fn greet(&mut self, mut socket: TcpStream) -> io::Result<()> {
        if self.waiting.len() >= WAITING_MAX {
            return Err(io::Error::other("too many connections without a key"));
        }
        socket.set_nodelay(true)?;
        let entry = self.waiting.vacant_entry();
        let token = Token(entry.key());
        self.poll
            .registry()
            .register(&mut socket, token, Interest::READABLE)?;
        entry.insert((socket, Vec::new()));
        // The line is usually there already, and then no event may tell of it.
        self.hear(token.0);
        Ok(())
    }

    /// Reads from one that has not said its line.
    fn hear(&mut self, at: usize) {
        let Some((socket, line)) = self.waiting.get_mut(at) else {
            return;
        };
        match read_line(socket, line) {
            Ok(None) => {}
            Ok(Some(wish)) => self.hand_over(at, wish),
            Err(error) => {
                tracing::debug!(%error, "connection without a key");
                self.waiting.remove(at);
            }
        }
    }

    fn hand_over(&mut self, at: usize, wish: KeyFilter) {
        let (mut socket, _) = self.waiting.remove(at);
        let freed = self.poll.registry().deregister(&mut socket);
        // Waits for room: the other side takes guests at every turn, and a closed one takes none.
        if freed.is_ok() && !self.closed.load(Ordering::Acquire) {
            let _ = self.sender.send(FloorSubscriber { socket, wish });
        }
    }
}

/// Reads what is there; the wish once the line is complete.
fn read_line(socket: &mut impl Read, line: &mut Vec<u8>) -> io::Result<Option<KeyFilter>> {
    let mut buffer = [0; 256];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => line.extend_from_slice(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if let Some(end) = line.iter().position(|&byte| byte == b'\n') {
            let key = line[..end].strip_suffix(b"\r").unwrap_or(&line[..end]);
            return Ok(Some(match key {
                b"*" => KeyFilter::All,
                key => KeyFilter::Key(key.into()),
            }));
        }
        if line.len() > LINE_BYTES_MAX {
            return Err(io::Error::other("the key is too long"));
        }
    }
}

const LISTENER: Token = Token(usize::MAX - 1);
const WAKER: Token = Token(usize::MAX);
const BACKLOG: i32 = 4096;
const SUBSCRIBERS_QUEUED_MAX: usize = 4096;
/// Connections that may be open without having sent a line.
const WAITING_MAX: usize = 16_384;
const LINE_BYTES_MAX: usize = 1024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const DEADLINE: Duration = Duration::from_secs(10);

    fn open() -> (FloorListener, SocketAddr) {
        let door = FloorListener::open(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = ([127, 0, 0, 1], door.port()).into();
        (door, address)
    }

    #[test]
    fn a_line_in_pieces_is_one_wish() {
        let (door, address) = open();
        let mut client = std::net::TcpStream::connect(address).expect("connects");
        let mut other = std::net::TcpStream::connect(address).expect("connects");
        client.write_all(b"App").expect("written");
        other.write_all(b"*\n").expect("written");
        let guest = door
            .guests()
            .recv_timeout(DEADLINE)
            .expect("the second one");
        assert_eq!(guest.wish, KeyFilter::All);
        client.write_all(b"le\r\n").expect("written");
        let guest = door.guests().recv_timeout(DEADLINE).expect("the first one");
        assert_eq!(guest.wish, KeyFilter::Key(b"Apple".as_slice().into()));
    }

    #[test]
    fn lines_without_end_and_closed_connections_are_refused() {
        let mut line = Vec::new();
        let mut endless = io::repeat(b'x');
        assert!(read_line(&mut endless, &mut line).is_err());
        assert!(line.len() <= LINE_BYTES_MAX + 256);
        assert!(read_line(&mut io::empty(), &mut Vec::new()).is_err());
        let wish = read_line(&mut b"\n".as_slice(), &mut Vec::new()).expect("readable");
        assert_eq!(wish, Some(KeyFilter::Key([].into())));
    }

    #[test]
    fn a_taken_port_is_named() {
        let (_door, address) = open();
        let error = FloorListener::open(address).expect_err("taken").to_string();
        assert!(error.contains(&address.to_string()), "{error}");
    }
}
