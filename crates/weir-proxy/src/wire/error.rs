//! Errors that close a connection.

use thiserror::Error;
use weir_wire::WireError;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(crate) enum StreamError {
    #[error("client: {0}")]
    Client(WireError),
    /// An unsupported API or version. Brokers close the connection, too.
    #[error("client: {name} (API key {key}) version {version} is not supported")]
    NotSupported {
        key: i16,
        name: &'static str,
        version: i16,
    },
    /// A request that is not allowed before a login, or after it has expired.
    #[error("client: API key {key} without a valid login")]
    NotLoggedIn { key: i16 },
    /// A certificate without the name that principals need, or that no rule matches.
    #[error("client: its certificate has no name for a principal")]
    NoPrincipal,
    /// A denied request that has no response.
    #[error("client: {0} is denied by access rules")]
    Denied(&'static str),
    /// A request header that is longer than any valid header.
    #[error("client: {0} bytes of request header, at most {HEADER_BYTES_MAX} are accepted")]
    HeaderTooLong(usize),
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
