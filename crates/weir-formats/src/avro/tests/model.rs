//! Simple model of the reader, for property tests: values are trees, and paths and texts follow the
//! rules of the Lightstreamer Kafka Connector.

use std::fmt::Write;

use super::Text;
use super::encoder::{Data, symbol};
use crate::expression::{Expression, PathStep};
use crate::number::{append_double, append_float};

/// Returns the value inside nested unions.
fn inner(data: &Data) -> &Data {
    match data {
        Data::Union(_, value) => inner(value),
        other => other,
    }
}

/// Returns the value at a path.
fn find<'a>(root: &'a Data, expression: &Expression) -> Result<&'a Data, String> {
    let mut at = inner(root);
    for step in expression.steps() {
        at = match (step, at) {
            (PathStep::Member(name), Data::Record(fields)) => {
                let field = fields.iter().find(|(key, _)| **key == **name);
                let (_, field) = field.ok_or_else(|| format!("field [{name}] not found"))?;
                field
            }
            (PathStep::Member(name), Data::Map(entries)) => {
                let entry = entries.iter().find(|(key, _)| **key == **name);
                let value = entry.map(|(_, value)| inner(value));
                let value = value.filter(|value| !matches!(value, Data::Null));
                value.ok_or_else(|| format!("field [{name}] not found"))?
            }
            (PathStep::Member(name), Data::Array(_)) => {
                return Err(format!(
                    "cannot retrieve field [{name}] from an array object"
                ));
            }
            (PathStep::Member(name), Data::Null) => {
                return Err(format!("cannot retrieve field [{name}] from a null object"));
            }
            (PathStep::Member(name), _) => {
                return Err(format!(
                    "cannot retrieve field [{name}] from a scalar object"
                ));
            }
            (PathStep::Index { index, .. }, Data::Array(items)) => items
                .get(*index as usize)
                .ok_or_else(|| format!("field not found at index [{index}]"))?,
            (PathStep::Index { index, .. }, Data::Record(_) | Data::Map(_)) => {
                return Err(format!(
                    "cannot retrieve index [{index}] from a non-array object"
                ));
            }
            (PathStep::Index { index, .. }, Data::Null) => {
                return Err(format!(
                    "cannot retrieve index [{index}] from a null object"
                ));
            }
            (PathStep::Index { container, .. }, _) => {
                return Err(format!("field [{container}] is not indexed"));
            }
        };
        at = inner(at);
    }
    Ok(at)
}

/// Returns the text of the value at a path, or an error. `complex` allows records, maps and arrays.
pub(super) fn select(root: &Data, expression: &Expression, complex: bool) -> Result<Text, String> {
    match find(root, expression)? {
        Data::Null => Ok(None),
        Data::Record(_) | Data::Map(_) | Data::Array(_) if !complex => {
            Err("the expression must evaluate to a non-complex object".to_owned())
        }
        Data::Map(entries) => {
            let entries = entries.iter().map(|(k, v)| format!("{k}: {}", plain(v)));
            Ok(Some(format!(
                "{{{}}}",
                entries.collect::<Vec<_>>().join(", ")
            )))
        }
        other => Ok(Some(plain(other))),
    }
}

/// Returns the names and texts of the members of the value at a path.
pub(super) fn members(root: &Data, expression: &Expression) -> Result<Vec<(String, Text)>, String> {
    let member = |name: String, value: &Data| match inner(value) {
        Data::Null => (name, None),
        other => (name, Some(plain(other))),
    };
    Ok(match find(root, expression)? {
        Data::Record(parts) | Data::Map(parts) => {
            let parts = parts.iter();
            parts.map(|(k, v)| member(k.clone(), v)).collect()
        }
        Data::Array(items) => {
            let items = items.iter().enumerate();
            items
                .map(|(i, v)| member(format!("list[{i}]"), v))
                .collect()
        }
        _ => Vec::new(),
    })
}

/// Returns the text of a value as the Java object prints itself.
fn plain(data: &Data) -> String {
    let mut out = String::new();
    match inner(data) {
        Data::String(text) => out.push_str(text),
        Data::Enum(index) => out.push_str(&symbol(*index)),
        Data::Bytes(bytes) => out.extend(bytes.iter().map(|byte| char::from(*byte))),
        Data::Float(number) => append_float(*number, &mut out),
        Data::Double(number) => append_double(*number, &mut out),
        Data::Array(items) => {
            let items: Vec<_> = items.iter().map(plain).collect();
            let _ = write!(out, "[{}]", items.join(", "));
        }
        Data::Map(entries) => {
            let entries = entries.iter().map(|(k, v)| format!("{k}={}", plain(v)));
            let _ = write!(out, "{{{}}}", entries.collect::<Vec<_>>().join(", "));
        }
        other => return quoted(other),
    }
    out
}

/// Returns the text of a value as it is printed inside a record.
fn quoted(data: &Data) -> String {
    let list = |parts: Vec<String>, (open, close)| format!("{open}{}{close}", parts.join(", "));
    match inner(data) {
        Data::Null => "null".to_owned(),
        Data::Boolean(value) => value.to_string(),
        Data::Int(number) => number.to_string(),
        Data::Long(number) => number.to_string(),
        Data::Float(number) if number.is_finite() => plain(data),
        Data::Double(number) if number.is_finite() => plain(data),
        Data::Fixed(bytes) => {
            let bytes = bytes.iter().map(|byte| (*byte as i8).to_string());
            list(bytes.collect(), ('[', ']'))
        }
        Data::Array(items) => list(items.iter().map(quoted).collect(), ('[', ']')),
        Data::Record(parts) | Data::Map(parts) => {
            let part =
                |(name, value): &(String, Data)| format!("{}: {}", escaped(name), quoted(value));
            list(parts.iter().map(part).collect(), ('{', '}'))
        }
        _ => escaped(&plain(data)),
    }
}

/// Returns a text in quotes, with the escapes of Avro's Java library.
fn escaped(text: &str) -> String {
    let mut out = "\"".to_owned();
    for c in text.chars() {
        let short_escape = match c {
            '"' | '\\' => c,
            '\u{8}' => 'b',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            '\t' => 't',
            _ => '\0',
        };
        let code = u32::from(c);
        let _ = match short_escape {
            '\0' if code < 0x20 || (0x7f..0xa0).contains(&code) => write!(out, "\\u{code:04X}"),
            '\0' if code >> 8 == 0x20 => write!(out, "\\u{code:04X}"),
            '\0' => write!(out, "{c}"),
            short => write!(out, "\\{short}"),
        };
    }
    out + "\""
}
