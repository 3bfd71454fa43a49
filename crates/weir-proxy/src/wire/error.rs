//! Errors that close a connection.

use thiserror::Error;
use weir_kafka::wire::WireError;

/// The reason why a connection must be closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum StreamError {
    /// Invalid bytes from the client.
    #[error("client: {0}")]
    Client(WireError),
    /// An unsupported API or version. Brokers close the connection, too.
    #[error("client: {name} (API key {key}) version {version} is not supported")]
    NotSupported {
        /// API key.
        key: i16,
        /// API name, if known.
        name: &'static str,
        /// Requested version.
        version: i16,
    },
    /// A request header that is longer than any valid header.
    #[error("client: {0} bytes of request header, at most {HEADER_BYTES_MAX} are accepted")]
    HeaderTooLong(usize),
    /// Invalid bytes from the broker.
    #[error("broker: {0}")]
    Broker(WireError),
    /// A response with another correlation id than the next one expected.
    #[error("broker: response has correlation id {got}, expected {expected}; connection closed")]
    Unexpected {
        /// Correlation id of the response.
        got: i32,
        /// Expected correlation id, or "none".
        expected: String,
    },
}

/// Maximum bytes read to find the acknowledgements of a produce request. Client id and
/// transactional id have up to 32 KiB each.
pub(crate) const HEADER_BYTES_MAX: usize = 80 * 1024;
