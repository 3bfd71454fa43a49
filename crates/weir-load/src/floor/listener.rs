//! Accepts connections and reads the key line of each client, in its own thread.

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

use crate::error::{LoadError, Result};

#[derive(Debug)]
pub(super) struct FloorSubscriber {
    pub(super) socket: TcpStream,
    pub(super) filter: KeyFilter,
}

/// Records that a subscriber receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum KeyFilter {
    /// Records of one key; the empty key is that of records without a key.
    Key(Box<[u8]>),
    /// All records.
    All,
}

/// Listening socket and its thread, which ends on drop.
#[derive(Debug)]
pub(super) struct FloorListener {
    pub(super) port: u16,
    pub(super) subscribers: Receiver<FloorSubscriber>,
    waker: Waker,
    closed: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FloorListener {
    pub(super) fn open(address: SocketAddr) -> Result<Self> {
        let mut listener =
            listen(address).map_err(|reason| LoadError::Listen(address.to_string(), reason))?;
        let failed =
            |reason| LoadError::System("starting the thread that accepts connections", reason);
        let port = listener.local_addr().map_err(failed)?.port();
        let poll = Poll::new().map_err(failed)?;
        let waker = Waker::new(poll.registry(), WAKER).map_err(failed)?;
        let (sender, subscribers) = mpsc::sync_channel(SUBSCRIBERS_QUEUED_MAX);
        let closed = Arc::new(AtomicBool::new(false));
        let registered = poll
            .registry()
            .register(&mut listener, LISTENER, Interest::READABLE);
        registered.map_err(failed)?;
        let mut handshakes = HandshakeLoop {
            poll,
            listener,
            sender,
            closed: Arc::clone(&closed),
            pending: Slab::new(),
        };
        let thread = thread::Builder::new()
            .name("floor-accept".to_owned())
            .spawn(move || {
                if let Err(error) = handshakes.run() {
                    tracing::error!(%error, "stopped accepting connections");
                }
            })
            .map_err(failed)?;
        Ok(Self {
            port,
            subscribers,
            waker,
            closed,
            thread: Some(thread),
        })
    }
}

impl Drop for FloorListener {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Release);
        // Makes space for a subscriber that the thread may be waiting to queue.
        while self.subscribers.try_recv().is_ok() {}
        let woken = self.waker.wake().is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            // The panic hook has reported a panic of the thread.
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

struct HandshakeLoop {
    poll: Poll,
    listener: TcpListener,
    sender: SyncSender<FloorSubscriber>,
    closed: Arc<AtomicBool>,
    /// Connections without a complete line, each with the bytes received so far.
    pending: Slab<(TcpStream, Vec<u8>)>,
}

impl HandshakeLoop {
    fn run(&mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        let mut more = false;
        while !self.closed.load(Ordering::Acquire) {
            // Without a free file descriptor, connections stay queued and cause no further event.
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
                    self.read(event.token().0);
                }
            }
        }
        Ok(())
    }

    /// Accepts all queued connections. Returns `false` if accepting should be retried later.
    fn accept_all(&mut self) -> bool {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    if let Err(error) = self.add(socket) {
                        tracing::debug!(%error, "rejected connection");
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return true,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(error) => {
                    tracing::warn!(%error, "failed to accept connection");
                    return false;
                }
            }
        }
    }

    fn add(&mut self, mut socket: TcpStream) -> io::Result<()> {
        if self.pending.len() >= HANDSHAKES_MAX {
            return Err(io::Error::other("too many connections without a key"));
        }
        socket.set_nodelay(true)?;
        let entry = self.pending.vacant_entry();
        let token = Token(entry.key());
        let registry = self.poll.registry();
        registry.register(&mut socket, token, Interest::READABLE)?;
        entry.insert((socket, Vec::new()));
        // The line has usually arrived already and may cause no further event.
        self.read(token.0);
        Ok(())
    }

    fn read(&mut self, at: usize) {
        let Some((socket, line)) = self.pending.get_mut(at) else {
            return;
        };
        match read_line(socket, line) {
            Ok(None) => {}
            Ok(Some(filter)) => self.hand_over(at, filter),
            Err(error) => {
                tracing::debug!(%error, "closed connection without a key");
                self.pending.remove(at);
            }
        }
    }

    fn hand_over(&mut self, at: usize, filter: KeyFilter) {
        let (mut socket, _) = self.pending.remove(at);
        let freed = self.poll.registry().deregister(&mut socket);
        // Blocks while the queue is full; the other thread empties it in every iteration and on
        // drop.
        if freed.is_ok() && !self.closed.load(Ordering::Acquire) {
            let _ = self.sender.send(FloorSubscriber { socket, filter });
        }
    }
}

/// Reads available bytes. Returns the filter once the line is complete.
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
            return Err(io::Error::other("key line is too long"));
        }
    }
}

const LISTENER: Token = Token(usize::MAX - 1);
const WAKER: Token = Token(usize::MAX);
const BACKLOG: i32 = 4096;
const SUBSCRIBERS_QUEUED_MAX: usize = 4096;
/// Maximum number of connections without a complete line.
const HANDSHAKES_MAX: usize = 16_384;
const LINE_BYTES_MAX: usize = 1024;
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    const TEST_TIMEOUT: Duration = Duration::from_secs(10);

    fn open() -> (FloorListener, SocketAddr) {
        let listener = FloorListener::open(([127, 0, 0, 1], 0).into()).expect("a free port");
        let address = ([127, 0, 0, 1], listener.port).into();
        (listener, address)
    }

    #[test]
    fn split_key_line_parses_once() {
        let (listener, address) = open();
        let mut client = std::net::TcpStream::connect(address).expect("connects");
        let mut other = std::net::TcpStream::connect(address).expect("connects");
        client.write_all(b"App").expect("written");
        other.write_all(b"*\n").expect("written");
        let subscribers = &listener.subscribers;
        let second = subscribers
            .recv_timeout(TEST_TIMEOUT)
            .expect("the second one");
        assert_eq!(second.filter, KeyFilter::All);
        client.write_all(b"le\r\n").expect("written");
        let first = subscribers
            .recv_timeout(TEST_TIMEOUT)
            .expect("the first one");
        assert_eq!(first.filter, KeyFilter::Key(b"Apple".as_slice().into()));
    }

    #[test]
    fn unterminated_lines_and_closed_connections_are_rejected() {
        let mut line = Vec::new();
        let mut endless = io::repeat(b'x');
        assert!(read_line(&mut endless, &mut line).is_err());
        assert!(line.len() <= LINE_BYTES_MAX + 256);
        assert!(read_line(&mut io::empty(), &mut Vec::new()).is_err());
        let filter = read_line(&mut b"\n".as_slice(), &mut Vec::new()).expect("readable");
        assert_eq!(filter, Some(KeyFilter::Key([].into())));
    }

    #[test]
    fn port_in_use_is_named() {
        let (_listener, address) = open();
        let error = FloorListener::open(address)
            .expect_err("port in use")
            .to_string();
        assert!(error.contains(&address.to_string()), "{error}");
    }
}
