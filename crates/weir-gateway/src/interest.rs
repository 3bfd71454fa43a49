//! The interest of a shard in the updates of an item.

use std::sync::Arc;

use weir_mapping::{CommandMode, FieldSet};

/// An item in a shard's own table: its slot, and the slot's use count so that an update posted
/// before the slot changed hands is told from one for its new item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemKey {
    pub(crate) slot: u32,
    pub(crate) epoch: u32,
}

/// What a table must know of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowTableConfig {
    pub(crate) mode: CommandMode,
    /// Indexes of the fields `key` and `command`; without them no record is about a row.
    pub(crate) fields: Option<(usize, usize)>,
    pub(crate) keys_max: usize,
}

/// A shard's interest for an item's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowInterest {
    /// Tells the shard's table from others of the same item.
    pub(crate) generation: u32,
    pub(crate) rules: RowTableConfig,
}

/// A shard's interest for an item's last updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryInterest {
    /// Distinguishes the shard's history from others of the same item.
    pub(crate) generation: u32,
    /// Updates that are kept.
    pub(crate) most: usize,
}

/// A shard's interest concerning one item.
#[derive(Debug, Clone)]
pub(crate) enum Interest {
    /// Send updates of the item with these fields from now on.
    Subscribe {
        name: Arc<str>,
        shard: u16,
        item: ItemKey,
        fields: FieldSet,
        /// Its rows are wanted, for mode COMMAND.
        rows: Option<RowInterest>,
        /// Its last updates are wanted, for mode DISTINCT.
        history: Option<HistoryInterest>,
    },
    /// Send no more, unless the shard has asked again since, for another use of the name.
    Unsubscribe {
        name: Arc<str>,
        shard: u16,
        item: ItemKey,
    },
}

impl Interest {
    /// The item it concerns.
    pub(crate) fn name(&self) -> &Arc<str> {
        match self {
            Self::Subscribe { name, .. } | Self::Unsubscribe { name, .. } => name,
        }
    }

    /// Whose interest it is.
    pub(crate) fn shard(&self) -> u16 {
        match self {
            Self::Subscribe { shard, .. } | Self::Unsubscribe { shard, .. } => *shard,
        }
    }
}
