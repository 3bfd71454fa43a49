//! The subject of a certificate as text (RFC 2253), in the form in which Kafka's brokers know it.

use super::expiry::{SEQUENCE, element, from_validity};
use super::names::{OBJECT_ID, SET, TEXTS};

/// Longest subject, in bytes of DER.
const SUBJECT_BYTES_MAX: usize = 4_096;
/// Attributes that RFC 2253 names.
const KEYWORDS: [(&[u8], &str); 9] = [
    (&[0x55, 4, 3], "CN"),
    (&[0x55, 4, 6], "C"),
    (&[0x55, 4, 7], "L"),
    (&[0x55, 4, 8], "ST"),
    (&[0x55, 4, 9], "STREET"),
    (&[0x55, 4, 10], "O"),
    (&[0x55, 4, 11], "OU"),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 25],
        "DC",
    ),
    (
        &[0x09, 0x92, 0x26, 0x89, 0x93, 0xf2, 0x2c, 0x64, 1, 1],
        "UID",
    ),
];

/// Returns the subject of a certificate in DER form, as `CN=anna,OU=trading,O=acme`. Returns `None`
/// if it is not a plain certificate, or if a value is no text.
pub fn certificate_subject(der: &[u8]) -> Option<String> {
    let (_, rest) = element(from_validity(der)?, SEQUENCE)?;
    let (mut subject, _) = element(rest, SEQUENCE)?;
    if subject.len() > SUBJECT_BYTES_MAX {
        return None;
    }
    let mut parts = Vec::new();
    while !subject.is_empty() {
        let (mut set, rest) = element(subject, SET)?;
        let mut values = Vec::new();
        while !set.is_empty() {
            let (pair, others) = element(set, SEQUENCE)?;
            let (id, value) = element(pair, OBJECT_ID)?;
            values.push(attribute(id, value)?);
            set = others;
        }
        parts.push(values.join("+"));
        subject = rest;
    }
    // RFC 2253 begins with the last one.
    parts.reverse();
    Some(parts.join(","))
}

fn attribute(id: &[u8], value: &[u8]) -> Option<String> {
    match KEYWORDS.iter().find(|(known, _)| *known == id) {
        Some((_, keyword)) => {
            let kind = value.first().filter(|kind| TEXTS.contains(kind))?;
            let text = std::str::from_utf8(element(value, *kind)?.0).ok()?;
            Some(format!("{keyword}={}", escaped(text)?))
        }
        None => {
            let hex: String = value.iter().map(|byte| format!("{byte:02x}")).collect();
            Some(format!("{}=#{hex}", dotted(id)?))
        }
    }
}

/// Returns a value with escapes, `None` if it has control characters.
fn escaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (at, c) in text.chars().enumerate() {
        if c.is_control() {
            return None;
        }
        let is_edge = (at == 0 && (c == '#' || c == ' ')) || (at == last && c == ' ');
        if is_edge || ",+\"\\<>;".contains(c) {
            out.push('\\');
        }
        out.push(c);
    }
    Some(out)
}

/// Returns an object id as numbers.
fn dotted(id: &[u8]) -> Option<String> {
    let mut numbers = Vec::new();
    let mut number = 0_u64;
    for byte in id {
        number = number.checked_mul(128)? + u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            numbers.push(std::mem::take(&mut number));
        }
    }
    let first = numbers.first_mut()?;
    let root = (*first / 40).min(2);
    *first -= root * 40;
    numbers.insert(0, root);
    let texts: Vec<_> = numbers.iter().map(u64::to_string).collect();
    Some(texts.join("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;

    /// The expected text is that of `openssl x509 -subject -nameopt RFC2253`.
    #[test]
    fn subject_of_a_certificate_is_rendered() {
        let pem = include_bytes!("../../tests/tls/server.pem");
        let der = CertificateDer::from_pem_slice(pem).unwrap();
        assert_eq!(certificate_subject(&der).as_deref(), Some(SUBJECT));
        for length in 0..der.len() {
            // No prefix causes a panic.
            let _ = certificate_subject(&der[..length]);
        }
    }

    #[test]
    fn values_are_escaped_and_other_attributes_are_hexadecimal() {
        let value = |text: &str| [&[0x0c, text.len() as u8], text.as_bytes()].concat();
        let cn = |text| attribute(&[0x55, 4, 3], &value(text));
        assert_eq!(cn("a, b+c").as_deref(), Some("CN=a\\, b\\+c"));
        assert_eq!(cn(" #a ").as_deref(), Some("CN=\\ #a\\ "));
        assert_eq!(cn("#a;").as_deref(), Some("CN=\\#a\\;"));
        assert_eq!(cn("a\nb"), None);
        let email = [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 9, 1];
        assert_eq!(
            attribute(&email, &value("x")).as_deref(),
            Some("1.2.840.113549.1.9.1=#0c0178")
        );
        assert_eq!(dotted(&[0x55, 4, 3]).as_deref(), Some("2.5.4.3"));
        assert_eq!(dotted(&[]), None);
    }

    const SUBJECT: &str = "CN=server";
}
