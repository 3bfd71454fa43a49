//! `create_session` and `bind_session`.

use std::borrow::Cow;
use std::fmt;

use bounded_static::ToStatic;

use super::params::{LineParams, digits};
use super::values::{Bandwidth, Diffs};
use super::{Control, SessionRef};
use crate::Version;
use crate::error::RequestFault;

/// A `create_session` request. Unknown parameters are ignored, and `LS_cid` is not checked.
#[derive(Clone, Debug, PartialEq, ToStatic)]
#[allow(missing_docs)] // named after their parameters
pub struct CreateSession<'a> {
    /// Version in the query of an HTTP request; `None` over WebSocket, which negotiates it.
    pub version: Option<Version>,
    /// `LS_cid`: client library; optional.
    pub cid: Option<Cow<'a, str>>,
    /// `LS_adapter_set`, default `DEFAULT`.
    pub adapter_set: Cow<'a, str>,
    /// `LS_user`; may be empty.
    pub user: Option<Cow<'a, str>>,
    pub password: Option<Password<'a>>,
    pub requested_max_bandwidth: Option<Bandwidth>,
    pub supported_diffs: Diffs,
    pub ttl: TimeToLive,
    /// `LS_old_session` (undocumented): session that this one replaces.
    pub old_session: Option<SessionRef<'a>>,
    /// `LS_cause` (undocumented): reason of the connection, for diagnostics.
    pub cause: Option<Cow<'a, str>>,
    /// Options of the stream connection that this request opens.
    pub stream: StreamOptions,
    /// Control requests of a combo request, in order, without request id and session. If one fails,
    /// the response is `CONERR` 64 and no session is created.
    pub controls: Vec<Control<'a>>,
}

/// A `bind_session` request.
#[derive(Clone, Debug, PartialEq, ToStatic)]
#[allow(missing_docs)] // named after their parameters
pub struct BindSession<'a> {
    /// Version in the query of an HTTP request; `None` over WebSocket, which negotiates it.
    pub version: Option<Version>,
    /// `LS_session`; if absent on a WebSocket, the last session bound on it.
    pub session: Option<SessionRef<'a>>,
    /// `LS_recovery_from`: number of data notifications received since the start of the session.
    pub recovery_from: Option<u64>,
    /// `LS_cause` (undocumented).
    pub cause: Option<Cow<'a, str>>,
    /// Options of the stream connection that this request opens.
    pub stream: StreamOptions,
}

/// Options of a stream connection.
#[derive(Clone, Debug, PartialEq, Eq, ToStatic)]
pub struct StreamOptions {
    /// `LS_polling=true` and its times; `None` for streaming. Parameters of the other kind are
    /// ignored.
    pub polling: Option<Polling>,
    /// `LS_content_length` in bytes.
    pub content_length: Option<u64>,
    /// `LS_keepalive_millis`, streaming only.
    pub keepalive_ms: Option<u64>,
    /// `LS_inactivity_millis`, streaming only.
    pub inactivity_ms: Option<u64>,
    /// `LS_send_sync`, default `true`, streaming only.
    pub send_sync: bool,
    /// `LS_reduce_head`, default `false`.
    pub reduce_head: bool,
}

/// Times of a polling connection, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToStatic)]
pub struct Polling {
    /// `LS_polling_millis`: expected time until the next poll.
    pub interval_ms: u64,
    /// `LS_idle_millis`: maximum time the server may wait for data; 0 = respond at once.
    pub idle_ms: u64,
}

/// `LS_ttl_millis`: time the client waits for the response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ToStatic)]
pub enum TimeToLive {
    /// The default.
    Unknown,
    /// The request must not be refused because of overload.
    Unlimited,
    /// In milliseconds.
    Millis(u64),
}

/// A password that `Debug` does not show.
#[derive(Clone, PartialEq, Eq, ToStatic)]
pub struct Password<'a>(Cow<'a, str>);

impl Password<'_> {
    /// Returns the password, which must not be logged.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl From<String> for Password<'_> {
    fn from(password: String) -> Self {
        Self(Cow::Owned(password))
    }
}

impl fmt::Debug for Password<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl<'a> CreateSession<'a> {
    pub(super) fn read(params: &LineParams<'a>) -> Result<Self, RequestFault> {
        let adapter_set = params
            .text("LS_adapter_set")
            .unwrap_or(Cow::Borrowed("DEFAULT"));
        Ok(Self {
            version: None,
            cid: params.text("LS_cid"),
            adapter_set,
            user: params.text("LS_user"),
            password: params.text("LS_password").map(Password),
            requested_max_bandwidth: Bandwidth::read(params)?,
            supported_diffs: Diffs::read(params),
            ttl: params
                .word("LS_ttl_millis", TimeToLive::read)?
                .unwrap_or(TimeToLive::Unknown),
            old_session: params.session("LS_old_session"),
            cause: params.text("LS_cause"),
            stream: StreamOptions::read(params)?,
            controls: Vec::new(),
        })
    }
}

impl<'a> BindSession<'a> {
    pub(super) fn read(params: &LineParams<'a>) -> Result<Self, RequestFault> {
        Ok(Self {
            version: None,
            session: params.session("LS_session"),
            recovery_from: params.word("LS_recovery_from", |text| digits(text)?.parse().ok())?,
            cause: params.text("LS_cause"),
            stream: StreamOptions::read(params)?,
        })
    }
}

impl StreamOptions {
    fn read(params: &LineParams<'_>) -> Result<Self, RequestFault> {
        let polling = match params.flag("LS_polling", false)? {
            false => None,
            true => Some(Polling {
                interval_ms: params
                    .number("LS_polling_millis")?
                    .ok_or_else(|| RequestFault::missing("LS_polling_millis"))?
                    .into(),
                idle_ms: params.number("LS_idle_millis")?.map_or(0, u64::from),
            }),
        };
        let streaming_time = |name| match polling {
            None => Ok(params.number(name)?.map(u64::from)),
            Some(_) => Ok(None),
        };
        Ok(Self {
            polling,
            content_length: params.word("LS_content_length", |text| digits(text)?.parse().ok())?,
            keepalive_ms: streaming_time("LS_keepalive_millis")?,
            inactivity_ms: streaming_time("LS_inactivity_millis")?,
            send_sync: polling.is_none() && params.flag("LS_send_sync", true)?,
            reduce_head: params.flag("LS_reduce_head", false)?,
        })
    }
}

impl TimeToLive {
    fn read(text: &str) -> Option<Self> {
        match text {
            "unknown" => Some(Self::Unknown),
            "unlimited" => Some(Self::Unlimited),
            number => digits(number)?.parse().ok().map(Self::Millis),
        }
    }
}
