//! The process of the OpenID provider, with one control port and a port per issuer.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use super::control::ControlPort;
use super::issuer::Issuer;
use crate::cache;
use crate::disk;
use crate::error::{LabError, Result};
use crate::operation::Operation;
use crate::ports;
use crate::sdk::npm::{self, Packages};
use crate::server::{Server, ServerLaunch};
use crate::state::ServiceState;

/// Version of the npm package `oidc-provider`.
pub const PROVIDER_VERSION: &str = "9.13.3";

/// Most issuers of one provider.
pub const ISSUERS_MAX: usize = 64;

/// A running OpenID provider, stopped with this value. Its issuers have separate ports, keys, users
/// and faults, so that all tests of a program can share the process.
#[derive(Debug)]
pub struct IdentityProvider {
    control: ControlPort,
    server: Server,
    dir: PathBuf,
}

impl IdentityProvider {
    /// Starts a provider on the loopback interface, installed with npm if it is not cached.
    pub fn start(progress: &mut dyn FnMut(&str), stop: &AtomicBool) -> Result<Self> {
        let mut operation = Operation { progress, stop };
        let (node, modules) = installed(&mut operation)?;
        let temporary = tempfile::Builder::new().prefix("weir-identity-").tempdir();
        let temporary =
            temporary.map_err(|error| LabError::Directory(std::env::temp_dir(), error))?;
        let dir = temporary.path().to_owned();
        let script = dir.join("provider.mjs");
        disk::write_private(&script, SCRIPT)?;
        let ports = ports::free_ports(HOST, ISSUERS_MAX + 1)
            .map_err(|error| LabError::io("find free ports", error))?;
        let mut command = vec![node.display().to_string(), script.display().to_string()];
        command.extend([modules.display().to_string(), HOST.to_string()]);
        command.extend(ports.iter().map(u16::to_string));
        let launch = ServerLaunch {
            name: NAME,
            command,
            logs: dir.clone(),
            host: HOST,
            probe: "/ready",
            authorization: None,
            temporary_dir: Some(dir.clone()),
        };
        let state = ServiceState {
            port: ports[0],
            tls_port: 0,
            process: None,
        };
        let server = Server::new(launch, state);
        // From now on, the provider removes it.
        let mut provider = Self {
            control: ControlPort::new(NAME, HOST, ports[0]),
            server,
            dir: temporary.keep(),
        };
        provider.server.start()?;
        provider.server.wait_ready(READY_TIMEOUT, &operation)?;
        Ok(provider)
    }

    /// Adds an issuer with one key for this algorithm.
    pub fn issuer(&self, algorithm: &str) -> Result<Issuer<'_>> {
        Issuer::create(&self.control, algorithm)
    }
}

impl Drop for IdentityProvider {
    fn drop(&mut self) {
        if let Err(error) = self.server.stop(STOP_TIMEOUT) {
            tracing::warn!(%error, "identity provider not stopped");
        }
        if let Err(error) = disk::remove(&self.dir) {
            tracing::warn!(%error, "directory of the identity provider not removed");
        }
    }
}

/// Returns `node` and the directory of the packages, installed if they are not cached.
pub(super) fn installed(operation: &mut Operation<'_>) -> Result<(PathBuf, PathBuf)> {
    let node = npm::node_since(NODE_OLDEST, "to run the OpenID provider of tests")?;
    let name = format!("identity-provider-{PROVIDER_VERSION}");
    let dir = cache::entry(&name, INSTALL_BYTES, operation, |dir: &Path, operation| {
        let what = format!("the OpenID provider {PROVIDER_VERSION}");
        npm::install(&PACKAGES, &what, dir, operation)
    })?;
    Ok((node, dir.join("node_modules")))
}

const NAME: &str = "identity provider";
const HOST: Ipv4Addr = Ipv4Addr::LOCALHOST;
const SCRIPT: &str = include_str!("provider/provider.mjs");
const PACKAGES: Packages = Packages {
    json: include_str!("provider/package.json"),
    lock: include_str!("provider/package-lock.json"),
    package: "oidc-provider",
};
/// Oldest release of Node.js that the packages run with.
const NODE_OLDEST: &str = "20.12";
/// Disk space required for the packages.
const INSTALL_BYTES: u64 = 20 << 20;
const READY_TIMEOUT: Duration = Duration::from_secs(60);
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn embedded_package_files_pin_the_version() {
        assert!(PACKAGES.is_pinned_to(PROVIDER_VERSION));
    }
}
