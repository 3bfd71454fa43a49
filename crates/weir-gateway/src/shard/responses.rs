//! Responses to the requests of one connection.

use std::borrow::Cow;

use weir_fanout::events::EventForm;
use weir_net::server::ConnId;
use weir_tlcp::codes::SessionCode;
use weir_tlcp::request::Request;
use weir_tlcp::server::write_conerr;

use super::frame::Framing;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageOutcome {
    Respond,
    /// The connection becomes the stream connection of a session.
    Stream,
    /// The connection moves to another shard, with the input after this message.
    HandOver,
    /// The response follows when the keys of a token are there, or the remote adapter has decided.
    Wait,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestTransport {
    WebSocket,
    /// HTTP, with the `Origin` that the response must name.
    Http {
        origin: Option<Box<str>>,
    },
    /// Server-sent events over HTTP.
    ServerSent {
        origin: Option<Box<str>>,
        /// Id of the last event that the client has received.
        after: Option<Box<str>>,
    },
    /// JSON documents over a WebSocket.
    Json {
        /// Id of the last event that the client has received.
        after: Option<Box<str>>,
    },
}

impl RequestTransport {
    /// Returns `true` for a WebSocket, whose input can be paused.
    pub(super) fn is_socket(&self) -> bool {
        matches!(self, Self::WebSocket | Self::Json { .. })
    }

    pub(super) fn framing(&self) -> Framing {
        match self {
            Self::WebSocket | Self::Json { .. } => Framing::WebSocket,
            Self::Http { .. } | Self::ServerSent { .. } => Framing::Chunk,
        }
    }

    /// Returns the form of events; `None` for TLCP lines.
    pub(super) fn event_form(&self) -> Option<EventForm> {
        match self {
            Self::WebSocket | Self::Http { .. } => None,
            Self::ServerSent { .. } => Some(EventForm::ServerSent),
            Self::Json { .. } => Some(EventForm::Json),
        }
    }

    /// Returns the id of the last event that the client has received, if it continues.
    pub(super) fn after(&self) -> Option<&str> {
        match self {
            Self::WebSocket | Self::Http { .. } => None,
            Self::ServerSent { after, .. } | Self::Json { after } => after.as_deref(),
        }
    }
}

/// Where the response to forwarded requests belongs.
#[derive(Debug, Clone)]
pub(crate) struct ForwardPlace {
    pub(super) from: u16,
    pub(super) forward_id: u64,
    pub(super) part: usize,
}

/// Response lines of one connection that are not sent yet.
#[derive(Debug)]
pub(super) struct ResponseBatch {
    pub(super) conn: ConnId,
    pub(super) transport: RequestTransport,
    pub(super) lines: Vec<u8>,
    /// `true` if the parameters were in the URL of the request.
    pub(super) in_url: bool,
    /// Where the responses belong if another shard has received the requests.
    pub(super) place: Option<ForwardPlace>,
    /// `true` if the response to a request follows later.
    pub(super) is_deferred: bool,
    /// Requests for sessions of other shards, each with the lines before it.
    pub(super) remote: Vec<(Vec<u8>, u16, Request<'static>)>,
    /// Code with which a client of events is refused; `lines` has the text.
    pub(super) refused: Option<i32>,
}

impl ResponseBatch {
    /// Creates a batch that reuses a buffer.
    pub(super) fn on(conn: ConnId, transport: RequestTransport, mut lines: Vec<u8>) -> Self {
        lines.clear();
        Self {
            conn,
            transport,
            lines,
            in_url: false,
            place: None,
            is_deferred: false,
            remote: Vec::new(),
            refused: None,
        }
    }

    /// Adds the refusal of a session.
    pub(super) fn refuse(&mut self, (code, text): &SessionRefusal) -> MessageOutcome {
        match self.transport.event_form() {
            None => write_conerr(&mut self.lines, *code, text),
            Some(_) => {
                self.refused = Some(code.code());
                self.lines = format!("{text}\n").into_bytes();
            }
        }
        MessageOutcome::Respond
    }
}

pub(super) type SessionRefusal = (SessionCode, Cow<'static, str>);

pub(super) fn refused(code: SessionCode) -> SessionRefusal {
    (code, code.text().into())
}
