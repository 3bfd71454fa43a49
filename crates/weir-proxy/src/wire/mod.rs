//! The byte streams of both directions of a connection: decides which frames are forwarded,
//! buffered or rewritten. No I/O.

mod addresses;
mod api_versions;
mod error;
mod features;
mod filtering;
mod frame;
mod headers;
mod in_flight;
mod requests;
mod responses;
mod rewrite;
mod sasl;
mod segments;

pub use addresses::{AddressMapper, AdvertisedAddress, BrokerNode};
pub use error::StreamError;
pub use filtering::{DelayedFrame, FilterStage, ProduceHeader, Unfinished};
pub use frame::FrameLimits;
pub(crate) use frame::{SIZE_BYTES, frame_total};
pub use in_flight::{InFlightRequest, InFlightRequests, ResponseSource};
pub use requests::{RequestContext, RequestStream};
pub use responses::{ResponseContext, ResponseStream};
pub(crate) use rewrite::register_brokers;
pub use segments::{Segment, Segments};
