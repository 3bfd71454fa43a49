//! `[audit]`: destination and queue of the audit log.

use std::path::{Path, PathBuf};

use serde::Deserialize;

/// Default maximum number of records that wait for the writer; about 5 MB.
const QUEUE: usize = 10_000;
const QUEUE_MAX: usize = 1_000_000;

/// Destination and queue of the audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditConfig {
    /// Destination of the lines.
    pub target: AuditTarget,
    /// Maximum number of records that wait for the writer; default 10,000.
    pub queue: usize,
    /// Name of this gateway or proxy in the records; default the name of the host.
    pub gateway: String,
}

/// Destination of the lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTarget {
    /// Standard output.
    Stdout,
    /// A file, to which lines are appended.
    File(PathBuf),
}

/// `[audit]` as written.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RawAudit {
    /// The file.
    path: PathBuf,
    queue: Option<usize>,
    gateway: Option<String>,
}

/// Unusable settings of the audit log.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// The size of the queue is outside its bounds.
    #[error("audit.queue = {0}: use 1 to {QUEUE_MAX}")]
    Queue(usize),
    /// The path is empty.
    #[error("audit.path = \"\": use a file or \"stdout\"")]
    NoPath,
    /// The file cannot be opened.
    #[error("audit.path = \"{}\": cannot open the file for writing: {error}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The thread that writes could not be started.
    #[error("cannot start the thread of the audit log: {0}")]
    Thread(std::io::Error),
}

impl RawAudit {
    /// Checks the settings; a relative path starts at `dir`. Opens nothing.
    pub fn check(self, dir: &Path) -> Result<AuditConfig, AuditError> {
        AuditConfig::new(self.path, self.queue, self.gateway, dir)
    }
}

impl AuditConfig {
    /// Checks the settings; a relative path starts at `dir`, and `stdout` is standard output. What
    /// is `None` has its default. Opens nothing.
    pub fn new(
        path: PathBuf,
        queue: Option<usize>,
        name: Option<String>,
        dir: &Path,
    ) -> Result<Self, AuditError> {
        let queue = queue.unwrap_or(QUEUE);
        if !(1..=QUEUE_MAX).contains(&queue) {
            return Err(AuditError::Queue(queue));
        }
        if path.as_os_str().is_empty() {
            return Err(AuditError::NoPath);
        }
        let target = match path.to_str() {
            Some("stdout") => AuditTarget::Stdout,
            _ => AuditTarget::File(dir.join(&path)),
        };
        let gateway = name.unwrap_or_else(host_name);
        Ok(Self {
            target,
            queue,
            gateway,
        })
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname");
    name.map_or_else(|_| "gateway".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_start_at_the_configuration_and_limits_are_checked() {
        let check = |text: &str| {
            let raw: RawAudit = toml::from_str(text).unwrap();
            raw.check(Path::new("/etc/weir"))
        };
        let config = check("path = \"audit.log\"\ngateway = \"a\"").unwrap();
        let expected = AuditTarget::File("/etc/weir/audit.log".into());
        assert_eq!((config.target, config.queue), (expected, QUEUE));
        assert_eq!(
            check("path = \"stdout\"").unwrap().target,
            AuditTarget::Stdout
        );
        assert!(matches!(check("path = \"\""), Err(AuditError::NoPath)));
        for queue in [0, QUEUE_MAX + 1] {
            let checked = check(&format!("path = \"a\"\nqueue = {queue}"));
            assert!(matches!(checked, Err(AuditError::Queue(_))), "{queue}");
        }
    }
}
