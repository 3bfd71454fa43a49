//! Rows of mode COMMAND in the model and its clients.

use super::values::ModelRow;
use super::want::{SubscriptionSpec, Values};

/// Positions of the fields in a record.
const KEY: usize = 3;
const COMMAND: usize = 4;

/// Rows by key, in the order of their ADD.
#[derive(Debug, Clone, Default)]
pub(super) struct Rows(Vec<(String, ModelRow)>);

/// Effect of a record on the rows.
#[derive(Debug, Clone)]
pub(super) struct ModelRowChange {
    /// `ADD`, `UPDATE` or `DELETE`, as clients must receive it.
    pub(super) command: &'static str,
    /// The row after the change.
    pub(super) row: ModelRow,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &(String, ModelRow)> {
        self.0.iter()
    }

    /// Returns the row with the key of a record.
    pub(super) fn get(&self, record: &ModelRow) -> Option<&ModelRow> {
        let key = record[KEY].as_ref()?;
        let (_, row) = self.0.iter().find(|(known, _)| known == key)?;
        Some(row)
    }

    /// Applies a record.
    pub(super) fn apply(&mut self, record: &ModelRow) -> Option<ModelRowChange> {
        let key = record[KEY].clone().filter(|key| !key.trim().is_empty())?;
        let command = record[COMMAND].as_deref()?;
        let known = self.0.iter().position(|(known, _)| *known == key);
        match (command, known) {
            ("DELETE", Some(index)) => {
                let (_, row) = self.0.remove(index);
                let command = "DELETE";
                Some(ModelRowChange { command, row })
            }
            ("ADD" | "UPDATE", Some(index)) => {
                let row = &mut self.0[index].1;
                for (old, new) in row.iter_mut().zip(record) {
                    if new.is_some() {
                        old.clone_from(new);
                    }
                }
                let row = row.clone();
                let command = "UPDATE";
                Some(ModelRowChange { command, row })
            }
            ("ADD" | "UPDATE", None) => {
                self.0.push((key, record.clone()));
                let (command, row) = ("ADD", record.clone());
                Some(ModelRowChange { command, row })
            }
            _ => None,
        }
    }
}

/// Returns a number for the key of a row.
pub(super) fn number_of(record: &ModelRow) -> usize {
    let key = record[KEY].as_ref().and_then(|key| key.bytes().last());
    key.map_or(0, usize::from)
}

/// Returns a row as a client receives it.
pub(super) fn seen(want: &SubscriptionSpec, row: &ModelRow, command: &str) -> Values {
    let mut row = row.clone();
    row[COMMAND] = Some(command.to_owned());
    want.project(&row)
}

/// Rows that a client has received.
#[derive(Debug, Clone, Default)]
pub(super) struct ObservedRows(pub(super) Vec<(String, Values)>);

impl ObservedRows {
    /// Applies an update with `key` and `command` as its first two fields.
    pub(super) fn apply(&mut self, values: &Values) {
        let key = values[0].clone().expect("update has a key");
        let known = self.0.iter().position(|(known, _)| *known == key);
        match (values[1].as_deref(), known) {
            (Some("DELETE"), Some(index)) => drop(self.0.remove(index)),
            (Some("DELETE"), None) => {}
            (Some("ADD" | "UPDATE"), Some(index)) => self.0[index].1.clone_from(values),
            (Some("ADD" | "UPDATE"), None) => self.0.push((key, values.clone())),
            (other, _) => panic!("invalid command: {other:?}"),
        }
    }

    /// Returns the rows without their commands, sorted by key.
    pub(super) fn sorted(&self) -> Vec<(String, Values)> {
        let mut rows = self.0.clone();
        rows.iter_mut().for_each(|(_, values)| values[1] = None);
        rows.sort();
        rows
    }
}
