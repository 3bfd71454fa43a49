//! The response to the requests of one connection.

use std::borrow::Cow;

use weir_net::server::ConnId;
use weir_tlcp::codes::SessionCode;
use weir_tlcp::request::Request;

use super::frame::Framing;

/// What becomes of the connection after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageOutcome {
    /// It gets its answer.
    Respond,
    /// The answer has begun: it is a session's stream.
    Stream,
    /// To another shard; what it has sent after this message goes with it.
    HandOver,
}

/// What a request came by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestTransport {
    WebSocket,
    /// With the `Origin` that the answer must name.
    Http {
        origin: Option<Box<str>>,
    },
}

impl RequestTransport {
    /// How a stream is framed that comes this way.
    pub(super) fn framing(&self) -> Framing {
        match self {
            Self::WebSocket => Framing::WebSocket,
            Self::Http { .. } => Framing::Chunk,
        }
    }
}

/// The lines that answer the requests of one connection, until they are sent.
#[derive(Debug)]
pub(super) struct ResponseBatch {
    pub(super) conn: ConnId,
    pub(super) transport: RequestTransport,
    pub(super) lines: Vec<u8>,
    /// Requests that other shards must answer, each with the lines before it.
    pub(super) remote: Vec<(Vec<u8>, u16, Request<'static>)>,
}

impl ResponseBatch {
    /// With a buffer that may have been used before.
    pub(super) fn on(conn: ConnId, transport: RequestTransport, mut lines: Vec<u8>) -> Self {
        lines.clear();
        Self {
            conn,
            transport,
            lines,
            remote: Vec::new(),
        }
    }
}

/// Why a session does not begin.
pub(super) type SessionRefusal = (SessionCode, Cow<'static, str>);
