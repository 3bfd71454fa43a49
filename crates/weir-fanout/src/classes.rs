//! The frame classes of one item.
//!
//! Up to a few classes, a search is linear. Larger lists have an index, so that finding, adding and
//! removing a class takes constant time.

use std::sync::Arc;

use foldhash::HashMap;
use weir_mapping::FieldSet;

use super::class::{ClassKey, FrameClass};
use super::delivery_mode::{DeliveryMode, PayloadSource};
use super::events::EventForm;
use super::work::visit;

/// Number of classes from which an index is used.
const INDEXED_FROM: usize = 9;
/// Number of classes at which the index is removed.
const INDEXED_DOWN_TO: usize = 4;

#[derive(Debug, Default)]
pub(crate) struct ItemClasses {
    list: Vec<FrameClass>,
    index: Option<Box<ClassIndex>>,
}

#[derive(Debug, Default)]
struct ClassIndex {
    by_id: HashMap<ClassId, u32>,
    /// Number of classes with each field, by field index.
    wanting: Vec<u32>,
    /// Number of classes by payload source.
    by_source: [u32; 3],
}

/// Identity of a class. Schema and diffs are compared by address; the class keeps them alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct ClassId {
    schema: usize,
    diffs: usize,
    sub_id: u32,
    position: u32,
    delivery: DeliveryMode,
    form: Option<EventForm>,
}

impl ClassId {
    fn of(key: ClassKey<'_>) -> Self {
        Self {
            schema: Arc::as_ptr(key.schema) as usize,
            diffs: key.diffs.map_or(0, |diffs| Arc::as_ptr(diffs) as usize),
            sub_id: key.sub_id,
            position: key.position,
            delivery: key.delivery,
            form: key.form,
        }
    }
}

impl ClassIndex {
    fn of(classes: &[FrameClass]) -> Self {
        let mut index = Self::default();
        index.by_id.reserve(2 * classes.len());
        for (at, class) in classes.iter().enumerate() {
            index.add(class, at);
        }
        index
    }

    fn add(&mut self, class: &FrameClass, at: usize) {
        self.by_id.insert(ClassId::of(class.key()), at as u32);
        self.by_source[class.delivery.payload_source() as usize] += 1;
        for field in class.schema.field_set().iter() {
            if self.wanting.len() <= field {
                self.wanting.resize(field + 1, 0);
            }
            self.wanting[field] += 1;
        }
    }

    fn remove(&mut self, class: &FrameClass) {
        self.by_id.remove(&ClassId::of(class.key()));
        self.by_source[class.delivery.payload_source() as usize] -= 1;
        for field in class.schema.field_set().iter() {
            self.wanting[field] -= 1;
        }
    }
}

impl ItemClasses {
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// Returns the number of members of all classes.
    pub(crate) fn members(&self) -> usize {
        self.list.iter().map(|class| class.members.len()).sum()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn find(&self, key: ClassKey<'_>) -> Option<usize> {
        match &self.index {
            None => self.list.iter().position(|class| class.is(key)),
            Some(index) => {
                visit();
                index.by_id.get(&ClassId::of(key)).map(|at| *at as usize)
            }
        }
    }

    pub(crate) fn get_mut(&mut self, at: usize) -> Option<&mut FrameClass> {
        self.list.get_mut(at)
    }

    /// Returns a class of the item that clients know by the name `item`.
    pub(crate) fn get_or_add(&mut self, key: ClassKey<'_>, item: &str) -> &mut FrameClass {
        let at = self.find(key).unwrap_or_else(|| {
            let class = FrameClass::new(key, item);
            if let Some(index) = &mut self.index {
                index.add(&class, self.list.len());
            }
            if self.list.is_empty() {
                // Most items have one class.
                self.list.reserve_exact(1);
            }
            self.list.push(class);
            if self.index.is_none() && self.list.len() >= INDEXED_FROM {
                self.index = Some(Box::new(ClassIndex::of(&self.list)));
            }
            self.list.len() - 1
        });
        &mut self.list[at]
    }

    /// Removes a class; the last class takes its position.
    pub(crate) fn remove(&mut self, at: usize) {
        let class = self.list.swap_remove(at);
        let Some(index) = &mut self.index else { return };
        if self.list.len() <= INDEXED_DOWN_TO {
            self.index = None;
            return;
        }
        index.remove(&class);
        if let Some(moved) = self.list.get(at) {
            index.by_id.insert(ClassId::of(moved.key()), at as u32);
        }
    }

    pub(crate) fn has(&self, payload_source: PayloadSource) -> bool {
        match &self.index {
            None => {
                let mut sources = self
                    .list
                    .iter()
                    .map(|class| class.delivery.payload_source());
                sources.any(|source| source == payload_source)
            }
            Some(index) => index.by_source[payload_source as usize] > 0,
        }
    }

    /// Removes from `fields` the fields that no class has; only fields in `gone` are checked.
    /// Returns `true` if any field was removed.
    pub(crate) fn narrow(&self, fields: &mut FieldSet, gone: &FieldSet) -> bool {
        let wants = |field| match &self.index {
            Some(index) => index.wanting.get(field).is_some_and(|count| *count > 0),
            None => {
                let mut classes = self.list.iter();
                classes.any(|class| class.schema.field_set().contains(field))
            }
        };
        if gone.iter().all(wants) {
            return false;
        }
        let is_left = |field: &usize| !gone.contains(*field) || wants(*field);
        *fields = fields.iter().filter(is_left).collect();
        true
    }
}

impl<'a> IntoIterator for &'a mut ItemClasses {
    type Item = &'a mut FrameClass;
    type IntoIter = std::slice::IterMut<'a, FrameClass>;

    fn into_iter(self) -> Self::IntoIter {
        self.list.iter_mut()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::schema::FieldSchema;
    use super::super::work::visits;
    use super::*;

    const DELIVERIES: [DeliveryMode; 3] = [
        DeliveryMode::Events,
        DeliveryMode::Newest,
        DeliveryMode::Rows,
    ];

    proptest! {
        /// The classes behave like a linearly searched list, with and without an index.
        #[test]
        fn classes_behave_like_a_list(
            steps in proptest::collection::vec(
                (0usize..3, 0u32..8, 0usize..3, any::<bool>()),
                1..120,
            ),
        ) {
            let schemas = [vec![0], vec![0, 3], vec![70]]
                .map(|fields: Vec<u16>| Arc::new(FieldSchema::of(fields.into_iter().map(Some))));
            let mut classes = ItemClasses::default();
            let mut model: Vec<(usize, u32, usize)> = Vec::new();
            let mut fields = FieldSet::empty();
            for (schema, sub_id, delivery, add) in steps {
                let key = ClassKey {
                    schema: &schemas[schema],
                    sub_id,
                    position: 1,
                    delivery: DELIVERIES[delivery],
                    diffs: None,
                    form: None,
                };
                let entry = (schema, sub_id, delivery);
                prop_assert_eq!(classes.find(key).is_some(), model.contains(&entry));
                if add {
                    prop_assert_eq!(classes.get_or_add(key, "i").sub_id, sub_id);
                    fields.union_with(schemas[schema].field_set());
                    model.retain(|one| *one != entry);
                    model.push(entry);
                } else if let Some(at) = classes.find(key) {
                    classes.remove(at);
                    classes.narrow(&mut fields, schemas[schema].field_set());
                    model.retain(|one| *one != entry);
                }
                let mut wanted = FieldSet::empty();
                for (schema, ..) in &model {
                    wanted.union_with(schemas[*schema].field_set());
                }
                prop_assert_eq!(&fields, &wanted);
                for (index, delivery) in DELIVERIES.iter().enumerate() {
                    let has = model.iter().any(|(_, _, one)| *one == index);
                    prop_assert_eq!(classes.has(delivery.payload_source()), has);
                }
                prop_assert_eq!(classes.len(), model.len());
            }
        }
    }

    #[test]
    fn lookup_cost_is_independent_of_class_count() {
        let schema = Arc::new(FieldSchema::of([Some(0)]));
        let key = |sub_id| ClassKey {
            schema: &schema,
            sub_id,
            position: 1,
            delivery: DeliveryMode::Events,
            diffs: None,
            form: None,
        };
        let cost = |count: u32| {
            let mut classes = ItemClasses::default();
            for sub_id in 0..count {
                classes.get_or_add(key(sub_id), "i");
            }
            let before = visits();
            for sub_id in 0..10 {
                let at = classes.find(key(sub_id)).expect("it was added");
                classes.remove(at);
            }
            visits() - before
        };
        assert_eq!(cost(100), cost(20_000));
    }
}
