//! Errors of calls, as HTTP responses.

use serde_json::json;
use weir_net::admin::json_page;
use weir_net::http1::Response;

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub(super) enum ApiError {
    #[error("use {0}")]
    Method(&'static str),
    #[error("unusable value of parameter \"{0}\"")]
    Parameter(&'static str),
    #[error("unknown parameter \"{0}\"")]
    UnknownParameter(String),
    #[error("give \"session\" or \"item\"")]
    TraceTarget,
    #[error("\"user\" is required")]
    NoUser,
    #[error("body: {0}")]
    Body(String),
    #[error("\"code\" must be 32, 48, or 0 and below")]
    Code,
    #[error("\"message\" has more than {0} bytes")]
    Message(usize),
    #[error("\"{0}\" must be a time like 2027-01-15T08:00:00Z")]
    Time(&'static str),
    #[error("give \"jti\" or \"user\"")]
    RevocationKey,
    #[error(transparent)]
    Revocation(#[from] weir_identity::RevocationError),
    #[error("clients are not identified: gateway.toml has no [auth]")]
    NoAuth,
    #[error("no such revocation")]
    NoRevocation,
    #[error(
        "the other gateways do not know it: {0}; a new revocation applies to this gateway only: \
         repeat the call"
    )]
    NotShared(#[from] weir_kafka::TableWriteError),
    #[error("no such session")]
    NoSession,
    #[error("an event loop did not respond, try again")]
    Busy,
}

impl ApiError {
    /// Returns the word for the audit log.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::NoSession => "no_session",
            Self::NoRevocation => "no_revocation",
            Self::NotShared(_) => "not_shared",
            Self::Busy => "busy",
            _ => "bad_request",
        }
    }

    pub(super) fn response(&self) -> Response {
        let status = match self {
            Self::Method(_) => 405,
            Self::NoSession | Self::NoRevocation => 404,
            Self::NotShared(_) | Self::Busy => 503,
            _ => 400,
        };
        let text = json!({ "error": self.to_string() });
        let response = Response {
            status,
            ..json_page(format!("{text}\n"))
        };
        match self {
            Self::Method(allowed) => response.with_header("Allow", *allowed),
            _ => response,
        }
    }
}
