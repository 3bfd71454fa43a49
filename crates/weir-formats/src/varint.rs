//! Varints of up to 8 bytes, read at once: 7 bits per byte, the lowest first.

/// Highest bit of each byte, which is set in all bytes of a number but the last.
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// Reads the number at the start of `bytes`. Returns it and its length; `None` if it is longer than
/// 8 bytes or fewer follow.
#[inline]
pub(crate) fn short_varint(bytes: Option<&[u8]>) -> Option<(u64, usize)> {
    let (word, ends) = word(bytes)?;
    // The bits up to the highest one of the last byte, without the highest of each byte.
    let x = word & (ends ^ (ends - 1)) & !HIGH_BITS;
    let x = (x & 0x007f_007f_007f_007f) | (x & 0x7f00_7f00_7f00_7f00) >> 1;
    let x = (x & 0x0000_3fff_0000_3fff) | (x & 0x3fff_0000_3fff_0000) >> 2;
    let number = (x & 0x0fff_ffff) | (x & 0x0fff_ffff_0000_0000) >> 4;
    Some((number, length(ends)))
}

/// Returns the length of the number at the start of `bytes`, with the same exceptions.
#[inline]
pub(crate) fn short_varint_len(bytes: Option<&[u8]>) -> Option<usize> {
    word(bytes).map(|(_, ends)| length(ends))
}

/// Returns the first 8 bytes, and the highest bits of those that can be the last of a number.
#[inline]
fn word(bytes: Option<&[u8]>) -> Option<(u64, u64)> {
    let word = u64::from_le_bytes(*bytes?.first_chunk()?);
    let ends = !word & HIGH_BITS;
    (ends != 0).then_some((word, ends))
}

#[inline]
fn length(ends: u64) -> usize {
    ends.trailing_zeros() as usize / 8 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_up_to_8_bytes_are_read() {
        for bits in 0..56 {
            for number in [1 << bits, (1_u64 << bits) - 1, (1 << bits) | 0x55] {
                let mut bytes = Vec::new();
                let mut rest = number;
                while rest >= 0x80 {
                    bytes.push(rest as u8 | 0x80);
                    rest >>= 7;
                }
                bytes.push(rest as u8);
                let len = bytes.len();
                bytes.extend([0xff, 0, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff]);
                assert_eq!(short_varint(Some(&bytes)), Some((number, len)));
                assert_eq!(short_varint_len(Some(&bytes)), Some(len));
                // Fewer than 8 bytes are left to slower code.
                assert_eq!(short_varint(Some(&bytes[..len.min(7)])), None);
            }
        }
        assert_eq!(short_varint(Some(&[0xff; 10])), None);
        assert_eq!(short_varint(None), None);
    }
}
