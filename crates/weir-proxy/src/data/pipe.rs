//! Splices bytes inside the kernel, from socket to pipe to socket. Large bodies that no filter
//! reads are never copied.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};

/// Capacity of a pipe, as large as one read when bytes are copied.
const PIPE_BYTES: usize = 256 * 1024;
/// Maximum number of pipes of one loop. A pair has one only while it contains bytes; other pairs
/// copy.
const PIPES_MAX: usize = 16;

#[derive(Debug)]
pub(super) struct SplicePipe {
    inlet: OwnedFd,
    outlet: OwnedFd,
    bytes: usize,
}

impl SplicePipe {
    fn open() -> io::Result<Self> {
        let (outlet, inlet) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        // Fails for a user with many pipes. Copying is better then.
        fcntl_setpipe_size(&inlet, PIPE_BYTES)?;
        Ok(Self {
            inlet,
            outlet,
            bytes: 0,
        })
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Moves up to `most` bytes from a socket into an empty pipe. Returns `None` if the socket has
    /// no bytes now, and 0 at its end.
    pub(super) fn fill(&mut self, socket: impl AsFd, max: usize) -> io::Result<Option<usize>> {
        // The pipe could take more if its pages were full, but all of it would stay there for a
        // slow peer.
        let max = max.min(PIPE_BYTES);
        let count =
            retry_interrupted(|| splice(&socket, None, &self.inlet, None, max, SPLICE_FLAGS))?;
        self.bytes += count.unwrap_or(0);
        Ok(count)
    }

    /// Moves as many bytes to a socket as it accepts. Returns their number.
    pub(super) fn drain(&mut self, socket: impl AsFd) -> io::Result<usize> {
        let mut sent = 0;
        while self.bytes > 0 {
            let bytes = self.bytes;
            let count = retry_interrupted(|| {
                splice(&self.outlet, None, &socket, None, bytes, SPLICE_FLAGS)
            })?;
            match count {
                None => break,
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(count) => {
                    self.bytes -= count;
                    sent += count;
                }
            }
        }
        Ok(sent)
    }
}

#[derive(Debug, Default)]
pub(super) struct PipePool {
    free: Vec<SplicePipe>,
    open: usize,
    /// Splicing does not work on this system.
    is_disabled: bool,
}

impl PipePool {
    /// Creates a pool without pipes, so that bytes are copied.
    pub(super) fn none() -> Self {
        Self {
            is_disabled: true,
            ..Self::default()
        }
    }

    /// Takes an empty pipe, if one is left.
    pub(super) fn take(&mut self) -> Option<SplicePipe> {
        if self.is_disabled {
            return None;
        }
        if let Some(pipe) = self.free.pop() {
            return Some(pipe);
        }
        if self.open == PIPES_MAX {
            return None;
        }
        match SplicePipe::open() {
            Ok(pipe) => {
                self.open += 1;
                Some(pipe)
            }
            Err(error) => {
                tracing::debug!(%error, "pipe not available, copying instead");
                self.is_disabled = self.open == 0;
                None
            }
        }
    }

    /// Returns `true` if a pipe is available.
    pub(super) fn has_any(&self) -> bool {
        !self.is_disabled && (!self.free.is_empty() || self.open < PIPES_MAX)
    }

    /// Returns a pipe to the pool. A pipe with bytes of a closed connection is dropped.
    pub(super) fn put_back(&mut self, pipe: SplicePipe) {
        if pipe.bytes == 0 {
            self.free.push(pipe);
        } else {
            self.open -= 1;
        }
    }

    /// Disables splicing after the system has rejected it for these sockets.
    pub(super) fn disable(&mut self, pipe: SplicePipe) {
        tracing::info!("splice not supported, copying instead");
        self.put_back(pipe);
        self.is_disabled = true;
    }
}

/// Returns `true` if the error means that the system does not support splicing these sockets.
pub(super) fn is_unsupported(error: &io::Error) -> bool {
    let unsupported = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP];
    unsupported
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

/// Repeats a call after a signal. Returns `None` if it would block.
fn retry_interrupted(
    mut call: impl FnMut() -> rustix::io::Result<usize>,
) -> io::Result<Option<usize>> {
    loop {
        match call() {
            Ok(count) => return Ok(Some(count)),
            Err(Errno::AGAIN) => return Ok(None),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Moves pages if possible, and never blocks.
const SPLICE_FLAGS: SpliceFlags = SpliceFlags::NONBLOCK.union(SpliceFlags::MOVE);

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    /// Returns both ends of a connection; the first does not block.
    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        near.set_nonblocking(true).unwrap();
        (near, listener.accept().unwrap().0)
    }

    #[test]
    fn spliced_bytes_keep_their_order() {
        let ((from, mut writer), (to, mut reader)) = (pair(), pair());
        let sent: Vec<u8> = (0..8_000_000_u32).map(|i| (i % 251) as u8).collect();
        let copy = sent.clone();
        // The writer closes after the last byte.
        let writer = std::thread::spawn(move || writer.write_all(&copy));
        let mut pipes = PipePool::default();
        let mut pipe = pipes.take().unwrap();
        let mut got = vec![0; sent.len()];
        let (mut at, mut blocked) = (0, 0);
        loop {
            if pipe.bytes() == 0 {
                match pipe.fill(&from, 1_000_000).unwrap() {
                    Some(0) => break,
                    Some(count) => assert!(count <= PIPE_BYTES && count == pipe.bytes()),
                    None => std::thread::yield_now(),
                }
            }
            pipe.drain(&to).unwrap();
            // The reader reads only when the socket is full.
            if pipe.bytes() > 0 {
                blocked += 1;
                at += reader.read(&mut got[at..]).unwrap();
            }
        }
        drop(to);
        reader.read_exact(&mut got[at..]).unwrap();
        assert!(got == sent);
        assert!(blocked > 0, "the socket was full at times");
        writer.join().unwrap().unwrap();
    }

    #[test]
    fn pool_has_a_fixed_number_of_pipes() {
        let mut pipes = PipePool::default();
        let all: Vec<SplicePipe> = std::iter::from_fn(|| pipes.take()).collect();
        assert_eq!(all.len(), PIPES_MAX);
        let (from, mut writer) = pair();
        writer.write_all(b"left over").unwrap();
        for (number, mut pipe) in all.into_iter().enumerate() {
            if number == 0 {
                while pipe.fill(&from, 100).unwrap().is_none() {}
            }
            pipes.put_back(pipe);
        }
        assert_eq!(
            (pipes.free.len(), pipes.open),
            (PIPES_MAX - 1, PIPES_MAX - 1)
        );
        assert!(pipes.free.iter().all(|pipe| pipe.bytes == 0));
        assert!(PipePool::none().take().is_none());
    }
}
