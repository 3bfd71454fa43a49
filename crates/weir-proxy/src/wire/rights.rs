//! Applies access rules to frames.

use weir_wire::WireError;
use weir_wire::header::RequestPeek;

use super::error::HEADER_BYTES_MAX;
use super::frame::check_size;
use super::headers::{HeaderPeek, REQUEST_PEEK_BYTES, request_body_at, response_body_at};
use super::{SIZE_BYTES, StreamError};
use crate::config::ProxyLimits;
use crate::versions::{self, PRODUCE, flexible};
use weir_rules::{Access, RequestDecision, ResponseChanges};

/// The decision about a request.
#[derive(Debug)]
pub(super) enum Decided {
    /// Forward it, and change its response if this is set.
    Forward(Option<Box<ResponseChanges>>),
    /// Process this request instead, with changes of its response.
    Restart(Vec<u8>, Box<ResponseChanges>),
    /// Respond with this frame.
    Respond(Box<[u8]>),
    /// Request the names of these topics first.
    LookUp(Vec<u128>),
}

/// Decides about the request at the start of `frame` with `total` bytes. `names_requested`: the
/// names of its topics have been requested; `is_filtered`: filters process Produce requests.
pub(super) fn check(
    frame: &[u8],
    total: usize,
    peek: &RequestPeek,
    (names_requested, is_filtered): (bool, bool),
    access: &mut Option<Access<'_>>,
    limits: &ProxyLimits,
) -> Result<HeaderPeek<Decided>, StreamError> {
    let (key, version) = (peek.api_key, peek.api_version);
    let Some(access) = access
        .as_mut()
        .filter(|access| access.needs_whole_request(key))
    else {
        return Ok(HeaderPeek::Complete(Decided::Forward(None)));
    };
    // Filters need the whole request anyway, and one decision counts once.
    if key == PRODUCE && !is_filtered {
        match allows_start(frame, total, (key, version), access)? {
            HeaderPeek::Incomplete(more) => return Ok(HeaderPeek::Incomplete(more)),
            HeaderPeek::Complete(true) => return Ok(HeaderPeek::Complete(Decided::Forward(None))),
            HeaderPeek::Complete(false) => {}
        }
    }
    check_size(total, limits.buffered_frame_bytes).map_err(StreamError::Client)?;
    let Some(frame) = frame.get(..total) else {
        return Ok(HeaderPeek::Incomplete(total));
    };
    let body_at = request_body_at(frame, key, version).map_err(StreamError::Client)?;
    let header = &frame[REQUEST_PEEK_BYTES..body_at];
    let verdict = access.check((key, version), header, &frame[body_at..], names_requested);
    let verdict = verdict.map_err(StreamError::Client)?;
    Ok(HeaderPeek::Complete(match verdict {
        None => {
            let name = versions::name(key);
            return Err(StreamError::NotSupported { key, name, version });
        }
        Some(RequestDecision::Close) => return Err(StreamError::Denied(versions::name(key))),
        Some(RequestDecision::Forward(pending)) => Decided::Forward(pending),
        Some(RequestDecision::LookUp(ids)) => Decided::LookUp(ids),
        Some(RequestDecision::Respond(body)) => {
            let mut header = peek.correlation_id.to_be_bytes().to_vec();
            if flexible(key, version) {
                // No tagged fields.
                header.push(0);
            }
            Decided::Respond(framed(&header, &body).into())
        }
        Some(RequestDecision::Edited(body, pending)) => {
            let frame = framed(&frame[SIZE_BYTES..body_at], &body);
            Decided::Restart(frame, pending)
        }
    }))
}

/// Returns `true` if the start of a Produce request is enough to allow it.
fn allows_start(
    frame: &[u8],
    total: usize,
    (key, version): (i16, i16),
    access: &mut Access<'_>,
) -> Result<HeaderPeek<bool>, StreamError> {
    let start = &frame[..frame.len().min(total)];
    let is_allowed = request_body_at(start, key, version)
        .and_then(|at| access.allows_start((key, version), &start[at..]));
    match is_allowed {
        Ok(is_allowed) => Ok(HeaderPeek::Complete(is_allowed)),
        Err(WireError::Truncated { .. }) if start.len() < total.min(HEADER_BYTES_MAX) => {
            let more = (start.len() * 2).clamp(START_BYTES, HEADER_BYTES_MAX);
            Ok(HeaderPeek::Incomplete(more.min(total)))
        }
        // The whole request has the same error, or a longer header than usual.
        Err(_) => Ok(HeaderPeek::Complete(false)),
    }
}

/// Returns a whole response with its changes.
pub(super) fn apply(
    frame: &[u8],
    (key, version): (i16, i16),
    pending: ResponseChanges,
    access: &mut Access<'_>,
) -> Result<Vec<u8>, WireError> {
    let body_at = response_body_at(frame, key, version)?;
    let body = access.apply(pending, key, version, &frame[body_at..])?;
    Ok(framed(&frame[SIZE_BYTES..body_at], &body))
}

/// Records the fetch session in the start of a response. Returns the size that is needed if that
/// is more.
pub(super) fn note_fetch_session(
    frame: &[u8],
    (key, version): (i16, i16),
    total: usize,
    access: &mut Access<'_>,
) -> Option<usize> {
    let more = (frame.len() < total).then(|| total.min(frame.len().max(SESSION_BYTES / 2) * 2));
    let body_at = response_body_at(frame, key, version).ok();
    let noted = body_at.and_then(|at| access.note_fetch_session(&frame[at..]));
    match noted {
        Some(()) => None,
        None => more,
    }
}

/// Bytes of a request that usually contain the name of the first topic.
const START_BYTES: usize = 128;

/// Bytes of a response that usually contain the fetch session.
const SESSION_BYTES: usize = 32;

pub(super) fn framed(header: &[u8], body: &[u8]) -> Vec<u8> {
    // Both parts come from frames within limits far below 31 bits.
    let size = (header.len() + body.len()) as i32;
    [&size.to_be_bytes()[..], header, body].concat()
}
