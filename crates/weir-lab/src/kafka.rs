//! Apache Kafka's jars, resolved by Maven into the cache once per version.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::cache;
use crate::error::LabError;
use crate::maven;

/// Checks that `version` is one that a lab can start.
pub(crate) fn check_version(version: &str) -> Result<(), LabError> {
    let wrong = |reason: &str| LabError::Setting {
        name: "kafka version",
        value: version.to_owned(),
        reason: reason.to_owned(),
    };
    let plain = version
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-');
    let mut numbers = version.split('.').map(|part| part.parse::<u32>().ok());
    let (Some(Some(major)), Some(Some(minor)), Some(_)) =
        (numbers.next(), numbers.next(), numbers.next())
    else {
        return Err(wrong("not a release such as 4.3.1"));
    };
    if !plain {
        return Err(wrong("not a release such as 4.3.1"));
    }
    if (major, minor) < OLDEST {
        return Err(wrong("too old: the lab starts 3.9 and newer"));
    }
    Ok(())
}

/// The directory with the jars of `version`.
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
    let wanted = maven::MavenRequest {
        what: format!("Apache Kafka {version}"),
        size: "45 MB",
        dependencies: vec![
            ("org.apache.kafka", "kafka_2.13", version),
            ("org.apache.logging.log4j", "log4j-slf4j-impl", LOG4J),
            ("org.apache.logging.log4j", "log4j-core", LOG4J),
        ],
    };
    maven::fetch(&wanted, dir, progress, stop).map_err(|trouble| match trouble {
        maven::MavenError::Lab(error) => error,
        maven::MavenError::NotFound { artifact } => LabError::NoSuchVersion {
            version: version.to_owned(),
            detail: format!("no artifact {artifact}"),
        },
    })
}

/// Oldest major and minor release that has been tried.
const OLDEST: (u32, u32) = (3, 9);
/// What the server itself logs through; it names the interface only.
const LOG4J: &str = "2.25.4";
/// Room that a fetch needs: the jars, and Maven's own copy.
const FETCH_BYTES: u64 = 200 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_that_cannot_be_a_release_are_refused() {
        for good in ["4.3.1", "3.9.0", "4.4.0-rc1"] {
            check_version(good).unwrap();
        }
        for bad in ["", "4.3", "latest", "2.8.1", "4.3.1/../..", "4.3.1<x>"] {
            let error = check_version(bad).unwrap_err();
            assert!(matches!(error, LabError::Setting { .. }), "{bad}: {error}");
        }
    }
}
