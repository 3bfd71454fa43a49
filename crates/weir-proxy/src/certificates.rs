//! The certificate files of the current configuration and of the admin port.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_net::tls::{TlsAcceptor, TlsFiles};

use crate::config::ProxyConfig;

/// Certificate files in use, which are checked for changes.
#[derive(Debug)]
pub(crate) struct CertificateFiles {
    /// Certificate that the admin port presents, and its files. A reload does not replace them.
    admin: Option<(Arc<TlsAcceptor>, Arc<TlsFiles>)>,
    of_clusters: Mutex<ClusterFiles>,
}

#[derive(Debug, Default)]
struct ClusterFiles {
    files: Vec<Arc<TlsFiles>>,
    /// Reloads and failures of files that are no longer in use.
    earlier: [u64; 2],
}

impl CertificateFiles {
    pub(crate) fn new(config: &ProxyConfig) -> Self {
        let admin = &config.admin;
        let of_clusters = ClusterFiles {
            files: config.cluster_files().cloned().collect(),
            ..ClusterFiles::default()
        };
        Self {
            admin: admin.tls.clone().zip(admin.files.clone()),
            of_clusters: Mutex::new(of_clusters),
        }
    }

    /// Switches to the files of a reloaded configuration, which have just been read.
    pub(crate) fn replace(&self, files: Vec<Arc<TlsFiles>>) {
        let mut current = self.of_clusters();
        let earlier = sum(&current.files);
        current.earlier = add(current.earlier, earlier);
        current.earlier[0] += files.len() as u64;
        current.files = files;
    }

    /// Reloads the files that have changed.
    pub(crate) fn check(&self) {
        self.all().iter().for_each(|files| files.check());
    }

    /// Reloads all files.
    pub(crate) fn reload(&self) {
        self.all().iter().for_each(|files| files.reload());
    }

    pub(crate) fn is_any(&self) -> bool {
        self.admin.is_some() || !self.of_clusters().files.is_empty()
    }

    /// Returns the number of successful and of failed reloads.
    pub(crate) fn counts(&self) -> [u64; 2] {
        let earlier = self.of_clusters().earlier;
        add(earlier, sum(&self.all()))
    }

    /// Returns the certificate that the admin port presents.
    pub(crate) fn admin_tls(&self) -> Option<&Arc<TlsAcceptor>> {
        self.admin.as_ref().map(|(tls, _)| tls)
    }

    fn all(&self) -> Vec<Arc<TlsFiles>> {
        let admin = self.admin.iter().map(|(_, files)| files);
        admin.chain(&self.of_clusters().files).cloned().collect()
    }

    fn of_clusters(&self) -> MutexGuard<'_, ClusterFiles> {
        let locked = self.of_clusters.lock();
        locked.unwrap_or_else(PoisonError::into_inner)
    }
}

fn sum(files: &[Arc<TlsFiles>]) -> [u64; 2] {
    let counts = files.iter().map(|files| files.counts());
    counts.fold([0; 2], add)
}

fn add([a, b]: [u64; 2], [c, d]: [u64; 2]) -> [u64; 2] {
    [a + c, b + d]
}
