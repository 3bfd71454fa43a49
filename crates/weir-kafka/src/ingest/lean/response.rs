//! Applies a fetch response to the partitions that are read.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::shared::{LeanShared, LeanState, QueueEntry};
use crate::fetch::{
    Buffer, FetchSession, FetchedRecords, PartitionProblem, PlannedFetch, ScannedRecords, scan,
};
use weir_wire::WireError;
use weir_wire::fetch::{self, FetchedPartition};

/// Request that a response is for.
pub(super) struct ResponseContext<'a> {
    pub(super) shared: &'a LeanShared,
    pub(super) session: &'a mut FetchSession,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
}

/// Effects of a response.
#[derive(Debug, Default)]
pub(super) struct ResponseResult {
    pub(super) entries: Vec<QueueEntry>,
    /// Time for which the broker accepts no request.
    pub(super) throttle: Option<Duration>,
    /// Partitions may be read from another broker now.
    pub(super) moved: bool,
    /// Leaders may have changed.
    pub(super) refresh: bool,
    /// Errors that an operator must know.
    pub(super) failures: Vec<String>,
}

/// Reads a response of `length` bytes.
///
/// # Errors
/// It violates the protocol; the connection must be closed.
pub(super) fn read_response(
    context: ResponseContext<'_>,
    response: Buffer,
    length: usize,
) -> Result<ResponseResult, WireError> {
    let response = Arc::new(response);
    let frame = response.bytes.get(..length).unwrap_or_default();
    let body = fetch::body_of(frame, context.version, context.correlation_id)?;
    let planned: Vec<_> = context.session.partitions().cloned().collect();
    let mut rows: Vec<FetchedPartition<'_>> = Vec::new();
    let head = fetch::read(context.version, body, |row| {
        rows.push(row);
        match rows.len() <= planned.len() {
            true => Ok(()),
            false => Err(WireError::Length {
                what: "partitions, more than requested",
                value: rows.len() as i64,
            }),
        }
    })?;
    let mut result = ResponseResult {
        throttle: throttle(head.throttle_ms),
        ..ResponseResult::default()
    };
    if let Some(throttle) = result.throttle {
        context.shared.ingest.note_throttle(throttle);
    }
    if !context.session.on_response(head.error, head.session_id) {
        let mut pause = SESSION_PAUSE;
        if !SESSION_ERRORS.contains(&head.error) {
            let code = head.error;
            result.failures.push(format!("fetch: Kafka error {code}"));
            pause = FAILURE_PAUSE;
        }
        result.throttle = result.throttle.max(Some(pause));
        return Ok(result);
    }
    let now = Instant::now();
    context.shared.with(|state| {
        let mut next = 0;
        for row in &rows {
            // Usually both are in the same order. Rows that were not requested are ignored.
            let mut indexes = (0..planned.len()).map(|step| (next + step) % planned.len());
            if let Some(index) = indexes.find(|index| is_of(&planned[*index], row)) {
                next = index + 1;
                let sent = &planned[index];
                let mut applied = AppliedRow {
                    shared: context.shared,
                    state: &mut *state,
                    result: &mut result,
                    now,
                };
                applied.apply(sent, row, (&response, length));
            }
        }
    });
    Ok(result)
}

fn throttle(throttle_ms: i32) -> Option<Duration> {
    let throttle_ms = u64::try_from(throttle_ms).ok().filter(|it| *it > 0)?;
    Some(Duration::from_millis(throttle_ms).min(THROTTLE_MAX))
}

fn is_of(sent: &PlannedFetch, row: &FetchedPartition<'_>) -> bool {
    let is_topic = match row.topic_id {
        0 => *sent.topic == *row.topic,
        id => sent.topic_id == id,
    };
    is_topic && sent.key.1 == row.partition
}

struct AppliedRow<'a> {
    shared: &'a LeanShared,
    state: &'a mut LeanState,
    result: &'a mut ResponseResult,
    now: Instant,
}

impl AppliedRow<'_> {
    fn apply(
        &mut self,
        sent: &PlannedFetch,
        row: &FetchedPartition<'_>,
        (response, length): (&Arc<Buffer>, usize),
    ) {
        if row.error != 0 {
            self.result.moved = true;
            return self.on_error(sent, row.error);
        }
        let committed_only = self.shared.options.committed_only;
        let end = if committed_only {
            row.last_stable_offset
        } else {
            row.high_watermark
        };
        let table = &mut self.state.table;
        table.note_end(sent.key, sent.generation, end);
        if let (Some(node), true) = (row.preferred_replica, row.records.is_empty()) {
            table.prefer(sent.key, sent.generation, (node, self.now));
            self.result.moved = true;
        }
        let scanned = match scan(row.records) {
            Ok(Some(scanned)) => scanned,
            Ok(None) => return,
            Err(error) => return self.fail(sent, &error),
        };
        let ScannedRecords { next, epoch } = scanned;
        if !table.advance(sent, next, epoch) {
            return;
        }
        let end = length - row.bytes_after_records;
        self.result
            .entries
            .push(QueueEntry::Records(FetchedRecords {
                key: sent.key,
                generation: sent.generation,
                topic: Arc::clone(&sent.topic),
                from: sent.offset,
                response: Arc::clone(response),
                range: end - row.records.len()..end,
                aborted: committed_only.then(|| row.aborted().collect()),
            }));
    }

    fn fail(&mut self, sent: &PlannedFetch, error: &dyn std::fmt::Display) {
        let partition = sent.key.1;
        let text = format!("fetch of \"{}\" partition {partition}: {error}", sent.topic);
        self.result.failures.push(text);
        let backoff = self.shared.options.error_backoff;
        let unknown = -1;
        (self.state.table).on_error(sent, unknown, self.now, backoff);
    }

    fn on_error(&mut self, sent: &PlannedFetch, code: i16) {
        let backoff = self.shared.options.error_backoff;
        match (self.state.table).on_error(sent, code, self.now, backoff) {
            PartitionProblem::Retry => {}
            PartitionProblem::Refresh => self.result.refresh = true,
            PartitionProblem::Failure => {
                let (topic, partition) = (&sent.topic, sent.key.1);
                let text = format!("fetch of \"{topic}\" partition {partition}: {}", name(code));
                self.result.failures.push(text);
            }
            PartitionProblem::OutOfRange => self.result.entries.push(QueueEntry::OutOfRange {
                key: sent.key,
                generation: sent.generation,
            }),
        }
    }
}

fn name(code: i16) -> String {
    match code {
        29 => "the user may not read the topic: grant the operation Read".to_owned(),
        code => format!("Kafka error {code}"),
    }
}

/// No such session, another number of the request, another topic id in a session, and both kinds of
/// topic ids in one.
const SESSION_ERRORS: [i16; 4] = [70, 71, 103, 106];
/// Pause before a new session.
const SESSION_PAUSE: Duration = Duration::from_millis(10);
/// Pause after an error of a whole response.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);
/// Longest pause that a broker can ask for.
const THROTTLE_MAX: Duration = Duration::from_secs(60);
