//! Cases beyond the typed session: invalid lines, several commands at the same time, end of input.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use weir_drivers::DriverProgram;

use crate::session::settings;
use crate::test_env::{TEST_TIMEOUT, TestEnv};

/// Runs the cases with two processes of one driver.
pub(crate) fn passes(env: &TestEnv<'_>, program: &DriverProgram) {
    rejects_invalid_commands(program);
    exits_at_end_of_input_during_command(env, program);
}

fn rejects_invalid_commands(program: &DriverProgram) {
    let mut talk = DriverSession::start(program);
    talk.say("this is no JSON\n[\n");
    // Several commands at the same time get responses in order.
    talk.say(
        "{\"id\":5,\"op\":\"dance\"}\n{\"id\":6,\"op\":\"gc\"}\n{\"id\":7,\"op\":\"produce\"}\n",
    );
    talk.say("{\"id\":8,\"op\":\"hello\",\"protocol\":1}\n");
    let expected = [
        (Value::Null, false),
        (Value::Null, false),
        (json!(5), false),
        (json!(6), true),
        (json!(7), false),
        (json!(8), true),
    ];
    for (id, ok) in expected {
        let answer = talk.answer();
        assert_eq!(
            (&answer["id"], &answer["ok"]),
            (&id, &json!(ok)),
            "{answer}"
        );
        assert!(ok || answer["error"].is_string(), "{answer}");
    }
    talk.ends_in_time();
}

fn exits_at_end_of_input_during_command(env: &TestEnv<'_>, program: &DriverProgram) {
    let mut talk = DriverSession::start(program);
    let configure = json!({
        "id": 1, "op": "configure", "timeout_ms": 60_000, "bootstrap": env.broker.bootstrap,
        "profile": "conformance", "settings": settings(),
    });
    talk.say(&format!("{configure}\n"));
    assert_eq!(talk.answer()["ok"], true);
    let topic = env.topic(&program.name, "end");
    let work = json!({
        "id": 2, "op": "steady", "timeout_ms": 600_000, "topic": topic, "len": 10, "seed": 1,
        "role": "consume", "rate": 0, "seconds": 300,
    });
    talk.say(&format!("{work}\n"));
    // The report of the first second shows that the driver is running the command.
    let event = talk.answer();
    assert_eq!(
        (&event["id"], &event["event"]),
        (&json!(2), &json!("second")),
        "{event}"
    );
    talk.ends_in_time();
}

/// A driver controlled by lines, killed when dropped.
struct DriverSession {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl DriverSession {
    fn start(program: &DriverProgram) -> Self {
        let mut child = program
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let stdin = child.stdin.take();
        let stdout = child.stdout.take().expect("asked for");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            stdin,
            lines,
        }
    }

    fn say(&mut self, text: &str) {
        let stdin = self.stdin.as_mut().expect("it is open");
        stdin.write_all(text.as_bytes()).expect("it listens");
        stdin.flush().expect("it listens");
    }

    fn answer(&self) -> Value {
        let line = self.lines.recv_timeout(TEST_TIMEOUT).expect("an answer");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Closes the input of the driver. It must exit within two seconds; this waits longer because
    /// the machine may be busy.
    fn ends_in_time(mut self) {
        drop(self.stdin.take());
        let deadline = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().expect("ours").is_none() {
            assert!(
                Instant::now() < deadline,
                "the driver must exit at the end of its input"
            );
            thread::park_timeout(Duration::from_millis(20));
        }
    }
}

impl Drop for DriverSession {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
