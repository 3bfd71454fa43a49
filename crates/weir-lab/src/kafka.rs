//! The jars of Apache Kafka, downloaded with Maven into the cache once per version.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::cache;
use crate::error::LabError;
use crate::maven;

/// Checks that a lab supports the release `version`.
pub(crate) fn check_version(version: &str) -> Result<(), LabError> {
    let invalid = |reason: &str| LabError::Setting {
        name: "kafka version",
        value: version.to_owned(),
        reason: reason.to_owned(),
    };
    let is_plain = version
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor)), Some(_)) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return Err(invalid("is not a release such as 4.3.1"));
    };
    if !is_plain {
        return Err(invalid("is not a release such as 4.3.1"));
    }
    if (major, minor) < OLDEST {
        return Err(invalid("is too old; use 3.9 or newer"));
    }
    Ok(())
}

/// Returns the directory with the jars of `version`.
pub(crate) fn libs(
    version: &str,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<PathBuf, LabError> {
    let name = format!("kafka-{version}");
    let entry = cache::entry(&name, FETCH_BYTES, progress, stop, |dir, progress| {
        fetch(version, dir, progress, stop)
    })?;
    Ok(entry.join("libs"))
}

fn fetch(
    version: &str,
    dir: &Path,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
) -> Result<(), LabError> {
    let request = maven::MavenRequest {
        what: format!("Apache Kafka {version}"),
        size: "45 MB",
        dependencies: vec![
            ("org.apache.kafka", "kafka_2.13", version),
            ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J),
            ("org.apache.logging.log4j", "log4j-core", LOG4J),
        ],
    };
    maven::fetch(&request, dir, progress, stop).map_err(|error| match error {
        maven::MavenError::Lab(error) => error,
        maven::MavenError::NotFound { artifact } => LabError::NoSuchVersion {
            version: version.to_owned(),
            detail: format!("no artifact {artifact}"),
        },
    })
}

/// Oldest tested major and minor release.
const OLDEST: (u32, u32) = (3, 9);
/// Version of the logging implementation; the server depends only on the interface.
const LOG4J: &str = "2.25.4";
/// Disk space required for the download: the jars and Maven's own copy.
const FETCH_BYTES: u64 = 200 << 20;

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
