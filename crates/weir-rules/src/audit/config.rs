//! `[audit]`: destination and queue of the audit log.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use weir_access::audit::{AuditConfig, AuditError};

/// Table `audit`.
#[derive(Debug, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RawAudit {
    /// File, or stdout.
    path: PathBuf,
    /// Records that wait for the writer, by default 10,000.
    queue: Option<usize>,
    /// Behaviour when the queue is full.
    #[serde(default)]
    on_full: OnFull,
    /// Name of this proxy in the records, by default that of the host.
    name: Option<String>,
}

/// Behaviour when the queue is full.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(super) enum OnFull {
    /// Records are dropped and counted.
    #[default]
    Drop,
    /// The event loop waits, and with it its connections.
    Wait,
}

/// Destination and queue of the audit log.
#[derive(Debug, Clone, PartialEq)]
pub struct ProxyAuditConfig {
    /// Destination, queue and name.
    pub log: AuditConfig,
    pub(super) on_full: OnFull,
}

impl RawAudit {
    /// Checks the table; a relative path starts at `dir`. Opens nothing.
    pub fn check(self, dir: &Path) -> Result<ProxyAuditConfig, AuditError> {
        Ok(ProxyAuditConfig {
            log: AuditConfig::new(self.path, self.queue, self.name, dir)?,
            on_full: self.on_full,
        })
    }
}
