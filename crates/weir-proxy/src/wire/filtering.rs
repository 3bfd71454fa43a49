//! Frames through the filters of a cluster: whole ones only, in the buffer they came in.

use std::time::Duration;

use weir_kafka::wire::WireError;
use weir_kafka::wire::header::RequestPeek;

use super::SIZE_BYTES;
use super::heads::{answer_body_at, request_body_at};
use super::ring::{Answer, Entry};
use crate::filter::{Filters, Pass, Rejected, Verdict, Workspace};
use crate::versions::{FETCH, PRODUCE, flexible};

/// Filters, and where they work.
#[derive(Debug)]
pub struct Filtering<'a> {
    /// Those of the cluster.
    pub filters: &'a Filters,
    /// The thread's.
    pub workspace: &'a mut Workspace,
    /// A frame that must wait; nothing behind it may go on before.
    pub held: &'a mut Option<Held>,
}

/// A frame that must wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// For how long.
    pub time: Duration,
    /// The frame as it is to go on.
    pub frame: Vec<u8>,
}

/// What goes on of a frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Left {
    /// The frame where it lies.
    InPlace,
    /// This instead.
    Made(Vec<u8>),
    /// Nothing, or nothing yet.
    Nothing,
}

impl Filtering<'_> {
    /// A whole produce request, prefix included: what goes on of it, and where its answer comes from.
    pub(super) fn produce(
        &mut self,
        frame: &mut [u8],
        peek: &RequestPeek,
        acks: i16,
    ) -> Result<(Left, Option<Answer>), WireError> {
        let version = peek.api_version;
        let body_at = request_body_at(frame, PRODUCE, version)?;
        let verdict = self
            .filters
            .produce(frame, body_at, version, self.workspace)?;
        let is_left = verdict.pass != Pass::Nothing;
        let answer = match &verdict.rejected {
            Some(rejected) if is_left => Some(Answer::Merged(Box::new(rejected.clone()))),
            Some(rejected) => {
                let frame = refusal(rejected, peek.correlation_id, version);
                Some(Answer::Ready(frame.into()))
            }
            None if acks == 0 => None,
            None => Some(Answer::Broker),
        };
        Ok((self.left(frame, &verdict), answer))
    }

    /// A whole answer to Fetch, prefix included: what goes on of it.
    pub(super) fn fetch(&mut self, frame: &mut [u8], version: i16) -> Result<Left, WireError> {
        let body_at = answer_body_at(frame, FETCH, version)?;
        let verdict = self
            .filters
            .fetch(frame, body_at, version, self.workspace)?;
        Ok(self.left(frame, &verdict))
    }

    fn left(&mut self, frame: &[u8], verdict: &Verdict) -> Left {
        let left = match verdict.pass {
            Pass::InPlace => Left::InPlace,
            Pass::Rebuilt => Left::Made(self.workspace.frame().to_vec()),
            Pass::Nothing => return Left::Nothing,
        };
        if verdict.hold == Duration::ZERO {
            return left;
        }
        let frame = match left {
            Left::Made(frame) => frame,
            _ => frame.to_vec(),
        };
        *self.held = Some(Held {
            time: verdict.hold,
            frame,
        });
        Left::Nothing
    }
}

/// A broker's answer with the partitions that the broker never saw, prefix included.
pub(super) fn merge(
    frame: &[u8],
    entry: &Entry,
    rejected: &Rejected,
) -> Result<Vec<u8>, WireError> {
    let body_at = answer_body_at(frame, entry.key, entry.version)?;
    let body = rejected.merge(entry.version, &frame[body_at..])?;
    Ok(framed(&frame[SIZE_BYTES..body_at], &body))
}

/// The answer to a request of which nothing went on.
fn refusal(rejected: &Rejected, correlation_id: i32, version: i16) -> Vec<u8> {
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
