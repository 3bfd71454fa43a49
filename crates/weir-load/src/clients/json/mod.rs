//! Clients of other fan-out servers, whose messages are JSON: WebSocket, server-sent events and
//! Centrifugo.
//!
//! The members that a client reads are converted to a line of values as in TLCP. So time, order and
//! delivery are checked as for any other client.

mod members;
mod messages;

use serde::{Deserialize, Serialize};

pub(super) use messages::{JsonEvent, JsonMessages};

/// Protocol whose messages are JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JsonProtocol {
    /// One document per message of a WebSocket.
    WebSocket,
    /// One document per server-sent event.
    ServerSentEvents,
    /// The JSON protocol of Centrifugo over WebSocket; items are channels.
    Centrifugo,
}

/// Clients whose messages are JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JsonClients {
    /// Protocol of the connection.
    pub protocol: JsonProtocol,
    /// Path of the member with each field, in order, for example `values.key`. With Centrifugo,
    /// paths begin at the data of a publication.
    pub members: Vec<String>,
    /// First message to a WebSocket server; [`ITEM_PLACEHOLDER`] stands for the client's item.
    pub subscribe: Option<String>,
    /// Text of the message with which the server confirms a subscription; `None`: it is active
    /// when the connection is open.
    pub live_when: Option<String>,
    /// The server may replace an update by a newer one.
    pub may_conflate: bool,
}

/// Placeholder for a client's item in a URL and in [`JsonClients::subscribe`].
pub const ITEM_PLACEHOLDER: &str = "{item}";
