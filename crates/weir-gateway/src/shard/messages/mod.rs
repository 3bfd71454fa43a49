//! Client messages of the sessions of a shard: order, limits, results.

mod arrival;
mod outcome;
mod session;

pub(super) use self::session::{PendingMessage, SessionMessages};
