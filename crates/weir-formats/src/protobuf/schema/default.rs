//! Texts of the values of fields that are not set.

use super::super::scalar::append_number;
use super::raw::RawDefault;
use super::tokens::Parsed;
use super::types::{EnumType, FieldKind};
use crate::number::{append_double, append_float};
use crate::utf8::append_text;

/// Returns the text of a field's default, declared or that of its type; empty for messages.
pub(super) fn default_text(
    kind: FieldKind,
    declared: Option<&RawDefault>,
    enums: &[EnumType],
) -> Parsed<Box<str>> {
    let mut out = String::new();
    match (kind, declared) {
        (FieldKind::Message(_) | FieldKind::Group(_) | FieldKind::Map(_), _) => {}
        (FieldKind::String | FieldKind::Bytes, None) => {}
        (FieldKind::String | FieldKind::Bytes, Some(RawDefault::Bytes(bytes))) => {
            append_text(bytes, &mut out);
        }
        (FieldKind::Enum(id), None) => out.push_str(&enums[id as usize].first),
        (FieldKind::Enum(id), Some(RawDefault::Word(name))) => {
            let EnumType {
                values, aliases, ..
            } = &enums[id as usize];
            let mut names = values.iter().map(|(_, name)| name).chain(aliases);
            if !names.any(|known| **known == **name) {
                return Err(format!("default {name} is not a value of its type").into());
            }
            out.push_str(name);
        }
        (_, None) => append_number(kind, 0, enums, &mut out),
        (_, Some(RawDefault::Word(word))) => {
            append_word(kind, word, enums, &mut out)
                .ok_or_else(|| format!("default {word} is not a value of its type"))?;
        }
        (_, Some(RawDefault::Bytes(_))) => {
            return Err("default in quotes for a field that is neither string nor bytes".into());
        }
    }
    Ok(out.into())
}

/// Appends a number or boolean as the connector prints it.
fn append_word(kind: FieldKind, word: &str, enums: &[EnumType], out: &mut String) -> Option<()> {
    match kind {
        FieldKind::Bool => out.push_str(match word {
            "true" | "false" => word,
            _ => return None,
        }),
        FieldKind::Double => append_double(float(word)?, out),
        // The nearest double first, as in the Java library, would round twice.
        FieldKind::Float => match float_word(word) {
            Some(number) => append_float(number as f32, out),
            None => append_float(word.parse().ok()?, out),
        },
        _ => {
            let number = integer(word)?;
            let range = match kind {
                FieldKind::Int32 | FieldKind::Sint32 | FieldKind::Sfixed32 => {
                    i32::MIN.into()..=i32::MAX.into()
                }
                FieldKind::Uint32 | FieldKind::Fixed32 => 0..=u32::MAX.into(),
                FieldKind::Int64 | FieldKind::Sint64 | FieldKind::Sfixed64 => {
                    i64::MIN.into()..=i64::MAX.into()
                }
                _ => 0..=i128::from(u64::MAX),
            };
            if !range.contains(&number) {
                return None;
            }
            // The bits of the plain encoding; zigzag applies to the wire only.
            let plain = match kind {
                FieldKind::Sint32 => FieldKind::Int32,
                FieldKind::Sint64 => FieldKind::Int64,
                kind => kind,
            };
            append_number(plain, number as u64, enums, out);
        }
    }
    Some(())
}

fn float(word: &str) -> Option<f64> {
    match float_word(word) {
        Some(number) => Some(number),
        None => word.parse().ok(),
    }
}

/// Returns the value of a word, or of an integer that is not decimal.
fn float_word(word: &str) -> Option<f64> {
    let (sign, magnitude) = match word.strip_prefix('-') {
        Some(magnitude) => (-1.0, magnitude),
        None => (1.0, word),
    };
    match magnitude {
        "inf" | "infinity" => Some(sign * f64::INFINITY),
        "nan" => Some(f64::NAN),
        _ if magnitude.starts_with("0x") || magnitude.starts_with("0X") => {
            integer(magnitude).map(|number| sign * number as f64)
        }
        _ => None,
    }
}

/// Returns the value of a decimal, hexadecimal or octal integer.
pub(super) fn integer(word: &str) -> Option<i128> {
    let (is_negative, digits) = match word.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, word),
    };
    let hex = digits
        .strip_prefix("0x")
        .or_else(|| digits.strip_prefix("0X"));
    let (digits, radix) = match hex {
        Some(hex) => (hex, 16),
        None if digits.len() > 1 && digits.starts_with('0') => (&digits[1..], 8),
        None => (digits, 10),
    };
    let number = u64::from_str_radix(digits, radix).ok()?;
    let number = i128::from(number);
    Some(if is_negative { -number } else { number })
}
