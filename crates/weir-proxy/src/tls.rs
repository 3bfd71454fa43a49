//! Reloads certificates and keys when their files change or the operator requests it. Files that
//! cannot be used are reported, and the previous certificates stay in use.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_net::tls::{FileWatcher, TlsAcceptor};

use crate::error::ProxyError;
use crate::stop::StopSignal;

/// Interval between checks of the files.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// Reads the files of a table and installs their content.
type ReloadFn = dyn Fn() -> Result<(), ProxyError> + Send + Sync;

/// The files of one table of the configuration.
pub struct TlsFiles {
    /// Name of the table in messages.
    table: String,
    watched: FileWatcher,
    read: Box<ReloadFn>,
}

impl TlsFiles {
    /// Creates the entry of a table whose files `read` loads.
    pub(crate) fn new(
        table: String,
        watched: FileWatcher,
        read: impl Fn() -> Result<(), ProxyError> + Send + Sync + 'static,
    ) -> Self {
        Self {
            table,
            watched,
            read: Box::new(read),
        }
    }
}

impl fmt::Debug for TlsFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let table = &self.table;
        f.debug_tuple("TlsFiles").field(table).finish()
    }
}

/// The certificate files of a proxy.
#[derive(Debug)]
pub(crate) struct TlsReloads {
    files: Vec<TlsFiles>,
    /// Certificates presented to clients.
    presented: Vec<Arc<TlsAcceptor>>,
    reloads: AtomicU64,
    failed: AtomicU64,
}

impl TlsReloads {
    pub(crate) fn new(files: Vec<TlsFiles>, presented: Vec<Arc<TlsAcceptor>>) -> Self {
        Self {
            files,
            presented,
            reloads: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Returns `true` if there are no files to watch.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Checks the files periodically until `stop` is set.
    pub(crate) fn watch(&self, stop: &StopSignal) {
        while !stop.wait(CHECK_INTERVAL) {
            self.check_files();
        }
    }

    /// Reloads the files that have changed since they were last read.
    pub(crate) fn check_files(&self) {
        for files in &self.files {
            files.watched.if_changed(|| self.read(files));
        }
    }

    /// Reloads all files. New connections use the new certificates; open connections are not
    /// affected.
    pub(crate) fn reload(&self) {
        for files in &self.files {
            files.watched.run_now(|| self.read(files));
        }
    }

    fn read(&self, files: &TlsFiles) {
        let table = &files.table;
        match (files.read)() {
            Ok(()) => {
                self.reloads.fetch_add(1, Ordering::Relaxed);
                tracing::info!(%table, "certificate files reloaded");
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                tracing::error!(
                    %table,
                    %error,
                    "certificate reload failed, kept current certificate"
                );
            }
        }
    }

    /// Returns the number of successful and of failed reloads.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.reloads), of(&self.failed))
    }

    /// Returns the earliest expiry of the certificates presented to clients, in seconds since 1970.
    pub(crate) fn expiry_unix_s(&self) -> Option<i64> {
        let acceptors = self.presented.iter();
        acceptors
            .filter_map(|one| one.identity().not_after_unix_s())
            .min()
    }
}
