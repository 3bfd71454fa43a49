//! Certificate and key files in use, reloaded when they change or on request. If the files cannot
//! be used, the error is logged and the current certificates stay in use.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;

use super::{ClientAuthorities, ClientTls, FileWatcher, TlsAcceptor, TlsError, TlsIdentity};

/// Files that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsFilesError {
    /// A file cannot be read.
    #[error("{path}: cannot read the file: {error}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The files have unusable content.
    #[error("{files}: {error}")]
    Invalid {
        /// Paths of the files.
        files: String,
        /// Cause.
        error: TlsError,
    },
}

/// Certificate and private key of a server, as PEM files.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ServerFiles {
    /// Certificate chain, server certificate first.
    pub certificate: PathBuf,
    /// Private key.
    pub key: PathBuf,
    /// Certificate authorities for client certificates. If set, clients must present one.
    pub client_ca: Option<PathBuf>,
    /// Clients without a certificate are accepted, too. Not a key of a configuration.
    #[serde(skip)]
    pub client_optional: bool,
}

impl ServerFiles {
    /// Returns the files with paths relative to `dir`.
    #[must_use]
    pub fn within(self, dir: &Path) -> Self {
        Self {
            certificate: dir.join(self.certificate),
            key: dir.join(self.key),
            client_ca: self.client_ca.map(|path| dir.join(path)),
            client_optional: self.client_optional,
        }
    }
}

/// Certificates of a client, as PEM files.
#[derive(Debug, Clone)]
pub struct ClientFiles {
    /// Certificate authorities for server certificates; `None` accepts any certificate.
    pub ca: Option<PathBuf>,
    /// Certificate chain and private key for servers that require them.
    pub own: Option<[PathBuf; 2]>,
}

/// Installs the content of the files.
type InstallFn = dyn Fn() -> Result<(), TlsFilesError> + Send + Sync;

/// Files that are watched for changes.
pub struct TlsFiles {
    /// Name of the table in messages.
    table: String,
    watched: FileWatcher,
    install: Box<InstallFn>,
    reloads: AtomicU64,
    failures: AtomicU64,
}

impl fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TlsFiles").field(&self.table).finish()
    }
}

impl TlsFiles {
    /// Reads the files of a server that speaks HTTP, with the timeout of handshakes; `None`: of one
    /// whose protocol has no ALPN name and which limits the time of handshakes itself.
    pub fn server(
        table: impl Into<String>,
        files: ServerFiles,
        web_handshake: Option<Duration>,
    ) -> Result<(Arc<TlsAcceptor>, Self), TlsFilesError> {
        let paths = [&files.certificate, &files.key].into_iter();
        // The state of the files is recorded before they are read.
        let watched = FileWatcher::new(paths.chain(&files.client_ca).cloned());
        let load = move || {
            let (certificate, key) = (read(&files.certificate)?, read(&files.key)?);
            let ca = files.client_ca.as_deref().map(read).transpose()?;
            let clients = ca.as_deref().map(|pem| ClientAuthorities {
                pem,
                optional: files.client_optional,
            });
            let identity = match web_handshake {
                Some(_) => TlsIdentity::from_pem(&certificate, &key, clients),
                None => TlsIdentity::without_alpn(&certificate, &key, clients),
            };
            identity.map_err(|error| {
                let all = [&files.certificate, &files.key].into_iter();
                let names = all
                    .chain(&files.client_ca)
                    .map(|path| path.display().to_string());
                let files = names.collect::<Vec<_>>().join(", ");
                TlsFilesError::Invalid { files, error }
            })
        };
        let handshake = web_handshake.unwrap_or(Duration::MAX);
        let acceptor = Arc::new(TlsAcceptor::new(load()?, handshake));
        let installed = Arc::clone(&acceptor);
        let files = Self::new(table.into(), watched, move || {
            installed.replace(load()?);
            Ok(())
        });
        Ok((acceptor, files))
    }

    /// Reads the files, if any, of a client whose protocol has no ALPN name.
    pub fn client(
        table: impl Into<String>,
        files: ClientFiles,
    ) -> Result<(ClientTls, Option<Self>), TlsFilesError> {
        let paths = files.own.iter().flatten().chain(&files.ca);
        let watched = FileWatcher::new(paths.clone().cloned());
        let is_any = paths.clone().next().is_some();
        let names: Vec<_> = paths.map(|path| path.display().to_string()).collect();
        let load = move || {
            let trusted = files.ca.as_deref().map(read).transpose()?;
            let own = match &files.own {
                Some([certificate, key]) => Some((read(certificate)?, read(key)?)),
                None => None,
            };
            let own = own.as_ref().map(|(chain, key)| (&chain[..], &key[..]));
            ClientTls::without_alpn(trusted.as_deref(), own).map_err(|error| {
                let files = names.join(", ");
                TlsFilesError::Invalid { files, error }
            })
        };
        let tls = load()?;
        let installed = tls.clone();
        let files = Self::new(table.into(), watched, move || {
            installed.replace(&load()?);
            Ok(())
        });
        Ok((tls, is_any.then_some(files)))
    }

    fn new(
        table: String,
        watched: FileWatcher,
        install: impl Fn() -> Result<(), TlsFilesError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            table,
            watched,
            install: Box::new(install),
            reloads: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// Returns the paths of the files.
    pub fn paths(&self) -> &[PathBuf] {
        self.watched.paths()
    }

    /// Reloads the files if they have changed since they were read.
    pub fn check(&self) {
        self.watched.if_changed(|| self.install());
    }

    /// Reloads the files now. New connections use the new certificates; open connections are not
    /// affected.
    pub fn reload(&self) {
        self.watched.run_now(|| self.install());
    }

    /// Returns the number of successful and of failed reloads.
    pub fn counts(&self) -> [u64; 2] {
        [&self.reloads, &self.failures].map(|count| count.load(Ordering::Relaxed))
    }

    fn install(&self) {
        let table = &self.table;
        match (self.install)() {
            Ok(()) => {
                self.reloads.fetch_add(1, Ordering::Relaxed);
                tracing::info!(%table, "certificate files reloaded");
            }
            Err(error) => {
                self.failures.fetch_add(1, Ordering::Relaxed);
                let message = "certificate reload failed, kept current certificate";
                tracing::error!(%table, %error, "{message}");
            }
        }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsFilesError> {
    std::fs::read(path).map_err(|error| TlsFilesError::Read {
        path: path.to_owned(),
        error,
    })
}
