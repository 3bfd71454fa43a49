//! Bytes that pass inside the kernel, from socket to pipe to socket: large bodies that nobody looks at are
//! never copied.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Bytes that a tube takes: as much as is read at once where bytes are copied.
const TUBE_BYTES: usize = 256 * 1024;
/// Tubes of one loop. A pair has one only while there is something in it; others copy meanwhile.
const PIPES_MAX: usize = 16;

/// A pipe between two sockets.
#[derive(Debug)]
pub(super) struct SplicePipe {
    inlet: OwnedFd,
    outlet: OwnedFd,
    held: usize,
}

impl SplicePipe {
    fn open() -> io::Result<Self> {
        let (outlet, inlet) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Refused for a user who has many pipes; then copying is better.
        fcntl_setpipe_size(&inlet, TUBE_BYTES)?;
        Ok(Self {
            inlet,
            outlet,
            held: 0,
        })
    }

    /// Bytes in it.
    pub(super) fn held(&self) -> usize {
        self.held
    }

    /// Takes at most `most` bytes from a socket, into an empty tube; `None`: there are none now, and 0:
    /// there will be none.
    pub(super) fn fill(&mut self, socket: impl AsFd, most: usize) -> io::Result<Option<usize>> {
        // More might lie in as many places, and all of it would be held if the other side lags.
        let most = most.min(TUBE_BYTES);
        let count = again(|| splice(&socket, None, &self.inlet, None, most, NOW))?;
        self.held += count.unwrap_or(0);
        Ok(count)
    }

    /// Gives to a socket as much as it takes; how much.
    pub(super) fn drain(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let mut sent = 0;
        while self.held > 0 {
            let held = self.held;
            let count = again(|| splice(&self.outlet, None, &socket, None, held, NOW))?;
            match count {
                None => break,
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(count) => {
                    self.held -= count;
                    sent += count;
                }
            }
        }
        Ok(sent)
    }
}

/// The tubes of one loop.
#[derive(Debug, Default)]
pub(super) struct PipePool {
    free: Vec<SplicePipe>,
    open: usize,
    /// Nothing can be passed so here.
    refused: bool,
}

impl PipePool {
    /// Ones that are never there, where bytes are to be copied.
    pub(super) fn none() -> Self {
        Self {
            refused: true,
            ..Self::default()
        }
    }

    /// An empty one, if there is one left.
    pub(super) fn take(&mut self) -> Option<SplicePipe> {
        if self.refused {
            return None;
        }
        if let Some(tube) = self.free.pop() {
            return Some(tube);
        }
        if self.open == PIPES_MAX {
            return None;
        }
        match SplicePipe::open() {
            Ok(tube) => {
                self.open += 1;
                Some(tube)
            }
            Err(error) => {
                tracing::debug!(%error, "no pipe: bytes are copied");
                self.refused = self.open == 0;
                None
            }
        }
    }

    /// Whether there is one to take.
    pub(super) fn has_any(&self) -> bool {
        !self.refused && (!self.free.is_empty() || self.open < PIPES_MAX)
    }

    /// Takes one back. What is in it belongs to a connection that has ended, so it goes with it.
    pub(super) fn put_back(&mut self, tube: SplicePipe) {
        if tube.held == 0 {
            self.free.push(tube);
        } else {
            self.open -= 1;
        }
    }

    /// Notes that the system does not pass bytes between these kinds of files.
    pub(super) fn refuse(&mut self, tube: SplicePipe) {
        tracing::info!("the system passes no bytes between sockets: they are copied");
        self.put_back(tube);
        self.refused = true;
    }
}

/// Whether a system says with this error that it can not do it at all.
pub(super) fn is_refusal(error: &io::Error) -> bool {
    let refusals = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP];
    refusals
        .iter()
        .any(|refusal| error.raw_os_error() == Some(refusal.raw_os_error()))
}

/// Once more after a signal; `None` if it has to wait.
fn again(mut call: impl FnMut() -> rustix::io::Result<usize>) -> io::Result<Option<usize>> {
    loop {
        match call() {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Pages need not be copied, and nothing is waited for.
const NOW: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Two ends of a connection; the first does not block.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn bytes_come_out_as_they_went_in_however_little_is_taken() {
        let ((from, mut writer), (to, mut reader)) = (pair(), pair());
        let sent: Vec<u8> = (0..8_000_000_u32).map(|i| (i % 251) as u8).collect();
        let copy = sent.clone();
        // The writer ends behind the last byte.
        let writer = std::thread::spawn(move || writer.write_all(&copy));
        let mut tubes = PipePool::default();
        let mut tube = tubes.take().unwrap();
        let mut got = vec![0; sent.len()];
        let (mut at, mut blocked) = (0, 0);
        loop {
            if tube.held() == 0 {
                match tube.fill(&from, 1_000_000).unwrap() {
                    Some(0) => break,
                    Some(count) => assert!(count <= TUBE_BYTES && count == tube.held()),
                    None => std::thread::yield_now(),
                }
            }
            tube.drain(&to).unwrap();
            // Nothing is read until the socket is full.
            if tube.held() > 0 {
                blocked += 1;
                at += reader.read(&mut got[at..]).unwrap();
            }
        }
        drop(to);
        reader.read_exact(&mut got[at..]).unwrap();
        assert!(got == sent);
        assert!(blocked > 0, "it had to wait");
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn there_are_only_so_many() {
        let mut tubes = PipePool::default();
        let all: Vec<SplicePipe> = std::iter::from_fn(|| tubes.take()).collect();
        assert_eq!(all.len(), PIPES_MAX);
        let (from, mut writer) = pair();
        writer.write_all(b"left over").unwrap();
        for (number, mut tube) in all.into_iter().enumerate() {
            if number == 0 {
                while tube.fill(&from, 100).unwrap().is_none() {}
            }
            tubes.put_back(tube);
        }
        assert_eq!(
            (tubes.free.len(), tubes.open),
            (PIPES_MAX - 1, PIPES_MAX - 1)
        );
        assert!(tubes.free.iter().all(|tube| tube.held == 0));
        assert!(PipePool::none().take().is_none());
    }
}
