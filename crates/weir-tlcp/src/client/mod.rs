//! The client end: encoding of requests, parser of lines, decoder of items, and a small session
//! state machine. Used by tests and by load clients, which run ten thousands of sessions.

mod item_state;
mod line;
mod lines;
mod request;
mod session;

pub use item_state::{FieldToken, FieldTokens, ItemState, explicit_field, field_tokens};
pub use line::{Line, parse_line};
pub use lines::Lines;
pub use request::{AddParams, CreateParams};
#[cfg(test)]
pub(crate) use request::{push_add_line, write_create_session};
pub use session::{ClientSession, ClientSessionConfig, ClientState, SessionEvent};
