//! Shared by the `weir load` commands: status line, schedules of interactive runs, errors.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_load::clock::Clock;
use weir_load::delivery::DeliverySummary;
use weir_load::error::LoadError;
use weir_load::worker::CoordinatorChannel;
use weir_load::worker::protocol::{Schedule, WorkerEvent, WorkerProgress};

use crate::cmd::terminal::{self, Style, TerminalArea, Text};
use crate::exit::{Exit, Failure};

/// A status line that is rewritten on a terminal; otherwise each status is printed as a new line.
pub(crate) struct StatusLine {
    terminal: bool,
    screen: TerminalArea,
    open: bool,
}

impl StatusLine {
    pub(crate) fn new() -> Self {
        Self {
            terminal: terminal::is_terminal(),
            screen: TerminalArea::new(),
            open: false,
        }
    }

    /// Replaces the status with `text`.
    pub(crate) fn show(&mut self, text: &dyn Display) {
        if !self.terminal {
            println!("{text}");
            return;
        }
        // A longer line would wrap, and its second row would not be erased.
        let columns = terminal::size().columns.saturating_sub(1);
        let mut line = Text::new(columns, false);
        line.push(Style::Plain, &text.to_string());
        self.screen.show(&[line]);
        self.open = true;
    }

    /// Keeps the last status; further output appears below it.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            self.screen.leave();
        }
    }
}

/// Computes rates from successive progress events.
#[derive(Default)]
pub(crate) struct ProgressTracker {
    last: WorkerProgress,
}

impl ProgressTracker {
    /// Sets the time at which all counters are zero, in nanoseconds since 1970.
    pub(crate) fn start(&mut self, unix_ns: u64) {
        self.last.unix_ns = unix_ns;
    }

    /// Returns the counters of the next progress event and their change since the last one.
    pub(crate) fn next(&mut self, progress: &WorkerProgress) -> ProgressDelta {
        let last = std::mem::replace(&mut self.last, progress.clone());
        ProgressDelta {
            elapsed_s: progress.unix_ns.saturating_sub(last.unix_ns) as f64 / 1e9,
            first: last.unix_ns == 0,
            now: progress.clone(),
            last,
        }
    }
}

/// Change between two progress events.
pub(crate) struct ProgressDelta {
    now: WorkerProgress,
    last: WorkerProgress,
    elapsed_s: f64,
    first: bool,
}

impl ProgressDelta {
    /// Returns the total of a counter.
    pub(crate) fn total(&self, name: &str) -> u64 {
        self.now.counters.get(name).copied().unwrap_or(0)
    }

    /// Returns a status line for clients in `state` that receive `unit`, for example records.
    pub(crate) fn status(&self, state: &str, unit: &str) -> String {
        format!(
            "{state} {}/{}  {:.0} {unit}/s  p50 {}  p99 {}  {:.1} Mbit/s  busy {} %  errors {}",
            self.total("connected"),
            self.total("clients"),
            self.per_s("updates"),
            microseconds(self.now.p50_us),
            microseconds(self.now.p99_us),
            self.per_s("bytes_received") * 8.0 / 1e6,
            self.total("busy_permille") / 10,
            self.total("errors"),
        )
    }

    /// Returns the change of a counter per second; 0 for the first event, whose start is unknown.
    pub(crate) fn per_s(&self, name: &str) -> f64 {
        let previous = self.last.counters.get(name).copied().unwrap_or(0);
        if self.first || self.elapsed_s <= 0.0 {
            return 0.0;
        }
        self.total(name).saturating_sub(previous) as f64 / self.elapsed_s
    }
}

/// Returns a schedule whose measured window starts now and ends after `duration` or on stop.
pub(crate) fn schedule_from_now(clock: &Clock, duration: Option<Duration>) -> Schedule {
    let start_unix_ns = clock.now_unix_ns();
    let length_ns = duration.and_then(|duration| u64::try_from(duration.as_nanos()).ok());
    let until = length_ns.map_or(u64::MAX, |ns| start_unix_ns.saturating_add(ns));
    Schedule {
        start_unix_ns,
        measure_from_unix_ns: start_unix_ns,
        measure_until_unix_ns: until,
        stop_unix_ns: until,
    }
}

/// Runs a worker on standard input and output. An error is also sent as the last event.
pub(crate) fn run_worker<T>(
    work: impl FnOnce(&CoordinatorChannel) -> Result<T, LoadError>,
) -> Result<Exit, Failure> {
    let link = CoordinatorChannel::stdio();
    match work(&link) {
        Ok(_) => Ok(Exit::Success),
        Err(error) => {
            link.events.error(error.to_string(), None);
            Err(failure(error))
        }
    }
}

/// Returns the failure for an error of a load worker.
pub(crate) fn failure(error: LoadError) -> Failure {
    Failure::new(error.class().into(), error)
}

/// Prints an event as a line of JSON.
pub(crate) fn print_json(event: &WorkerEvent) {
    match serde_json::to_string(event) {
        Ok(line) => println!("{line}"),
        Err(error) => tracing::error!(%error, "event not printed"),
    }
}

/// Returns the exit code of a run without errors.
///
/// A stop by the user counts as an interruption if the run has a limit of its own (`has_end`).
pub(crate) fn exit_for(stop: &AtomicBool, has_end: bool) -> Exit {
    if has_end && stop.load(Ordering::Relaxed) {
        Exit::Interrupted
    } else {
        Exit::Success
    }
}

/// Parses `KEY=VALUE`.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("must be KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Returns a description of the due times if their resolution is 1 ms; `None` for the stamp.
pub(crate) fn latency_source(summary: &DeliverySummary) -> Option<String> {
    if summary.timed_by_timestamp == 0 {
        let is_text = summary.latency_resolution_ns > 1;
        return is_text.then(|| "from the text of the due time: resolution 1 ms".to_owned());
    }
    let kind = match summary.log_append_time {
        Some(true) => "LogAppendTime, set by the broker",
        Some(false) => "CreateTime, set by the producer",
        None => "CreateTime or LogAppendTime, by message.timestamp.type of the topic",
    };
    Some(format!(
        "from the record timestamp ({kind}) in {} updates: resolution 1 ms",
        summary.timed_by_timestamp
    ))
}

/// Formats a time as microseconds; a dash if there is no value.
pub(crate) fn microseconds(us: Option<u64>) -> String {
    us.map_or_else(|| "–".to_owned(), |us| format!("{us} us"))
}

/// Formats a time in nanoseconds as microseconds below 10 ms, otherwise as milliseconds.
pub(crate) fn time(ns: u64) -> String {
    match ns {
        0..10_000_000 => format!("{} us", ns / 1000),
        _ => format!("{:.1} ms", ns as f64 / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latency_source_names_kind_and_resolution() {
        let mut summary = DeliverySummary {
            latency_resolution_ns: 1,
            ..DeliverySummary::default()
        };
        assert_eq!(latency_source(&summary), None);
        summary.latency_resolution_ns = 1_000_000;
        assert!(latency_source(&summary).unwrap().contains("text"));
        summary.timed_by_timestamp = 7;
        for (set, kind) in [
            (Some(true), "LogAppendTime,"),
            (Some(false), "CreateTime,"),
            (None, " or "),
        ] {
            summary.log_append_time = set;
            let text = latency_source(&summary).unwrap();
            assert!(
                text.contains(kind) && text.contains("in 7 updates: resolution 1 ms"),
                "{text}"
            );
        }
    }

    #[test]
    fn missing_samples_are_a_dash_in_status_lines() {
        let mut tracker = ProgressTracker::default();
        let none = tracker
            .next(&WorkerProgress::default())
            .status("connected", "updates");
        assert!(none.contains("p50 –  p99 –"), "{none}");
        let some = WorkerProgress {
            p50_us: Some(0),
            p99_us: Some(7),
            ..WorkerProgress::default()
        };
        let some = tracker.next(&some).status("connected", "updates");
        assert!(some.contains("p50 0 us  p99 7 us"), "{some}");
    }
}
