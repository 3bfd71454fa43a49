//! Where a configuration came from, so that a reload reads it again.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

/// Values from the command line that replace values of the file.
#[derive(Debug, Clone, Default)]
pub struct CliOverrides {
    /// `--upstream`: bootstrap servers; no file is needed.
    pub upstream: Option<String>,
    /// `--listen`: listen address.
    pub listen: Option<SocketAddr>,
    /// `--advertised-host`: host name in advertised addresses.
    pub advertised_host: Option<String>,
    /// `--admin`: address of the admin port.
    pub admin: Option<SocketAddr>,
    /// `--event-loops`: number of event loops.
    pub event_loops: Option<usize>,
}

/// File and command-line options of a configuration.
#[derive(Debug, Clone)]
pub struct ConfigOrigin {
    file: Option<PathBuf>,
    overrides: CliOverrides,
}

impl ConfigOrigin {
    pub(super) fn new(file: Option<&Path>, overrides: &CliOverrides) -> Self {
        Self {
            file: file.map(Path::to_owned),
            overrides: overrides.clone(),
        }
    }

    /// Returns the file, if there is one.
    pub fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    pub(crate) fn overrides(&self) -> &CliOverrides {
        &self.overrides
    }
}
