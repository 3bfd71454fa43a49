//! The server end: session state machine, encoding of lines and of updates.

mod line;
mod line_limits;
mod message_order;
mod rate_limit;
mod session;
mod session_id;
mod subscription;
mod update;

pub use line::{
    push_line_end, write_conerr, write_end, write_error, write_loop, write_msgdone, write_msgfail,
    write_prog, write_reqerr, write_reqok, write_wsok,
};
pub use line_limits::LineLimits;
pub use message_order::{Arrival, MessageMark, MessageOrder, Release, SequenceId};
pub use rate_limit::{FrequencyTimer, TokenBucket, period_us};
pub use session::{Session, SessionConfig, WakeOutcome};
pub use session_id::{SessionId, SessionLocation};
pub use subscription::Subscription;
pub use update::{
    push_clear_snapshot, push_delta_payload, push_delta_payload_by, push_end_of_snapshot,
    push_full_payload, push_overflow, push_update, push_update_prefix,
};
