//! One shard: the handler of an event loop, with its own sessions, items and subscriptions.
//!
//! Its tests are in `tests/shard`, because they are as long as the shard itself.

mod adapter;
mod admission;
mod audit;
mod clients;
mod context;
mod control_requests;
mod credentials;
mod dialect;
mod drain;
mod event;
mod event_clients;
mod event_sockets;
mod expected_logins;
mod forwarding;
mod frame;
mod handler;
mod handover;
mod http;
mod http_responses;
mod identify;
mod item_classes;
mod journal;
mod lifecycle;
mod messages;
#[cfg(test)]
#[path = "../../tests/shard/model/mod.rs"]
mod model;
mod placement;
mod recover;
mod recoveries;
mod refresh;
mod requests;
mod resolve;
mod responses;
mod select_records;
mod session;
mod session_writer;
mod simulator;
mod socket_end;
mod state;
#[cfg(test)]
#[path = "../../tests/shard/stream_tests/mod.rs"]
mod stream_tests;
mod subscribe;
mod timers;
mod tracer;
mod traces;
mod visit;
mod visitor;
mod wire;

pub(crate) use self::context::ShardContext;
pub(crate) use self::event::ShardEvent;
pub(crate) use self::placement::Placement;
pub(crate) use self::resolve::only_mode;
pub(crate) use self::session_writer::WriterCounters;
pub(crate) use self::state::{ACTIVITIES, Shard};
pub(crate) use self::visit::{
    SLICE_DETAILS, SLICE_SESSIONS, SessionAction, SessionFilter, SessionRow, SessionVisit,
    SubscriptionRow, TraceTarget, Visit, VisitedSessions,
};
