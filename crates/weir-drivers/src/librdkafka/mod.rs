//! Built-in driver of librdkafka, which implements the driver side of `docs/drivers.md`.
//!
//! It uses the `rdkafka` crate directly, without Weir's wrappers, to measure the library as other
//! programs use it. It runs as a child process, under the same rules as other drivers.

mod clock;
mod commands;
mod consume;
mod copy;
mod deadline;
mod histogram;
mod produce;
mod reader;
mod roundtrip;
mod sender;
mod session;
mod settings;
mod steady;
mod token;
mod values;

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};

use super::lines::{Line, Lines};
use super::protocol::{DriverCommand, ReceivedLine};
use deadline::Deadline;
use session::DriverSession;

/// Executes the commands from standard input until it ends or `bye` arrives. A command that still
/// waits for a broker is then abandoned.
pub fn run() -> io::Result<()> {
    let halt = Arc::new(AtomicBool::new(false));
    let (sender, lines) = mpsc::sync_channel(LINES_QUEUED_MAX);
    // Capacity for one event of each thread: `None` at the end of the input.
    let (input_events, events) = mpsc::sync_channel(2);
    let (work_events, halted) = (input_events.clone(), Arc::clone(&halt));
    spawn("commands", move || {
        for line in Lines::new(io::stdin(), LINE_BYTES_MAX) {
            let Line::Whole(line) = line else { break };
            if sender.send(line).is_err() {
                break;
            }
        }
        halted.store(true, Ordering::Relaxed);
        drop(sender);
        // Fails only if the main thread no longer waits.
        let _ = input_events.send(None);
    })?;
    spawn("work", move || {
        let result = serve(lines, &mut io::stdout(), &halt);
        let _ = work_events.send(Some(result));
    })?;
    if let Ok(Some(result)) = events.recv() {
        return result;
    }
    events
        .recv_timeout(EXIT_TIMEOUT)
        .ok()
        .flatten()
        .unwrap_or(Ok(()))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let named = thread::Builder::new().name(name.to_owned());
    named.spawn(work).map(|_| ())
}

fn serve(
    lines: impl IntoIterator<Item = Vec<u8>>,
    output: &mut impl Write,
    halt: &AtomicBool,
) -> io::Result<()> {
    let mut session = DriverSession::default();
    for line in lines {
        let received = Instant::now();
        let value = serde_json::from_slice::<Value>(&line);
        let id = value.as_ref().ok().and_then(|value| value.get("id"));
        let id = id.filter(|id| id.is_u64() || id.is_i64()).cloned();
        let id = id.unwrap_or_default();
        let request = match value {
            Err(error) => Err(format!("not JSON: {error}")),
            Ok(_) if id.is_null() => Err("id is missing or not an integer".to_owned()),
            Ok(value) => {
                serde_json::from_value::<ReceivedLine>(value).map_err(|error| error.to_string())
            }
        };
        let mut is_over = false;
        let mut events = Ok(());
        let response = request.and_then(|request| {
            is_over = request.command == DriverCommand::Bye;
            let timeout = Duration::from_millis(request.timeout_ms);
            let deadline = Deadline::new(received, timeout, halt);
            let mut on_second = |second: &_| {
                if events.is_ok() {
                    let line = with(second, [("id", id.clone()), ("event", json!("second"))]);
                    events = write_line(output, &line);
                }
            };
            let response = session.execute(request.command, &deadline, &mut on_second);
            response.map_err(|error| error.to_string())
        });
        events?;
        let line = match response {
            Ok(fields) => with(&fields, [("id", id), ("ok", json!(true))]),
            Err(text) => json!({"id": id, "ok": false, "error": text}),
        };
        write_line(output, &line)?;
        if is_over {
            break;
        }
    }
    Ok(())
}

fn with(fields: &impl Serialize, more: [(&str, Value); 2]) -> Value {
    // Invariant: responses have no values that JSON cannot represent.
    let mut value = serde_json::to_value(fields).unwrap_or_default();
    for (name, member) in more {
        value[name] = member;
    }
    value
}

fn write_line(output: &mut impl Write, line: &Value) -> io::Result<()> {
    writeln!(output, "{line}")?;
    output.flush()
}

const LINE_BYTES_MAX: u64 = 1 << 20;
const LINES_QUEUED_MAX: usize = 16;
/// Maximum time from the end of the input to the exit.
const EXIT_TIMEOUT: Duration = Duration::from_millis(1500);

#[cfg(test)]
mod tests {
    use super::*;

    fn session(commands: &[&str]) -> Vec<Value> {
        let (sender, lines) = mpsc::sync_channel(LINES_QUEUED_MAX);
        for command in commands {
            sender.send(command.as_bytes().to_vec()).expect("queued");
        }
        drop(sender);
        let mut output = Vec::new();
        serve(&lines, &mut output, &AtomicBool::new(false)).expect("writes to memory");
        let text = String::from_utf8(output).expect("JSON is text");
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("JSON")
    }

    #[test]
    fn hello_and_invalid_commands_get_responses() {
        let responses = session(&[
            r#"{"id":1,"op":"hello","protocol":1,"timeout_ms":1000}"#,
            "hello",
            r#"{"op":"gc"}"#,
            r#"{"id":-3,"op":"dance"}"#,
            r#"{"id":4,"op":"produce","topic":"t"}"#,
            r#"{"id":5,"op":"gc"}"#,
            r#"{"id":6,"op":"stats"}"#,
            r#"{"id":7,"op":"bye"}"#,
            r#"{"id":8,"op":"gc"}"#,
        ]);
        assert_eq!(responses.len(), 8, "{responses:#?}");
        assert_eq!(responses[0]["library"], "librdkafka");
        assert_eq!(responses[0]["capabilities"], json!(crate::CAPABILITIES));
        for (index, id) in [
            (1, Value::Null),
            (2, Value::Null),
            (3, json!(-3)),
            (4, json!(4)),
        ] {
            assert_eq!(responses[index]["id"], id, "{responses:#?}");
            assert_eq!(responses[index]["ok"], false);
            assert!(responses[index]["error"].is_string());
        }
        assert_eq!(responses[4]["error"], "missing field `state`");
        assert_eq!(responses[5], json!({"id": 5, "ok": true}));
        assert!(responses[6]["rss_kb"].as_u64().expect("a number") > 0);
        assert_eq!(responses[6]["heap_kb"], Value::Null);
        assert_eq!(responses[7], json!({"id": 7, "ok": true}));
    }

    #[test]
    fn commands_before_configure_are_rejected() {
        let responses = session(&[
            concat!(
                r#"{"id":1,"op":"produce","topic":"t","len":1,"count":1,"seed":1,"#,
                r#""state":"warm","per_record":false}"#
            ),
            concat!(
                r#"{"id":2,"op":"consume","topic":"t","len":1,"count":1,"seed":1,"#,
                r#""via":"assign","verify":false,"commit":false}"#
            ),
        ]);
        for line in responses {
            assert_eq!(line["error"], "configure must precede this command");
        }
    }

    #[test]
    fn unreachable_broker_times_out() {
        let responses = session(&[
            r#"{"id":1,"op":"configure","bootstrap":"127.0.0.1:1","profile":"p","settings":{}}"#,
            concat!(
                r#"{"id":2,"timeout_ms":300,"op":"produce","topic":"t","len":1,"count":1,"#,
                r#""seed":1,"state":"cold","per_record":false}"#
            ),
            concat!(
                r#"{"id":3,"timeout_ms":300,"op":"consume","topic":"t","len":1,"count":1,"#,
                r#""seed":1,"via":"assign","verify":false,"commit":false}"#
            ),
            concat!(
                r#"{"id":4,"timeout_ms":300,"op":"produce","topic":"t","len":1,"count":1,"#,
                r#""seed":1,"state":"warm","per_record":false}"#
            ),
        ]);
        assert_eq!(responses[0]["ok"], true, "{responses:#?}");
        for line in &responses[1..] {
            assert_eq!(line["ok"], false, "{line}");
        }
        let text = responses[1]["error"].as_str().expect("text");
        assert!(text.starts_with("0 of 1 records delivered"), "{text}");
    }
}
