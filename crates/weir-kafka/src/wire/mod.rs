//! Kafka's bytes on a connection: frames, headers and the few messages read by hand. No I/O.
//!
//! Requests are built by `kafka-protocol`. Answers on hot or exposed paths are read here instead,
//! because its decoder trusts array lengths and allocates what a peer claims.

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

/// Bytes that are not what the protocol says. The peer's fault, always.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WireError {
    /// The bytes end inside a field.
    #[error("{what}: needs {needed} bytes, only {left} left")]
    Truncated {
        /// Field being read.
        what: &'static str,
        /// Bytes the field takes.
        needed: usize,
        /// Bytes there are.
        left: usize,
    },
    /// A length or count that cannot be.
    #[error("{what}: impossible length {value}")]
    Length {
        /// Field being read.
        what: &'static str,
        /// The length claimed.
        value: i64,
    },
    /// A string that is not UTF-8.
    #[error("{what}: not UTF-8")]
    Utf8 {
        /// Field being read.
        what: &'static str,
    },
    /// A variable-length number that goes on for too long.
    #[error("{what}: variable-length number too long")]
    Varint {
        /// Field being read.
        what: &'static str,
    },
    /// A frame above the limit.
    #[error("frame of {bytes} bytes, at most {bytes_max} are accepted: raise the limit")]
    FrameTooLarge {
        /// Size the peer announced.
        bytes: u64,
        /// Limit in force.
        bytes_max: usize,
    },
    /// An API key this crate does not know.
    #[error("unknown api key {key}")]
    ApiKey {
        /// The number sent.
        key: i16,
    },
}

/// A message that could not be built, which is our own fault or that of a setting.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot encode {api} request: {reason}")]
pub struct EncodeError {
    /// Name of the API.
    pub api: String,
    /// The codec's text.
    pub reason: String,
}
