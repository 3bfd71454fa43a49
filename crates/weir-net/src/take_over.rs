//! Hands the listening sockets of a process over to its successor, through a Unix socket.
//!
//! The successor connects and receives a line of JSON, then a copy of each socket. Both processes
//! accept connections until the successor reports that it is ready. A successor that ends before
//! changes nothing. Only processes of the same user are served.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::net::TcpListener;
use std::os::fd::AsFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use rustix::cmsg_space;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

/// Version of the exchange.
const PROTOCOL: u32 = 1;
/// Sockets per message; Linux allows 253.
const AT_ONCE: usize = 64;
/// Maximum number of sockets.
const SOCKETS_MAX: usize = 20_000;
/// Maximum length of the first line in bytes.
const LINE_BYTES_MAX: usize = 1_024;
/// Maximum time for one message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// Message of a successor that is ready.
const READY: &[u8] = b"ready\n";

/// First line of a process that hands over its sockets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeOverOffer {
    protocol: u32,
    /// Version of its program.
    pub version: String,
    /// Number of its event loops, which is the number of sockets per address.
    pub event_loops: usize,
    /// Number of sockets that follow.
    sockets: usize,
    /// Process id.
    pub pid: u32,
}

/// The reason why sockets cannot be taken over.
#[derive(Debug, thiserror::Error)]
pub enum TakeOverError {
    /// The socket failed.
    #[error("{0}")]
    Socket(#[from] io::Error),
    /// The other process has sent something else, or nothing.
    #[error("{0}")]
    Peer(&'static str),
}

impl TakeOverError {
    /// Returns the error of a read of the other process.
    fn of_read(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Peer(
                "the running process does not respond within 10 s: it waits for another \
                 successor, stop that one first",
            ),
            _ => Self::Socket(error),
        }
    }
}

/// A running process whose sockets this process has received.
#[derive(Debug)]
pub struct Predecessor {
    stream: UnixStream,
    /// The first line of the process.
    pub offer: TakeOverOffer,
}

impl Predecessor {
    /// Receives the sockets of the process that listens at `path`. Returns `None` if there is none.
    ///
    /// # Errors
    /// The process does not hand them over.
    pub fn connect(path: &Path) -> Result<Option<(Self, Vec<TcpListener>)>, TakeOverError> {
        let stream = match UnixStream::connect(path) {
            Ok(stream) => stream,
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                return Ok(None);
            }
            Err(error) => return Err(error.into()),
        };
        stream.set_read_timeout(Some(MESSAGE_TIMEOUT))?;
        let offer = read_offer(&stream)?;
        let mut sockets = Vec::with_capacity(offer.sockets);
        while sockets.len() < offer.sockets {
            if receive(&stream, &mut sockets).map_err(TakeOverError::of_read)? == 0 {
                return Err(TakeOverError::Peer("it has sent fewer sockets than stated"));
            }
        }
        Ok(Some((Self { stream, offer }, sockets)))
    }

    /// Reports that this process is ready, so that the other one shuts down.
    ///
    /// # Errors
    /// The other process has ended.
    pub fn release(mut self) -> io::Result<()> {
        self.stream.write_all(READY)
    }
}

fn read_offer(mut stream: &UnixStream) -> Result<TakeOverOffer, TakeOverError> {
    let mut line = Vec::new();
    let mut byte = [0];
    // By byte, because a longer read would lose the sockets of the next message.
    while stream.read(&mut byte).map_err(TakeOverError::of_read)? == 1 && byte != *b"\n" {
        line.push(byte[0]);
        if line.len() > LINE_BYTES_MAX {
            return Err(TakeOverError::Peer("its first line is too long"));
        }
    }
    if line.is_empty() {
        let text = "it refuses: it runs as another user, or has no sockets to hand over";
        return Err(TakeOverError::Peer(text));
    }
    let offer: Result<TakeOverOffer, _> = serde_json::from_slice(&line);
    let offer = offer
        .map_err(|_| TakeOverError::Peer("it is no process that hands over: name another path"))?;
    if offer.protocol != PROTOCOL || offer.sockets > SOCKETS_MAX {
        return Err(TakeOverError::Peer(
            "its version of the exchange differs: stop it, then start this one",
        ));
    }
    Ok(offer)
}

/// Receives a message. Returns the number of its bytes.
fn receive(stream: &UnixStream, sockets: &mut Vec<TcpListener>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(AT_ONCE))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    let parts = &mut [IoSliceMut::new(&mut byte)];
    let received = recvmsg(stream, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            sockets.extend(descriptors.map(TcpListener::from));
        }
    }
    Ok(received.bytes)
}

/// The Unix socket at which a process waits for its successor.
#[derive(Debug)]
pub struct HandOver(UnixListener);

impl HandOver {
    /// Listens at `path`, in place of a predecessor. Only the own user may connect.
    ///
    /// # Errors
    /// The file cannot be created, or is no socket.
    pub fn listen(path: &Path) -> io::Result<Self> {
        use std::os::unix::fs::FileTypeExt as _;
        if let Ok(known) = std::fs::symlink_metadata(path) {
            if !known.file_type().is_socket() {
                let text = "it exists and is not a socket";
                return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
            }
            std::fs::remove_file(path)?;
        }
        let listener = UnixListener::bind(path)?;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self(listener))
    }

    /// Waits for a successor that takes the sockets and becomes ready. Returns its process id.
    /// `sockets` is called for each attempt; the errors of failed attempts are passed to `failed`.
    ///
    /// # Errors
    /// The Unix socket failed.
    pub fn wait(
        &self,
        event_loops: usize,
        version: &str,
        sockets: impl Fn() -> io::Result<Vec<TcpListener>>,
        failed: impl Fn(&io::Error),
    ) -> io::Result<i32> {
        loop {
            let (stream, _) = self.0.accept()?;
            let outcome = own_process(&stream).and_then(|pid| {
                let sockets = sockets()?;
                let offer = TakeOverOffer {
                    protocol: PROTOCOL,
                    version: version.to_owned(),
                    event_loops,
                    sockets: sockets.len(),
                    pid: std::process::id(),
                };
                serve(stream, &offer, &sockets)?;
                Ok(pid)
            });
            match outcome {
                Ok(pid) => return Ok(pid),
                Err(error) => failed(&error),
            }
        }
    }
}

/// Returns the process id of a peer of the same user.
fn own_process(stream: &UnixStream) -> io::Result<i32> {
    let peer = socket_peercred(stream)?;
    if peer.uid != rustix::process::geteuid() {
        let text = format!("process of user {} refused", peer.uid.as_raw());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(peer.pid.as_raw_nonzero().get())
}

/// Sends the sockets to a successor and waits until it is ready.
fn serve(mut stream: UnixStream, offer: &TakeOverOffer, sockets: &[TcpListener]) -> io::Result<()> {
    stream.set_write_timeout(Some(MESSAGE_TIMEOUT))?;
    let mut line = serde_json::to_vec(offer)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    for part in sockets.chunks(AT_ONCE) {
        let descriptors: Vec<_> = part.iter().map(|socket| socket.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(AT_ONCE))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        sendmsg(
            &stream,
            &[IoSlice::new(b".")],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
    }
    let mut ready = [0; READY.len()];
    match stream.read_exact(&mut ready) {
        Ok(()) if ready == READY => Ok(()),
        _ => Err(io::Error::other("the successor ended before it was ready")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::listen_shared;
    use std::net::SocketAddr;

    /// Listens at the path. The thread returns the process id of the first successor that became
    /// ready, and the failures before.
    fn predecessor(
        path: &Path,
        sockets: Vec<TcpListener>,
    ) -> std::thread::JoinHandle<(i32, Vec<String>)> {
        let hand_over = HandOver::listen(path).expect("listens");
        std::thread::spawn(move || {
            let failures = std::cell::RefCell::new(Vec::new());
            let copies = || sockets.iter().map(TcpListener::try_clone).collect();
            let failed = |error: &io::Error| failures.borrow_mut().push(error.to_string());
            let pid = hand_over.wait(2, "1.2.3", copies, failed).expect("accepts");
            (pid, failures.take())
        })
    }

    fn sockets(count: usize) -> Vec<TcpListener> {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let open = |_| listen_shared(any, 1).expect("a port").remove(0);
        (0..count).map(open).collect()
    }

    fn addresses(sockets: &[TcpListener]) -> Vec<SocketAddr> {
        let addresses = sockets.iter().map(TcpListener::local_addr);
        addresses.map(|address| address.expect("bound")).collect()
    }

    #[test]
    fn a_successor_gets_all_sockets() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("weir.sock");
        assert!(
            Predecessor::connect(&path)
                .expect("no peer is no error")
                .is_none()
        );
        // More than fit into one message.
        let own = sockets(AT_ONCE * 2 + 1);
        let expected = addresses(&own);
        let old = predecessor(&path, own);
        // A successor that ends before it is ready changes nothing.
        drop(
            Predecessor::connect(&path)
                .expect("connects")
                .expect("listens"),
        );
        let connected = Predecessor::connect(&path)
            .expect("connects")
            .expect("listens");
        let (predecessor, taken) = connected;
        assert_eq!(addresses(&taken), expected);
        assert_eq!(
            (predecessor.offer.event_loops, &*predecessor.offer.version),
            (2, "1.2.3")
        );
        HandOver::listen(&path).expect("replaces the file");
        predecessor.release().expect("waits for it");
        let (pid, failures) = old.join().expect("ends");
        assert_eq!(pid, std::process::id() as i32);
        assert_eq!(failures, ["the successor ended before it was ready"]);
    }

    #[test]
    fn other_peers_and_files_are_rejected() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("weir.sock");
        std::fs::write(&path, "notes").expect("writes");
        let error = HandOver::listen(&path).expect_err("a file");
        assert_eq!(error.to_string(), "it exists and is not a socket");
        std::fs::remove_file(&path).expect("removes");
        for (response, expected) in [
            (
                "",
                "it refuses: it runs as another user, or has no sockets to hand over",
            ),
            (
                "HTTP/1.1 400\n",
                "it is no process that hands over: name another path",
            ),
            (&"x".repeat(2_000), "its first line is too long"),
            (
                "{\"protocol\":2,\"version\":\"\",\"event_loops\":1,\"sockets\":0,\"pid\":1}\n",
                "its version of the exchange differs: stop it, then start this one",
            ),
            (
                "{\"protocol\":1,\"version\":\"\",\"event_loops\":1,\"sockets\":3,\"pid\":1}\n",
                "it has sent fewer sockets than stated",
            ),
        ] {
            let listener = UnixListener::bind(&path).expect("listens");
            let response = response.to_owned();
            let peer = std::thread::spawn(move || {
                let (mut stream, _) = listener.accept().expect("accepts");
                stream.write_all(response.as_bytes()).expect("writes");
            });
            let error = Predecessor::connect(&path).expect_err("not a predecessor");
            assert_eq!(error.to_string(), expected);
            peer.join().expect("ends");
            std::fs::remove_file(&path).expect("removes");
        }
    }
}
