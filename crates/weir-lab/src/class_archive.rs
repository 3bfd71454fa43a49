//! An archive of the classes that a broker loads, shared by all brokers of this user.
//!
//! With it, formatting and starting a broker take about half the CPU time. A JVM that finds the
//! archive unsuitable ignores it. A failed recording is remembered next to the archive, because it
//! can take minutes: brokers of the same releases then start without it.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cache;
use crate::disk;
use crate::error::{LabError, Result};
use crate::operation::Operation;

/// Free space that the archive needs, in bytes.
const ARCHIVE_BYTES: u64 = 100 << 20;
const FILE: &str = "classes.jsa";
const RECORDING: &str = "recording the classes of Apache Kafka, once, so that brokers start faster";
const WRITE: &str = "-XX:ArchiveClassesAtExit=";

/// Archive for one release of Kafka and one of Java.
#[derive(Debug)]
pub(crate) struct ClassArchive {
    name: String,
    /// File with the reason why the last recording failed.
    failure: PathBuf,
}

impl ClassArchive {
    /// Returns the archive, which may not exist yet. `retry`: forgets a failed recording.
    pub(crate) fn new(kafka_version: &str, java_version: &str, retry: bool) -> Result<Self> {
        let java = java_version.replace(|c: char| !c.is_ascii_alphanumeric(), ".");
        let name = format!("kafka-{kafka_version}-classes-java-{java}");
        let failure = disk::cache_dir()?.join(format!("{name}.failed"));
        if retry {
            disk::remove(&failure)?;
        }
        Ok(Self { name, failure })
    }

    /// Returns the file. If there is none, `run` must start and stop a broker with the JVM argument
    /// it gets, which writes the archive at exit.
    ///
    /// Returns `None` if the archive cannot be written; brokers then start without it.
    pub(crate) fn find_or_write(
        &self,
        operation: &mut Operation<'_>,
        run: impl FnOnce(String) -> Result<()>,
    ) -> Option<PathBuf> {
        let build = |dir: &Path, op: &mut Operation<'_>| {
            (op.progress)(RECORDING);
            let file = dir.join(FILE);
            run(format!("{WRITE}{}", file.display()))?;
            // A JVM that cannot write the archive still ends normally.
            let written = file.metadata().map(drop);
            written.map_err(|error| LabError::io("record classes", error))
        };
        let file = remember_failure(&self.failure, || {
            Ok(cache::entry(&self.name, ARCHIVE_BYTES, operation, build)?.join(FILE))
        })?;
        Some(file).filter(|file| file.is_file())
    }
}

/// Returns the result of `record`. A failure, except an interruption, is logged and stored in
/// `marker`; while that file exists, `record` is not called.
fn remember_failure(marker: &Path, record: impl FnOnce() -> Result<PathBuf>) -> Option<PathBuf> {
    if marker.is_file() {
        tracing::debug!(marker = %marker.display(), "class archive not recorded before, skipped");
        return None;
    }
    match record() {
        Ok(file) => Some(file),
        Err(LabError::Interrupted(_)) => None,
        Err(error) => {
            let marker_text = marker.display();
            tracing::warn!(%error, marker = %marker_text, "failed to record a class archive");
            if let Err(error) = fs::write(marker, format!("{error}\n")) {
                tracing::debug!(%error, "failed to store the reason");
            }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_recording_is_not_repeated() {
        let dir = tempfile::tempdir().unwrap();
        let marker = dir.path().join("archive.failed");
        let interrupted = || Err(LabError::Interrupted("testing"));
        assert_eq!(remember_failure(&marker, interrupted), None);
        assert!(!marker.exists(), "an interruption is no failure");
        let file = || Ok(PathBuf::from("/classes.jsa"));
        assert!(remember_failure(&marker, file).is_some());
        let failed = || Err(LabError::NoSuchBroker(7));
        assert_eq!(remember_failure(&marker, failed), None);
        assert_eq!(
            fs::read_to_string(&marker).unwrap(),
            "the lab has no broker 7\n"
        );
        assert_eq!(remember_failure(&marker, || panic!("called again")), None);
        disk::remove(&marker).unwrap();
        assert!(remember_failure(&marker, file).is_some());
    }
}
