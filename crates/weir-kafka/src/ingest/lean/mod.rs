//! Weir's own client behind ingest: one thread and connection per broker, bounded responses, and
//! requests for metadata and offsets.

mod client;
mod connection;
mod fetch_thread;
mod options;
mod requests;
mod response;
mod shared;

pub(super) use client::LeanClient;
pub(super) use shared::QueueEntry;
