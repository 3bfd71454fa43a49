//! Options of a followed subscription.

use std::time::Duration;

use weir_tlcp::Mode;

use crate::clients::TlsTrust;

/// Server, session and subscription.
#[derive(Debug, Clone)]
pub struct TailOptions {
    /// Server, such as `ws://127.0.0.1:8080`.
    pub url: String,
    /// Trust in its certificate.
    pub tls: TlsTrust,
    /// User and password or token; not sent if `None`.
    pub user: Option<String>,
    /// Password or token, never printed.
    pub password: Option<String>,
    /// Adapter set of the session.
    pub adapter_set: String,
    /// Data adapter of the subscription; `None`: the server's default.
    pub data_adapter: Option<String>,
    /// Items of one subscription.
    pub items: Vec<String>,
    /// Its fields.
    pub fields: Vec<String>,
    /// Its mode.
    pub mode: Mode,
    /// Requests the current state first.
    pub snapshot: bool,
    /// Longest wait for the first connection and subscription; later ones are retried without end.
    pub timeout: Duration,
}
