//! Trusted authorities.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

use rustls_pki_types::CertificateDer;

use super::error::StoreError;
use super::{StoreFormat, StorePasswords, pem, read_file, read_trusted};

/// Trusted authorities.
#[derive(Clone, PartialEq, Eq)]
pub enum Roots {
    /// Certificates that this machine trusts.
    System,
    /// Only these certificates; never empty.
    Certificates(Vec<CertificateDer<'static>>),
}

impl Roots {
    /// Reads a PEM file with at least one certificate.
    ///
    /// # Errors
    /// The file cannot be read or has no valid certificate.
    pub fn from_pem_file(path: &Path) -> Result<Self, StoreError> {
        let (format, passwords) = (Some(StoreFormat::Pem), NO_PASSWORDS);
        read_trusted(&read_file(path)?, format, passwords).map(Self::Certificates)
    }

    /// Returns the certificates; reads those of the machine from where OpenSSL looks for them:
    /// the file in `SSL_CERT_FILE`, or else the usual places of Linux distributions.
    ///
    /// # Errors
    /// The machine has no such file, or it cannot be read.
    pub fn certificates(&self) -> Result<Cow<'_, [CertificateDer<'static>]>, StoreError> {
        match self {
            Self::Certificates(list) => Ok(Cow::Borrowed(list)),
            Self::System => system().map(Cow::Owned),
        }
    }
}

impl fmt::Debug for Roots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System => f.write_str("System"),
            Self::Certificates(list) => write!(f, "Certificates({})", list.len()),
        }
    }
}

fn system() -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let chosen = std::env::var_os("SSL_CERT_FILE").map(PathBuf::from);
    let usual = FILES.iter().map(PathBuf::from).find(|path| path.exists());
    let path = chosen.or(usual).ok_or(StoreError::NoSystemRoots)?;
    read(&path)
}

fn read(path: &Path) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let list = pem::read(&read_file(path)?)?.certificates;
    match list.is_empty() {
        true => Err(StoreError::NoSystemRoots),
        false => Ok(list.into_iter().map(CertificateDer::from).collect()),
    }
}

/// Debian, Fedora, openSUSE, Alpine.
const FILES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// PEM files of certificates need no password.
const NO_PASSWORDS: StorePasswords<'static> = StorePasswords {
    store: None,
    key: None,
    property: "",
};
