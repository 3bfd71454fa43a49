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

use bounded_static::ToStatic;

use crate::secret::fmt_secret;
use crate::server::SessionId;

/// Owned copies of requests.
pub use bounded_static::ToBoundedStatic;
pub use connect::{BindSession, CreateSession, Password, Polling, StreamOptions, TimeToLive};
pub use control::{Add, BufferSize, Control, ControlOp, Frequency, Mode, Snapshot};
pub use message::{Heartbeat, Message};
pub use parse::{parse_http_request, parse_ws_message};
pub use values::{Bandwidth, Diffs};

/// One request. A batch is a sequence of these.
#[derive(Clone, Debug, PartialEq, ToStatic)]
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

/// A session id in a request. It is a bearer secret: `Debug` and `Display` show only its first six
/// characters.
#[derive(Clone, PartialEq, Eq, ToStatic)]
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
