//! Decompresses batches into a reusable, bounded buffer.
//!
//! `kafka-protocol` has helpers for this, but they trust sizes in the data: a few hundred bytes
//! could make them exhaust the memory. So the codecs are used directly.

use std::cell::Cell;
use std::io::{self, BufRead, Read};

use flate2::bufread::MultiGzDecoder;

use super::RecordsError;

/// Codec of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// No compression.
    None,
    /// gzip.
    Gzip,
    /// snappy, with or without the frames of Java's library.
    Snappy,
    /// The LZ4 frame format.
    Lz4,
    /// Zstandard.
    Zstd,
}

impl Codec {
    pub(super) fn from_bits(code: i16) -> Result<Self, RecordsError> {
        Ok(match code {
            0 => Self::None,
            1 => Self::Gzip,
            2 => Self::Snappy,
            3 => Self::Lz4,
            4 => Self::Zstd,
            _ => return Err(RecordsError::UnknownCodec { code }),
        })
    }
}

/// Buffer for decompressed batches; one per thread is enough.
#[derive(Debug)]
pub struct DecompressBuffer {
    decompressed: Vec<u8>,
    bytes_max: usize,
}

impl DecompressBuffer {
    /// Creates a buffer. A batch that decompresses to more than `bytes_max` bytes is an error.
    pub fn new(bytes_max: usize) -> Self {
        Self {
            decompressed: Vec::new(),
            bytes_max,
        }
    }

    /// Sets the limit of decompressed bytes per batch.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// Returns the latest decompressed records; they may be changed.
    pub fn decompressed_mut(&mut self) -> &mut [u8] {
        &mut self.decompressed
    }

    /// Exchanges the buffer's memory, with the latest decompressed records, for `other`.
    pub fn swap(&mut self, other: &mut Vec<u8>) {
        std::mem::swap(&mut self.decompressed, other);
    }

    /// Returns the allocated memory in bytes.
    pub fn allocated_bytes(&self) -> usize {
        self.decompressed.capacity()
    }

    /// Frees memory beyond `keep_bytes` and discards the decompressed records.
    pub fn shrink(&mut self, keep_bytes: usize) {
        self.decompressed.clear();
        self.decompressed.shrink_to(keep_bytes);
    }
}

impl Default for DecompressBuffer {
    fn default() -> Self {
        Self::new(DECOMPRESSED_BYTES_MAX)
    }
}

/// Decompresses `compressed` into `buffer` while `proceed` returns `true`. `proceed` is called at
/// least once per [`CHUNK_BYTES`] of input, because a few bytes of input can take time without any
/// output.
pub(super) fn decompress<'s>(
    codec: Codec,
    compressed: &[u8],
    buffer: &'s mut DecompressBuffer,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<&'s [u8], RecordsError> {
    buffer.decompressed.clear();
    let stopped = Cell::new(false);
    let input = LimitedReader {
        left: compressed,
        proceed,
        stopped: &stopped,
    };
    let decompressed = match codec {
        Codec::None => {
            buffer.decompressed.extend_from_slice(compressed);
            Ok(())
        }
        Codec::Gzip => read_bounded(codec, Ok(MultiGzDecoder::new(input)), buffer),
        Codec::Lz4 => read_bounded(codec, lz4::Decoder::new(input), buffer),
        Codec::Zstd => read_bounded(codec, zstd_decoder(input), buffer),
        Codec::Snappy => decompress_snappy(compressed, buffer),
    };
    match decompressed {
        Err(RecordsError::Decompress { .. }) if stopped.get() => Err(RecordsError::Stopped),
        other => other.map(|()| &buffer.decompressed[..]),
    }
}

/// Accepts window sizes of all compression levels, as clients and brokers do. Memory is only used
/// as far as a batch decompresses.
fn zstd_decoder<R: BufRead>(input: R) -> io::Result<zstd::stream::read::Decoder<'static, R>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn read_bounded(
    codec: Codec,
    decoder: io::Result<impl Read>,
    buffer: &mut DecompressBuffer,
) -> Result<(), RecordsError> {
    let limit = buffer.bytes_max as u64 + 1;
    let read = |decoder| Read::take(decoder, limit).read_to_end(&mut buffer.decompressed);
    decoder
        .and_then(read)
        .map_err(|error| RecordsError::Decompress {
            codec,
            reason: error.to_string(),
        })?;
    check_bound(codec, buffer.decompressed.len(), buffer.bytes_max)
}

/// Compressed input in chunks; `proceed` can stop it before each chunk.
struct LimitedReader<'a> {
    left: &'a [u8],
    proceed: &'a mut dyn FnMut() -> bool,
    stopped: &'a Cell<bool>,
}

impl BufRead for LimitedReader<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if !(self.proceed)() {
            self.stopped.set(true);
            return Err(io::Error::other("stopped"));
        }
        Ok(&self.left[..self.left.len().min(CHUNK_BYTES)])
    }

    fn consume(&mut self, count: usize) {
        self.left = &self.left[count..];
    }
}

impl Read for LimitedReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let input = self.fill_buf()?;
        let count = input.len().min(buffer.len());
        buffer[..count].copy_from_slice(&input[..count]);
        self.consume(count);
        Ok(count)
    }
}

/// Decompresses snappy with and without frames. Java's library writes a 16-byte header and then
/// blocks, each after its length. Others write one block.
fn decompress_snappy(compressed: &[u8], buffer: &mut DecompressBuffer) -> Result<(), RecordsError> {
    let Some(mut blocks) = compressed
        .strip_prefix(&XERIAL_MAGIC)
        .and_then(|rest| rest.get(XERIAL_VERSION_BYTES..))
    else {
        return decompress_snappy_block(compressed, buffer);
    };
    while let Some((length, rest)) = blocks.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((block, rest)) = rest.split_at_checked(length) else {
            return Err(snappy_error("block is truncated"));
        };
        decompress_snappy_block(block, buffer)?;
        blocks = rest;
    }
    match blocks.is_empty() {
        true => Ok(()),
        false => Err(snappy_error("block length is truncated")),
    }
}

fn decompress_snappy_block(
    block: &[u8],
    buffer: &mut DecompressBuffer,
) -> Result<(), RecordsError> {
    let failed = |error: snap::Error| snappy_error(&error.to_string());
    let length = snap::raw::decompress_len(block).map_err(failed)?;
    // Snappy cannot compress to less than a 64th, so a larger length is invalid. Nothing is
    // allocated.
    if length / 64 > block.len() {
        return Err(snappy_error("decompressed length is impossible"));
    }
    let start = buffer.decompressed.len();
    let end = start.saturating_add(length);
    check_bound(Codec::Snappy, end, buffer.bytes_max)?;
    buffer.decompressed.resize(end, 0);
    let target = &mut buffer.decompressed[start..];
    let written = snap::raw::Decoder::new().decompress(block, target);
    written.map(drop).map_err(failed)
}

fn snappy_error(reason: &str) -> RecordsError {
    RecordsError::Decompress {
        codec: Codec::Snappy,
        reason: reason.to_owned(),
    }
}

fn check_bound(codec: Codec, bytes: usize, bytes_max: usize) -> Result<(), RecordsError> {
    if bytes > bytes_max {
        return Err(RecordsError::TooLarge { codec, bytes_max });
    }
    Ok(())
}

pub(super) const XERIAL_MAGIC: [u8; 8] = *b"\x82SNAPPY\0";
/// Two version numbers, which readers ignore.
const XERIAL_VERSION_BYTES: usize = 8;
/// Input bytes that are decompressed between two calls of `proceed`.
const CHUNK_BYTES: usize = 16 << 10;
/// 128 MiB, the default limit of the library.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Brokers accept batches of 1 MiB by default; this allows for high compression ratios.
const DECOMPRESSED_BYTES_MAX: usize = 64 << 20;
