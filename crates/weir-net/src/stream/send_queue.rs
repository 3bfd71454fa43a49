//! Unsent bytes of one connection, as chunks that connections may share.

use std::io::{self, IoSlice, Write};

use bytes::Bytes;
use smallvec::SmallVec;

use super::socket::write_some;

/// Maximum number of chunks in one write call.
pub(super) const SLICES_PER_WRITE: usize = 64;

/// Unsent chunks of one connection, in order.
#[derive(Debug, Default)]
pub struct SendQueue {
    chunks: SmallVec<[Bytes; 1]>,
    /// Bytes of the first chunk that are already written.
    written: usize,
    /// Unwritten bytes of all chunks.
    bytes: usize,
}

/// Result of one flush.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Number of bytes that the socket accepted.
    pub bytes: usize,
    /// Number of write calls.
    pub calls: usize,
    /// `true` if nothing is left to write.
    pub done: bool,
}

impl SendQueue {
    /// Appends a chunk, unless it is empty.
    pub fn push(&mut self, chunk: Bytes) {
        if !chunk.is_empty() {
            self.bytes += chunk.len();
            self.chunks.push(chunk);
        }
    }

    /// Appends a copy of `slices` without their first `skip` bytes.
    pub fn push_copy(&mut self, slices: &[IoSlice<'_>], mut skip: usize) {
        let mut copy = Vec::new();
        for slice in slices {
            let skipped = skip.min(slice.len());
            skip -= skipped;
            copy.extend_from_slice(&slice[skipped..]);
        }
        self.push(copy.into());
    }

    /// Returns the number of unwritten bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns `true` if everything is written.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Drops all chunks that are not partly written. The rest of a partly written chunk stays
    /// because the peer could not parse the stream without it.
    pub(crate) fn drop_unsent(&mut self) {
        self.chunks.truncate(usize::from(self.written > 0));
        let kept = self.chunks.first().map_or(0, Bytes::len);
        self.bytes = kept - self.written;
    }

    /// Writes as much as the socket accepts, with as few calls as possible.
    pub(super) fn flush(&mut self, socket: &mut impl Write) -> io::Result<Flushed> {
        let mut flushed = Flushed::default();
        while !self.is_empty() {
            flushed.calls += 1;
            let count = self.write_once(socket)?;
            if count == 0 {
                return Ok(flushed);
            }
            flushed.bytes += count;
            self.advance(count);
        }
        flushed.done = true;
        Ok(flushed)
    }

    fn write_once(&self, socket: &mut impl Write) -> io::Result<usize> {
        if let [only] = self.chunks.as_slice() {
            return write_some(socket, &[IoSlice::new(&only[self.written..])]);
        }
        let mut slices: SmallVec<[IoSlice<'_>; SLICES_PER_WRITE]> = SmallVec::new();
        for (index, chunk) in self.chunks.iter().take(SLICES_PER_WRITE).enumerate() {
            let start = if index == 0 { self.written } else { 0 };
            slices.push(IoSlice::new(&chunk[start..]));
        }
        write_some(socket, &slices)
    }

    /// Copies bytes from the front into `out` without removing them. Returns how many were copied.
    pub(super) fn copy_to(&self, out: &mut [u8]) -> usize {
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

    /// Removes `count` bytes from the front.
    pub(super) fn advance(&mut self, count: usize) {
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
        if self.is_empty() {
            // A burst may have enlarged the list; an idle connection must not hold that memory.
            self.chunks.shrink_to_fit();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// A socket that accepts the given number of bytes per call, then blocks once.
    struct Sink {
        accepts: Vec<usize>,
        received: Vec<u8>,
    }

    impl Write for Sink {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            match self.accepts.pop() {
                None | Some(0) => Err(io::ErrorKind::WouldBlock.into()),
                Some(max) => {
                    let count = data.len().min(max);
                    self.received.extend_from_slice(&data[..count]);
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
        fn order_and_count_survive_partial_writes(
            chunks in vec(vec(any::<u8>(), 1..40), 0..30),
            accepts in vec(0usize..100, 0..200),
        ) {
            let mut queue = SendQueue::default();
            let mut expected = Vec::new();
            for chunk in &chunks {
                expected.extend_from_slice(chunk);
                queue.push(Bytes::copy_from_slice(chunk));
            }
            let mut sink = Sink { accepts, received: Vec::new() };
            while !queue.is_empty() {
                queue.flush(&mut sink).unwrap();
                prop_assert_eq!(queue.bytes(), expected.len() - sink.received.len());
                if sink.accepts.is_empty() {
                    sink.accepts = vec![7; 10];
                }
            }
            prop_assert_eq!(sink.received, expected);
        }
    }

    #[test]
    fn chunks_can_be_copied_in_any_portion() {
        let text = b"first|second|third";
        for portion in 1..=text.len() {
            let mut queue = SendQueue::default();
            for chunk in ["first", "|second", "|third"] {
                queue.push(Bytes::from_static(chunk.as_bytes()));
            }
            let (mut received, mut out) = (Vec::new(), vec![0; portion]);
            while !queue.is_empty() {
                let count = queue.copy_to(&mut out);
                received.extend_from_slice(&out[..count]);
                queue.advance(count);
                assert_eq!(queue.bytes(), text.len() - received.len());
            }
            assert_eq!(received, text);
        }
    }

    #[test]
    fn drop_unsent_retains_partly_written_chunk() {
        let mut queue = SendQueue::default();
        queue.push(Bytes::from_static(b"first"));
        queue.push(Bytes::from_static(b"second"));
        let mut sink = Sink {
            accepts: vec![0, 2],
            received: Vec::new(),
        };
        queue.flush(&mut sink).unwrap();
        queue.drop_unsent();
        assert_eq!(queue.bytes(), 3);
        queue.push(Bytes::from_static(b"|end"));
        sink.accepts = vec![100; 4];
        assert!(queue.flush(&mut sink).unwrap().done);
        assert_eq!(sink.received, b"first|end");
    }

    #[test]
    fn empty_chunks_are_not_queued() {
        let mut queue = SendQueue::default();
        queue.push(Bytes::new());
        queue.push_copy(&[IoSlice::new(b"sent"), IoSlice::new(b"")], 4);
        assert!(queue.is_empty() && queue.chunks.is_empty());
        let flushed = queue.flush(&mut Vec::new()).unwrap();
        assert_eq!((flushed.bytes, flushed.calls, flushed.done), (0, 0, true));
    }

    #[test]
    fn many_chunks_need_one_write() {
        let mut queue = SendQueue::default();
        for _ in 0..50 {
            queue.push(Bytes::from_static(b"0123456789"));
        }
        let mut wire = Vec::new();
        let flushed = queue.flush(&mut wire).unwrap();
        assert_eq!((flushed.bytes, flushed.calls, flushed.done), (500, 1, true));
    }
}
