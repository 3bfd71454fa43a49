//! Encoding and decoding of Kafka frames, headers and selected messages. No I/O.
//!
//! `kafka-protocol` encodes the requests. Responses on hot paths, or from untrusted peers, are
//! decoded here, because its decoder trusts array lengths and allocates the claimed sizes.

pub mod byte_edits;
pub mod fetch;
pub mod frame;
pub mod group;
pub mod header;
pub mod layout;
pub mod list_offsets;
pub mod metadata;
pub mod reader;

use thiserror::Error;

/// Bytes that violate the protocol; always an error of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end inside a field.
    #[error("{what}: needs {needed} bytes, only {left} left")]
    Truncated {
        /// Field that was read.
        what: &'static str,
        /// Size of the field in bytes.
        needed: usize,
        /// Remaining bytes.
        left: usize,
    },
    /// An impossible length or count.
    #[error("{what}: impossible length {value}")]
    Length {
        /// Field that was read.
        what: &'static str,
        /// Claimed length.
        value: i64,
    },
    /// A string that is not UTF-8.
    #[error("{what}: not UTF-8")]
    Utf8 {
        /// Field that was read.
        what: &'static str,
    },
    /// A variable-length number with too many bytes.
    #[error("{what}: variable-length number too long")]
    Varint {
        /// Field that was read.
        what: &'static str,
    },
    /// A frame above the size limit.
    #[error("frame of {bytes} bytes exceeds the limit of {bytes_max} bytes: raise the limit")]
    FrameTooLarge {
        /// Announced size in bytes.
        bytes: u64,
        /// Limit in bytes.
        bytes_max: usize,
    },
    /// An unknown API key.
    #[error("unknown API key {key}")]
    ApiKey {
        /// Received API key.
        key: i16,
    },
}

/// A request that could not be encoded, because of a bug or an invalid configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot encode {api} request: {reason}")]
pub struct EncodeError {
    /// Name of the API.
    pub api: String,
    /// Message of the codec.
    pub reason: String,
}
