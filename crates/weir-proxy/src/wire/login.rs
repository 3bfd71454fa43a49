//! Requests before and during a login at the proxy.

use weir_wire::WireError;

use super::filtering::FrameAction;
use super::frame::check_size;
use super::headers::{self, HeaderPeek, REQUEST_PEEK_BYTES};
use super::in_flight::ResponseSource;
use super::request_context::{RequestContext, enter};
use super::{SIZE_BYTES, StreamError, frame_total};
use crate::login::GateAction;
use crate::versions::SASL_HANDSHAKE;

/// Longest request of a client that is not logged in, as in brokers.
const LOGIN_BYTES_MAX: usize = 524_288;

/// Processes the request at the start of `frame` if it is part of a login, and rejects it if it is
/// not allowed now. Returns `None` for other requests.
pub(super) fn classify(
    frame: &[u8],
    context: &mut RequestContext<'_>,
) -> Result<Option<HeaderPeek<(FrameAction, usize)>>, StreamError> {
    let Some(gate) = context.login.as_deref_mut() else {
        return Ok(None);
    };
    let incomplete = |bytes| Ok(Some(HeaderPeek::Incomplete(bytes)));
    let limit = match gate.is_logged_in() {
        true => context.limits.request_bytes,
        false => LOGIN_BYTES_MAX,
    };
    let Some(total) = frame_total(frame, limit).map_err(StreamError::Client)? else {
        return incomplete(SIZE_BYTES);
    };
    let is_raw = gate.expects_raw_token();
    let mut header = (SASL_HANDSHAKE, 0, 0);
    if !is_raw {
        if total < REQUEST_PEEK_BYTES {
            return Err(StreamError::Client(WireError::Truncated {
                what: "request header",
                needed: REQUEST_PEEK_BYTES,
                left: total,
            }));
        }
        // The whole request of a client that is not logged in, so that each is decided about once.
        let wanted = match gate.is_logged_in() {
            true => REQUEST_PEEK_BYTES,
            false => total,
        };
        if frame.len() < wanted {
            return incomplete(wanted);
        }
        let peek = headers::request(frame).map_err(StreamError::Client)?;
        header = (peek.api_key, peek.api_version, peek.correlation_id);
        let is_supported = context.supported.has(header.0, header.1);
        match gate.admit(header.0, is_supported) {
            GateAction::Forward => return Ok(None),
            GateAction::Close => return Err(StreamError::NotLoggedIn { key: header.0 }),
            GateAction::Respond => {}
        }
    }
    check_size(total, LOGIN_BYTES_MAX).map_err(StreamError::Client)?;
    if frame.len() < total {
        return incomplete(total);
    }
    let request = match is_raw {
        true => &frame[SIZE_BYTES..total],
        false => &frame[..total],
    };
    let response = gate.respond(request).map_err(StreamError::Client)?;
    let response = response.map(|frame| ResponseSource::Ready(frame.into()));
    enter(context, header, response, None);
    Ok(Some(HeaderPeek::Complete((FrameAction::Nothing, total))))
}
