//! Skips most values by their first bytes, with all positions in registers.
//!
//! Functions return the bytes after a value. They return `None` if the code for all values has to
//! read it, which also reports what is malformed.

use crate::varint::short_varint_len;

/// Values that are skipped without looking up their type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum QuickKind {
    /// Integer or index of a symbol.
    Varint,
    /// Text or byte string.
    Text,
    /// Value of up to 255 bytes, by their number.
    Bytes(u8),
}

/// Splits a text of less than 8 KiB from the bytes after it.
// Always inlined: with a call per value the positions would pass through memory.
#[inline(always)]
pub(super) fn text(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    // The lowest bit of a length is its sign, the highest of a byte says that another one follows.
    match *bytes {
        [low, ref rest @ ..] if low & 0x81 == 0 => rest.split_at_checked(usize::from(low >> 1)),
        [low, high, ref rest @ ..] if low & 0x81 == 0x80 && high < 0x80 => {
            let number = u16::from(low & 0x7f) | u16::from(high) << 7;
            rest.split_at_checked(usize::from(number >> 1))
        }
        _ => None,
    }
}

/// Skips an integer.
#[inline(always)]
pub(super) fn skip_varint(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [byte, rest @ ..] if *byte < 0x80 => Some(rest),
        _ => bytes.get(short_varint_len(Some(bytes))?..),
    }
}

/// Skips a value.
#[inline(always)]
pub(super) fn skip(kind: QuickKind, bytes: &[u8]) -> Option<&[u8]> {
    match kind {
        QuickKind::Varint => skip_varint(bytes),
        QuickKind::Text => text(bytes).map(|(_, rest)| rest),
        QuickKind::Bytes(count) => bytes.get(usize::from(count)..),
    }
}

/// Skips several values of the same kind.
#[inline(always)]
pub(super) fn skip_all(kind: QuickKind, count: u32, bytes: &[u8]) -> Option<&[u8]> {
    (0..count).try_fold(bytes, |rest, _| skip(kind, rest))
}

/// Skips a union of null, the branch at the index `null`, and values of a kind.
#[inline(always)]
pub(super) fn skip_nullable(null: bool, kind: QuickKind, bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [branch @ (0 | 2), rest @ ..] if (*branch == 2) == null => Some(rest),
        [0 | 2, rest @ ..] => skip(kind, rest),
        _ => None,
    }
}

/// Skips an array of less than 64 integers in one block.
#[inline(always)]
pub(super) fn skip_varints_array(bytes: &[u8]) -> Option<&[u8]> {
    match bytes {
        [0, rest @ ..] => Some(rest),
        [count, rest @ ..] if count & 0x81 == 0 => {
            match skip_all(QuickKind::Varint, u32::from(count >> 1), rest)? {
                [0, rest @ ..] => Some(rest),
                _ => None,
            }
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::cursor::Cursor;
    use super::super::schema::AvroSchema;
    use super::super::skip::skip as skip_any;
    use super::*;

    /// Type of a value, and a way to skip it.
    type Case = (&'static str, fn(&[u8]) -> Option<&[u8]>);

    const CASES: [Case; 9] = [
        (r#""long""#, skip_varint),
        (r#""string""#, |bytes| skip(QuickKind::Text, bytes)),
        (r#""double""#, |bytes| skip(QuickKind::Bytes(8), bytes)),
        (r#"["null", "long"]"#, |bytes| {
            skip_nullable(false, QuickKind::Varint, bytes)
        }),
        (r#"["long", "null"]"#, |bytes| {
            skip_nullable(true, QuickKind::Varint, bytes)
        }),
        (r#"["null", "bytes"]"#, |bytes| {
            skip_nullable(false, QuickKind::Text, bytes)
        }),
        (r#"["string", "null"]"#, |bytes| {
            skip_nullable(true, QuickKind::Text, bytes)
        }),
        (r#"["null", "float"]"#, |bytes| {
            skip_nullable(false, QuickKind::Bytes(4), bytes)
        }),
        (r#"{"type": "array", "items": "int"}"#, skip_varints_array),
    ];

    /// Returns the number of bytes that remain after a value, by the code for all values.
    fn left(schema: &str, bytes: &[u8]) -> Option<usize> {
        let schema = AvroSchema::parse(schema, &[]).expect("a schema");
        let mut cursor = Cursor::new(bytes, 0);
        let outcome = skip_any(&schema, &mut cursor, schema.root);
        outcome.is_ok().then(|| bytes.len() - cursor.at)
    }

    proptest! {
        #[test]
        fn quickly_skipped_values_end_where_all_code_ends(
            head in vec(prop_oneof![0_u8..8, any::<u8>()], 0..4),
            tail in vec(any::<u8>(), 0..300),
        ) {
            let bytes = [head, tail].concat();
            for (schema, quickly) in CASES {
                if let Some(rest) = quickly(&bytes) {
                    prop_assert_eq!(Some(rest.len()), left(schema, &bytes), "{}", schema);
                }
            }
        }
    }

    #[test]
    fn usual_values_are_skipped_quickly() {
        let text = |length: u16| {
            let mut bytes = vec![(length << 1) as u8 | 0x80, (length >> 6) as u8];
            bytes.resize(2 + usize::from(length), b'x');
            bytes
        };
        let rows: &[(usize, Vec<u8>)] = &[
            (0, vec![7]),
            (0, vec![0xff, 0xff, 0x7f, 0, 0, 0, 0, 0]),
            (1, vec![0]),
            (1, vec![4, b'a', b'b']),
            (1, text(120)),
            (1, text(8191)),
            (2, vec![0; 8]),
            (3, vec![0]),
            (3, vec![2, 9]),
            (4, vec![2]),
            (4, vec![0, 9]),
            (5, vec![2, 2, 0xff]),
            (6, vec![0, 2, b'a']),
            (7, vec![2, 0, 0, 0, 0]),
            (8, vec![0]),
            (8, vec![6, 2, 4, 6, 0]),
        ];
        for (case, bytes) in rows {
            let (schema, quickly) = CASES[*case];
            let rest = quickly(bytes).map(<[u8]>::len);
            assert_eq!(rest, left(schema, bytes), "{schema} {bytes:?}");
            assert!(rest.is_some(), "{schema} {bytes:?}");
            let end = quickly(&bytes[..bytes.len() - 1]);
            assert_eq!(end, None, "{schema} {bytes:?}");
        }
    }

    #[test]
    fn unusual_values_are_left_to_other_code() {
        let rows: &[(usize, &[u8])] = &[
            // A varint of ten bytes, a negative length, one of three bytes.
            (
                0,
                &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1],
            ),
            (1, &[1, b'a']),
            (1, &[0x81, 0, b'a']),
            (1, &[0x82, 0x80, 0, b'a']),
            // A branch that does not exist, and one of two bytes.
            (3, &[4, 2]),
            (3, &[1, 2]),
            (3, &[0x82, 0, 2]),
            // A block with its size, and a second block.
            (8, &[1, 2, 9, 0]),
            (8, &[2, 9, 2, 9, 0]),
        ];
        for (case, bytes) in rows {
            let (schema, quickly) = CASES[*case];
            assert_eq!(quickly(bytes), None, "{schema} {bytes:?}");
        }
    }
}
