//! Bytes that a socket has not taken yet. As long as there are any nothing more is read for it.

use std::io::{self, IoSlice};

use smallvec::SmallVec;

use super::stream::SocketStream;
use crate::wire::Segments;

/// Pieces that go out with one call; more are rare and take another.
const SLICES_MAX: usize = 64;

/// The rest of what was to be sent; holds no memory while everything is.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    bytes: Vec<u8>,
    sent: usize,
}

impl SendBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes held.
    pub(super) fn held_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Sends as much as the stream takes and keeps a copy of the rest; how much was sent.
    pub(super) fn send(
        &mut self,
        stream: &mut SocketStream,
        segments: &Segments,
        input: &[u8],
    ) -> io::Result<usize> {
        if !self.is_empty() {
            self.keep(segments, input, 0);
            return Ok(0);
        }
        let mut sent = 0;
        let mut slices: SmallVec<[IoSlice<'_>; 8]> = SmallVec::new();
        slices.extend(segments.slices(input).take(SLICES_MAX).map(IoSlice::new));
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        sent += stream.write(&slices)?;
        self.keep(segments, input, sent);
        if sent == offered && !self.is_empty() {
            // There were more pieces than go out at once.
            sent += self.flush(stream)?;
        }
        Ok(sent)
    }

    /// Keeps what lies behind the first `skip` bytes.
    pub(super) fn keep(&mut self, segments: &Segments, input: &[u8], mut skip: usize) {
        for slice in segments.slices(input) {
            let here = skip.min(slice.len());
            skip -= here;
            self.bytes.extend_from_slice(&slice[here..]);
        }
    }

    /// Sends more of what was kept; how much.
    pub(super) fn flush(&mut self, stream: &mut SocketStream) -> io::Result<usize> {
        let mut sent = 0;
        while self.sent < self.bytes.len() {
            let count = stream.write(&[IoSlice::new(&self.bytes[self.sent..])])?;
            if count == 0 {
                return Ok(sent);
            }
            self.sent += count;
            sent += count;
        }
        self.bytes = Vec::new();
        self.sent = 0;
        Ok(sent)
    }
}
