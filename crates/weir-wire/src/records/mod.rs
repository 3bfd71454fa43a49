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
mod position;
mod record;

use thiserror::Error;

use crate::WireError;

pub use batch::{BatchView, Batches};
pub use compress::{BatchCompressor, SnappyFraming};
pub use compression::{Codec, DecompressBuffer};
pub use edit::{BATCH_HEADER_BYTES, FirstBatch, first_batch, set_crc, set_length_and_crc};
pub use layout::{RecordLayout, put_record, put_varint, put_varint_bytes};
pub use position::{BatchBase, RecordPosition};
pub use record::{HeaderSlice, Headers, RecordSlice, Records};

/// Record batches that cannot be decoded; the producer or the broker is at fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum RecordsError {
    #[error("record batch: {0}")]
    Wire(#[from] WireError),
    /// An old message format, which brokers do not send to current clients.
    #[error("record batch at offset {base_offset} has format {magic}; only format 2 is supported")]
    Magic { base_offset: i64, magic: i8 },
    #[error("record batch at offset {base_offset}: crc {found:#010x}, expected {expected:#010x}")]
    Checksum {
        base_offset: i64,
        found: u32,
        expected: u32,
    },
    #[error("unknown compression {code}")]
    UnknownCodec { code: i16 },
    #[error("cannot decompress {codec:?}: {reason}")]
    Decompress { codec: Codec, reason: String },
    #[error("cannot compress {codec:?}: {reason}")]
    Compress { codec: Codec, reason: String },
    #[error("{codec:?} batch decompresses to more than {bytes_max} bytes: raise the limit")]
    TooLarge { codec: Codec, bytes_max: usize },
    /// The caller stopped the decompression.
    #[error("decompression took longer than allowed")]
    Stopped,
    #[error("record at offset {offset}: {left} bytes after its last field")]
    RecordLength { offset: i64, left: usize },
    #[error("record batch: {left} bytes after its last record")]
    Trailing { left: usize },
    #[error("record batch: {what} overflows")]
    Overflow { what: &'static str },
}

#[cfg(test)]
mod tests;
