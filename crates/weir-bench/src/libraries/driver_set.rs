//! Drivers of a run. They are started once, run one command at a time, and are given up after fatal
//! errors.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use weir_drivers::{
    ClientSettings, CommandLimit, Configure, Configured, Driver, DriverError, DriverFailure,
    DriverProgram, WarmUp,
};
use weir_stats::run::{LibraryDriver, LibrarySetting};

use super::operation::DriverOperation;
use super::plan::WarmUpPlan;

/// Driver, or the reason why it takes no part.
#[derive(Debug)]
pub(super) struct DriverHandle {
    pub(super) about: LibraryDriver,
    process: Option<Driver>,
    /// Settings of its last configuration.
    settings: Option<ClientSettings>,
}

/// Reason why a driver has not completed a command.
#[derive(Debug)]
pub(super) enum CommandFailure {
    /// The user interrupted the run.
    Interrupted,
    /// The driver reported an error and accepts further commands.
    Rejected(String),
    /// The driver is given up.
    GivenUp(String),
}

/// Parameters for commands to drivers.
#[derive(Debug, Clone, Copy)]
pub(super) struct DriverEnv<'a> {
    pub(super) bootstrap: &'a str,
    pub(super) profile: &'static str,
    /// Base timeout, for commands that move little data.
    pub(super) timeout: Duration,
    pub(super) stop: &'a AtomicBool,
}

impl<'a> DriverEnv<'a> {
    fn limit(&self) -> CommandLimit<'a> {
        self.within(self.timeout)
    }

    /// Returns a command limit with the timeout `within`.
    pub(super) fn within(&self, within: Duration) -> CommandLimit<'a> {
        CommandLimit {
            timeout: within,
            stop: self.stop,
        }
    }
}

impl DriverHandle {
    /// Returns a driver that takes no part.
    pub(super) fn absent(name: &str, reason: String) -> Self {
        Self {
            about: LibraryDriver {
                name: name.to_owned(),
                library: String::new(),
                library_version: String::new(),
                binding: String::new(),
                runtime: String::new(),
                capabilities: Vec::new(),
                settings: Vec::new(),
                warm_up_rounds: 0,
                warm_up_settled: false,
                failed: Some(reason),
            },
            process: None,
            settings: None,
        }
    }

    /// Starts the driver with its log in `dir`. A driver that does not start takes no part.
    pub(super) fn start(
        program: &DriverProgram,
        dir: &Path,
        env: &DriverEnv<'_>,
    ) -> Result<Self, CommandFailure> {
        let mut handle = Self::absent(&program.name, String::new());
        match Driver::start(program, dir, env.limit()) {
            Err(error) => match classify(&error) {
                CommandFailure::Interrupted => return Err(CommandFailure::Interrupted),
                CommandFailure::Rejected(reason) | CommandFailure::GivenUp(reason) => {
                    handle.about.failed = Some(reason);
                }
            },
            Ok(driver) => {
                let hello = driver.hello().clone();
                handle.about.library = hello.library;
                handle.about.library_version = hello.library_version;
                handle.about.binding = hello.binding;
                handle.about.runtime = hello.runtime;
                handle.about.capabilities = hello.capabilities;
                handle.about.failed = None;
                handle.process = Some(driver);
            }
        }
        Ok(handle)
    }

    pub(super) fn name(&self) -> &str {
        &self.about.name
    }

    /// Returns its process id while it takes part.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Driver::pid)
    }

    /// Returns `true` if the driver takes part and has declared the capability.
    pub(super) fn can(&self, capability: &str) -> bool {
        self.process
            .as_ref()
            .is_some_and(|driver| driver.can(capability))
    }

    /// Runs a command. A driver is given up after a fatal error.
    pub(super) fn run<T>(
        &mut self,
        command: impl FnOnce(&mut Driver) -> Result<T, DriverError>,
    ) -> Result<T, CommandFailure> {
        let Some(driver) = &mut self.process else {
            let reason = self.about.failed.clone();
            return Err(CommandFailure::GivenUp(reason.unwrap_or_default()));
        };
        command(driver).map_err(|error| {
            let failed = classify(&error);
            if let CommandFailure::GivenUp(reason) = &failed {
                self.give_up(reason.clone());
            }
            failed
        })
    }

    /// Excludes the driver from the rest of the run; its results so far remain.
    pub(super) fn give_up(&mut self, reason: String) {
        // Dropping the handle ends the process.
        self.process = None;
        self.about.failed = Some(reason);
    }

    /// Configures the clients that the driver creates from now on for `operation`.
    pub(super) fn configure(
        &mut self,
        settings: &ClientSettings,
        operation: DriverOperation,
        env: &DriverEnv<'_>,
    ) -> Result<(), CommandFailure> {
        if self.settings.as_ref() == Some(settings) {
            return Ok(());
        }
        let command = Configure {
            bootstrap: env.bootstrap.to_owned(),
            profile: env.profile.to_owned(),
            settings: settings.clone(),
        };
        let limit = env.limit();
        let configured = self.run(|driver| driver.configure(&command, limit))?;
        note_settings(&mut self.about.settings, settings, &configured, operation);
        self.settings = Some(settings.clone());
        Ok(())
    }

    /// Runs one warm-up round and returns its CPU time per record in microseconds.
    pub(super) fn warm_up(
        &mut self,
        topic: &str,
        plan: &WarmUpPlan,
        seed: u64,
        within: Duration,
        env: &DriverEnv<'_>,
    ) -> Result<f64, CommandFailure> {
        let command = WarmUp {
            topic: topic.to_owned(),
            len: plan.value_bytes,
            count: plan.records,
            seed,
        };
        let limit = env.within(within);
        let reported = self.run(|driver| driver.warm_up(&command, limit))?;
        Ok(reported.produce_cpu_us_per_record + reported.consume_cpu_us_per_record)
    }

    /// Runs the garbage collector of the driver.
    pub(super) fn collect_garbage(&mut self, env: &DriverEnv<'_>) -> Result<(), CommandFailure> {
        let limit = env.limit();
        self.run(|driver| driver.gc(limit).map(|_| ()))
    }

    /// Returns the size of its managed heap, if it has one.
    pub(super) fn heap_kb(&mut self, env: &DriverEnv<'_>) -> Result<Option<u64>, CommandFailure> {
        let limit = env.limit();
        self.run(|driver| driver.stats(limit))
            .map(|stats| stats.heap_kb)
    }

    /// Shuts the driver down.
    pub(super) fn end(&mut self) {
        if let Some(driver) = self.process.take() {
            // Results so far remain, however the driver ends.
            if let Err(error) = driver.bye() {
                tracing::warn!(%error, "driver shutdown failed");
            }
        }
    }
}

fn classify(error: &DriverError) -> CommandFailure {
    match &error.reason {
        DriverFailure::Interrupted => CommandFailure::Interrupted,
        _ if error.is_fatal() => CommandFailure::GivenUp(error.to_string()),
        _ => CommandFailure::Rejected(error.to_string()),
    }
}

/// Adds the settings that a driver reported. A requested value replaces one that was only reported;
/// if two operations have different values, the later is added with the operation in its name.
fn note_settings(
    listed: &mut Vec<LibrarySetting>,
    requested: &ClientSettings,
    reported: &Configured,
    operation: DriverOperation,
) {
    let further = reported
        .effective
        .keys()
        .filter(|name| !requested.contains_key(*name));
    for name in requested.keys().chain(further) {
        let mut setting = LibrarySetting {
            name: name.clone(),
            requested: requested.get(name).map(text),
            effective: reported
                .effective
                .get(name)
                .filter(|value| !value.is_null())
                .map(text),
            supported: !reported.unsupported.contains(name),
        };
        let Some(at) = listed.iter().position(|other| other.name == *name) else {
            listed.push(setting);
            continue;
        };
        let other = &listed[at];
        match (&other.requested, &setting.requested) {
            (None, Some(_)) => listed[at] = setting,
            (None, None) => {}
            (Some(_), None) if !affects(name, operation) => {}
            _ if (&other.requested, &other.effective)
                == (&setting.requested, &setting.effective) => {}
            _ => {
                setting.name = format!("{name} ({})", operation.name());
                if listed.iter().all(|other| other.name != setting.name) {
                    listed.push(setting);
                }
            }
        }
    }
}

/// Returns `true` if a setting affects an operation.
fn affects(name: &str, operation: DriverOperation) -> bool {
    let of_sockets = matches!(name, "send_buffer_bytes" | "receive_buffer_bytes");
    let of_consumers = ["fetch_", "check_", "auto_commit"]
        .iter()
        .any(|it| name.starts_with(it));
    match operation {
        DriverOperation::Produce => !of_consumers,
        DriverOperation::Consume => of_consumers || of_sockets,
        DriverOperation::RoundTrip => true,
    }
}

/// Returns a JSON value as text, strings without quotes.
fn text(value: &Value) -> String {
    value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn settings_of_different_operations_are_kept_apart() {
        let settings = |pairs: &[(&str, Value)]| -> ClientSettings {
            let pairs = pairs.iter();
            pairs
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect()
        };
        let (buffer, wait) = ("send_buffer_bytes", "fetch_min_bytes");
        let producing = settings(&[
            ("acks", json!(0)),
            ("compression", json!("none")),
            (buffer, json!(9)),
        ]);
        let reported = Configured {
            effective: settings(&[
                ("acks", json!(0)),
                ("compression", Value::Null),
                (buffer, json!(9)),
                (wait, json!(1)),
                ("retries", json!(7)),
            ]),
            unsupported: vec!["compression".to_owned()],
        };
        let mut listed = Vec::new();
        note_settings(&mut listed, &producing, &reported, DriverOperation::Produce);
        let consuming = settings(&[(wait, json!(100))]);
        let reported = Configured {
            // A consumer has no `acks` and its own buffer.
            effective: settings(&[(wait, json!(100)), ("acks", json!(1)), (buffer, json!(0))]),
            unsupported: Vec::new(),
        };
        for _ in 0..2 {
            note_settings(&mut listed, &consuming, &reported, DriverOperation::Consume);
        }
        let shown: Vec<_> = listed
            .iter()
            .map(|it| {
                (
                    it.name.as_str(),
                    it.requested.as_deref(),
                    it.effective.as_deref(),
                    it.supported,
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                ("acks", Some("0"), Some("0"), true),
                ("compression", Some("none"), None, false),
                (buffer, Some("9"), Some("9"), true),
                (wait, Some("100"), Some("100"), true),
                ("retries", None, Some("7"), true),
                ("send_buffer_bytes (consume)", None, Some("0"), true),
            ]
        );
    }
}
