//! The remote adapter's part in the sessions of a shard: requests that wait for its decisions.
//!
//! Nothing here exists without an adapter. Rules decide first; the adapter can only restrict.

mod create;
mod dispatch;
mod forced;
mod limits;
mod messages;
mod state;
mod subscribe;

pub(super) use self::state::{AdapterMessage, ShardAdapter};
