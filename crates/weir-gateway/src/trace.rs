//! Live trace of a session or an item: lines from event loops to one operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crossbeam_channel::{Receiver, Sender, bounded};
use jiff::Timestamp;
use serde_json::{Map, Value};

/// Lines that wait for the operator.
const LINES_MAX: usize = 1_024;

/// Creates the two ends of a trace.
pub(crate) fn trace_channel() -> (TraceSink, TraceLines) {
    let (sender, receiver) = bounded(LINES_MAX);
    let state = Arc::new(TraceState::default());
    let sink = TraceSink {
        sender,
        state: Arc::clone(&state),
    };
    (sink, TraceLines { receiver, state })
}

#[derive(Debug, Default)]
struct TraceState {
    closed: AtomicBool,
    dropped: AtomicU64,
}

/// Sending end, in event loops.
#[derive(Debug, Clone)]
pub(crate) struct TraceSink {
    sender: Sender<String>,
    state: Arc<TraceState>,
}

/// Receiving end. Dropping it ends the trace.
#[derive(Debug)]
pub(crate) struct TraceLines {
    pub(crate) receiver: Receiver<String>,
    state: Arc<TraceState>,
}

impl TraceSink {
    /// Sends a line. It is dropped and counted if the operator is slow.
    pub(crate) fn send<const N: usize>(&self, event: &str, members: [(&str, Value); N]) {
        if self.sender.try_send(trace_line(event, members)).is_err() {
            self.state.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns `true` after the operator has left.
    pub(crate) fn is_closed(&self) -> bool {
        self.state.closed.load(Ordering::Relaxed)
    }
}

impl TraceLines {
    /// Returns the number of lines dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.state.dropped.swap(0, Ordering::Relaxed)
    }
}

impl Drop for TraceLines {
    fn drop(&mut self) {
        self.state.closed.store(true, Ordering::Relaxed);
    }
}

/// Returns a line: time, event and members.
pub(crate) fn trace_line<const N: usize>(event: &str, members: [(&str, Value); N]) -> String {
    let mut line = Map::new();
    line.insert("ts".to_owned(), now().into());
    line.insert("event".to_owned(), event.into());
    line.extend(members.map(|(name, value)| (name.to_owned(), value)));
    format!("{}\n", Value::Object(line))
}

/// Returns the current time in UTC with milliseconds.
fn now() -> String {
    time_text(unix_ms())
}

/// Returns Unix time in milliseconds.
pub(crate) fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}

/// Returns a Unix time in milliseconds as text in UTC.
pub(crate) fn time_text(unix_ms: u64) -> String {
    let ms = i64::try_from(unix_ms).ok();
    let at = ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    format!("{:.3}", at.unwrap_or(Timestamp::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_slow_operators_are_counted() {
        let (sink, lines) = trace_channel();
        for number in 0..LINES_MAX + 3 {
            sink.send("record", [("number", number.into())]);
        }
        assert_eq!((lines.take_dropped(), lines.take_dropped()), (3, 0));
        let first = lines.receiver.recv().unwrap();
        assert!(
            first.contains("\"number\":0") && first.ends_with("}\n"),
            "{first}"
        );
        assert_eq!(time_text(1_800_000_000_007), "2027-01-15T08:00:00.007Z");
        assert!(!sink.is_closed());
        drop(lines);
        assert!(sink.is_closed());
        sink.send("record", []);
    }
}
