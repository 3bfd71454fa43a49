//! The jars of Apache Kafka, downloaded with Maven into the cache once per version.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use crate::error::LabError;
use crate::maven::{self, MavenRequest};

/// Checks that a lab supports the release `version`.
pub(crate) fn check_version(version: &str) -> Result<(), LabError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '.' || c == '-';
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let reason = match (numbers.next(), numbers.next(), numbers.next()) {
        (Some(Some(major)), Some(Some(minor)), Some(_)) if version.chars().all(is_plain) => {
            if (major, minor) >= OLDEST {
                return Ok(());
            }
            "is too old; use 3.9 or newer"
        }
        _ => "is not a release such as 4.3.1",
    };
    Err(LabError::setting("kafka version", &version, reason))
}

/// Returns the directory with the jars of `version`.
pub(crate) fn libs(
    version: &str,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<PathBuf, LabError> {
    let request = MavenRequest {
        name: "kafka",
        version,
        what: format!("Apache Kafka {version}"),
        size: "45 MB",
        dependencies: &[
            ("org.apache.kafka", "kafka_2.13", version),
            ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J),
            ("org.apache.logging.log4j", "log4j-core", LOG4J),
        ],
    };
    maven::libs(&request, progress, stop)
}

/// Oldest tested major and minor release.
const OLDEST: (u32, u32) = (3, 9);
/// Version of the logging implementation; the server depends only on the interface.
const LOG4J: &str = "2.25.4";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_versions_are_rejected() {
        for good in ["4.3.1", "3.9.0", "4.4.0-rc1"] {
            check_version(good).unwrap();
        }
        for bad in ["", "4.3", "latest", "2.8.1", "4.3.1/../..", "4.3.1<x>"] {
            let error = check_version(bad).unwrap_err();
            assert!(matches!(error, LabError::Setting { .. }), "{bad}: {error}");
        }
    }
}
