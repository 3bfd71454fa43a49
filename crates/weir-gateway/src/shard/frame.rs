//! Encoded lines, framed as a WebSocket message or as a chunk of an HTTP body.

use std::cell::OnceCell;

use bytes::Bytes;
use weir_net::{http1, websocket};

use super::compression::Compressor;

/// Framing of lines on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// One text message.
    WebSocket,
    /// One chunk of an HTTP response.
    Chunk,
}

/// Lines for any number of clients. They are encoded once per framing and shared.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    message: Bytes,
    chunk: OnceCell<Bytes>,
    /// Compressed message. Inner `None`: the uncompressed message is sent instead.
    compressed: OnceCell<Option<Bytes>>,
}

impl Frame {
    /// Creates a frame from complete lines, including line ends.
    pub(super) fn of(lines: &[u8]) -> Self {
        Self::from_message(message(lines))
    }

    /// Creates a frame from a WebSocket message with its header.
    pub(super) fn from_message(message: Bytes) -> Self {
        Self {
            message,
            chunk: OnceCell::new(),
            compressed: OnceCell::new(),
        }
    }

    /// Returns the lines.
    pub(super) fn lines(&self) -> &[u8] {
        websocket::server_text_payload(&self.message)
    }

    /// Returns the length of the WebSocket message: the lines and the frame header.
    pub(super) fn bytes(&self) -> usize {
        self.message.len()
    }

    /// Returns the WebSocket message. Frames are stored in this form.
    pub(super) fn message(&self) -> Bytes {
        self.message.clone()
    }

    /// Returns the WebSocket message for clients that accept compressed messages.
    pub(super) fn compressed(&self, compressor: &mut Compressor) -> Bytes {
        let made = || compressor.message(self.lines());
        match self.compressed.get_or_init(made) {
            Some(message) => {
                compressor.counters.sent += 1;
                message.clone()
            }
            None => self.message(),
        }
    }

    /// Returns the frame in the framing of a connection.
    pub(super) fn framed(&self, framing: Framing) -> Bytes {
        match framing {
            Framing::WebSocket => self.message(),
            Framing::Chunk => {
                let chunk = self.chunk.get_or_init(|| chunk(self.lines()));
                chunk.clone()
            }
        }
    }
}

impl Framing {
    /// Frames lines for one client.
    pub(super) fn frame(self, lines: &[u8]) -> Bytes {
        match self {
            Self::WebSocket => message(lines),
            Self::Chunk => chunk(lines),
        }
    }
}

/// Frames lines as one WebSocket message.
pub(super) fn message(lines: &[u8]) -> Bytes {
    let mut framed = Vec::with_capacity(lines.len() + websocket::HEADER_BYTES_MAX);
    websocket::push_server_text(&mut framed, lines);
    Bytes::from(framed)
}

fn chunk(lines: &[u8]) -> Bytes {
    let mut framed = Vec::with_capacity(lines.len() + http1::CHUNK_BYTES_MAX);
    http1::push_chunk(&mut framed, lines);
    Bytes::from(framed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_equal_in_every_framing() {
        for length in [2, 125, 126, 65_535, 65_536] {
            let lines = vec![b'x'; length];
            let frame = Frame::of(&lines);
            assert_eq!(frame.lines(), lines);
            let chunk = frame.framed(Framing::Chunk);
            let head = format!("{length:x}\r\n");
            assert!(chunk.starts_with(head.as_bytes()) && chunk.ends_with(b"\r\n"));
            assert_eq!(chunk.len(), head.len() + length + 2);
            let message = frame.framed(Framing::WebSocket);
            assert_eq!(Frame::from_message(message).lines(), lines);
        }
    }
}
