//! The interest of a shard in the updates of an item.

use std::sync::Arc;

use weir_mapping::{CommandMode, FieldSet};

/// An item in a shard's table: its slot, and the slot's use count. The count distinguishes updates
/// posted for an earlier item in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemKey {
    pub(crate) slot: u32,
    pub(crate) epoch: u32,
}

/// Configuration of a connection's row tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowTableConfig {
    pub(crate) mode: CommandMode,
    /// Indexes of the fields `key` and `command`; without them no record is about a row.
    pub(crate) fields: Option<(usize, usize)>,
    pub(crate) keys_max: usize,
}

/// A shard's interest in an item's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowInterest {
    /// Distinguishes the shard's table from others of the same item.
    pub(crate) generation: u32,
    pub(crate) rules: RowTableConfig,
}

/// A shard's interest in an item's last updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryInterest {
    /// Distinguishes the shard's history from others of the same item.
    pub(crate) generation: u32,
    /// Maximum number of stored updates.
    pub(crate) most: usize,
}

/// A shard's interest in one item.
#[derive(Debug, Clone)]
pub(crate) enum Interest {
    /// Subscribes to updates of the item with these fields.
    Subscribe {
        name: Arc<str>,
        shard: u16,
        item: ItemKey,
        fields: FieldSet,
        /// Interest in its rows, for mode COMMAND.
        rows: Option<RowInterest>,
        /// Interest in its last updates, for mode DISTINCT.
        history: Option<HistoryInterest>,
    },
    /// Withdraws the interest, unless the shard has subscribed to another use of the name since.
    Unsubscribe {
        name: Arc<str>,
        shard: u16,
        item: ItemKey,
    },
}

impl Interest {
    /// Returns the name of the item.
    pub(crate) fn name(&self) -> &Arc<str> {
        match self {
            Self::Subscribe { name, .. } | Self::Unsubscribe { name, .. } => name,
        }
    }

    /// Returns the index of the shard.
    pub(crate) fn shard(&self) -> u16 {
        match self {
            Self::Subscribe { shard, .. } | Self::Unsubscribe { shard, .. } => *shard,
        }
    }
}
