//! Routes of one Kafka connection: interested shards and fields of each item. Each ingest worker
//! owns one table; shards change it by messages, so the record path takes no lock.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use foldhash::HashMap;
use smallvec::SmallVec;
use weir_fanout::{
    HistoryBackfill, Interest, InterestChange, ItemInterest, ItemKey, PastUpdate, RowBackfill,
    RowTable, should_shrink,
};
use weir_mapping::{FieldSet, FrozenValues};

use crate::class_routes::{ClassRoutes, ItemClasses};
use crate::item_event::ItemEvent;

/// Shard that is interested in an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpdateTarget {
    /// Index of the shard.
    pub shard: u16,
    /// Fields, rows and updates that the shard needs.
    pub interest: ItemInterest,
}

/// The shards that are interested in an item, and its last values for later ones.
#[derive(Debug, Default)]
pub struct Route {
    /// The interested shards.
    pub targets: SmallVec<[UpdateTarget; 2]>,
    /// Union of the targets' fields; shared with the updates made from it.
    pub fields: Arc<FieldSet>,
    last_values: RefCell<Option<CachedValues>>,
    /// The rows, if a target needs them and there may be another target.
    table: RefCell<Option<Box<RowTable>>>,
    /// The last updates, if a target needs them and there may be another target.
    history: RefCell<VecDeque<PastUpdate>>,
    /// Maximum number of stored updates; 0 stores none.
    history_max: usize,
}

/// Values of an item, and the fields that were extracted for them.
pub type CachedValues = (Arc<FrozenValues>, Arc<FieldSet>);

impl Route {
    /// Stores an update for shards that subscribe later. `extracted` are the fields that were
    /// extracted from its record.
    pub fn store(&self, update: &Arc<FrozenValues>, extracted: &Arc<FieldSet>, record_ms: i64) {
        let mut last_values = self.last_values.borrow_mut();
        let merged = last_values.as_ref().and_then(|(older, fields)| {
            let carries = |index| extracted.contains(index) && fields.contains(index);
            update.filled_from(older, carries)
        });
        let values = merged.map_or_else(|| Arc::clone(update), Arc::new);
        *last_values = Some((values, Arc::clone(extracted)));
        if let Some(table) = &mut *self.table.borrow_mut() {
            table.store(update, extracted);
        }
        if self.history_max > 0 {
            let mut history = self.history.borrow_mut();
            if history.len() >= self.history_max {
                history.pop_front();
            }
            history.push_back(PastUpdate {
                values: Arc::clone(update),
                fields: Arc::clone(extracted),
                record_ms,
            });
        }
    }

    /// Removes all stored values, rows and updates.
    pub(crate) fn forget_values(&mut self) {
        *self.last_values.get_mut() = None;
        self.history.get_mut().clear();
        *self.table.get_mut() = None;
        self.update_row_cache();
    }

    /// Returns the last values if all of these fields were extracted for them.
    pub fn cached(&self, fields: &FieldSet) -> Option<CachedValues> {
        let last_values = self.last_values.borrow();
        let last_values = last_values.as_ref();
        last_values
            .filter(|(_, read)| fields.is_subset(read))
            .cloned()
    }

    /// Returns the stored rows in the order in which they were added, and `true` if the snapshot is
    /// incomplete.
    fn rows(&self) -> Option<(Vec<Arc<FrozenValues>>, bool)> {
        let table = self.table.borrow();
        let table = table.as_ref()?;
        let rows = table.values().map(Arc::clone).collect();
        Some((rows, table.in_snapshot()))
    }

    /// Starts storing rows, or stops when no target needs them.
    fn update_row_cache(&mut self) {
        let mut interests = self.targets.iter().map(|target| &target.interest);
        let wanted = interests.find_map(|one| Some((one.rows?, &one.fields)));
        let table = self.table.get_mut();
        match wanted {
            Some((rows, fields)) => {
                let new = || Box::new(RowTable::new(rows.rules, fields.clone()));
                table.get_or_insert_with(new);
            }
            None => *table = None,
        }
    }

    /// Returns `true` if an `Unsubscribe` of `item` ends the interest of a shard: the interest in
    /// `item`, or in an earlier key of the same name. The inbox drops interests that are withdrawn
    /// before the worker reads them, so the route may still have an earlier key.
    fn is_ended_by(&self, shard: u16, item: ItemKey) -> bool {
        let is_later = |other: ItemKey| other.epoch.wrapping_sub(item.epoch) as i32 > 0;
        let mut targets = self.targets.iter();
        targets.any(|target| target.shard == shard && !is_later(target.interest.item))
    }

    /// Replaces or removes the interest of a shard.
    fn change(&mut self, shard: u16, target: Option<UpdateTarget>) {
        self.targets.retain(|target| target.shard != shard);
        self.targets.extend(target);
        let mut fields = FieldSet::empty();
        for target in &self.targets {
            fields.union_with(&target.interest.fields);
        }
        self.fields = Arc::new(fields);
        self.update_row_cache();
        let interests = self.targets.iter().map(|target| &target.interest);
        let updates_max = interests
            .filter_map(|one| Some(one.history?.updates_max))
            .max();
        self.history_max = updates_max.unwrap_or(0);
        if self.history_max == 0 {
            *self.history.get_mut() = VecDeque::new();
        }
    }
}

/// Routes of items by name.
#[derive(Debug, Default)]
pub struct RoutingTable {
    /// Boxed, so that a growing table of a million items moves 25 MB instead of 300 MB.
    items: HashMap<Arc<str>, Box<Route>>,
    classes: ClassRoutes,
}

impl RoutingTable {
    pub(crate) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the route of an item by its name.
    pub fn route(&self, name: &str) -> Option<&Route> {
        self.items.get(name).map(Box::as_ref)
    }

    pub(crate) fn route_mut(&mut self, name: &str) -> Option<&mut Route> {
        self.items.get_mut(name).map(Box::as_mut)
    }

    /// Returns the classes of an item's records in which shards are interested.
    pub(crate) fn classes(&self, item: &str) -> Option<&ItemClasses> {
        self.classes.of(item)
    }

    /// Returns stored rows and updates for a shard with a new interest in them; must be called
    /// before [`Self::apply`]. The shard waits for them, so there is exactly one event, even if
    /// nothing is stored.
    pub fn backfill_events(&self, interest: &Interest) -> impl Iterator<Item = ItemEvent> + use<> {
        let Some(wanted) = interest.subscribed() else {
            return None.into_iter().chain(None);
        };
        let (item, route) = (wanted.item, self.route(&interest.name));
        let mut targets = route.iter().flat_map(|route| &route.targets);
        let before = targets.find(|one| one.shard == interest.shard && one.interest.item == item);
        let (rows_before, history_before) = before.map_or((None, None), |one| {
            (one.interest.rows, one.interest.history)
        });
        let rows = wanted.rows.filter(|rows| rows_before != Some(*rows));
        let rows = rows.map(|wanted| {
            let known = route.and_then(Route::rows);
            let first = || (Vec::new(), wanted.rules.mode.begins_with_snapshot());
            let (rows, in_snapshot) = known.unwrap_or_else(first);
            ItemEvent::RowBackfill(Box::new(RowBackfill {
                item,
                generation: wanted.generation,
                rows,
                in_snapshot,
            }))
        });
        let history = wanted.history;
        let history = history.filter(|history| history_before != Some(*history));
        let history = history.map(|wanted| {
            let known = route.map(|route| route.history.borrow());
            ItemEvent::HistoryBackfill(Box::new(HistoryBackfill {
                item,
                generation: wanted.generation,
                updates: known.iter().flat_map(|all| all.iter().cloned()).collect(),
            }))
        });
        rows.into_iter().chain(history)
    }

    /// Applies the interest of a shard, or its end.
    pub fn apply(&mut self, interest: Interest) {
        let Interest {
            name,
            shard,
            change,
        } = interest;
        match change {
            InterestChange::Subscribe(interest) => {
                let route = match self.items.entry(name) {
                    Entry::Occupied(route) => route.into_mut(),
                    Entry::Vacant(entry) => {
                        self.classes.add(entry.key());
                        entry.insert(Box::default())
                    }
                };
                route.change(shard, Some(UpdateTarget { shard, interest }));
            }
            InterestChange::Unsubscribe(item) => {
                let Some(route) = self.items.get_mut(&name) else {
                    return;
                };
                if !route.is_ended_by(shard, item) {
                    return;
                }
                route.change(shard, None);
                if route.targets.is_empty() {
                    self.items.remove(&name);
                    self.classes.remove(&name);
                    if should_shrink(self.items.len(), self.items.capacity()) {
                        self.items.shrink_to(2 * self.items.len());
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEM: &str = "item-[k=1]";

    fn subscribe(shard: u16, slot: u32, fields: &[usize]) -> Interest {
        Interest {
            name: ITEM.into(),
            shard,
            change: InterestChange::Subscribe(ItemInterest {
                item: ItemKey { slot, epoch: slot },
                fields: fields.iter().copied().collect(),
                rows: None,
                history: None,
                positions: false,
            }),
        }
    }

    fn unsubscribe(shard: u16, epoch: u32) -> Interest {
        Interest {
            name: ITEM.into(),
            shard,
            change: InterestChange::Unsubscribe(ItemKey { slot: 0, epoch }),
        }
    }

    fn slots(table: &RoutingTable) -> Vec<(u16, u32)> {
        let targets = table.route(ITEM).map_or(&[][..], |route| &route.targets);
        targets
            .iter()
            .map(|target| (target.shard, target.interest.item.slot))
            .collect()
    }

    fn fields(table: &RoutingTable) -> Vec<usize> {
        let route = table.route(ITEM).expect("the item has a route");
        route.fields.iter().collect()
    }

    #[test]
    fn last_interest_of_a_shard_applies() {
        let mut table = RoutingTable::default();
        table.apply(subscribe(0, 1, &[0]));
        table.apply(subscribe(1, 4, &[0]));
        table.apply(subscribe(0, 2, &[0]));
        assert_eq!(slots(&table), [(1, 4), (0, 2)]);
        table.apply(unsubscribe(1, 4));
        table.apply(unsubscribe(0, 1));
        assert_eq!(slots(&table), [(0, 2)], "an older use of the name ends");
        table.apply(unsubscribe(0, 3));
        assert!(table.len() == 0 && table.route(ITEM).is_none());
    }

    #[test]
    fn route_has_union_of_fields() {
        let mut table = RoutingTable::default();
        table.apply(subscribe(0, 1, &[0, 70]));
        table.apply(subscribe(1, 1, &[3]));
        assert_eq!(fields(&table), [0, 3, 70]);
        table.apply(subscribe(1, 1, &[3, 5]));
        assert_eq!(fields(&table), [0, 3, 5, 70]);
        table.apply(unsubscribe(0, 1));
        assert_eq!(fields(&table), [3, 5]);
    }
}
