//! `lab.json`: the state of a lab in its directory, for later commands.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::process::{self, ProcessIdentity};
use crate::registry::RegistrySecurity;
use crate::security::LabSecurity;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum LabPhase {
    /// Being started by a command. If that command has ended, its brokers end as well.
    Starting,
    /// Started successfully and not stopped.
    Running,
    /// Stopped, with its data kept.
    Stopped,
    /// Not started because of an error; only logs are left.
    Failed,
}

/// The content of `lab.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabState {
    pub(crate) schema: u32,
    pub(crate) phase: LabPhase,
    pub(crate) kafka_version: String,
    pub(crate) cluster_id: String,
    pub(crate) host: Ipv4Addr,
    pub(crate) heap_mb: u32,
    pub(crate) detached: bool,
    pub(crate) properties: Vec<(String, String)>,
    /// Missing in files of older builds.
    #[serde(default)]
    pub(crate) jvm_arguments: Vec<String>,
    /// Boot of the machine. Process ids of an earlier boot mean nothing.
    pub(crate) boot_id: String,
    pub(crate) started_unix_ms: u64,
    pub(crate) nodes: Vec<LabNode>,
    #[serde(default)]
    pub(crate) security: LabSecurity,
    /// `true` if the nodes have listeners for tests.
    #[serde(default)]
    pub(crate) test_listeners: bool,
    /// Lifetime of tokens in seconds.
    #[serde(default)]
    pub(crate) token_lifetime_s: u64,
    /// Token endpoint of mode OAuth.
    #[serde(default)]
    pub(crate) tokens: Option<ServiceState>,
    #[serde(default)]
    pub(crate) registry: Option<RegistryState>,
}

/// A server next to the brokers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ServiceState {
    pub(crate) port: u16,
    pub(crate) tls_port: u16,
    pub(crate) process: Option<ProcessIdentity>,
}

impl ServiceState {
    /// Returns the state of a server that is not started yet, with the next two of `ports`.
    pub(crate) fn new(ports: &mut dyn Iterator<Item = u16>) -> Self {
        let mut next = || ports.next().unwrap_or_default();
        Self {
            port: next(),
            tls_port: next(),
            process: None,
        }
    }
}

/// The schema registry of a lab.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RegistryState {
    pub(crate) security: RegistrySecurity,
    pub(crate) server: ServiceState,
    /// Token endpoint with which the registry checks passwords.
    pub(crate) tokens: Option<ServiceState>,
}

impl RegistryState {
    /// Returns the servers with their names.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (&'static str, ServiceState)> {
        let tokens = self.tokens.map(|tokens| ("logins of the registry", tokens));
        [("schema registry", self.server)].into_iter().chain(tokens)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LabNode {
    pub(crate) node_id: i32,
    pub(crate) port: u16,
    pub(crate) controller_port: u16,
    pub(crate) process: Option<ProcessIdentity>,
    /// Further ports of a secured lab; missing in files of older builds.
    #[serde(default)]
    pub(crate) secured: Option<SecuredPorts>,
}

/// Ports that only a secured node has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SecuredPorts {
    /// Unencrypted listener for other brokers, on the loopback interface.
    pub(crate) internal: u16,
    /// Listeners for tests.
    pub(crate) expired: Option<u16>,
    pub(crate) other_host: Option<u16>,
    pub(crate) unencrypted: Option<u16>,
}

impl SecuredPorts {
    /// Returns the ports of a node without listeners for tests.
    pub(crate) fn new(internal: u16) -> Self {
        Self {
            internal,
            expired: None,
            other_host: None,
            unencrypted: None,
        }
    }
}

impl LabNode {
    /// Returns the address on which brokers and controllers connect to each other.
    pub(crate) fn private_host(&self, host: Ipv4Addr) -> Ipv4Addr {
        match self.secured {
            Some(_) => Ipv4Addr::LOCALHOST,
            None => host,
        }
    }

    /// Returns the name of the broker in errors.
    pub(crate) fn name(&self) -> String {
        format!("broker {}", self.node_id)
    }

    /// Returns an address that accepts requests without TLS and login.
    pub(crate) fn probe_address(&self, host: Ipv4Addr) -> (Ipv4Addr, u16) {
        match self.secured {
            Some(ports) => (Ipv4Addr::LOCALHOST, ports.internal),
            None => (host, self.port),
        }
    }

    /// Returns the addresses on which the node listens, without second listeners.
    pub(crate) fn addresses(&self, host: Ipv4Addr) -> Vec<(Ipv4Addr, u16)> {
        let mut all = vec![
            (host, self.port),
            (self.private_host(host), self.controller_port),
        ];
        if let Some(ports) = self.secured {
            all.push((Ipv4Addr::LOCALHOST, ports.internal));
            let tests = [ports.expired, ports.other_host, ports.unencrypted];
            all.extend(tests.into_iter().flatten().map(|port| (host, port)));
        }
        all
    }
}

impl LabState {
    /// Reads the state of the lab in `dir`; `None` if there is no lab.
    pub(crate) fn load(dir: &Path) -> Result<Option<Self>> {
        let path = state_file(dir);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(LabError::io(format!("read {}", path.display()), error)),
        };
        let invalid = |detail| LabError::BadState(path.clone(), detail);
        let state: Self =
            serde_json::from_str(&text).map_err(|error| invalid(error.to_string()))?;
        if state.schema != SCHEMA {
            let schema = state.schema;
            return Err(invalid(format!("has schema {schema}, expected {SCHEMA}")));
        }
        Ok(Some(state))
    }

    /// Writes the state atomically: readers see either the old or the new state.
    pub(crate) fn save(&self, dir: &Path) -> Result<()> {
        let path = state_file(dir);
        let fresh = dir.join("lab.json.new");
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| LabError::io("write lab.json", error.into()))?;
        fs::write(&fresh, text + "\n")
            .and_then(|()| fs::rename(&fresh, &path))
            .map_err(|error| LabError::file(dir, error))
    }

    /// Forgets all processes, which have been stopped.
    pub(crate) fn forget_processes(&mut self) {
        for node in &mut self.nodes {
            node.process = None;
        }
        let registry = self.registry.iter_mut();
        let servers = registry.flat_map(|it| it.tokens.iter_mut().chain([&mut it.server]));
        for server in self.tokens.iter_mut().chain(servers) {
            server.process = None;
        }
    }

    /// Returns the process of `node` if it is still running.
    pub(crate) fn running(&self, node: &LabNode) -> Option<ProcessIdentity> {
        self.alive(node.process)
    }

    /// Returns the servers next to the brokers, with their names.
    pub(crate) fn servers(&self) -> impl Iterator<Item = (&'static str, ServiceState)> {
        let tokens = self.tokens.map(|tokens| ("token endpoint", tokens));
        let registry = self.registry.iter().flat_map(RegistryState::servers);
        tokens.into_iter().chain(registry)
    }

    /// Returns `process` if it is still running.
    pub(crate) fn alive(&self, process: Option<ProcessIdentity>) -> Option<ProcessIdentity> {
        process.filter(|process| self.boot_id == process::boot_id() && process.is_alive())
    }

    /// Returns the bootstrap servers, `host:port` separated by commas.
    pub(crate) fn bootstrap(&self) -> String {
        let ports = self.nodes.iter().map(|node| Some(node.port));
        self.addresses(ports).unwrap_or_default()
    }

    /// Returns `host:port` of all `ports` separated by commas; `None` if a node has no such port.
    pub(crate) fn addresses(&self, ports: impl Iterator<Item = Option<u16>>) -> Option<String> {
        let addresses = ports.map(|port| Some(format!("{}:{}", self.host, port?)));
        Some(addresses.collect::<Option<Vec<_>>>()?.join(","))
    }
}

pub(crate) fn node_dir(dir: &Path, node_id: i32) -> PathBuf {
    dir.join(format!("node-{node_id}"))
}

pub(crate) fn data_dir(dir: &Path, node_id: i32) -> PathBuf {
    node_dir(dir, node_id).join("data")
}

pub(crate) fn log_dir(dir: &Path, node_id: i32) -> PathBuf {
    node_dir(dir, node_id).join("logs")
}

pub(crate) fn security_dir(dir: &Path) -> PathBuf {
    dir.join("security")
}

pub(crate) fn tokens_dir(dir: &Path) -> PathBuf {
    dir.join("tokens")
}

/// Returns the file with the settings of clients.
pub(crate) fn client_config(dir: &Path) -> PathBuf {
    dir.join("client.properties")
}

pub(crate) fn registry_dir(dir: &Path) -> PathBuf {
    dir.join("registry")
}

fn state_file(dir: &Path) -> PathBuf {
    dir.join("lab.json")
}

pub(crate) const SCHEMA: u32 = 1;
