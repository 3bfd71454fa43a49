//! The item table of a shard: the subscribers and the last values of its items.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use slab::Slab;
use weir_mapping::{FieldSet, FrozenValues};

use super::class::{ClassKey, ClassMember, FrameClass, MemberState};
use super::classes::Classes;
use super::delivery::PayloadSource;
use super::item_history::{ItemHistory, Retention, UpdateHistory};
use super::keys::{MemberSlot, SessionKey};
use super::row_table::{RowTable, RowTableCounters};
use super::schema::FieldSchema;
use super::transition::Transition;
use crate::interest::{HistoryInterest, ItemKey, RowInterest};

/// Identity of an item: the number of the Kafka connection and the canonical name.
pub(super) type ItemName = (u16, Arc<str>);

/// Items with at least one subscriber in this shard.
#[derive(Debug)]
pub(super) struct ItemTable {
    items: Slab<Item>,
    by_name: HashMap<ItemName, u32>,
    /// Next epoch. Two items that use the same slot in succession have different epochs.
    epoch: u32,
    /// Number of the last row table or history that was created.
    generation: u32,
    size: TableSize,
}

/// Sizes of an item table, from which its memory is estimated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct TableSize {
    pub(super) classes: usize,
    pub(super) members: usize,
    pub(super) name_bytes: usize,
}

/// An item and its subscribers.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: ItemName,
    pub(super) epoch: u32,
    /// Fields that ingest extracts; a superset of the fields of all classes.
    pub(super) fields: FieldSet,
    /// Last update, which up-to-date subscribers to events have received.
    last: Option<Arc<FrozenValues>>,
    /// Current values: the last update merged over the earlier ones.
    pub(super) state: Option<Arc<FrozenValues>>,
    /// Fields whose current values are known.
    pub(super) known: Arc<FieldSet>,
    pub(super) classes: Classes,
    /// Row table and history, which only some modes need.
    pub(super) retained: Option<Box<ItemHistory>>,
}

/// Interest to report to ingest after a subscriber joined.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum InterestUpdate {
    /// Nothing has changed.
    Nothing,
    /// The item is new in this shard.
    New(ItemInterest),
    /// More is needed; this is the whole interest.
    More(ItemInterest),
}

/// The needs of a shard for an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ItemInterest {
    pub(super) item: ItemKey,
    pub(super) fields: FieldSet,
    /// Its rows, for mode COMMAND.
    pub(super) rows: Option<RowInterest>,
    /// Its last updates, for mode DISTINCT.
    pub(super) history: Option<HistoryInterest>,
}

/// Effects of a removal.
#[derive(Debug, Default)]
pub(super) struct Removal {
    /// Session whose member slot of the same class moved to the removed one.
    pub(super) moved: Option<SessionKey>,
    /// The item has no subscribers left and was removed.
    pub(super) emptied: Option<(ItemName, ItemKey)>,
    /// Some fields of the item are no longer needed; this is the remaining interest.
    pub(super) narrowed: Option<(ItemName, ItemInterest)>,
    /// Number of removed rows.
    pub(super) rows: usize,
}

impl ItemTable {
    pub(super) fn new() -> Self {
        Self {
            items: Slab::new(),
            by_name: HashMap::new(),
            epoch: 0,
            generation: 0,
            size: TableSize::default(),
        }
    }

    pub(super) fn size(&self) -> TableSize {
        self.size
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns the item in a slot.
    pub(super) fn at_mut(&mut self, slot: u32) -> Option<&mut Item> {
        self.items.get_mut(slot as usize)
    }

    /// Returns the item with this key, unless its slot is used by another item now.
    pub(super) fn get_mut(&mut self, key: ItemKey) -> Option<&mut Item> {
        self.items
            .get_mut(key.slot as usize)
            .filter(|item| item.epoch == key.epoch)
    }

    /// Adds a subscriber.
    pub(super) fn add(
        &mut self,
        name: &ItemName,
        key: ClassKey<'_>,
        session: SessionKey,
        keep: Retention,
    ) -> (MemberSlot, InterestUpdate) {
        let (slot, new) = match self.by_name.get(name) {
            Some(slot) => (*slot, false),
            None => (self.insert(name), true),
        };
        let item = &mut self.items[slot as usize];
        let retains_more = item.retain(keep, key.schema, self.generation.wrapping_add(1));
        self.generation = self.generation.wrapping_add(u32::from(retains_more));
        let grew = item.widen(key.schema.wanted()) || retains_more;
        let epoch = item.epoch;
        let interest = || item.interest(ItemKey { slot, epoch });
        let change = match (new, grew) {
            (true, _) => InterestUpdate::New(interest()),
            (false, true) => InterestUpdate::More(interest()),
            (false, false) => InterestUpdate::Nothing,
        };
        let classes = item.classes.len();
        let class = item.classes.get_or_add(key);
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
        self.size.classes += item.classes.len() - classes;
        (MemberSlot { slot, member }, change)
    }

    /// Returns `true` if the subscriber would exceed the limit of frame classes per item.
    pub(super) fn is_full(&self, name: &ItemName, key: ClassKey<'_>, classes_max: usize) -> bool {
        let slot = self.by_name.get(name);
        let item = slot.and_then(|slot| self.items.get(*slot as usize));
        item.is_some_and(|item| {
            let classes = &item.classes;
            classes_max > 0 && classes.len() >= classes_max && classes.find(key).is_none()
        })
    }

    fn insert(&mut self, name: &ItemName) -> u32 {
        self.epoch = self.epoch.wrapping_add(1);
        let item = Item {
            name: name.clone(),
            epoch: self.epoch,
            fields: FieldSet::empty(),
            last: None,
            state: None,
            known: Arc::default(),
            classes: Classes::default(),
            retained: None,
        };
        self.size.name_bytes += name.1.len();
        let slot = self.items.insert(item) as u32;
        self.by_name.insert(name.clone(), slot);
        slot
    }

    /// Removes a subscriber in constant time: the last member of the class moves to its place.
    pub(super) fn remove(&mut self, place: MemberSlot, key: ClassKey<'_>) -> Removal {
        let mut removal = Removal::default();
        let slot = place.slot as usize;
        let Some(item) = self.items.get_mut(slot) else {
            return removal;
        };
        let retained_before = item.retention();
        let index = item.classes.find(key);
        let Some((index, class)) = index.and_then(|at| Some((at, item.classes.get_mut(at)?)))
        else {
            return removal;
        };
        let member = place.member as usize;
        if member >= class.members.len() {
            return removal;
        }
        class.members.swap_remove(member);
        self.size.members -= 1;
        removal.moved = class.members.get(member).map(|moved| moved.session);
        let class_gone = class.members.is_empty();
        if class_gone {
            self.size.classes -= 1;
            item.classes.remove(index);
            removal.rows = item.remove_unneeded();
        } else if class.members.capacity() > 64
            && class.members.len() * 4 < class.members.capacity()
        {
            class.members.shrink_to(class.members.len() * 2);
        }
        let retains_less = item.retention() != retained_before;
        if item.classes.is_empty() {
            let item = self.items.remove(slot);
            self.by_name.remove(&item.name);
            self.size.name_bytes -= item.name.1.len();
            let epoch = item.epoch;
            let key = ItemKey {
                slot: place.slot,
                epoch,
            };
            removal.emptied = Some((item.name, key));
            self.shrink();
        } else if class_gone {
            // An unused field could still cause extraction of the item's records to fail.
            let narrowed = item.narrow(key.schema.wanted()) || retains_less;
            removal.narrowed = narrowed.then(|| {
                let (slot, epoch) = (place.slot, item.epoch);
                (item.name.clone(), item.interest(ItemKey { slot, epoch }))
            });
        }
        removal
    }

    /// Releases memory when few of many items are left. Slot numbers do not change, so only slots
    /// after the last used one are released.
    fn shrink(&mut self) {
        if shrinks(self.by_name.len(), self.by_name.capacity()) {
            self.by_name.shrink_to(2 * self.by_name.len());
            self.items.shrink_to_fit();
        }
    }
}

/// Returns `true` if a table of `capacity` entries should shrink to twice its `len`.
pub(crate) fn shrinks(len: usize, capacity: usize) -> bool {
    capacity > 1_024 && len < capacity / 8
}

impl Item {
    /// Adds extracted fields; returns `false` if all were extracted already. The current values of
    /// new fields are unknown, because records in transit may lack them.
    fn widen(&mut self, wanted: &FieldSet) -> bool {
        if wanted.is_subset(&self.fields) {
            return false;
        }
        let is_new = |index| wanted.contains(index) && !self.fields.contains(index);
        let retained_before = self.known.iter().filter(|index| !is_new(*index));
        self.known = Arc::new(retained_before.collect());
        self.fields.union_with(wanted)
    }

    /// Removes fields in `gone` that no class uses; returns `false` if there are none.
    fn narrow(&mut self, gone: &FieldSet) -> bool {
        self.classes.narrow(&mut self.fields, gone)
    }

    /// Returns the current interest.
    fn interest(&self, item: ItemKey) -> ItemInterest {
        let (rows, history) = self.retention();
        ItemInterest {
            item,
            fields: self.fields.clone(),
            rows,
            history,
        }
    }

    /// Returns the interest in rows and in the history.
    fn retention(&self) -> (Option<RowInterest>, Option<HistoryInterest>) {
        let history = self
            .retained
            .as_ref()
            .and_then(|retained| retained.history.interest());
        (self.table().map(RowTable::interest), history)
    }

    /// Starts to store what a subscriber needs; existing data is retained. Returns `true` if
    /// workers must send earlier data.
    fn retain(&mut self, keep: Retention, schema: &FieldSchema, generation: u32) -> bool {
        match keep {
            Retention::Values => false,
            Retention::History(most, workers) => {
                let history = &mut self.retained.get_or_insert_default().history;
                history.begin(most, generation, workers)
            }
            Retention::Rows(rules, workers) => {
                let table = &mut self.retained.get_or_insert_default().table;
                let is_new = table.is_none();
                if is_new {
                    let mut new = RowTable::new(rules, schema.wanted().clone());
                    new.await_rows(generation, workers);
                    *table = Some(new);
                }
                is_new
            }
        }
    }

    /// Removes the row table and the history if no class needs them. Returns the number of removed
    /// rows.
    fn remove_unneeded(&mut self) -> usize {
        let (events, rows) = (
            self.classes.has(PayloadSource::Event),
            self.classes.has(PayloadSource::Row),
        );
        let Some(retained) = &mut self.retained else {
            return 0;
        };
        let table = if rows { None } else { retained.table.take() };
        if !events {
            retained.history = UpdateHistory::default();
        }
        if !events && !rows {
            self.retained = None;
        }
        table.map_or(0, |table| table.len())
    }

    /// Returns the class with this key.
    pub(super) fn class_mut(&mut self, key: ClassKey<'_>) -> Option<&mut FrameClass> {
        self.table_and_class_mut(key).1
    }

    /// Returns the item's rows and the class with this key.
    pub(super) fn table_and_class_mut(
        &mut self,
        key: ClassKey<'_>,
    ) -> (Option<&RowTable>, Option<&mut FrameClass>) {
        let table = self
            .retained
            .as_ref()
            .and_then(|retained| retained.table.as_ref());
        let at = self.classes.find(key);
        (table, at.and_then(|at| self.classes.get_mut(at)))
    }

    /// Applies an update of which the fields `extracted` were read.
    ///
    /// A field that was read but is not in the record keeps its value. The same holds for a field
    /// that this shard needs and a worker has not read, because it does not know the interest yet.
    /// All other fields become unknown.
    pub(super) fn advance(
        &mut self,
        event: Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
        counts: &mut RowTableCounters,
    ) -> Transition {
        let row = match &mut self.retained {
            None => None,
            Some(retained) => retained.advance(&event, extracted, counts),
        };
        let (state, state_before) = self.merge(&event, extracted);
        Transition {
            event_before: self.last.replace(Arc::clone(&event)),
            event,
            state,
            state_before,
            row,
        }
    }

    /// Returns `true` if the current values of all needed fields are known.
    pub(super) fn has_all_values(&self) -> bool {
        self.state.is_some() && self.fields.is_subset(&self.known)
    }

    /// Adds values that are not an update, as far as they are unknown. Known values may be newer,
    /// if several workers read the item's records.
    pub(super) fn backfill(
        &mut self,
        values: Arc<FrozenValues>,
        fields: &Arc<FieldSet>,
    ) -> Transition {
        let state_before = self.state.take();
        let state = match &state_before {
            None => Arc::clone(&values),
            Some(state) => {
                let of_either = |index, backfilled| match self.known.contains(index) {
                    true => state.value(index),
                    false => backfilled,
                };
                let filled = values.map(of_either);
                filled.map_or_else(|| Arc::clone(state), Arc::new)
            }
        };
        self.state = Some(Arc::clone(&state));
        let mut known = FieldSet::clone(&self.known);
        known.union_with(fields);
        self.known = Arc::new(known);
        Transition {
            event_before: None,
            event: values,
            state,
            state_before,
            row: None,
        }
    }

    /// Returns the values after and before an update.
    fn merge(
        &mut self,
        event: &Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
    ) -> (Arc<FrozenValues>, Option<Arc<FrozenValues>>) {
        let state_before = self.state.take();
        let carries = |index| {
            self.known.contains(index) && (extracted.contains(index) || self.fields.contains(index))
        };
        let merged = state_before
            .as_ref()
            .and_then(|older| event.filled_from(older, carries));
        let state = merged.map_or_else(|| Arc::clone(event), Arc::new);
        self.state = Some(Arc::clone(&state));
        self.known = if self.fields.is_subset(extracted) {
            Arc::clone(extracted)
        } else {
            let retained_before = self
                .known
                .iter()
                .filter(|index| self.fields.contains(*index));
            Arc::new(retained_before.chain(extracted.iter()).collect())
        };
        (state, state_before)
    }

    /// Returns the values that up-to-date members with this payload source have received.
    pub(super) fn last(&self, payload_source: PayloadSource) -> Option<&Arc<FrozenValues>> {
        match payload_source {
            PayloadSource::Event => self.last.as_ref(),
            PayloadSource::State => self.state.as_ref(),
            PayloadSource::Row => self.table()?.last(),
        }
    }

    pub(super) fn table(&self) -> Option<&RowTable> {
        self.retained.as_ref()?.table.as_ref()
    }

    pub(super) fn table_mut(&mut self) -> Option<&mut RowTable> {
        self.retained.as_mut()?.table.as_mut()
    }

    /// Returns the last updates with all fields of a schema, oldest first, up to `most`.
    pub(super) fn history(&self, schema: &FieldSchema, most: usize) -> Vec<Arc<FrozenValues>> {
        let retained = self.retained.as_ref();
        retained.map_or_else(Vec::new, |retained| retained.history.list(schema, most))
    }

    /// Returns the maximum number of stored updates.
    pub(super) fn history_max(&self) -> usize {
        let retained = self.retained.as_ref();
        retained.map_or(0, |retained| retained.history.most())
    }

    /// Returns `true` if workers have not yet sent all updates from before the history began.
    pub(super) fn awaits_history(&self) -> bool {
        let retained = self.retained.as_ref();
        retained.is_some_and(|retained| retained.history.is_awaited())
    }

    /// Returns the current values if they are known for all fields of a schema.
    pub(super) fn snapshot(&self, schema: &FieldSchema) -> Option<&Arc<FrozenValues>> {
        self.state
            .as_ref()
            .filter(|_| schema.wanted().is_subset(&self.known))
    }
}

#[cfg(test)]
mod tests {
    use super::super::delivery::DeliveryMode;
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
        }
    }

    fn interest(item: ItemKey, fields: FieldSet) -> ItemInterest {
        ItemInterest {
            item,
            fields,
            rows: None,
            history: None,
        }
    }

    fn new(change: InterestUpdate) -> ItemKey {
        match change {
            InterestUpdate::New(interest) => interest.item,
            other => panic!("the item must be new: {other:?}"),
        }
    }

    #[test]
    fn interest_grows_and_shrinks_with_schemas() {
        let mut table = ItemTable::new();
        let (some, retained) = (
            Arc::new(FieldSchema::of([Some(1), None, Some(0)])),
            Arc::new(FieldSchema::of([Some(0), Some(5)])),
        );
        let name: ItemName = (0, "item".into());
        let (_, first) = table.add(&name, class(&some, 1, 1), session(0), Retention::Values);
        let key = new(first);
        let fields = [0, 1, 5].into_iter().collect();
        let (place, second) =
            table.add(&name, class(&retained, 1, 1), session(1), Retention::Values);
        assert_eq!(second, InterestUpdate::More(interest(key, fields)));
        let (_, third) = table.add(&name, class(&some, 2, 1), session(2), Retention::Values);
        assert_eq!(third, InterestUpdate::Nothing);
        let removal = table.remove(place, class(&retained, 1, 1));
        let fields = [0, 1].into_iter().collect();
        assert_eq!(removal.narrowed, Some((name, interest(key, fields))));
    }

    #[test]
    fn item_is_removed_with_its_last_subscriber() {
        let mut table = ItemTable::new();
        let schema = Arc::new(FieldSchema::of([Some(0)]));
        let name: ItemName = (0, "item".into());
        let (first, change) = table.add(&name, class(&schema, 1, 1), session(0), Retention::Values);
        let (second, again) = table.add(&name, class(&schema, 1, 1), session(1), Retention::Values);
        let key = new(change);
        assert!(again == InterestUpdate::Nothing && table.get_mut(key).is_some());

        let removal = table.remove(first, class(&schema, 1, 1));
        assert_eq!(removal.moved, Some(session(1)));
        assert!(removal.emptied.is_none());

        let moved = MemberSlot {
            member: first.member,
            ..second
        };
        let removal = table.remove(moved, class(&schema, 1, 1));
        assert_eq!(removal.emptied, Some((name.clone(), key)));
        assert!(table.get_mut(key).is_none() && table.len() == 0);

        let (_, renewed) = table.add(&name, class(&schema, 1, 1), session(2), Retention::Values);
        assert_ne!(new(renewed).epoch, key.epoch);
    }

    #[test]
    fn classes_differ_by_schema_subscription_and_position() {
        let mut table = ItemTable::new();
        let (one, two) = (
            Arc::new(FieldSchema::of([Some(0)])),
            Arc::new(FieldSchema::of([Some(1)])),
        );
        let name: ItemName = (0, "item".into());
        let (place, key) = table.add(&name, class(&one, 1, 1), session(0), Retention::Values);
        table.add(&name, class(&two, 1, 1), session(1), Retention::Values);
        table.add(&name, class(&one, 2, 1), session(2), Retention::Values);
        table.add(&name, class(&one, 1, 2), session(3), Retention::Values);
        let key = new(key);
        assert_eq!(table.get_mut(key).map(|item| item.classes.len()), Some(4));
        table.remove(place, class(&one, 1, 1));
        assert_eq!(table.get_mut(key).map(|item| item.classes.len()), Some(3));
    }
}
