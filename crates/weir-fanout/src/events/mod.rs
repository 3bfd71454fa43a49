//! Events for clients without an SDK: what they ask for, and the form in which they get it.
//!
//! Server-sent events and JSON over WebSocket carry the same documents and differ in their
//! [`EventForm`] only.

mod encode;
mod message;
mod position;
mod request;

pub(crate) use self::encode::{EventEncoder, ValuesEvent};
pub use self::encode::{EventForm, EventNotice, push_notice};
pub use self::message::{ClientLogin, ClientMessage, MessageFault, parse_message};
pub use self::position::{ID_BYTES_MAX, PARTITIONS_MAX, Position};
pub(crate) use self::position::{check_of, push_id};
pub use self::request::{EventLimits, EventRequest, RequestFault, parse_query};
