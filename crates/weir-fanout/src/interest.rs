//! The interest of a shard in the updates of an item.

use std::sync::Arc;

use weir_mapping::{CommandMode, FieldSet};

/// An item in a shard's table: its slot, and the slot's use count. The count distinguishes updates
/// posted for an earlier item in the same slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ItemKey {
    /// Slot in the item table.
    pub slot: u32,
    /// Use count of the slot.
    pub epoch: u32,
}

/// Rules of a row table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowTableConfig {
    /// Meaning of the commands in records.
    pub mode: CommandMode,
    /// Indexes of the fields `key` and `command`; without them no record is about a row.
    pub fields: Option<(usize, usize)>,
    /// Maximum number of stored rows.
    pub keys_max: usize,
}

/// Interest in the stored rows of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowInterest {
    /// Distinguishes the shard's table from others of the same item.
    pub generation: u32,
    /// Rules of the table.
    pub rules: RowTableConfig,
}

/// Interest in the last updates of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HistoryInterest {
    /// Distinguishes the shard's history from others of the same item.
    pub generation: u32,
    /// Maximum number of updates.
    pub updates_max: usize,
}

/// Item and fields that a shard needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ItemInterest {
    /// Item in the table of the shard.
    pub item: ItemKey,
    /// Fields to extract.
    pub fields: FieldSet,
    /// Rows from before the interest; `None` if none are needed.
    pub rows: Option<RowInterest>,
    /// Updates from before the interest; `None` if none are needed.
    pub history: Option<HistoryInterest>,
    /// `true` if updates need the positions of their records.
    pub positions: bool,
}

/// Change of the interest of a shard in an item.
#[derive(Debug, Clone)]
pub struct Interest {
    /// Canonical name of the item.
    pub name: Arc<str>,
    /// Number of the shard.
    pub shard: u16,
    /// New interest, or its end.
    pub change: InterestChange,
}

/// New state of an interest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InterestChange {
    /// The shard needs this item.
    Subscribe(ItemInterest),
    /// Withdraws the interest, unless the shard has subscribed to another use of the name since.
    Unsubscribe(ItemKey),
}

impl Interest {
    /// Returns the item that the shard subscribes to; `None` if the interest is withdrawn.
    pub fn subscribed(&self) -> Option<&ItemInterest> {
        match &self.change {
            InterestChange::Subscribe(interest) => Some(interest),
            InterestChange::Unsubscribe(_) => None,
        }
    }
}
