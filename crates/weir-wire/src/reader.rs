//! Reads fields from borrowed bytes and checks every length before use.

use super::WireError;

macro_rules! numbers {
    ($($number:ident)*) => {$(
        #[doc = concat!("Reads an `", stringify!($number), "`.")]
        pub fn $number(&mut self, what: &'static str) -> Result<$number, WireError> {
            Ok($number::from_be_bytes(self.array(what)?))
        }
    )*};
}

/// Reader of big-endian fields.
#[derive(Debug, Clone, Copy)]
pub struct WireReader<'a> {
    left: &'a [u8],
}

impl<'a> WireReader<'a> {
    /// Creates a reader that starts at the first byte.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { left: bytes }
    }

    /// Returns the bytes that were not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.left
    }

    /// Reads `count` bytes.
    pub fn bytes(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], WireError> {
        let Some((taken, left)) = self.left.split_at_checked(count) else {
            return Err(WireError::Truncated {
                what,
                needed: count,
                left: self.left.len(),
            });
        };
        self.left = left;
        Ok(taken)
    }

    numbers!(i8 i16 i32 u32 i64);

    /// Reads a zigzag number of at most 5 bytes.
    pub fn varint(&mut self, what: &'static str) -> Result<i32, WireError> {
        let raw = self.base128(5, what)?;
        let raw = u32::try_from(raw).map_err(|_| WireError::Varint { what })?;
        Ok((raw >> 1) as i32 ^ -((raw & 1) as i32))
    }

    /// Reads a zigzag number of at most 10 bytes.
    pub fn varlong(&mut self, what: &'static str) -> Result<i64, WireError> {
        let raw = self.base128(10, what)?;
        Ok((raw >> 1) as i64 ^ -((raw & 1) as i64))
    }

    /// Reads a zigzag length and the bytes after it; length -1 is null.
    pub fn varint_bytes(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        let length = self.varint(what)?;
        self.sized(i64::from(length), what)
    }

    /// Reads a 32-bit length and the bytes after it; length -1 is null.
    pub fn nullable_bytes(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        let length = self.i32(what)?;
        self.sized(i64::from(length), what)
    }

    /// Reads a 16-bit length and the bytes after it; length -1 is null.
    pub(crate) fn short_bytes(
        &mut self,
        what: &'static str,
    ) -> Result<Option<&'a [u8]>, WireError> {
        let length = self.i16(what)?;
        self.sized(i64::from(length), what)
    }

    /// Reads a 16-bit length and the text after it; length -1 is null.
    pub fn nullable_string(&mut self, what: &'static str) -> Result<Option<&'a str>, WireError> {
        let text = self.short_bytes(what)?.map(std::str::from_utf8);
        text.transpose().map_err(|_| WireError::Utf8 { what })
    }

    /// Reads text that must not be null.
    pub fn string(&mut self, what: &'static str) -> Result<&'a str, WireError> {
        self.nullable_string(what)?
            .ok_or(WireError::Length { what, value: -1 })
    }

    /// Reads the 32-bit count of an array; null counts as 0. Rejects a count whose elements, of at
    /// least `element_bytes_min` bytes each, exceed the remaining bytes, so that callers may
    /// allocate for it.
    pub fn count(
        &mut self,
        element_bytes_min: usize,
        what: &'static str,
    ) -> Result<usize, WireError> {
        let value = self.i32(what)?;
        let impossible = WireError::Length {
            what,
            value: i64::from(value),
        };
        if value == -1 {
            return Ok(0);
        }
        let count = usize::try_from(value).map_err(|_| impossible)?;
        if count > self.left.len() / element_bytes_min.max(1) {
            return Err(impossible);
        }
        Ok(count)
    }

    /// Reads an unsigned number of at most 5 bytes, as in flexible versions.
    pub fn uvarint(&mut self, what: &'static str) -> Result<u32, WireError> {
        let raw = self.base128(5, what)?;
        u32::try_from(raw).map_err(|_| WireError::Varint { what })
    }

    /// Reads bytes of a flexible version. Length 0 is null; other lengths are encoded plus one.
    pub fn compact_bytes(&mut self, what: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        let length = self.uvarint(what)?;
        self.sized(i64::from(length) - 1, what)
    }

    /// Reads text of a flexible version, which may be null.
    pub fn compact_nullable_string(
        &mut self,
        what: &'static str,
    ) -> Result<Option<&'a str>, WireError> {
        let text = self.compact_bytes(what)?.map(std::str::from_utf8);
        text.transpose().map_err(|_| WireError::Utf8 { what })
    }

    /// Reads text of a flexible version, which must not be null.
    pub fn compact_string(&mut self, what: &'static str) -> Result<&'a str, WireError> {
        self.compact_nullable_string(what)?
            .ok_or(WireError::Length { what, value: -1 })
    }

    /// Reads the count of an array of a flexible version; null counts as 0. Rejects counts as
    /// [`Self::count`] does.
    pub fn compact_count(
        &mut self,
        element_bytes_min: usize,
        what: &'static str,
    ) -> Result<usize, WireError> {
        let value = i64::from(self.uvarint(what)?) - 1;
        let count = usize::try_from(value.max(0)).unwrap_or(usize::MAX);
        if count > self.left.len() / element_bytes_min.max(1) {
            return Err(WireError::Length { what, value });
        }
        Ok(count)
    }

    /// Skips the tagged fields at the end of a structure of a flexible version.
    pub fn skip_tags(&mut self, what: &'static str) -> Result<(), WireError> {
        for _ in 0..self.uvarint(what)? {
            self.uvarint(what)?;
            let bytes = self.uvarint(what)?;
            self.bytes(bytes as usize, what)?;
        }
        Ok(())
    }

    fn sized(&mut self, length: i64, what: &'static str) -> Result<Option<&'a [u8]>, WireError> {
        if length == -1 {
            return Ok(None);
        }
        let impossible = WireError::Length {
            what,
            value: length,
        };
        let length = usize::try_from(length).map_err(|_| impossible)?;
        self.bytes(length, what).map(Some)
    }

    fn base128(&mut self, bytes_max: usize, what: &'static str) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for index in 0..bytes_max {
            let Some((byte, left)) = self.left.split_first() else {
                return Err(WireError::Truncated {
                    what,
                    needed: 1,
                    left: 0,
                });
            };
            self.left = left;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte may only contain one bit.
            if index == 9 && bits > 1 {
                break;
            }
            value |= bits << (7 * index);
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(WireError::Varint { what })
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], WireError> {
        let Some((taken, left)) = self.left.split_first_chunk::<N>() else {
            return Err(WireError::Truncated {
                what,
                needed: N,
                left: self.left.len(),
            });
        };
        self.left = left;
        Ok(*taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zigzag_numbers_at_limits() {
        let cases: [(&[u8], i64); 6] = [
            (&[0x00], 0),
            (&[0x01], -1),
            (&[0x02], 1),
            (&[0xac, 0x02], 150),
            (&[0xfe, 0xff, 0xff, 0xff, 0x0f], i32::MAX as i64),
            (&[0xff, 0xff, 0xff, 0xff, 0x0f], i32::MIN as i64),
        ];
        for (bytes, value) in cases {
            let as_int = WireReader::new(bytes).varint("n").map(i64::from);
            assert_eq!(as_int, Ok(value));
            assert_eq!(WireReader::new(bytes).varlong("n"), Ok(value));
        }
        let long = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(WireReader::new(&long).varlong("n"), Ok(i64::MIN));
        let too_long = WireError::Varint { what: "n" };
        assert_eq!(WireReader::new(&long).varint("n"), Err(too_long));
        assert_eq!(WireReader::new(&[0xff; 11]).varlong("n"), Err(too_long));
        let overflow = [0xff, 0xff, 0xff, 0xff, 0x1f];
        assert_eq!(WireReader::new(&overflow).varint("n"), Err(too_long));
    }

    #[test]
    fn counts_over_remaining_bytes_are_errors() {
        let bytes = [0x7f, 0xff, 0xff, 0xff, 1, 2, 3, 4];
        let error = WireReader::new(&bytes).count(4, "topics");
        let value = i64::from(i32::MAX);
        assert_eq!(
            error,
            Err(WireError::Length {
                what: "topics",
                value
            })
        );
        assert_eq!(
            WireReader::new(&[0, 0, 0, 1, 1, 2, 3, 4]).count(4, "topics"),
            Ok(1)
        );
        assert_eq!(WireReader::new(&[0xff; 4]).count(4, "topics"), Ok(0));
        assert!(
            WireReader::new(&[0xff, 0xff, 0xff, 0xfe])
                .count(4, "topics")
                .is_err()
        );
    }

    #[test]
    fn reads_fields_of_flexible_versions() {
        assert_eq!(
            WireReader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f]).uvarint("n"),
            Ok(u32::MAX)
        );
        let too_long = WireError::Varint { what: "n" };
        assert_eq!(
            WireReader::new(&[0xff, 0xff, 0xff, 0xff, 0x1f]).uvarint("n"),
            Err(too_long)
        );
        assert_eq!(WireReader::new(&[0]).compact_bytes("b"), Ok(None));
        assert_eq!(WireReader::new(&[1]).compact_bytes("b"), Ok(Some(&[][..])));
        assert_eq!(
            WireReader::new(&[3, b'a', b'b']).compact_string("s"),
            Ok("ab")
        );
        assert!(WireReader::new(&[0]).compact_string("s").is_err());
        assert!(
            WireReader::new(&[2, 0xfe])
                .compact_nullable_string("s")
                .is_err()
        );
        assert_eq!(WireReader::new(&[0]).compact_count(4, "c"), Ok(0));
        assert_eq!(
            WireReader::new(&[2, 1, 2, 3, 4]).compact_count(4, "c"),
            Ok(1)
        );
        assert!(
            WireReader::new(&[3, 1, 2, 3, 4])
                .compact_count(4, "c")
                .is_err()
        );
        let mut tags = WireReader::new(&[2, 0, 1, 9, 200, 1, 0, 7]);
        assert_eq!(tags.skip_tags("t"), Ok(()));
        assert_eq!(tags.rest(), &[7]);
        assert!(
            WireReader::new(&[0xff, 0xff, 0xff, 0xff, 0x0f])
                .skip_tags("t")
                .is_err()
        );
    }

    #[test]
    fn null_and_empty_differ() {
        assert_eq!(
            WireReader::new(&[0xff, 0xff]).nullable_string("s"),
            Ok(None)
        );
        assert_eq!(WireReader::new(&[0, 0]).nullable_string("s"), Ok(Some("")));
        assert!(WireReader::new(&[0xff, 0xff]).string("s").is_err());
        assert!(WireReader::new(&[0xff, 0xfe]).nullable_string("s").is_err());
        assert_eq!(WireReader::new(&[1]).varint_bytes("v"), Ok(None));
        assert_eq!(WireReader::new(&[0]).varint_bytes("v"), Ok(Some(&[][..])));
    }
}
