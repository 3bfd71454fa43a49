//! The item table of a shard.

use std::sync::Arc;

use foldhash::HashMap;
use slab::Slab;
use weir_mapping::{FieldSet, FrozenValues};

use super::class::{ClassKey, ClassMember, MemberState};
use super::item::{Item, ItemName, Transition};
use super::item_history::Retention;
use super::keys::{MemberSlot, SessionKey};
use super::row_table::{BackfilledRow, RowBackfill, RowTableCounters};
use crate::interest::{InterestChange, ItemInterest, ItemKey};

/// Items of a shard, by slot and by name.
#[derive(Debug, Default)]
pub struct ItemTable {
    items: Slab<Item>,
    by_name: HashMap<ItemName, u32>,
    /// Next epoch. Two items that use the same slot in succession have different epochs.
    epoch: u32,
    /// Number of the last row table or history that was created.
    generation: u32,
    /// Sizes from which the memory of the table is estimated.
    pub size: TableSize,
    /// Counters of all row tables.
    pub rows: RowTableCounters,
}

/// Sizes of an item table, from which its memory is estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TableSize {
    /// Frame classes of all items.
    pub classes: usize,
    /// Subscribers of all items.
    pub members: usize,
    /// Bytes of all item names.
    pub name_bytes: usize,
}

/// Interest of a shard that has grown.
#[derive(Debug, PartialEq, Eq)]
pub struct InterestUpdate {
    /// Current interest.
    pub interest: ItemInterest,
    /// `true` if the shard had no interest in the item before.
    pub is_new: bool,
}

/// Effects of the removal of a subscriber.
#[derive(Debug, Default)]
pub struct MemberRemoval {
    /// Session whose member slot of the same class moved to the removed one.
    pub moved: Option<SessionKey>,
    /// The item was removed with its last subscriber, or some of its fields are no longer needed.
    pub change: Option<(ItemName, InterestChange)>,
}

#[allow(clippy::len_without_is_empty, reason = "no caller needs it")]
impl ItemTable {
    /// Returns the number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the name of the item in a slot.
    pub fn name(&self, slot: u32) -> Option<&ItemName> {
        self.items.get(slot as usize).map(|item| &item.name)
    }

    pub(crate) fn at_mut(&mut self, slot: u32) -> Option<&mut Item> {
        self.items.get_mut(slot as usize)
    }

    /// Returns the key of the item with this name.
    pub fn find(&self, name: &ItemName) -> Option<ItemKey> {
        let slot = *self.by_name.get(name)?;
        let epoch = self.items.get(slot as usize)?.epoch;
        Some(ItemKey { slot, epoch })
    }

    /// Returns the name of the item in a slot.
    pub fn name_at(&self, slot: u32) -> Option<&ItemName> {
        self.items.get(slot as usize).map(|item| &item.name)
    }

    /// Returns the name of an item.
    pub fn name_of(&self, key: ItemKey) -> Option<&ItemName> {
        self.get(key).map(|item| &item.name)
    }

    /// Returns the number of subscribers of an item.
    pub fn subscribers(&self, key: ItemKey) -> Option<usize> {
        self.get(key).map(|item| item.classes.members())
    }

    /// Returns the item with this key, unless its slot is used by another item now.
    pub fn get(&self, key: ItemKey) -> Option<&Item> {
        let item = self.items.get(key.slot as usize);
        item.filter(|item| item.epoch == key.epoch)
    }

    /// Returns the item with this key, unless its slot is used by another item now.
    pub(crate) fn get_mut(&mut self, key: ItemKey) -> Option<&mut Item> {
        at_key(&mut self.items, key)
    }

    #[inline]
    pub(crate) fn advance(
        &mut self,
        key: ItemKey,
        update: Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
    ) -> Option<(&mut Item, Transition)> {
        let item = at_key(&mut self.items, key)?;
        let transition = item.advance(update, extracted, &mut self.rows);
        Some((item, transition))
    }

    /// Stores the rows of one worker, if they are awaited. Returns the item, its changes, and
    /// whether the snapshot is complete now.
    pub(crate) fn backfill_rows(
        &mut self,
        backfill: &RowBackfill,
    ) -> Option<(&mut Item, Vec<BackfilledRow>, bool)> {
        let item = at_key(&mut self.items, backfill.item)?;
        if !item.awaits_rows(backfill.generation) {
            return None;
        }
        let table = item.table_mut()?;
        let rows = backfill.rows.iter();
        let rows = rows.filter_map(|row| table.backfill(row, &mut self.rows));
        let changes = rows.collect();
        let is_complete = table.note_backfill(backfill.in_snapshot);
        Some((item, changes, is_complete))
    }

    /// Adds a subscriber of the item that clients know by the name `shown`. Returns the interest of
    /// the shard if it has grown.
    pub(crate) fn add(
        &mut self,
        name: &ItemName,
        shown: &str,
        key: ClassKey<'_>,
        session: SessionKey,
        keep: Retention,
    ) -> (MemberSlot, Option<InterestUpdate>) {
        let (slot, is_new) = match self.by_name.get(name) {
            Some(slot) => (*slot, false),
            None => (self.insert(name), true),
        };
        let item = &mut self.items[slot as usize];
        let retains_more = item.retain(keep, key.schema, self.generation.wrapping_add(1));
        self.generation = self.generation.wrapping_add(u32::from(retains_more));
        let grew = item.widen(key.schema.field_set()) || retains_more;
        let classes = item.classes.len();
        let class = item.classes.get_or_add(key, shown);
        if class.members.is_empty() {
            class.members.reserve_exact(1);
        }
        class.members.push(ClassMember {
            session,
            state: MemberState::New,
            has_frequency_limit: false,
            awaits_snapshot: false,
            awaits_rows: false,
        });
        let member = (class.members.len() - 1) as u32;
        self.size.members += 1;
        let is_new_class = item.classes.len() > classes;
        self.size.classes += usize::from(is_new_class);
        let has_events = is_new_class && key.form.is_some();
        item.event_classes += u32::from(has_events);
        let needs_positions = has_events && item.event_classes == 1;
        let change = (is_new || grew || needs_positions).then(|| InterestUpdate {
            interest: item.interest(slot),
            is_new,
        });
        (MemberSlot { slot, member }, change)
    }

    /// Returns the slot that an item with this name has, or gets with its first subscriber.
    pub fn slot_for(&self, name: &ItemName) -> u32 {
        let used = self.by_name.get(name).copied();
        used.unwrap_or_else(|| self.items.vacant_key() as u32)
    }

    /// Returns `true` if the subscriber would exceed the limit of frame classes per item.
    pub fn is_full(&self, name: &ItemName, key: ClassKey<'_>, classes_max: usize) -> bool {
        let slot = self.by_name.get(name);
        let item = slot.and_then(|slot| self.items.get(*slot as usize));
        item.is_some_and(|item| {
            let classes = &item.classes;
            classes_max > 0 && classes.len() >= classes_max && classes.find(key).is_none()
        })
    }

    fn insert(&mut self, name: &ItemName) -> u32 {
        self.epoch = self.epoch.wrapping_add(1);
        self.size.name_bytes += name.1.len();
        let slot = self.items.insert(Item::new(name, self.epoch)) as u32;
        self.by_name.insert(name.clone(), slot);
        slot
    }

    /// Removes a subscriber in constant time: the last member of the class moves to its place.
    pub fn remove(&mut self, removed: MemberSlot, key: ClassKey<'_>) -> MemberRemoval {
        let (slot, member) = (removed.slot as usize, removed.member as usize);
        let Some(item) = self.items.get_mut(slot) else {
            return MemberRemoval::default();
        };
        let retained_before = item.retention();
        let index = item.classes.find(key);
        let class = index.and_then(|at| Some((at, item.classes.get_mut(at)?)));
        let Some((index, class)) = class.filter(|(_, class)| member < class.members.len()) else {
            return MemberRemoval::default();
        };
        class.members.swap_remove(member);
        self.size.members -= 1;
        let mut removal = MemberRemoval {
            moved: class.members.get(member).map(|moved| moved.session),
            change: None,
        };
        if !class.members.is_empty() {
            let (len, capacity) = (class.members.len(), class.members.capacity());
            if capacity > 64 && len * 4 < capacity {
                class.members.shrink_to(len * 2);
            }
            return removal;
        }
        self.size.classes -= 1;
        item.classes.remove(index);
        let had_events = item.event_classes > 0;
        item.event_classes -= u32::from(key.form.is_some());
        let ends_positions = had_events && item.event_classes == 0;
        self.rows.stored -= item.remove_unneeded() as u64;
        if item.classes.is_empty() {
            let item = self.items.remove(slot);
            self.by_name.remove(&item.name);
            self.size.name_bytes -= item.name.1.len();
            let key = ItemKey {
                slot: removed.slot,
                epoch: item.epoch,
            };
            removal.change = Some((item.name, InterestChange::Unsubscribe(key)));
            self.shrink();
            return removal;
        }
        // An unused field could still cause extraction of the item's records to fail.
        let is_narrower = item
            .classes
            .narrow(&mut item.fields, key.schema.field_set());
        if is_narrower || ends_positions || item.retention() != retained_before {
            let interest = item.interest(removed.slot);
            removal.change = Some((item.name.clone(), InterestChange::Subscribe(interest)));
        }
        removal
    }

    /// Releases memory when few of many items are left. Slot numbers do not change, so only slots
    /// after the last used one are released.
    fn shrink(&mut self) {
        if should_shrink(self.by_name.len(), self.by_name.capacity()) {
            self.by_name.shrink_to(2 * self.by_name.len());
            self.items.shrink_to_fit();
        }
    }
}

#[inline]
fn at_key(items: &mut Slab<Item>, key: ItemKey) -> Option<&mut Item> {
    let item = items.get_mut(key.slot as usize);
    item.filter(|item| item.epoch == key.epoch)
}

/// Returns `true` if a table of `capacity` entries should shrink to twice its `len`.
pub fn should_shrink(len: usize, capacity: usize) -> bool {
    capacity > 1_024 && len < capacity / 8
}

#[cfg(test)]
mod tests {
    use super::super::delivery_mode::DeliveryMode;
    use super::super::schema::FieldSchema;
    use super::*;

    fn session(index: u32) -> SessionKey {
        SessionKey { index, serial: 1 }
    }

    fn class(schema: &Arc<FieldSchema>, sub_id: u32, position: u32) -> ClassKey<'_> {
        ClassKey {
            schema,
            sub_id,
            position,
            delivery: DeliveryMode::Events,
            diffs: None,
            form: None,
        }
    }

    fn interest(item: ItemKey, fields: FieldSet) -> ItemInterest {
        ItemInterest {
            item,
            fields,
            rows: None,
            history: None,
            positions: false,
        }
    }

    fn new(change: Option<InterestUpdate>) -> ItemKey {
        let change = change.filter(|change| change.is_new);
        change.expect("the item must be new").interest.item
    }

    #[test]
    fn interest_grows_and_shrinks_with_schemas() {
        let mut table = ItemTable::default();
        let (some, retained) = (
            Arc::new(FieldSchema::of([Some(1), None, Some(0)])),
            Arc::new(FieldSchema::of([Some(0), Some(5)])),
        );
        let name: ItemName = (0, "item".into());
        let (_, first) = table.add(
            &name,
            "item",
            class(&some, 1, 1),
            session(0),
            Retention::Values,
        );
        let key = new(first);
        let fields = [0, 1, 5].into_iter().collect();
        let (place, second) = table.add(
            &name,
            "item",
            class(&retained, 1, 1),
            session(1),
            Retention::Values,
        );
        let more = InterestUpdate {
            interest: interest(key, fields),
            is_new: false,
        };
        assert_eq!(second, Some(more));
        let (_, third) = table.add(
            &name,
            "item",
            class(&some, 2, 1),
            session(2),
            Retention::Values,
        );
        assert_eq!(third, None);
        let removal = table.remove(place, class(&retained, 1, 1));
        let fields = [0, 1].into_iter().collect();
        let narrowed = InterestChange::Subscribe(interest(key, fields));
        assert_eq!(removal.change, Some((name, narrowed)));
    }

    #[test]
    fn item_is_removed_with_its_last_subscriber() {
        let mut table = ItemTable::default();
        let schema = Arc::new(FieldSchema::of([Some(0)]));
        let name: ItemName = (0, "item".into());
        let (first, change) = table.add(
            &name,
            "item",
            class(&schema, 1, 1),
            session(0),
            Retention::Values,
        );
        let (second, again) = table.add(
            &name,
            "item",
            class(&schema, 1, 1),
            session(1),
            Retention::Values,
        );
        let key = new(change);
        assert!(again.is_none() && table.get_mut(key).is_some());

        let removal = table.remove(first, class(&schema, 1, 1));
        assert_eq!(removal.moved, Some(session(1)));
        assert!(removal.change.is_none());

        let moved = MemberSlot {
            member: first.member,
            ..second
        };
        let removal = table.remove(moved, class(&schema, 1, 1));
        let emptied = InterestChange::Unsubscribe(key);
        assert_eq!(removal.change, Some((name.clone(), emptied)));
        assert!(table.get_mut(key).is_none() && table.len() == 0);

        let (_, renewed) = table.add(
            &name,
            "item",
            class(&schema, 1, 1),
            session(2),
            Retention::Values,
        );
        assert_ne!(new(renewed).epoch, key.epoch);
    }

    #[test]
    fn classes_differ_by_schema_subscription_and_position() {
        let mut table = ItemTable::default();
        let (one, two) = (
            Arc::new(FieldSchema::of([Some(0)])),
            Arc::new(FieldSchema::of([Some(1)])),
        );
        let name: ItemName = (0, "item".into());
        let (place, key) = table.add(
            &name,
            "item",
            class(&one, 1, 1),
            session(0),
            Retention::Values,
        );
        table.add(
            &name,
            "item",
            class(&two, 1, 1),
            session(1),
            Retention::Values,
        );
        table.add(
            &name,
            "item",
            class(&one, 2, 1),
            session(2),
            Retention::Values,
        );
        table.add(
            &name,
            "item",
            class(&one, 1, 2),
            session(3),
            Retention::Values,
        );
        let key = new(key);
        assert_eq!(table.get_mut(key).map(|item| item.classes.len()), Some(4));
        table.remove(place, class(&one, 1, 1));
        assert_eq!(table.get_mut(key).map(|item| item.classes.len()), Some(3));
    }
}
