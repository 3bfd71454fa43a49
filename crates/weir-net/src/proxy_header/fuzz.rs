//! Fuzz target of PROXY headers: parsing never panics, the result does not depend on how the bytes
//! are split, and an encoded header parses as the same.

use super::{HEADER_BYTES_MAX, ProxyHeader, ProxyHeaderError};

/// Parses every prefix of `data`.
pub fn read(data: &[u8]) {
    let mut before = None;
    for end in 0..=data.len().min(HEADER_BYTES_MAX + 1) {
        let parsed = ProxyHeader::parse(&data[..end]);
        // Bytes that follow a complete or rejected header do not change the result.
        match before {
            Some(ref before) => assert_eq!(*before, parsed, "{end} bytes"),
            None if parsed == Ok(None) => assert!(end < HEADER_BYTES_MAX, "bounded"),
            None => before = Some(check(parsed)),
        }
    }
}

type Parsed = Result<Option<(ProxyHeader, usize)>, ProxyHeaderError>;

/// Encodes and parses the header again.
fn check(parsed: Parsed) -> Parsed {
    if let Ok(Some((header, used))) = &parsed {
        assert!(*used <= HEADER_BYTES_MAX);
        let encoded = header.to_version_2();
        assert!(encoded.len() <= HEADER_BYTES_MAX);
        let again = ProxyHeader::parse(&encoded);
        assert_eq!(again, Ok(Some((header.clone(), encoded.len()))));
    }
    parsed
}
