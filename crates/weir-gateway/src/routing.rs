//! Which shards want which item of one Kafka connection. Owned by the connection's ingest thread;
//! shards change it by message, so the record path takes no lock.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use smallvec::SmallVec;

/// An item in a shard's own table: its slot, and the slot's use count so that an update posted
/// before the slot changed hands is told from one for its new item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ItemKey {
    pub(crate) slot: u32,
    pub(crate) epoch: u32,
}

/// A shard's wish concerning one item.
#[derive(Debug, Clone)]
pub(crate) enum Wish {
    /// Send updates of the item from now on.
    Subscribe {
        name: Arc<str>,
        shard: u16,
        item: ItemKey,
    },
    /// Send no more.
    Unsubscribe { name: Arc<str>, shard: u16 },
}

impl Wish {
    /// The item it concerns.
    pub(crate) fn name(&self) -> &Arc<str> {
        match self {
            Self::Subscribe { name, .. } | Self::Unsubscribe { name, .. } => name,
        }
    }
}

/// Where an update goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) shard: u16,
    pub(crate) item: ItemKey,
}

/// Items somebody wants, by canonical name.
#[derive(Debug)]
pub(crate) struct RoutingTable {
    items: HashMap<Arc<str>, SmallVec<[Target; 2]>>,
}

impl RoutingTable {
    pub(crate) fn new() -> Self {
        Self {
            items: HashMap::new(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// The shards that want the item; empty if none does.
    pub(crate) fn targets(&self, name: &str) -> &[Target] {
        self.items.get(name).map_or(&[], SmallVec::as_slice)
    }

    pub(crate) fn apply(&mut self, wish: Wish) {
        match wish {
            Wish::Subscribe { name, shard, item } => {
                let targets = self.items.entry(name).or_default();
                targets.retain(|target| target.shard != shard);
                targets.push(Target { shard, item });
            }
            Wish::Unsubscribe { name, shard } => {
                let Some(targets) = self.items.get_mut(&name) else {
                    return;
                };
                targets.retain(|target| target.shard != shard);
                if targets.is_empty() {
                    self.items.remove(&name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(slot: u32, epoch: u32) -> ItemKey {
        ItemKey { slot, epoch }
    }

    #[test]
    fn the_last_wish_of_a_shard_holds() {
        let name: Arc<str> = "item-[k=1]".into();
        let mut table = RoutingTable::new();
        table.apply(Wish::Subscribe {
            name: name.clone(),
            shard: 0,
            item: key(1, 1),
        });
        table.apply(Wish::Subscribe {
            name: name.clone(),
            shard: 1,
            item: key(4, 1),
        });
        table.apply(Wish::Subscribe {
            name: name.clone(),
            shard: 0,
            item: key(2, 7),
        });
        assert_eq!(
            table.targets("item-[k=1]"),
            [
                Target {
                    shard: 1,
                    item: key(4, 1)
                },
                Target {
                    shard: 0,
                    item: key(2, 7)
                }
            ]
        );
        table.apply(Wish::Unsubscribe {
            name: name.clone(),
            shard: 1,
        });
        table.apply(Wish::Unsubscribe { name, shard: 0 });
        assert!(table.is_empty() && table.targets("item-[k=1]").is_empty());
    }
}
