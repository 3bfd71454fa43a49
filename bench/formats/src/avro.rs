//! Values that Weir's reader and `apache-avro` find in the same records.

use std::sync::Arc;

use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use apache_avro::{Schema, error::Details};
use weir_formats::avro::{AvroExtractor, AvroSchema};

use crate::avro_model::{Generator, Type};

/// Maximum number of compared values per record.
const LEAVES_MAX: usize = 64;

/// Fuzz target: makes a schema from `data`, and a record of it or of the remaining bytes. Both
/// readers find the same values.
///
/// # Panics
/// They differ.
pub fn compare(data: &[u8]) {
    let mut generator = Generator::new(data);
    let is_valid = generator.source.below(4) > 0;
    let of = generator.record_type(0);
    if is_valid {
        let value = generator.value(&of);
        let mut record = Vec::new();
        generator.encode(&value, &mut record);
        // Weir takes a record without bytes as null.
        if !record.is_empty() {
            check_valid(&of, &record);
        }
    } else if !generator.source.0.is_empty() {
        check_any(&of, generator.source.0);
    }
}

/// A scalar in a value, `None` for null.
type Leaf<'a> = (String, Option<&'a Value>);

fn check_valid(of: &Type, record: &[u8]) {
    let text = of.schema();
    let value = decode(&text, record).expect("apache-avro reads the record");
    let leaves = leaves(&value);
    let schema = Arc::new(AvroSchema::parse(&text, &[]).expect("a schema"));
    for is_whole in [false, true] {
        let mut reader = extractor(&schema, &leaves);
        let read = reader.read(record, is_whole);
        read.unwrap_or_else(|error| panic!("{error}, {text}, {record:?}"));
        compare_leaves(&reader, record, &leaves);
    }
    // One path alone stops as early as possible.
    for leaf in leaves.iter().take(8) {
        let leaf = std::slice::from_ref(leaf);
        let mut reader = extractor(&schema, leaf);
        reader.read(record, false).expect("a valid record");
        compare_leaves(&reader, record, leaf);
    }
}

/// A record that Weir accepts after a full check has the same values for `apache-avro`. That one
/// does not check the sizes of blocks, and it rejects text that is not UTF-8.
fn check_any(of: &Type, record: &[u8]) {
    let text = of.schema();
    let schema = Arc::new(AvroSchema::parse(&text, &[]).expect("a schema"));
    if extractor(&schema, &[]).read(record, true).is_err() {
        return;
    }
    let value = match decode(&text, record) {
        Ok(value) => value,
        Err(error) => match error.details() {
            Details::ConvertToUtf8(_) | Details::ConvertToUtf8Error(_) => return,
            _ => panic!("{error}, {text}, {record:?}"),
        },
    };
    let leaves = leaves(&value);
    let mut reader = extractor(&schema, &leaves);
    reader.read(record, true).expect("a valid record");
    compare_leaves(&reader, record, &leaves);
}

fn decode(schema: &str, mut record: &[u8]) -> Result<Value, apache_avro::Error> {
    let schema = Schema::parse_str(schema).expect("a schema");
    let reader = GenericDatumReader::builder(&schema).build()?;
    reader.read_value(&mut record)
}

fn extractor(schema: &Arc<AvroSchema>, leaves: &[Leaf<'_>]) -> AvroExtractor {
    let paths: Vec<_> = leaves.iter().map(|(path, _)| path.as_str()).collect();
    AvroExtractor::new(schema, &paths).expect("valid paths")
}

fn compare_leaves(reader: &AvroExtractor, record: &[u8], leaves: &[Leaf<'_>]) {
    for (index, (path, value)) in leaves.iter().enumerate() {
        let mut text = String::new();
        let found = reader.append(index, record, &mut text);
        let found = found.unwrap_or_else(|missing| panic!("{path}: {missing}"));
        assert_eq!(found, value.is_some(), "{path}");
        if let Some(value) = value {
            assert!(is_text_of(&text, value), "{path}: {text:?} for {value:?}");
        }
    }
}

/// Returns the paths and values of scalars.
fn leaves(value: &Value) -> Vec<Leaf<'_>> {
    let mut found = Vec::new();
    add_leaves("VALUE".to_owned(), value, &mut found);
    found
}

fn add_leaves<'a>(path: String, value: &'a Value, out: &mut Vec<Leaf<'a>>) {
    if out.len() == LEAVES_MAX {
        return;
    }
    match value {
        Value::Null => out.push((path, None)),
        Value::Union(_, inner) => add_leaves(path, inner, out),
        Value::Record(fields) => {
            for (name, field) in fields {
                add_leaves(format!("{path}.{name}"), field, out);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                add_leaves(format!("{path}[{index}]"), item, out);
            }
        }
        Value::Map(entries) => {
            for (key, value) in entries {
                let is_name = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric());
                // An entry with null counts as missing.
                if is_name && !is_null(value) {
                    add_leaves(format!("{path}['{key}']"), value, out);
                }
            }
        }
        scalar => out.push((path, Some(scalar))),
    }
}

fn is_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Union(_, inner) => is_null(inner),
        _ => false,
    }
}

/// Returns `true` if the connector prints the scalar so.
fn is_text_of(text: &str, value: &Value) -> bool {
    match value {
        Value::Boolean(value) => text == value.to_string(),
        Value::Int(number) => text == number.to_string(),
        Value::Long(number) => text == number.to_string(),
        Value::Float(number) => text.parse() == Ok(*number) || number.is_nan() && text == "NaN",
        Value::Double(number) => text.parse() == Ok(*number) || number.is_nan() && text == "NaN",
        Value::Bytes(bytes) => text.chars().eq(bytes.iter().map(|byte| char::from(*byte))),
        Value::String(own) | Value::Enum(_, own) => text == own,
        Value::Fixed(_, bytes) => {
            let bytes: Vec<_> = bytes.iter().map(|byte| (*byte as i8).to_string()).collect();
            text == format!("[{}]", bytes.join(", "))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn random_records_have_the_same_values() {
        crate::source::random_inputs(20_000, 600, &mut compare);
    }
}
