//! One SDK client: a driver script of `conformance/` as a child process, and its events.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::events::{DriverConfig, SdkEvent, Subscription, Update};
use super::sdk::Sdk;
use super::test_env::TEST_TIMEOUT;

/// The running client; killed when dropped.
#[derive(Debug)]
pub(crate) struct Driver {
    child: Child,
    stdin: ChildStdin,
    events: Receiver<Result<SdkEvent, String>>,
}

impl Driver {
    /// Starts the driver. Its events and the debug log of the SDK are stored in `dir`.
    pub(crate) fn start(sdk: &Sdk, config: &DriverConfig, dir: &Path, number: u32) -> Result<Self> {
        let log = File::create(dir.join(format!("sdk-{number}.log")))?;
        let mut copy = File::create(dir.join(format!("events-{number}.jsonl")))?;
        let mut child = sdk
            .command()
            .arg(serde_json::to_string(config)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("the SDK's driver did not start")?;
        let stdin = child.stdin.take().context("the driver's stdin")?;
        let stdout = child.stdout.take().context("the driver's stdout")?;
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                // The copy is only for debugging; the case continues without it.
                let _ = writeln!(copy, "{line}");
                let event = serde_json::from_str(&line).map_err(|e| format!("{e}: {line}"));
                if sender.send(event).is_err() {
                    return;
                }
            }
        });
        Ok(Self {
            child,
            stdin,
            events,
        })
    }

    /// Returns the next event within `timeout`, otherwise `None`.
    pub(crate) fn next_within(&self, timeout: Duration) -> Result<Option<SdkEvent>> {
        match self.events.recv_timeout(timeout) {
            Ok(event) => {
                Ok(Some(event.map_err(|text| {
                    anyhow!("a line not understood: {text}")
                })?))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the driver ended"),
        }
    }

    /// Returns the next event that `wanted` accepts. Skips status changes and events that `also`
    /// accepts before it; any other event is a failure.
    fn wait_past<T>(
        &self,
        what: &str,
        also: impl Fn(&SdkEvent) -> bool,
        mut wanted: impl FnMut(&SdkEvent) -> Option<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let Some(event) = self.next_within(left)? else {
                bail!("no {what} within {TEST_TIMEOUT:?}");
            };
            if let Some(found) = wanted(&event) {
                return Ok(found);
            }
            let passed =
                matches!(event, SdkEvent::Status { .. }) || event.is_detail() || also(&event);
            ensure!(passed, "instead of {what}: {event:?}");
        }
    }

    pub(crate) fn wait<T>(
        &self,
        what: &str,
        wanted: impl FnMut(&SdkEvent) -> Option<T>,
    ) -> Result<T> {
        self.wait_past(what, |_| false, wanted)
    }

    /// Waits for a status and returns the statuses before it.
    pub(crate) fn status(&self, wanted: &str) -> Result<Vec<String>> {
        let mut passed = Vec::new();
        self.wait(&format!("status {wanted}"), |event| match event {
            SdkEvent::Status { status } if status == wanted => Some(()),
            SdkEvent::Status { status } => {
                passed.push(status.clone());
                None
            }
            _ => None,
        })?;
        Ok(passed)
    }

    /// Waits until the subscriptions with these indexes are active, in any order.
    pub(crate) fn subscribed(&self, subs: &[usize]) -> Result<()> {
        let mut left = subs.to_vec();
        while !left.is_empty() {
            let sub = self.wait(&format!("subscription of {left:?}"), |event| match event {
                SdkEvent::Subscribed { sub } => Some(*sub),
                _ => None,
            })?;
            ensure!(left.contains(&sub), "subscription {sub} is active unasked");
            left.retain(|other| *other != sub);
        }
        Ok(())
    }

    /// Waits until subscription 0 has ended, by the SDK or on request. Skips updates.
    pub(crate) fn unsubscribed(&self) -> Result<()> {
        self.wait("end of the subscription", |event| {
            (*event == SdkEvent::Unsubscribed { sub: 0 }).then_some(())
        })
    }

    /// Waits for the loss of a session and for a new session in which subscription 0 is active.
    /// Returns every status before that.
    pub(crate) fn fresh_session(&self) -> Result<Vec<String>> {
        let mut statuses = Vec::new();
        let mut ended = false;
        self.wait_past(
            "a fresh session with the subscription",
            |event| *event == SdkEvent::Unsubscribed { sub: 0 },
            |event| match event {
                SdkEvent::Status { status } => {
                    statuses.push(status.clone());
                    None
                }
                SdkEvent::Unsubscribed { .. } => {
                    ended = true;
                    None
                }
                SdkEvent::Subscribed { sub: 0 } => Some(()),
                _ => None,
            },
        )?;
        ensure!(
            ended,
            "the old session's subscription never ended: {statuses:?}"
        );
        Ok(statuses)
    }

    /// Waits for the loss of a session and until the subscriptions are active in another one.
    pub(crate) fn resubscribed(&self, subs: &[usize]) -> Result<()> {
        let mut left = subs.to_vec();
        while !left.is_empty() {
            let sub = self.wait_past(
                "subscriptions of another session",
                |event| matches!(event, SdkEvent::Unsubscribed { .. }),
                |event| match event {
                    SdkEvent::Subscribed { sub } => Some(*sub),
                    _ => None,
                },
            )?;
            left.retain(|other| *other != sub);
        }
        Ok(())
    }

    /// Waits for a number of updates. Any other event between them is a failure.
    pub(crate) fn updates(&self, count: usize) -> Result<Vec<Update>> {
        let mut updates = Vec::with_capacity(count);
        while updates.len() < count {
            let what = format!("update {} of {count}", updates.len() + 1);
            updates.push(self.wait(&what, |event| match event {
                SdkEvent::Update(update) => Some(update.clone()),
                _ => None,
            })?);
        }
        Ok(updates)
    }

    /// Waits for one update of a subscription with a value.
    pub(crate) fn value(&self, sub: usize, value: &str) -> Result<()> {
        let update = &self.updates(1)?[0];
        ensure!(
            update.sub == sub && update.value("value") == Some(value),
            "instead of \"{value}\" for subscription {sub}: {update:?}"
        );
        Ok(())
    }

    /// Waits for the refusal of the subscription with this index.
    pub(crate) fn subscription_error(&self, sub: usize) -> Result<i32> {
        self.wait("refusal of the subscription", |event| match event {
            SdkEvent::SubscriptionError { sub: s, code, .. } if *s == sub => Some(*code),
            _ => None,
        })
    }

    /// Waits for the refusal of the session.
    pub(crate) fn server_error(&self) -> Result<i32> {
        self.wait("refusal of the session", |event| match event {
            SdkEvent::ServerError { code, .. } => Some(*code),
            _ => None,
        })
    }

    /// Checks that the SDK reports no event for a time.
    pub(crate) fn nothing_for(&self, time: Duration) -> Result<()> {
        let end = Instant::now() + time;
        loop {
            match self.next_within(end.saturating_duration_since(Instant::now()))? {
                Some(event) if event.is_detail() => {}
                Some(event) => bail!("in a quiet time: {event:?}"),
                None => return Ok(()),
            }
        }
    }

    /// Adds a subscription with the next index.
    pub(crate) fn subscribe(&mut self, subscription: &Subscription) -> Result<()> {
        self.command(&serde_json::json!({ "cmd": "subscribe", "subscription": subscription }))
    }

    /// Ends the subscription with this index.
    pub(crate) fn unsubscribe(&mut self, sub: usize) -> Result<()> {
        self.command(&serde_json::json!({ "cmd": "unsubscribe", "sub": sub }))
    }

    /// Ends the session.
    pub(crate) fn disconnect(&mut self) -> Result<()> {
        self.command(&serde_json::json!({ "cmd": "disconnect" }))
    }

    /// Changes the maximum frequency of the subscription with this index.
    pub(crate) fn frequency(&mut self, sub: usize, value: &str) -> Result<()> {
        self.command(&serde_json::json!({ "cmd": "frequency", "sub": sub, "value": value }))
    }

    /// Sends a message, in a sequence if one is given. With `listens`, the driver reports its
    /// outcome.
    pub(crate) fn message(
        &mut self,
        text: &str,
        sequence: Option<&str>,
        listens: bool,
    ) -> Result<()> {
        self.command(&serde_json::json!({
            "cmd": "message", "text": text, "sequence": sequence, "listens": listens,
        }))
    }

    /// Changes an option of the connection.
    pub(crate) fn option(&mut self, name: &str, value: impl Into<serde_json::Value>) -> Result<()> {
        let value: serde_json::Value = value.into();
        self.command(&serde_json::json!({ "cmd": "option", "name": name, "value": value }))
    }

    fn command(&mut self, command: &serde_json::Value) -> Result<()> {
        writeln!(self.stdin, "{command}").context("the driver reads no command")?;
        Ok(self.stdin.flush()?)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
