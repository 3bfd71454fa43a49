//! The byte streams of both directions of a connection: decides which frames are forwarded,
//! buffered or rewritten. No I/O.

mod addresses;
mod api_versions;
mod error;
mod features;
mod fetch_walk;
mod filtering;
mod frame;
#[cfg(any(test, fuzzing))]
#[cfg_attr(
    not(fuzzing),
    expect(unreachable_pub, reason = "reachable for fuzz targets only")
)]
pub mod fuzz;
mod headers;
mod in_flight;
mod leader_hints;
mod login;
mod request_context;
mod requests;
mod responses;
mod rewrite;
mod rights;
mod sasl;
mod segments;

pub(crate) use addresses::{AddressMapper, BrokerNode};
pub(crate) use error::StreamError;
pub(crate) use filtering::{DelayedFrame, FilterStage, ProduceHeader, UnfinishedFrame, errors};
pub(crate) use frame::{SIZE_BYTES, frame_total};
pub(crate) use in_flight::{InFlightRequest, InFlightRequests, ResponseSource};
pub(crate) use request_context::RequestContext;
pub(crate) use requests::RequestStream;
pub(crate) use responses::{ResponseContext, ResponseStream};
pub(crate) use rewrite::replace_addresses;
pub(crate) use segments::Segments;
