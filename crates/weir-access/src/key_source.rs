//! Sources of the keys that verify an issuer's tokens: a watched file or a web server.

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

/// Timeout of one request, from name resolution to the last byte.
const FETCH_TIMEOUT: Duration = Duration::from_secs(4);
/// Maximum size of a key file or of a response.
const DOCUMENT_BYTES_MAX: u64 = 256 << 10;

/// A key file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("{path}: cannot read the file: {error}")]
    Read { path: String, error: std::io::Error },
    #[error("{path}: more than {DOCUMENT_BYTES_MAX} bytes")]
    Size { path: String },
    #[error("{path}: {error}")]
    KeySet { path: String, error: KeySetError },
    #[error("{path}: {error}")]
    Key { path: String, error: KeyError },
}

/// Error of a request for keys.
#[derive(Debug, thiserror::Error)]
pub enum FetchError {
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error(transparent)]
    Discovery(#[from] DiscoveryError),
    #[error(transparent)]
    KeySet(#[from] KeySetError),
}

/// Source of an issuer's keys.
#[derive(Debug)]
pub enum KeySource {
    File(KeyFile),
    Web(KeyEndpoint),
}

/// File with the keys of an issuer.
pub struct KeyFile {
    kind: KeyFileKind,
    path: PathBuf,
    algorithms: AlgorithmSet,
    watched: FileWatcher,
    /// Keys read by [`KeySource::open`], until the key store takes them.
    pub initial_keys: Option<KeySet>,
}

#[derive(Debug, Clone, Copy)]
enum KeyFileKind {
    KeySet,
    Pem,
    Secret,
}

/// URL of a server from which the keys of an issuer are fetched.
#[derive(Debug)]
pub struct KeyEndpoint {
    url: SafeUrl,
    /// `true` if the URL is that of an OpenID Connect discovery document.
    discovers: bool,
    issuer: Box<str>,
    algorithms: AlgorithmSet,
    roots: Roots,
}

impl KeySource {
    /// Returns the certificate authorities that are trusted for the server of an issuer. The path
    /// of their file is relative to `dir`.
    pub fn roots(issuer: &IssuerConfig, dir: &Path) -> Result<Roots, StoreError> {
        match issuer.ca_file.as_deref() {
            None => Ok(Roots::System),
            Some(file) => Roots::from_pem_file(&dir.join(file)),
        }
    }

    /// Creates the source of an issuer's keys. Reads a file, whose path is relative to `dir`; does
    /// not contact a server.
    pub fn open(issuer: &IssuerConfig, roots: Roots, dir: &Path) -> Result<Self, KeyFileError> {
        let (kind, file) = match &issuer.keys {
            KeyLocation::KeySetFile(file) => (KeyFileKind::KeySet, file),
            KeyLocation::PemFile(file) => (KeyFileKind::Pem, file),
            KeyLocation::SecretFile(file) => (KeyFileKind::Secret, file),
            KeyLocation::Discovery(url) | KeyLocation::Url(url) => {
                return Ok(Self::Web(KeyEndpoint {
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
            initial_keys: None,
        };
        file.initial_keys = Some(file.read()?);
        Ok(Self::File(file))
    }
}

impl KeyFile {
    /// Reads the file again if it has changed. Returns `None` if it has not.
    pub fn read_if_changed(&self) -> Option<Result<KeySet, KeyFileError>> {
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
        let single = |key: Result<VerificationKey, KeyError>| match key {
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
            KeyFileKind::Pem => single(VerificationKey::from_pem(&bytes, self.algorithms)),
            KeyFileKind::Secret => {
                // Editors append a newline, which is not part of the secret.
                single(VerificationKey::from_secret(bytes.trim_ascii_end()))
            }
        }
    }
}

/// Returns the content of a file; `None` if it exceeds [`DOCUMENT_BYTES_MAX`].
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

impl KeyEndpoint {
    /// Fetches the keys. Returns them with the `max-age` of the response. Blocks for at most twice
    /// [`FETCH_TIMEOUT`].
    pub fn fetch(&self) -> Result<(KeySet, Option<Duration>), FetchError> {
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

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::net::TcpListener;

    use weir_identity::config::{AuthConfig, RawAuth};

    use super::*;

    const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519",
        "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;

    fn source(keys: &str) -> KeySource {
        let text = format!(
            "[[issuer]]\nissuer=\"http://127.0.0.1:1\"\naudience=\"w\"\n\
             algorithms=[\"EdDSA\"]\n{keys}"
        );
        let raw: RawAuth = toml::from_str(&text).expect("TOML");
        let config = AuthConfig::new(&raw).expect("a valid section");
        KeySource::open(&config.issuers[0], Roots::System, Path::new(".")).expect("a source")
    }

    /// Fetches keys from a server that sends these responses, in which `ADDRESS` is replaced by its
    /// address. Returns the number of keys.
    fn fetch(discovers: bool, responses: &[(&str, &str)]) -> Result<usize, String> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let responses: Vec<_> = responses
            .iter()
            .map(|(head, body)| {
                let body = body.replace("ADDRESS", &address);
                let head = head.replace("ADDRESS", &address);
                format!(
                    "HTTP/1.1 {head}\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                )
            })
            .collect();
        let KeySource::Web(mut endpoint) = source(&format!("jwks_url=\"http://{address}/keys\""))
        else {
            panic!("a server");
        };
        endpoint.discovers = discovers;
        std::thread::spawn(move || {
            for response in responses {
                let Ok((stream, _)) = listener.accept() else {
                    return;
                };
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                    line.clear();
                }
                // The gateway may have closed the connection.
                let _ = stream.get_mut().write_all(response.as_bytes());
            }
        });
        let fetched = endpoint.fetch();
        fetched
            .map(|(keys, _)| keys.keys().len())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn keys_come_from_one_server_within_limits() {
        let ok = "200 OK\r\nConnection: close";
        assert_eq!(fetch(false, &[(ok, KEYS)]), Ok(1));
        let document =
            |issuer: &str, keys: &str| format!(r#"{{"issuer":"{issuer}","jwks_uri":"{keys}"}}"#);
        let matching = document("http://127.0.0.1:1", "http://ADDRESS/keys");
        assert_eq!(fetch(true, &[(ok, &matching), (ok, KEYS)]), Ok(1));
        let other_issuer = document("http://127.0.0.1:2", "http://ADDRESS/keys");
        let insecure = document("http://127.0.0.1:1", "http://10.0.0.1/keys");
        let huge = " ".repeat(300 << 10);
        let redirect = "302 Found\r\nLocation: http://ADDRESS/other";
        for (discovers, head, body, reason) in [
            (true, ok, &*other_issuer, "another issuer"),
            (true, ok, &*insecure, "HTTPS"),
            (false, redirect, KEYS, "status 302"),
            (false, "500 Broken", KEYS, "status 500"),
            (false, ok, &*huge, "limit"),
            (false, ok, "{\"keys\":[]}", "no usable key"),
        ] {
            // A client that requested the second response would get a key.
            let error = fetch(discovers, &[(head, body), (ok, KEYS)]).expect_err(reason);
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn changed_file_is_read_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("keys.json");
        std::fs::write(&path, KEYS).expect("a file");
        let KeySource::File(file) = source(&format!("jwks_file={path:?}")) else {
            panic!("a file");
        };
        assert_eq!(
            file.initial_keys.as_ref().map(|keys| keys.keys().len()),
            Some(1)
        );
        assert!(file.read_if_changed().is_none());
        std::fs::write(&path, "nonsense").expect("a file");
        assert!(file.read_if_changed().is_some_and(|read| read.is_err()));
        std::fs::write(&path, format!("{KEYS} ")).expect("a file");
        assert!(file.read_if_changed().is_some_and(|read| read.is_ok()));
    }
}
