//! Record batches (magic 2), read without copies unless a batch is compressed, and the functions to
//! change them: positions of a record's parts, compression, checksums.
//!
//! No I/O. Every length is checked, decompression is bounded, and invalid batches are errors, never
//! panics.

mod batch;
mod compress;
mod compression;
mod edit;
mod layout;
mod record;

use thiserror::Error;

use crate::wire::WireError;

pub use batch::{BatchView, Batches};
pub use compress::{BatchCompressor, SnappyFraming};
pub use compression::{Codec, DecompressBuffer};
pub use edit::{BATCH_HEADER_BYTES, FirstBatch, first_batch, set_crc, set_length_and_crc};
pub use layout::{RecordLayout, put_record, put_varint, put_varint_bytes};
pub use record::{HeaderSlice, Headers, RecordSlice, Records};

/// Record batches that cannot be decoded; the producer or the broker is at fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordsError {
    /// An invalid field.
    #[error("record batch: {0}")]
    Wire(#[from] WireError),
    /// An old message format, which brokers do not send to current clients.
    #[error("record batch at offset {base_offset} has format {magic}; only format 2 is supported")]
    Magic {
        /// First offset of the batch.
        base_offset: i64,
        /// Format of the batch.
        magic: i8,
    },
    /// Wrong checksum.
    #[error("record batch at offset {base_offset}: crc {found:#010x}, expected {expected:#010x}")]
    Checksum {
        /// First offset of the batch.
        base_offset: i64,
        /// Checksum computed.
        found: u32,
        /// Checksum in the batch.
        expected: u32,
    },
    /// Unknown codec.
    #[error("unknown compression {code}")]
    UnknownCodec {
        /// Codec bits of the attributes.
        code: i16,
    },
    /// The codec could not decompress the records.
    #[error("cannot decompress {codec:?}: {reason}")]
    Decompress {
        /// Codec used.
        codec: Codec,
        /// Message of the codec.
        reason: String,
    },
    /// The codec could not compress the records.
    #[error("cannot compress {codec:?}: {reason}")]
    Compress {
        /// Codec used.
        codec: Codec,
        /// Message of the codec.
        reason: String,
    },
    /// The decompressed records exceed the limit.
    #[error("{codec:?} batch decompresses to more than {bytes_max} bytes: raise the limit")]
    TooLarge {
        /// Codec used.
        codec: Codec,
        /// Limit in bytes.
        bytes_max: usize,
    },
    /// The caller stopped the decompression.
    #[error("decompression took longer than allowed")]
    Stopped,
    /// The record's length does not match its fields.
    #[error("record at offset {offset}: {left} bytes after its last field")]
    RecordLength {
        /// Offset of the record.
        offset: i64,
        /// Bytes after the last field.
        left: usize,
    },
    /// The batch has bytes after its last record.
    #[error("record batch: {left} bytes after its last record")]
    Trailing {
        /// Bytes after the last record.
        left: usize,
    },
    /// An offset or timestamp exceeds 64 bits.
    #[error("record batch: {what} overflows")]
    Overflow {
        /// Computed field.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests;
