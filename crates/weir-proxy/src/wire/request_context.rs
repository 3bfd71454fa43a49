//! Context in which requests are processed.

use super::filtering::FilterStage;
use super::in_flight::{InFlightRequest, InFlightRequests, ResponseSource};
use crate::config::ProxyLimits;
use crate::login::LoginGate;
use crate::versions::SupportedVersions;
use weir_rules::{Access, ResponseChanges};

/// State of a connection and of its event loop that requests need.
pub(crate) struct RequestContext<'a> {
    pub(crate) supported: &'a SupportedVersions,
    pub(crate) limits: &'a ProxyLimits,
    pub(crate) in_flight: &'a mut InFlightRequests,
    /// Name and version of the client software, once known.
    pub(crate) software: &'a mut Option<Box<str>>,
    pub(crate) requests: &'a mut u64,
    /// Number of requests at which the rest of the input is stored for the next iteration.
    pub(crate) requests_until: u64,
    pub(crate) filtering: FilterStage<'a>,
    /// Login at the proxy; `None` if clients log in at the broker or not at all.
    pub(crate) login: Option<&'a mut LoginGate>,
    /// Rights of the client; `None` if all is allowed.
    pub(crate) access: Option<Access<'a>>,
}

/// Counts a request, and adds it to those in flight if a response will come.
pub(super) fn enter(
    context: &mut RequestContext<'_>,
    (key, version, correlation_id): (i16, i16, i32),
    response: Option<ResponseSource>,
    access: Option<Box<ResponseChanges>>,
) {
    *context.requests += 1;
    if let Some(response) = response {
        context.in_flight.push(InFlightRequest {
            correlation_id,
            key,
            version,
            response,
            access,
        });
    }
}
