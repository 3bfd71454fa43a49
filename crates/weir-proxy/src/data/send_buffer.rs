//! Bytes that a socket has not accepted yet. While there are any, the proxy reads nothing more for
//! that socket.

use std::io::{self, IoSlice};

use smallvec::SmallVec;

use super::stream::SocketStream;
use crate::wire::Segments;

/// Maximum number of slices per write call. More are rare and need another call.
const SLICES_MAX: usize = 64;

/// Unsent bytes of a connection. Uses no memory while everything is sent.
#[derive(Debug, Default)]
pub(super) struct SendBuffer {
    bytes: Vec<u8>,
    sent: usize,
}

impl SendBuffer {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the memory in use.
    pub(super) fn buffered_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Sends as much as the stream accepts and stores a copy of the rest. Returns the number of
    /// bytes sent.
    pub(super) fn send(
        &mut self,
        stream: &mut SocketStream,
        segments: &Segments,
        input: &[u8],
    ) -> io::Result<usize> {
        if !self.is_empty() {
            self.store(segments, input, 0);
            return Ok(0);
        }
        let mut sent = 0;
        let mut slices: SmallVec<[IoSlice<'_>; 8]> = SmallVec::new();
        slices.extend(segments.slices(input).take(SLICES_MAX).map(IoSlice::new));
        let offered: usize = slices.iter().map(|slice| slice.len()).sum();
        sent += stream.write(&slices)?;
        self.store(segments, input, sent);
        if sent == offered && !self.is_empty() {
            // There were more slices than one call sends.
            sent += self.flush(stream)?;
        }
        Ok(sent)
    }

    /// Stores the bytes after the first `skip`.
    pub(super) fn store(&mut self, segments: &Segments, input: &[u8], mut skip: usize) {
        for slice in segments.slices(input) {
            let here = skip.min(slice.len());
            skip -= here;
            self.bytes.extend_from_slice(&slice[here..]);
        }
    }

    /// Sends stored bytes. Returns the number of bytes sent.
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
