//! Files of a run in progress: its configuration, and one line per repetition, so that the run can
//! be resumed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use weir_stats::run::LibrarySample;

use super::plan::LibrariesPlan;
use crate::BenchError;

/// Values that must not change when a run is resumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ResumeIdentity {
    pub(super) started_unix_ns: u64,
    pub(super) weir_version: String,
    /// Plan, value by value.
    pub(super) plan: BTreeMap<String, String>,
    /// Library and version of each driver that has taken part.
    #[serde(default)]
    pub(super) libraries: BTreeMap<String, String>,
}

impl ResumeIdentity {
    /// Returns the identity of a run of this plan, before its start.
    pub(super) fn of(plan: &LibrariesPlan) -> Self {
        Self {
            started_unix_ns: 0,
            weir_version: env!("CARGO_PKG_VERSION").to_owned(),
            plan: plan.identity(),
            libraries: BTreeMap::new(),
        }
    }

    /// Returns an error if `now` differs from this identity of the run to resume, in `dir`.
    pub(super) fn require_same(&self, dir: &Path, now: &Self) -> Result<(), BenchError> {
        let differences = self.differences(now);
        match differences.is_empty() {
            true => Ok(()),
            false => Err(BenchError::Resume(dir.to_owned(), differences.join("; "))),
        }
    }

    /// Returns the differences; `other` is the new configuration.
    fn differences(&self, other: &Self) -> Vec<String> {
        let differ = |name: &str, was: Option<&String>, is: Option<&String>| {
            let text = |value: Option<&String>| value.map_or("none", String::as_str).to_owned();
            (was != is).then(|| format!("{name} was \"{}\", is \"{}\"", text(was), text(is)))
        };
        let names: BTreeSet<&String> = self.plan.keys().chain(other.plan.keys()).collect();
        let plan = names
            .into_iter()
            .filter_map(|name| differ(name, self.plan.get(name), other.plan.get(name)));
        let version = differ("weir", Some(&self.weir_version), Some(&other.weir_version));
        // Drivers may be added or missing.
        let both = self.libraries.iter().filter_map(|(name, was)| {
            let is = other.libraries.get(name)?;
            differ(name, Some(was), Some(is))
        });
        plan.chain(version).chain(both).collect()
    }

    pub(super) fn read(dir: &Path) -> Result<Self, BenchError> {
        let path = dir.join(CONFIGURATION);
        let text = fs::read_to_string(&path).map_err(|error| BenchError::read(&path, error))?;
        serde_json::from_str(&text).map_err(|error| BenchError::read(&path, error.into()))
    }

    pub(super) fn write(&self, dir: &Path) -> Result<(), BenchError> {
        let path = dir.join(CONFIGURATION);
        // Invariant: all map keys are strings, so serialization cannot fail.
        let text = serde_json::to_string_pretty(self).unwrap_or_default();
        fs::write(&path, text + "\n").map_err(|error| BenchError::file(&path, error))
    }
}

/// Samples of a run, in memory and on disk.
#[derive(Debug)]
pub(super) struct RunJournal {
    path: PathBuf,
    file: File,
    pub(super) samples: Vec<LibrarySample>,
    done: BTreeSet<(String, u32, String)>,
}

impl RunJournal {
    /// Opens the journal of a run directory with the samples of an interrupted run. Removes an
    /// incomplete last line.
    pub(super) fn open(dir: &Path) -> Result<Self, BenchError> {
        let path = dir.join(SAMPLES);
        let mut options = OpenOptions::new();
        let opened = options.create(true).read(true).append(true).open(&path);
        let mut file = opened.map_err(|error| BenchError::file(&path, error))?;
        let mut text = Vec::new();
        file.read_to_end(&mut text)
            .map_err(|error| BenchError::read(&path, error))?;
        let last = text.iter().rposition(|byte| *byte == b'\n');
        let complete = last.map_or(0, |at| at + 1);
        let samples = serde_json::Deserializer::from_slice(&text[..complete]).into_iter();
        let samples: Vec<LibrarySample> = samples
            .collect::<Result<_, _>>()
            .map_err(|error| BenchError::read(&path, error.into()))?;
        file.set_len(complete as u64)
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map_err(|error| BenchError::file(&path, error))?;
        let done = samples.iter().map(key).collect();
        Ok(Self {
            path,
            file,
            samples,
            done,
        })
    }

    /// Returns `true` if a driver has completed a repetition.
    pub(super) fn has(&self, cell: &str, repetition: u32, driver: &str) -> bool {
        let key = (cell.to_owned(), repetition, driver.to_owned());
        self.done.contains(&key)
    }

    /// Appends a complete line.
    pub(super) fn add(&mut self, sample: LibrarySample) -> Result<(), BenchError> {
        // Invariant: samples contain only numbers and strings, so serialization cannot fail.
        let mut line = serde_json::to_vec(&sample).unwrap_or_default();
        line.push(b'\n');
        self.file
            .write_all(&line)
            .and_then(|()| self.file.flush())
            .map_err(|error| BenchError::file(&self.path, error))?;
        self.done.insert(key(&sample));
        self.samples.push(sample);
        Ok(())
    }
}

fn key(sample: &LibrarySample) -> (String, u32, String) {
    let (cell, driver) = (sample.cell.clone(), sample.driver.clone());
    (cell, sample.repetition, driver)
}

pub(super) const SAMPLES: &str = "libraries.jsonl";
pub(super) const CONFIGURATION: &str = "configuration.json";

pub(super) const DRIVERS: &str = "drivers";

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(repetition: u32) -> LibrarySample {
        LibrarySample {
            cell: "produce.warm/10x10".to_owned(),
            driver: "java".to_owned(),
            repetition,
            ..LibrarySample::default()
        }
    }

    #[test]
    fn samples_survive_reopening_except_cut_line() {
        let dir = std::env::temp_dir().join(format!("weir-journal-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let mut journal = RunJournal::open(&dir).unwrap();
        journal.add(sample(0)).unwrap();
        journal.add(sample(1)).unwrap();
        drop(journal);
        let path = dir.join(SAMPLES);
        let text = fs::read(&path).unwrap();
        fs::write(&path, &text[..text.len() - 9]).unwrap();

        let mut journal = RunJournal::open(&dir).unwrap();
        assert_eq!(journal.samples, [sample(0)]);
        assert!(journal.has("produce.warm/10x10", 0, "java"));
        assert!(!journal.has("produce.warm/10x10", 1, "java"));
        assert!(!journal.has("produce.warm/10x10", 0, "other"));
        journal.add(sample(1)).unwrap();
        drop(journal);
        assert_eq!(fs::read(&path).unwrap(), text);

        fs::write(&path, "{\"cell\": 3}\n").unwrap();
        let error = RunJournal::open(&dir).unwrap_err().to_string();
        fs::remove_dir_all(&dir).unwrap();
        assert!(error.contains(SAMPLES), "{error}");
    }

    #[test]
    fn differences_list_both_values() {
        let map = |pairs: &[(&str, &str)]| {
            let pairs = pairs.iter();
            let pairs = pairs.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            pairs.collect::<BTreeMap<_, _>>()
        };
        let before = ResumeIdentity {
            started_unix_ns: 1,
            weir_version: "0.1.0".to_owned(),
            plan: map(&[("seed", "1"), ("acks", "1")]),
            libraries: map(&[("java", "kafka-clients 4.3.1"), ("gone", "1")]),
        };
        assert!(before.differences(&before.clone()).is_empty());
        let after = ResumeIdentity {
            started_unix_ns: 2,
            plan: map(&[("seed", "1"), ("acks", "0")]),
            libraries: map(&[("java", "kafka-clients 4.4.0"), ("new", "2")]),
            ..before.clone()
        };
        assert_eq!(
            before.differences(&after),
            [
                "acks was \"1\", is \"0\"",
                "java was \"kafka-clients 4.3.1\", is \"kafka-clients 4.4.0\"",
            ]
        );
    }
}
