//! What goes out to clients: the same lines, framed for a WebSocket or as a piece of an HTTP body.

use std::cell::OnceCell;

use bytes::Bytes;
use weir_net::{http1, websocket};

use super::compression::Compressor;

/// How a connection frames lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// One text message.
    WebSocket,
    /// One chunk of an HTTP answer.
    Chunk,
}

/// Lines that may go to many clients: encoded once per framing, shared by all of them.
#[derive(Debug, Clone)]
pub(super) struct Frame {
    message: Bytes,
    chunk: OnceCell<Bytes>,
    /// `None` inside: it is sent as it is, also to those who take compressed messages.
    compressed: OnceCell<Option<Bytes>>,
}

impl Frame {
    /// Whole lines, line ends included.
    pub(super) fn of(lines: &[u8]) -> Self {
        Self::from_message(message(lines))
    }

    /// A WebSocket message as it travels.
    pub(super) fn from_message(message: Bytes) -> Self {
        Self {
            message,
            chunk: OnceCell::new(),
            compressed: OnceCell::new(),
        }
    }

    /// The lines alone.
    pub(super) fn lines(&self) -> &[u8] {
        websocket::server_text_payload(&self.message)
    }

    /// Bytes as a WebSocket message: a few more than those of its lines.
    pub(super) fn bytes(&self) -> usize {
        self.message.len()
    }

    /// As a WebSocket message, which is also the form in which lines are remembered.
    pub(super) fn message(&self) -> Bytes {
        self.message.clone()
    }

    /// As a WebSocket message for those who take compressed ones.
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

    /// As a connection wants it.
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
    /// Lines for one client only.
    pub(super) fn frame(self, lines: &[u8]) -> Bytes {
        match self {
            Self::WebSocket => message(lines),
            Self::Chunk => chunk(lines),
        }
    }
}

/// Lines as one WebSocket message.
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
    fn lines_are_the_same_in_every_framing() {
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
