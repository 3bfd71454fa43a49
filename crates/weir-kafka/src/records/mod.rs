//! Record batches (magic 2) read in place: nothing is copied unless the batch is compressed. And what
//! it takes to change them: places of a record's parts, packing, checksums.
//!
//! Pure and suspicious: every length is checked, decompression has a bound, and bytes that are
//! not a batch are an error, never a panic.

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
pub use edit::{BATCH_HEADER_BYTES, FirstBatch, front, seal, set_length_and_crc};
pub use layout::{RecordLayout, put_record, put_varint, put_varint_bytes};
pub use record::{HeaderSlice, Headers, RecordSlice, Records};

/// Record batches that cannot be read. Whoever wrote or stored them is at fault.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum RecordsError {
    /// A field does not fit.
    #[error("record batch: {0}")]
    Wire(#[from] WireError),
    /// An old message format, which brokers no longer send to current clients.
    #[error("record batch at offset {base_offset} has format {magic}, only 2 can be read")]
    Magic {
        /// First offset of the batch.
        base_offset: i64,
        /// Format number found.
        magic: i8,
    },
    /// The checksum differs.
    #[error("record batch at offset {base_offset}: crc {found:#010x}, expected {expected:#010x}")]
    Checksum {
        /// First offset of the batch.
        base_offset: i64,
        /// Checksum computed.
        found: u32,
        /// Checksum in the batch.
        expected: u32,
    },
    /// Compression bits without a meaning.
    #[error("unknown compression {code}")]
    UnknownCodec {
        /// The bits.
        code: i16,
    },
    /// The codec refused.
    #[error("cannot decompress {codec:?}: {reason}")]
    Decompress {
        /// Codec used.
        codec: Codec,
        /// Its text.
        reason: String,
    },
    /// The codec refused to pack.
    #[error("cannot compress {codec:?}: {reason}")]
    Compress {
        /// Codec used.
        codec: Codec,
        /// Its text.
        reason: String,
    },
    /// More data than we are ready to hold.
    #[error("{codec:?} batch unpacks to more than {bytes_max} bytes: raise the limit")]
    TooLarge {
        /// Codec used.
        codec: Codec,
        /// Limit in force.
        bytes_max: usize,
    },
    /// The caller stopped the work.
    #[error("unpacking took longer than allowed")]
    Stopped,
    /// The record's own length and its fields disagree.
    #[error("record at offset {offset}: {left} bytes left over")]
    RecordLength {
        /// Offset of the record.
        offset: i64,
        /// Bytes its fields did not use.
        left: usize,
    },
    /// The batch announces fewer records than it has bytes for.
    #[error("record batch: {left} bytes behind its last record")]
    Trailing {
        /// Bytes left over.
        left: usize,
    },
    /// Offset or timestamp beyond 64 bits.
    #[error("record batch: {what} overflows")]
    Overflow {
        /// Field computed.
        what: &'static str,
    },
}

#[cfg(test)]
mod tests;
