//! The driver of librdkafka that this program has in itself: `docs/drivers.md` from the other side.
//!
//! It uses the `rdkafka` crate as it is, not this project's own wrappers: what is measured is the
//! library as others would use it. It runs as a child process, under the same rules as other drivers.

mod consume;
mod deadline;
mod error;
mod histogram;
mod produce;
mod reader;
mod roundtrip;
mod sender;
mod session;
mod settings;
mod steady;
mod usage;
mod values;

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::{Duration, Instant};

use crate::{DriverCommand, DriverRequestLine};
use serde::Serialize;
use serde_json::{Value, json};

use deadline::Deadline;
use error::CommandError;
use session::DriverSession;

/// Answers the commands that come on standard input until it ends or one says `bye`. A command that then
/// still waits for a broker is left behind.
///
/// # Errors
/// Standard output is gone.
pub fn run() -> io::Result<()> {
    let halt = Arc::new(AtomicBool::new(false));
    let (sender, lines) = mpsc::sync_channel(LINES_QUEUED_MAX);
    // Room for both messages there ever are.
    let (input_over, over) = mpsc::sync_channel(2);
    let (work_over, halted) = (input_over.clone(), Arc::clone(&halt));
    spawn("commands", move || {
        read_lines(io::stdin(), &sender);
        halted.store(true, Ordering::Relaxed);
        drop(sender);
        // Fails only when nobody waits any more.
        let _ = input_over.send(SessionEnd::Input);
    })?;
    spawn("work", move || {
        let result = serve(&lines, &mut io::stdout(), &halt);
        let _ = work_over.send(SessionEnd::Work(result));
    })?;
    if let Ok(SessionEnd::Work(result)) = over.recv() {
        return result;
    }
    match over.recv_timeout(END_WITHIN) {
        Ok(SessionEnd::Work(result)) => result,
        _ => Ok(()),
    }
}

/// What has ended.
enum SessionEnd {
    Input,
    Work(io::Result<()>),
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let named = thread::Builder::new().name(name.to_owned());
    named.spawn(work).map(|_| ())
}

fn serve(lines: &Receiver<Vec<u8>>, output: &mut impl Write, halt: &AtomicBool) -> io::Result<()> {
    let mut session = DriverSession::new();
    for line in lines {
        let came = Instant::now();
        let (id, request) = understand(&line);
        let request = match request {
            Ok(request) => request,
            Err(text) => {
                say(output, &refusal(&id, &text))?;
                continue;
            }
        };
        let timeout = Deadline::new(came, Duration::from_millis(request.timeout_ms), halt);
        let mut events = Ok(());
        let answer = session.answer(&request.command, &timeout, &mut |second| {
            let line = with(second, &[("id", id.clone()), ("event", json!("second"))]);
            if events.is_ok() {
                events = say(output, &line);
            }
        });
        events?;
        let line = match answer {
            Ok(fields) => with(&fields, &[("id", id), ("ok", json!(true))]),
            Err(fault) => refusal(&id, &fault.to_string()),
        };
        say(output, &line)?;
        if matches!(request.command, DriverCommand::Bye) {
            break;
        }
    }
    Ok(())
}

/// The id to answer with, and what is asked.
fn understand(line: &[u8]) -> (Value, Result<DriverRequestLine, String>) {
    let value: Value = match serde_json::from_slice(line) {
        Ok(value) => value,
        Err(error) => return (Value::Null, Err(format!("no JSON: {error}"))),
    };
    let id = match value.get("id") {
        Some(id) if id.is_u64() || id.is_i64() => id.clone(),
        _ => return (Value::Null, Err("no id that is an integer".to_owned())),
    };
    let request = serde_json::from_value(value).map_err(|error| error.to_string());
    (id, request)
}

fn refusal(id: &Value, text: &str) -> Value {
    json!({"id": id, "ok": false, "error": text})
}

/// What `fields` has, and more.
fn with(fields: &impl Serialize, more: &[(&str, Value)]) -> Value {
    // Invariant: answers hold nothing that JSON can not express.
    let mut value = serde_json::to_value(fields).unwrap_or_default();
    if let Some(object) = value.as_object_mut() {
        object.extend(
            more.iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone())),
        );
    }
    value
}

fn say(output: &mut impl Write, line: &Value) -> io::Result<()> {
    let mut line = line.to_string();
    line.push('\n');
    output.write_all(line.as_bytes())?;
    output.flush()
}

/// Hands lines on until the input ends; one without an end is the end.
fn read_lines(input: impl Read, lines: &SyncSender<Vec<u8>>) {
    let mut input = BufReader::new(input);
    loop {
        let mut line = Vec::new();
        let read = (&mut input)
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line);
        let is_whole = line.pop() == Some(b'\n');
        if read.is_err() || !is_whole || lines.send(line).is_err() {
            return;
        }
    }
}

/// What an answer to a command is made of, or why there is none.
type CommandOutcome<T> = Result<T, CommandError>;

/// Commands are small.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// Commands that wait for the one before them.
const LINES_QUEUED_MAX: usize = 16;
/// After the end of the input.
const END_WITHIN: Duration = Duration::from_millis(1500);

#[cfg(test)]
mod tests {
    use super::*;

    fn session(commands: &[&str]) -> Vec<Value> {
        let (sender, lines) = mpsc::sync_channel(LINES_QUEUED_MAX);
        for command in commands {
            sender.send(command.as_bytes().to_vec()).expect("room");
        }
        drop(sender);
        let mut output = Vec::new();
        serve(&lines, &mut output, &AtomicBool::new(false)).expect("writes to memory");
        let text = String::from_utf8(output).expect("JSON is text");
        let lines = text.lines().map(serde_json::from_str);
        lines.collect::<Result<_, _>>().expect("JSON")
    }

    #[test]
    fn it_says_what_it_is_and_what_it_does_not_understand() {
        let said = session(&[
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
        assert_eq!(said.len(), 8, "{said:#?}");
        assert_eq!(said[0]["library"], "librdkafka");
        assert_eq!(said[0]["capabilities"].as_array().expect("a list").len(), 9);
        for (place, id) in [
            (1, Value::Null),
            (2, Value::Null),
            (3, json!(-3)),
            (4, json!(4)),
        ] {
            assert_eq!(said[place]["id"], id, "{said:#?}");
            assert_eq!(said[place]["ok"], false);
            assert!(said[place]["error"].is_string());
        }
        assert_eq!(said[4]["error"], "missing field `len`");
        assert_eq!(said[5], json!({"id": 5, "ok": true}));
        assert!(said[6]["rss_kb"].as_u64().expect("a number") > 0);
        assert_eq!(said[6]["heap_kb"], Value::Null);
        assert_eq!(said[7], json!({"id": 7, "ok": true}));
    }

    #[test]
    fn work_before_configure_is_refused() {
        let said = session(&[
            r#"{"id":1,"op":"produce","topic":"t","len":1,"count":1,"seed":1,"state":"warm","per_record":false}"#,
            r#"{"id":2,"op":"consume","topic":"t","len":1,"count":1,"seed":1,"via":"assign","verify":false,"commit":false}"#,
        ]);
        for line in said {
            assert_eq!(line["error"], "configure has to come first");
        }
    }

    #[test]
    fn a_broker_that_does_not_answer_is_given_up_in_time() {
        let said = session(&[
            r#"{"id":1,"op":"configure","bootstrap":"127.0.0.1:1","profile":"p","settings":{}}"#,
            r#"{"id":2,"timeout_ms":300,"op":"produce","topic":"t","len":1,"count":1,"seed":1,"state":"cold","per_record":false}"#,
            r#"{"id":3,"timeout_ms":300,"op":"consume","topic":"t","len":1,"count":1,"seed":1,"via":"assign","verify":false,"commit":false}"#,
            r#"{"id":4,"timeout_ms":300,"op":"produce","topic":"t","len":1,"count":1,"seed":1,"state":"warm","per_record":false}"#,
        ]);
        assert_eq!(said[0]["ok"], true, "{said:#?}");
        for line in &said[1..] {
            assert_eq!(line["ok"], false, "{line}");
        }
        let text = said[1]["error"].as_str().expect("text");
        assert!(text.starts_with("0 of 1 records delivered"), "{text}");
    }
}
