//! The byte streams of both directions of a connection: decides which frames are forwarded,
//! buffered or rewritten. No I/O.

mod addresses;
mod api_versions;
mod features;
mod filtering;
mod headers;
mod in_flight;
mod requests;
mod responses;
mod rewrite;
mod sasl;
mod segments;

pub use addresses::{AddressMapper, AdvertisedAddress, BrokerNode};
pub use filtering::{DelayedFrame, FilterStage, ProduceHeader, Unfinished};
pub use in_flight::{InFlightRequest, InFlightRequests, ResponseSource};
pub use requests::{RequestContext, RequestStream};
pub use responses::{ResponseContext, ResponseStream};
pub use segments::{Segment, Segments};

use thiserror::Error;
use weir_kafka::wire::WireError;

/// Appends to a frame of `total` bytes that arrives in pieces. The capacity at most doubles each
/// time, whatever size the frame announces.
fn grow(frame: &mut Vec<u8>, bytes: &[u8], total: usize) {
    let length = frame.len() + bytes.len();
    if frame.capacity() < length {
        let grown = length.max(2 * frame.len()).min(total.max(length));
        frame.reserve_exact(grown - frame.len());
    }
    frame.extend_from_slice(bytes);
}

/// Bytes of the size prefix of a frame.
pub(crate) const SIZE_BYTES: usize = 4;

/// The reason why a connection must be closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StreamError {
    /// Invalid bytes from the client.
    #[error("client: {0}")]
    Client(WireError),
    /// The client uses an unsupported API or version. Brokers close the connection, too.
    #[error("client: {name} (API key {key}) version {version} is not supported")]
    NotSupported {
        /// API key.
        key: i16,
        /// API name, if known.
        name: &'static str,
        /// Requested version.
        version: i16,
    },
    /// The request header is longer than any valid header.
    #[error("client: {0} bytes of request header, at most {HEADER_BYTES_MAX} are accepted")]
    HeaderTooLong(usize),
    /// Invalid bytes from the broker.
    #[error("broker: {0}")]
    Broker(WireError),
    /// The correlation id is not that of the next response.
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

/// Limits of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Maximum bytes of a request.
    pub request_bytes: usize,
    /// Maximum bytes of a buffered frame. Frames are buffered if their content may change.
    pub buffered_frame_bytes: usize,
    /// Maximum number of in-flight requests per connection; further ones are not read.
    pub in_flight_requests: usize,
}

/// Registers the brokers in a response to a request of the proxy itself.
pub(crate) fn register_brokers(
    frame: &[u8],
    key: i16,
    version: i16,
    mapper: &mut dyn AddressMapper,
) -> Result<(), WireError> {
    rewrite::addresses(frame, key, version, mapper).map(drop)
}

/// Returns the size that a frame announces, including the prefix, or `None` if the prefix is
/// incomplete.
pub(crate) fn frame_total(bytes: &[u8], limit: usize) -> Result<Option<usize>, WireError> {
    let Some(prefix) = bytes.first_chunk::<SIZE_BYTES>() else {
        return Ok(None);
    };
    let size = i32::from_be_bytes(*prefix);
    let length = usize::try_from(size).map_err(|_| WireError::Length {
        what: "frame size",
        value: i64::from(size),
    })?;
    if length > limit {
        return Err(WireError::FrameTooLarge {
            bytes: length as u64,
            bytes_max: limit,
        });
    }
    Ok(Some(SIZE_BYTES + length))
}
