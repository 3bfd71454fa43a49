//! Creates, grows, deletes and looks up topics. Calls block, at most until a timeout.
//!
//! Requests go over connections of their own, not through librdkafka: its admin client reports
//! neither the reason of a failed login nor that of a rejected certificate.

mod batch;
mod change;
mod client;
mod error;
mod topics;
mod view;

pub use client::Admin;
pub use error::AdminError;
