//! A trace as a stream of lines to an operator.

use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use weir_net::admin::LineStream;

use crate::session_handles::SessionHandles;
use crate::shard::{ShardContext, ShardEvent, TraceTarget, Visit};
use crate::trace::{TraceLines, trace_channel, trace_line};

/// Bytes of lines that are sent together.
const BATCH_BYTES: usize = 16 * 1024;
/// Interval of checks for an operator that has left.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Interval of lines without news, which detect lost connections.
const IDLE_INTERVAL: Duration = Duration::from_secs(10);
/// Longest trace.
const TRACE_TIMEOUT: Duration = Duration::from_secs(3_600);
const POST_TIMEOUT: Duration = Duration::from_secs(1);

/// Starts the trace in the event loops and sends its lines until one of both ends closes.
pub(super) fn run(shared: &ShardContext, target: TraceTarget, stream: &LineStream) {
    let lines = begin(shared, target);
    let end = Instant::now() + TRACE_TIMEOUT;
    let mut last = Instant::now();
    let mut batch = String::new();
    while Instant::now() < end && !stream.is_closed() {
        match lines.receiver.recv_timeout(CHECK_INTERVAL) {
            Ok(line) => batch.push_str(&line),
            Err(RecvTimeoutError::Timeout) if last.elapsed() < IDLE_INTERVAL => continue,
            Err(RecvTimeoutError::Timeout) => batch.push_str(&trace_line("idle", [])),
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let more = || lines.receiver.try_recv().ok();
        while let Some(line) = Some(&batch)
            .filter(|it| it.len() < BATCH_BYTES)
            .and_then(|_| more())
        {
            batch.push_str(&line);
        }
        let dropped = lines.take_dropped() + stream.take_dropped();
        if dropped > 0 {
            batch.push_str(&trace_line("dropped", [("lines", dropped.into())]));
        }
        stream.send(std::mem::take(&mut batch).into_bytes());
        last = Instant::now();
    }
}

fn begin(shared: &ShardContext, target: TraceTarget) -> TraceLines {
    let (sink, lines) = trace_channel();
    let inboxes = shared.inboxes.get().map_or(&[][..], |all| all);
    let only = match &target {
        TraceTarget::Item(_) => None,
        TraceTarget::Session(handle) => {
            let location = SessionHandles::location_of(handle);
            Some(location.map_or(0, |location| usize::from(location.shard)))
        }
    };
    let targets = inboxes.iter().enumerate();
    for (_, inbox) in targets.filter(|(number, _)| only.is_none_or(|only| only == *number)) {
        let visit = Visit::Trace(target.clone(), sink.clone());
        // A stalled event loop is left out; the others are traced.
        let _ = inbox.post(ShardEvent::Visit(Box::new(visit)), POST_TIMEOUT);
    }
    lines
}
