//! One shard: the handler of an event loop, with its own sessions, items and subscriptions.

mod admission;
mod backlog;
mod catch_up;
mod class;
mod classes;
mod compression;
mod control_requests;
mod delivery;
mod dialect;
mod diffs;
mod drain;
mod encode;
mod event;
mod fanout;
mod forwarding;
mod frame;
mod frequency;
mod handler;
mod handover;
mod http;
mod interest_sender;
mod item;
mod item_history;
mod journal;
mod keys;
mod lifecycle;
#[cfg(test)]
mod model;
mod pending_forwards;
mod queue;
mod requests;
mod responses;
mod row_table;
mod schema;
mod session;
mod session_writer;
mod shutdown;
mod simulator;
mod state;
#[cfg(test)]
mod stream_tests;
mod subscribe;
mod teardown;
mod timer_tokens;
mod transition;
mod wire;
mod work;

pub(crate) use self::compression::CompressionCounters;
pub(crate) use self::diffs::DiffCounters;
pub(crate) use self::event::{HistoryBackfill, RowBackfill, ShardEvent};
pub(crate) use self::item::shrinks;
pub(crate) use self::item_history::PastUpdate;
pub(crate) use self::row_table::{RowTable, RowTableCounters};
pub(crate) use self::state::{ACTIVITIES, Shard, ShardContext};
