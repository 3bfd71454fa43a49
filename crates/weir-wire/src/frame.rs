//! Splits a byte stream into size-prefixed frames.
//!
//! Complete frames borrow from the caller's read buffer, which all connections of a thread may
//! share. Only the start of an incomplete frame is stored here.

use super::WireError;

/// Bytes of the size prefix.
pub const SIZE_BYTES: usize = 4;
/// Number of arrived bytes from which a frame takes the spare buffer, so that a peer cannot occupy
/// it with a prefix alone.
const SPARE_FROM_BYTES: usize = 64 << 10;
/// Maximum capacity of the spare buffer: a fetch response of several partitions with the default
/// limit of 1 MiB each.
const SPARE_BYTES_MAX: usize = 8 << 20;

/// Splits the bytes of one connection into frames.
#[derive(Debug)]
pub struct KafkaFrameReader {
    /// Start of an incomplete frame, with its prefix. Uses no memory between frames.
    partial: Vec<u8>,
    frame_bytes_max: usize,
}

impl KafkaFrameReader {
    /// Creates a reader that accepts frames of up to `frame_bytes_max` bytes without prefix.
    pub fn new(frame_bytes_max: usize) -> Self {
        Self {
            partial: Vec::new(),
            frame_bytes_max,
        }
    }

    /// Calls `sink` with each complete frame, without its prefix. Stores at most twice as many
    /// bytes as arrived, regardless of the announced size.
    ///
    /// # Errors
    /// A negative or excessive size, or an error of the sink. The connection must then be closed.
    pub fn feed<E: From<WireError>>(
        &mut self,
        arrived: &[u8],
        sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        self.feed_with(&mut Vec::new(), arrived, sink)
    }

    /// Does the same as [`feed`](Self::feed), but stores a large incomplete frame in `spare`, the
    /// buffer of an earlier one. This saves growing and copying a new buffer. All connections of a
    /// thread may share `spare`.
    ///
    /// # Errors
    /// As [`feed`](Self::feed).
    pub fn feed_with<E: From<WireError>>(
        &mut self,
        spare: &mut Vec<u8>,
        arrived: &[u8],
        mut sink: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut left = arrived;
        if !self.partial.is_empty() {
            left = self.fill_to(SIZE_BYTES, left, spare);
            let Some(total) = self.frame_total(&self.partial)? else {
                return Ok(());
            };
            left = self.fill_to(total, left, spare);
            if self.partial.len() < total {
                return Ok(());
            }
            // Freed afterwards, so that idle connections use no memory.
            let frame = std::mem::take(&mut self.partial);
            sink(&frame[SIZE_BYTES..])?;
            if frame.capacity() > spare.capacity() && frame.capacity() <= SPARE_BYTES_MAX {
                *spare = frame;
            }
        }
        while let Some(total) = self.frame_total(left)? {
            let Some((frame, next)) = left.split_at_checked(total) else {
                break;
            };
            sink(&frame[SIZE_BYTES..])?;
            left = next;
        }
        if !left.is_empty() {
            self.partial = left.to_vec();
        }
        Ok(())
    }

    /// Returns the bytes allocated for the incomplete frame.
    pub fn buffered_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Returns the length of the first frame with its prefix, or `None` if the prefix is
    /// incomplete.
    fn frame_total(&self, bytes: &[u8]) -> Result<Option<usize>, WireError> {
        let Some(prefix) = bytes.first_chunk::<SIZE_BYTES>() else {
            return Ok(None);
        };
        let size = i32::from_be_bytes(*prefix);
        let bytes = usize::try_from(size).map_err(|_| WireError::Length {
            what: "frame size",
            value: i64::from(size),
        })?;
        if bytes > self.frame_bytes_max {
            return Err(WireError::FrameTooLarge {
                bytes: bytes as u64,
                bytes_max: self.frame_bytes_max,
            });
        }
        Ok(Some(SIZE_BYTES + bytes))
    }

    /// Moves bytes until `partial` has `total` bytes; returns the remaining ones.
    fn fill_to<'a>(&mut self, total: usize, bytes: &'a [u8], spare: &mut Vec<u8>) -> &'a [u8] {
        let missing = total.saturating_sub(self.partial.len());
        let (taken, rest) = bytes.split_at(missing.min(bytes.len()));
        let needed = self.partial.len() + taken.len();
        if self.partial.capacity() < needed {
            if needed >= SPARE_FROM_BYTES && spare.capacity() >= total {
                let mut larger = std::mem::take(spare);
                larger.clear();
                larger.extend_from_slice(&self.partial);
                self.partial = larger;
            } else {
                // Doubles the capacity, but not beyond the end of this frame.
                let grown = needed.max(2 * self.partial.len());
                self.partial
                    .reserve_exact(grown.min(total) - self.partial.len());
            }
        }
        self.partial.extend_from_slice(taken);
        rest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn collect(reader: &mut KafkaFrameReader, bytes: &[u8]) -> Result<Vec<Vec<u8>>, WireError> {
        let mut frames = Vec::new();
        reader.feed::<WireError>(bytes, |frame| {
            frames.push(frame.to_vec());
            Ok(())
        })?;
        Ok(frames)
    }

    fn stream(frames: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for frame in frames {
            bytes.extend_from_slice(&(frame.len() as i32).to_be_bytes());
            bytes.extend_from_slice(frame);
        }
        bytes
    }

    #[test]
    fn sizes_out_of_range_are_errors() {
        let mut reader = KafkaFrameReader::new(8);
        let negative = collect(&mut reader, &[0xff, 0xff, 0xff, 0xff]);
        assert!(matches!(negative, Err(WireError::Length { value: -1, .. })));
        let mut reader = KafkaFrameReader::new(8);
        let large = collect(&mut reader, &[0, 0, 0, 9]).expect_err("above the limit");
        assert_eq!(
            large.to_string(),
            "frame of 9 bytes exceeds the limit of 8 bytes: raise the limit"
        );
    }

    #[test]
    fn large_frames_reuse_the_spare_buffer() {
        let (mut first, mut second) = (
            KafkaFrameReader::new(1 << 20),
            KafkaFrameReader::new(1 << 20),
        );
        let mut spare = Vec::new();
        let frame: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let bytes = stream(&[frame.clone(), frame.clone()]);
        let mut frames = 0;
        for round in 0..3 {
            for (number, piece) in bytes.chunks(20_000).enumerate() {
                let mut check = |found: &[u8]| {
                    assert!(found == frame, "round {round}, piece {number}");
                    frames += 1;
                    Ok::<_, WireError>(())
                };
                first
                    .feed_with(&mut spare, piece, &mut check)
                    .expect("valid");
                second
                    .feed_with(&mut spare, piece, &mut check)
                    .expect("valid");
            }
            assert!(spare.capacity() >= 300_000, "kept for the next frame");
            assert_eq!(first.buffered_bytes() + second.buffered_bytes(), 0);
        }
        assert_eq!(frames, 12);
    }

    #[test]
    fn small_or_slow_frames_leave_the_spare_buffer() {
        let mut reader = KafkaFrameReader::new(1 << 20);
        let mut spare = Vec::with_capacity(1 << 20);
        let bytes = stream(&[vec![7; 300_000]]);
        for piece in bytes[..60_000].chunks(1000) {
            let read = reader.feed_with::<WireError>(&mut spare, piece, |_| Ok(()));
            read.expect("valid");
        }
        assert_eq!(spare.capacity(), 1 << 20);
        assert!(reader.buffered_bytes() <= 120_000);
    }

    #[test]
    fn announced_size_allocates_nothing() {
        let mut reader = KafkaFrameReader::new(100 << 20);
        let mut prefix = (90_000_000_i32).to_be_bytes().to_vec();
        prefix.push(1);
        for byte in prefix {
            assert_eq!(collect(&mut reader, &[byte]), Ok(vec![]));
        }
        assert!(reader.buffered_bytes() <= 16, "{}", reader.buffered_bytes());
        assert!(!reader.partial.is_empty());
    }

    proptest! {
        #[test]
        fn random_streams_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            crate::fuzz::frame(&bytes);
        }

        #[test]
        fn frames_round_trip_in_chunks(
            frames in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..8),
            cuts in prop::collection::vec(1_usize..50, 1..30),
        ) {
            let bytes = stream(&frames);
            let mut reader = KafkaFrameReader::new(64);
            let (mut seen, mut left) = (Vec::new(), bytes.as_slice());
            let mut cuts = cuts.iter().cycle();
            while !left.is_empty() {
                let cut = cuts.next().map_or(1, |cut| *cut).min(left.len());
                let (now, later) = left.split_at(cut);
                seen.extend(collect(&mut reader, now)?);
                prop_assert!(reader.buffered_bytes() <= 64 + SIZE_BYTES);
                left = later;
            }
            prop_assert_eq!(seen, frames);
            prop_assert!(reader.partial.is_empty());
            prop_assert_eq!(reader.buffered_bytes(), 0);
        }
    }
}
