//! Shared by the `weir load` commands: output options, progress display, workers, summaries.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::ensure;
use clap::Args;
use weir_load::clock::Clock;
use weir_load::delivery::DeliverySummary;
use weir_load::units::parse_duration;
use weir_load::worker::CoordinatorChannel;
use weir_load::worker::protocol::{Schedule, WorkerCommand, WorkerEvent, WorkerProgress};

use crate::cmd::summary_file::SummaryArgs;
use crate::cmd::terminal::{self, TerminalArea};
use crate::exit::{Exit, Failure};

#[derive(Debug, Args)]
pub(crate) struct OutputArgs {
    /// Print events and the result as JSON lines
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) summary: SummaryArgs,
    /// Read commands from standard input and write events to standard output
    #[arg(long, conflicts_with_all = ["json", "summary_json"])]
    pub(crate) worker: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReceiverOutputArgs {
    /// Print only the report of the published programs
    #[arg(long, conflicts_with = "json")]
    pub(crate) published_report: bool,
    /// Interval of the published report, which is also printed at the end
    #[arg(long, value_name = "DURATION", value_parser = report_interval, default_value = "60s",
          requires = "published_report")]
    report_interval: Duration,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

impl ReceiverOutputArgs {
    pub(crate) fn interval(&self) -> Option<Duration> {
        self.published_report.then_some(self.report_interval)
    }

    pub(crate) fn display(&self, duration: Option<Duration>) -> ProgressDisplay {
        ProgressDisplay {
            quiet: self.output.json || self.published_report,
            ..ProgressDisplay::new(self.output.json, duration)
        }
    }
}

fn report_interval(text: &str) -> anyhow::Result<Duration> {
    let interval = parse_duration(text).map_err(anyhow::Error::msg)?;
    ensure!(interval >= REPORT_INTERVAL_MIN, "must be at least 1s");
    Ok(interval)
}

const REPORT_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// Shows the events of a worker: as JSON lines, or progress in a status line.
pub(crate) struct ProgressDisplay {
    json: bool,
    /// Neither a status nor a summary is printed.
    pub(crate) quiet: bool,
    duration: Option<Duration>,
    clock: Clock,
    /// Status line; on a terminal it is rewritten.
    line: TerminalArea,
    pub(crate) last: WorkerProgress,
    pub(crate) started: bool,
    /// Sum (in thousandths) and number of the busy shares in the measured window.
    busy_permille: (u64, u64),
}

impl ProgressDisplay {
    pub(crate) fn new(json: bool, duration: Option<Duration>) -> Self {
        Self {
            json,
            quiet: json,
            duration,
            clock: Clock::start(),
            line: TerminalArea::default(),
            last: WorkerProgress::default(),
            started: false,
            busy_permille: (0, 0),
        }
    }

    /// Shows an event; `status` returns the status line of a progress event.
    ///
    /// Starts the measured window when the worker is ready, and returns the command for it.
    pub(crate) fn show(
        &mut self,
        event: &WorkerEvent,
        ready: &str,
        status: impl FnOnce(&ProgressDelta) -> String,
    ) -> Option<WorkerCommand> {
        if self.json {
            print_json(event);
        }
        match event {
            WorkerEvent::Progress(progress) => self.progress(progress, status),
            WorkerEvent::Report { text } if !self.json => println!("{text}"),
            WorkerEvent::Ready { connections, .. } => {
                if !ready.is_empty() {
                    self.print(&format_args!("{connections} {ready}"));
                }
                return Some(self.start());
            }
            _ => {}
        }
        None
    }

    fn start(&mut self) -> WorkerCommand {
        let schedule = schedule_from_now(&self.clock, self.duration);
        self.started = true;
        if self.last.unix_ns == 0 {
            // All counters are zero at the start.
            self.last.unix_ns = schedule.start_unix_ns;
        }
        WorkerCommand::Start(schedule)
    }

    fn progress(
        &mut self,
        progress: &WorkerProgress,
        status: impl FnOnce(&ProgressDelta) -> String,
    ) {
        let change = ProgressDelta {
            last: std::mem::replace(&mut self.last, progress.clone()),
            now: progress.clone(),
        };
        if self.started {
            self.busy_permille.0 += change.total("busy_permille");
            self.busy_permille.1 += 1;
        }
        if !self.quiet {
            let status = status(&change);
            match terminal::is_terminal() {
                // A longer line would wrap, and its second row would not be erased.
                true => self.line.show(&[terminal::size().fit(&status)]),
                false => println!("{status}"),
            }
        }
    }

    pub(crate) fn print(&mut self, text: &dyn Display) {
        if !self.quiet {
            self.end();
            println!("{text}");
        }
    }

    /// Keeps the last status; further output appears below it.
    pub(crate) fn end(&mut self) {
        self.line.leave();
    }

    /// Returns the mean busy share of the receiving thread, of the busiest one if there are
    /// several.
    pub(crate) fn busy_share(&self) -> f64 {
        self.busy_permille.0 as f64 / self.busy_permille.1.max(1) as f64 / 1000.0
    }

    /// Returns `true` if the latencies include delays of this tool, and prints that.
    pub(crate) fn is_saturated(&self, thread: &str, remedy: &str) -> bool {
        let is_saturated = self.busy_share() > BUSY_SHARE_MAX;
        if is_saturated {
            let percent = self.busy_share() * 100.0;
            eprintln!(
                "weir: the {thread} was busy for {percent:.0} % of the time, so latencies include \
                 delays of this tool; use {remedy} or a faster machine"
            );
        }
        is_saturated
    }
}

/// Above this busy share, latencies include delays of this tool.
const BUSY_SHARE_MAX: f64 = 0.9;

pub(crate) struct ProgressDelta {
    pub(crate) last: WorkerProgress,
    pub(crate) now: WorkerProgress,
}

impl ProgressDelta {
    pub(crate) fn total(&self, name: &str) -> u64 {
        count(&self.now, name)
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
        let elapsed_ns = self.now.unix_ns.saturating_sub(self.last.unix_ns);
        if self.last.unix_ns == 0 || elapsed_ns == 0 {
            return 0.0;
        }
        let change = self.total(name).saturating_sub(count(&self.last, name));
        change as f64 / (elapsed_ns as f64 / 1e9)
    }
}

fn count(progress: &WorkerProgress, name: &str) -> u64 {
    progress.counters.get(name).copied().unwrap_or(0)
}

/// Returns a schedule whose measured window starts now and ends after `duration` or on stop.
fn schedule_from_now(clock: &Clock, duration: Option<Duration>) -> Schedule {
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
pub(crate) fn run_worker<T, E: Into<Failure>>(
    work: impl FnOnce(&CoordinatorChannel) -> Result<T, E>,
) -> Result<Exit, Failure> {
    let link = CoordinatorChannel::stdio();
    work(&link).map_err(|error| {
        let failure = error.into();
        link.events.error(failure.to_string(), None);
        failure
    })?;
    Ok(Exit::Success)
}

fn print_json(event: &WorkerEvent) {
    match serde_json::to_string(event) {
        Ok(line) => println!("{line}"),
        Err(error) => tracing::error!(%error, "event not printed"),
    }
}

pub(crate) fn row(name: &str, value: impl Display) {
    println!("{name:<14} {value}");
}

pub(crate) fn print_deliveries(summary: &DeliverySummary, conflated: bool) {
    let is_settled = summary.settled && conflated;
    let lost = if is_settled { "" } else { " (gaps only)" };
    row("lost", format_args!("{}{lost}", summary.counts.lost));
    row("duplicated", summary.counts.duplicated);
    row("reordered", summary.counts.reordered);
    if conflated {
        row("conflated", summary.counts.conflated);
    }
    row("unchecked", summary.counts.unchecked);
    if let Some(backlog) = &summary.backlog {
        let (drain_s, per_s) = (backlog.drain_ns as f64 / 1e9, backlog.records_per_s());
        let records = backlog.records;
        let drain = format_args!("{records} deliveries, drained in {drain_s:.2} s, {per_s:.0}/s");
        row("backlog", drain);
    }
    row("disconnects", summary.disconnects);
}

pub(crate) fn print_errors(errors: &BTreeMap<String, u64>) {
    for (text, count) in errors {
        row("error", format_args!("{count} x {text}"));
    }
}

/// Returns the exit code of a run without errors.
///
/// A stop by the user counts as an interruption if the run has a limit of its own (`has_end`).
pub(crate) fn exit_for(stop: &AtomicBool, has_end: bool) -> Exit {
    match has_end && stop.load(Ordering::Relaxed) {
        true => Exit::Interrupted,
        false => Exit::Success,
    }
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
        let status = |now: WorkerProgress| {
            let last = WorkerProgress::default();
            ProgressDelta { last, now }.status("connected", "updates")
        };
        let none = status(WorkerProgress::default());
        assert!(none.contains("p50 –  p99 –"), "{none}");
        let some = WorkerProgress {
            p50_us: Some(0),
            p99_us: Some(7),
            ..WorkerProgress::default()
        };
        let some = status(some);
        assert!(some.contains("p50 0 us  p99 7 us"), "{some}");
    }
}
