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
