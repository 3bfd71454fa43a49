//! Reader of PKCS#12 stores (RFC 7292) as Java and OpenSSL write them.

use aws_lc_rs::hmac;

use super::contents::{StoreContents, StoredKey};
use super::der::{BMP_STRING, Der, INTEGER, OCTET_STRING, OID, SEQUENCE, SET, context};
use super::encryption::{self, DecryptError};
use super::error::StoreError;
use super::x509::Certificate;

/// Reads a store. Without a password only unencrypted contents can be read.
pub(super) fn read(
    bytes: &[u8],
    password: Option<&str>,
    key_password: Option<&str>,
    password_property: &'static str,
) -> Result<StoreContents, StoreError> {
    let mut file = Der(bytes);
    let mut store = file.expect(SEQUENCE).map_err(|_| truncated())?;
    let version = store.unsigned()?;
    if version != 3 {
        let what = format!("PKCS12 version {version}");
        return Err(StoreError::Unsupported { what });
    }
    let mut safe = store.expect(SEQUENCE)?;
    if safe.expect(OID)?.0 != DATA {
        let what = "a signature in place of a password".to_owned();
        return Err(StoreError::Unsupported { what });
    }
    let safe = safe.expect(context(0))?.expect(OCTET_STRING)?.0;
    if let Some(mac) = store.optional(SEQUENCE)? {
        // Without a password Java does not check the store.
        if let Some(password) = password {
            verify(mac, safe, password, password_property)?;
        }
    }
    let passwords = Passwords {
        store: password,
        key: key_password,
        property: password_property,
    };
    let mut bags = Bags::default();
    let mut parts = Der(safe).expect(SEQUENCE)?;
    while !parts.is_empty() {
        part(parts.expect(SEQUENCE)?, &passwords, &mut bags)?;
    }
    bags.finish()
}

struct Passwords<'a> {
    store: Option<&'a str>,
    key: Option<&'a str>,
    property: &'static str,
}

fn verify(
    mut mac: Der<'_>,
    safe: &[u8],
    password: &str,
    password_property: &'static str,
) -> Result<(), StoreError> {
    let mut digest = mac.expect(SEQUENCE)?;
    let (oid, parameters) = digest.algorithm()?;
    let expected = digest.expect(OCTET_STRING)?.0;
    let salt = mac.expect(OCTET_STRING)?.0;
    let count = if mac.is_empty() { 1 } else { mac.unsigned()? };
    let wrong = || StoreError::WrongPassword { password_property };
    let matches = |algorithm, key: &[u8]| {
        hmac::verify(&hmac::Key::new(algorithm, key), safe, expected).is_ok()
    };
    if oid == PBMAC1 {
        let (algorithm, key) = pbmac1(parameters, password).map_err(|it| it.or_wrong(wrong()))?;
        return matches(algorithm, &key).then_some(()).ok_or_else(wrong);
    }
    let algorithm = match oid {
        SHA1 => hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        SHA256 => hmac::HMAC_SHA256,
        SHA384 => hmac::HMAC_SHA384,
        SHA512 => hmac::HMAC_SHA512,
        _ => {
            let what = format!("the hash function {}", encryption::dotted(oid));
            return Err(StoreError::Unsupported { what });
        }
    };
    // Programs disagree about the form of an empty password.
    let forms = match password.is_empty() {
        true => vec![encryption::bmp(""), Vec::new()],
        false => vec![encryption::bmp(password)],
    };
    for form in forms {
        let key = encryption::pkcs12_mac_key(algorithm, &form, salt, count);
        if matches(algorithm, &key.map_err(|it| it.or_wrong(wrong()))?) {
            return Ok(());
        }
    }
    Err(wrong())
}

/// Returns the algorithm and key of a checksum after RFC 9579.
fn pbmac1(
    mut parameters: Der<'_>,
    password: &str,
) -> Result<(hmac::Algorithm, Vec<u8>), DecryptError> {
    let mut parameters = parameters.expect(SEQUENCE)?;
    let (kdf, kdf_parameters) = parameters.algorithm()?;
    let (scheme, _) = parameters.algorithm()?;
    let (algorithm, length) = match scheme {
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x09] => (hmac::HMAC_SHA256, 32),
        [0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x02, 0x0b] => (hmac::HMAC_SHA512, 64),
        other => {
            let what = format!("the checksum {}", encryption::dotted(other));
            return Err(DecryptError::Unsupported(what));
        }
    };
    let key = encryption::pbkdf2_key(kdf, kdf_parameters, password, length)?;
    Ok((algorithm, key))
}

/// Reads one ContentInfo, encrypted or not.
fn part(mut part: Der<'_>, passwords: &Passwords<'_>, bags: &mut Bags) -> Result<(), StoreError> {
    let kind = part.expect(OID)?.0;
    let mut content = part.expect(context(0))?;
    if kind == DATA {
        let contents = Der(content.expect(OCTET_STRING)?.0);
        return bags.read(contents, passwords, 0);
    }
    if kind != ENCRYPTED_DATA {
        let what = format!("content of type {}", encryption::dotted(kind));
        return Err(StoreError::Unsupported { what });
    }
    let mut data = content.expect(SEQUENCE)?;
    data.expect(INTEGER)?;
    let mut info = data.expect(SEQUENCE)?;
    info.expect(OID)?;
    let (oid, parameters) = info.algorithm()?;
    let encrypted = info.expect(CONTEXT_0_PRIMITIVE)?.0;
    let password_property = passwords.property;
    let password = passwords.store;
    let password = password.ok_or(StoreError::NoPassword { password_property })?;
    let wrong = StoreError::WrongPassword { password_property };
    let plain = encryption::decrypt(oid, parameters, encrypted, password);
    let plain = plain.map_err(|error| error.or_wrong(wrong))?;
    bags.read(Der(&plain), passwords, 0)
}

/// Keys and certificates in file order.
#[derive(Default)]
struct Bags {
    keys: Vec<KeyBag>,
    certificates: Vec<CertificateBag>,
}

struct KeyBag {
    alias: String,
    id: Option<Vec<u8>>,
    key: Result<Vec<u8>, StoreError>,
}

struct CertificateBag {
    id: Option<Vec<u8>>,
    der: Vec<u8>,
}

impl Bags {
    fn read(
        &mut self,
        mut contents: Der<'_>,
        passwords: &Passwords<'_>,
        depth: usize,
    ) -> Result<(), StoreError> {
        if depth > DEPTH_MAX {
            return Err(StoreError::Damaged("nested too deeply"));
        }
        let mut contents = contents.expect(SEQUENCE)?;
        while !contents.is_empty() {
            let mut bag = contents.expect(SEQUENCE)?;
            let kind = bag.expect(OID)?.0;
            let mut value = bag.expect(context(0))?;
            let (alias, id) = attributes(bag)?;
            match kind.strip_prefix(BAG) {
                Some([1]) => {
                    let (_, _, key) = value.any()?;
                    let key = Ok(key.to_vec());
                    self.keys.push(KeyBag { alias, id, key });
                }
                Some([2]) => {
                    let password = passwords.key.or(passwords.store);
                    let key = pkcs8(value, password);
                    self.keys.push(KeyBag { alias, id, key });
                }
                Some([3]) => {
                    let mut certificate = value.expect(SEQUENCE)?;
                    if certificate.expect(OID)?.0 != X509_CERTIFICATE {
                        let what = "a certificate that is not X.509".to_owned();
                        return Err(StoreError::Unsupported { what });
                    }
                    let der = certificate.expect(context(0))?.expect(OCTET_STRING)?;
                    let der = der.0.to_vec();
                    self.certificates.push(CertificateBag { id, der });
                }
                Some([6]) => self.read(value, passwords, depth + 1)?,
                // Secret keys and revocation lists are of no use here.
                _ => {}
            }
        }
        Ok(())
    }

    fn finish(self) -> Result<StoreContents, StoreError> {
        let mut contents = StoreContents::default();
        for key in self.keys {
            let chain = chain(key.id.as_deref(), &self.certificates)?;
            contents.keys.push(StoredKey {
                alias: key.alias,
                key: key.key,
                chain,
            });
        }
        let trusted = self.certificates.into_iter().map(|it| it.der);
        contents.trusted = trusted.collect();
        Ok(contents)
    }
}

/// Decrypts an EncryptedPrivateKeyInfo.
pub(super) fn pkcs8(mut value: Der<'_>, password: Option<&str>) -> Result<Vec<u8>, StoreError> {
    let mut info = value.expect(SEQUENCE)?;
    let (oid, parameters) = info.algorithm()?;
    let encrypted = info.expect(OCTET_STRING)?.0;
    let password = password.ok_or(StoreError::NoKeyPassword)?;
    let plain = encryption::decrypt(oid, parameters, encrypted, password);
    let plain = plain.map_err(|error| error.or_wrong(StoreError::WrongKeyPassword))?;
    // By chance a wrong password leaves valid padding.
    let is_key = Der(&plain).any().is_ok_and(|(tag, ..)| tag == SEQUENCE);
    is_key.then_some(plain).ok_or(StoreError::WrongKeyPassword)
}

/// Returns the friendly name and the local key id of a bag.
fn attributes(mut bag: Der<'_>) -> Result<(String, Option<Vec<u8>>), StoreError> {
    let (mut alias, mut id) = (String::new(), None);
    let mut set = bag.optional(SET)?.unwrap_or(Der(&[]));
    while !set.is_empty() {
        let mut attribute = set.expect(SEQUENCE)?;
        let kind = attribute.expect(OID)?.0;
        let mut values = attribute.expect(SET)?;
        match kind {
            FRIENDLY_NAME => {
                let text = values.expect(BMP_STRING)?.0.chunks_exact(2);
                let units: Vec<_> = text.map(|it| u16::from_be_bytes([it[0], it[1]])).collect();
                alias = String::from_utf16_lossy(&units);
            }
            LOCAL_KEY_ID => id = Some(values.expect(OCTET_STRING)?.0.to_vec()),
            _ => {}
        }
    }
    Ok((alias, id))
}

/// Returns the certificate with the key's id, followed by its issuers.
fn chain(id: Option<&[u8]>, bags: &[CertificateBag]) -> Result<Vec<Vec<u8>>, StoreError> {
    let own = bags
        .iter()
        .find(|bag| id.is_some() && bag.id.as_deref() == id);
    // Without an id there is usually one certificate, or the first belongs to the key.
    let Some(own) = own.or_else(|| bags.first()) else {
        return Ok(Vec::new());
    };
    let mut chain = vec![own.der.clone()];
    let mut last = Certificate::parse(&own.der)?;
    while last.issuer != last.subject && chain.len() < CHAIN_MAX {
        let mut next = None;
        for bag in bags {
            let candidate = Certificate::parse(&bag.der)?;
            if candidate.subject == last.issuer {
                next = Some((bag, candidate));
            }
        }
        let Some((bag, certificate)) = next else {
            break;
        };
        chain.push(bag.der.clone());
        last = certificate;
    }
    Ok(chain)
}

fn truncated() -> StoreError {
    StoreError::Damaged("the file is shorter than it states, or not in DER")
}

const DEPTH_MAX: usize = 8;
const CHAIN_MAX: usize = 16;
const CONTEXT_0_PRIMITIVE: u8 = 0x80;

const DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x01];
const ENCRYPTED_DATA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x07, 0x06];
/// 1.2.840.113549.1.12.10.1, followed by the kind of bag.
const BAG: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x0c, 0x0a, 0x01];
const X509_CERTIFICATE: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x16, 0x01];
const FRIENDLY_NAME: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x14];
const LOCAL_KEY_ID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x09, 0x15];
const PBMAC1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x05, 0x0e];
const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];
const SHA256: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01];
const SHA384: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x02];
const SHA512: &[u8] = &[0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x03];
