//! From client to broker: requests pass as they come, and what is looked at of them is their header.

use weir_kafka::wire::WireError;
use weir_kafka::wire::header::RequestPeek;

use super::filtering::{Asked, FilterStage, Filtered, FilteredFrame};
use super::headers::{self, HeaderPeek, REQUEST_PEEK_BYTES};
use super::in_flight::{InFlightRequest, InFlightRequests, ResponseSource};
use super::sasl::SaslState;
use super::segments::Segments;
use super::{FrameLimits, StreamError, api_versions, frame_total, grow};
use crate::filter::{Direction, FilterBudget};
use crate::versions::{self, API_VERSIONS, PRODUCE, SASL_HANDSHAKE, SupportedVersions};

/// What looking at requests needs.
#[derive(Debug)]
pub struct RequestContext<'a> {
    /// What clients may use.
    pub offer: &'a SupportedVersions,
    /// What frames may cost.
    pub limits: FrameLimits,
    /// Where requests wait for their answers.
    pub ring: &'a mut InFlightRequests,
    /// What the client says of itself, name and version, once it does.
    pub software: &'a mut Option<Box<str>>,
    /// Requests seen.
    pub requests: &'a mut u64,
    /// Number of requests at which the rest of the input waits for the next turn.
    pub requests_until: u64,
    /// Who sees records on their way to the broker.
    pub filtering: FilterStage<'a>,
}

/// One connection's requests.
#[derive(Debug, Default)]
pub struct RequestStream {
    /// Beginning of a request that cannot be judged yet; holds no memory otherwise.
    head: Vec<u8>,
    /// Bytes of it that are needed to judge it.
    wanted: usize,
    rest: BodyAction,
    tokens: SaslState,
    /// Input that came while no more requests may wait for answers.
    backlog: Vec<u8>,
}

/// What becomes of the bytes that follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum BodyAction {
    /// A request begins.
    #[default]
    None,
    /// So many pass.
    Pass(usize),
    /// So many are dropped.
    Skip(usize),
}

/// What becomes of a request.
#[derive(Debug)]
enum RequestAction {
    /// It goes on; all that is here of it may have been edited.
    Pass,
    /// This goes on instead.
    Replace(Vec<u8>),
    /// Nothing goes on.
    Drop,
    /// Nothing goes on before its filters have done this.
    Later(Box<FilterBudget>, Asked),
}

impl RequestStream {
    /// Takes input and appends to `out` what goes to the broker. With the ring full, enough requests
    /// taken, or behind a frame that filters hold, the rest is kept, see [`Self::has_backlog`].
    ///
    /// # Errors
    /// What a broker would close the connection for.
    pub fn feed(
        &mut self,
        input: &mut [u8],
        context: &mut RequestContext<'_>,
        out: &mut Segments,
    ) -> Result<(), StreamError> {
        let mut at = 0;
        while at < input.len() {
            let left = input.len() - at;
            match self.rest {
                BodyAction::Pass(rest) => {
                    let count = rest.min(left);
                    out.input(at..at + count);
                    at += count;
                    self.rest = BodyAction::pass(rest - count);
                    continue;
                }
                BodyAction::Skip(rest) => {
                    let count = rest.min(left);
                    at += count;
                    self.rest = BodyAction::skip(rest - count);
                    continue;
                }
                BodyAction::None => {}
            }
            let is_full = context.ring.is_full(context.limits.in_flight);
            let is_enough = *context.requests >= context.requests_until;
            if is_full || is_enough || context.filtering.held.is_some() {
                self.backlog.extend_from_slice(&input[at..]);
                return Ok(());
            }
            at = if self.head.is_empty() {
                self.begin(input, at, context, out)?
            } else {
                self.go_on(input, at, context, out)?
            };
        }
        Ok(())
    }

    /// A request begins at `at`; where to go on.
    fn begin(
        &mut self,
        input: &mut [u8],
        at: usize,
        context: &mut RequestContext<'_>,
        out: &mut Segments,
    ) -> Result<usize, StreamError> {
        let frame = &mut input[at..];
        let (verdict, total) = match judge(frame, &mut self.tokens, context)? {
            HeaderPeek::Known(known) => known,
            HeaderPeek::More(wanted) => {
                self.head = frame.to_vec();
                self.wanted = wanted;
                return Ok(input.len());
            }
        };
        let here = total.min(frame.len());
        match verdict {
            RequestAction::Pass => {
                out.input(at..at + here);
                self.rest = BodyAction::pass(total - here);
            }
            RequestAction::Replace(made) => out.made(made),
            RequestAction::Drop => self.rest = BodyAction::skip(total - here),
            RequestAction::Later(work, asked) => {
                let frame = frame[..here].to_vec();
                context.filtering.hold(work, frame, Some(asked));
            }
        }
        Ok(at + here)
    }

    /// More of a request whose beginning is in `head`; where to go on.
    fn go_on(
        &mut self,
        input: &[u8],
        at: usize,
        context: &mut RequestContext<'_>,
        out: &mut Segments,
    ) -> Result<usize, StreamError> {
        let mut at = at;
        loop {
            let (verdict, total) = match judge(&mut self.head, &mut self.tokens, context)? {
                HeaderPeek::Known(known) => known,
                HeaderPeek::More(wanted) => {
                    let missing = wanted - self.head.len();
                    let count = missing.min(input.len() - at);
                    grow(&mut self.head, &input[at..at + count], wanted);
                    self.wanted = wanted;
                    at += count;
                    if count < missing {
                        return Ok(at);
                    }
                    continue;
                }
            };
            // No more is taken into the head than judging needs, so it ends within this request.
            let head = std::mem::take(&mut self.head);
            let rest = total - head.len();
            match verdict {
                RequestAction::Pass => {
                    out.made(head);
                    self.rest = BodyAction::pass(rest);
                }
                RequestAction::Replace(made) => out.made(made),
                RequestAction::Drop => self.rest = BodyAction::skip(rest),
                RequestAction::Later(work, asked) => {
                    context.filtering.hold(work, head, Some(asked))
                }
            }
            return Ok(at);
        }
    }

    /// Whether input waits here for room in the ring.
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The input that waited, to be fed again before anything new.
    pub fn take_backlog(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.backlog)
    }

    /// Whether a request has come in part only.
    #[must_use]
    pub fn is_mid_request(&self) -> bool {
        !self.head.is_empty() || self.rest != BodyAction::None
    }

    /// Whether the beginning of a request has come, and not enough of it.
    #[must_use]
    pub fn is_mid_head(&self) -> bool {
        !self.head.is_empty()
    }

    /// Returns the bytes that the beginning of a request must grow to before it can go on; 0 if
    /// there is none.
    #[must_use]
    pub fn wanted(&self) -> usize {
        match self.head.is_empty() {
            true => 0,
            false => self.wanted,
        }
    }

    /// Returns `true` once enough of a request has come to know which one it is.
    #[must_use]
    pub fn is_identified(&self) -> bool {
        self.head.len() >= REQUEST_PEEK_BYTES
    }

    /// Bytes held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.head.capacity() + self.backlog.capacity()
    }

    /// Bytes that belong to the request under way and must still come, as far as that is known.
    #[must_use]
    pub fn missing(&self) -> usize {
        match self.rest {
            BodyAction::Pass(rest) | BodyAction::Skip(rest) => rest,
            BodyAction::None if self.head.is_empty() => 0,
            BodyAction::None => {
                let total = frame_total(&self.head, usize::MAX).ok().flatten();
                total.unwrap_or(REQUEST_PEEK_BYTES) - self.head.len()
            }
        }
    }
}

impl BodyAction {
    fn pass(bytes: usize) -> Self {
        if bytes == 0 {
            Self::None
        } else {
            Self::Pass(bytes)
        }
    }

    fn skip(bytes: usize) -> Self {
        if bytes == 0 {
            Self::None
        } else {
            Self::Skip(bytes)
        }
    }
}

/// What becomes of the request that `frame` begins with, and its length. Entered into the ring when
/// known.
fn judge(
    frame: &mut [u8],
    tokens: &mut SaslState,
    context: &mut RequestContext<'_>,
) -> Result<HeaderPeek<(RequestAction, usize)>, StreamError> {
    let limit = context.limits.request_bytes;
    if *tokens != SaslState::None {
        match tokens.next(frame, limit)? {
            HeaderPeek::More(more) => return Ok(HeaderPeek::More(more)),
            HeaderPeek::Known(Some(total)) => {
                enter(context, (SASL_HANDSHAKE, 0, 0), Some(ResponseSource::Token));
                return Ok(HeaderPeek::Known((RequestAction::Pass, total)));
            }
            HeaderPeek::Known(None) => context.ring.drop_sasl_tokens(),
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
        return Ok(HeaderPeek::More(REQUEST_PEEK_BYTES));
    };
    let peek = headers::request(frame).map_err(StreamError::Client)?;
    let (key, version) = (peek.api_key, peek.api_version);
    let (verdict, answer) = match key {
        _ if !context.offer.has(key, version) => match refuse(&peek, context.offer) {
            Some(answer) => (
                RequestAction::Drop,
                Some(ResponseSource::Ready(answer.into())),
            ),
            None => {
                let name = versions::name(key);
                return Err(StreamError::NotOffered { key, name, version });
            }
        },
        PRODUCE => match headers::acks(frame, total, version)? {
            HeaderPeek::More(more) => return Ok(HeaderPeek::More(more)),
            HeaderPeek::Known(acks) if context.filtering.filters.wants(Direction::Produce) => {
                if total > context.limits.held_bytes {
                    return Err(StreamError::Client(WireError::FrameTooLarge {
                        bytes: total as u64,
                        bytes_max: context.limits.held_bytes,
                    }));
                }
                if frame.len() < total {
                    return Ok(HeaderPeek::More(total));
                }
                let asked = Asked {
                    correlation_id: peek.correlation_id,
                    version,
                    acks,
                };
                let filtered = context.filtering.produce(&mut frame[..total], &asked);
                match filtered.map_err(StreamError::Client)? {
                    Filtered::Later(work) => (RequestAction::Later(work, asked), None),
                    Filtered::Done((FilteredFrame::InPlace, answer)) => {
                        (RequestAction::Pass, answer)
                    }
                    Filtered::Done((FilteredFrame::Made(made), answer)) => {
                        (RequestAction::Replace(made), answer)
                    }
                    Filtered::Done((FilteredFrame::Nothing, answer)) => {
                        (RequestAction::Drop, answer)
                    }
                }
            }
            HeaderPeek::Known(0) => (RequestAction::Pass, None),
            HeaderPeek::Known(_) => (RequestAction::Pass, Some(ResponseSource::Broker)),
        },
        API_VERSIONS if total <= SOFTWARE_BYTES_MAX => {
            if frame.len() < total {
                return Ok(HeaderPeek::More(total));
            }
            if let Some((name, version)) = headers::software(&frame[..total], version) {
                *context.software = Some(format!("{name} {version}").into());
            }
            (RequestAction::Pass, Some(ResponseSource::Broker))
        }
        SASL_HANDSHAKE if version == 0 => {
            if total > HANDSHAKE_BYTES_MAX {
                return Err(StreamError::Client(WireError::FrameTooLarge {
                    bytes: total as u64,
                    bytes_max: HANDSHAKE_BYTES_MAX,
                }));
            }
            if frame.len() < total {
                return Ok(HeaderPeek::More(total));
            }
            *tokens = SaslState::after(&frame[..total]).map_err(StreamError::Client)?;
            (RequestAction::Pass, Some(ResponseSource::Broker))
        }
        _ => (RequestAction::Pass, Some(ResponseSource::Broker)),
    };
    enter(context, (key, version, peek.correlation_id), answer);
    Ok(HeaderPeek::Known((verdict, total)))
}

/// Counts a request, and notes it if an answer will come.
fn enter(
    context: &mut RequestContext<'_>,
    (key, version, correlation_id): (i16, i16, i32),
    answer: Option<ResponseSource>,
) {
    *context.requests += 1;
    if let Some(answer) = answer {
        context.ring.push(InFlightRequest {
            correlation_id,
            key,
            version,
            answer,
        });
    }
}

/// The answer to a request that is not on offer, where brokers have one.
fn refuse(peek: &RequestPeek, offer: &SupportedVersions) -> Option<Vec<u8>> {
    match (peek.api_key, peek.api_version) {
        (API_VERSIONS, version) if version > 0 => {
            Some(api_versions::unsupported(peek.correlation_id, offer))
        }
        _ => None,
    }
}

/// Client id and mechanism are short.
const HANDSHAKE_BYTES_MAX: usize = 1024;

/// Requests for versions of up to this length are read whole, for the name of the client's software.
const SOFTWARE_BYTES_MAX: usize = 1024;

#[cfg(test)]
mod tests;
