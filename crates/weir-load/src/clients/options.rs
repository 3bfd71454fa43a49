//! Options of the clients of a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use weir_tlcp::Mode;

use super::diff_choice::DiffChoice;
use super::json::JsonClients;
use super::mode_name;
use super::scenario::{KEY_PLACEHOLDER, Subscribe};
use crate::share::WorkerShare;
use crate::worker::protocol::WorkerRole;

/// Options of the clients of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClientsOptions {
    /// Addresses `ws://host:port`, `wss://host:port` or `host:port`; clients use them in turn. With
    /// [`ClientProtocol::Json`] they may have a path, and start with `http` or `https` as well.
    pub servers: Vec<String>,
    /// Request compressed messages (permessage-deflate); a server that does not agree is an error.
    #[serde(default)]
    pub compression: bool,
    /// Trusted certificates of servers whose address starts with `wss://`.
    pub tls: TlsTrust,
    /// TLCP, the protocol of the baseline server, or that of another server.
    pub kind: ClientProtocol,
    /// Number of clients in the whole run.
    pub clients: usize,
    /// Share of the clients that this process runs.
    pub share: WorkerShare,
    /// New connections per second in the whole run.
    pub ramp_per_s: f64,
    /// Item of each client; `{key}` stands for its key. Without `{key}` all records are due to each
    /// client.
    pub items: String,
    /// Record keys that are assigned to the clients.
    pub keys: Vec<String>,
    /// Seed of the assignment of keys to clients.
    pub seed: u64,
    /// Field schema, in order.
    pub fields: Vec<String>,
    /// Diff formats that sessions accept. Diffs are applied only to values that are read.
    #[serde(default)]
    pub diffs: DiffChoice,
    /// Compare the values of all clients with those of one client per key that accepts no diffs.
    #[serde(default)]
    pub verify_values: bool,
    /// Record latencies only of records whose timestamp has the prefix
    /// [`MARK`](crate::payload::MARK).
    pub marked_only: bool,
    /// Time records without a due time by their timestamp, the field `ts`.
    #[serde(default)]
    pub record_timestamps: bool,
    /// Interval of the report in the form of the published programs; `None`: no report.
    pub published_report: Option<Duration>,
    /// Maximum time from the start of a connection to its active subscription.
    pub setup_timeout: Duration,
}

/// Trust in server certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TlsTrust {
    /// Not configured: `wss://` is rejected.
    #[default]
    Unset,
    /// Certificate authorities, as the text of a PEM file.
    CertificateAuthorities(String),
    /// Any certificate: the server is not authenticated.
    AnyCertificate,
}

/// Protocol of the clients.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientProtocol {
    /// TLCP over WebSocket.
    Tlcp {
        /// Adapter set.
        adapter_set: String,
        /// Data adapter of the subscription.
        data_adapter: Option<String>,
        /// Subscription mode.
        #[serde(with = "mode_name")]
        mode: Mode,
    },
    /// Protocol of the baseline server: the client sends its key, the server `OK` and frames.
    Floor,
    /// JSON messages of another server.
    Json(JsonClients),
}

impl ClientProtocol {
    /// Returns `true` if the server may replace an update by a newer one.
    pub(super) fn may_conflate(&self) -> bool {
        match self {
            Self::Tlcp { mode, .. } => *mode == Mode::Merge,
            Self::Floor => false,
            Self::Json(clients) => clients.may_conflate,
        }
    }

    /// Returns the role of a worker with such clients.
    pub fn role(&self) -> WorkerRole {
        match self {
            Self::Tlcp { .. } | Self::Json(_) => WorkerRole::Clients,
            Self::Floor => WorkerRole::FloorClients,
        }
    }
}

impl ClientsOptions {
    /// Options of `clients` clients at `server` that subscribe to `subscribe` in mode RAW, with 40
    /// keys.
    pub fn new(server: impl Into<String>, subscribe: &Subscribe, clients: usize) -> Self {
        Self {
            servers: vec![server.into()],
            compression: false,
            tls: TlsTrust::Unset,
            kind: ClientProtocol::Tlcp {
                adapter_set: subscribe.adapter_set.clone(),
                data_adapter: Some(subscribe.data_adapter.clone()),
                mode: Mode::Raw,
            },
            clients,
            share: WorkerShare::WHOLE,
            ramp_per_s: 1000.0,
            items: subscribe.items.clone(),
            keys: subscribe.pool.names(KEYS, false),
            seed: 1,
            fields: subscribe.fields.clone(),
            diffs: DiffChoice::NONE,
            verify_values: false,
            marked_only: false,
            record_timestamps: false,
            published_report: None,
            setup_timeout: Duration::from_secs(30),
        }
    }

    /// Options of `clients` clients of published scenario 2 at `server`, with the stamp field that
    /// the built-in plans map.
    #[cfg(test)]
    pub(crate) fn scenario_2(server: impl Into<String>, clients: usize) -> Self {
        let mut subscribe = super::Scenario::Two.corrected();
        subscribe.fields.push("weir".to_owned());
        Self::new(server, &subscribe, clients)
    }

    /// Returns `true` if each client subscribes to the records of one key.
    pub fn is_keyed(&self) -> bool {
        self.items.contains(KEY_PLACEHOLDER)
    }
}

/// Number of keys of the published generator.
const KEYS: usize = 40;
