//! Events of items that ingest workers post to the shards.

use std::sync::Arc;

use weir_fanout::{HistoryBackfill, ItemKey, RowBackfill};
use weir_mapping::{FieldSet, FrozenValues};

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
