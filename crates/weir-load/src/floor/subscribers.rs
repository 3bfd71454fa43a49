//! The sockets of the floor by key, and the loop that is measured: nothing but `write`.

use std::io::{self, Write};

use foldhash::HashMap;
use mio::net::TcpStream;

use super::frame::{FrameBuilder, Values};
use super::listener::{FloorSubscriber, KeyFilter};
use crate::worker::protocol::FloorSummary;

/// Everybody who is in.
#[derive(Debug, Default)]
pub(super) struct Subscribers {
    by_key: HashMap<Box<[u8]>, KeySockets<TcpStream>>,
    all_keys: KeySockets<TcpStream>,
    counts: Counts,
}

#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    frames_sent: u64,
    bytes_sent: u64,
    accepted: u64,
    sockets_max: usize,
    closed_would_block: u64,
    closed_other: u64,
}

/// The sockets of one key. Each record starts at another one, so that nobody is always first.
#[derive(Debug)]
struct KeySockets<S> {
    sockets: Vec<S>,
    first: usize,
    /// What all of them have been given last; `None` before the first frame and after a newcomer.
    given: Option<Values>,
    /// Index and whether it was full; empty between writes.
    failed: Vec<(usize, bool)>,
}

impl Subscribers {
    /// Lets a guest in and answers; from here on no record of its key is missed.
    pub(super) fn enter(&mut self, guest: FloorSubscriber) {
        let FloorSubscriber { mut socket, wish } = guest;
        self.counts.accepted += 1;
        if !matches!(socket.write(ANSWER), Ok(written) if written == ANSWER.len()) {
            self.counts.closed_other += 1;
            return;
        }
        let row = match wish {
            KeyFilter::All => &mut self.all_keys,
            KeyFilter::Key(key) => self.by_key.entry(key).or_default(),
        };
        row.sockets.push(socket);
        row.given = None;
        self.counts.sockets_max = self.counts.sockets_max.max(self.sockets());
    }

    /// Writes a record to every socket of the key and to those of all keys.
    pub(super) fn send(&mut self, key: &[u8], values: &Values, frames: &mut FrameBuilder) {
        let rows = [self.by_key.get_mut(key), Some(&mut self.all_keys)];
        for row in rows.into_iter().flatten() {
            if row.sockets.is_empty() {
                continue;
            }
            row.write(frames.build(row.given.as_ref(), values), &mut self.counts);
            row.given.get_or_insert_default().copy_from(values);
        }
    }

    /// Sockets at present.
    pub(super) fn sockets(&self) -> usize {
        let counts = &self.counts;
        let gone = counts.closed_would_block + counts.closed_other;
        // Accepted ones that have not gone; both are counted where it happens.
        usize::try_from(counts.accepted - gone).unwrap_or(usize::MAX)
    }

    /// The counts so far; records read are not known here.
    pub(super) fn summary(&self) -> FloorSummary {
        let counts = &self.counts;
        FloorSummary {
            records_read: 0,
            frames_sent: counts.frames_sent,
            bytes_sent: counts.bytes_sent,
            accepted: counts.accepted,
            sockets_max: counts.sockets_max as u64,
            closed_would_block: counts.closed_would_block,
            closed_other: counts.closed_other,
        }
    }
}

impl<S> Default for KeySockets<S> {
    fn default() -> Self {
        Self {
            sockets: Vec::new(),
            first: 0,
            given: None,
            failed: Vec::new(),
        }
    }
}

impl<S: Write> KeySockets<S> {
    fn write(&mut self, frame: &[u8], counts: &mut Counts) {
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

    /// Closes what could not take the frame: the policy of the floor is to disconnect.
    fn close_failed(&mut self, counts: &mut Counts) {
        // From the back, so that no index moves before its turn.
        self.failed.sort_unstable();
        for (at, full) in self.failed.drain(..).rev() {
            self.sockets.swap_remove(at);
            counts.closed_would_block += u64::from(full);
            counts.closed_other += u64::from(!full);
        }
    }
}

/// Whether the socket's buffer had no room: not at all, or not for the whole frame.
fn is_full(outcome: &io::Result<usize>) -> bool {
    match outcome {
        Ok(written) => *written > 0,
        Err(error) => error.kind() == io::ErrorKind::WouldBlock,
    }
}

/// What a guest hears once it is in.
const ANSWER: &[u8] = b"OK\n";

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    /// Tells its name for each frame until it has no room.
    struct Fake {
        name: u32,
        room: usize,
        log: Rc<RefCell<Vec<u32>>>,
    }

    impl Write for Fake {
        fn write(&mut self, frame: &[u8]) -> io::Result<usize> {
            self.log.borrow_mut().push(self.name);
            if self.room == 0 {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            let taken = frame.len().min(self.room);
            self.room -= taken;
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn row(rooms: &[usize]) -> (KeySockets<Fake>, Rc<RefCell<Vec<u32>>>) {
        let log = Rc::new(RefCell::new(Vec::new()));
        let names = 0..;
        let sockets = names.zip(rooms).map(|(name, &room)| Fake {
            name,
            room,
            log: Rc::clone(&log),
        });
        let row = KeySockets {
            sockets: sockets.collect(),
            ..KeySockets::default()
        };
        (row, log)
    }

    #[test]
    fn each_record_starts_at_another_socket() {
        let (mut row, log) = row(&[usize::MAX; 3]);
        let mut counts = Counts::default();
        for _ in 0..4 {
            row.write(b"frame", &mut counts);
        }
        assert_eq!(*log.borrow(), [0, 1, 2, 1, 2, 0, 2, 0, 1, 0, 1, 2]);
        assert_eq!((counts.frames_sent, counts.bytes_sent), (12, 60));
    }

    #[test]
    fn a_socket_without_room_is_counted_and_closed() {
        // The second takes one frame, the fourth two bytes of the first one.
        let (mut row, log) = row(&[100, 5, 100, 2]);
        let mut counts = Counts::default();
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
    fn an_empty_row_is_no_work() {
        let (mut row, _) = row(&[]);
        let mut counts = Counts::default();
        row.write(b"frame", &mut counts);
        assert_eq!(counts.frames_sent, 0);
    }
}
