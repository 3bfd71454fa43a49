//! Events of items that ingest workers post to the shards.

use std::sync::Arc;

use weir_fanout::{HistoryBackfill, ItemKey, PositionReport, RecordPosition, RowBackfill};
use weir_mapping::{FieldSet, FrozenValues};
use weir_net::otlp::ActiveTrace;

use crate::missed::ReadBackResult;

/// Event of an item, posted to the shards that are interested in it.
#[derive(Debug)]
pub enum ItemEvent {
    /// New values.
    Update {
        /// Item.
        item: ItemKey,
        /// Its values.
        update: Arc<FrozenValues>,
        /// Fields that were extracted. Other fields are absent, even if the record has them.
        fields: Arc<FieldSet>,
        /// Time of the record in milliseconds since 1970; -1 if unknown.
        record_ms: i64,
    },
    /// New values of a record that is traced.
    Traced(Box<TracedUpdate>),
    /// New values of a record whose position subscribers need.
    Positioned(Box<PositionedUpdate>),
    /// Positions of the reading thread.
    Positions(Arc<PositionReport>),
    /// Records that were read back for a subscriber.
    ReadBack(Box<ReadBackResult>),
    /// Current values of an item in which the shard has a new interest, or an interest in more
    /// fields.
    Backfill {
        /// Item.
        item: ItemKey,
        /// Its values.
        update: Arc<FrozenValues>,
        /// Fields that were extracted.
        fields: Arc<FieldSet>,
    },
    /// Rows of an item that one worker had stored before the shard's interest began.
    RowBackfill(Box<RowBackfill>),
    /// Last updates of an item that one worker had stored before the shard's interest began.
    HistoryBackfill(Box<HistoryBackfill>),
    /// End of an item's snapshot: its values, rows and updates are obsolete.
    Clear(ItemKey),
    /// End of all subscriptions to items of a connection, because a record could not be read.
    ForceUnsubscribe {
        /// Index of the connection in the configuration.
        connection: u16,
    },
}

/// An update with the position of its record.
#[derive(Debug)]
pub struct PositionedUpdate {
    /// Index of the connection in the configuration.
    pub connection: u16,
    /// Position of the record.
    pub position: RecordPosition,
    /// The update, which may be traced.
    pub update: ItemEvent,
}

/// An update with the trace of its record.
#[derive(Debug)]
pub struct TracedUpdate {
    /// Item.
    pub item: ItemKey,
    /// Its values.
    pub update: Arc<FrozenValues>,
    /// Fields that were extracted.
    pub fields: Arc<FieldSet>,
    /// Time of the record in milliseconds since 1970; -1 if unknown.
    pub record_ms: i64,
    /// The trace.
    pub trace: Arc<ActiveTrace>,
    /// Time at which the update was posted, in nanoseconds since 1970.
    pub posted_ns: u64,
}
