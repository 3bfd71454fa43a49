//! Sixty-four bytes at a time: where JSON's punctuation is, and which of it is inside strings.

use wide::{CmpEq, i8x16};

/// Bytes looked at together; one bit of a mask each, the first byte lowest.
pub(super) const BLOCK_BYTES: usize = 64;

const LANE_BYTES: usize = 16;

/// Where the characters that matter are, inside strings and outside.
struct Masks {
    quotes: u64,
    backslashes: u64,
    commas: u64,
    opens: u64,
    closes: u64,
}

impl Masks {
    #[inline]
    fn of(block: &[u8; BLOCK_BYTES]) -> Self {
        let mut masks = Self {
            quotes: 0,
            backslashes: 0,
            commas: 0,
            opens: 0,
            closes: 0,
        };
        // The two opening brackets differ in this bit only, and so do the two closing ones.
        let case = splat(0x20);
        for (i, bytes) in block.chunks_exact(LANE_BYTES).enumerate() {
            let lane = lane(bytes);
            let shift = i * LANE_BYTES;
            masks.quotes |= equal(lane, b'"') << shift;
            masks.backslashes |= equal(lane, b'\\') << shift;
            masks.commas |= equal(lane, b',') << shift;
            masks.opens |= equal(lane | case, b'{') << shift;
            masks.closes |= equal(lane | case, b'}') << shift;
        }
        masks
    }
}

#[inline]
fn splat(byte: u8) -> i8x16 {
    i8x16::splat(i8::from_ne_bytes([byte]))
}

/// Sixteen bytes; `bytes` has at least as many.
#[inline]
fn lane(bytes: &[u8]) -> i8x16 {
    let mut array = [0_i8; LANE_BYTES];
    for (to, &from) in array.iter_mut().zip(bytes) {
        *to = i8::from_ne_bytes([from]);
    }
    i8x16::new(array)
}

#[inline]
fn equal(lane: i8x16, byte: u8) -> u64 {
    // The mask has sixteen bits, none of them the sign.
    u64::from(lane.cmp_eq(splat(byte)).move_mask().unsigned_abs())
}

/// Punctuation outside strings.
pub(super) struct Punctuation {
    pub(super) commas: u64,
    pub(super) opens: u64,
    pub(super) closes: u64,
}

/// What a block leaves to the next one.
#[derive(Default)]
pub(super) struct Blocks {
    /// All bits set if the block before ended inside a string.
    in_string: u64,
    /// One if it ended with a backslash that escapes the next byte.
    escaped: u64,
}

impl Blocks {
    /// Reads the block that starts at `at`; what lies beyond the end of `bytes` counts as blank.
    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8], at: usize) -> Punctuation {
        let masks = match bytes[at..].first_chunk::<BLOCK_BYTES>() {
            Some(block) => Masks::of(block),
            None => {
                let mut block = [b' '; BLOCK_BYTES];
                block[..bytes.len() - at].copy_from_slice(&bytes[at..]);
                Masks::of(&block)
            }
        };
        let quotes = if masks.backslashes | self.escaped == 0 {
            masks.quotes
        } else {
            masks.quotes & !self.escaped_by(masks.backslashes)
        };
        let in_string = prefix_xor(quotes) ^ self.in_string;
        self.in_string = if in_string >> 63 == 1 { u64::MAX } else { 0 };
        Punctuation {
            commas: masks.commas & !in_string,
            opens: masks.opens & !in_string,
            closes: masks.closes & !in_string,
        }
    }

    /// The bytes that a backslash takes the meaning from.
    fn escaped_by(&mut self, backslashes: u64) -> u64 {
        let mut escaped = self.escaped;
        let mut rest = backslashes & !escaped;
        self.escaped = 0;
        while rest != 0 {
            let backslash = rest & rest.wrapping_neg();
            escaped |= backslash << 1;
            self.escaped = backslash >> 63;
            rest &= !(backslash | backslash << 1);
        }
        escaped
    }
}

/// Each bit becomes the parity of itself and all lower bits.
#[inline]
fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Position of the first quote or backslash from `at` on.
#[inline]
pub(super) fn quote_or_backslash(bytes: &[u8], mut at: usize) -> Option<usize> {
    while let Some(chunk) = bytes[at..].first_chunk::<LANE_BYTES>() {
        let lane = lane(chunk);
        let found = equal(lane, b'"') | equal(lane, b'\\');
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize);
        }
        at += LANE_BYTES;
    }
    let rest = bytes[at..].iter().position(|b| matches!(b, b'"' | b'\\'));
    rest.map(|i| at + i)
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The same by one byte after the other.
    fn naive(bytes: &[u8]) -> Vec<(usize, u8)> {
        let (mut in_string, mut escaped) = (false, false);
        let mut found = Vec::new();
        for (i, &b) in bytes.iter().enumerate() {
            if escaped {
                escaped = false;
            } else if b == b'\\' {
                escaped = true;
            } else if b == b'"' {
                in_string = !in_string;
            }
            if !in_string && b",[]{}".contains(&b) {
                found.push((i, b));
            }
        }
        found
    }

    fn by_blocks(bytes: &[u8]) -> Vec<(usize, u8)> {
        let mut blocks = Blocks::default();
        let mut found = Vec::new();
        for at in (0..bytes.len()).step_by(BLOCK_BYTES) {
            let p = blocks.read(bytes, at);
            let all = p.commas | p.opens | p.closes;
            let set = (0..BLOCK_BYTES).filter(|i| all >> i & 1 == 1);
            found.extend(set.map(|i| (at + i, bytes[at + i])));
        }
        found
    }

    proptest! {
        #[test]
        fn punctuation_is_where_a_simple_reader_sees_it(
            pieces in vec(prop::sample::select(vec![
                "\"", "\\", ",", "[", "]", "{", "}", "a", "é", " ", "\\\"", "long text without any",
            ]), 0..150),
        ) {
            let text = pieces.concat();
            prop_assert_eq!(by_blocks(text.as_bytes()), naive(text.as_bytes()));
        }

        #[test]
        fn the_end_of_a_string_is_found(text in "[a-z\u{80}-\u{7ff}]{0,70}", end in "[\"\\\\][a\"]{0,20}") {
            let whole = format!("{text}{end}");
            prop_assert_eq!(quote_or_backslash(whole.as_bytes(), 0), Some(text.len()));
            prop_assert_eq!(quote_or_backslash(text.as_bytes(), 0), None);
        }
    }
}
