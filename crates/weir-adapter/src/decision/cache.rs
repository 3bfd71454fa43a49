//! Properties of items that an adapter has returned.

use foldhash::HashMap;
use weir_identity::ari::{ItemData, UserItemData};

/// Most entries of each kind. Then all are forgotten: they are asked for again.
const ENTRIES_MAX: usize = 100_000;
/// Validity of the data of an item for a user, in milliseconds.
const USER_DATA_MS: u64 = 5_000;

/// Properties of items: for all users until the adapter reconnects, for one user for 5 s.
#[derive(Debug, Default)]
pub struct ItemCache {
    generation: u64,
    items: HashMap<String, ItemData>,
    /// With the time until which they are valid.
    user_items: HashMap<(Option<String>, String), (UserItemData, u64)>,
}

impl ItemCache {
    /// Forgets everything if the adapter has changed.
    pub fn begin(&mut self, generation: u64) {
        if self.generation != generation {
            *self = Self {
                generation,
                ..Self::default()
            };
        }
    }

    pub(super) fn item(&self, item: &str) -> Option<ItemData> {
        self.items.get(item).copied()
    }

    pub(super) fn user_item(
        &self,
        user: &Option<String>,
        item: &str,
        now_ms: u64,
    ) -> Option<UserItemData> {
        let key = (user.clone(), item.to_owned());
        let (data, until_ms) = self.user_items.get(&key)?;
        (now_ms < *until_ms).then_some(*data)
    }

    pub(super) fn add_items(&mut self, items: &[String], data: &[ItemData]) {
        if self.items.len() + items.len() > ENTRIES_MAX {
            self.items.clear();
        }
        self.items
            .extend(items.iter().cloned().zip(data.iter().copied()));
    }

    pub(super) fn add_user_items(
        &mut self,
        user: &Option<String>,
        items: &[String],
        data: &[UserItemData],
        now_ms: u64,
    ) {
        if self.user_items.len() + items.len() > ENTRIES_MAX {
            self.user_items.clear();
        }
        let until_ms = now_ms + USER_DATA_MS;
        for (item, data) in items.iter().zip(data) {
            let key = (user.clone(), item.clone());
            self.user_items.insert(key, (*data, until_ms));
        }
    }
}
