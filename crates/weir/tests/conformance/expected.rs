//! `conformance/expected.toml`: the known failures and their reasons.

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// Content of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Expected {
    #[serde(default, rename = "failure")]
    failures: Vec<Failure>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Failure {
    case: String,
    sdks: Vec<String>,
    reason: String,
    /// Text that the failure must contain; other failures are not expected.
    shows: String,
}

impl Expected {
    /// Reads the file. An entry for an unknown case or SDK is an error.
    pub(crate) fn read(cases: &[&str], sdks: &[&str]) -> Result<Self> {
        let text = include_str!("../../../../conformance/expected.toml");
        let file: Self = toml::from_str(text).context("conformance/expected.toml")?;
        for entry in &file.failures {
            let case = &entry.case;
            ensure!(
                cases.contains(&case.as_str()),
                "conformance/expected.toml: there is no case \"{case}\": remove its entry"
            );
            ensure!(
                !entry.reason.trim().is_empty(),
                "conformance/expected.toml: \"{case}\" has no reason"
            );
            ensure!(
                !entry.shows.trim().is_empty(),
                "conformance/expected.toml: \"{case}\" does not say how its failure shows"
            );
            for sdk in &entry.sdks {
                ensure!(
                    sdks.contains(&sdk.as_str()),
                    "conformance/expected.toml: \"{case}\" names SDK \"{sdk}\", known: {sdks:?}"
                );
            }
        }
        Ok(file)
    }

    /// Returns the failure and the remark to report for a result.
    pub(crate) fn judge(
        &self,
        case: &str,
        sdk: &str,
        result: Result<(), String>,
    ) -> (Option<String>, String) {
        let mut entries = self.failures.iter();
        let entry = entries.find(|e| e.case == case && e.sdks.iter().any(|name| name == sdk));
        match (result, entry) {
            (Ok(()), None) => (None, String::new()),
            (Err(failure), Some(entry)) if failure.contains(&entry.shows) => {
                (None, format!(", known failure: {}", entry.reason))
            }
            (Err(failure), _) => (Some(failure), String::new()),
            (Ok(()), Some(_)) => {
                let text = "it passes: remove its entry from conformance/expected.toml";
                (Some(text.to_owned()), String::new())
            }
        }
    }
}
