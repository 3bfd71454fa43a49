//! Drivers of a run. They are started once, run one command at a time, and are given up after fatal
//! errors.

use std::path::Path;

use serde_json::Value;
use weir_drivers::{
    ClientSettings, CommandLimit, Configured, Driver, DriverProgram, DriverRequest,
};
use weir_stats::run::{LibraryDriver, LibrarySetting};

use super::profile::DriverOperation;
use super::run_end::{CommandFailure, CommandResult, RunResult};

/// Driver, or the reason why it takes no part.
#[derive(Debug)]
pub(super) struct DriverHandle {
    pub(super) about: LibraryDriver,
    process: Option<Driver>,
    /// Settings of its last configuration.
    pub(super) settings: Option<ClientSettings>,
}

impl DriverHandle {
    pub(super) fn absent(name: &str, reason: String) -> Self {
        Self {
            about: LibraryDriver {
                name: name.to_owned(),
                failed: Some(reason),
                ..LibraryDriver::default()
            },
            process: None,
            settings: None,
        }
    }

    /// Starts the driver with its log in `dir`. A driver that does not start takes no part.
    pub(super) fn start(
        program: &DriverProgram,
        dir: &Path,
        limit: CommandLimit<'_>,
    ) -> RunResult<Self> {
        let driver = match Driver::start(program, dir, limit) {
            Ok(driver) => driver,
            Err(error) => {
                let reason = CommandFailure::of(&error)?.into_reason();
                return Ok(Self::absent(&program.name, reason));
            }
        };
        let hello = driver.hello().clone();
        Ok(Self {
            about: LibraryDriver {
                name: program.name.clone(),
                library: hello.library,
                library_version: hello.library_version,
                binding: hello.binding,
                runtime: hello.runtime,
                capabilities: hello.capabilities,
                ..LibraryDriver::default()
            },
            process: Some(driver),
            settings: None,
        })
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
        let driver = self.process.as_ref();
        driver.is_some_and(|driver| driver.can(capability))
    }

    /// Runs a command. A driver is given up after a fatal error. The outer error ends the run.
    pub(super) fn run<R: DriverRequest>(
        &mut self,
        request: &R,
        limit: CommandLimit<'_>,
    ) -> CommandResult<R::Response> {
        let Some(driver) = &mut self.process else {
            let reason = self.about.failed.clone();
            return Ok(Err(CommandFailure::GivenUp(reason.unwrap_or_default())));
        };
        let error = match driver.run(request, limit) {
            Ok(response) => return Ok(Ok(response)),
            Err(error) => error,
        };
        let failure = CommandFailure::of(&error)?;
        if let CommandFailure::GivenUp(reason) = &failure {
            self.give_up(reason.clone());
        }
        Ok(Err(failure))
    }

    /// Excludes the driver from the rest of the run; its results so far remain.
    pub(super) fn give_up(&mut self, reason: String) {
        // Dropping the handle ends the process.
        self.process = None;
        self.about.failed = Some(reason);
    }

    pub(super) fn end(&mut self) {
        if let Some(driver) = self.process.take() {
            // Results so far remain, however the driver ends.
            if let Err(error) = driver.bye() {
                tracing::warn!(%error, "driver shutdown failed");
            }
        }
    }
}

/// Adds the settings that a driver reported. A requested value replaces one that was only reported;
/// if two operations have different values, the later is added with the operation in its name.
pub(super) fn note_settings(
    listed: &mut Vec<LibrarySetting>,
    requested: &ClientSettings,
    reported: &Configured,
    operation: DriverOperation,
) {
    let effective = reported.effective.keys();
    let further = effective.filter(|name| !requested.contains_key(*name));
    for name in requested.keys().chain(further) {
        let effective = reported.effective.get(name);
        let mut setting = LibrarySetting {
            name: name.clone(),
            requested: requested.get(name).map(text),
            effective: effective.filter(|value| !value.is_null()).map(text),
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
            _ if other.requested == setting.requested && other.effective == setting.effective => {}
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
    let prefixes = ["fetch_", "check_", "auto_commit"];
    let of_consumers = prefixes.iter().any(|prefix| name.starts_with(prefix));
    match operation {
        DriverOperation::Produce => !of_consumers,
        DriverOperation::Consume => of_consumers || of_sockets,
        DriverOperation::Copy | DriverOperation::RoundTrip => true,
    }
}

/// Returns a JSON value as text, strings without quotes.
fn text(value: &Value) -> String {
    let text = value.as_str().map(str::to_owned);
    text.unwrap_or_else(|| value.to_string())
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
            client_file: false,
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
            client_file: false,
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
