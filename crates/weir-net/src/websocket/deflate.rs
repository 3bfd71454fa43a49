//! Compressing and inflating messages, each by itself (RFC 7692, 7.2). One of each serves all
//! connections of a thread.

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::error::FrameError;

/// What the flush at a message's end leaves, taken off on the wire.
const TAIL: [u8; 4] = [0x00, 0x00, 0xFF, 0xFF];

/// Compresses messages.
#[derive(Debug)]
pub struct Deflater {
    stream: Compress,
    level: u32,
    out: Vec<u8>,
}

impl Deflater {
    /// With a level from 1 (fast) to 9 (small).
    pub fn new(level: u32) -> Self {
        Self {
            stream: raw_stream(level),
            level,
            out: Vec::new(),
        }
    }

    /// The payload of the frame that carries a message, `None` if it would not be shorter.
    pub fn deflate(&mut self, message: &[u8]) -> Option<&[u8]> {
        // What does not shrink may grow a little.
        let room = message.len() + message.len() / 4 + 64;
        if self.out.len() < room {
            self.out.resize(room, 0);
        }
        let (taken, made) = (self.stream.total_in(), self.stream.total_out());
        // A full flush forgets what came before, for a third of what beginning anew costs.
        let flush = FlushCompress::Full;
        let status = self.stream.compress(message, &mut self.out[..room], flush);
        let taken = self.stream.total_in() - taken;
        let made = (self.stream.total_out() - made) as usize;
        if !matches!(status, Ok(Status::Ok)) || taken != message.len() as u64 || made == room {
            // What is left inside must not come before the next message.
            self.stream = raw_stream(self.level);
            return None;
        }
        let payload = self.out[..made].strip_suffix(&TAIL)?;
        (payload.len() < message.len()).then_some(payload)
    }
}

fn raw_stream(level: u32) -> Compress {
    Compress::new(Compression::new(level), false)
}

/// Inflates messages.
#[derive(Debug)]
pub struct Inflater {
    stream: Decompress,
    /// The payload with what was taken off, and an end.
    whole: Vec<u8>,
    out: Vec<u8>,
}

impl Inflater {
    /// One that has inflated nothing.
    pub fn new() -> Self {
        Self {
            stream: Decompress::new(false),
            whole: Vec::new(),
            out: Vec::new(),
        }
    }

    /// The message in the payload of [`Event::Deflated`](super::Event::Deflated), which may have at
    /// most `limit` bytes; no more than one above that is ever inflated.
    ///
    /// # Errors
    /// [`FrameError::TooLarge`], or [`FrameError::BadDeflate`] for what is no compressed data,
    /// refers to a message before or has more than 16 final blocks.
    pub fn inflate(&mut self, payload: &[u8], limit: usize) -> Result<&[u8], FrameError> {
        self.whole.clear();
        self.whole.extend_from_slice(payload);
        self.whole.extend_from_slice(&TAIL);
        self.whole.extend_from_slice(&END);
        if self.out.len() <= limit {
            let room = self.out.len().max(OUT_BYTES).min(limit + 1);
            self.out.resize(room, 0);
        }
        loop {
            match self.inflate_whole()? {
                Some(filled) if filled <= limit => return Ok(&self.out[..filled]),
                None if self.out.len() <= limit => {
                    let room = (8 * self.out.len()).min(limit + 1);
                    self.out.resize(room, 0);
                }
                _ => return Err(FrameError::TooLarge { limit }),
            }
        }
    }

    /// How many bytes there are; `None` if there is no room for them.
    fn inflate_whole(&mut self) -> Result<Option<usize>, FrameError> {
        let (mut taken, mut filled) = (0, 0);
        let mut streams = 0;
        while taken < self.whole.len() {
            streams += 1;
            if streams > FINAL_BLOCKS_MAX + 1 {
                return Err(FrameError::BadDeflate);
            }
            self.stream.reset(false);
            let room = self.out.len() - filled;
            let (input, out) = (&self.whole[taken..], &mut self.out[filled..]);
            // Told that this is all, it sees to it that nothing refers to what is not there.
            let status = self.stream.decompress(input, out, FlushDecompress::Finish);
            let made = self.stream.total_out() as usize;
            match status {
                // A peer without a flush ends the stream before we do (RFC 7692, 7.2.3.4).
                Ok(Status::StreamEnd) => {
                    taken += self.stream.total_in() as usize;
                    filled += made;
                }
                Ok(_) if made == room => return Ok(None),
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

/// Final blocks of a peer in one message. The standard has a peer without a flush end the stream in
/// their place and names no bound (RFC 7692, 7.2.3.4); but inflating starts anew after each, which
/// costs as much as inflating 40 kB, and a final block has two bytes or so.
const FINAL_BLOCKS_MAX: usize = 16;
/// A last block without content, ours.
const END: [u8; 2] = [0x03, 0x00];
/// More than most requests and updates have.
const OUT_BYTES: usize = 4096;

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
        // Even nothing takes a byte.
        assert_eq!(inflated(&[], 5), Err(FrameError::BadDeflate));
        // The second message of an end that does not forget (7.2.3.2): "Hello" refers to the first.
        let refers_back = [0xf2, 0x00, 0x11, 0x00, 0x00];
        assert_eq!(inflated(&refers_back, 5), Err(FrameError::BadDeflate));
    }

    #[test]
    fn messages_inflate_up_to_the_limit() {
        let text = "to and fro and ".repeat(1000);
        let mut deflater = Deflater::new(6);
        let payload = deflater.deflate(text.as_bytes()).expect("it shrinks");
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
    fn a_bomb_is_given_up_at_the_limit() {
        let mut deflater = Deflater::new(9);
        let zeros = vec![0; 8 << 20];
        let payload = deflater.deflate(&zeros).expect("it shrinks").to_vec();
        assert!(payload.len() < 16_000, "{}", payload.len());
        let mut inflater = Inflater::new();
        let limit = 50_000;
        assert_eq!(
            inflater.inflate(&payload, limit),
            Err(FrameError::TooLarge { limit })
        );
        assert!(inflater.out.len() <= limit + 1);
        // It is as good as new.
        let payload = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        assert_eq!(inflater.inflate(&payload, limit), Ok(&b"Hello"[..]));
    }

    #[test]
    fn final_blocks_are_few() {
        // An empty final block, byte-aligned by its flush, as often as it is repeated.
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
    fn what_does_not_shrink_is_refused() {
        let mut deflater = Deflater::new(1);
        for message in [&b""[..], b"a", b"wsok", b"abcdefghijklmnopqrstuvwxyz"] {
            assert_eq!(deflater.deflate(message), None, "{message:?}");
        }
    }

    proptest! {
        /// One deflater and one inflater that start anew for every message: nothing refers back.
        #[test]
        fn every_message_stands_by_itself(
            messages in prop::collection::vec(
                prop_oneof![
                    prop::collection::vec(any::<u8>(), 0..2_000),
                    ("[a-c]{1,9}", 1usize..3_000).prop_map(|(text, count)| text.repeat(count).into_bytes()),
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
        fn any_bytes_inflate_or_are_refused(data in prop::collection::vec(any::<u8>(), 0..400), limit in 0usize..5_000) {
            let mut inflater = Inflater::new();
            if let Ok(bytes) = inflater.inflate(&data, limit) {
                prop_assert!(bytes.len() <= limit);
            }
        }
    }
}
