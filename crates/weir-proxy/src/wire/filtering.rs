//! Frames through the filters of a cluster: whole ones only, in the buffer they came in.

use std::time::Duration;

use weir_kafka::wire::WireError;

use super::SIZE_BYTES;
use super::headers::{answer_body_at, request_body_at};
use super::in_flight::{InFlightRequest, ResponseSource};
use crate::filter::{
    Direction, FilterBudget, FilterBuffers, FilterChain, FilterResult, FrameOutput,
    RejectedPartitions,
};
use crate::versions::{FETCH, PRODUCE, flexible};

/// Filters, and where they work.
#[derive(Debug)]
pub struct FilterStage<'a> {
    /// Those of the cluster.
    pub filters: &'a FilterChain,
    /// The thread's.
    pub workspace: &'a mut FilterBuffers,
    /// A frame that must wait; nothing behind it may go on before.
    pub held: &'a mut Option<DelayedFrame>,
}

/// A frame that must wait.
#[derive(Debug)]
pub enum DelayedFrame {
    /// It is done, and goes on later.
    Delayed {
        /// For how long it waits.
        time: Duration,
        /// The frame as it is to go on.
        frame: Vec<u8>,
    },
    /// Filters have work left on it, more than an event loop does at once.
    Unfinished(Unfinished),
}

/// A frame that filters have work left on.
#[derive(Debug)]
pub struct Unfinished {
    /// What is left to do.
    pub work: Box<FilterBudget>,
    /// The frame as far as it is done.
    pub frame: Vec<u8>,
    /// The produce request that it is; a fetch response if there is none.
    pub request: Option<Asked>,
}

/// What is known of a produce request besides its frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// Its number.
    pub correlation_id: i32,
    /// Its version.
    pub version: i16,
    /// Acknowledgements asked for.
    pub acks: i16,
}

/// What goes on of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum FilteredFrame {
    /// The frame where it lies.
    InPlace,
    /// This instead.
    Made(Vec<u8>),
    /// Nothing, or nothing yet.
    Nothing,
}

/// What became of a whole frame.
pub(super) enum Filtered<T> {
    /// It is done.
    Done(T),
    /// There is work left.
    Later(Box<FilterBudget>),
}

impl Asked {
    /// Returns where the response to the request comes from, after its filters have decided.
    fn answer(&self, verdict: &FilterResult) -> Option<ResponseSource> {
        match &verdict.rejected {
            Some(rejected) if verdict.pass != FrameOutput::Nothing => {
                Some(ResponseSource::Merged(Box::new(rejected.clone())))
            }
            Some(rejected) => {
                let frame = refusal(rejected, self.correlation_id, self.version);
                Some(ResponseSource::Ready(frame.into()))
            }
            None if self.acks == 0 => None,
            None => Some(ResponseSource::Broker),
        }
    }

    /// Returns the entry of the request that was held for its filters, if an answer will come.
    #[must_use]
    pub fn entry(&self, verdict: &FilterResult) -> Option<InFlightRequest> {
        self.answer(verdict).map(|answer| InFlightRequest {
            correlation_id: self.correlation_id,
            key: PRODUCE,
            version: self.version,
            answer,
        })
    }
}

impl FilterStage<'_> {
    /// A whole produce request, prefix included: what goes on of it, and where its answer comes from.
    pub(super) fn produce(
        &mut self,
        frame: &mut [u8],
        asked: &Asked,
    ) -> Result<Filtered<(FilteredFrame, Option<ResponseSource>)>, WireError> {
        let version = asked.version;
        let body_at = request_body_at(frame, PRODUCE, version)?;
        let (filters, direction) = (self.filters, Direction::Produce);
        match filters.at_once(direction, frame, body_at, version, self.workspace)? {
            Ok(verdict) => {
                let answer = asked.answer(&verdict);
                Ok(Filtered::Done((self.left(frame, &verdict), answer)))
            }
            Err(work) => Ok(Filtered::Later(work)),
        }
    }

    /// A whole answer to Fetch, prefix included: what goes on of it.
    pub(super) fn fetch(
        &mut self,
        frame: &mut [u8],
        version: i16,
    ) -> Result<Filtered<FilteredFrame>, WireError> {
        let body_at = answer_body_at(frame, FETCH, version)?;
        let (filters, direction) = (self.filters, Direction::Fetch);
        match filters.at_once(direction, frame, body_at, version, self.workspace)? {
            Ok(verdict) => Ok(Filtered::Done(self.left(frame, &verdict))),
            Err(work) => Ok(Filtered::Later(work)),
        }
    }

    /// Holds a frame until its filters have done their work elsewhere.
    pub(super) fn hold(&mut self, work: Box<FilterBudget>, frame: Vec<u8>, request: Option<Asked>) {
        *self.held = Some(DelayedFrame::Unfinished(Unfinished {
            work,
            frame,
            request,
        }));
    }

    fn left(&mut self, frame: &[u8], verdict: &FilterResult) -> FilteredFrame {
        let left = match verdict.pass {
            FrameOutput::InPlace => FilteredFrame::InPlace,
            FrameOutput::Rebuilt => FilteredFrame::Made(self.workspace.take_frame()),
            FrameOutput::Nothing => return FilteredFrame::Nothing,
        };
        if verdict.hold == Duration::ZERO {
            return left;
        }
        let frame = match left {
            FilteredFrame::Made(frame) => frame,
            _ => frame.to_vec(),
        };
        *self.held = Some(DelayedFrame::Delayed {
            time: verdict.hold,
            frame,
        });
        FilteredFrame::Nothing
    }
}

/// A broker's answer with the partitions that the broker never saw, prefix included.
pub(super) fn merge(
    frame: &[u8],
    entry: &InFlightRequest,
    rejected: &RejectedPartitions,
) -> Result<Vec<u8>, WireError> {
    let body_at = answer_body_at(frame, entry.key, entry.version)?;
    let body = rejected.merge(entry.version, &frame[body_at..])?;
    Ok(framed(&frame[SIZE_BYTES..body_at], &body))
}

/// The answer to a request of which nothing went on.
fn refusal(rejected: &RejectedPartitions, correlation_id: i32, version: i16) -> Vec<u8> {
    let mut header = correlation_id.to_be_bytes().to_vec();
    if flexible(PRODUCE, version) {
        // No tags.
        header.push(0);
    }
    framed(&header, &rejected.answer(version))
}

fn framed(header: &[u8], body: &[u8]) -> Vec<u8> {
    // Both come from frames within limits far below 31 bits.
    let size = (header.len() + body.len()) as i32;
    [&size.to_be_bytes()[..], header, body].concat()
}
