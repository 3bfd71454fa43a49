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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowTableConfig {
    pub(crate) mode: CommandMode,
    /// Indexes of the fields `key` and `command`; without them no record is about a row.
    pub(crate) fields: Option<(usize, usize)>,
    pub(crate) keys_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RowInterest {
    /// Distinguishes the shard's table from others of the same item.
    pub(crate) generation: u32,
    pub(crate) rules: RowTableConfig,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HistoryInterest {
    /// Distinguishes the shard's history from others of the same item.
    pub(crate) generation: u32,
    pub(crate) most: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ItemInterest {
    pub(crate) item: ItemKey,
    pub(crate) fields: FieldSet,
    pub(crate) rows: Option<RowInterest>,
    pub(crate) history: Option<HistoryInterest>,
}

#[derive(Debug, Clone)]
pub(crate) struct Interest {
    pub(crate) name: Arc<str>,
    pub(crate) shard: u16,
    pub(crate) change: InterestChange,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum InterestChange {
    Subscribe(ItemInterest),
    /// Withdraws the interest, unless the shard has subscribed to another use of the name since.
    Unsubscribe(ItemKey),
}

impl Interest {
    /// Returns the wanted item; `None` if the interest is withdrawn.
    pub(crate) fn wanted(&self) -> Option<&ItemInterest> {
        match &self.change {
            InterestChange::Subscribe(interest) => Some(interest),
            InterestChange::Unsubscribe(_) => None,
        }
    }
}
