//! Where the keys of an issuer come from: a file that is watched, or a web server.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_identity::config::{IssuerConfig, KeyLocation};
use weir_identity::keys::{
    DiscoveryError, KeyError, KeySet, KeySetError, VerificationKey, discovered_keys_url,
};
use weir_identity::{AlgorithmSet, SafeUrl};
use weir_net::tls::FileWatcher;
use weir_security::{HttpError, Roots, StoreError, fetch_document};

/// Limit of one request, from the name of the server to the last byte.
const FETCH_TIMEOUT: Duration = Duration::from_secs(4);
const DOCUMENT_BYTES_MAX: u64 = 256 << 10;

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum KeyFileError {
    #[error("{path}: cannot read the file: {error}")]
    Read { path: String, error: std::io::Error },
    #[error("{path}: more than {DOCUMENT_BYTES_MAX} bytes")]
    Size { path: String },
    #[error("{path}: {error}")]
    KeySet { path: String, error: KeySetError },
    #[error("{path}: {error}")]
    Key { path: String, error: KeyError },
}

/// Reason why keys were not fetched.
#[derive(Debug, thiserror::Error)]
pub(super) enum FetchError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    KeySet(#[from] KeySetError),
}

/// Source of an issuer's keys.
#[derive(Debug)]
pub(super) enum KeySource {
    File(KeyFile),
    Web(KeyServer),
}

/// File with the keys of an issuer.
pub(super) struct KeyFile {
    kind: KeyFileKind,
    path: PathBuf,
    algorithms: AlgorithmSet,
    watched: FileWatcher,
    /// The keys of the first read.
    pub(super) keys: Option<KeySet>,
}

#[derive(Debug, Clone, Copy)]
enum KeyFileKind {
    KeySet,
    Pem,
    Secret,
}

/// Server with the keys of an issuer.
#[derive(Debug)]
pub(super) struct KeyServer {
    url: SafeUrl,
    /// `true` if the URL is that of a discovery document.
    discovers: bool,
    issuer: Box<str>,
    algorithms: AlgorithmSet,
    roots: Roots,
}

impl KeySource {
    /// Reads the authorities of an issuer's server.
    pub(super) fn roots(issuer: &IssuerConfig, dir: &Path) -> Result<Roots, StoreError> {
        match issuer.ca_file.as_deref() {
            None => Ok(Roots::System),
            Some(file) => Roots::from_pem_file(&dir.join(file)),
        }
    }

    /// Reads the file with the keys of an issuer, if there is one.
    pub(super) fn open(
        issuer: &IssuerConfig,
        roots: Roots,
        dir: &Path,
    ) -> Result<Self, KeyFileError> {
        let (kind, file) = match &issuer.keys {
            KeyLocation::KeySetFile(file) => (KeyFileKind::KeySet, file),
            KeyLocation::PemFile(file) => (KeyFileKind::Pem, file),
            KeyLocation::SecretFile(file) => (KeyFileKind::Secret, file),
            KeyLocation::Discovery(url) | KeyLocation::Url(url) => {
                return Ok(Self::Web(KeyServer {
                    url: url.clone(),
                    discovers: matches!(issuer.keys, KeyLocation::Discovery(_)),
                    issuer: (*issuer.issuer).into(),
                    algorithms: issuer.algorithms,
                    roots,
                }));
            }
        };
        let path = dir.join(&**file);
        let mut file = KeyFile {
            kind,
            watched: FileWatcher::new([path.clone()]),
            path,
            algorithms: issuer.algorithms,
            keys: None,
        };
        file.keys = Some(file.read()?);
        Ok(Self::File(file))
    }
}

impl KeyFile {
    /// Reads the file if it has changed since it was read.
    pub(super) fn read_if_changed(&self) -> Option<Result<KeySet, KeyFileError>> {
        let mut keys = None;
        self.watched.if_changed(|| keys = Some(self.read()));
        keys
    }

    fn read(&self) -> Result<KeySet, KeyFileError> {
        let path = || self.path.display().to_string();
        let bytes = read_limited(&self.path).map_err(|error| {
            let path = path();
            KeyFileError::Read { path, error }
        })?;
        let bytes = bytes.ok_or_else(|| KeyFileError::Size { path: path() })?;
        let key = |key: Result<VerificationKey, KeyError>| match key {
            Ok(key) => Ok(KeySet::of_one(key)),
            Err(error) => Err(KeyFileError::Key {
                path: path(),
                error,
            }),
        };
        match self.kind {
            KeyFileKind::KeySet => {
                let set = KeySet::parse(&bytes, self.algorithms);
                set.map_err(|error| KeyFileError::KeySet {
                    path: path(),
                    error,
                })
            }
            KeyFileKind::Pem => key(VerificationKey::from_pem(&bytes, self.algorithms)),
            KeyFileKind::Secret => {
                // Editors end files with a line end.
                key(VerificationKey::from_secret(bytes.trim_ascii_end()))
            }
        }
    }
}

fn read_limited(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    Ok((bytes.len() as u64 <= DOCUMENT_BYTES_MAX).then_some(bytes))
}

impl fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyFile({}, {:?})", self.path.display(), self.kind)
    }
}

impl KeyServer {
    /// Fetches the keys, with the validity that the response names. Blocks for at most two times
    /// [`FETCH_TIMEOUT`].
    pub(super) fn fetch(&self) -> Result<(KeySet, Option<Duration>), FetchError> {
        let document =
            |url: &str| fetch_document(url, FETCH_TIMEOUT, DOCUMENT_BYTES_MAX, &self.roots);
        let mut keys = document(self.url.as_str())?;
        if self.discovers {
            let url = discovered_keys_url(&keys.body, &self.issuer)?;
            keys = document(url.as_str())?;
        }
        Ok((KeySet::parse(&keys.body, self.algorithms)?, keys.max_age))
    }
}
