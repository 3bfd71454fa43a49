//! One line of the audit log.

use std::net::SocketAddr;

use serde::Serialize;

/// Kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum AuditKind {
    /// A client connected.
    Connect,
    /// A client logged in.
    Login,
    /// A login failed.
    LoginFailed,
    /// Access rules denied something.
    Denied,
    /// A client sent a request that changes the cluster.
    Admin,
    /// The configuration was read again.
    Reload,
}

/// Subject of an event.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize)]
pub(crate) struct AuditDetails {
    /// Load balancer that forwards the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) peer_address: Option<SocketAddr>,
    /// Server name that the client asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) server_name: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) mechanism: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) api: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) operation: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource_type: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource: Option<Box<str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) decision: Option<&'static str>,
    /// Cause, as one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<&'static str>,
}

/// Line of the audit log, without time and number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub(super) struct AuditLine {
    pub(super) event: AuditKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<Box<str>>,
    #[serde(rename = "client_address", skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<SocketAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<Box<str>>,
    #[serde(rename = "cluster.identity", skip_serializing_if = "Option::is_none")]
    pub(super) identity: Option<&'static str>,
    #[serde(flatten)]
    pub(super) details: AuditDetails,
}

impl AuditLine {
    pub(super) fn new(event: AuditKind) -> Self {
        Self {
            event,
            generation: None,
            cluster: None,
            client: None,
            principal: None,
            identity: None,
            details: AuditDetails::default(),
        }
    }
}

/// Line with time and number.
#[derive(Debug, Serialize)]
pub(super) struct NumberedLine<'a> {
    pub(super) time: String,
    pub(super) proxy: &'a str,
    pub(super) seq: u64,
    #[serde(flatten)]
    pub(super) line: &'a AuditLine,
    /// Equal events that this line stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
}
