//! Sockets of the baseline server by key. The measured loop only writes to them.

use std::io::{self, Write};

use foldhash::HashMap;
use mio::net::TcpStream;

use super::frame::{FrameBuilder, Values};
use super::listener::{FloorSubscriber, KeyFilter};
use crate::worker::protocol::FloorSummary;

#[derive(Debug, Default)]
pub(super) struct Subscribers {
    by_key: HashMap<Box<[u8]>, KeySockets<TcpStream>>,
    all_keys: KeySockets<TcpStream>,
    pub(super) counts: FloorSummary,
}

/// Sockets of one key. Each record starts at the next socket, so that none is always first.
#[derive(Debug)]
struct KeySockets<S> {
    sockets: Vec<S>,
    first: usize,
    /// Values last sent to all sockets; `None` before the first frame and after a new subscriber.
    last_sent: Option<Values>,
    /// Index of a failed socket, and `true` if its send buffer was full; empty between writes.
    failed: Vec<(usize, bool)>,
}

impl Subscribers {
    /// Sends `OK` to a subscriber and adds it; it receives all later records of its key.
    pub(super) fn add(&mut self, subscriber: FloorSubscriber) {
        let FloorSubscriber { mut socket, filter } = subscriber;
        self.counts.accepted += 1;
        if !matches!(socket.write(RESPONSE), Ok(written) if written == RESPONSE.len()) {
            self.counts.closed_other += 1;
            return;
        }
        let sockets = match filter {
            KeyFilter::All => &mut self.all_keys,
            KeyFilter::Key(key) => self.by_key.entry(key).or_default(),
        };
        sockets.sockets.push(socket);
        sockets.last_sent = None;
        self.counts.sockets_max = self.counts.sockets_max.max(self.sockets());
    }

    /// Writes a record to every socket of the key, and to those that receive all keys.
    pub(super) fn send(&mut self, key: &[u8], values: &Values, frames: &mut FrameBuilder) {
        let groups = [self.by_key.get_mut(key), Some(&mut self.all_keys)];
        for group in groups.into_iter().flatten() {
            if group.sockets.is_empty() {
                continue;
            }
            let frame = frames.build(group.last_sent.as_ref(), values);
            group.write(frame, &mut self.counts);
            group.last_sent.get_or_insert_default().copy_from(values);
        }
    }

    pub(super) fn sockets(&self) -> u64 {
        let counts = &self.counts;
        counts.accepted - counts.closed_would_block - counts.closed_other
    }
}

impl<S> Default for KeySockets<S> {
    fn default() -> Self {
        Self {
            sockets: Vec::new(),
            first: 0,
            last_sent: None,
            failed: Vec::new(),
        }
    }
}

impl<S: Write> KeySockets<S> {
    fn write(&mut self, frame: &[u8], counts: &mut FloorSummary) {
        let sockets = self.sockets.len();
        let first = self.first.min(sockets);
        self.first = if first + 1 < sockets { first + 1 } else { 0 };
        for at in (first..sockets).chain(0..first) {
            match self.sockets[at].write(frame) {
                Ok(written) if written == frame.len() => {}
                outcome => self.failed.push((at, is_full(&outcome))),
            }
        }
        let sent = (sockets - self.failed.len()) as u64;
        counts.frames_sent += sent;
        counts.bytes_sent += sent * frame.len() as u64;
        if !self.failed.is_empty() {
            self.close_failed(counts);
        }
    }

    fn close_failed(&mut self, counts: &mut FloorSummary) {
        // In descending order, because removal changes higher indexes.
        self.failed.sort_unstable();
        for (at, full) in self.failed.drain(..).rev() {
            self.sockets.swap_remove(at);
            counts.closed_would_block += u64::from(full);
            counts.closed_other += u64::from(!full);
        }
    }
}

/// Returns `true` if the send buffer had no space for the whole frame.
fn is_full(outcome: &io::Result<usize>) -> bool {
    match outcome {
        Ok(written) => *written > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

const RESPONSE: &[u8] = b"OK\n";

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Logs its name for each frame and accepts `capacity` bytes.
    struct Fake {
        name: u32,
        capacity: usize,
        log: Rc<RefCell<Vec<u32>>>,
    }

    impl Write for Fake {
        fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
            self.log.borrow_mut().push(self.name);
            if self.capacity == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = frame.len().min(self.capacity);
            self.capacity -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn key_sockets(capacities: &[usize]) -> (KeySockets<Fake>, Rc<RefCell<Vec<u32>>>) {
        let log = Rc::new(RefCell::new(Vec::new()));
        let names = 0..;
        let sockets = names.zip(capacities).map(|(name, &capacity)| Fake {
            name,
            capacity,
            log: Rc::clone(&log),
        });
        let sockets_of_key = KeySockets {
            sockets: sockets.collect(),
            ..KeySockets::default()
        };
        (sockets_of_key, log)
    }

    #[test]
    fn each_record_starts_at_another_socket() {
        let (mut row, log) = key_sockets(&[usize::MAX; 3]);
        let mut counts = FloorSummary::default();
        for _ in 0..4 {
            row.write(b"frame", &mut counts);
        }
        assert_eq!(*log.borrow(), [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2]);
        assert_eq!((counts.frames_sent, counts.bytes_sent), (12, 60));
    }

    #[test]
    fn full_socket_is_counted_and_closed() {
        // The second accepts one frame, the fourth two bytes of the first one.
        let (mut row, log) = key_sockets(&[100, 5, 100, 2]);
        let mut counts = FloorSummary::default();
        row.write(b"frame", &mut counts);
        row.write(b"frame", &mut counts);
        row.write(b"frame", &mut counts);
        assert_eq!(counts.closed_would_block, 2);
        assert_eq!(counts.frames_sent, 3 + 2 + 2);
        assert_eq!(row.sockets.len(), 2);
        assert_eq!(log.borrow().len(), 4 + 3 + 2);
        assert!((0..2).all(|at| row.sockets[at].name % 2 == 0));
    }

    #[test]
    fn key_without_sockets_writes_nothing() {
        let (mut row, _) = key_sockets(&[]);
        let mut counts = FloorSummary::default();
        row.write(b"frame", &mut counts);
        assert_eq!(counts.frames_sent, 0);
    }
}
