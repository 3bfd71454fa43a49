//! Client messages, one per line of a `msg` request, and `heartbeat`.

use std::borrow::Cow;

use bounded_static::ToStatic;

use super::SessionRef;
use super::params::LineParams;
use crate::error::RequestFault;

/// A client message.
#[derive(Clone, Debug, PartialEq, Eq, ToStatic)]
#[allow(missing_docs)] // named after their parameters
pub struct Message<'a> {
    /// `LS_session`; if absent, the session of the connection.
    pub session: Option<SessionRef<'a>>,
    /// `LS_reqId`, letters and digits; always present, but optional as in `Control`.
    pub request_id: Option<Cow<'a, str>>,
    /// `LS_ack`: acceptance is confirmed with `REQOK`.
    pub ack: bool,
    /// `LS_outcome`: the result is reported with `MSGDONE` or `MSGFAIL`; `false` without `prog`.
    pub outcome: bool,
    pub text: Cow<'a, str>,
    /// `LS_sequence`, letters, digits and underscores; `None` = unordered.
    pub sequence: Option<Cow<'a, str>>,
    /// `LS_msg_prog`, from 1; always present with a sequence.
    pub prog: Option<u32>,
    /// `LS_max_wait` in milliseconds.
    pub max_wait_ms: Option<u64>,
}

/// A heartbeat, for any session.
#[derive(Clone, Debug, PartialEq, Eq, ToStatic)]
pub struct Heartbeat<'a> {
    /// `LS_session`; an unknown session is not an error.
    pub session: Option<SessionRef<'a>>,
}

impl<'a> Message<'a> {
    /// Reads the message, except session and request id, which the caller has read.
    pub(super) fn read(
        params: &LineParams<'a>,
        request_id: Cow<'a, str>,
    ) -> Result<Self, RequestFault> {
        let message = Self {
            session: None,
            request_id: Some(request_id),
            ack: params.flag("LS_ack", true)?,
            outcome: params.flag("LS_outcome", true)?,
            text: params
                .text("LS_message")
                .ok_or_else(|| RequestFault::missing("LS_message"))?,
            sequence: params.text("LS_sequence"),
            prog: params.number("LS_msg_prog")?,
            max_wait_ms: params.number("LS_max_wait")?.map(u64::from),
        };
        if let Some(name) = &message.sequence {
            let plain = name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            if name.is_empty() || !plain || name == "UNORDERED_MESSAGES" {
                return Err(RequestFault::bad_value("LS_sequence", name));
            }
        }
        match message.prog {
            Some(0) => Err(RequestFault::bad_value("LS_msg_prog", "0")),
            None if message.sequence.is_some() => Err(RequestFault::missing("LS_msg_prog")),
            // Without a number, the result could not be assigned to the message.
            None => Ok(Self {
                outcome: false,
                ..message
            }),
            Some(_) => Ok(message),
        }
    }
}
