//! The two directions of a connection as bytes: what passes, what is held, what is replaced. No I/O.

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
pub use filtering::{Asked, DelayedFrame, FilterStage, Unfinished};
pub use in_flight::{InFlightRequest, InFlightRequests, ResponseSource};
pub use requests::{RequestContext, RequestStream};
pub use responses::{ResponseContext, ResponseStream};
pub use segments::{Segment, Segments};

use thiserror::Error;
use weir_kafka::wire::WireError;

/// Appends to a frame of `total` bytes that comes piece by piece. Its memory at most doubles each
/// time, whatever size the frame announces.
fn grow(frame: &mut Vec<u8>, bytes: &[u8], total: usize) {
    let length = frame.len() + bytes.len();
    if frame.capacity() < length {
        let grown = length.max(2 * frame.len()).min(total.max(length));
        frame.reserve_exact(grown - frame.len());
    }
    frame.extend_from_slice(bytes);
}

/// Bytes of a frame's size prefix.
pub(crate) const SIZE_BYTES: usize = 4;

/// Why a connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum StreamError {
    /// The client sent what a broker would not take either.
    #[error("client: {0}")]
    Client(WireError),
    /// The client asks for what is not on offer; a broker closes the connection, too.
    #[error("client: {name} (api key {key}) version {version} is not on offer")]
    NotOffered {
        /// Number of the API.
        key: i16,
        /// Its name, if known.
        name: &'static str,
        /// Version asked for.
        version: i16,
    },
    /// What a request says before it says whether it wants an answer is longer than anybody needs.
    #[error("client: {0} bytes of request header, at most {HEAD_BYTES_MAX} are accepted")]
    Head(usize),
    /// The broker sent what it should not.
    #[error("broker: {0}")]
    Broker(WireError),
    /// An answer that nobody asked for.
    #[error("broker: answer {got} where {expected} was to come")]
    Unasked {
        /// Correlation id of the answer.
        got: i32,
        /// What is next in the order of requests, if anything.
        expected: String,
    },
}

/// The most that is looked at to find out whether a request wants an answer: client id and
/// transactional id have up to 32 KiB each.
pub(crate) const HEAD_BYTES_MAX: usize = 80 * 1024;

/// Limits of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameLimits {
    /// Bytes of a request.
    pub request_bytes: usize,
    /// Bytes of a frame that must be held whole because something in it may change.
    pub held_bytes: usize,
    /// Requests without an answer, per connection; further ones are not read.
    pub in_flight: usize,
}

/// Reads an answer of the proxy's own request for the brokers in it.
pub(crate) fn learn(
    frame: &[u8],
    key: i16,
    version: i16,
    places: &mut dyn AddressMapper,
) -> Result<(), WireError> {
    rewrite::addresses(frame, key, version, places).map(drop)
}

/// The size a frame announces, prefix included.
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
