//! Names in a client certificate (X.509, RFC 5280, sections 4.1.2.6 and 4.2.1.6).

use super::expiry::{SEQUENCE, element, from_validity, next, not_after_unix_s};

pub(super) const SET: u8 = 0x31;
pub(super) const OBJECT_ID: u8 = 0x06;
const OCTETS: u8 = 0x04;
/// `[3]`, the extensions of a certificate.
const EXTENSIONS: u8 = 0xa3;
/// Types of texts: UTF8String, PrintableString and IA5String.
pub(super) const TEXTS: [u8; 3] = [0x0c, 0x13, 0x16];
/// Object IDs of names in a subject, and of the extension with alternative names.
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const UNIT: &[u8] = &[0x55, 4, 11];
const ALTERNATIVE_NAMES: &[u8] = &[0x55, 0x1d, 17];
/// Kinds of alternative names.
const EMAIL: u8 = 0x81;
const DNS: u8 = 0x82;
const URI: u8 = 0x86;

/// Names in a client certificate that was verified in the handshake, each kind in its order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CertificateNames {
    /// Common names of the subject (CN).
    pub common: Vec<String>,
    /// Organizations of the subject (O).
    pub organizations: Vec<String>,
    /// Units of the subject (OU).
    pub units: Vec<String>,
    /// DNS names.
    pub dns: Vec<String>,
    /// Email addresses.
    pub emails: Vec<String>,
    /// URIs.
    pub uris: Vec<String>,
    /// End of the validity in seconds since 1970.
    pub not_after_unix_s: i64,
}

impl CertificateNames {
    /// Parses a certificate in DER form. Returns `None` if it is not a plain one, or if a name has
    /// control characters or no supported text type.
    pub fn parse(der: &[u8]) -> Option<Self> {
        let mut names = Self {
            not_after_unix_s: not_after_unix_s(der)?,
            ..Self::default()
        };
        let (_, rest) = element(from_validity(der)?, SEQUENCE)?;
        let (subject, rest) = element(rest, SEQUENCE)?;
        names.read_subject(subject)?;
        // The public key, and IDs that only old certificates have.
        let (_, mut rest) = element(rest, SEQUENCE)?;
        while !rest.is_empty() {
            if let Some((extensions, _)) = element(rest, EXTENSIONS) {
                names.read_extensions(element(extensions, SEQUENCE)?.0)?;
            }
            rest = next(rest)?.1;
        }
        Some(names)
    }

    fn read_subject(&mut self, mut subject: &[u8]) -> Option<()> {
        while !subject.is_empty() {
            let (mut set, rest) = element(subject, SET)?;
            while !set.is_empty() {
                let (pair, others) = element(set, SEQUENCE)?;
                let (id, value) = element(pair, OBJECT_ID)?;
                let list = match id {
                    COMMON_NAME => Some(&mut self.common),
                    ORGANIZATION => Some(&mut self.organizations),
                    UNIT => Some(&mut self.units),
                    _ => None,
                };
                if let Some(list) = list {
                    let kind = value.first().filter(|kind| TEXTS.contains(kind))?;
                    list.push(text(element(value, *kind)?.0)?);
                }
                set = others;
            }
            subject = rest;
        }
        Some(())
    }

    fn read_extensions(&mut self, mut extensions: &[u8]) -> Option<()> {
        while !extensions.is_empty() {
            let (extension, rest) = element(extensions, SEQUENCE)?;
            let (id, mut value) = element(extension, OBJECT_ID)?;
            if id == ALTERNATIVE_NAMES {
                if value.first() != Some(&OCTETS) {
                    // The flag of a critical extension.
                    value = next(value)?.1;
                }
                let names = element(element(value, OCTETS)?.0, SEQUENCE)?.0;
                self.read_alternatives(names)?;
            }
            extensions = rest;
        }
        Some(())
    }

    fn read_alternatives(&mut self, mut names: &[u8]) -> Option<()> {
        while let Some(&kind) = names.first() {
            let (name, rest) = element(names, kind)?;
            let list = match kind {
                EMAIL => Some(&mut self.emails),
                DNS => Some(&mut self.dns),
                URI => Some(&mut self.uris),
                _ => None,
            };
            if let Some(list) = list {
                list.push(text(name)?);
            }
            names = rest;
        }
        Some(())
    }
}

/// Returns a name without control characters. With them, two names could look alike.
fn text(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    (!text.chars().any(char::is_control)).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Encodes an element.
    fn der(tag: u8, contents: &[&[u8]]) -> Vec<u8> {
        let contents = contents.concat();
        let length = u16::try_from(contents.len()).unwrap().to_be_bytes();
        [&[tag, 0x82, length[0], length[1]], &contents[..]].concat()
    }

    fn attribute(id: &[u8], kind: u8, text: &[u8]) -> Vec<u8> {
        let pair = [der(OBJECT_ID, &[id]), der(kind, &[text])];
        der(SET, &[&der(SEQUENCE, &[&pair[0], &pair[1]])])
    }

    fn certificate(subject: &[Vec<u8>], alternatives: &[Vec<u8>], critical: bool) -> Vec<u8> {
        let subject: Vec<_> = subject.iter().map(Vec::as_slice).collect();
        let alternatives: Vec<_> = alternatives.iter().map(Vec::as_slice).collect();
        let value = der(OCTETS, &[&der(SEQUENCE, &alternatives)]);
        let flag = if critical { &[1, 1, 0xff][..] } else { &[] };
        let other = der(
            SEQUENCE,
            &[&der(OBJECT_ID, &[&[0x55, 0x1d, 15]]), &der(OCTETS, &[])],
        );
        let names = der(
            SEQUENCE,
            &[&der(OBJECT_ID, &[ALTERNATIVE_NAMES]), flag, &value],
        );
        let time = |text: &[u8]| der(0x17, &[text]);
        let validity = [time(b"250101000000Z"), time(b"700101000000Z")];
        let fields = [
            der(0xa0, &[&[2, 1, 2]]),
            der(2, &[&[1]]),
            der(SEQUENCE, &[]),
            der(SEQUENCE, &[]),
            der(SEQUENCE, &[&validity[0], &validity[1]]),
            der(SEQUENCE, &subject),
            der(SEQUENCE, &[b"key"]),
            der(EXTENSIONS, &[&der(SEQUENCE, &[&other, &names])]),
        ];
        let fields: Vec<_> = fields.iter().map(Vec::as_slice).collect();
        der(SEQUENCE, &[&der(SEQUENCE, &fields), &der(SEQUENCE, &[])])
    }

    #[test]
    fn subject_and_alternative_names_are_parsed() {
        let subject = [
            attribute(COMMON_NAME, 0x0c, "Zoë".as_bytes()),
            attribute(ORGANIZATION, 0x13, b"acme"),
            attribute(UNIT, 0x16, b"trading"),
            attribute(&[0x55, 4, 6], 0x1e, b"\0D\0E"),
        ];
        let names = [
            der(DNS, &[b"desk-7.acme.example"]),
            der(EMAIL, &[b"zoe@acme.example"]),
            der(URI, &[b"spiffe://acme/zoe"]),
            der(0x87, &[&[127, 0, 0, 1]]),
            der(DNS, &[b"desk-8.acme.example"]),
        ];
        for critical in [false, true] {
            let whole = certificate(&subject, &names, critical);
            let found = CertificateNames::parse(&whole).unwrap();
            assert_eq!(found.common, ["Zoë"]);
            assert_eq!(
                (&found.organizations[..], &found.units[..]),
                (&["acme".into()][..], &["trading".into()][..])
            );
            assert_eq!(found.dns, ["desk-7.acme.example", "desk-8.acme.example"]);
            assert_eq!(found.emails, ["zoe@acme.example"]);
            assert_eq!(found.uris, ["spiffe://acme/zoe"]);
            assert_eq!(found.not_after_unix_s, 0);
            for length in 0..whole.len() {
                // No prefix causes a panic.
                let _ = CertificateNames::parse(&whole[..length]);
            }
        }
    }

    #[test]
    fn ambiguous_names_are_rejected() {
        for (kind, name) in [
            (0x0c, &b"anna\0.example"[..]),
            (0x0c, b"anna\n"),
            (0x0c, b"\xff"),
            (0x1e, b"\0a"),
        ] {
            let whole = certificate(&[attribute(COMMON_NAME, kind, name)], &[], false);
            assert_eq!(CertificateNames::parse(&whole), None, "{name:?}");
        }
        let whole = certificate(&[], &[der(DNS, &[b"a\0b"])], false);
        assert_eq!(CertificateNames::parse(&whole), None);
        let nameless = CertificateNames::parse(&certificate(&[], &[], false)).unwrap();
        assert!(nameless.common.is_empty() && nameless.dns.is_empty());
    }
}
