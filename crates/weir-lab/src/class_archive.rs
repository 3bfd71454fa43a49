//! An archive of the classes that a broker loads, shared by all brokers of this user.
//!
//! With it, formatting and starting a broker take about half the CPU time. A JVM that finds the
//! archive unsuitable ignores it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use crate::cache;
use crate::error::LabError;

/// Free space that the archive needs, in bytes.
const ARCHIVE_BYTES: u64 = 100 << 20;
const FILE: &str = "classes.jsa";
const WRITE: &str = "-XX:ArchiveClassesAtExit=";

/// Returns the archive for a Kafka release and a Java release. If there is none, `run` must start
/// and stop a broker with the JVM argument it gets, which writes the archive at exit.
///
/// Returns `None` if the archive cannot be written; brokers then start without it.
pub(crate) fn find_or_write(
    kafka_version: &str,
    java_version: &str,
    progress: &mut dyn FnMut(&str),
    stop: &AtomicBool,
    run: impl FnOnce(String) -> Result<(), LabError>,
) -> Option<PathBuf> {
    let java: String = java_version
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '.' })
        .collect();
    let name = format!("kafka-{kafka_version}-classes-java-{java}");
    let entry = cache::entry(&name, ARCHIVE_BYTES, progress, stop, |dir, progress| {
        progress("recording the classes of Apache Kafka, once, so that brokers start faster");
        run(format!("{WRITE}{}", dir.join(FILE).display()))
    });
    match entry {
        Ok(dir) => Some(dir.join(FILE)).filter(|file| file.is_file()),
        Err(error) => {
            tracing::debug!(%error, "class archive not written");
            None
        }
    }
}

/// Returns `true` if a JVM with these arguments writes an archive, so that it cannot read one.
pub(crate) fn is_written_by(jvm_arguments: &[String]) -> bool {
    jvm_arguments
        .iter()
        .any(|argument| argument.starts_with(WRITE))
}

/// Returns the JVM argument that makes use of an archive.
pub(crate) fn argument(archive: Option<&Path>) -> Option<String> {
    archive.map(|file| format!("-XX:SharedArchiveFile={}", file.display()))
}
