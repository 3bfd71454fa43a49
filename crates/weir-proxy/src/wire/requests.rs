//! From client to broker: forwards requests as they arrive and decodes only their headers.

use weir_wire::cluster::TopicId;
use weir_wire::layout::has_topic_ids;
use weir_wire::{WireError, topic_ids};

use super::filtering::{FrameAction, ProduceHeader};
use super::frame::{PartialFrame, check_size};
use super::headers::{self, HeaderPeek, REQUEST_PEEK_BYTES};
use super::in_flight::{InFlightRequest, ResponseSource};
use super::request_context::{RequestContext, enter};
use super::rights::{self, Decided};
use super::sasl::SaslState;
use super::segments::Segments;
use super::{StreamError, api_versions, frame_total, login};
use crate::versions::{self, API_VERSIONS, FETCH, METADATA, PRODUCE, SASL_HANDSHAKE};
use weir_filters::Direction;
use weir_rules::audit::client_id;
use weir_rules::{Access, ResponseChanges};

#[derive(Debug, Default)]
pub(crate) struct RequestStream {
    head: PartialFrame,
    rest: BodyAction,
    sasl: SaslState,
    /// Input that arrived while no more requests could be processed.
    backlog: Vec<u8>,
    /// The backlog begins with a request whose topics' names have been requested.
    names_requested: bool,
    /// The backlog begins with a request from which access rules removed something.
    checked: Option<Box<ResponseChanges>>,
}

/// The action for the following bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum BodyAction {
    /// The start of a request.
    #[default]
    None,
    Forward(usize),
    /// Number of bytes to drop.
    Skip(usize),
}

impl RequestStream {
    /// Processes input and appends the bytes for the broker to `out`. Stores the rest of the input
    /// in the backlog if too many requests are in flight, the iteration's share of requests is used
    /// up, or a frame is delayed.
    ///
    /// # Errors
    /// An error for which a broker would close the connection.
    pub(crate) fn feed(
        &mut self,
        input: &mut [u8],
        context: &mut RequestContext<'_>,
        out: &mut Segments,
    ) -> Result<(), StreamError> {
        let mut at = 0;
        while at < input.len() {
            let left = input.len() - at;
            match self.rest {
                BodyAction::Forward(rest) => {
                    let count = rest.min(left);
                    out.push_input(at..at + count);
                    at += count;
                    self.rest = BodyAction::of(BodyAction::Forward, rest - count);
                    continue;
                }
                BodyAction::Skip(rest) => {
                    let count = rest.min(left);
                    at += count;
                    self.rest = BodyAction::of(BodyAction::Skip, rest - count);
                    continue;
                }
                BodyAction::None => {}
            }
            let is_full = context.in_flight.is_full(context.limits.in_flight_requests);
            let is_enough = *context.requests >= context.requests_until;
            let is_paused = context.login.as_ref().is_some_and(|gate| gate.pauses());
            if is_full || is_enough || is_paused || context.filtering.delayed.is_some() {
                self.backlog.extend_from_slice(&input[at..]);
                return Ok(());
            }
            let (action, total) = loop {
                let frame = match self.head.is_empty() {
                    true => &mut input[at..],
                    false => self.head.bytes(),
                };
                let state = (self.names_requested, &mut self.checked);
                match classify(frame, &mut self.sasl, state, context)? {
                    HeaderPeek::Complete(known) => break known,
                    HeaderPeek::Incomplete(needed_bytes) => {
                        if !self.head.fill(input, &mut at, needed_bytes) {
                            return Ok(());
                        }
                    }
                }
            };
            // `head` never has more bytes than needed, so it ends within this request.
            let head = self.head.take();
            let here = total.min(input.len() - at);
            let (input_here, arrived) = match head.is_empty() {
                true => (at..at + here, here),
                false => (at..at, head.len()),
            };
            at = input_here.end;
            self.names_requested = false;
            match action {
                FrameAction::InPlace => {
                    out.push_owned(head);
                    out.push_input(input_here);
                    self.rest = BodyAction::of(BodyAction::Forward, total - arrived);
                }
                FrameAction::Rebuilt(made) => out.push_owned(made),
                FrameAction::Nothing => {
                    self.rest = BodyAction::of(BodyAction::Skip, total - arrived)
                }
                FrameAction::Restart(frame, pending) => {
                    self.backlog = frame;
                    self.backlog.extend_from_slice(&input[input_here.end..]);
                    self.checked = Some(pending);
                    return Ok(());
                }
                FrameAction::LookUp(request) => {
                    out.push_owned(request);
                    self.backlog = head;
                    self.backlog.extend_from_slice(&input[input_here.start..]);
                    self.names_requested = true;
                    return Ok(());
                }
                FrameAction::Deferred(work, header) => {
                    let frame = match head.is_empty() {
                        true => input[input_here].to_vec(),
                        false => head,
                    };
                    context.filtering.delay(work, frame, header);
                }
            }
        }
        Ok(())
    }

    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Takes the stored input, which must be processed before new input.
    pub(crate) fn take_backlog(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.backlog)
    }

    pub(crate) fn is_mid_request(&self) -> bool {
        !self.head.is_empty() || self.rest != BodyAction::None
    }

    /// Returns `true` if a request is partly forwarded.
    pub(crate) fn is_mid_body(&self) -> bool {
        matches!(self.rest, BodyAction::Forward(_))
    }

    /// Returns `true` if a request is partly received and its action is not known yet.
    pub(crate) fn is_mid_head(&self) -> bool {
        !self.head.is_empty()
    }

    /// Returns the size to which the start of a request must grow before it can be processed, the
    /// size of what waits for names of topics, or 0.
    pub(crate) fn needed_bytes(&self) -> usize {
        match self.names_requested {
            true => self.backlog.len(),
            false => self.head.needed_bytes(),
        }
    }

    /// Returns `true` once the API key of a partly received request is known.
    pub(crate) fn is_identified(&self) -> bool {
        self.head.len() >= REQUEST_PEEK_BYTES
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.head.capacity() + self.backlog.capacity()
    }

    /// Returns the bytes of the current request that are still missing, as far as that is known.
    pub(crate) fn missing(&self) -> usize {
        match self.rest {
            BodyAction::Forward(rest) | BodyAction::Skip(rest) => rest,
            BodyAction::None if self.head.is_empty() => 0,
            BodyAction::None => self.head.total().unwrap_or(REQUEST_PEEK_BYTES) - self.head.len(),
        }
    }
}

impl BodyAction {
    /// Returns `action` of `bytes` bytes, `None` of 0.
    fn of(action: fn(usize) -> Self, bytes: usize) -> Self {
        match bytes {
            0 => Self::None,
            _ => action(bytes),
        }
    }
}

/// Returns the action for the request at the start of `frame`, and its length. Adds the request to
/// those in flight.
fn classify(
    frame: &mut [u8],
    sasl: &mut SaslState,
    (names_requested, checked): (bool, &mut Option<Box<ResponseChanges>>),
    context: &mut RequestContext<'_>,
) -> Result<HeaderPeek<(FrameAction, usize)>, StreamError> {
    if let Some(found) = login::classify(frame, context)? {
        return Ok(found);
    }
    let limit = context.limits.request_bytes;
    if *sasl != SaslState::None {
        match sasl.next(frame, limit)? {
            HeaderPeek::Incomplete(more) => return Ok(HeaderPeek::Incomplete(more)),
            HeaderPeek::Complete(Some(total)) => {
                context.in_flight.count_request(SASL_HANDSHAKE, total, &[]);
                enter(
                    context,
                    (SASL_HANDSHAKE, 0, 0),
                    Some(ResponseSource::Token),
                    None,
                );
                return Ok(HeaderPeek::Complete((FrameAction::InPlace, total)));
            }
            HeaderPeek::Complete(None) => context.in_flight.drop_sasl_tokens(),
        }
    }
    let total = frame_total(frame, limit).map_err(StreamError::Client)?;
    if total.is_some_and(|total| total < REQUEST_PEEK_BYTES) {
        return Err(StreamError::Client(WireError::Truncated {
            what: "request header",
            needed: REQUEST_PEEK_BYTES,
            left: total.unwrap_or(0),
        }));
    }
    let Some(total) = total.filter(|_| frame.len() >= REQUEST_PEEK_BYTES) else {
        return Ok(HeaderPeek::Incomplete(REQUEST_PEEK_BYTES));
    };
    let peek = headers::request(frame).map_err(StreamError::Client)?;
    let (key, version) = (peek.api_key, peek.api_version);
    if context.in_flight.notes_client_id(key) {
        let needed_bytes = total.min(CLIENT_ID_BYTES_MAX);
        if frame.len() < needed_bytes {
            return Ok(HeaderPeek::Incomplete(needed_bytes));
        }
        let client_id = client_id(&frame[REQUEST_PEEK_BYTES..]);
        context.in_flight.note_client_id(client_id);
    }
    let mut pending = None;
    if context.supported.has(key, version) {
        pending = checked.take();
        if pending.is_none() {
            let (access, limits) = (&mut context.access, context.limits);
            let is_filtered = context.filtering.filters.wants(Direction::Produce);
            let flags = (names_requested, is_filtered);
            let checked = rights::check(frame, total, &peek, flags, access, limits)?;
            if let Some(code) = access.as_mut().and_then(Access::take_error) {
                context.in_flight.count_error(key, code);
            }
            match checked {
                HeaderPeek::Incomplete(more) => return Ok(HeaderPeek::Incomplete(more)),
                HeaderPeek::Complete(Decided::Forward(changes)) => pending = changes,
                HeaderPeek::Complete(other) => {
                    let action = other.action((key, version, peek.correlation_id), total, context);
                    return Ok(HeaderPeek::Complete((action, total)));
                }
            }
        }
    }
    let wants_names = has_topic_ids(version)
        && match key {
            PRODUCE => context.filtering.filters.wants(Direction::Produce),
            FETCH => context.filtering.filters.wants(Direction::Fetch),
            _ => false,
        };
    if wants_names && !names_requested && context.supported.has(key, version) {
        check_size(total, context.limits.buffered_frame_bytes).map_err(StreamError::Client)?;
        if frame.len() < total {
            return Ok(HeaderPeek::Incomplete(total));
        }
        if let Some(request) = look_up(&frame[..total], (key, version), context)? {
            return Ok(HeaderPeek::Complete((FrameAction::LookUp(request), total)));
        }
    }
    let (action, response) = match key {
        _ if !context.supported.has(key, version) => {
            if key != API_VERSIONS || version <= 0 {
                let name = versions::name(key);
                return Err(StreamError::NotSupported { key, name, version });
            }
            context.in_flight.count_error(key, UNSUPPORTED_VERSION);
            let response = api_versions::unsupported(peek.correlation_id, context.supported);
            (
                FrameAction::Nothing,
                Some(ResponseSource::Ready(response.into())),
            )
        }
        PRODUCE => match headers::acks(frame, total, version)? {
            HeaderPeek::Incomplete(more) => return Ok(HeaderPeek::Incomplete(more)),
            HeaderPeek::Complete(acks) if context.filtering.filters.wants(Direction::Produce) => {
                let bytes_max = context.limits.buffered_frame_bytes;
                check_size(total, bytes_max).map_err(StreamError::Client)?;
                if frame.len() < total {
                    return Ok(HeaderPeek::Incomplete(total));
                }
                let header = ProduceHeader {
                    correlation_id: peek.correlation_id,
                    version,
                    acks,
                };
                let filtered = context.filtering.produce(&mut frame[..total], &header);
                let (action, response, errors) = filtered.map_err(StreamError::Client)?;
                for code in errors {
                    context.in_flight.count_error(key, code);
                }
                (action, response)
            }
            HeaderPeek::Complete(0) => (FrameAction::InPlace, None),
            HeaderPeek::Complete(_) => (FrameAction::InPlace, Some(ResponseSource::Broker)),
        },
        API_VERSIONS if total <= SOFTWARE_BYTES_MAX => {
            if frame.len() < total {
                return Ok(HeaderPeek::Incomplete(total));
            }
            if let Some((name, version)) = headers::software(&frame[..total], version) {
                *context.software = Some(format!("{name} {version}").into());
            }
            (FrameAction::InPlace, Some(ResponseSource::Broker))
        }
        SASL_HANDSHAKE if version == 0 => {
            check_size(total, HANDSHAKE_BYTES_MAX).map_err(StreamError::Client)?;
            if frame.len() < total {
                return Ok(HeaderPeek::Incomplete(total));
            }
            *sasl = SaslState::after(&frame[..total]).map_err(StreamError::Client)?;
            (FrameAction::InPlace, Some(ResponseSource::Broker))
        }
        _ => (FrameAction::InPlace, Some(ResponseSource::Broker)),
    };
    context
        .in_flight
        .count_request(key, total, &frame[..total.min(frame.len())]);
    if matches!(action, FrameAction::Deferred(..)) {
        context.in_flight.defer_access(pending.take());
    }
    let request = (key, version, peek.correlation_id);
    enter(context, request, response, pending);
    Ok(HeaderPeek::Complete((action, total)))
}

impl Decided {
    /// Returns the action for a request that is not forwarded as it is.
    fn action(
        self,
        request: (i16, i16, i32),
        total: usize,
        context: &mut RequestContext<'_>,
    ) -> FrameAction {
        match self {
            Self::Forward(_) => FrameAction::InPlace,
            Self::Restart(frame, pending) => FrameAction::Restart(frame, pending),
            Self::LookUp(ids) => FrameAction::LookUp(request_names(&ids, context)),
            Self::Respond(frame) => {
                context.in_flight.count_request(request.0, total, &[]);
                enter(context, request, Some(ResponseSource::Ready(frame)), None);
                FrameAction::Nothing
            }
        }
    }
}

/// Returns a request for the names of the topics in a whole request, unless all are known, and adds
/// it to those in flight.
fn look_up(
    frame: &[u8],
    (key, version): (i16, i16),
    context: &mut RequestContext<'_>,
) -> Result<Option<Vec<u8>>, StreamError> {
    let mut ids = headers::topic_ids(frame, key, version).map_err(StreamError::Client)?;
    context.filtering.filters.names.retain_unknown(&mut ids);
    Ok((!ids.is_empty()).then(|| request_names(&ids, context)))
}

/// Returns a request for the names of topics, and adds it to those in flight.
fn request_names(ids: &[TopicId], context: &mut RequestContext<'_>) -> Vec<u8> {
    context.filtering.filters.names.count_requested(ids.len());
    // Responses come in order, so any correlation id will do.
    let correlation_id = 0;
    let mut request = Vec::new();
    topic_ids::put_metadata_request(&mut request, correlation_id, ids);
    context.in_flight.push(InFlightRequest {
        correlation_id,
        key: METADATA,
        version: topic_ids::METADATA_VERSION,
        response: ResponseSource::TopicNames,
        access: None,
    });
    request
}

/// Bytes of an audited request that are read for its `client.id`.
const CLIENT_ID_BYTES_MAX: usize = 1024;
const UNSUPPORTED_VERSION: i16 = 35;
/// Client id and mechanism are short.
const HANDSHAKE_BYTES_MAX: usize = 1024;

/// Maximum size of ApiVersions requests that are read whole for the name of the client software.
const SOFTWARE_BYTES_MAX: usize = 1024;

#[cfg(test)]
#[path = "../../tests/wire/requests.rs"]
mod tests;
