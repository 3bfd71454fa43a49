//! Classes of records that sessions of a shard have subscribed, by item.

use std::sync::Arc;

use foldhash::{HashMap, HashSet};
use weir_fanout::{InterestChange, ItemName};

use weir_ingest::ClassName;

/// Names of classes by the name that clients subscribe. Items without classes are not listed.
#[derive(Debug, Default)]
pub(super) struct SubscribedClasses {
    by_item: HashMap<ItemName, HashSet<Arc<str>>>,
}

impl SubscribedClasses {
    /// Notes a change of the interest in an item.
    pub(super) fn note(&mut self, (connection, name): &ItemName, change: &InterestChange) {
        let Some(class) = ClassName::parse(name) else {
            return;
        };
        let item: ItemName = (*connection, class.item.into());
        match change {
            InterestChange::Subscribe(_) => {
                let classes = self.by_item.entry(item).or_default();
                classes.insert(Arc::clone(name));
            }
            InterestChange::Unsubscribe(_) => {
                let classes = self.by_item.get_mut(&item);
                let is_last = classes.is_some_and(|classes| {
                    classes.remove(name);
                    classes.is_empty()
                });
                if is_last {
                    self.by_item.remove(&item);
                }
            }
        }
    }

    /// Returns the names of the classes of an item.
    pub(super) fn of(&self, item: &ItemName) -> impl Iterator<Item = &Arc<str>> {
        self.by_item.get(item).into_iter().flatten()
    }

    /// Returns `true` if an item has `most` classes and `name` is another one.
    pub(super) fn is_full(&self, item: &ItemName, name: &str, most: usize) -> bool {
        let classes = self.by_item.get(item);
        classes.is_some_and(|own| own.len() >= most && !own.contains(name))
    }
}
