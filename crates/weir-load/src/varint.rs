//! Numbers of variable length, as Avro and Protobuf have them.

/// Appends a number, seven bits per byte.
pub(crate) fn push_varint(number: u64, out: &mut Vec<u8>) {
    let mut rest = number;
    while rest > 0x7f {
        // The low seven bits.
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Maps a number with sign to one without: small absolute values stay small.
pub(crate) fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)) as u64
}

/// Returns the number of bytes of a varint.
pub(crate) fn varint_len(number: u64) -> usize {
    let bits = 64 - (number | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_bytes_agree() {
        for (number, bytes) in [
            (0, &[0][..]),
            (127, &[127]),
            (128, &[0x80, 1]),
            (300, &[0xac, 2]),
            (u64::MAX, &[255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
        ] {
            let mut out = Vec::new();
            push_varint(number, &mut out);
            assert_eq!((out.as_slice(), out.len()), (bytes, varint_len(number)));
        }
        for (number, mapped) in [(0, 0), (-1, 1), (1, 2), (i64::MIN, u64::MAX)] {
            assert_eq!(zigzag(number), mapped);
        }
    }
}
