//! Encoded lines, framed as a WebSocket message or as a chunk of an HTTP body. Messages are
//! compressed within a budget; a compressed message does not depend on a connection and is shared.

use std::cell::OnceCell;

use bytes::Bytes;
use weir_fanout::SharedFrame;
use weir_net::websocket::{Deflater, HEADER_BYTES_MAX, push_deflated_server_text};
use weir_net::{http1, websocket};
use weir_tlcp::diff::DiffBudget;

use crate::compression::CompressionConfig;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// One text message.
    WebSocket,
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

    #[inline]
    pub(super) fn lines(&self) -> &[u8] {
        websocket::server_text_payload(&self.message)
    }

    /// Returns the length of the WebSocket message: the lines and the frame header.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.message.len()
    }

    /// Returns the WebSocket message. Frames are stored in this form.
    #[inline]
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

    #[inline]
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

impl SharedFrame for Frame {
    fn of(lines: &[u8]) -> Self {
        Self::of(lines)
    }

    fn bytes(&self) -> usize {
        self.bytes()
    }

    fn line_bytes(&self) -> usize {
        self.lines().len()
    }
}

impl Framing {
    pub(super) fn frame(self, lines: &[u8]) -> Bytes {
        match self {
            Self::WebSocket => message(lines),
            Self::Chunk => chunk(lines),
        }
    }
}

pub(super) fn message(lines: &[u8]) -> Bytes {
    let mut framed = Vec::with_capacity(lines.len() + HEADER_BYTES_MAX);
    websocket::push_server_text(&mut framed, lines);
    Bytes::from(framed)
}

fn chunk(lines: &[u8]) -> Bytes {
    let mut framed = Vec::with_capacity(lines.len() + http1::CHUNK_BYTES_MAX);
    http1::push_chunk(&mut framed, lines);
    Bytes::from(framed)
}

/// Counters of messages that could be compressed, counted once per shared message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompressionCounters {
    pub(crate) messages: u64,
    pub(crate) bytes_before: u64,
    pub(crate) bytes_after: u64,
    /// Compressed, but the result was not smaller.
    pub(crate) not_smaller: u64,
    /// Not compressed, because the budget was spent.
    pub(crate) over_budget: u64,
    /// Compressed messages sent, counted for each client.
    pub(crate) sent: u64,
}

#[derive(Debug)]
pub(super) struct Compressor {
    /// Absent if compression is disabled: it takes 300 KB.
    deflater: Option<Box<Deflater>>,
    min_bytes: usize,
    budget: DiffBudget,
    pub(super) counters: CompressionCounters,
}

impl Compressor {
    pub(super) fn new(config: &CompressionConfig) -> Self {
        let deflater = || Box::new(Deflater::new(config.level));
        Self {
            deflater: config.enabled.then(deflater),
            min_bytes: config.min_bytes,
            budget: DiffBudget::new(config.budget_bytes_per_second, 0),
            counters: CompressionCounters::default(),
        }
    }

    /// Adds the budget for the time since the last call.
    pub(super) fn refill(&mut self, now_ms: u64) {
        self.budget.refill(now_ms);
    }

    /// Compresses lines into one message; returns `None` if they must be sent uncompressed.
    pub(super) fn message(&mut self, lines: &[u8]) -> Option<Bytes> {
        let deflater = self.deflater.as_mut()?;
        if lines.len() < self.min_bytes {
            return None;
        }
        if !self.budget.take(lines.len()) {
            self.counters.over_budget += 1;
            return None;
        }
        let Some(payload) = deflater.deflate(lines) else {
            self.counters.not_smaller += 1;
            return None;
        };
        self.counters.messages += 1;
        self.counters.bytes_before += lines.len() as u64;
        self.counters.bytes_after += payload.len() as u64;
        let mut framed = Vec::with_capacity(payload.len() + HEADER_BYTES_MAX);
        push_deflated_server_text(&mut framed, payload);
        Some(Bytes::from(framed))
    }
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

    use weir_net::websocket::{FrameEvent, FrameRole, Inflater, WebSocketFrameReader};

    fn compressor(min_bytes: usize, budget: u64) -> Compressor {
        Compressor::new(&CompressionConfig {
            enabled: true,
            min_bytes,
            budget_bytes_per_second: budget,
            ..CompressionConfig::default()
        })
    }

    #[test]
    fn message_is_compressed_once_and_shared() {
        let mut compressor = compressor(100, 1_000_000);
        let lines = "U,1,1,some value|some value|some value\r\n".repeat(20);
        let frame = Frame::of(lines.as_bytes());
        let first = frame.compressed(&mut compressor);
        let second = frame.compressed(&mut compressor);
        assert_eq!(first.as_ptr(), second.as_ptr());
        let counters = compressor.counters;
        assert_eq!((counters.messages, counters.sent), (1, 2));
        assert_eq!(counters.bytes_before, lines.len() as u64);
        assert!(counters.bytes_after < counters.bytes_before / 10);
        let mut reader = WebSocketFrameReader::new(FrameRole::Client, 10_000).with_deflate(true);
        let Ok((_, Some(FrameEvent::Deflated(payload)))) = reader.read(&first) else {
            panic!("{first:?}");
        };
        let mut inflater = Inflater::new();
        assert_eq!(inflater.inflate(payload, 10_000), Ok(lines.as_bytes()));
        // The uncompressed form is unchanged.
        assert_eq!(frame.lines(), lines.as_bytes());
        assert_eq!(frame.message()[0], 0x81);
    }

    #[test]
    fn short_incompressible_and_over_budget_messages_stay_plain() {
        let mut compressor = compressor(90, 1_000);
        let is_plain = |compressor: &mut Compressor, lines: &str| {
            let frame = Frame::of(lines.as_bytes());
            let plain = frame.compressed(compressor);
            assert_eq!(frame.compressed(compressor), plain, "the result is stored");
            plain == frame.message()
        };
        let counts = |compressor: &Compressor| {
            let counters = compressor.counters;
            (counters.not_smaller, counters.over_budget, counters.sent)
        };
        assert!(is_plain(&mut compressor, &"a".repeat(89)));
        assert_eq!(counts(&compressor), (0, 0, 0));
        let different: String = (' '..='~').collect();
        assert!(is_plain(&mut compressor, &different));
        assert_eq!(counts(&compressor), (1, 0, 0));
        assert!(!is_plain(&mut compressor, &"a".repeat(800)));
        assert_eq!(counts(&compressor), (1, 0, 2));
        assert!(is_plain(&mut compressor, &"a".repeat(800)));
        assert_eq!(counts(&compressor), (1, 1, 2));
        compressor.refill(1_000);
        assert!(!is_plain(&mut compressor, &"a".repeat(800)));
    }

    #[test]
    fn compression_is_off_by_default() {
        let mut compressor = Compressor::new(&CompressionConfig::default());
        assert_eq!(compressor.message(&[b'a'; 1_000]), None);
    }
}
