//! Visits of session administration to a shard: requests and responses.

use std::net::IpAddr;
use std::sync::Arc;

use crossbeam_channel::Sender;
use serde::Serialize;
use weir_access::AccessDetails;

use crate::trace::TraceSink;

/// Maximum number of sessions of one slice, so that it delays deliveries by less than 1 ms.
pub(crate) const SLICE_SESSIONS: usize = 32;
/// The same if their subscriptions are listed, too: each has up to 200 items.
pub(crate) const SLICE_DETAILS: usize = 4;

/// Request of session administration to one shard, which handles it in one iteration.
#[derive(Debug)]
pub(crate) enum Visit {
    Sessions(SessionVisit),
    Trace(TraceTarget, TraceSink),
}

/// A slice of the sessions of a shard.
#[derive(Debug)]
pub(crate) struct SessionVisit {
    pub(crate) filter: Arc<SessionFilter>,
    pub(crate) action: SessionAction,
    /// Slot at which the slice begins.
    pub(crate) from: u32,
    /// Maximum number of sessions in the response.
    pub(crate) most: usize,
    pub(crate) reply: Sender<VisitedSessions>,
}

#[derive(Debug, Clone)]
pub(crate) enum SessionAction {
    List,
    /// Lists the subscriptions of the sessions, too.
    Show,
    /// Ends the sessions, on behalf of an operator at this address.
    End {
        code: i32,
        message: String,
        address: String,
    },
}

/// Sessions that a request is about; absent members match all.
#[derive(Debug, Default)]
pub(crate) struct SessionFilter {
    pub(crate) handle: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) address: Option<IpAddr>,
    /// Canonical name of an item.
    pub(crate) item: Option<Arc<str>>,
}

/// Result of a slice.
#[derive(Debug)]
pub(crate) struct VisitedSessions {
    pub(crate) rows: Vec<SessionRow>,
    /// Slot of the next slice; `None` after the last one.
    pub(crate) next: Option<u32>,
}

/// A session as operators see it.
#[derive(Debug, Serialize)]
pub(crate) struct SessionRow {
    /// Handle; not the session's ID, which is a secret.
    pub(crate) session: String,
    pub(crate) auth: &'static str,
    pub(crate) user: Option<String>,
    pub(crate) issuer: Option<String>,
    pub(crate) jti: Option<String>,
    /// End of the token's validity.
    pub(crate) expires: Option<String>,
    pub(crate) address: Option<String>,
    pub(crate) transport: &'static str,
    pub(crate) event_loop: u16,
    pub(crate) age_s: u64,
    pub(crate) subscriptions: usize,
    pub(crate) items: usize,
    /// Data notifications since the session began.
    pub(crate) notifications: u64,
    /// Bytes that its client has not taken.
    pub(crate) queued_bytes: usize,
    /// `true` if updates wait because the client lags or has limits.
    pub(crate) lagging: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(crate) details: Option<SessionDetails>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SessionDetails {
    pub(crate) subscription_list: Vec<SubscriptionRow>,
    /// `true` if there are more subscriptions or items than listed.
    pub(crate) truncated: bool,
    /// Rights of its client; `None` if clients are not identified.
    #[serde(flatten)]
    pub(crate) access: Option<AccessDetails>,
}

#[derive(Debug, Serialize)]
pub(crate) struct SubscriptionRow {
    pub(crate) id: u32,
    pub(crate) connection: String,
    pub(crate) mode: &'static str,
    pub(crate) unfiltered: bool,
    pub(crate) max_frequency: Option<f64>,
    pub(crate) items: Vec<String>,
    /// Records of each item that the client gets, `None` for all; absent if it gets all of all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) records: Option<Vec<Option<String>>>,
}

/// Subject of a trace.
#[derive(Debug, Clone)]
pub(crate) enum TraceTarget {
    /// Session with this handle.
    Session(String),
    /// Item with this canonical name, of any Kafka connection.
    Item(Arc<str>),
}
