//! Compresses messages within a budget. Compressed messages do not depend on a connection and are
//! shared.

use bytes::Bytes;
use weir_net::websocket::{Deflater, HEADER_BYTES_MAX, push_deflated_server_text};
use weir_tlcp::diff::DiffBudget;

use crate::compression::Compression;

/// Counters of messages that could be compressed, counted once per shared message.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CompressionCounters {
    /// Compressed messages.
    pub(crate) messages: u64,
    /// Size of the compressed messages before compression.
    pub(crate) bytes_before: u64,
    /// Size of the compressed messages after compression.
    pub(crate) bytes_after: u64,
    /// Compressed, but the result was not smaller.
    pub(crate) not_smaller: u64,
    /// Not compressed, because the budget was spent.
    pub(crate) over_budget: u64,
    /// Compressed messages sent, counted for each client.
    pub(crate) sent: u64,
}

/// Compressor of one shard.
#[derive(Debug)]
pub(super) struct Compressor {
    /// Absent if compression is disabled: it takes 300 KB.
    deflater: Option<Box<Deflater>>,
    min_bytes: usize,
    budget: DiffBudget,
    pub(super) counters: CompressionCounters,
}

impl Compressor {
    pub(super) fn new(settings: &Compression) -> Self {
        let deflater = || Box::new(Deflater::new(settings.level));
        Self {
            deflater: settings.enabled.then(deflater),
            min_bytes: settings.min_bytes,
            budget: DiffBudget::new(settings.budget_bytes_per_second, 0),
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
    use crate::shard::frame::Frame;
    use weir_net::websocket::{FrameEvent, FrameRole, Inflater, WebSocketFrameReader};

    fn compressor(min_bytes: usize, budget: u64) -> Compressor {
        Compressor::new(&Compression {
            enabled: true,
            min_bytes,
            budget_bytes_per_second: budget,
            ..Compression::default()
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
        let mut compressor = Compressor::new(&Compression::default());
        assert_eq!(compressor.message(&[b'a'; 1_000]), None);
    }
}
