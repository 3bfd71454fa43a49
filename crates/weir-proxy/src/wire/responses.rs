//! From broker to client: forwards responses as they arrive, except those that may contain
//! addresses or filtered records.

use weir_wire::WireError;
use weir_wire::topic_ids::METADATA_VERSION_MIN;

use super::addresses::AddressMapper;
use super::fetch_walk::{self, FetchWalk, WalkStep};
use super::filtering::{self, FilterStage, FrameAction};
use super::frame::{PartialFrame, check_size};
use super::headers::{RESPONSE_PEEK_BYTES, response_body_at};
use super::in_flight::{InFlightRequest, InFlightRequests, ResponseSource};
use super::leader_hints::{self, Resize};
use super::rights;
use super::segments::Segments;
use super::{SIZE_BYTES, StreamError, api_versions, frame_total, rewrite};
use crate::config::ProxyLimits;
use crate::versions::{API_VERSIONS, FETCH, METADATA, SupportedVersions};
use weir_filters::Direction;
use weir_rules::Access;

pub(crate) struct ResponseContext<'a> {
    pub(crate) supported: &'a SupportedVersions,
    pub(crate) limits: &'a ProxyLimits,
    pub(crate) in_flight: &'a mut InFlightRequests,
    /// Addresses that clients see for brokers.
    pub(crate) mapper: &'a mut dyn AddressMapper,
    pub(crate) responses: &'a mut u64,
    /// Number of responses whose addresses were replaced.
    pub(crate) rewritten: &'a mut u64,
    pub(crate) filtering: FilterStage<'a>,
    /// Rights of the client; `None` if all is allowed.
    pub(crate) access: Option<Access<'a>>,
}

#[derive(Debug, Default)]
pub(crate) struct ResponseStream {
    head: PartialFrame,
    /// Bytes to forward before the next response begins.
    pass_through: usize,
    /// Position in a response that is forwarded as it arrives, but read between its records.
    walk: Option<FetchWalk>,
    /// Set if the last response forwarded without decoding was large; the next may be, too.
    is_large: bool,
    /// Input after a delayed frame.
    backlog: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseAction {
    /// Total bytes of a response to forward.
    Forward(usize),
    /// Total bytes of a response to forward up to its addresses.
    Walk(usize),
    /// Number of bytes needed first.
    Incomplete(usize),
    /// Total bytes of a complete response to process.
    Process(usize),
}

impl ResponseStream {
    /// Processes input and appends the bytes for the client to `out`.
    ///
    /// # Errors
    /// A response that was not requested, or that does not match its version.
    pub(crate) fn feed(
        &mut self,
        input: &mut [u8],
        context: &mut ResponseContext<'_>,
        out: &mut Segments,
    ) -> Result<(), StreamError> {
        let mut at = 0;
        // Position of the size prefix of the response that is walked through.
        let mut size_at = None;
        while at < input.len() {
            if context.filtering.delayed.is_some() {
                self.backlog.extend_from_slice(&input[at..]);
                return Ok(());
            }
            let left = input.len() - at;
            if self.pass_through > 0 {
                let count = self.pass_through.min(left);
                out.push_input(at..at + count);
                at += count;
                self.pass_through -= count;
                self.push_ready(context.in_flight, out);
                continue;
            }
            if self.walk.is_some() {
                self.walk_on(input, &mut at, size_at, context, out)?;
                continue;
            }
            let action = loop {
                let frame = match self.head.is_empty() {
                    true => &input[at..],
                    false => self.head.bytes(),
                };
                match classify(frame, context)? {
                    ResponseAction::Incomplete(needed_bytes) => {
                        if !self.head.fill(input, &mut at, needed_bytes) {
                            return Ok(());
                        }
                    }
                    action => break action,
                }
            };
            if let ResponseAction::Walk(total) = action {
                context.in_flight.pop_response(total);
                *context.responses += 1;
                self.walk = Some(FetchWalk::new(total));
                size_at = self.head.is_empty().then_some(at);
                self.walk_on(input, &mut at, size_at, context, out)?;
                continue;
            }
            let mut head = self.head.take();
            match action {
                ResponseAction::Incomplete(_) | ResponseAction::Walk(_) => {}
                ResponseAction::Forward(total) => {
                    context.in_flight.pop_response(total);
                    *context.responses += 1;
                    self.pass_through = total - head.len();
                    self.is_large = total >= LARGE_BYTES;
                    out.push_owned(head);
                    self.push_ready(context.in_flight, out);
                }
                ResponseAction::Process(total) => {
                    let here = match head.is_empty() {
                        true => at..at + total,
                        false => at..at,
                    };
                    at = here.end;
                    let frame = match head.is_empty() {
                        true => &mut input[here.clone()],
                        false => &mut head,
                    };
                    match process(frame, context)? {
                        FrameAction::InPlace => {
                            out.push_owned(head);
                            out.push_input(here);
                        }
                        FrameAction::Rebuilt(frame) => out.push_owned(frame),
                        FrameAction::Nothing
                        | FrameAction::LookUp(_)
                        | FrameAction::Restart(..) => {}
                        FrameAction::Deferred(work, _) => {
                            let frame = match head.is_empty() {
                                true => input[here].to_vec(),
                                false => head,
                            };
                            context.filtering.delay(work, frame, None);
                        }
                    }
                    if context.filtering.delayed.is_none() {
                        self.push_ready(context.in_flight, out);
                    }
                }
            }
        }
        Ok(())
    }

    /// Forwards the response that is walked through as far as it has arrived. Its size prefix is at
    /// `size_at` of the input, unless it has been forwarded.
    fn walk_on(
        &mut self,
        input: &mut [u8],
        at: &mut usize,
        size_at: Option<usize>,
        context: &mut ResponseContext<'_>,
        out: &mut Segments,
    ) -> Result<(), StreamError> {
        let Some(mut walk) = self.walk.take() else {
            return Ok(());
        };
        while self.pass_through == 0 && !walk.is_done() {
            let frame = match self.head.is_empty() {
                true => &input[*at..],
                false => self.head.bytes(),
            };
            let count = match walk.advance(frame).map_err(StreamError::Broker)? {
                WalkStep::Forward(count) => count,
                WalkStep::Incomplete(needed_bytes) => {
                    let bytes_max = context.limits.buffered_frame_bytes;
                    check_size(needed_bytes, bytes_max).map_err(StreamError::Broker)?;
                    if self.head.fill(input, at, needed_bytes) {
                        continue;
                    }
                    break;
                }
                WalkStep::Tags(count) => {
                    let resize = size_at.map_or(Resize::Never, |_| Resize::Allowed);
                    let made = leader_hints::replace(&frame[..count], context.mapper, resize);
                    match made.map_err(StreamError::Broker)? {
                        None => count,
                        Some(tags) => {
                            *context.rewritten += 1;
                            if let Some(size_at) = size_at {
                                grow(&mut input[size_at..], tags.len(), count);
                            }
                            *at += count - self.head.take_front(count).len();
                            out.push_owned(tags);
                            0
                        }
                    }
                }
            };
            let head = self.head.take_front(count);
            let here = (count - head.len()).min(input.len() - *at);
            self.pass_through = count - head.len() - here;
            out.push_owned(head);
            out.push_input(*at..*at + here);
            *at += here;
        }
        self.is_large = walk.records() >= LARGE_RECORDS_BYTES;
        if !walk.is_done() {
            self.walk = Some(walk);
        }
        self.push_ready(context.in_flight, out);
        Ok(())
    }

    pub(crate) fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Takes the stored input, which must be processed before new input.
    pub(crate) fn take_backlog(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.backlog)
    }

    /// Appends the proxy's own responses that come next.
    pub(crate) fn push_ready(&mut self, in_flight: &mut InFlightRequests, out: &mut Segments) {
        if self.pass_through > 0 || !self.head.is_empty() || self.walk.is_some() {
            return;
        }
        while let Some(frame) = in_flight.pop_ready() {
            out.push_owned(frame);
        }
    }

    /// Returns the bytes that are forwarded without decoding before the next response.
    pub(crate) fn pass_through_bytes(&self) -> usize {
        self.pass_through
    }

    /// Records that `bytes` of these were spliced.
    pub(crate) fn note_spliced(&mut self, bytes: usize) {
        self.pass_through = self.pass_through.saturating_sub(bytes);
    }

    /// Returns `true` if the next bytes are probably few fields before many that are forwarded
    /// without decoding. Then only these fields should be read.
    pub(crate) fn expects_large(&self) -> bool {
        self.is_large && self.is_empty()
    }

    /// Returns `true` if no response is partly received.
    pub(crate) fn is_between(&self) -> bool {
        self.is_empty() && self.walk.is_none()
    }

    fn is_empty(&self) -> bool {
        self.pass_through == 0 && self.head.is_empty() && self.backlog.is_empty()
    }

    /// Returns the size to which the start of a response must grow before it can be processed, or 0
    /// if there is none.
    pub(crate) fn needed_bytes(&self) -> usize {
        self.head.needed_bytes()
    }

    pub(crate) fn buffered_bytes(&self) -> usize {
        self.head.capacity() + self.backlog.capacity()
    }
}

/// Minimum size of a large response.
const LARGE_BYTES: usize = 256 * 1024;
/// Minimum size of large records of a partition, which are worth splicing.
const LARGE_RECORDS_BYTES: usize = 128 * 1024;

/// Adds the difference between the new and the old size of a part to the size of a frame.
fn grow(frame: &mut [u8], new: usize, old: usize) {
    if let Some(prefix) = frame.first_chunk_mut::<SIZE_BYTES>() {
        // Tagged fields of frames, and so their difference, are below 2^31 bytes.
        let size = i32::from_be_bytes(*prefix) + (new as i32 - old as i32);
        *prefix = size.to_be_bytes();
    }
}

fn classify(
    frame: &[u8],
    context: &mut ResponseContext<'_>,
) -> Result<ResponseAction, StreamError> {
    let limit = i32::MAX as usize;
    let total = frame_total(frame, limit).map_err(StreamError::Broker)?;
    if let Some(ResponseSource::Token) = context.in_flight.front().map(|entry| &entry.response) {
        let incomplete = ResponseAction::Incomplete(SIZE_BYTES);
        return Ok(total.map_or(incomplete, ResponseAction::Forward));
    }
    let Some(total) = total else {
        return Ok(ResponseAction::Incomplete(RESPONSE_PEEK_BYTES));
    };
    if total < RESPONSE_PEEK_BYTES {
        return Err(StreamError::Broker(WireError::Truncated {
            what: "response header",
            needed: RESPONSE_PEEK_BYTES,
            left: total,
        }));
    }
    let Some(head) = frame.first_chunk::<RESPONSE_PEEK_BYTES>() else {
        return Ok(ResponseAction::Incomplete(RESPONSE_PEEK_BYTES));
    };
    let [_, _, _, _, id @ ..] = *head;
    let id = i32::from_be_bytes(id);
    let first = context.in_flight.front();
    let of_broker = |entry: &&InFlightRequest| {
        let source = &entry.response;
        entry.correlation_id == id
            && matches!(
                source,
                ResponseSource::Broker | ResponseSource::Merged(_) | ResponseSource::TopicNames
            )
    };
    let Some(entry) = first.filter(of_broker) else {
        let expected =
            first.map_or_else(|| "none".to_owned(), |one| one.correlation_id.to_string());
        return Err(StreamError::Unexpected { got: id, expected });
    };
    let opens_session = entry
        .access
        .as_ref()
        .is_some_and(|one| one.only_opens_session());
    let (request, has_changes) = ((entry.key, entry.version), entry.access.is_some());
    if opens_session {
        if let Some(access) = &mut context.access {
            if let Some(more) = rights::note_fetch_session(frame, request, total, access) {
                return Ok(ResponseAction::Incomplete(more));
            }
        }
    }
    let Some(entry) = context.in_flight.front() else {
        return Ok(ResponseAction::Forward(total));
    };
    let is_changed = has_changes && !opens_session;
    if !is_changed && !needs_processing(entry, context) {
        return Ok(match fetch_walk::has_hints(entry.key, entry.version) {
            true => ResponseAction::Walk(total),
            false => ResponseAction::Forward(total),
        });
    }
    check_size(total, context.limits.buffered_frame_bytes).map_err(StreamError::Broker)?;
    Ok(if frame.len() < total {
        ResponseAction::Incomplete(total)
    } else {
        ResponseAction::Process(total)
    })
}

fn needs_processing(entry: &InFlightRequest, context: &ResponseContext<'_>) -> bool {
    match entry.key {
        API_VERSIONS => true,
        FETCH => context.filtering.filters.wants(Direction::Fetch),
        key => {
            matches!(entry.response, ResponseSource::Merged(_))
                || rewrite::may_carry_addresses(key, entry.version)
        }
    }
}

/// Returns the output for a whole response.
fn process(
    frame: &mut [u8],
    context: &mut ResponseContext<'_>,
) -> Result<FrameAction, StreamError> {
    let Some(mut entry) = context.in_flight.pop_response(frame.len()) else {
        return Ok(FrameAction::InPlace);
    };
    if entry.key == METADATA {
        record_names(frame, entry.version, context).map_err(StreamError::Broker)?;
    }
    if matches!(entry.response, ResponseSource::TopicNames) {
        return Ok(FrameAction::Nothing);
    }
    let pending = entry.access.take().filter(|one| !one.only_opens_session());
    let (Some(pending), Some(access)) = (pending, &mut context.access) else {
        return process_allowed(frame, &entry, context);
    };
    let request = (entry.key, entry.version);
    let changed = rights::apply(frame, request, *pending, access);
    let mut changed = changed.map_err(StreamError::Broker)?;
    Ok(match process_allowed(&mut changed, &entry, context)? {
        FrameAction::InPlace => FrameAction::Rebuilt(changed),
        FrameAction::Deferred(work, request) => {
            context.filtering.delay(work, changed, request);
            FrameAction::Nothing
        }
        other => other,
    })
}

/// Returns the output for a whole response after the access rules.
fn process_allowed(
    frame: &mut [u8],
    entry: &InFlightRequest,
    context: &mut ResponseContext<'_>,
) -> Result<FrameAction, StreamError> {
    *context.responses += 1;
    if entry.key == FETCH {
        if fetch_walk::has_hints(entry.key, entry.version) {
            let replaced = fetch_walk::replace_in(frame, context.mapper);
            *context.rewritten += u64::from(replaced.map_err(StreamError::Broker)?);
        }
        let filtered = context.filtering.fetch(frame, entry.version);
        return filtered.map_err(StreamError::Broker);
    }
    let left = match (entry.key, &entry.response) {
        (API_VERSIONS, _) => api_versions::restrict(frame, entry.version, context.supported)
            .map(FrameAction::Rebuilt),
        (_, ResponseSource::Merged(rejected)) => {
            filtering::merge(frame, entry, rejected).and_then(|merged| {
                let left = addresses(&merged, entry, context)?;
                Ok(match left {
                    FrameAction::InPlace => FrameAction::Rebuilt(merged),
                    other => other,
                })
            })
        }
        _ => addresses(frame, entry, context),
    };
    left.map_err(StreamError::Broker)
}

/// Takes the names of topics from a Metadata response, if filters may need them.
fn record_names(
    frame: &[u8],
    version: i16,
    context: &ResponseContext<'_>,
) -> Result<(), WireError> {
    let filters = context.filtering.filters;
    let is_needed = !filters.is_empty() || context.access.is_some();
    if !is_needed || version < METADATA_VERSION_MIN {
        return Ok(());
    }
    let body_at = response_body_at(frame, METADATA, version)?;
    filters.names.record(&frame[body_at..], version)
}

fn addresses(
    frame: &[u8],
    entry: &InFlightRequest,
    context: &mut ResponseContext<'_>,
) -> Result<FrameAction, WireError> {
    if !rewrite::may_carry_addresses(entry.key, entry.version) {
        return Ok(FrameAction::InPlace);
    }
    let made = rewrite::replace_addresses(frame, entry.key, entry.version, context.mapper)?;
    *context.rewritten += u64::from(made.is_some());
    Ok(made.map_or(FrameAction::InPlace, FrameAction::Rebuilt))
}

#[cfg(test)]
#[path = "../../tests/wire/responses.rs"]
mod tests;
