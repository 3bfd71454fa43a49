//! `[limits]` of `gateway.toml`: limits for clients.

use serde::Deserialize;

use crate::admission::PerAddress;
use crate::bounds::{bounded, rate};

/// Maximum of the derived memory limit for subscriptions, enough for some 400,000 items.
const SUBSCRIPTION_BYTES_MAX: usize = 512 * 1024 * 1024;

/// Limits for clients. A metric counts the hits of each limit.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct GatewayLimits {
    /// Sessions of the gateway, default 100,000; the file descriptor limit may be lower.
    #[serde(deserialize_with = "bounded::<1, { u64::MAX }, _, _>")]
    pub sessions: usize,
    /// Subscriptions of one session, default 1,000.
    pub subscriptions_per_session: usize,
    /// Items of one subscription, default 1,000.
    pub items_per_subscription: usize,
    /// Items of all subscriptions of one session, default 20,000; 0 is no limit.
    pub items_per_session: usize,
    /// Fields of one subscription, default 2,000: the published scenario 4 has about 1,000.
    pub fields_per_subscription: usize,
    /// Frame classes of one item in each event loop, default 10,000; 0: no limit. Subscribers share
    /// a class if their subscriptions have the same number and fields; each class is encoded
    /// separately.
    pub frame_classes_per_item: usize,
    /// Classes of records of one item in each event loop, default 10,000; 0: no limit. Clients
    /// share a class if rules with `where` let them see the same records; each class has its own
    /// state.
    pub record_classes_per_item: usize,
    /// Bytes queued for a client that does not read, default 1 MiB: about a thousand updates of 1
    /// KB. The same amount may be queued as values. Further updates are conflated, dropped or, if
    /// the mode allows neither, lost and reported as lost.
    #[serde(deserialize_with = "bounded::<1, { u64::MAX }, _, _>")]
    pub queue_bytes: usize,
    /// Bytes of data notifications stored per session for recovery after a lost connection, default
    /// 128 KiB; 0 disables recovery.
    pub recovery_bytes: usize,
    /// Milliseconds for which they are stored, default 20,000.
    #[serde(deserialize_with = "bounded::<0, 600_000, _, _>")]
    pub recovery_ms: u64,
    /// Records that are read again from Kafka for a client without an SDK that connects again,
    /// default 10,000, counted as offsets; 0: none. If more were written, it gets a snapshot.
    #[serde(deserialize_with = "bounded::<0, 1_000_000, _, _>")]
    pub missed_records: usize,
    /// Records per second that each Kafka connection reads and sends again, for all its clients
    /// together, default 50,000.
    #[serde(deserialize_with = "bounded::<1, 10_000_000, _, _>")]
    pub missed_records_per_second: usize,
    /// Milliseconds that a session waits for `bind_session` after `LOOP`, default 10,000.
    #[serde(deserialize_with = "bounded::<0, 600_000, _, _>")]
    pub unbound_timeout_ms: u64,
    /// Rows of one item in mode COMMAND that each event loop stores for later subscribers, default
    /// 10,000. Further rows are delivered but not stored.
    pub command_rows: usize,
    /// Updates of one item stored as snapshot of mode DISTINCT, default 10.
    pub distinct_snapshot: usize,
    /// Milliseconds after which a client that reads nothing is disconnected, default 60,000. At
    /// least a `PROBE` is sent in that time.
    #[serde(deserialize_with = "bounded::<1_000, 3_600_000, _, _>")]
    pub stall_timeout_ms: u64,
    /// Maximum bytes of one request, default 50,000; clients receive this value.
    #[serde(deserialize_with = "bounded::<1_000, { u64::MAX }, _, _>")]
    pub request_bytes: usize,
    /// Maximum bytes of an update's line, default 0: the known limit of the client's library.
    /// Longer updates are not sent and reported as lost.
    pub line_bytes: u32,
    /// Client connections of the gateway, with or without sessions; default 0: `sessions` plus one
    /// eighth.
    pub connections: usize,
    /// Subscriptions of the gateway, default 1,000,000; 0 means no limit.
    pub subscriptions: usize,
    /// Subscribed items of the gateway, counted once per shard; default 1,000,000; 0 means no
    /// limit.
    pub items: usize,
    /// Estimated memory of all subscriptions and their items; default 0: a quarter of
    /// `memory_bytes`, at most 512 MiB. An item costs about 1.3 kB plus the length of its name.
    pub subscription_bytes: usize,
    /// Memory of the process above which new sessions and subscriptions are refused; default 0: 85
    /// % of the operating system's limit.
    pub memory_bytes: usize,
    /// New sessions per second, default 0: no limit.
    #[serde(deserialize_with = "rate")]
    pub sessions_per_second: f32,
    /// Requests per second, default 0: no limit.
    #[serde(deserialize_with = "rate")]
    pub requests_per_second: f32,
    /// Limits of one address; default none, because a proxy or a company may have a single address.
    pub per_address: PerAddress,
}

impl GatewayLimits {
    /// Derives unset subscription limits from the available memory.
    pub(crate) fn derive(&mut self, memory_bytes: u64) {
        let quarter = usize::try_from(memory_bytes / 4).unwrap_or(usize::MAX);
        if self.subscription_bytes == 0 {
            self.subscription_bytes = quarter.min(SUBSCRIPTION_BYTES_MAX);
        }
        if self.per_address.subscription_bytes == 0 {
            self.per_address.subscription_bytes = self.subscription_bytes / 2;
        }
    }

    /// Returns the maximum number of client connections, with and without a session.
    pub(crate) fn connections_in_all(&self, shards: usize) -> usize {
        match self.connections {
            0 => self.sessions + self.sessions / 8 + 64 * shards,
            most => most,
        }
    }
}

impl Default for GatewayLimits {
    fn default() -> Self {
        Self {
            sessions: 100_000,
            subscriptions_per_session: 1_000,
            items_per_subscription: 1_000,
            items_per_session: 20_000,
            fields_per_subscription: 2_000,
            frame_classes_per_item: 10_000,
            record_classes_per_item: 10_000,
            queue_bytes: 1024 * 1024,
            recovery_bytes: 128 * 1024,
            recovery_ms: 20_000,
            missed_records: 10_000,
            missed_records_per_second: 50_000,
            unbound_timeout_ms: 10_000,
            command_rows: 10_000,
            distinct_snapshot: 10,
            stall_timeout_ms: 60_000,
            request_bytes: 50_000,
            line_bytes: 0,
            connections: 0,
            subscriptions: 1_000_000,
            items: 1_000_000,
            subscription_bytes: 0,
            memory_bytes: 0,
            sessions_per_second: 0.0,
            requests_per_second: 0.0,
            per_address: PerAddress::default(),
        }
    }
}
