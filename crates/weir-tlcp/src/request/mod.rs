//! Requests of a client, as parsed by the server: types here, parser in the submodules.

mod connect;
mod control;
mod message;
mod params;
mod parse;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;

pub use connect::{
    Bandwidth, BindSession, CreateSession, Diffs, Password, Polling, StreamOptions, TimeToLive,
};
pub use control::{Add, BufferSize, Control, ControlOp, Frequency, Mode, Snapshot};
pub use message::{Heartbeat, Message};
pub use parse::{parse_http_request, parse_ws_message};

/// One request. A batch is a sequence of these.
#[derive(Clone, Debug, PartialEq)]
pub enum Request<'a> {
    /// `wsok`, answered with `WSOK` before anything that follows.
    Wsok,
    /// `create_session`, with its controls if it is a combo request.
    CreateSession(CreateSession<'a>),
    /// `bind_session`.
    BindSession(BindSession<'a>),
    /// One line of a `control` request.
    Control(Control<'a>),
    /// One line of a `msg` request.
    Message(Message<'a>),
    /// `heartbeat`: over HTTP answered with a bare `REQOK`, over WebSocket with nothing.
    Heartbeat(Heartbeat<'a>),
}

/// A session id named by a request. It is a bearer secret: `Debug` and `Display` show its first
/// six characters only.
#[derive(Clone, PartialEq, Eq)]
pub struct SessionRef<'a>(Cow<'a, str>);

impl<'a> SessionRef<'a> {
    pub(crate) fn new(id: Cow<'a, str>) -> Self {
        Self(id)
    }

    /// The whole id.
    pub fn as_str(&self) -> &str {
        &self.0
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

/// Shows what is enough to find a session in a log and too little to take it over.
pub(crate) fn fmt_secret(id: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    const SHOWN_CHARS: usize = 6;
    for character in id.chars().take(SHOWN_CHARS) {
        write!(f, "{}", character.escape_default())?;
    }
    f.write_str("…")
}
