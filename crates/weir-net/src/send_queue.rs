//! What waits to be written to one connection: shared chunks, never copies.

use std::io::{self, IoSlice, Write};

use bytes::Bytes;
use smallvec::SmallVec;

/// Chunks that go into one vectored write.
const CHUNKS_PER_WRITE: usize = 64;

/// Pending output of one connection, in order.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    chunks: SmallVec<[Bytes; 1]>,
    /// Bytes of the first chunk that are written already.
    written: usize,
    /// Unwritten bytes over all chunks.
    bytes: usize,
}

/// What one flush achieved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Flushed {
    /// Bytes handed to the kernel.
    pub(crate) bytes: usize,
    /// Write calls made.
    pub(crate) calls: usize,
    /// Whether nothing is left.
    pub(crate) done: bool,
}

impl SendQueue {
    pub(crate) fn push(&mut self, chunk: Bytes) {
        self.bytes += chunk.len();
        self.chunks.push(chunk);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// Forgets all that is not begun: the rest of a partly sent chunk must go out, or the peer
    /// would read garbage. Returns the bytes dropped.
    pub(crate) fn drop_unsent(&mut self) -> usize {
        let keep = usize::from(self.written > 0);
        let mut dropped = 0;
        while self.chunks.len() > keep {
            dropped += self.chunks.pop().map_or(0, |chunk| chunk.len());
        }
        self.bytes -= dropped;
        dropped
    }

    /// Writes as much as the socket takes, with as few calls as possible.
    pub(crate) fn flush(&mut self, socket: &mut impl Write) -> io::Result<Flushed> {
        let mut flushed = Flushed::default();
        while !self.chunks.is_empty() {
            flushed.calls += 1;
            match self.write_once(socket) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => {
                    flushed.bytes += count;
                    self.advance(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(flushed),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        flushed.done = true;
        Ok(flushed)
    }

    fn write_once(&self, socket: &mut impl Write) -> io::Result<usize> {
        if let [only] = self.chunks.as_slice() {
            return socket.write(&only[self.written..]);
        }
        let mut slices: SmallVec<[IoSlice<'_>; CHUNKS_PER_WRITE]> = SmallVec::new();
        for (index, chunk) in self.chunks.iter().take(CHUNKS_PER_WRITE).enumerate() {
            let start = if index == 0 { self.written } else { 0 };
            slices.push(IoSlice::new(&chunk[start..]));
        }
        socket.write_vectored(&slices)
    }

    /// Copies as much as fits from the front, and how much that is; nothing is taken out.
    pub(crate) fn copy_to(&self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        let mut start = self.written;
        for chunk in &self.chunks {
            let count = (chunk.len() - start).min(out.len() - filled);
            out[filled..filled + count].copy_from_slice(&chunk[start..start + count]);
            filled += count;
            start = 0;
            if filled == out.len() {
                break;
            }
        }
        filled
    }

    /// Takes so many bytes from the front.
    pub(crate) fn advance(&mut self, count: usize) {
        self.bytes -= count;
        let mut position = self.written + count;
        let mut whole = 0;
        while let Some(chunk) = self.chunks.get(whole) {
            if position < chunk.len() {
                break;
            }
            position -= chunk.len();
            whole += 1;
        }
        self.chunks.drain(..whole);
        self.written = position;
        if self.chunks.is_empty() {
            // A burst may have grown the list; an idle connection must not keep that memory.
            self.chunks.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Takes the given number of bytes per call, then blocks once.
    struct Sink {
        takes: Vec<usize>,
        got: Vec<u8>,
    }

    impl Write for Sink {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            match self.takes.pop() {
                None | Some(0) => Err(io::ErrorKind::WouldBlock.into()),
                Some(most) => {
                    let count = data.len().min(most);
                    self.got.extend_from_slice(&data[..count]);
                    Ok(count)
                }
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    proptest! {
        #[test]
        fn order_and_count_survive_any_partial_writes(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 0..30),
            takes in proptest::collection::vec(0usize..100, 0..200),
        ) {
            let mut outbox = SendQueue::default();
            let mut expected = Vec::new();
            for chunk in &chunks {
                expected.extend_from_slice(chunk);
                outbox.push(Bytes::copy_from_slice(chunk));
            }
            let mut sink = Sink { takes, got: Vec::new() };
            while !outbox.is_empty() {
                outbox.flush(&mut sink).unwrap();
                prop_assert_eq!(outbox.bytes(), expected.len() - sink.got.len());
                if sink.takes.is_empty() {
                    sink.takes = vec![7; 10];
                }
            }
            prop_assert_eq!(sink.got, expected);
        }
    }

    #[test]
    fn bytes_are_copied_over_chunks_and_taken_in_any_portion() {
        let text = b"first|second|third";
        for portion in 1..=text.len() {
            let mut outbox = SendQueue::default();
            for chunk in ["first", "|second", "|third"] {
                outbox.push(Bytes::from_static(chunk.as_bytes()));
            }
            let (mut got, mut out) = (Vec::new(), vec![0; portion]);
            while !outbox.is_empty() {
                let count = outbox.copy_to(&mut out);
                got.extend_from_slice(&out[..count]);
                outbox.advance(count);
                assert_eq!(outbox.bytes(), text.len() - got.len());
            }
            assert_eq!(got, text);
        }
    }

    #[test]
    fn dropping_keeps_a_partly_sent_chunk_whole() {
        let mut outbox = SendQueue::default();
        outbox.push(Bytes::from_static(b"first"));
        outbox.push(Bytes::from_static(b"second"));
        let mut sink = Sink {
            takes: vec![0, 2],
            got: Vec::new(),
        };
        outbox.flush(&mut sink).unwrap();
        assert_eq!(outbox.drop_unsent(), 6);
        outbox.push(Bytes::from_static(b"|end"));
        sink.takes = vec![100; 4];
        assert!(outbox.flush(&mut sink).unwrap().done);
        assert_eq!(sink.got, b"first|end");
    }

    #[test]
    fn many_chunks_leave_in_one_call() {
        let mut outbox = SendQueue::default();
        for _ in 0..50 {
            outbox.push(Bytes::from_static(b"0123456789"));
        }
        let mut wire = Vec::new();
        let flushed = outbox.flush(&mut wire).unwrap();
        assert_eq!((flushed.bytes, flushed.calls, flushed.done), (500, 1, true));
    }
}
