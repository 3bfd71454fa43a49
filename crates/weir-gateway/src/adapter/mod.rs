//! The remote Metadata Adapter, as the gateway uses it (docs/remote-adapters.md).

mod calls;
mod link;

pub(crate) use self::calls::{Adapter, AdapterAccess, AdapterCall, AdapterEvent, AdapterToken};
pub(crate) use self::link::{ShardInboxes, start};
