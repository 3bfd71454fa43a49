//! Unpacking of compressed batches into a reusable buffer with a bound.
//!
//! `kafka-protocol` has helpers for this, but they trust the sizes in the data; a few hundred
//! bytes could make them fill the memory. So the same codecs are used directly.

use std::cell::Cell;
use std::io::{self, BufRead, Read};

use super::RecordsError;

/// Compression of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Codec {
    /// Plain.
    None,
    /// gzip.
    Gzip,
    /// snappy, bare or in the frames of Java's library.
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

/// Where batches are unpacked; kept between batches, one per thread is enough.
#[derive(Debug)]
pub struct DecompressBuffer {
    unpacked: Vec<u8>,
    bytes_max: usize,
}

impl DecompressBuffer {
    /// A batch that unpacks to more than `bytes_max` is an error.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            unpacked: Vec::new(),
            bytes_max,
        }
    }

    /// Replaces the limit on the unpacked bytes of a batch.
    pub fn set_bytes_max(&mut self, bytes_max: usize) {
        self.bytes_max = bytes_max;
    }

    /// What was unpacked last; it may be changed.
    #[must_use]
    pub fn decompressed_mut(&mut self) -> &mut [u8] {
        &mut self.unpacked
    }

    /// Returns the memory in use, in bytes.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.unpacked.capacity()
    }

    /// Gives memory beyond `keep_bytes` back; what was unpacked is gone.
    pub fn shrink(&mut self, keep_bytes: usize) {
        self.unpacked.clear();
        self.unpacked.shrink_to(keep_bytes);
    }
}

impl Default for DecompressBuffer {
    fn default() -> Self {
        Self::new(DECOMPRESSED_BYTES_MAX)
    }
}

/// Unpacks `packed` into `scratch` as long as `proceed` returns `true`, which is asked at least once
/// per [`CHUNK_BYTES`] of input: a few bytes of input can cost time without any output.
pub(super) fn unpack<'s>(
    codec: Codec,
    packed: &[u8],
    scratch: &'s mut DecompressBuffer,
    proceed: &mut dyn FnMut() -> bool,
) -> Result<&'s [u8], RecordsError> {
    scratch.unpacked.clear();
    let failed = |error: io::Error| decompress_error(codec, &error);
    let stopped = Cell::new(false);
    let input = LimitedReader {
        left: packed,
        proceed,
        stopped: &stopped,
    };
    let unpacked = match codec {
        Codec::None => {
            scratch.unpacked.extend_from_slice(packed);
            Ok(())
        }
        Codec::Gzip => read_bounded(codec, flate2::bufread::MultiGzDecoder::new(input), scratch),
        Codec::Lz4 => lz4::Decoder::new(input)
            .map_err(failed)
            .and_then(|decoder| read_bounded(codec, decoder, scratch)),
        Codec::Zstd => zstd_decoder(input)
            .map_err(failed)
            .and_then(|decoder| read_bounded(codec, decoder, scratch)),
        Codec::Snappy => decompress_snappy(packed, scratch),
    };
    match unpacked {
        Err(RecordsError::Decompress { .. }) if stopped.get() => Err(RecordsError::Stopped),
        other => other.map(|()| &scratch.unpacked[..]),
    }
}

/// Windows up to those of the highest level are accepted, as clients and brokers do. Their memory
/// is used only as far as a batch unpacks.
fn zstd_decoder<R: BufRead>(input: R) -> io::Result<zstd::stream::read::Decoder<'static, R>> {
    let mut decoder = zstd::stream::read::Decoder::with_buffer(input)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn decompress_error(codec: Codec, error: &io::Error) -> RecordsError {
    RecordsError::Decompress {
        codec,
        reason: error.to_string(),
    }
}

fn read_bounded(
    codec: Codec,
    decoder: impl Read,
    scratch: &mut DecompressBuffer,
) -> Result<(), RecordsError> {
    let limit = scratch.bytes_max as u64 + 1;
    let outcome = decoder.take(limit).read_to_end(&mut scratch.unpacked);
    outcome.map_err(|error| decompress_error(codec, &error))?;
    check_bound(codec, scratch.unpacked.len(), scratch.bytes_max)
}

/// Compressed input in small pieces; before each of them its reader may be stopped.
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

/// Java writes a 16-byte header and then blocks, each behind its length; others write one bare
/// block.
fn decompress_snappy(packed: &[u8], scratch: &mut DecompressBuffer) -> Result<(), RecordsError> {
    let Some(mut blocks) = packed
        .strip_prefix(&XERIAL_MAGIC)
        .and_then(|rest| rest.get(XERIAL_VERSION_BYTES..))
    else {
        return unpack_snappy_block(packed, scratch);
    };
    while let Some((length, rest)) = blocks.split_first_chunk::<4>() {
        let length = u32::from_be_bytes(*length) as usize;
        let Some((block, rest)) = rest.split_at_checked(length) else {
            return Err(snappy_error("block is cut short"));
        };
        unpack_snappy_block(block, scratch)?;
        blocks = rest;
    }
    if blocks.is_empty() {
        Ok(())
    } else {
        Err(snappy_error("block length is cut short"))
    }
}

fn unpack_snappy_block(block: &[u8], scratch: &mut DecompressBuffer) -> Result<(), RecordsError> {
    let failed = |error: snap::Error| snappy_error(&error.to_string());
    let length = snap::raw::decompress_len(block).map_err(failed)?;
    // Snappy cannot shrink anything below a 64th, so a larger claim is a lie: reserve nothing.
    if length / 64 > block.len() {
        return Err(snappy_error("claims an impossible length"));
    }
    let start = scratch.unpacked.len();
    check_bound(
        Codec::Snappy,
        start.saturating_add(length),
        scratch.bytes_max,
    )?;
    scratch.unpacked.resize(start + length, 0);
    let target = &mut scratch.unpacked[start..];
    snap::raw::Decoder::new()
        .decompress(block, target)
        .map_err(failed)?;
    Ok(())
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
/// Two version numbers, which no reader looks at.
const XERIAL_VERSION_BYTES: usize = 8;
/// Input that is unpacked before its reader may be stopped.
const CHUNK_BYTES: usize = 16 << 10;
/// 128 MiB, the limit of the library's own default.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;
/// Brokers accept batches of 1 MiB by default; this leaves room for good compression.
const DECOMPRESSED_BYTES_MAX: usize = 64 << 20;
