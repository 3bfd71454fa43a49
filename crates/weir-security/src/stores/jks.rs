//! Reader of Java's JKS format: big-endian numbers, unencrypted certificates, keys encrypted with
//! Sun's own algorithm, and a checksum over the password and everything before it.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Context, SHA1_FOR_LEGACY_USE_ONLY};

use super::contents::{StoreContents, StoredKey};
use super::der::{Der, OCTET_STRING, SEQUENCE};
use super::error::StoreError;

pub(super) const MAGIC: [u8; 4] = [0xfe, 0xed, 0xfe, 0xed];
pub(super) const MAGIC_JCEKS: [u8; 4] = [0xce, 0xce, 0xce, 0xce];

/// Reads a store. Without a password its integrity is not checked, as in Java; keys then need
/// `key_password`.
pub(super) fn read(
    bytes: &[u8],
    password: Option<&str>,
    key_password: Option<&str>,
    password_property: &'static str,
) -> Result<StoreContents, StoreError> {
    let split = bytes.len().checked_sub(SHA1_BYTES);
    let (body, checksum) = bytes.split_at(split.ok_or(StoreError::Damaged("too short"))?);
    let mut reader = Reader(body);
    if reader.take(4)? != MAGIC {
        return Err(StoreError::Damaged("no JKS header"));
    }
    let version = reader.number()?;
    if !(1..=2).contains(&version) {
        let what = format!("JKS version {version}");
        return Err(StoreError::Unsupported { what });
    }
    // A truncated file is reported as such, not as a wrong password.
    let parsed = entries(&mut reader, version)?;
    if let Some(password) = password {
        let expected = sha1(&[&utf16(password), SALT, body]);
        verify_slices_are_equal(&expected, checksum)
            .map_err(|_| StoreError::WrongPassword { password_property })?;
    }
    let mut contents = StoreContents::default();
    for (alias, key, chain) in parsed {
        let Some(key) = key else {
            contents.trusted.extend(chain);
            continue;
        };
        contents.keys.push(StoredKey {
            alias,
            key: JksKey::parse(key).and_then(|it| it.decrypt(key_password.or(password))),
            chain,
        });
    }
    Ok(contents)
}

/// Alias, encrypted key if it is a key entry, and certificates of one entry.
type Parsed<'a> = (String, Option<&'a [u8]>, Vec<Vec<u8>>);

fn entries<'a>(reader: &mut Reader<'a>, version: u32) -> Result<Vec<Parsed<'a>>, StoreError> {
    let mut parsed = Vec::new();
    for _ in 0..reader.number()? {
        let tag = reader.number()?;
        let alias = reader.text()?;
        reader.take(TIMESTAMP_BYTES)?;
        let (key, count) = match tag {
            KEY => (Some(reader.bytes()?), reader.number()?),
            CERTIFICATE => (None, 1),
            _ => return Err(StoreError::Damaged("unknown kind of entry")),
        };
        let mut chain = Vec::new();
        for _ in 0..count {
            if version == 2 && reader.text()? != "X.509" {
                return Err(StoreError::Unsupported {
                    what: "a certificate that is not X.509".to_owned(),
                });
            }
            chain.push(reader.bytes()?.to_vec());
        }
        parsed.push((alias, key, chain));
    }
    match reader.0.is_empty() {
        true => Ok(parsed),
        false => Err(StoreError::Damaged("bytes after the last entry")),
    }
}

/// A key encrypted with Sun's algorithm: a stream of SHA-1 digests, and a checksum.
struct JksKey<'a> {
    salt: &'a [u8],
    encrypted: &'a [u8],
    check: &'a [u8],
}

impl<'a> JksKey<'a> {
    fn parse(bytes: &'a [u8]) -> Result<Self, StoreError> {
        let mut info = Der(bytes).expect(SEQUENCE)?;
        let (oid, _) = info.algorithm()?;
        if oid != KEY_PROTECTOR {
            return Err(StoreError::Unsupported {
                what: "an unknown key encryption".to_owned(),
            });
        }
        let data = info.expect(OCTET_STRING)?.0;
        let end = data.len().checked_sub(SHA1_BYTES);
        let end = end.filter(|end| *end > SHA1_BYTES);
        let end = end.ok_or(StoreError::Damaged("short key"))?;
        Ok(Self {
            salt: &data[..SHA1_BYTES],
            encrypted: &data[SHA1_BYTES..end],
            check: &data[end..],
        })
    }

    fn decrypt(&self, password: Option<&str>) -> Result<Vec<u8>, StoreError> {
        let password = utf16(password.ok_or(StoreError::NoKeyPassword)?);
        let mut block = sha1(&[&password, self.salt]);
        let mut plain = Vec::with_capacity(self.encrypted.len());
        for piece in self.encrypted.chunks(SHA1_BYTES) {
            plain.extend(piece.iter().zip(&block).map(|(byte, mask)| byte ^ mask));
            block = sha1(&[&password, &block]);
        }
        verify_slices_are_equal(&sha1(&[&password, &plain]), self.check)
            .map_err(|_| StoreError::WrongKeyPassword)?;
        Ok(plain)
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8], StoreError> {
        let split = self.0.split_at_checked(length);
        let (taken, rest) = split.ok_or(StoreError::Damaged("it ends inside an entry"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn number(&mut self) -> Result<u32, StoreError> {
        Ok(self
            .take(4)?
            .iter()
            .fold(0, |sum, byte| sum << 8 | u32::from(*byte)))
    }

    fn bytes(&mut self) -> Result<&'a [u8], StoreError> {
        let length = self.number()?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    /// Reads a string in Java's modified UTF-8, which differs from UTF-8 only for rare characters.
    fn text(&mut self) -> Result<String, StoreError> {
        let length = self.take(2)?;
        let length = usize::from(length[0]) << 8 | usize::from(length[1]);
        Ok(String::from_utf8_lossy(self.take(length)?).into_owned())
    }
}

fn sha1(parts: &[&[u8]]) -> Vec<u8> {
    let mut context = Context::new(&SHA1_FOR_LEGACY_USE_ONLY);
    for part in parts {
        context.update(part);
    }
    context.finish().as_ref().to_vec()
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_be_bytes).collect()
}

const KEY: u32 = 1;
const CERTIFICATE: u32 = 2;
const TIMESTAMP_BYTES: usize = 8;
const SHA1_BYTES: usize = 20;
/// Text that Java hashes after the password.
const SALT: &[u8] = b"Mighty Aphrodite";
/// Object identifier 1.3.6.1.4.1.42.2.17.1.1.
const KEY_PROTECTOR: [u8; 10] = [0x2b, 0x06, 0x01, 0x04, 0x01, 0x2a, 0x02, 0x11, 0x01, 0x01];
