//! One line of the audit log.

use std::net::SocketAddr;

use serde::Serialize;

/// Kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum AuditKind {
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AuditDetails {
    /// Load balancer that forwards the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peer_address: Option<SocketAddr>,
    /// Server name that the client asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<Box<str>>,
    /// `client.id` of the request, at most 256 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client_id: Option<Box<str>>,
    /// SASL mechanism.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mechanism: Option<&'static str>,
    /// Name of the API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api: Option<&'static str>,
    /// Operation that was denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Box<str>>,
    /// Type of the resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_type: Option<Box<str>>,
    /// Name of the first denied resource.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Box<str>>,
    /// `denied`, or `dry_run` if the request was forwarded; of reloads `applied` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<&'static str>,
    /// Access rule that denied, as place in its file; `none` if no rule allows the operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<Box<str>>,
    /// Error code that the client got from the proxy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error_code: Option<i16>,
    /// Cause, as one word.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
}

/// Line of the audit log, without time and number.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct AuditLine {
    /// Kind of event.
    pub(super) event: AuditKind,
    /// Number of the configuration in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) generation: Option<u64>,
    /// Virtual cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<Box<str>>,
    /// Address and port of the client.
    #[serde(rename = "client_address", skip_serializing_if = "Option::is_none")]
    pub(super) client: Option<SocketAddr>,
    /// Principal of the client, as KIND:NAME.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) principal: Option<Box<str>>,
    /// Mode of the proxy's identity at the brokers.
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

/// Line of the proxy's audit log. It never contains a record, password or token.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub(super) struct NumberedLine<'a> {
    /// Time, with milliseconds, in UTC.
    #[cfg_attr(feature = "schema", schemars(extend("format" = "date-time")))]
    pub(super) time: String,
    /// Name of the proxy.
    pub(super) proxy: &'a str,
    /// Number of the line since the start.
    pub(super) seq: u64,
    #[serde(flatten)]
    pub(super) line: &'a AuditLine,
    /// Equal events that this line stands for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) count: Option<u64>,
}
