//! The client end: request writers, line parser, item decoder and a small session state machine,
//! for load clients by the ten thousand and for tests.

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
