//! `lab.json`: the state of a lab in its directory, for later commands.

use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{LabError, Result};
use crate::process::{self, ProcessIdentity};

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
    pub(crate) boot_id: String,
    pub(crate) started_unix_ms: u64,
    pub(crate) nodes: Vec<LabNode>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LabNode {
    pub(crate) node_id: i32,
    pub(crate) port: u16,
    pub(crate) controller_port: u16,
    pub(crate) process: Option<ProcessIdentity>,
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

    /// Returns the process of `node` if it is still running.
    pub(crate) fn running(&self, node: &LabNode) -> Option<ProcessIdentity> {
        node.process
            .filter(|process| self.boot_id == process::boot_id() && process.is_alive())
    }

    /// Returns the bootstrap servers, `host:port` separated by commas.
    pub(crate) fn bootstrap(&self) -> String {
        let address = |node: &LabNode| format!("{}:{}", self.host, node.port);
        self.nodes.iter().map(address).collect::<Vec<_>>().join(",")
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

fn state_file(dir: &Path) -> PathBuf {
    dir.join("lab.json")
}

pub(crate) const SCHEMA: u32 = 1;
