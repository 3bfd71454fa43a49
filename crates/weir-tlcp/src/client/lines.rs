//! Splits received bytes into lines.

/// Iterator over the complete lines of a byte slice, without CR LF.
///
/// The bytes after the last CR LF are the [`remainder`](Self::remainder), which must precede the
/// next bytes. A lone CR or LF is part of its line.
#[derive(Clone, Debug)]
pub struct Lines<'a> {
    rest: &'a [u8],
}

impl<'a> Lines<'a> {
    /// Creates an iterator over the lines of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the bytes that were not returned yet; after the last line, the incomplete one.
    pub fn remainder(&self) -> &'a [u8] {
        self.rest
    }
}

impl<'a> Iterator for Lines<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let mut from = 0;
        loop {
            let feed = from + memchr::memchr(b'\n', &self.rest[from..])?;
            if let Some(line) = self.rest[..feed].strip_suffix(b"\r") {
                self.rest = &self.rest[feed + 1..];
                return Some(line);
            }
            from = feed + 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_at_cr_lf_only() {
        let mut lines = Lines::new(b"PROBE\r\na\nb\rc\r\n\r\nU,1");
        let found: Vec<_> = lines.by_ref().collect();
        assert_eq!(found, [&b"PROBE"[..], b"a\nb\rc", b""]);
        assert_eq!(lines.remainder(), b"U,1");
    }

    #[test]
    fn chunked_input_yields_same_lines() {
        let stream = b"CONOK,S1,50000,5000,*\r\nU,1,1,a|b\r\nPROBE\r\n";
        let whole: Vec<_> = Lines::new(stream).collect();
        for cut in 0..=stream.len() {
            let mut first = Lines::new(&stream[..cut]);
            let mut found: Vec<_> = first.by_ref().map(<[u8]>::to_vec).collect();
            let joined = [first.remainder(), &stream[cut..]].concat();
            found.extend(Lines::new(&joined).map(<[u8]>::to_vec));
            assert_eq!(found, whole);
        }
    }
}
