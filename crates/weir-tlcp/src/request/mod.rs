//! Client requests, as parsed by the server. The types are here, the parser in the submodules.

mod connect;
mod control;
mod message;
mod params;
mod parse;
#[cfg(test)]
mod tests;
mod values;

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

use crate::secret::fmt_secret;
use crate::server::SessionId;

pub use connect::{BindSession, CreateSession, Password, Polling, StreamOptions, TimeToLive};
pub use control::{Add, BufferSize, Control, ControlOp, Frequency, Mode, Snapshot};
pub use message::{Heartbeat, Message};
pub use parse::{parse_http_request, parse_ws_message};
pub use values::{Bandwidth, Diffs};

/// One request. A batch is a sequence of these.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// `wsok`; the response is `WSOK`, before any other line.
    Wsok,
    /// `create_session`, with control requests if it is a combo request.
    CreateSession(CreateSession<'a>),
    /// `bind_session`.
    BindSession(BindSession<'a>),
    /// One line of a `control` request.
    Control(Control<'a>),
    /// One line of a `msg` request.
    Message(Message<'a>),
    /// `heartbeat`; the response is `REQOK` over HTTP, and none over WebSocket.
    Heartbeat(Heartbeat<'a>),
}

impl Request<'_> {
    /// Returns an owned copy of the request.
    pub fn into_owned(self) -> Request<'static> {
        match self {
            Self::Wsok => Request::Wsok,
            Self::CreateSession(create) => Request::CreateSession(create.into_owned()),
            Self::BindSession(bind) => Request::BindSession(bind.into_owned()),
            Self::Control(control) => Request::Control(control.into_owned()),
            Self::Message(message) => Request::Message(message.into_owned()),
            Self::Heartbeat(heartbeat) => Request::Heartbeat(heartbeat.into_owned()),
        }
    }
}

/// Converts borrowed text into owned text.
fn owned(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

/// A session id in a request. It is a bearer secret: `Debug` and `Display` show only its first six
/// characters.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionRef<'a>(Cow<'a, str>);

impl<'a> SessionRef<'a> {
    pub(crate) fn new(id: Cow<'a, str>) -> Self {
        Self(id)
    }

    /// Returns the whole id.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl SessionRef<'_> {
    /// Returns an owned copy of the id.
    pub fn into_owned(self) -> SessionRef<'static> {
        SessionRef(Cow::Owned(self.0.into_owned()))
    }
}

impl From<&SessionId> for SessionRef<'static> {
    fn from(id: &SessionId) -> Self {
        Self(Cow::Owned(id.as_str().to_owned()))
    }
}

impl Deref for SessionRef<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_secret(&self.0, f)
    }
}

impl fmt::Debug for SessionRef<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt_secret(&self.0, f)
    }
}
