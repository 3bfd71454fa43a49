//! The wire format: tags, varints, lengths, and skipping of fields.
//!
//! All positions are checked against the bytes present; nothing is allocated.

use super::error::{ProtobufFault, WireError};
use crate::varint::{short_varint, short_varint_len};

/// Maximum nesting of messages and groups below the outermost one, as in the Java library.
pub(super) const DEPTH_MAX: usize = 100;

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;
pub(super) const GROUP_START: u8 = 3;
pub(super) const GROUP_END: u8 = 4;
pub(super) const FIXED32: u8 = 5;

/// Number and wire type of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) number: u32,
    pub(super) wire: u8,
}

/// Positions of the first byte of a value and of the first byte after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) at: usize,
    pub(super) end: usize,
}

impl Extent {
    /// Returns both positions in one number; messages have less than 4 GiB.
    #[inline]
    pub(super) fn pack(self) -> u64 {
        (self.at as u64) << 32 | self.end as u64
    }

    #[inline]
    pub(super) fn unpack(packed: u64) -> Self {
        Self {
            at: (packed >> 32) as usize,
            end: (packed & u64::from(u32::MAX)) as usize,
        }
    }
}

/// Reads a tag. Returns it and the position after it.
#[inline]
pub(super) fn tag(bytes: &[u8], at: usize) -> Result<(Tag, usize), WireError> {
    let (raw, next) = varint(bytes, at)?;
    let number = raw >> 3;
    // The lower limit excludes 0, the upper one is that of field numbers.
    if number == 0 || number >= 1 << 29 {
        return Err(ProtobufFault::Number.at(at));
    }
    let tag = Tag {
        number: number as u32,
        wire: (raw & 7) as u8,
    };
    Ok((tag, next))
}

/// Reads a varint. Returns it and the position after it.
#[inline]
pub(super) fn varint(bytes: &[u8], at: usize) -> Result<(u64, usize), WireError> {
    match bytes.get(at..) {
        Some(&[byte, ..]) if byte < 0x80 => Ok((byte.into(), at + 1)),
        // Tags of most other fields, and lengths of most texts.
        Some(&[low, high, ..]) if high < 0x80 => {
            Ok((u64::from(low & 0x7f) | u64::from(high) << 7, at + 2))
        }
        _ => long_varint(bytes, at),
    }
}

fn long_varint(bytes: &[u8], at: usize) -> Result<(u64, usize), WireError> {
    match short_varint(bytes.get(at..)) {
        Some((number, length)) => Ok((number, at + length)),
        None => longest_varint(bytes, at),
    }
}

fn longest_varint(bytes: &[u8], at: usize) -> Result<(u64, usize), WireError> {
    const BYTES_MAX: usize = 10;
    let mut value = 0;
    for i in 0..BYTES_MAX {
        let Some(&byte) = bytes.get(at + i) else {
            return Err(ProtobufFault::End.at(bytes.len()));
        };
        // The last byte holds one bit.
        if i == BYTES_MAX - 1 && byte > 1 {
            break;
        }
        value |= u64::from(byte & 0x7f) << (7 * i);
        if byte < 0x80 {
            return Ok((value, at + i + 1));
        }
    }
    Err(ProtobufFault::Varint.at(at))
}

/// Returns the position after a varint.
#[inline]
pub(super) fn skip_varint(bytes: &[u8], at: usize) -> Result<usize, WireError> {
    match bytes.get(at) {
        Some(&byte) if byte < 0x80 => Ok(at + 1),
        _ => skip_long_varint(bytes, at),
    }
}

#[inline]
fn skip_long_varint(bytes: &[u8], at: usize) -> Result<usize, WireError> {
    match short_varint_len(bytes.get(at..)) {
        Some(length) => Ok(at + length),
        None => longest_varint(bytes, at).map(|(_, end)| end),
    }
}

/// Reads a length. Returns the extent of the bytes after it, which are present.
#[inline]
pub(super) fn length(bytes: &[u8], at: usize) -> Result<Extent, WireError> {
    let (length, start) = varint(bytes, at)?;
    if length > (bytes.len() - start) as u64 {
        return Err(ProtobufFault::Length.at(at));
    }
    Ok(Extent {
        at: start,
        end: start + length as usize,
    })
}

/// Returns the position after `count` bytes, which are present.
#[inline]
fn fixed(bytes: &[u8], at: usize, count: usize) -> Result<usize, WireError> {
    match bytes.len() - at >= count {
        true => Ok(at + count),
        false => Err(ProtobufFault::End.at(bytes.len())),
    }
}

/// Reads a number of wire type `wire`. Returns its bits and the position after it.
#[inline]
pub(super) fn number(bytes: &[u8], at: usize, wire: u8) -> Result<(u64, usize), WireError> {
    match wire {
        VARINT => varint(bytes, at),
        FIXED32 => {
            let end = fixed(bytes, at, 4)?;
            let chunk = bytes[at..end].first_chunk().copied().unwrap_or_default();
            Ok((u32::from_le_bytes(chunk).into(), end))
        }
        FIXED64 => {
            let end = fixed(bytes, at, 8)?;
            let chunk = bytes[at..end].first_chunk().copied().unwrap_or_default();
            Ok((u64::from_le_bytes(chunk), end))
        }
        _ => Err(ProtobufFault::WireType.at(at)),
    }
}

/// Returns the position after a field; `at` is the position after its tag and `depth` the number of
/// messages and groups around it.
#[inline]
pub(super) fn skip(bytes: &[u8], at: usize, tag: Tag, depth: usize) -> Result<usize, WireError> {
    match tag.wire {
        VARINT => skip_varint(bytes, at),
        BYTES => length(bytes, at).map(|extent| extent.end),
        FIXED32 => fixed(bytes, at, 4),
        FIXED64 => fixed(bytes, at, 8),
        GROUP_START => group(bytes, at, tag.number, depth).map(|(_, end)| end),
        GROUP_END => Err(ProtobufFault::GroupEnd.at(at)),
        _ => Err(ProtobufFault::WireType.at(at)),
    }
}

/// Skips fields without a plan as long as they have the usual form: a tag of one or two bytes, then
/// a number or a length of few bytes. Returns the bytes from the first other field on, which may be
/// malformed.
///
/// `wanted` has a bit for each of the first 64 field numbers that has a plan, and `wants_others` is
/// `true` if later ones may have one.
// Not inlined: it needs few registers and a caller would leave it none.
#[inline(never)]
pub(super) fn skip_unplanned_fields(bytes: &[u8], wanted: u64, wants_others: bool) -> &[u8] {
    let mut rest = bytes;
    while let Some(start) = rest.first_chunk() {
        match rest.get(usual_field(start, wanted, wants_others)..) {
            Some(next) => rest = next,
            None => return rest,
        }
    }
    while let Some(start) = last_bytes(bytes, rest.len()) {
        match rest.get(usual_field(&start, wanted, wants_others)..) {
            Some(next) => rest = next,
            None => break,
        }
    }
    rest
}

/// Returns the last `count` bytes of a message, fewer than 8, with zeros after them. A field that
/// continues in the zeros is longer than the message.
fn last_bytes(bytes: &[u8], count: usize) -> Option<[u8; 8]> {
    let word = u64::from_le_bytes(*bytes.last_chunk()?);
    let word = word.checked_shr(64 - 8 * count as u32)?;
    Some(word.to_le_bytes())
}

/// A length that exceeds every message.
const LONG: usize = usize::MAX / 2;

/// Returns the length of the field that starts with the bytes of `start`; [`LONG`] for a wanted
/// field and for an unusual one.
#[inline(always)]
fn usual_field(start: &[u8; 8], wanted: u64, wants_others: bool) -> usize {
    // Read as a byte, the length of a short text is known earlier than computed from `word`, and
    // the next field waits for nothing else.
    let [first, second, third, ..] = *start;
    let word = u64::from_le_bytes(*start);
    let number = word >> 3 & 15;
    if first & 0x80 == 0 {
        return match wanted >> number & 1 {
            0 if word & 0x8007 == u64::from(BYTES) => 2 + usize::from(second),
            0 => 1 + usual_value(first & 7, word >> 8),
            _ => LONG,
        };
    }
    let number = number | word >> 4 & 0x7f0;
    let is_wanted = match number {
        0..64 => wanted >> number & 1 != 0,
        _ => wants_others,
    };
    if is_wanted || word & 0x8000 != 0 {
        LONG
    } else if word & 0x80_0007 == u64::from(BYTES) {
        3 + usize::from(third)
    } else {
        2 + usual_value(first & 7, word >> 16)
    }
}

/// Returns the length of a value that starts with the bytes of `word`, of which the last two may be
/// missing. The comparisons let a processor predict where the next field is; it would have to wait
/// for a computed length.
#[inline(always)]
fn usual_value(wire: u8, word: u64) -> usize {
    match wire {
        VARINT if word & 0x80 == 0 => 1,
        VARINT if word & 0x8000 == 0 => 2,
        VARINT if word & 0x80_0000 == 0 => 3,
        VARINT if word & 0x8000_0000 == 0 => 4,
        VARINT if word & 0x80_0000_0000 == 0 => 5,
        VARINT if word & 0x8000_0000_0000 == 0 => 6,
        BYTES if word & 0x80 == 0 => 1 + (word & 0x7f) as usize,
        BYTES if word & 0x8000 == 0 => 2 + (word & 0x7f | word >> 1 & 0x3f80) as usize,
        FIXED32 => 4,
        FIXED64 => 8,
        _ => LONG,
    }
}

/// Returns the extent of the fields of a group, and the position after its end; `at` is the
/// position after the start tag.
pub(super) fn group(
    bytes: &[u8],
    at: usize,
    number: u32,
    depth: usize,
) -> Result<(Extent, usize), WireError> {
    if depth >= DEPTH_MAX {
        return Err(ProtobufFault::Depth.at(at));
    }
    let mut next = at;
    loop {
        let (inner, value) = tag(bytes, next)?;
        if inner.wire == GROUP_END {
            if inner.number != number {
                return Err(ProtobufFault::GroupEnd.at(next));
            }
            return Ok((Extent { at, end: next }, value));
        }
        next = skip(bytes, value, inner, depth + 1)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(mut value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    }

    #[test]
    fn varints_of_all_lengths_are_read_and_skipped() {
        for bits in 0..64 {
            for value in [1 << bits, (1_u64 << bits) - 1, u64::MAX >> bits] {
                let mut bytes = encode(value);
                let end = bytes.len();
                assert_eq!(varint(&bytes, 0), Ok((value, end)));
                assert_eq!(skip_varint(&bytes, 0), Ok(end));
                bytes.extend([0xff; 9]);
                assert_eq!(skip_varint(&bytes, 0), Ok(end), "{value}");
                for cut in 0..end {
                    assert!(varint(&bytes[..cut], 0).is_err());
                    assert!(skip_varint(&bytes[..cut], 0).is_err());
                }
            }
        }
    }

    #[test]
    fn varint_of_more_than_64_bits_is_error() {
        let mut bytes = [0xff; 10];
        bytes[9] = 2;
        assert_eq!(varint(&bytes, 0), Err(ProtobufFault::Varint.at(0)));
        assert_eq!(skip_varint(&bytes, 0), Err(ProtobufFault::Varint.at(0)));
        bytes[9] = 1;
        assert_eq!(varint(&bytes, 0), Ok((u64::MAX, 10)));
    }

    #[test]
    fn groups_are_skipped_with_their_fields() {
        // Field 1: group { field 2: varint, field 1: group {}, field 3: bytes "ab" }, field 4.
        let bytes = [
            0x0b, 0x10, 0x05, 0x0b, 0x0c, 0x1a, 2, b'a', b'b', 0x0c, 0x20,
        ];
        let (first, at) = tag(&bytes, 0).expect("a tag");
        assert_eq!((first.number, first.wire), (1, GROUP_START));
        assert_eq!(skip(&bytes, at, first, 0), Ok(10));
        assert_eq!(
            skip(&bytes, at, first, DEPTH_MAX),
            Err(ProtobufFault::Depth.at(1))
        );
        assert!(skip(&bytes[..9], at, first, 0).is_err());
        assert!(skip(&[0x0b, 0x14], 1, first, 0).is_err());
        let deep = vec![0x0b; 200];
        assert!(matches!(
            skip(&deep, 1, first, 0),
            Err(WireError {
                fault: ProtobufFault::Depth,
                ..
            })
        ));
    }

    #[test]
    fn usual_fields_are_skipped_like_others() {
        // Every tag of two fields, with values of all lengths, cut everywhere.
        for number in [1, 15, 16, 300, 2047, 2048] {
            for (wire, value) in [
                (VARINT, encode(5)),
                (VARINT, encode(1 << 40)),
                (VARINT, encode(u64::MAX)),
                (BYTES, [encode(3), vec![9; 3]].concat()),
                (BYTES, [encode(200), vec![9; 200]].concat()),
                (BYTES, [encode(20_000), vec![9; 20_000]].concat()),
                (FIXED32, vec![1; 4]),
                (FIXED64, vec![1; 8]),
                (GROUP_START, encode(number << 3 | u64::from(GROUP_END))),
            ] {
                let field = [encode(number << 3 | u64::from(wire)), value].concat();
                let bytes = [&field[..], &field, &[8; 20]].concat();
                let ends = [0, field.len(), 2 * field.len()];
                let skip = |bytes: &[u8], wanted| {
                    bytes.len() - skip_unplanned_fields(bytes, wanted, false).len()
                };
                let end = skip(&bytes, 0b11);
                assert!(number == 1 || ends.contains(&end), "{number} {wire}: {end}");
                assert!(number > 1 || end == 0);
                for cut in 0..bytes.len().min(40) {
                    let end = skip(&bytes[..cut], 1);
                    assert!(end <= cut && ends.contains(&end) || end > ends[2]);
                }
            }
        }
    }

    #[test]
    fn fields_in_last_bytes_are_skipped() {
        // A text, a number, and a number with a tag of two bytes.
        let bytes = [&[0x12, 8][..], &[9; 8], &[0x18, 5], &[0x80, 1, 0xff, 1]].concat();
        let rest = |cut: usize| skip_unplanned_fields(&bytes[..cut], 1, false).len();
        for end in [10, 12, 16] {
            assert_eq!(rest(end), 0, "{end}");
        }
        for (cut, left) in [(11, 1), (13, 1), (14, 2), (15, 3)] {
            assert_eq!(rest(cut), left, "{cut}");
        }
    }

    #[test]
    fn lengths_beyond_end_are_errors() {
        assert_eq!(length(&[2, 0, 0], 0), Ok(Extent { at: 1, end: 3 }));
        assert_eq!(length(&[2, 0], 0), Err(ProtobufFault::Length.at(0)));
        let huge = encode(u64::MAX);
        assert_eq!(length(&huge, 0), Err(ProtobufFault::Length.at(0)));
    }
}
