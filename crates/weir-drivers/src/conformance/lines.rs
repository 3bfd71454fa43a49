//! Conformance checks that write lines to a driver directly: invalid lines, several commands at a
//! time, end of input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::outcome::{CheckFailure, CheckResult, ConformanceError, require};
use super::session::{COMMAND_TIMEOUT, CheckSession, settings};
use crate::DriverProgram;

/// Checks that invalid lines get error responses, and that responses have the order of the lines.
pub(super) fn invalid_lines(session: &mut CheckSession<'_>) -> CheckResult {
    let mut driver = LineSession::start(session.program)?;
    driver.send("this is no JSON\n[\n");
    // Several commands at the same time get responses in order.
    driver.send(
        "{\"id\":5,\"op\":\"dance\"}\n{\"id\":6,\"op\":\"gc\"}\n{\"id\":7,\"op\":\"produce\"}\n",
    );
    driver.send("{\"id\":8,\"op\":\"hello\",\"protocol\":1}\n");
    for (line, id, ok) in [
        ("a line without JSON", Value::Null, false),
        ("an incomplete list", Value::Null, false),
        ("the unknown op \"dance\"", json!(5), false),
        ("gc", json!(6), true),
        ("produce without fields", json!(7), false),
        ("hello", json!(8), true),
    ] {
        let expected = format!("id {id}, ok {ok} for {line}, in the order of the lines");
        let response = driver.receive(&expected)?;
        require!(
            response["id"] == id && response["ok"] == ok,
            expected,
            "{response}"
        );
        require!(
            ok || response["error"].is_string(),
            format!("an error text for {line}"),
            "{response}"
        );
    }
    driver.require_exit(EXIT_TIMEOUT)
}

/// Checks that a driver exits when its input ends during a command.
pub(super) fn end_of_input(session: &mut CheckSession<'_>) -> CheckResult {
    session.need("steady.consume")?;
    let topic = session.topic("end")?;
    let mut driver = LineSession::start(session.program)?;
    let mut configure = json!({
        "id": 1, "op": "configure", "timeout_ms": 60_000, "bootstrap": session.cluster.bootstrap,
        "profile": "check", "settings": settings(),
    });
    if let Some(file) = &session.cluster.client_file {
        configure["client_file"] = json!(file);
    }
    driver.send(&format!("{configure}\n"));
    let response = driver.receive("a valid response to configure")?;
    require!(response["ok"] == true, "success of configure", "{response}");
    let steady = json!({
        "id": 2, "op": "steady", "timeout_ms": 600_000, "topic": topic, "len": 10, "seed": 1,
        "role": "consume", "rate": 0, "seconds": 300,
    });
    driver.send(&format!("{steady}\n"));
    // The report of the first second shows that the driver is executing the command.
    let expected = "an event of the first second of steady";
    let event = driver.receive(expected)?;
    require!(
        event["id"] == 2 && event["event"] == "second",
        expected,
        "{event}"
    );
    driver.require_exit(EXIT_TIMEOUT)
}

/// A driver to which lines are written directly; killed when dropped.
struct LineSession {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl LineSession {
    fn start(program: &DriverProgram) -> CheckResult<Self> {
        let failed = |error| ConformanceError::File(program.line(), error);
        let mut child = program
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = mpsc::sync_channel(LINES_QUEUED_MAX);
        let read = move || {
            // Invariant: standard output is a pipe, so it is present.
            let lines = stdout.into_iter().flat_map(|it| BufReader::new(it).lines());
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        };
        let reader = thread::Builder::new().name("check-lines".to_owned());
        reader.spawn(read).map_err(failed)?;
        Ok(Self {
            child,
            stdin,
            lines,
        })
    }

    /// Writes lines. If the driver has exited, the next read reports it.
    fn send(&mut self, text: &str) {
        if let Some(stdin) = &mut self.stdin {
            if let Err(error) = stdin
                .write_all(text.as_bytes())
                .and_then(|()| stdin.flush())
            {
                tracing::debug!(%error, "failed to send lines to a driver");
            }
        }
    }

    /// Reads the next line as JSON. An error shows `expected`, the description of that line.
    fn receive(&self, expected: &str) -> CheckResult<Value> {
        let line = self.lines.recv_timeout(COMMAND_TIMEOUT);
        let line = line.map_err(|error| CheckFailure::deviation(expected, error.to_string()))?;
        serde_json::from_str(&line).map_err(|_| {
            CheckFailure::deviation(expected, crate::error::truncated(line.as_bytes()))
        })
    }

    /// Closes the input of the driver, which must then exit.
    fn require_exit(mut self, timeout: Duration) -> CheckResult {
        drop(self.stdin.take());
        let deadline = Instant::now() + timeout;
        loop {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return Ok(());
            }
            require!(
                Instant::now() < deadline,
                "exit within 2 s of the end of its input",
                "the driver still runs after {} s",
                timeout.as_secs()
            );
            thread::park_timeout(EXIT_POLL);
        }
    }
}

impl Drop for LineSession {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Longer than the 2 s of the protocol, because the machine may be busy.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);
const EXIT_POLL: Duration = Duration::from_millis(20);
const LINES_QUEUED_MAX: usize = 64;
