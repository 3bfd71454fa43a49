//! From broker to client: answers pass as they come, but for those that may name brokers.

use weir_kafka::wire::WireError;

use super::addresses::AddressMapper;
use super::filtering::{self, FilterStage, Filtered, FilteredFrame};
use super::headers::ANSWER_PEEK_BYTES;
use super::in_flight::{InFlightRequest, InFlightRequests, ResponseSource};
use super::segments::Segments;
use super::{FrameLimits, SIZE_BYTES, StreamError, api_versions, frame_total, grow, rewrite};
use crate::filter::Direction;
use crate::versions::{API_VERSIONS, FETCH, SupportedVersions};

/// What looking at answers needs.
pub struct ResponseContext<'a> {
    /// What clients may use.
    pub offer: &'a SupportedVersions,
    /// What frames may cost.
    pub limits: FrameLimits,
    /// Requests that wait for answers.
    pub ring: &'a mut InFlightRequests,
    /// Where clients reach brokers.
    pub places: &'a mut dyn AddressMapper,
    /// Answers seen, and those of them that were replaced.
    pub answers: &'a mut u64,
    /// Answers whose addresses were replaced.
    pub rewritten: &'a mut u64,
    /// Who sees records on their way to the client.
    pub filtering: FilterStage<'a>,
}

impl std::fmt::Debug for ResponseContext<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AnswerContext").finish_non_exhaustive()
    }
}

/// One connection's answers.
#[derive(Debug, Default)]
pub struct ResponseStream {
    /// Beginning of an answer that is needed whole, or of any whose head has not come; holds no
    /// memory otherwise.
    held: Vec<u8>,
    /// Bytes of it that are needed.
    wanted: usize,
    /// Bytes that pass before the next answer begins.
    passing: usize,
    /// The last answer that passed unopened was a large one, and so may be the next.
    is_large: bool,
    /// Input behind a frame that filters hold.
    backlog: Vec<u8>,
}

/// What becomes of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResponseAction {
    /// It passes; its length.
    Pass(usize),
    /// So many bytes of it are needed before it can be dealt with.
    More(usize),
    /// It is whole and may have to be replaced; its length.
    Replace(usize),
}

impl ResponseStream {
    /// Takes input and appends to `out` what goes to the client.
    ///
    /// # Errors
    /// An answer that nobody asked for, or that is not what its version says.
    pub fn feed(
        &mut self,
        input: &mut [u8],
        context: &mut ResponseContext<'_>,
        out: &mut Segments,
    ) -> Result<(), StreamError> {
        let mut at = 0;
        while at < input.len() {
            if context.filtering.held.is_some() {
                self.backlog.extend_from_slice(&input[at..]);
                return Ok(());
            }
            let left = input.len() - at;
            if self.passing > 0 {
                let count = self.passing.min(left);
                out.input(at..at + count);
                at += count;
                self.passing -= count;
                self.ready(context.ring, out);
                continue;
            }
            if self.held.is_empty() {
                match judge(&input[at..], context)? {
                    ResponseAction::Pass(total) => {
                        context.ring.pop();
                        *context.answers += 1;
                        self.passing = total;
                        self.is_large = total >= LARGE_BYTES;
                    }
                    ResponseAction::Replace(total) => {
                        let frame = &mut input[at..at + total];
                        match replaced(frame, context)? {
                            Filtered::Done(FilteredFrame::InPlace) => out.input(at..at + total),
                            Filtered::Done(FilteredFrame::Made(frame)) => out.made(frame),
                            Filtered::Done(FilteredFrame::Nothing) => {}
                            Filtered::Later(work) => {
                                context.filtering.hold(work, frame.to_vec(), None);
                            }
                        }
                        at += total;
                        self.ready_unless_held(context, out);
                    }
                    ResponseAction::More(wanted) => {
                        self.held = input[at..].to_vec();
                        self.wanted = wanted;
                        return Ok(());
                    }
                }
            } else {
                at = self.go_on(input, at, context, out)?;
            }
        }
        Ok(())
    }

    /// More of an answer whose beginning is in `held`; where to go on.
    fn go_on(
        &mut self,
        input: &[u8],
        at: usize,
        context: &mut ResponseContext<'_>,
        out: &mut Segments,
    ) -> Result<usize, StreamError> {
        let mut at = at;
        loop {
            match judge(&self.held, context)? {
                ResponseAction::More(wanted) => {
                    let missing = wanted - self.held.len();
                    let count = missing.min(input.len() - at);
                    grow(&mut self.held, &input[at..at + count], wanted);
                    self.wanted = wanted;
                    at += count;
                    if count < missing {
                        return Ok(at);
                    }
                }
                ResponseAction::Pass(total) => {
                    context.ring.pop();
                    *context.answers += 1;
                    let head = std::mem::take(&mut self.held);
                    self.passing = total - head.len();
                    self.is_large = total >= LARGE_BYTES;
                    out.made(head);
                    if self.passing == 0 {
                        self.ready(context.ring, out);
                    }
                    return Ok(at);
                }
                ResponseAction::Replace(_) => {
                    let mut held = std::mem::take(&mut self.held);
                    match replaced(&mut held, context)? {
                        Filtered::Done(FilteredFrame::InPlace) => out.made(held),
                        Filtered::Done(FilteredFrame::Made(frame)) => out.made(frame),
                        Filtered::Done(FilteredFrame::Nothing) => {}
                        Filtered::Later(work) => context.filtering.hold(work, held, None),
                    }
                    self.ready_unless_held(context, out);
                    return Ok(at);
                }
            }
        }
    }

    fn ready_unless_held(&mut self, context: &mut ResponseContext<'_>, out: &mut Segments) {
        if context.filtering.held.is_none() {
            self.ready(context.ring, out);
        }
    }

    /// Whether input waits here behind a frame that was held.
    #[must_use]
    pub fn has_backlog(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// The input that waited, to be fed again before anything new.
    pub fn take_backlog(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.backlog)
    }

    /// Appends the answers that come next and are here already.
    pub fn ready(&mut self, ring: &mut InFlightRequests, out: &mut Segments) {
        if self.passing > 0 || !self.held.is_empty() {
            return;
        }
        while let Some(frame) = ring.pop_ready() {
            out.made(frame);
        }
    }

    /// Bytes that pass whatever they are, before anything has to be looked at again.
    #[must_use]
    pub fn passing(&self) -> usize {
        self.passing
    }

    /// Notes that so many of these have passed without coming through here.
    pub fn passed(&mut self, bytes: usize) {
        self.passing = self.passing.saturating_sub(bytes);
    }

    /// Whether an answer is to begin that is probably large and passes unopened: then no more than its
    /// beginning is worth reading.
    #[must_use]
    pub fn expects_large(&self) -> bool {
        self.is_large && self.is_between()
    }

    /// Whether no answer has come in part.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.passing == 0 && self.held.is_empty() && self.backlog.is_empty()
    }

    /// Returns the bytes that the beginning of an answer must grow to before it can go on; 0 if
    /// there is none.
    #[must_use]
    pub fn wanted(&self) -> usize {
        match self.held.is_empty() {
            true => 0,
            false => self.wanted,
        }
    }

    /// Bytes held.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held.capacity() + self.backlog.capacity()
    }
}

/// From here on an answer is large.
const LARGE_BYTES: usize = 256 * 1024;

fn judge(frame: &[u8], context: &ResponseContext<'_>) -> Result<ResponseAction, StreamError> {
    let limit = i32::MAX as usize;
    let total = frame_total(frame, limit).map_err(StreamError::Broker)?;
    if let Some(ResponseSource::Token) = context.ring.front().map(|entry| &entry.answer) {
        return Ok(total.map_or(ResponseAction::More(SIZE_BYTES), ResponseAction::Pass));
    }
    let Some(total) = total else {
        return Ok(ResponseAction::More(ANSWER_PEEK_BYTES));
    };
    if total < ANSWER_PEEK_BYTES {
        return Err(StreamError::Broker(WireError::Truncated {
            what: "answer header",
            needed: ANSWER_PEEK_BYTES,
            left: total,
        }));
    }
    let Some(head) = frame.first_chunk::<ANSWER_PEEK_BYTES>() else {
        return Ok(ResponseAction::More(ANSWER_PEEK_BYTES));
    };
    let [_, _, _, _, id @ ..] = *head;
    let id = i32::from_be_bytes(id);
    let entry = match context.ring.front() {
        Some(
            entry @ InFlightRequest {
                answer: ResponseSource::Broker | ResponseSource::Merged(_),
                ..
            },
        ) if entry.correlation_id == id => entry,
        other => {
            let expected = other.map_or_else(
                || "none".to_owned(),
                |entry| entry.correlation_id.to_string(),
            );
            return Err(StreamError::Unasked { got: id, expected });
        }
    };
    if !is_looked_at(entry, context) {
        return Ok(ResponseAction::Pass(total));
    }
    if total > context.limits.held_bytes {
        return Err(StreamError::Broker(WireError::FrameTooLarge {
            bytes: total as u64,
            bytes_max: context.limits.held_bytes,
        }));
    }
    Ok(if frame.len() < total {
        ResponseAction::More(total)
    } else {
        ResponseAction::Replace(total)
    })
}

fn is_looked_at(entry: &InFlightRequest, context: &ResponseContext<'_>) -> bool {
    match entry.key {
        API_VERSIONS => true,
        FETCH => context.filtering.filters.wants(Direction::Fetch),
        key => {
            matches!(entry.answer, ResponseSource::Merged(_))
                || rewrite::may_carry_addresses(key, entry.version)
        }
    }
}

/// What the client gets of a whole answer, or instead.
fn replaced(
    frame: &mut [u8],
    context: &mut ResponseContext<'_>,
) -> Result<Filtered<FilteredFrame>, StreamError> {
    *context.answers += 1;
    let Some(entry) = context.ring.pop() else {
        return Ok(Filtered::Done(FilteredFrame::InPlace));
    };
    if entry.key == FETCH {
        let filtered = context.filtering.fetch(frame, entry.version);
        return filtered.map_err(StreamError::Broker);
    }
    let left = match (entry.key, &entry.answer) {
        (API_VERSIONS, _) => {
            api_versions::restrict(frame, entry.version, context.offer).map(FilteredFrame::Made)
        }
        (_, ResponseSource::Merged(rejected)) => filtering::merge(frame, &entry, rejected)
            .and_then(|merged| {
                let left = addresses(&merged, &entry, context)?;
                Ok(match left {
                    FilteredFrame::InPlace => FilteredFrame::Made(merged),
                    other => other,
                })
            }),
        _ => addresses(frame, &entry, context),
    };
    left.map(Filtered::Done).map_err(StreamError::Broker)
}

fn addresses(
    frame: &[u8],
    entry: &InFlightRequest,
    context: &mut ResponseContext<'_>,
) -> Result<FilteredFrame, WireError> {
    if !rewrite::may_carry_addresses(entry.key, entry.version) {
        return Ok(FilteredFrame::InPlace);
    }
    let made = rewrite::addresses(frame, entry.key, entry.version, context.places)?;
    *context.rewritten += u64::from(made.is_some());
    Ok(made.map_or(FilteredFrame::InPlace, FilteredFrame::Made))
}

#[cfg(test)]
mod tests;
