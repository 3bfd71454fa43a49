//! Finds JSON punctuation outside strings, 64 bytes at a time.

use wide::{CmpEq, i8x16};

/// Block size. Masks have one bit per byte, the first byte lowest.
pub(super) const BLOCK_BYTES: usize = 64;

const LANE_BYTES: usize = 16;

/// Number of bytes searched ahead for a backslash.
const AHEAD_BYTES: usize = 2048;

/// Bits in which the four brackets differ, and their common value with these bits set. The letters
/// Y, y, `_` and DEL have the same value then, but they do not occur outside strings in JSON.
const BRACKET_BITS: u8 = 0x26;
const BRACKET: u8 = 0x7f;

/// Returns the mask of the positions of a byte.
#[inline]
pub(super) fn positions(block: &[u8; BLOCK_BYTES], byte: u8) -> u64 {
    positions_with(block, 0, byte)
}

/// Returns the mask of the positions of a byte after `bits` have been set in all bytes.
#[inline]
fn positions_with(block: &[u8; BLOCK_BYTES], bits: u8, byte: u8) -> u64 {
    let bits = splat(bits);
    let mut mask = 0;
    for (i, bytes) in block.chunks_exact(LANE_BYTES).enumerate() {
        mask |= equal(lane(bytes) | bits, byte) << (i * LANE_BYTES);
    }
    mask
}

#[inline]
fn splat(byte: u8) -> i8x16 {
    i8x16::splat(i8::from_ne_bytes([byte]))
}

/// Loads 16 bytes; `bytes` must have at least as many.
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
    // The mask has 16 bits, none of them the sign.
    u64::from(lane.cmp_eq(splat(byte)).move_mask().unsigned_abs())
}

/// Masks of punctuation outside strings.
pub(super) struct Punctuation {
    pub(super) commas: u64,
    pub(super) opens: u64,
    pub(super) closes: u64,
}

/// State carried from block to block.
#[derive(Default)]
pub(super) struct Blocks {
    /// All bits are set if the previous block ended inside a string.
    in_string: u64,
    /// 1 if the previous block ended with a backslash that escapes the next byte.
    escaped: u64,
    /// End of the range after the current block that is known to have no backslash.
    no_backslash_to: usize,
}

impl Blocks {
    /// Reads the block at `at`. Bytes beyond the end of `bytes` count as blanks. Blocks must be
    /// read in order.
    #[inline]
    pub(super) fn read(&mut self, bytes: &[u8], at: usize) -> Punctuation {
        match bytes[at..].first_chunk::<BLOCK_BYTES>() {
            Some(block) => self.read_block(bytes, at, block),
            None => {
                let mut block = [b' '; BLOCK_BYTES];
                block[..bytes.len() - at].copy_from_slice(&bytes[at..]);
                self.read_block(bytes, at, &block)
            }
        }
    }

    #[inline]
    fn read_block(&mut self, bytes: &[u8], at: usize, block: &[u8; BLOCK_BYTES]) -> Punctuation {
        let mut quotes = positions(block, b'"');
        if at + BLOCK_BYTES > self.no_backslash_to {
            quotes &= !self.escaped(bytes, at, block);
        }
        let in_string = prefix_xor(quotes) ^ self.in_string;
        self.in_string = if in_string >> 63 == 1 { u64::MAX } else { 0 };
        let mut found = Punctuation {
            commas: positions(block, b',') & !in_string,
            opens: 0,
            closes: 0,
        };
        if positions_with(block, BRACKET_BITS, BRACKET) & !in_string != 0 {
            // The two opening brackets differ in this bit only, and so do the two closing brackets.
            found.opens = positions_with(block, 0x20, b'{') & !in_string;
            found.closes = positions_with(block, 0x20, b'}') & !in_string;
        }
        found
    }

    /// Returns the mask of escaped bytes in a block. Texts have few backslashes, so searching ahead
    /// for the next one is several times faster than checking every block.
    fn escaped(&mut self, bytes: &[u8], at: usize, block: &[u8; BLOCK_BYTES]) -> u64 {
        let backslashes = positions(block, b'\\');
        let escaped = match backslashes | self.escaped {
            0 => 0,
            _ => self.escaped_by(backslashes),
        };
        self.no_backslash_to = match (self.escaped, bytes.get(at + BLOCK_BYTES..)) {
            (0, Some(rest)) => {
                // Bounded, because one pass over a document can consist of many short ones.
                let ahead = &rest[..rest.len().min(AHEAD_BYTES)];
                let plain = memchr::memchr(b'\\', ahead).unwrap_or(ahead.len());
                at + BLOCK_BYTES + plain
            }
            _ => 0,
        };
        escaped
    }

    /// Returns the mask of bytes after an escaping backslash.
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

/// Replaces each bit by the parity of itself and all lower bits.
#[inline]
pub(super) fn prefix_xor(mut bits: u64) -> u64 {
    for shift in [1, 2, 4, 8, 16, 32] {
        bits ^= bits << shift;
    }
    bits
}

/// Returns the position of the first quote or backslash from `at` on.
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

    /// Reference implementation, one byte at a time.
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
        fn punctuation_matches_bytewise_reference(
            pieces in vec(prop::sample::select(vec![
                "\"", "\\", ",", "[", "]", "{", "}", "a", "é", " ", "\\\"", "long text without any",
            ]), 0..150),
        ) {
            let text = pieces.concat();
            prop_assert_eq!(by_blocks(text.as_bytes()), naive(text.as_bytes()));
        }

        #[test]
        fn string_end_is_found(
            text in "[a-z\u{80}-\u{7ff}]{0,70}",
            end in "[\"\\\\][a\"]{0,20}",
        ) {
            let whole = format!("{text}{end}");
            prop_assert_eq!(quote_or_backslash(whole.as_bytes(), 0), Some(text.len()));
            prop_assert_eq!(quote_or_backslash(text.as_bytes(), 0), None);
        }
    }
}
