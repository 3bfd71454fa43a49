//! One SDK client: a driver script of `conformance/`, its commands and its events.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};

use super::driver_process::{DriverProcess, IdleDrivers};
use super::events::{DriverConfig, SdkEvent, Subscription, Update};
use super::sdk::Sdk;
use super::test_env::TEST_TIMEOUT;

/// The running client, which ends when dropped.
#[derive(Debug)]
pub(crate) struct Driver {
    /// `None` only while it is dropped.
    process: Option<DriverProcess>,
    /// Receives the process after the end of the client.
    ended: Arc<IdleDrivers>,
}

impl Driver {
    /// Starts a client, in a process of `idle` if there is one. Its events and the debug log of the
    /// SDK are stored in `dir`. `ended` receives the process after the end of the client.
    pub(crate) fn start(
        (sdk, idle): (&Sdk, &IdleDrivers),
        config: &DriverConfig,
        (dir, number): (&Path, u32),
        ended: &Arc<IdleDrivers>,
    ) -> Result<Self> {
        let process = match idle.take() {
            None => DriverProcess::start(sdk, config, dir, number)?,
            Some(mut process) => {
                process.open(config, dir, number)?;
                process
            }
        };
        Ok(Self {
            process: Some(process),
            ended: Arc::clone(ended),
        })
    }

    fn process(&self) -> &DriverProcess {
        self.process.as_ref().expect("it is there until dropped")
    }

    /// Returns the next event within `timeout`, otherwise `None`.
    pub(crate) fn next_within(&self, timeout: Duration) -> Result<Option<SdkEvent>> {
        self.process().next_within(timeout)
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

    /// Sets the password for the next session.
    pub(crate) fn password(&mut self, value: &str) -> Result<()> {
        self.command(&serde_json::json!({ "cmd": "password", "value": value }))
    }

    /// Changes an option of the connection.
    pub(crate) fn option(&mut self, name: &str, value: impl Into<serde_json::Value>) -> Result<()> {
        let value: serde_json::Value = value.into();
        self.command(&serde_json::json!({ "cmd": "option", "name": name, "value": value }))
    }

    fn command(&mut self, command: &serde_json::Value) -> Result<()> {
        let process = self.process.as_mut();
        process.expect("it is there until dropped").command(command)
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            if process.close() {
                self.ended.add(process);
            }
        }
    }
}
