//! The log of the process on standard error, as text or as JSON lines.

use std::fmt;
use std::fs::File;
use std::os::fd::AsFd;
use std::time::Duration;

use clap::ValueEnum;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields, MakeWriter};
use tracing_subscriber::registry::LookupSpan;
use weir_net::log::LogWriter;

/// Value of `--log-format`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// Time, level, target, message and fields
    Text,
    /// One JSON object per line
    Json,
}

/// The log of the process. Dropping it waits up to [`FLUSH_TIMEOUT`] until all lines are written.
#[derive(Debug)]
pub(crate) struct Log(Option<LogWriter>);

impl Drop for Log {
    fn drop(&mut self) {
        if let Some(writer) = &self.0 {
            // A stalled reader of standard error must not delay the exit.
            let _ = writer.flush(FLUSH_TIMEOUT);
        }
    }
}

const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Starts logging to standard error on a separate thread. Standard output is for results.
pub(crate) fn start(filter: &str, format: LogFormat) -> Log {
    let filter = EnvFilter::try_new(filter).unwrap_or_else(|error| {
        eprintln!("weir: log filter \"{filter}\" ignored: {error}");
        EnvFilter::new("info")
    });
    match log_writer() {
        Ok(writer) => {
            let lines = writer.clone();
            subscribe(filter, format, move || lines.clone());
            Log(Some(writer))
        }
        Err(error) => {
            eprintln!("weir: log thread not started, logging from the calling threads: {error}");
            subscribe(filter, format, std::io::stderr);
            Log(None)
        }
    }
}

fn subscribe<W>(filter: EnvFilter, format: LogFormat, writer: W)
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(writer);
    match format {
        LogFormat::Text => {
            let is_terminal = std::io::IsTerminal::is_terminal(&std::io::stderr());
            builder.with_ansi(is_terminal).init();
        }
        LogFormat::Json => builder.event_format(JsonLine).init(),
    }
}

/// Starts the log thread on a duplicate of the standard error file descriptor.
///
/// With `std::io::stderr` the thread would hold its lock, and a panic elsewhere could not print.
fn log_writer() -> std::io::Result<LogWriter> {
    let stderr = std::io::stderr().as_fd().try_clone_to_owned()?;
    LogWriter::start(File::from(stderr))
}

/// Writes an event as the JSON object that docs/logging.md documents.
struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut time = String::new();
        SystemTime.format_time(&mut Writer::new(&mut time))?;
        writeln!(writer, "{}", object_of(event, time))
    }
}

fn object_of(event: &Event<'_>, time: String) -> Value {
    let mut fields = Fields::default();
    event.record(&mut fields);
    let message = fields.0.remove("message").unwrap_or_default();
    let metadata = event.metadata();
    serde_json::json!({
        "time": time,
        "level": metadata.level().as_str().to_lowercase(),
        "target": metadata.target(),
        "message": message,
        "fields": fields.0,
    })
}

/// The fields of an event. Texts, and values of other types, are strings.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn insert(&mut self, field: &Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.insert(field, format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.insert(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.insert(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.insert(field, value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.insert(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.insert(field, value);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl std::io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn event_becomes_one_object_per_line() {
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_writer(move || writer.clone())
            .event_format(JsonLine)
            .finish();
        tracing::subscriber::with_default(subscriber, || {
            let error = "line one\nline \"two\"";
            tracing::warn!(broker = "b:9092", %error, failures = 2, is_last = true, "not ready");
            tracing::info!("ready");
        });
        let written = lines.0.lock().unwrap().clone();
        let written = String::from_utf8(written).unwrap();
        let mut objects = written.lines().map(|line| {
            let mut object: Value = serde_json::from_str(line).unwrap();
            let time = object["time"].take();
            assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
            object
        });
        let target = module_path!();
        let first = serde_json::json!({
            "time": null, "level": "warn", "target": target, "message": "not ready",
            "fields": {
                "broker": "b:9092", "error": "line one\nline \"two\"", "failures": 2,
                "is_last": true
            },
        });
        assert_eq!(objects.next(), Some(first));
        let second = serde_json::json!({
            "time": null, "level": "info", "target": target, "message": "ready", "fields": {},
        });
        assert_eq!(objects.next(), Some(second));
        assert_eq!(objects.next(), None);
    }
}
