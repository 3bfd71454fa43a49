//! Key and trust stores: JKS, PKCS12 and PEM, read by Weir so that both TLS libraries get the same
//! certificates (decision 0069).

mod contents;
mod der;
mod encryption;
mod error;
mod jks;
pub(crate) mod pem;
mod pkcs12;
mod roots;
mod x509;

use std::io::Read;
use std::path::Path;
use std::time::SystemTime;

use rustls_pki_types::{CertificateDer, PrivateKeyDer};

pub use error::StoreError;
pub use roots::Roots;

use contents::StoreContents;
use x509::Certificate;

/// Certificate chain of the client, its own certificate first, with the private key.
#[derive(PartialEq, Eq)]
pub struct ClientIdentity {
    /// Certificates; never empty.
    pub chain: Vec<CertificateDer<'static>>,
    /// Unencrypted private key.
    pub key: PrivateKeyDer<'static>,
}

impl Clone for ClientIdentity {
    fn clone(&self) -> Self {
        Self {
            chain: self.chain.clone(),
            key: self.key.clone_key(),
        }
    }
}

impl std::fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ClientIdentity({} certificates, ***)", self.chain.len())
    }
}

/// Format of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display, strum::EnumString)]
#[strum(ascii_case_insensitive)]
pub(crate) enum StoreFormat {
    /// Java's old format.
    #[strum(serialize = "JKS")]
    Jks,
    /// The format that Java and OpenSSL share.
    #[strum(serialize = "PKCS12", serialize = "PFX", serialize = "P12")]
    Pkcs12,
    /// Certificates and keys as text.
    #[strum(serialize = "PEM")]
    Pem,
}

/// Passwords of a store, and the name of the property with the store password, for errors.
#[derive(Clone, Copy)]
pub(crate) struct StorePasswords<'a> {
    pub(crate) store: Option<&'a str>,
    pub(crate) key: Option<&'a str>,
    pub(crate) property: &'static str,
}

/// Reads a file of at most 16 MiB.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, StoreError> {
    let failed = |error: std::io::Error| StoreError::Io(error.to_string());
    let file = std::fs::File::open(path).map_err(failed)?;
    let mut bytes = Vec::new();
    let mut file = file.take(FILE_BYTES_MAX + 1);
    file.read_to_end(&mut bytes).map_err(failed)?;
    match bytes.len() as u64 {
        0 => Err(StoreError::Empty),
        1..=FILE_BYTES_MAX => Ok(bytes),
        _ => Err(StoreError::TooLarge {
            max: FILE_BYTES_MAX,
        }),
    }
}

/// Returns the certificates that a store trusts. Java also trusts the certificates of key entries.
pub(crate) fn read_trusted(
    bytes: &[u8],
    format: Option<StoreFormat>,
    passwords: StorePasswords<'_>,
) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let trusted = match detect(bytes, format)? {
        StoreFormat::Pem => pem::read(bytes)?.certificates,
        binary => {
            let mut contents = read_binary(bytes, binary, passwords)?;
            for key in &mut contents.keys {
                contents.trusted.extend(key.chain.drain(..).take(1));
            }
            contents.trusted
        }
    };
    if trusted.is_empty() {
        return Err(StoreError::NoCertificate);
    }
    for der in &trusted {
        Certificate::parse(der)?;
    }
    // An expired authority is accepted next to valid ones.
    let now = SystemTime::now();
    let validity = trusted.iter().map(|der| {
        let certificate = Certificate::parse(der);
        certificate.and_then(|it| it.check_validity(now))
    });
    let checked: Vec<_> = validity.collect();
    if checked.iter().all(Result::is_err) {
        checked.into_iter().collect::<Result<(), _>>()?;
    }
    let mut unique: Vec<CertificateDer<'static>> = Vec::new();
    for der in trusted {
        let der = CertificateDer::from(der);
        if !unique.contains(&der) {
            unique.push(der);
        }
    }
    Ok(unique)
}

/// Returns the key of a store with its certificates. Of several keys, the first one is used, and a
/// warning names the others.
pub(crate) fn read_identity(
    bytes: &[u8],
    format: Option<StoreFormat>,
    passwords: StorePasswords<'_>,
) -> Result<ClientIdentity, StoreError> {
    match detect(bytes, format)? {
        StoreFormat::Pem => {
            let contents = pem::read(bytes)?;
            pem_identity(contents.certificates, contents.keys, passwords)
        }
        binary => {
            let contents = read_binary(bytes, binary, passwords)?;
            let aliases: Vec<_> = contents.keys.iter().map(|key| key.alias.clone()).collect();
            let mut keys = contents.keys.into_iter();
            let key = keys.next().ok_or(StoreError::NoKey)?;
            if aliases.len() > 1 {
                let (used, others) = (&aliases[0], aliases[1..].join(", "));
                tracing::warn!(used, others, "key store has several keys, using the first");
            }
            if key.chain.is_empty() {
                return Err(StoreError::NoChain { alias: key.alias });
            }
            identity(key.chain, PrivateKeyDer::Pkcs8(key.key?.into()))
        }
    }
}

/// Returns an identity from two PEM texts.
pub(crate) fn read_identity_pem(
    chain: &[u8],
    key: &[u8],
    passwords: StorePasswords<'_>,
) -> Result<ClientIdentity, StoreError> {
    pem_identity(
        pem::read(chain)?.certificates,
        pem::read(key)?.keys,
        passwords,
    )
}

fn pem_identity(
    chain: Vec<Vec<u8>>,
    keys: Vec<pem::PemKey>,
    passwords: StorePasswords<'_>,
) -> Result<ClientIdentity, StoreError> {
    let key = keys.into_iter().next().ok_or(StoreError::NoKey)?;
    if chain.is_empty() {
        return Err(StoreError::NoCertificate);
    }
    identity(chain, key.decrypt(passwords.key.or(passwords.store))?)
}

/// Returns the identity. Checks that its certificate is valid and has the type of the key.
fn identity(
    chain: Vec<Vec<u8>>,
    key: PrivateKeyDer<'static>,
) -> Result<ClientIdentity, StoreError> {
    let own = chain.first().ok_or(StoreError::NoCertificate)?;
    let own = Certificate::parse(own)?;
    own.check_validity(SystemTime::now())?;
    let key_type = match &key {
        PrivateKeyDer::Pkcs8(der) => x509::pkcs8_key_type(der.secret_pkcs8_der())?,
        PrivateKeyDer::Pkcs1(_) => "RSA",
        _ => "EC",
    };
    let certificate = own.key_type()?;
    if certificate != key_type {
        let key = key_type;
        return Err(StoreError::KeyMismatch { key, certificate });
    }
    for der in &chain[1..] {
        Certificate::parse(der)?;
    }
    Ok(ClientIdentity {
        chain: chain.into_iter().map(CertificateDer::from).collect(),
        key,
    })
}

fn read_binary(
    bytes: &[u8],
    format: StoreFormat,
    passwords: StorePasswords<'_>,
) -> Result<StoreContents, StoreError> {
    let StorePasswords {
        store,
        key,
        property,
    } = passwords;
    match format {
        StoreFormat::Jks => jks::read(bytes, store, key, property),
        _ => pkcs12::read(bytes, store, key, property),
    }
}

/// Returns the format of a store. As in Java, a store that is configured as JKS may be PKCS12, and
/// vice versa.
fn detect(bytes: &[u8], configured: Option<StoreFormat>) -> Result<StoreFormat, StoreError> {
    let begins = |magic: &[u8]| bytes.starts_with(magic);
    let found = if begins(&jks::MAGIC) {
        StoreFormat::Jks
    } else if begins(&jks::MAGIC_JCEKS) {
        return Err(StoreError::Jceks);
    } else if begins(&[der::SEQUENCE]) {
        StoreFormat::Pkcs12
    } else if bytes.windows(PEM.len()).any(|window| window == PEM) {
        StoreFormat::Pem
    } else {
        return Err(match bytes.is_empty() {
            true => StoreError::Empty,
            false => StoreError::UnknownFormat,
        });
    };
    let name = |format| match format {
        StoreFormat::Jks => "JKS",
        StoreFormat::Pkcs12 => "PKCS12",
        StoreFormat::Pem => "PEM",
    };
    match configured {
        Some(configured) if (configured == StoreFormat::Pem) != (found == StoreFormat::Pem) => {
            Err(StoreError::OtherFormat {
                expected: name(configured),
                found: name(found),
            })
        }
        _ => Ok(found),
    }
}

/// Reads bytes as a store of each format.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(data: &[u8]) {
    let passwords = StorePasswords {
        store: Some("storepass"),
        key: None,
        property: "ssl.keystore.password",
    };
    let _ = read_trusted(data, None, passwords);
    let _ = read_identity(data, None, passwords);
    let _ = pkcs12::pkcs8(der::Der(data), Some("keypass"));
    let _ = Certificate::parse(data).and_then(|it| it.check_validity(SystemTime::now()));
    let _ = x509::pkcs8_key_type(data);
}

const FILE_BYTES_MAX: u64 = 16 << 20;
const PEM: &[u8] = b"-----BEGIN ";

#[cfg(test)]
#[allow(clippy::print_stderr)] // skipped tests and stubs are reported
mod tests;
