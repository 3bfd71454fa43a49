//! Parses the end of a certificate's validity from its DER form (X.509, RFC 5280, section 4.1).

use jiff::civil::DateTime;
use jiff::tz::TimeZone;

pub(super) const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// Returns `notAfter` in seconds since 1970; `None` if `der` is not a plain certificate.
pub(super) fn not_after_unix_s(der: &[u8]) -> Option<i64> {
    let (validity, _) = element(from_validity(der)?, SEQUENCE)?;
    let (_, not_after) = next(validity)?;
    let tag = *not_after.first()?;
    time(tag, element(not_after, tag)?.0)
}

/// Returns the fields of a certificate from its validity on.
pub(super) fn from_validity(der: &[u8]) -> Option<&[u8]> {
    let (certificate, _) = element(der, SEQUENCE)?;
    let (mut rest, _) = element(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = element(rest, VERSION)?.1;
    }
    // Serial number, signature algorithm, issuer.
    for _ in 0..3 {
        rest = next(rest)?.1;
    }
    Some(rest)
}

/// Returns the contents of the first element, of any tag, and the bytes after it.
pub(super) fn next(der: &[u8]) -> Option<(&[u8], &[u8])> {
    element(der, *der.first()?)
}

/// Returns the contents of the first element, which must have tag `tag`, and the bytes after it.
pub(super) fn element(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let join = |sum: usize, byte: &u8| sum << 8 | usize::from(*byte);
            (bytes.iter().fold(0, join), rest)
        }
        _ => return None,
    };
    (found == tag).then(|| rest.split_at_checked(length))?
}

/// Parses `YYMMDDhhmmssZ` or `YYYYMMDDhhmmssZ`.
fn time(tag: u8, text: &[u8]) -> Option<i64> {
    let digits = std::str::from_utf8(text).ok()?.strip_suffix('Z')?;
    let century = match tag {
        UTC_TIME if digits < "50" => "20",
        UTC_TIME => "19",
        GENERALIZED_TIME => "",
        _ => return None,
    };
    let digits = format!("{century}{digits}");
    if digits.len() != 14 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let time = DateTime::strptime("%Y%m%d%H%M%S", digits).ok()?;
    Some(TimeZone::UTC.to_timestamp(time).ok()?.as_second())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    #[test]
    fn both_time_formats_are_parsed() {
        assert_eq!(time(UTC_TIME, b"700101000000Z"), Some(0));
        assert_eq!(time(UTC_TIME, b"260228235959Z"), Some(1_772_323_199));
        assert_eq!(
            time(GENERALIZED_TIME, b"20000229000000Z"),
            Some(951_782_400)
        );
        assert_eq!(time(GENERALIZED_TIME, b"20000229000000"), None);
        assert_eq!(time(UTC_TIME, b"26022823595Z"), None);
        assert_eq!(time(UTC_TIME, b"261328235959Z"), None);
    }

    #[test]
    fn certificate_expiry_is_parsed() {
        let pem = include_bytes!("../../tests/tls/server.pem");
        let der = CertificateDer::from_pem_slice(pem).unwrap();
        assert_eq!(not_after_unix_s(&der), Some(4_733_510_400));
        for length in 0..der.len() {
            // No prefix causes a panic.
            let _ = not_after_unix_s(&der[..length]);
        }
    }
}
