//! Names of dynamic fields that clients have subscribed to, with an index for each.
//!
//! A name gets its index with the first subscription that has it. So extraction looks up the names
//! that occur in records, and drops those without an index. The index of a name without subscribers
//! is given to another name only if the table is full and no record had the name: values with that
//! index exist nowhere then.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

use thiserror::Error;

/// Maximum number of dynamic fields of one connection.
pub(crate) const DYNAMIC_FIELDS_MAX: usize = 4_096;
/// Maximum length of the name of a dynamic field in bytes.
const NAME_BYTES_MAX: usize = 1_024;

/// A dynamic field in use. While it exists, the name has its index.
#[derive(Debug)]
pub struct DynamicField {
    /// Index in [`FieldValues`](crate::FieldValues).
    pub index: usize,
}

/// Reason why a field name gets no index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DynamicFieldError {
    /// All indexes are in use.
    #[error("the connection has {DYNAMIC_FIELDS_MAX} dynamic fields, which is the limit")]
    Full,
    /// The name is too long.
    #[error("a field name has {0} bytes; at most {NAME_BYTES_MAX} are allowed")]
    LongName(usize),
}

/// A name with its index.
#[derive(Debug)]
pub(crate) struct DynamicSlot {
    pub(crate) index: usize,
    state: AtomicU8,
}

/// No record had the name so far.
const UNSEEN: u8 = 0;
const SEEN: u8 = 1;
/// The index was given to another name.
const REPLACED: u8 = 2;

impl DynamicSlot {
    /// Records that a record has the name. Returns `false` if the index is of another name now.
    pub(crate) fn note_seen(&self) -> bool {
        if self.state.load(Ordering::Relaxed) == SEEN {
            return true;
        }
        let change = |from, to| {
            let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
            self.state.compare_exchange(from, to, success, failure)
        };
        !matches!(change(UNSEEN, SEEN), Err(REPLACED))
    }

    fn replace(&self) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Acquire);
        let changed = self
            .state
            .compare_exchange(UNSEEN, REPLACED, success, failure);
        changed.is_ok()
    }
}

/// Slots by name, as extraction uses them.
pub(crate) type SlotTable = HashMap<Arc<str>, Arc<DynamicSlot>, foldhash::quality::RandomState>;

#[derive(Debug)]
struct DynamicEntry {
    name: Arc<str>,
    slot: Arc<DynamicSlot>,
    user: Weak<DynamicField>,
}

#[derive(Debug, Default)]
struct DynamicTable {
    entries: Vec<DynamicEntry>,
    by_name: Arc<SlotTable>,
}

/// Table of the dynamic fields of one connection, shared between threads.
#[derive(Debug)]
pub(crate) struct DynamicFields {
    /// Index of the first dynamic field.
    first: usize,
    table: RwLock<DynamicTable>,
}

impl DynamicFields {
    pub(crate) fn new(first: usize) -> Self {
        Self {
            first,
            table: RwLock::default(),
        }
    }

    /// Returns the number of fields that have an index, including configured ones.
    pub(crate) fn index_end(&self) -> usize {
        self.first + self.read().entries.len()
    }

    pub(crate) fn index(&self, name: &str) -> Option<usize> {
        self.read().by_name.get(name).map(|slot| slot.index)
    }

    /// Returns the current table.
    pub(crate) fn slots(&self) -> Arc<SlotTable> {
        Arc::clone(&self.read().by_name)
    }

    /// Returns the fields with these names; new names get an index.
    pub(crate) fn use_names<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
    ) -> Result<Vec<Arc<DynamicField>>, DynamicFieldError> {
        let mut table = self.write();
        let mut by_name = Arc::clone(&table.by_name);
        let mut fields = Vec::new();
        let mut result = Ok(());
        for name in names {
            match table.use_name(name, self.first, &mut by_name) {
                Ok(field) => fields.push(field),
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        table.by_name = by_name;
        result.map(|()| fields)
    }

    fn read(&self) -> RwLockReadGuard<'_, DynamicTable> {
        self.table.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, DynamicTable> {
        self.table.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl DynamicTable {
    fn use_name(
        &mut self,
        name: &str,
        first: usize,
        by_name: &mut Arc<SlotTable>,
    ) -> Result<Arc<DynamicField>, DynamicFieldError> {
        if name.len() > NAME_BYTES_MAX {
            return Err(DynamicFieldError::LongName(name.len()));
        }
        if let Some(slot) = by_name.get(name) {
            let entry = &mut self.entries[slot.index - first];
            let used = entry.user.upgrade();
            let index = slot.index;
            return Ok(used.unwrap_or_else(|| {
                let field = Arc::new(DynamicField { index });
                entry.user = Arc::downgrade(&field);
                field
            }));
        }
        let position = match self.entries.len() < DYNAMIC_FIELDS_MAX {
            true => self.entries.len(),
            false => self.take_unused(by_name).ok_or(DynamicFieldError::Full)?,
        };
        let index = first + position;
        let (name, field) = (Arc::<str>::from(name), Arc::new(DynamicField { index }));
        let state = AtomicU8::new(UNSEEN);
        let slot = Arc::new(DynamicSlot { index, state });
        Arc::make_mut(by_name).insert(Arc::clone(&name), Arc::clone(&slot));
        let user = Arc::downgrade(&field);
        let entry = DynamicEntry { name, slot, user };
        match self.entries.get_mut(position) {
            Some(old) => *old = entry,
            None => self.entries.push(entry),
        }
        Ok(field)
    }

    /// Removes a name that has no subscribers and that no record had. Returns its position.
    fn take_unused(&self, by_name: &mut Arc<SlotTable>) -> Option<usize> {
        let mut entries = self.entries.iter();
        let is_unused = |entry: &DynamicEntry| entry.user.strong_count() == 0;
        let position = entries.position(|entry| is_unused(entry) && entry.slot.replace())?;
        Arc::make_mut(by_name).remove(&self.entries[position].name);
        Some(position)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(table: &DynamicFields, names: &[&str]) -> Vec<Arc<DynamicField>> {
        let fields = table.use_names(names.iter().copied());
        fields.expect("there is room")
    }

    fn fill(table: &DynamicFields) -> Vec<Arc<DynamicField>> {
        let names: Vec<_> = (0..DYNAMIC_FIELDS_MAX).map(|n| n.to_string()).collect();
        let fields = table.use_names(names.iter().map(String::as_str));
        fields.expect("there is room")
    }

    #[test]
    fn names_keep_their_index() {
        let table = DynamicFields::new(3);
        let first = fields(&table, &["a", "b", "a"]);
        let indexes: Vec<_> = first.iter().map(|field| field.index).collect();
        assert_eq!(indexes, [3, 4, 3]);
        drop(first);
        assert_eq!(fields(&table, &["c", "b"])[1].index, 4);
        assert_eq!((table.index("c"), table.index("d")), (Some(5), None));
        assert_eq!(table.index_end(), 6);
    }

    #[test]
    fn full_table_reuses_names_without_records_and_subscribers() {
        let table = DynamicFields::new(0);
        let mut all = fill(&table);
        let full = |name| table.use_names(std::iter::once(name));
        assert_eq!(full("new").err(), Some(DynamicFieldError::Full));
        // A record had the name, so values with its index may exist.
        assert!(table.slots()["7"].note_seen());
        drop(all.remove(7));
        assert_eq!(full("new").err(), Some(DynamicFieldError::Full));
        let replaced = Arc::clone(&table.slots()["9"]);
        drop(all.remove(8));
        assert_eq!(full("new").expect("an unused index")[0].index, 9);
        assert!(
            !replaced.note_seen(),
            "an outdated table cannot use the index"
        );
        assert_eq!((table.index("9"), table.index("new")), (None, Some(9)));
        assert_eq!(table.index_end(), DYNAMIC_FIELDS_MAX);
    }

    #[test]
    fn long_names_are_rejected() {
        let table = DynamicFields::new(0);
        let long = "x".repeat(NAME_BYTES_MAX + 1);
        let error = table.use_names([long.as_str()].into_iter()).err();
        assert_eq!(error, Some(DynamicFieldError::LongName(1_025)));
    }
}
