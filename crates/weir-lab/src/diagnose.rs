//! Finds the reason why a broker exited, from its logs.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use crate::config::BROKER_LOG;
use crate::error::LabError;
use crate::ports;
use crate::state::{self, LabNode};

pub(crate) const CONSOLE_LOG: &str = "console.log";

/// Returns the error for a broker that exited during its start.
pub(crate) fn exit_error(dir: &Path, host: Ipv4Addr, node: &LabNode, status: String) -> LabError {
    let logs = state::log_dir(dir, node.node_id);
    let text = tail(&logs);
    if text.contains("Address already in use") {
        for (host, port) in node.addresses(host) {
            if let Err(taken) = ports::require_free(host, port) {
                return taken;
            }
        }
    }
    if text.contains(NO_SPACE) {
        return LabError::full(dir);
    }
    LabError::BrokerExited {
        node_id: node.node_id,
        status,
        detail: error_lines(&text),
        log: log_file(&logs),
    }
}

/// Returns the errors or last lines of a node's log on one line, and the log file.
pub(crate) fn log_tail(dir: &Path, node_id: i32) -> (String, PathBuf) {
    let logs = state::log_dir(dir, node_id);
    (error_lines(&tail(&logs)), log_file(&logs))
}

/// Returns the errors or last lines of the output of a server in `logs`, on one line.
pub(crate) fn console_lines(logs: &Path) -> String {
    error_lines(&tail(logs))
}

/// Returns the reason for the exit of a broker that had been running.
pub(crate) fn exit_reason(dir: &Path, node_id: i32) -> String {
    let text = tail(&state::log_dir(dir, node_id));
    match text.contains(NO_SPACE) {
        true => "the disk was full".to_owned(),
        false => error_lines(&text),
    }
}

/// Returns up to three lines with errors, otherwise the last three lines.
fn error_lines(text: &str) -> String {
    let is_error = |line: &&str| {
        let mut marks = [" ERROR ", " FATAL ", "Exception", "Error: ", "error: "].iter();
        marks.any(|mark| line.contains(mark)) && !line.trim_start().starts_with("at ")
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let errors: Vec<_> = lines.clone().filter(is_error).take(LINES_MAX).collect();
    let lines: Vec<_> = lines.collect();
    match (lines.as_slice(), errors.as_slice()) {
        ([], _) => "its log is empty".to_owned(),
        (_, []) => lines[lines.len().saturating_sub(LINES_MAX)..].join(" | "),
        (_, errors) => errors.join(" | "),
    }
}

fn tail(logs: &Path) -> String {
    [CONSOLE_LOG, BROKER_LOG]
        .map(|log| tail_of(&logs.join(log)))
        .join("\n")
}

fn tail_of(path: &Path) -> String {
    let read = || {
        let mut file = File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
        Ok::<_, std::io::Error>(bytes)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}

/// Returns the log of the broker, or that of the JVM if the broker has written nothing.
fn log_file(logs: &Path) -> PathBuf {
    let log = logs.join(BROKER_LOG);
    match log.metadata() {
        Ok(meta) if meta.len() > 0 => log,
        _ => logs.join(CONSOLE_LOG),
    }
}

const NO_SPACE: &str = "No space left on device";
const TAIL_BYTES: u64 = 256 << 10;
const LINES_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BROKER_LOG;

    fn with_log(text: &str) -> (tempfile::TempDir, LabNode) {
        let dir = tempfile::tempdir().unwrap();
        let logs = state::log_dir(dir.path(), 1);
        std::fs::create_dir_all(&logs).unwrap();
        std::fs::write(logs.join(BROKER_LOG), text).unwrap();
        let node = LabNode {
            node_id: 1,
            port: 1,
            controller_port: 2,
            process: None,
            secured: None,
        };
        (dir, node)
    }

    #[test]
    fn full_disk_is_detected() {
        let (dir, node) =
            with_log("INFO x\nERROR y\njava.io.IOException: No space left on device\n");
        let error = exit_error(dir.path(), Ipv4Addr::LOCALHOST, &node, "exit 1".to_owned());
        assert!(matches!(error, LabError::DiskFull { .. }), "{error}");
        assert_eq!(exit_reason(dir.path(), 1), "the disk was full");
    }

    #[test]
    fn error_lines_take_precedence() {
        let (dir, node) =
            with_log("a INFO b: c\na ERROR b: bad heap\n\tat x.Exception\nz INFO end\n");
        let error = exit_error(dir.path(), Ipv4Addr::LOCALHOST, &node, "exit 1".to_owned());
        let text = error.to_string();
        assert!(text.contains("a ERROR b: bad heap"), "{text}");
        assert!(!text.contains("INFO end"), "{text}");
    }
}
