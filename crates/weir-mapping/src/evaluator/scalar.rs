//! Scalar payloads: serialized numbers, booleans, UUIDs and bytes.

use crate::error::PayloadProblem;

/// Returns a payload that must have `N` bytes.
pub(super) fn fixed<const N: usize>(payload: &[u8]) -> Result<[u8; N], PayloadProblem> {
    let length = PayloadProblem::Length(payload.len(), N);
    payload.try_into().map_err(|_| length)
}

pub(super) fn append_boolean(payload: &[u8], out: &mut String) -> Result<(), PayloadProblem> {
    match fixed(payload)? {
        [0] => out.push_str("false"),
        [1] => out.push_str("true"),
        [byte] => return Err(PayloadProblem::NotBoolean(byte)),
    }
    Ok(())
}

/// Appends the canonical text of a UUID. As in Java, groups may be short.
pub(super) fn append_uuid(payload: &[u8], out: &mut String) -> Result<(), PayloadProblem> {
    /// Number of hexadecimal digits per group; longer groups lose their first digits.
    const DIGITS: [u32; 5] = [8, 4, 4, 4, 12];
    let text = std::str::from_utf8(payload).map_err(|_| PayloadProblem::NotUuid)?;
    if text.len() > 36 || text.split('-').count() != DIGITS.len() {
        return Err(PayloadProblem::NotUuid);
    }
    let mut groups = [0_u64; DIGITS.len()];
    for (group, digits) in groups.iter_mut().zip(text.split('-')) {
        let number = i64::from_str_radix(digits, 16).map_err(|_| PayloadProblem::NotUuid)?;
        *group = number.unsigned_abs();
    }
    for (i, (group, digits)) in groups.into_iter().zip(DIGITS).enumerate() {
        if i > 0 {
            out.push('-');
        }
        for position in (0..digits).rev() {
            let digit = (group >> (4 * position) & 15) as u32;
            out.extend(char::from_digit(digit, 16));
        }
    }
    Ok(())
}

/// Appends printable ASCII unchanged and every other byte as `\xHH`.
pub(super) fn append_bytes(payload: &[u8], out: &mut String) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for &byte in payload {
        match byte {
            b'\\' | 0..=0x1f | 0x7f.. => {
                out.push_str("\\x");
                out.push(char::from(HEX[usize::from(byte >> 4)]));
                out.push(char::from(HEX[usize::from(byte & 15)]));
            }
            _ => out.push(char::from(byte)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Evaluator;

    fn text(evaluator: Evaluator, payload: &[u8]) -> Result<String, String> {
        let mut out = String::new();
        let outcome = evaluator.append(payload, &mut out);
        outcome.map(|()| out).map_err(|problem| problem.to_string())
    }

    #[test]
    fn scalars_are_converted_to_text() {
        let uuid = b"6BA7B810-9dad-11d1-80b4-00c04fd430c8";
        let rows: &[(Evaluator, &[u8], &str)] = &[
            (Evaluator::Integer, &[0xff, 0xff, 0xff, 0xfe], "-2"),
            (Evaluator::Short, &[0x80, 0], "-32768"),
            (Evaluator::Long, &[0, 0, 0, 1, 0, 0, 0, 0], "4294967296"),
            (Evaluator::Float, &1.1_f32.to_be_bytes(), "1.1"),
            (Evaluator::Double, &1e7_f64.to_be_bytes(), "1.0E7"),
            (Evaluator::Boolean, &[1], "true"),
            (Evaluator::Boolean, &[0], "false"),
            (
                Evaluator::Uuid,
                uuid,
                "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
            ),
            (
                Evaluator::Uuid,
                b"1-2-3-4-5",
                "00000001-0002-0003-0004-000000000005",
            ),
            (
                Evaluator::Uuid,
                b"123456789-0-0-12345-0",
                "23456789-0000-0000-2345-000000000000",
            ),
            (
                Evaluator::Bytes,
                b"a ~\\\x00\x7f\xc3",
                "a ~\\x5C\\x00\\x7F\\xC3",
            ),
            (Evaluator::ByteArray, b"a\xff", "a\\xFF"),
            (Evaluator::ByteBuffer, b"", ""),
        ];
        for (evaluator, payload, expected) in rows {
            assert_eq!(text(*evaluator, payload).as_deref(), Ok(*expected));
        }
    }

    #[test]
    fn invalid_payloads_are_rejected() {
        let rows: &[(Evaluator, &[u8], &str)] = &[
            (Evaluator::Integer, &[1, 2, 3], "3 bytes instead of 4"),
            (Evaluator::Short, &[], "0 bytes instead of 2"),
            (Evaluator::Long, &[0; 9], "9 bytes instead of 8"),
            (Evaluator::Double, &[0; 4], "4 bytes instead of 8"),
            (Evaluator::Float, &[0; 8], "8 bytes instead of 4"),
            (Evaluator::Boolean, &[0, 0], "2 bytes instead of 1"),
            (Evaluator::Boolean, &[2], "byte 2 is neither 0 nor 1"),
            (Evaluator::Uuid, b"", "not the text of a UUID"),
            (Evaluator::Uuid, b"1-2-3-4", "not the text of a UUID"),
            (Evaluator::Uuid, b"1-2-3-4-5-6", "not the text of a UUID"),
            (Evaluator::Uuid, b"1--3-4-5", "not the text of a UUID"),
            (Evaluator::Uuid, b"g-2-3-4-5", "not the text of a UUID"),
            (Evaluator::Uuid, b"\xff-2-3-4-5", "not the text of a UUID"),
        ];
        for (evaluator, payload, expected) in rows {
            assert_eq!(
                text(*evaluator, payload).unwrap_err(),
                *expected,
                "{payload:?}"
            );
        }
    }
}
