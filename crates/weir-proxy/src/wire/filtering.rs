//! Applies filters to whole frames, in the buffer that received them.

use std::time::Duration;

use weir_wire::WireError;

use super::SIZE_BYTES;
use super::headers::{request_body_at, response_body_at};
use super::in_flight::{InFlightRequest, ResponseSource};
use super::rights::framed;
use crate::versions::{FETCH, PRODUCE, flexible};
use weir_filters::{
    Direction, FilterBuffers, FilterChain, FilterResult, FilterWork, FrameOutput,
    RejectedPartitions,
};
use weir_rules::ResponseChanges;

#[derive(Debug)]
pub(crate) struct FilterStage<'a> {
    pub(crate) filters: &'a FilterChain,
    pub(crate) buffers: &'a mut FilterBuffers,
    /// Frame that must wait; no later frame may be forwarded before it.
    pub(crate) delayed: &'a mut Option<DelayedFrame>,
}

#[derive(Debug)]
pub(crate) enum DelayedFrame {
    /// A filtered frame with a delay.
    Delayed { time: Duration, frame: Vec<u8> },
    /// A frame with more filter work than an event loop does at once.
    Unfinished(UnfinishedFrame),
}

#[derive(Debug)]
pub(crate) struct UnfinishedFrame {
    pub(crate) work: Box<FilterWork>,
    /// Frame with the changes so far.
    pub(crate) frame: Vec<u8>,
    /// Produce request of the frame; `None` for a fetch response.
    pub(crate) request: Option<ProduceHeader>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProduceHeader {
    pub(crate) correlation_id: i32,
    pub(crate) version: i16,
    pub(crate) acks: i16,
}

/// The action for a frame or for the output of its filters.
#[derive(Debug)]
pub(super) enum FrameAction {
    /// Forward the frame, whose buffered part may have been edited.
    InPlace,
    /// Forward this frame instead.
    Rebuilt(Vec<u8>),
    /// Forward nothing, or nothing yet.
    Nothing,
    /// Forward this request of the proxy for the names of topics, and the frame after its response.
    LookUp(Vec<u8>),
    /// Process this request instead, from which access rules removed something.
    Restart(Vec<u8>, Box<ResponseChanges>),
    /// Forward nothing until the filter threads have done this work.
    Deferred(Box<FilterWork>, Option<ProduceHeader>),
}

impl ProduceHeader {
    /// Returns the source of the response to the request after filtering, or `None` with acks=0.
    fn response_source(&self, result: &FilterResult) -> Option<ResponseSource> {
        match &result.rejected {
            Some(rejected) if result.output != FrameOutput::Nothing => {
                Some(ResponseSource::Merged(Box::new(rejected.clone())))
            }
            Some(rejected) => {
                let frame = rejection_response(rejected, self.correlation_id, self.version);
                Some(ResponseSource::Ready(frame.into()))
            }
            None if self.acks == 0 => None,
            None => Some(ResponseSource::Broker),
        }
    }

    /// Returns the in-flight entry of a delayed request, or `None` if no response will come.
    pub(crate) fn entry(&self, result: &FilterResult) -> Option<InFlightRequest> {
        self.response_source(result)
            .map(|response| InFlightRequest {
                correlation_id: self.correlation_id,
                key: PRODUCE,
                version: self.version,
                response,
                access: None,
            })
    }
}

/// Returns the error codes of the partitions that filters rejected, each once.
pub(crate) fn errors(result: &FilterResult) -> Vec<i16> {
    let rejected = result.rejected.as_ref();
    rejected.map_or_else(Vec::new, RejectedPartitions::errors)
}

impl FilterStage<'_> {
    /// Filters a whole produce request with size prefix. Returns the output, the source of the
    /// response, and the error codes of rejected partitions.
    pub(super) fn produce(
        &mut self,
        frame: &mut [u8],
        header: &ProduceHeader,
    ) -> Result<(FrameAction, Option<ResponseSource>, Vec<i16>), WireError> {
        let version = header.version;
        let body_at = request_body_at(frame, PRODUCE, version)?;
        let (filters, direction) = (self.filters, Direction::Produce);
        match filters.filter_now(direction, frame, body_at, version, self.buffers)? {
            Ok(result) => {
                let response = header.response_source(&result);
                Ok((self.output(frame, &result), response, errors(&result)))
            }
            Err(work) => Ok((FrameAction::Deferred(work, Some(*header)), None, Vec::new())),
        }
    }

    pub(super) fn fetch(
        &mut self,
        frame: &mut [u8],
        version: i16,
    ) -> Result<FrameAction, WireError> {
        let body_at = response_body_at(frame, FETCH, version)?;
        let (filters, direction) = (self.filters, Direction::Fetch);
        match filters.filter_now(direction, frame, body_at, version, self.buffers)? {
            Ok(result) => Ok(self.output(frame, &result)),
            Err(work) => Ok(FrameAction::Deferred(work, None)),
        }
    }

    /// Stores a frame until the filter threads have done its work.
    pub(super) fn delay(
        &mut self,
        work: Box<FilterWork>,
        frame: Vec<u8>,
        request: Option<ProduceHeader>,
    ) {
        *self.delayed = Some(DelayedFrame::Unfinished(UnfinishedFrame {
            work,
            frame,
            request,
        }));
    }

    fn output(&mut self, frame: &[u8], result: &FilterResult) -> FrameAction {
        let output = match result.output {
            FrameOutput::InPlace => FrameAction::InPlace,
            FrameOutput::Rebuilt => FrameAction::Rebuilt(self.buffers.take_frame()),
            FrameOutput::Nothing => return FrameAction::Nothing,
        };
        if result.delay == Duration::ZERO {
            return output;
        }
        let frame = match output {
            FrameAction::Rebuilt(frame) => frame,
            _ => frame.to_vec(),
        };
        *self.delayed = Some(DelayedFrame::Delayed {
            time: result.delay,
            frame,
        });
        FrameAction::Nothing
    }
}

/// Adds the rejected partitions to a broker's response, with size prefix.
pub(super) fn merge(
    frame: &[u8],
    entry: &InFlightRequest,
    rejected: &RejectedPartitions,
) -> Result<Vec<u8>, WireError> {
    let body_at = response_body_at(frame, entry.key, entry.version)?;
    let body = rejected.merge(entry.version, &frame[body_at..])?;
    Ok(framed(&frame[SIZE_BYTES..body_at], &body))
}

/// Returns the response to a request of which nothing was forwarded.
fn rejection_response(rejected: &RejectedPartitions, correlation_id: i32, version: i16) -> Vec<u8> {
    let mut header = correlation_id.to_be_bytes().to_vec();
    if flexible(PRODUCE, version) {
        // No tagged fields.
        header.push(0);
    }
    framed(&header, &rejected.response(version))
}
