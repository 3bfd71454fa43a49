//! Decodes UTF-8 with Java's replacement of malformed input.

/// Appends `bytes` decoded as UTF-8. Each malformed sequence becomes one U+FFFD.
///
/// The boundaries of malformed sequences are those of Java's decoder because item names are
/// compared as text. They differ from Rust's lossy conversion only for encoded surrogates (ED
/// A0..BF xx), which Java replaces as a whole.
#[inline]
pub fn append_text(bytes: &[u8], out: &mut String) {
    match std::str::from_utf8(bytes) {
        Ok(text) => out.push_str(text),
        Err(_) => append_lossy(bytes, out),
    }
}

fn append_lossy(mut bytes: &[u8], out: &mut String) {
    while !bytes.is_empty() {
        // A chunk is the longest valid run and the malformed sequence after it.
        let Some(chunk) = bytes.utf8_chunks().next() else {
            return;
        };
        out.push_str(chunk.valid());
        let rest = &bytes[chunk.valid().len()..];
        if rest.is_empty() {
            return;
        }
        out.push(char::REPLACEMENT_CHARACTER);
        bytes = &rest[malformed_len(rest, chunk.invalid().len())..];
    }
}

/// Returns the length in bytes of the malformed sequence at the start of `rest`. `len` is its
/// length according to Rust's decoder.
fn malformed_len(rest: &[u8], len: usize) -> usize {
    let continues = |i: usize| rest.get(i).is_some_and(|b| b & 0xc0 == 0x80);
    if rest[0] == 0xed && continues(1) {
        if continues(2) { 3 } else { 2 }
    } else {
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode(bytes: &[u8]) -> String {
        let mut out = String::new();
        append_text(bytes, &mut out);
        out
    }

    #[test]
    fn valid_text_is_unchanged() {
        assert_eq!(decode("aß€😀\u{feff}".as_bytes()), "aß€😀\u{feff}");
        assert_eq!(decode(b""), "");
    }

    /// The expected counts are those of OpenJDK's `new String(bytes, UTF_8)`.
    #[test]
    fn malformed_bytes_are_replaced_as_in_java() {
        let r = "\u{fffd}";
        let rows: &[(&[u8], String)] = &[
            (b"a\x80b", format!("a{r}b")),
            (b"\xff\xfe", format!("{r}{r}")),
            (b"\xc0\x80", format!("{r}{r}")),
            (b"\xc3", r.to_owned()),
            (b"\xc3a", format!("{r}a")),
            (b"\xe2\x82", r.to_owned()),
            (b"\xe2\x82a", format!("{r}a")),
            (b"\xe0\x80\x80", format!("{r}{r}{r}")),
            (b"\xed\xa0\x80", r.to_owned()),
            (b"\xed\xa0\x80\xed\xb0\x80x", format!("{r}{r}x")),
            (b"\xed\xa0", r.to_owned()),
            (b"\xed\xa0a", format!("{r}a")),
            (b"\xed", r.to_owned()),
            (b"\xed\x41", format!("{r}A")),
            (b"\xf0\x9f\x98", r.to_owned()),
            (b"\xf0\x9f\x98z", format!("{r}z")),
            (b"\xf0\x80\x80\x80", format!("{r}{r}{r}{r}")),
            (b"\xf4\x90\x80\x80", format!("{r}{r}{r}{r}")),
            (b"\xf5\x80\x80\x80", format!("{r}{r}{r}{r}")),
        ];
        for (bytes, expected) in rows {
            assert_eq!(&decode(bytes), expected, "{bytes:x?}");
        }
    }
}
