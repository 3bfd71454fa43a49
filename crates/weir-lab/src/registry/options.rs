//! Options of a registry.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Protection of a registry.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistrySecurity {
    /// `true` if clients connect with HTTPS. HTTP remains available on the other port.
    pub tls: bool,
    /// `true` if clients log in with user and password.
    pub basic_auth: bool,
}

impl RegistrySecurity {
    /// Returns `true` if certificates or passwords are needed.
    pub(crate) fn needs_files(self) -> bool {
        self.tls || self.basic_auth
    }
}

/// Options of a registry without brokers. The default is a free port and a temporary directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryOptions {
    /// Protection of the registry.
    pub security: RegistrySecurity,
    /// Address that the registry listens on.
    pub host: Ipv4Addr,
    /// Maximum heap in MB.
    pub heap_mb: u32,
    /// Directory for schemas, certificates and logs; `None`: a temporary one.
    pub dir: Option<PathBuf>,
    /// Bootstrap servers of the cluster that stores the schemas; `None`: the directory does.
    pub kafka: Option<String>,
    /// Longest time until the registry is ready.
    pub ready_timeout: Duration,
}

impl Default for RegistryOptions {
    fn default() -> Self {
        Self {
            security: RegistrySecurity::default(),
            host: Ipv4Addr::LOCALHOST,
            heap_mb: REGISTRY_HEAP_MB,
            dir: None,
            kafka: None,
            ready_timeout: Duration::from_secs(180),
        }
    }
}

pub(crate) const REGISTRY_HEAP_MB: u32 = 400;
