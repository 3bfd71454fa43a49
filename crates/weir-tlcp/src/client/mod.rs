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
pub use request::{
    AddParams, BindParams, CreateParams, PollingParams, http_target, push_add_line, push_bind_line,
    push_create_line, push_delete_line, push_destroy_line, write_add, write_bind,
    write_create_session, write_delete, write_destroy, write_heartbeat, write_wsok,
};
pub use session::{ClientSession, ClientSessionConfig, ClientState, SessionEvent};
