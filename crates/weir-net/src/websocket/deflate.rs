//! Deflates and inflates messages independently of each other (RFC 7692, 7.2), so all connections
//! of a thread share one compressor.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::error::FrameError;

/// End of the flushed data, not transmitted.
const TAIL: [u8; 4] = [0x00, 0x00, 0xFF, 0xFF];

/// Compressor of messages.
#[derive(Debug)]
pub struct Deflater {
    stream: Compress,
    level: u32,
    out: Vec<u8>,
}

impl Deflater {
    /// Creates a compressor with a level from 1 (fast) to 9 (small).
    pub fn new(level: u32) -> Self {
        Self {
            stream: raw_stream(level),
            level,
            out: Vec::new(),
        }
    }

    /// Returns the frame payload of a compressed message, `None` if it would not be shorter.
    pub fn deflate(&mut self, message: &[u8]) -> Option<&[u8]> {
        // Incompressible data can grow a little.
        let capacity = message.len() + message.len() / 4 + 64;
        if self.out.len() < capacity {
            self.out.resize(capacity, 0);
        }
        let (consumed, produced) = (self.stream.total_in(), self.stream.total_out());
        // A full flush discards the history at a third of the cost of a reset.
        let flush = FlushCompress::Full;
        let status = self
            .stream
            .compress(message, &mut self.out[..capacity], flush);
        let consumed = self.stream.total_in() - consumed;
        let produced = (self.stream.total_out() - produced) as usize;
        if !matches!(status, Ok(Status::Ok))
            || consumed != message.len() as u64
            || produced == capacity
        {
            // Unwritten output must not precede the next message.
            self.stream = raw_stream(self.level);
            return None;
        }
        let payload = self.out[..produced].strip_suffix(&TAIL)?;
        (payload.len() < message.len()).then_some(payload)
    }
}

fn raw_stream(level: u32) -> Compress {
    Compress::new(Compression::new(level), false)
}

/// Decompressor of messages.
#[derive(Debug)]
pub struct Inflater {
    stream: Decompress,
    /// Payload with the removed tail and an end block.
    whole: Vec<u8>,
    out: Vec<u8>,
}

impl Inflater {
    /// Creates a decompressor.
    pub fn new() -> Self {
        Self {
            stream: Decompress::new(false),
            whole: Vec::new(),
            out: Vec::new(),
        }
    }

    /// Inflates the payload of [`FrameEvent::Deflated`](super::FrameEvent::Deflated) to at most
    /// `limit` bytes. Never inflates more than `limit` + 1 bytes.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`] for a longer message. [`FrameError::BadDeflate`] for invalid data,
    /// a reference to an earlier message, or more than 16 final blocks.
    pub fn inflate(&mut self, payload: &[u8], limit: usize) -> Result<&[u8], FrameError> {
        self.whole.clear();
        self.whole.extend_from_slice(payload);
        self.whole.extend_from_slice(&TAIL);
        self.whole.extend_from_slice(&END);
        if self.out.len() <= limit {
            let capacity = self.out.len().max(INITIAL_OUT_BYTES).min(limit + 1);
            self.out.resize(capacity, 0);
        }
        loop {
            match self.inflate_whole()? {
                Some(filled) if filled <= limit => return Ok(&self.out[..filled]),
                None if self.out.len() <= limit => {
                    let capacity = (8 * self.out.len()).min(limit + 1);
                    self.out.resize(capacity, 0);
                }
                _ => return Err(FrameError::TooLarge { limit }),
            }
        }
    }

    /// Inflates the stored payload. Returns the length of the text, `None` if the buffer is too
    /// small.
    fn inflate_whole(&mut self) -> Result<Option<usize>, FrameError> {
        let (mut consumed, mut filled) = (0, 0);
        let mut streams = 0;
        while consumed < self.whole.len() {
            streams += 1;
            if streams > FINAL_BLOCKS_MAX + 1 {
                return Err(FrameError::BadDeflate);
            }
            self.stream.reset(false);
            let capacity = self.out.len() - filled;
            let (input, out) = (&self.whole[consumed..], &mut self.out[filled..]);
            // With `Finish`, the decompressor rejects references to data before the message.
            let status = self.stream.decompress(input, out, FlushDecompress::Finish);
            let produced = self.stream.total_out() as usize;
            match status {
                // A peer may end the stream with a final block instead of a flush (RFC 7692,
                // 7.2.3.4).
                Ok(Status::StreamEnd) => {
                    consumed += self.stream.total_in() as usize;
                    filled += produced;
                }
                Ok(_) if produced == capacity => return Ok(None),
                _ => return Err(FrameError::BadDeflate),
            }
        }
        Ok(Some(filled))
    }
}

impl Default for Inflater {
    fn default() -> Self {
        Self::new()
    }
}

/// Maximum number of final blocks in one message. The standard allows a peer to use final blocks
/// instead of flushes, without a bound (RFC 7692, 7.2.3.4). But the decompressor is reset after
/// each, which costs as much as inflating 40 kB, and a final block can be as short as two bytes.
const FINAL_BLOCKS_MAX: usize = 16;
/// An empty final block, appended by this decompressor.
const END: [u8; 2] = [0x03, 0x00];
/// Initial output size, enough for most requests and updates.
const INITIAL_OUT_BYTES: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn inflated(payload: &[u8], limit: usize) -> Result<String, FrameError> {
        let mut inflater = Inflater::new();
        let bytes = inflater.inflate(payload, limit)?;
        Ok(String::from_utf8_lossy(bytes).into_owned())
    }

    #[test]
    fn standard_examples() {
        // RFC 7692, 7.2.3: one block, a stored block, a final block, two blocks, nothing.
        for (payload, text) in [
            (&[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00][..], "Hello"),
            (
                &[
                    0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00,
                ],
                "Hello",
            ),
            (&[0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00], "Hello"),
            (
                &[
                    0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00,
                ],
                "Hello",
            ),
            (&[0x00], ""),
        ] {
            assert_eq!(inflated(payload, 5).as_deref(), Ok(text), "{payload:x?}");
        }
        // Even an empty message takes one byte.
        assert_eq!(inflated(&[], 5), Err(FrameError::BadDeflate));
        // Second message of a peer with context takeover (7.2.3.2): "Hello" refers to the first.
        let refers_back = [0xf2, 0x00, 0x11, 0x00, 0x00];
        assert_eq!(inflated(&refers_back, 5), Err(FrameError::BadDeflate));
    }

    #[test]
    fn messages_inflate_up_to_the_limit() {
        let text = "to and fro and ".repeat(1000);
        let mut deflater = Deflater::new(6);
        let payload = deflater
            .deflate(text.as_bytes())
            .expect("compressible text");
        assert!(payload.len() < 200);
        assert_eq!(inflated(payload, text.len()).as_deref(), Ok(text.as_str()));
        for limit in [0, 1, 4095, 4096, 4097, text.len() - 1] {
            assert_eq!(
                inflated(payload, limit),
                Err(FrameError::TooLarge { limit })
            );
        }
    }

    #[test]
    fn inflation_stops_at_limit() {
        let mut deflater = Deflater::new(9);
        let zeros = vec![0; 8 << 20];
        let payload = deflater
            .deflate(&zeros)
            .expect("compressible zeros")
            .to_vec();
        assert!(payload.len() < 16_000, "{}", payload.len());
        let mut inflater = Inflater::new();
        let limit = 50_000;
        assert_eq!(
            inflater.inflate(&payload, limit),
            Err(FrameError::TooLarge { limit })
        );
        assert!(inflater.out.len() <= limit + 1);
        // The decompressor stays usable.
        let payload = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        assert_eq!(inflater.inflate(&payload, limit), Ok(&b"Hello"[..]));
    }

    #[test]
    fn final_blocks_are_limited() {
        // An empty final block, aligned to a byte by its flush, repeated.
        let blocks = |count: usize| [[0x03, 0x00].repeat(count), vec![0x00]].concat();
        let hello = [0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        assert_eq!(inflated(&blocks(FINAL_BLOCKS_MAX), 5).as_deref(), Ok(""));
        let many = blocks(FINAL_BLOCKS_MAX + 1);
        assert_eq!(inflated(&many, 5), Err(FrameError::BadDeflate));
        assert_eq!(
            inflated(&blocks(16_600), 50_000),
            Err(FrameError::BadDeflate)
        );
        assert_eq!(FrameError::BadDeflate.close_code(), 1007);
        let twice = [&hello[..], &hello, &[0x00]].concat();
        assert_eq!(inflated(&twice, 50).as_deref(), Ok("HelloHello"));
    }

    #[test]
    fn incompressible_messages_are_not_deflated() {
        let mut deflater = Deflater::new(1);
        for message in [&b""[..], b"a", b"wsok", b"abcdefghijklmnopqrstuvwxyz"] {
            assert_eq!(deflater.deflate(message), None, "{message:?}");
        }
    }

    proptest! {
        /// One compressor for all messages and a new decompressor for each: no message refers to
        /// another.
        #[test]
        fn messages_are_compressed_independently(
            messages in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..2_000),
                    ("[a-c]{1,9}", 1usize..3_000)
                        .prop_map(|(text, count)| text.repeat(count).into_bytes()),
                    "[ -~]{0,3000}".prop_map(String::into_bytes),
                ],
                1..8,
            ),
            level in 1u32..=9,
        ) {
            let mut deflater = Deflater::new(level);
            for message in &messages {
                let Some(payload) = deflater.deflate(message) else { continue };
                prop_assert!(payload.len() < message.len());
                let mut fresh = Inflater::new();
                prop_assert_eq!(fresh.inflate(payload, message.len()), Ok(&message[..]));
            }
        }

        #[test]
        fn arbitrary_bytes_inflate_or_are_rejected(
            data in prop::collection::vec(any::<u8>(), 0..400),
            limit in 0usize..5_000,
        ) {
            let mut inflater = Inflater::new();
            if let Ok(bytes) = inflater.inflate(&data, limit) {
                prop_assert!(bytes.len() <= limit);
            }
        }
    }
}
