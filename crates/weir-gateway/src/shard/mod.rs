//! One shard: the handler of an event loop, with its own sessions, items and subscriptions.

mod admission;
mod backlog;
mod class;
mod classes;
mod clients;
mod context;
mod control_requests;
mod delivery;
mod delivery_mode;
mod dialect;
mod drain;
mod encode;
mod event;
mod forwarding;
mod frame;
mod frequency;
mod handler;
mod handover;
mod http;
mod item;
mod item_history;
mod item_table;
mod journal;
mod keys;
mod lifecycle;
#[cfg(test)]
mod model;
mod queue;
mod requests;
mod resolve;
mod responses;
mod row_table;
mod schema;
mod session;
mod session_writer;
mod simulator;
mod state;
#[cfg(test)]
mod stream_tests;
mod subscribe;
mod wire;
mod work;

pub(crate) use self::context::ShardContext;
pub(crate) use self::delivery::DeliveryCounters;
pub(crate) use self::event::{HistoryBackfill, RowBackfill, ShardEvent};
pub(crate) use self::item_history::PastUpdate;
pub(crate) use self::item_table::shrinks;
pub(crate) use self::row_table::{RowTable, RowTableCounters};
pub(crate) use self::state::{ACTIVITIES, Shard};
