//! PEM: reader of certificates and keys, and writer for librdkafka.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::PrivateKeyDer;
use rustls_pki_types::pem::{PemObject, SectionKind};

use super::der::{Der, SEQUENCE};
use super::error::StoreError;
use super::pkcs12;

/// Certificates and keys of a PEM text, in order.
#[derive(Default)]
pub(super) struct PemContents {
    pub(super) certificates: Vec<Vec<u8>>,
    pub(super) keys: Vec<PemKey>,
}

/// A private key of a PEM text.
pub(super) enum PemKey {
    Plain(PrivateKeyDer<'static>),
    /// PKCS#8, encrypted with a password.
    Encrypted(Vec<u8>),
}

impl PemKey {
    pub(super) fn decrypt(
        self,
        password: Option<&str>,
    ) -> Result<PrivateKeyDer<'static>, StoreError> {
        match self {
            Self::Plain(key) => Ok(key),
            Self::Encrypted(der) => {
                let key = pkcs12::pkcs8(Der(&der), password)?;
                Ok(PrivateKeyDer::Pkcs8(key.into()))
            }
        }
    }
}

/// Reads a PEM text. Text between sections is ignored.
pub(super) fn read(text: &[u8]) -> Result<PemContents, StoreError> {
    let has = |words: &[u8]| text.windows(words.len()).any(|window| window == words);
    if has(b"Proc-Type: 4,ENCRYPTED") {
        let what = "the old encryption of PEM keys".to_owned();
        return Err(StoreError::Unsupported { what });
    }
    if has(b"BEGIN DSA PRIVATE KEY") {
        let found = "DSA".to_owned();
        return Err(StoreError::KeyType { found });
    }
    let mut contents = PemContents::default();
    // The library skips encrypted keys, so they are read separately.
    for der in encrypted_sections(text)? {
        contents.keys.push(PemKey::Encrypted(der));
    }
    for section in <(SectionKind, Vec<u8>)>::pem_slice_iter(text) {
        let (kind, der) = section.map_err(|_| StoreError::Damaged("invalid PEM"))?;
        let key = match kind {
            SectionKind::Certificate => {
                contents.certificates.push(der);
                continue;
            }
            SectionKind::PrivateKey => PrivateKeyDer::Pkcs8(der.into()),
            SectionKind::RsaPrivateKey => PrivateKeyDer::Pkcs1(der.into()),
            SectionKind::EcPrivateKey => PrivateKeyDer::Sec1(der.into()),
            _ => continue,
        };
        if Der(key.secret_der()).any().map(|(tag, ..)| tag) != Ok(SEQUENCE) {
            return Err(StoreError::Damaged("the private key is invalid"));
        }
        contents.keys.push(PemKey::Plain(key));
    }
    Ok(contents)
}

fn encrypted_sections(text: &[u8]) -> Result<Vec<Vec<u8>>, StoreError> {
    let text = String::from_utf8_lossy(text);
    let mut found = Vec::new();
    let mut rest = &*text;
    while let Some((_, begun)) = rest.split_once(BEGIN_ENCRYPTED) {
        let damaged = StoreError::Damaged("invalid PEM");
        let (body, after) = begun
            .split_once("-----END")
            .ok_or_else(|| damaged.clone())?;
        let body: String = body.chars().filter(|it| !it.is_whitespace()).collect();
        found.push(STANDARD.decode(body).map_err(|_| damaged)?);
        rest = after;
    }
    Ok(found)
}

/// Writes a section.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    let mut rest = &*body;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE_BYTES));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// Writes a private key.
pub(crate) fn encode_key(key: &PrivateKeyDer<'_>) -> String {
    let label = match key {
        PrivateKeyDer::Pkcs1(_) => "RSA PRIVATE KEY",
        PrivateKeyDer::Sec1(_) => "EC PRIVATE KEY",
        _ => "PRIVATE KEY",
    };
    encode(label, key.secret_der())
}

const BEGIN_ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const LINE_BYTES: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_text_is_read_back() {
        let der: Vec<u8> = (0..=255).collect();
        let text = encode("CERTIFICATE", &der);
        assert!(text.lines().all(|line| line.len() <= LINE_BYTES));
        let contents = read(text.as_bytes()).expect("valid");
        assert_eq!(contents.certificates, [der]);
        assert!(contents.keys.is_empty());
    }

    #[test]
    fn damaged_and_old_texts_are_rejected() {
        let damaged = read(b"-----BEGIN CERTIFICATE-----\n%%%\n-----END CERTIFICATE-----\n");
        assert!(matches!(damaged, Err(StoreError::Damaged(_))));
        let cut = read(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n");
        assert!(matches!(cut, Err(StoreError::Damaged(_))));
        let old = read(b"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n");
        assert!(matches!(old, Err(StoreError::Unsupported { .. })));
    }
}
