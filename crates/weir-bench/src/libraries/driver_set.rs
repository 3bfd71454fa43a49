//! The drivers of a run: started before and kept for all of it, one asked at a time, given up when they fail.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use serde_json::Value;
use weir_drivers::{
    ClientSettings, CommandLimit, Configure, Configured, Driver, DriverError, DriverFailure,
    DriverProgram, WarmUp,
};
use weir_stats::run::{LibraryDriver, LibrarySetting};

use super::grid::DriverOperation;
use super::plan::WarmUpPlan;

/// A driver, or what became of it.
#[derive(Debug)]
pub(super) struct DriverHandle {
    pub(super) about: LibraryDriver,
    process: Option<Driver>,
    /// What it was told last.
    settings: Option<ClientSettings>,
}

/// Why a driver has not done what it was asked.
#[derive(Debug)]
pub(super) enum Failed {
    /// The user has had enough.
    Interrupted,
    /// It said so, and can be asked again.
    Refused(String),
    /// It is gone.
    GivenUp(String),
}

/// How drivers are reached.
#[derive(Debug, Clone, Copy)]
pub(super) struct DriverEnv<'a> {
    pub(super) bootstrap: &'a str,
    pub(super) profile: &'static str,
    /// For a command that moves little.
    pub(super) timeout: Duration,
    pub(super) stop: &'a AtomicBool,
}

impl<'a> DriverEnv<'a> {
    fn limit(&self) -> CommandLimit<'a> {
        self.within(self.timeout)
    }

    /// Time for a command that may take `within`.
    pub(super) fn within(&self, within: Duration) -> CommandLimit<'a> {
        CommandLimit {
            within,
            stop: self.stop,
        }
    }
}

impl DriverHandle {
    /// One that takes no part.
    pub(super) fn absent(name: &str, why: String) -> Self {
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
                failed: Some(why),
            },
            process: None,
            settings: None,
        }
    }

    /// Starts the driver; its log goes to `folder`. One that does not start takes no part.
    pub(super) fn start(
        program: &DriverProgram,
        folder: &Path,
        reach: &DriverEnv<'_>,
    ) -> Result<Self, Failed> {
        let mut member = Self::absent(&program.name, String::new());
        match Driver::start(program, folder, reach.limit()) {
            Err(error) => match failed(&error) {
                Failed::Interrupted => return Err(Failed::Interrupted),
                Failed::Refused(why) | Failed::GivenUp(why) => member.about.failed = Some(why),
            },
            Ok(driver) => {
                let hello = driver.hello().clone();
                member.about.library = hello.library;
                member.about.library_version = hello.library_version;
                member.about.binding = hello.binding;
                member.about.runtime = hello.runtime;
                member.about.capabilities = hello.capabilities;
                member.about.failed = None;
                member.process = Some(driver);
            }
        }
        Ok(member)
    }

    pub(super) fn name(&self) -> &str {
        &self.about.name
    }

    /// Its process, as long as it takes part.
    pub(super) fn pid(&self) -> Option<u32> {
        self.process.as_ref().map(Driver::pid)
    }

    /// Whether it takes part and has said that it can do this.
    pub(super) fn can(&self, capability: &str) -> bool {
        self.process
            .as_ref()
            .is_some_and(|driver| driver.can(capability))
    }

    /// Asks for something. A driver that fails in a way that leaves nothing to ask is given up.
    pub(super) fn ask<T>(
        &mut self,
        work: impl FnOnce(&mut Driver) -> Result<T, DriverError>,
    ) -> Result<T, Failed> {
        let Some(driver) = &mut self.process else {
            let why = self.about.failed.clone();
            return Err(Failed::GivenUp(why.unwrap_or_default()));
        };
        work(driver).map_err(|error| {
            let failed = failed(&error);
            if let Failed::GivenUp(why) = &failed {
                self.give_up(why.clone());
            }
            failed
        })
    }

    /// It takes no further part; what it had measured stands.
    pub(super) fn give_up(&mut self, why: String) {
        // Whatever it was, its process ends with the handle.
        self.process = None;
        self.about.failed = Some(why);
    }

    /// Makes sure that clients made from now on have these settings. `work` is what they are for.
    pub(super) fn configure(
        &mut self,
        settings: &ClientSettings,
        work: DriverOperation,
        reach: &DriverEnv<'_>,
    ) -> Result<(), Failed> {
        if self.settings.as_ref() == Some(settings) {
            return Ok(());
        }
        let command = Configure {
            bootstrap: reach.bootstrap.to_owned(),
            profile: reach.profile.to_owned(),
            settings: settings.clone(),
        };
        let limit = reach.limit();
        let configured = self.ask(|driver| driver.configure(&command, limit))?;
        note_settings(&mut self.about.settings, settings, &configured, work);
        self.settings = Some(settings.clone());
        Ok(())
    }

    /// A round of warm-up: processor time per record.
    pub(super) fn warm_up(
        &mut self,
        topic: &str,
        plan: &WarmUpPlan,
        seed: u64,
        within: Duration,
        reach: &DriverEnv<'_>,
    ) -> Result<f64, Failed> {
        let command = WarmUp {
            topic: topic.to_owned(),
            len: plan.value_bytes,
            count: plan.records,
            seed,
        };
        let limit = reach.within(within);
        let told = self.ask(|driver| driver.warm_up(&command, limit))?;
        Ok(told.produce_cpu_us_per_record + told.consume_cpu_us_per_record)
    }

    /// Has it collect garbage.
    pub(super) fn collect_garbage(&mut self, reach: &DriverEnv<'_>) -> Result<(), Failed> {
        let limit = reach.limit();
        self.ask(|driver| driver.gc(limit).map(|_| ()))
    }

    /// Its managed heap, if there is one.
    pub(super) fn heap_kb(&mut self, reach: &DriverEnv<'_>) -> Result<Option<u64>, Failed> {
        let limit = reach.limit();
        self.ask(|driver| driver.stats(limit))
            .map(|stats| stats.heap_kb)
    }

    /// Ends it in order.
    pub(super) fn end(&mut self) {
        if let Some(driver) = self.process.take() {
            // What it has measured stands, however it ends.
            if let Err(error) = driver.bye() {
                tracing::warn!(%error, "driver did not end in order");
            }
        }
    }
}

fn failed(error: &DriverError) -> Failed {
    match &error.reason {
        DriverFailure::Interrupted => Failed::Interrupted,
        _ if error.is_fatal() => Failed::GivenUp(error.to_string()),
        _ => Failed::Refused(error.to_string()),
    }
}

/// Adds what a driver said of its settings. What it said of one that was not asked for gives way to what it says when it is;
/// where two kinds of work have different ones, the later stands beside, with the work in its name.
fn note_settings(
    known: &mut Vec<LibrarySetting>,
    asked: &ClientSettings,
    told: &Configured,
    work: DriverOperation,
) {
    let further = told
        .effective
        .keys()
        .filter(|name| !asked.contains_key(*name));
    for name in asked.keys().chain(further) {
        let mut setting = LibrarySetting {
            name: name.clone(),
            asked: asked.get(name).map(text),
            effective: told
                .effective
                .get(name)
                .filter(|value| !value.is_null())
                .map(text),
            supported: !told.unsupported.contains(name),
        };
        let Some(at) = known.iter().position(|other| other.name == *name) else {
            known.push(setting);
            continue;
        };
        let other = &known[at];
        match (&other.asked, &setting.asked) {
            (None, Some(_)) => known[at] = setting,
            (None, None) => {}
            (Some(_), None) if !concerns(name, work) => {}
            _ if (&other.asked, &other.effective) == (&setting.asked, &setting.effective) => {}
            _ => {
                setting.name = format!("{name} ({})", work.name());
                if known.iter().all(|other| other.name != setting.name) {
                    known.push(setting);
                }
            }
        }
    }
}

/// Whether a setting bears on a kind of work.
fn concerns(name: &str, work: DriverOperation) -> bool {
    let of_sockets = matches!(name, "send_buffer_bytes" | "receive_buffer_bytes");
    let of_consumers = ["fetch_", "check_", "auto_commit"]
        .iter()
        .any(|it| name.starts_with(it));
    match work {
        DriverOperation::Produce => !of_consumers,
        DriverOperation::Consume => of_consumers || of_sockets,
        DriverOperation::RoundTrip => true,
    }
}

/// A value without the quotes that JSON puts around texts.
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
    fn settings_of_different_works_stand_beside_each_other() {
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
        let told = Configured {
            effective: settings(&[
                ("acks", json!(0)),
                ("compression", Value::Null),
                (buffer, json!(9)),
                (wait, json!(1)),
                ("retries", json!(7)),
            ]),
            unsupported: vec!["compression".to_owned()],
        };
        let mut known = Vec::new();
        note_settings(&mut known, &producing, &told, DriverOperation::Produce);
        let consuming = settings(&[(wait, json!(100))]);
        let told = Configured {
            // A consumer has no acks, and its own buffer.
            effective: settings(&[(wait, json!(100)), ("acks", json!(1)), (buffer, json!(0))]),
            unsupported: Vec::new(),
        };
        for _ in 0..2 {
            note_settings(&mut known, &consuming, &told, DriverOperation::Consume);
        }
        let shown: Vec<_> = known
            .iter()
            .map(|it| {
                (
                    it.name.as_str(),
                    it.asked.as_deref(),
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
