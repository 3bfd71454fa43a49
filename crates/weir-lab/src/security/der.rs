//! Writer of certificates (RFC 5280) in DER, as far as labs need them. A package for this brings
//! seven others along.

use std::net::IpAddr;

/// An extension, by its object identifier.
pub(super) struct Extension {
    pub(super) id: &'static [u8],
    pub(super) is_critical: bool,
    pub(super) value: Vec<u8>,
}

/// Content of a certificate before it is signed.
pub(super) struct Statement<'a> {
    pub(super) serial: &'a [u8],
    pub(super) issuer: &'a str,
    pub(super) subject: &'a str,
    /// First and last year; both begin on January 1.
    pub(super) years: (u16, u16),
    pub(super) public_key_info: &'a [u8],
    pub(super) extensions: &'a [Extension],
}

impl Statement<'_> {
    /// Returns the part of the certificate that is signed.
    pub(super) fn to_der(&self) -> Vec<u8> {
        let extensions = self.extensions.iter().map(|extension| {
            let critical = match extension.is_critical {
                true => tlv(BOOLEAN, &[&[0xff]]),
                false => Vec::new(),
            };
            let value = tlv(OCTET_STRING, &[&extension.value]);
            sequence(&[&tlv(OBJECT_ID, &[extension.id]), &critical, &value])
        });
        let extensions = extensions.collect::<Vec<_>>().concat();
        sequence(&[
            // Version 3.
            &tlv(CONTEXT, &[&tlv(INTEGER, &[&[2]])]),
            &tlv(INTEGER, &[self.serial]),
            &signature_algorithm(),
            &name(self.issuer),
            &sequence(&[&january(self.years.0), &january(self.years.1)]),
            &name(self.subject),
            self.public_key_info,
            &tlv(CONTEXT | 3, &[&sequence(&[&extensions])]),
        ])
    }
}

/// Returns the certificate of a signed statement.
pub(super) fn certificate(statement: &[u8], signature: &[u8]) -> Vec<u8> {
    sequence(&[
        statement,
        &signature_algorithm(),
        &tlv(BIT_STRING, &[&[0], signature]),
    ])
}

/// Returns the description of an ECDSA key, a point of the curve P-256.
pub(super) fn public_key_info(point: &[u8]) -> Vec<u8> {
    let algorithm = [tlv(OBJECT_ID, &[EC_KEY]), tlv(OBJECT_ID, &[P256])].concat();
    sequence(&[&sequence(&[&algorithm]), &tlv(BIT_STRING, &[&[0], point])])
}

/// Marks an authority that issues certificates of servers and clients only.
pub(super) fn authority() -> Extension {
    let value = sequence(&[&tlv(BOOLEAN, &[&[0xff]]), &tlv(INTEGER, &[&[0]])]);
    Extension {
        id: BASIC_CONSTRAINTS,
        is_critical: true,
        value,
    }
}

/// Allows an authority to sign certificates, and other holders to sign handshakes.
pub(super) fn key_usage(is_authority: bool) -> Extension {
    let (unused, bits) = match is_authority {
        true => (1, 0b0000_0110),
        false => (7, 0b1000_0000),
    };
    Extension {
        id: KEY_USAGE,
        is_critical: true,
        value: tlv(BIT_STRING, &[&[unused, bits]]),
    }
}

/// Allows authentication with TLS.
pub(super) fn extended_key_usage(purpose: &[u8]) -> Extension {
    Extension {
        id: EXTENDED_KEY_USAGE,
        is_critical: false,
        value: sequence(&[&tlv(OBJECT_ID, &[purpose])]),
    }
}

/// Names the key of the certificate.
pub(super) fn subject_key(key_id: &[u8]) -> Extension {
    Extension {
        id: SUBJECT_KEY,
        is_critical: false,
        value: tlv(OCTET_STRING, &[key_id]),
    }
}

/// Names the key that signed the certificate.
pub(super) fn authority_key(key_id: &[u8]) -> Extension {
    Extension {
        id: AUTHORITY_KEY,
        is_critical: false,
        value: sequence(&[&tlv(IMPLICIT, &[key_id])]),
    }
}

/// Lists DNS names and IP addresses. Returns `None` for a text that is neither.
pub(super) fn subject_names(hosts: &[&str]) -> Option<Extension> {
    let names = hosts.iter().map(|host| match host.parse::<IpAddr>() {
        Ok(IpAddr::V4(address)) => Some(tlv(IMPLICIT | 7, &[&address.octets()])),
        Ok(IpAddr::V6(address)) => Some(tlv(IMPLICIT | 7, &[&address.octets()])),
        Err(_) => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte);
            let is_name = !host.is_empty() && host.bytes().all(allowed);
            is_name.then(|| tlv(IMPLICIT | 2, &[host.as_bytes()]))
        }
    });
    let names = names.collect::<Option<Vec<_>>>()?.concat();
    Some(Extension {
        id: SUBJECT_NAMES,
        is_critical: false,
        value: sequence(&[&names]),
    })
}

fn signature_algorithm() -> Vec<u8> {
    sequence(&[&tlv(OBJECT_ID, &[ECDSA_SHA256])])
}

fn name(common_name: &str) -> Vec<u8> {
    let part = |id: &[u8], text: &str| {
        let text = tlv(UTF8_STRING, &[text.as_bytes()]);
        tlv(SET, &[&sequence(&[&tlv(OBJECT_ID, &[id]), &text])])
    };
    let organization = part(ORGANIZATION, "Weir lab");
    sequence(&[&part(COMMON_NAME, common_name), &organization])
}

fn january(year: u16) -> Vec<u8> {
    match year {
        // The short form ends in 2049.
        2050.. => tlv(GENERALIZED_TIME, &[format!("{year}0101000000Z").as_bytes()]),
        _ => tlv(
            UTC_TIME,
            &[format!("{:02}0101000000Z", year % 100).as_bytes()],
        ),
    }
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tlv(SEQUENCE, parts)
}

/// Returns tag, length and value, which consists of `parts`.
fn tlv(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let bytes: usize = parts.iter().map(|part| part.len()).sum();
    let length = bytes.to_be_bytes();
    let zeros = length.iter().take_while(|byte| **byte == 0).count();
    let length = &length[zeros.min(length.len() - 1)..];
    let mut der = vec![tag];
    if bytes >= 0x80 {
        // At most eight bytes.
        der.push(0x80 | length.len() as u8);
    }
    der.extend_from_slice(length);
    der.extend(parts.concat());
    der
}

const BOOLEAN: u8 = 0x01;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const OBJECT_ID: u8 = 0x06;
const UTF8_STRING: u8 = 0x0c;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const IMPLICIT: u8 = 0x80;
const CONTEXT: u8 = 0xa0;

const ECDSA_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const EC_KEY: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const P256: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
const COMMON_NAME: &[u8] = &[0x55, 4, 3];
const ORGANIZATION: &[u8] = &[0x55, 4, 10];
const SUBJECT_KEY: &[u8] = &[0x55, 0x1d, 14];
const KEY_USAGE: &[u8] = &[0x55, 0x1d, 15];
const SUBJECT_NAMES: &[u8] = &[0x55, 0x1d, 17];
const BASIC_CONSTRAINTS: &[u8] = &[0x55, 0x1d, 19];
const AUTHORITY_KEY: &[u8] = &[0x55, 0x1d, 35];
const EXTENDED_KEY_USAGE: &[u8] = &[0x55, 0x1d, 37];
pub(super) const SERVER_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 1];
pub(super) const CLIENT_AUTH: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 3, 2];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_the_shortest_form() {
        let start = |bytes: usize| tlv(4, &[&vec![0; bytes]])[..4.min(2 + bytes)].to_vec();
        assert_eq!(start(0), [4, 0]);
        assert_eq!(start(0x7f), [4, 0x7f, 0, 0]);
        assert_eq!(start(0x80), [4, 0x81, 0x80, 0]);
        assert_eq!(start(0x1234), [4, 0x82, 0x12, 0x34]);
    }

    #[test]
    fn years_from_2050_have_four_digits() {
        assert_eq!(january(2001)[2..], *b"010101000000Z");
        assert_eq!(january(2060)[2..], *b"20600101000000Z");
    }
}
