//! Texts of single values.

use super::schema::types::{EnumType, FieldKind};
use crate::number::{append_double, append_float, append_integer};

/// Appends a number, boolean or enum as the connector prints a field; `raw` are the bits on the
/// wire. Values of other kinds have no such text.
pub(super) fn append_number(kind: FieldKind, raw: u64, enums: &[EnumType], out: &mut String) {
    match kind {
        FieldKind::Double => append_double(f64::from_bits(raw), out),
        FieldKind::Float => append_float(f32::from_bits(raw as u32), out),
        FieldKind::Uint64 | FieldKind::Fixed64 => append_unsigned(raw, out),
        FieldKind::Uint32 | FieldKind::Fixed32 => append_unsigned(raw & u64::from(u32::MAX), out),
        FieldKind::Bool => out.push_str(if raw == 0 { "false" } else { "true" }),
        FieldKind::Enum(id) => append_enum(&enums[id as usize], raw as i32, out),
        kind => append_integer(signed(kind, raw), out),
    }
}

fn append_unsigned(number: u64, out: &mut String) {
    out.push_str(itoa::Buffer::new().format(number));
}

/// Appends the name of an enum value; unknown numbers as the Java library names them.
fn append_enum(values: &EnumType, number: i32, out: &mut String) {
    match values.name(number) {
        Some(name) => out.push_str(name),
        None => {
            out.push_str("UNKNOWN_ENUM_VALUE_");
            out.push_str(&values.short_name);
            out.push('_');
            append_integer(number.into(), out);
        }
    }
}

/// Returns the value of an integer or boolean as Java sees it, where all integers have a sign.
pub(super) fn signed(kind: FieldKind, raw: u64) -> i64 {
    match kind {
        FieldKind::Sint32 => {
            let raw = raw as u32;
            i64::from((raw >> 1) as i32 ^ -((raw & 1) as i32))
        }
        FieldKind::Sint64 => (raw >> 1) as i64 ^ -((raw & 1) as i64),
        FieldKind::Int32
        | FieldKind::Uint32
        | FieldKind::Fixed32
        | FieldKind::Sfixed32
        | FieldKind::Enum(_) => i64::from(raw as i32),
        FieldKind::Bool => i64::from(raw != 0),
        _ => raw as i64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_printed_by_kind() {
        let rows = [
            (FieldKind::Int32, u64::MAX, "-1"),
            (FieldKind::Uint32, u64::MAX, "4294967295"),
            (FieldKind::Uint64, u64::MAX, "18446744073709551615"),
            (FieldKind::Int64, u64::MAX, "-1"),
            (FieldKind::Sint32, 0xffff_ffff, "-2147483648"),
            (FieldKind::Sint32, 3, "-2"),
            (FieldKind::Sint64, u64::MAX, "-9223372036854775808"),
            (FieldKind::Sint64, u64::MAX - 1, "9223372036854775807"),
            (FieldKind::Bool, 1 << 40, "true"),
            (FieldKind::Float, 0x3f80_0000, "1.0"),
            (FieldKind::Double, 0x8000_0000_0000_0000, "-0.0"),
        ];
        for (kind, raw, expected) in rows {
            let mut out = String::new();
            append_number(kind, raw, &[], &mut out);
            assert_eq!(out, expected, "{kind:?}");
        }
    }
}
