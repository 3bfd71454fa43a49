//! The shard's item table: which of its sessions get which update, in which form.
//!
//! Subscribers of an item that share schema, subscription number, position and delivery form a
//! *frame class*: they receive the same bytes, which are encoded once. Typical clients (one subscription, one item)
//! all fall into one class.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};
use slab::Slab;
use weir_mapping::{FieldSet, FrozenValues};
use weir_tlcp::request::Mode;

use super::schema::Schema;
use super::session::SessionKey;
use crate::routing::ItemKey;

/// An item's identity: the connection's number and the canonical name.
pub(super) type ItemName = (u16, Arc<str>);

/// Items with at least one subscriber in this shard.
#[derive(Debug)]
pub(super) struct ItemTable {
    items: Slab<Item>,
    by_name: HashMap<ItemName, u32>,
    /// Next epoch; never the same for two items that use one slot after the other.
    epoch: u32,
}

/// One item and those who want it.
#[derive(Debug)]
pub(super) struct Item {
    pub(super) name: ItemName,
    pub(super) epoch: u32,
    /// Fields that ingest was asked for; never fewer than the classes have.
    pub(super) fields: FieldSet,
    /// Last update, what subscribers to events have seen if they are in step.
    last: Option<Arc<FrozenValues>>,
    /// Current values: the last update over the earlier ones.
    pub(super) state: Option<Arc<FrozenValues>>,
    /// The fields whose current values are known.
    pub(super) known: Arc<FieldSet>,
    pub(super) classes: Vec<FrameClass>,
}

/// An update's way into an item: what subscribers get, and what those in step have seen before.
#[derive(Debug)]
pub(super) struct Step {
    event: Arc<FrozenValues>,
    event_before: Option<Arc<FrozenValues>>,
    state: Arc<FrozenValues>,
    pub(super) state_before: Option<Arc<FrozenValues>>,
}

/// What subscribers are owed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delivery {
    /// Every update as it came (RAW, DISTINCT): a field it does not have is null.
    Events,
    /// The values after every update (MERGE, `unfiltered`).
    States,
    /// The newest values; older ones may be left out (MERGE).
    Newest,
}

/// Subscribers that get the same bytes.
#[derive(Debug)]
pub(super) struct FrameClass {
    pub(super) schema: Arc<Schema>,
    pub(super) sub_id: u32,
    /// The item's position in the subscription, from 1.
    pub(super) position: u32,
    pub(super) delivery: Delivery,
    pub(super) members: Vec<Member>,
    /// Where the next pass begins, so that no client is always the last one.
    pub(super) start: usize,
}

/// What tells a class of an item from the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClassKey<'a> {
    pub(super) schema: &'a Arc<Schema>,
    pub(super) sub_id: u32,
    pub(super) position: u32,
    pub(super) delivery: Delivery,
}

/// One subscriber in a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) session: SessionKey,
    pub(super) progress: Progress,
}

/// What a subscriber has got of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing that changes could refer to: the next update goes out whole.
    New,
    /// The last update, so that it can be sent changes only.
    InStep,
    /// Something older: the newest state waits in the backlog.
    Behind,
}

/// Where a subscription's item stands in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) slot: u32,
    /// Index in the class's member list; changes when another member leaves.
    pub(super) member: u32,
}

/// What ingest must be told about an item after somebody joined it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// It knows all.
    Nothing,
    /// The item is new here.
    New(ItemKey, FieldSet),
    /// More fields of it are wanted; all that are.
    More(ItemKey, FieldSet),
}

/// What a removal changed elsewhere.
#[derive(Debug, Default)]
pub(super) struct Removal {
    /// This session's place for the same class moved to the removed one's.
    pub(super) moved: Option<SessionKey>,
    /// The item has no subscribers left and is forgotten.
    pub(super) emptied: Option<ItemName>,
    /// Nobody wants some of the item's fields any more; those that are left.
    pub(super) narrowed: Option<(ItemName, ItemKey, FieldSet)>,
}

impl ItemTable {
    pub(super) fn new() -> Self {
        Self {
            items: Slab::new(),
            by_name: HashMap::new(),
            epoch: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// The item in a slot.
    pub(super) fn at_mut(&mut self, slot: u32) -> Option<&mut Item> {
        self.items.get_mut(slot as usize)
    }

    /// The item an update is for, unless its slot has changed hands since.
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
    ) -> (Place, Ask) {
        let (slot, new) = match self.by_name.get(name) {
            Some(slot) => (*slot, false),
            None => (self.insert(name), true),
        };
        let item = &mut self.items[slot as usize];
        let grew = item.widen(key.schema.wanted());
        let epoch = item.epoch;
        let ask = match (new, grew) {
            (true, _) => Ask::New(ItemKey { slot, epoch }, item.fields.clone()),
            (false, true) => Ask::More(ItemKey { slot, epoch }, item.fields.clone()),
            (false, false) => Ask::Nothing,
        };
        let class = match item.class_index(key) {
            Some(index) => &mut item.classes[index],
            None => {
                item.classes.push(FrameClass {
                    schema: Arc::clone(key.schema),
                    sub_id: key.sub_id,
                    position: key.position,
                    delivery: key.delivery,
                    members: Vec::new(),
                    start: 0,
                });
                item.classes.last_mut().expect("a class was just pushed")
            }
        };
        class.members.push(Member {
            session,
            progress: Progress::New,
        });
        let member = (class.members.len() - 1) as u32;
        (Place { slot, member }, ask)
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
            classes: Vec::new(),
        };
        let slot = self.items.insert(item) as u32;
        self.by_name.insert(name.clone(), slot);
        slot
    }

    /// Removes a subscriber by its place, in constant time: the class's last member takes it.
    pub(super) fn remove(&mut self, place: Place, key: ClassKey<'_>) -> Removal {
        let mut removal = Removal::default();
        let slot = place.slot as usize;
        let Some(item) = self.items.get_mut(slot) else {
            return removal;
        };
        let Some(index) = item.class_index(key) else {
            return removal;
        };
        let class = &mut item.classes[index];
        let member = place.member as usize;
        if member >= class.members.len() {
            return removal;
        }
        class.members.swap_remove(member);
        removal.moved = class.members.get(member).map(|moved| moved.session);
        let class_gone = class.members.is_empty();
        if class_gone {
            item.classes.swap_remove(index);
        } else if class.members.capacity() > 64
            && class.members.len() * 4 < class.members.capacity()
        {
            class.members.shrink_to(class.members.len() * 2);
        }
        if item.classes.is_empty() {
            let item = self.items.remove(slot);
            self.by_name.remove(&item.name);
            removal.emptied = Some(item.name);
        } else if class_gone {
            // A field left behind by its last subscriber could still fail the item's records.
            removal.narrowed = item.narrow().map(|fields| {
                let (slot, epoch) = (place.slot, item.epoch);
                (item.name.clone(), ItemKey { slot, epoch }, fields)
            });
        }
        removal
    }
}

impl Item {
    /// Adds fields to those asked for; false if they were there. Their present values, if there
    /// are any, may be older than records on their way without them, so they are not known.
    fn widen(&mut self, wanted: &FieldSet) -> bool {
        if wanted.is_subset(&self.fields) {
            return false;
        }
        let is_new = |index| wanted.contains(index) && !self.fields.contains(index);
        let kept = self.known.iter().filter(|index| !is_new(*index));
        self.known = Arc::new(kept.collect());
        self.fields.union_with(wanted)
    }

    /// Takes back fields that no class has any more; those left if there were any.
    fn narrow(&mut self) -> Option<FieldSet> {
        let mut fields = FieldSet::empty();
        for class in &self.classes {
            fields.union_with(class.schema.wanted());
        }
        (fields != self.fields).then(|| {
            self.fields = fields.clone();
            fields
        })
    }

    fn class_index(&self, key: ClassKey<'_>) -> Option<usize> {
        self.classes.iter().position(|class| {
            class.sub_id == key.sub_id
                && class.position == key.position
                && class.delivery == key.delivery
                && Arc::ptr_eq(&class.schema, key.schema)
        })
    }

    /// The class and the member that a place in it stands for.
    pub(super) fn class_mut(&mut self, key: ClassKey<'_>) -> Option<&mut FrameClass> {
        let index = self.class_index(key)?;
        self.classes.get_mut(index)
    }

    /// Takes in an update of which the fields `extracted` were read.
    ///
    /// A field that was read but is not in the record keeps its value. So does one that this
    /// shard has asked for and that a worker which does not know it yet has not read. Any other
    /// is unknown from now on.
    pub(super) fn advance(&mut self, event: Arc<FrozenValues>, extracted: &Arc<FieldSet>) -> Step {
        let state_before = self.state.take();
        let carries = |index| {
            self.known.contains(index) && (extracted.contains(index) || self.fields.contains(index))
        };
        let merged = state_before
            .as_ref()
            .and_then(|older| event.over(older, carries));
        let state = merged.map_or_else(|| Arc::clone(&event), Arc::new);
        self.state = Some(Arc::clone(&state));
        self.known = if self.fields.is_subset(extracted) {
            Arc::clone(extracted)
        } else {
            let kept = self
                .known
                .iter()
                .filter(|index| self.fields.contains(*index));
            Arc::new(kept.chain(extracted.iter()).collect())
        };
        Step {
            event_before: self.last.replace(Arc::clone(&event)),
            event,
            state,
            state_before,
        }
    }

    /// The current values, if they are known for all fields of a schema.
    pub(super) fn snapshot(&self, schema: &Schema) -> Option<&Arc<FrozenValues>> {
        self.state
            .as_ref()
            .filter(|_| schema.wanted().is_subset(&self.known))
    }
}

impl Delivery {
    /// What a subscription in this mode is owed. COMMAND is refused before.
    pub(super) fn of(mode: Mode, unfiltered: bool) -> Self {
        match (mode, unfiltered) {
            (Mode::Merge, false) => Self::Newest,
            (Mode::Merge, true) => Self::States,
            (Mode::Raw | Mode::Distinct | Mode::Command, _) => Self::Events,
        }
    }
}

impl Step {
    /// The values that a delivery sends, and those that its subscribers in step have seen.
    pub(super) fn values(&self, delivery: Delivery) -> (&FrozenValues, Option<&FrozenValues>) {
        match delivery {
            Delivery::Events => (&self.event, self.event_before.as_deref()),
            Delivery::States | Delivery::Newest => (&self.state, self.state_before.as_deref()),
        }
    }
}

impl FrameClass {
    /// An update went by without all fields of this class. What its members have seen is no longer
    /// the item's last update, so the next one goes out whole.
    pub(super) fn miss(&mut self) {
        for member in &mut self.members {
            if member.progress == Progress::InStep {
                member.progress = Progress::New;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(index: u32) -> SessionKey {
        SessionKey { index, serial: 1 }
    }

    fn class(schema: &Arc<Schema>, sub_id: u32, position: u32) -> ClassKey<'_> {
        ClassKey {
            schema,
            sub_id,
            position,
            delivery: Delivery::Events,
        }
    }

    fn new(ask: Ask) -> ItemKey {
        match ask {
            Ask::New(key, _) => key,
            other => panic!("the item is new, but {other:?}"),
        }
    }

    #[test]
    fn ingest_is_asked_again_when_a_schema_has_more_fields() {
        let mut table = ItemTable::new();
        let (some, more) = (
            Arc::new(Schema::of([Some(1), None, Some(0)])),
            Arc::new(Schema::of([Some(0), Some(5)])),
        );
        let name: ItemName = (0, "item".into());
        let (_, first) = table.add(&name, class(&some, 1, 1), session(0));
        let key = new(first);
        let fields = [0, 1, 5].into_iter().collect();
        let (place, second) = table.add(&name, class(&more, 1, 1), session(1));
        assert_eq!(second, Ask::More(key, fields));
        let (_, third) = table.add(&name, class(&some, 2, 1), session(2));
        assert_eq!(third, Ask::Nothing);
        let removal = table.remove(place, class(&more, 1, 1));
        let fields = [0, 1].into_iter().collect();
        assert_eq!(removal.narrowed, Some((name, key, fields)));
    }

    #[test]
    fn an_item_lives_as_long_as_its_subscribers() {
        let mut table = ItemTable::new();
        let schema = Arc::new(Schema::of([Some(0)]));
        let name: ItemName = (0, "item".into());
        let (first, ask) = table.add(&name, class(&schema, 1, 1), session(0));
        let (second, again) = table.add(&name, class(&schema, 1, 1), session(1));
        let key = new(ask);
        assert!(again == Ask::Nothing && table.get_mut(key).is_some());

        let removal = table.remove(first, class(&schema, 1, 1));
        assert_eq!(removal.moved, Some(session(1)));
        assert!(removal.emptied.is_none());

        let moved = Place {
            member: first.member,
            ..second
        };
        let removal = table.remove(moved, class(&schema, 1, 1));
        assert_eq!(removal.emptied, Some(name.clone()));
        assert!(table.get_mut(key).is_none() && table.len() == 0);

        let (_, renewed) = table.add(&name, class(&schema, 1, 1), session(2));
        assert_ne!(new(renewed).epoch, key.epoch);
    }

    #[test]
    fn classes_are_told_apart_by_what_changes_the_bytes() {
        let mut table = ItemTable::new();
        let (one, two) = (
            Arc::new(Schema::of([Some(0)])),
            Arc::new(Schema::of([Some(1)])),
        );
        let name: ItemName = (0, "item".into());
        let (place, key) = table.add(&name, class(&one, 1, 1), session(0));
        table.add(&name, class(&two, 1, 1), session(1));
        table.add(&name, class(&one, 2, 1), session(2));
        table.add(&name, class(&one, 1, 2), session(3));
        let key = new(key);
        assert_eq!(table.get_mut(key).map(|item| item.classes.len()), Some(4));
        table.remove(place, class(&one, 1, 1));
        assert_eq!(table.get_mut(key).map(|item| item.classes.len()), Some(3));
    }
}
