//! Certificates and keys of the configuration, read again when their files change or the operator says
//! so. What cannot be used is reported, and what is in use stays.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use weir_net::tls::{FileWatcher, TlsAcceptor};

use crate::error::ProxyError;
use crate::probe::StopSignal;

/// How often files are looked at.
const PERIOD: Duration = Duration::from_secs(2);

/// Reads files and has what they say used from now on.
type ReloadFn = dyn Fn() -> Result<(), ProxyError> + Send + Sync;

/// The files of one table of the configuration.
pub struct TlsFiles {
    /// The table, as in messages.
    table: String,
    watched: FileWatcher,
    read: Box<ReloadFn>,
}

impl TlsFiles {
    /// Files that `read` reads.
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

/// All tables of a proxy.
#[derive(Debug)]
pub(crate) struct TlsReloads {
    files: Vec<TlsFiles>,
    /// What clients are shown.
    shown: Vec<Arc<TlsAcceptor>>,
    done: AtomicU64,
    failed: AtomicU64,
}

impl TlsReloads {
    pub(crate) fn new(files: Vec<TlsFiles>, shown: Vec<Arc<TlsAcceptor>>) -> Self {
        Self {
            files,
            shown,
            done: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    /// Whether there is nothing to look at.
    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Looks at the files every so often until told to stop.
    pub(crate) fn watch(&self, stop: &StopSignal) {
        while !stop.wait(PERIOD) {
            self.look();
        }
    }

    /// Reads the files of tables that look different from when they were read last.
    pub(crate) fn look(&self) {
        for files in &self.files {
            files.watched.if_changed(|| self.read(files));
        }
    }

    /// Reads all files now. New connections get what they say; open ones go on as they are.
    pub(crate) fn reload(&self) {
        for files in &self.files {
            files.watched.run_now(|| self.read(files));
        }
    }

    fn read(&self, files: &TlsFiles) {
        let table = &files.table;
        match (files.read)() {
            Ok(()) => {
                self.done.fetch_add(1, Ordering::Relaxed);
                tracing::info!("{table}: files read again");
            }
            Err(error) => {
                self.failed.fetch_add(1, Ordering::Relaxed);
                tracing::error!("{table}: what is in use stays: {error}");
            }
        }
    }

    /// Times that files were read again and used, and that they could not be used.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        (of(&self.done), of(&self.failed))
    }

    /// When the first of the certificates that clients are shown ends, in seconds since 1970.
    pub(crate) fn ends_unix_s(&self) -> Option<i64> {
        let ends = self.shown.iter();
        ends.filter_map(|one| one.identity().not_after_unix_s())
            .min()
    }
}
