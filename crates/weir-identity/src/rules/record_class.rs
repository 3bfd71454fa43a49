//! Classes of records: clients with equal values of a claim see the same records of a shared item.

use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

/// Values of a claim, sorted and distinct. Clients with equal classes share an item's state.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct RecordClass {
    /// Position of the rule whose expression selects the records.
    rule: usize,
    /// The values with commas between them, which no value contains.
    text: Box<str>,
}

impl RecordClass {
    /// Creates the class of values that are sorted, distinct and free of commas.
    pub(super) fn new<'a>(rule: usize, values: impl Iterator<Item = &'a str>) -> Self {
        let text = values.collect::<Vec<_>>().join(",").into();
        Self { rule, text }
    }

    /// Returns the position of the rule.
    pub fn rule(&self) -> usize {
        self.rule
    }

    /// Returns the text that distinguishes the class from others of the rule.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns the values.
    pub fn values(&self) -> impl Iterator<Item = &str> {
        self.text.split(',')
    }

    /// Returns `true` if records with this value belong to the class.
    pub fn contains(&self, value: &str) -> bool {
        Self::may_contain(value) && self.values().any(|own| own == value)
    }

    /// Returns `true` if a class can have this value.
    pub(super) fn may_contain(value: &str) -> bool {
        !value.is_empty() && !value.contains(',')
    }
}

/// Number of a class in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RecordClassId(u32);

/// The classes of one item that clients use, by the values of records: one look-up per record.
#[derive(Debug, Default)]
pub struct RecordClasses {
    by_value: HashMap<Box<str>, Vec<RecordClassId>>,
    by_class: HashMap<Arc<RecordClass>, (RecordClassId, u32)>,
    next_id: u32,
}

impl RecordClasses {
    /// Creates an empty table.
    pub fn new() -> Self {
        Self {
            by_value: HashMap::new(),
            by_class: HashMap::new(),
            next_id: 0,
        }
    }

    /// Notes a client of a class.
    pub fn acquire(&mut self, class: &Arc<RecordClass>) -> RecordClassId {
        if let Some((id, users)) = self.by_class.get_mut(class) {
            *users += 1;
            return *id;
        }
        let id = RecordClassId(self.next_id);
        self.next_id = self.next_id.wrapping_add(1);
        self.by_class.insert(Arc::clone(class), (id, 1));
        for value in class.values() {
            self.by_value.entry(value.into()).or_default().push(id);
        }
        id
    }

    /// Notes that a client of a class is gone. Returns `true` if it was the last one.
    pub fn release(&mut self, class: &RecordClass) -> bool {
        let Some((id, users)) = self.by_class.get_mut(class) else {
            return false;
        };
        *users -= 1;
        if *users > 0 {
            return false;
        }
        let id = *id;
        self.by_class.remove(class);
        for value in class.values() {
            if let Some(ids) = self.by_value.get_mut(value) {
                ids.retain(|one| *one != id);
                if ids.is_empty() {
                    self.by_value.remove(value);
                }
            }
        }
        true
    }

    /// Returns the classes that a record with this value belongs to.
    pub fn of_value(&self, value: &str) -> &[RecordClassId] {
        self.by_value.get(value).map_or(&[], Vec::as_slice)
    }

    /// Returns `true` if no class is in use.
    pub fn is_empty(&self) -> bool {
        self.by_class.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(values: &[&str]) -> Arc<RecordClass> {
        Arc::new(RecordClass::new(0, values.iter().copied()))
    }

    #[test]
    fn classes_are_found_by_value_until_released() {
        let mut classes = RecordClasses::new();
        let (acme, both) = (class(&["acme"]), class(&["acme", "zeta"]));
        let acme_id = classes.acquire(&acme);
        let both_id = classes.acquire(&both);
        assert_eq!(classes.acquire(&class(&["acme"])), acme_id);
        assert_eq!(classes.of_value("acme"), [acme_id, both_id]);
        assert_eq!(classes.of_value("zeta"), [both_id]);
        assert_eq!(classes.of_value("acme,zeta"), []);
        assert!(!classes.release(&acme), "one client is left");
        assert!(classes.release(&acme));
        assert!(!classes.release(&acme), "unknown by then");
        assert_eq!(classes.of_value("acme"), [both_id]);
        assert!(classes.release(&both));
        assert!(classes.is_empty() && classes.of_value("zeta").is_empty());
    }

    #[test]
    fn comma_in_record_belongs_to_no_class() {
        let both = class(&["acme", "zeta"]);
        assert!(both.contains("zeta"));
        assert!(!both.contains("acme,zeta"));
        assert!(!both.contains(""));
    }
}
