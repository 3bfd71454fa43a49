//! Compresses batches in formats that all clients and brokers can read.

use std::io::{self, Write as _};

use super::RecordsError;
use super::compression::{Codec, XERIAL_MAGIC};

/// Framing of snappy data. Java's library adds frames, and some readers support only one format, so
/// rewritten records keep the format they had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnappyFraming {
    /// One block without frames.
    Bare,
    /// Frames of Java's library.
    Frames,
}

impl SnappyFraming {
    /// Returns the framing of compressed records.
    pub fn of(compressed: &[u8]) -> Self {
        match compressed.starts_with(&XERIAL_MAGIC) {
            true => Self::Frames,
            false => Self::Bare,
        }
    }
}

/// Batch compressor with reusable codec state.
pub struct BatchCompressor {
    zstd: Option<zstd::bulk::Compressor<'static>>,
    snappy: snap::raw::Encoder,
    block: Vec<u8>,
}

impl Default for BatchCompressor {
    fn default() -> Self {
        Self {
            zstd: None,
            snappy: snap::raw::Encoder::new(),
            block: Vec::new(),
        }
    }
}

impl std::fmt::Debug for BatchCompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BatchCompressor").finish_non_exhaustive()
    }
}

impl BatchCompressor {
    /// Compresses `plain` and appends the result to `out`.
    ///
    /// # Errors
    /// [`RecordsError::Compress`] with the codec's message; `out` may then end with an incomplete
    /// batch.
    pub fn compress(
        &mut self,
        codec: Codec,
        framing: SnappyFraming,
        plain: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), RecordsError> {
        let compressed = match codec {
            Codec::None => {
                out.extend_from_slice(plain);
                Ok(())
            }
            Codec::Gzip => gzip(plain, out),
            Codec::Snappy if framing == SnappyFraming::Frames => self.snappy_frames(plain, out),
            Codec::Snappy => self.snappy_block(plain, out),
            Codec::Lz4 => lz4(plain, out),
            Codec::Zstd => self.zstd(plain, out),
        };
        compressed.map_err(|error| RecordsError::Compress {
            codec,
            reason: error.to_string(),
        })
    }

    fn snappy_frames(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        out.extend_from_slice(&XERIAL_MAGIC);
        for version in [1_i32, 1] {
            out.extend_from_slice(&version.to_be_bytes());
        }
        for block in plain.chunks(XERIAL_BLOCK_BYTES) {
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            self.snappy_block(block, out)?;
            let length = (out.len() - at - 4) as u32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }

    fn snappy_block(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.block
            .resize(snap::raw::max_compress_len(plain.len()), 0);
        let length = self.snappy.compress(plain, &mut self.block)?;
        out.extend_from_slice(&self.block[..length]);
        self.block.clear();
        self.block.shrink_to(KEEP_BYTES);
        Ok(())
    }

    fn zstd(&mut self, plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let compressor = match &mut self.zstd {
            Some(compressor) => compressor,
            none => none.insert(zstd::bulk::Compressor::new(ZSTD_LEVEL)?),
        };
        self.block
            .resize(zstd::zstd_safe::compress_bound(plain.len()), 0);
        let length = compressor.compress_to_buffer(plain, &mut self.block[..])?;
        out.extend_from_slice(&self.block[..length]);
        self.block.clear();
        self.block.shrink_to(KEEP_BYTES);
        Ok(())
    }
}

fn gzip(plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::new(GZIP_LEVEL));
    encoder.write_all(plain)?;
    encoder.finish().map(drop)
}

/// Uses independent blocks, because Java's reader supports no others.
fn lz4(plain: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
    let mut encoder = lz4::EncoderBuilder::new()
        .block_mode(lz4::BlockMode::Independent)
        .block_size(lz4::BlockSize::Max64KB)
        .block_checksum(lz4::liblz4::BlockChecksum::NoBlockChecksum)
        .checksum(lz4::ContentChecksum::NoChecksum)
        .level(LZ4_LEVEL)
        .build(out)?;
    encoder.write_all(plain)?;
    encoder.finish().1
}

// Fast levels: the proxy's CPU time matters more than a few percent of size.
const GZIP_LEVEL: u32 = 1;
const LZ4_LEVEL: u32 = 1;
const ZSTD_LEVEL: i32 = 1;
/// Block size of Java's library.
const XERIAL_BLOCK_BYTES: usize = 32 << 10;
/// Memory retained between batches.
const KEEP_BYTES: usize = 256 << 10;
