//! Encoding and decoding of Kafka frames, headers, selected messages and record batches. No I/O.
//!
//! `kafka-protocol` encodes the requests. Responses on hot paths, or from untrusted peers, are
//! decoded here, because its decoder trusts array lengths and allocates the claimed sizes.

pub mod api_versions;
pub mod byte_edits;
pub mod cluster;
pub mod delegation_token;
pub mod fetch;
pub mod fetch_request;
pub mod frame;
#[doc(hidden)]
#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod group;
pub mod header;
pub mod io_reason;
pub mod layout;
pub mod leader_epoch;
pub mod lean_fetch;
pub mod list_offsets;
pub mod login;
pub mod message;
pub mod metadata;
pub mod reader;
pub mod records;
pub mod topic_ids;

use thiserror::Error;

/// Bytes that violate the protocol; always an error of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum WireError {
    #[error("{what}: needs {needed} bytes, only {left} left")]
    Truncated {
        what: &'static str,
        needed: usize,
        left: usize,
    },
    #[error("{what}: impossible length {value}")]
    Length { what: &'static str, value: i64 },
    #[error("{what}: not UTF-8")]
    Utf8 { what: &'static str },
    #[error("{what}: variable-length number too long")]
    Varint { what: &'static str },
    #[error("frame of {bytes} bytes exceeds the limit of {bytes_max} bytes: raise the limit")]
    FrameTooLarge { bytes: u64, bytes_max: usize },
    #[error("response has correlation id {found}, expected {expected}")]
    CorrelationId { found: i32, expected: i32 },
    #[error("unknown API key {key}")]
    ApiKey { key: i16 },
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
