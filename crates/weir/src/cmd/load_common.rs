//! What the `weir load` commands share: the status line, the schedule of a run for people, errors.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_load::clock::Clock;
use weir_load::delivery::DeliverySummary;
use weir_load::error::{ErrorClass, LoadError};
use weir_load::worker::CoordinatorChannel;
use weir_load::worker::protocol::{Schedule, WorkerEvent, WorkerProgress};

use crate::cmd::terminal::{self, Style, TerminalArea, Text};
use crate::exit::{Exit, Failure};

/// One line that is rewritten each second on a terminal, and added elsewhere.
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

    /// Shows `text` in place of what was shown before.
    pub(crate) fn show(&mut self, text: &dyn Display) {
        if !self.terminal {
            println!("{text}");
            return;
        }
        // A line that is too long would go on in the next row, and stay there.
        let columns = terminal::size().columns.saturating_sub(1);
        let mut line = Text::new(columns, false);
        line.push(Style::Plain, &text.to_string());
        self.screen.show(&[line]);
        self.open = true;
    }

    /// Leaves the line as it is; what follows begins below it.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.open) {
            self.screen.leave();
        }
    }
}

/// Progress events in a row: differences per second.
#[derive(Default)]
pub(crate) struct Progressing {
    last: WorkerProgress,
}

impl Progressing {
    /// Counters begin at zero at this instant.
    pub(crate) fn begin(&mut self, unix_ns: u64) {
        self.last.unix_ns = unix_ns;
    }

    /// Looks at the next progress: its counters and their change per second.
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

/// From one progress to the next.
pub(crate) struct ProgressDelta {
    now: WorkerProgress,
    last: WorkerProgress,
    elapsed_s: f64,
    first: bool,
}

impl ProgressDelta {
    /// Running total of a counter.
    pub(crate) fn total(&self, name: &str) -> u64 {
        self.now.counters.get(name).copied().unwrap_or(0)
    }

    /// What a reader of records has done in this second, as a status line.
    pub(crate) fn status(&self, begun: &str, what: &str) -> String {
        format!(
            "{begun} {}/{}  {:.0} {what}/s  p50 {}  p99 {}  {:.1} Mbit/s  busy {} %  errors {}",
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

    /// Change of a counter per second; 0 at the first progress, which has no begin.
    pub(crate) fn per_s(&self, name: &str) -> f64 {
        let before = self.last.counters.get(name).copied().unwrap_or(0);
        if self.first || self.elapsed_s <= 0.0 {
            return 0.0;
        }
        self.total(name).saturating_sub(before) as f64 / self.elapsed_s
    }
}

/// From now on everything counts, for `duration` or until told to stop.
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

/// Runs a worker on standard input and output; an error is also its last event.
pub(crate) fn run_worker<T>(
    work: impl FnOnce(&CoordinatorChannel) -> Result<T, LoadError>,
) -> Result<Exit, Failure> {
    let link = CoordinatorChannel::stdio();
    match work(&link) {
        Ok(_) => Ok(Exit::Fine),
        Err(error) => {
            link.events.send(&WorkerEvent::Error {
                message: error.to_string(),
            });
            Err(failure(error))
        }
    }
}

/// The exit code an error stands for.
pub(crate) fn failure(error: LoadError) -> Failure {
    let exit = match error.fault() {
        ErrorClass::Usage => Exit::Usage,
        ErrorClass::Target => Exit::Unreachable,
        ErrorClass::Instrument => Exit::Instrument,
    };
    Failure::new(exit, error)
}

/// The event as a line of JSON.
pub(crate) fn print_json(event: &WorkerEvent) {
    match serde_json::to_string(event) {
        Ok(line) => println!("{line}"),
        Err(error) => tracing::error!(%error, "event not printed"),
    }
}

/// How a run ends whose result is fine: Ctrl-C before its time is told apart.
pub(crate) fn exit_for(stop: &AtomicBool, has_end: bool) -> Exit {
    if has_end && stop.load(Ordering::Relaxed) {
        Exit::Interrupted
    } else {
        Exit::Fine
    }
}

/// Reads `KEY=VALUE`.
pub(crate) fn key_value(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or("write KEY=VALUE")?;
    Ok((key.trim().to_owned(), value.trim().to_owned()))
}

/// Returns where latencies count from if that is known to milliseconds only; `None` for the stamp.
pub(crate) fn latency_source(summary: &DeliverySummary) -> Option<String> {
    if summary.timed_by_timestamp == 0 {
        let is_text = summary.latency_resolution_ns > 1;
        return is_text.then(|| "from the text of the due time: resolution 1 ms".to_owned());
    }
    let who = match summary.log_append_time {
        Some(true) => "LogAppendTime, set by the broker",
        Some(false) => "CreateTime, set by the producer",
        None => "CreateTime or LogAppendTime, by message.timestamp.type of the topic",
    };
    Some(format!(
        "from the record timestamp ({who}) in {} updates: resolution 1 ms",
        summary.timed_by_timestamp
    ))
}

/// Microseconds for people; a dash without a value.
pub(crate) fn microseconds(us: Option<u64>) -> String {
    us.map_or_else(|| "–".to_owned(), |us| format!("{us} us"))
}

/// Nanoseconds for people: microseconds below 10 ms, else milliseconds.
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
        let mut progressing = Progressing::default();
        let none = progressing
            .next(&WorkerProgress::default())
            .status("connected", "updates");
        assert!(none.contains("p50 –  p99 –"), "{none}");
        let some = WorkerProgress {
            p50_us: Some(0),
            p99_us: Some(7),
            ..WorkerProgress::default()
        };
        let some = progressing.next(&some).status("connected", "updates");
        assert!(some.contains("p50 0 us  p99 7 us"), "{some}");
    }
}
