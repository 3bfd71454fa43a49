//! Dimensions and values of the model.

use weir_mapping::FrozenValues;

/// Fields of the mapping. Each is a record header, which may be absent.
pub(super) const FIELDS: [&str; 5] = ["a", "b", "c", "key", "command"];
pub(super) const SCHEMAS: [&[&str]; 5] = [
    &["a"],
    &["a", "b"],
    &["b", "c"],
    &["a", "b", "c"],
    &["x", "c"],
];
/// Schemas of mode COMMAND.
pub(super) const ROW_SCHEMAS: [&[&str]; 2] =
    [&["key", "command", "a"], &["key", "command", "x", "b", "c"]];
pub(super) const CLIENTS: usize = 3;
pub(super) const ITEMS: usize = 2;
pub(super) const WORKERS: usize = 2;
/// Number of updates in the snapshot of mode DISTINCT.
pub(super) const HISTORY: usize = 3;

/// A value per field; `None` is an absent header.
pub(super) type ModelRow = [Option<String>; FIELDS.len()];

/// Values of an item: per field, unknown or a value.
pub(super) type KnownValues = [Option<Option<String>>; FIELDS.len()];

/// Converts values to those of the model.
pub(super) fn as_row(values: &FrozenValues) -> ModelRow {
    std::array::from_fn(|index| values.get(index).map(str::to_owned))
}
