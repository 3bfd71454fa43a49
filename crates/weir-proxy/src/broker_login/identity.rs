//! State of a cluster's credentials that all threads share.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use weir_identity::Principal;
use weir_net::lock;
use weir_net::tls::{ClientFiles, FileWatcher};

use super::credentials::{Credential, CredentialFile, Credentials, CredentialsError, IdentityMode};
use super::delegation_token::DelegationTokens;

/// Result of a login at a broker, in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BrokerLoginOutcome {
    Accepted,
    /// The broker or a source of tokens refused, or the connection ended.
    Failed,
    /// No credential belongs to the principal.
    Unmapped,
}

impl BrokerLoginOutcome {
    pub(crate) const ALL: [Self; 3] = [Self::Accepted, Self::Failed, Self::Unmapped];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Failed => "failed",
            Self::Unmapped => "unmapped",
        }
    }
}

/// Principals with tokens; then all are forgotten, and their next logins create new ones.
const DELEGATED_MAX: usize = 10_000;

/// Mode, credentials and counters of a cluster.
#[derive(Debug)]
pub(crate) struct BrokerIdentity {
    pub(crate) mode: IdentityMode,
    file: CredentialFile,
    current: Mutex<Arc<Credentials>>,
    watcher: Mutex<FileWatcher>,
    /// Credentials with delegation tokens, by principal.
    delegated: Mutex<HashMap<Box<str>, Arc<Credential>>>,
    counts: [AtomicU64; BrokerLoginOutcome::ALL.len()],
}

impl BrokerIdentity {
    /// Reads the credentials.
    pub(super) fn open(
        mode: IdentityMode,
        path: PathBuf,
        upstream_tls: Option<ClientFiles>,
        server: &str,
    ) -> Result<Self, CredentialsError> {
        let file = CredentialFile {
            path,
            mode,
            upstream_tls,
            server: server.to_owned(),
        };
        let current = file.read()?;
        Ok(Self {
            mode,
            watcher: Mutex::new(FileWatcher::new(current.paths.clone())),
            current: Mutex::new(Arc::new(current)),
            file,
            delegated: Mutex::default(),
            counts: Default::default(),
        })
    }

    /// Returns the credential for a principal; `None` if it has none.
    pub(crate) fn of_principal(&self, principal: &Principal) -> Option<Arc<Credential>> {
        let current = self.current();
        match self.mode {
            IdentityMode::One => current.fixed().cloned(),
            IdentityMode::Swap => current.of_principal(principal).cloned(),
            IdentityMode::Delegate => {
                let own = current.own(principal).cloned();
                own.or_else(|| Some(self.delegated(principal, current.fixed()?)))
            }
        }
    }

    /// Returns the credential of a principal with tokens that `creator` creates.
    fn delegated(&self, principal: &Principal, creator: &Credential) -> Arc<Credential> {
        let name = principal.to_string();
        let mut delegated = lock(&self.delegated);
        if let Some(known) = delegated.get(&*name) {
            return Arc::clone(known);
        }
        if delegated.len() >= DELEGATED_MAX {
            delegated.clear();
        }
        let credential = Arc::new(Credential {
            name: name.as_str().into(),
            method: None,
            tokens: Some(Arc::new(DelegationTokens::new(principal.name()))),
            tls: creator.tls.clone(),
        });
        delegated.insert(name.into(), Arc::clone(&credential));
        credential
    }

    /// Returns the credential for connections without a principal; `None` if there is none.
    pub(crate) fn fixed(&self) -> Option<Arc<Credential>> {
        self.current().fixed().cloned()
    }

    /// Returns the credential of the proxy's own connections; `None` if there is none.
    pub(crate) fn of_probe(&self) -> Option<Arc<Credential>> {
        self.current().of_probe().cloned()
    }

    fn current(&self) -> Arc<Credentials> {
        Arc::clone(&lock(&self.current))
    }

    /// Returns a human-readable text: mode and number of credentials.
    pub(crate) fn describe(&self) -> String {
        format!(
            "{}, {} credentials",
            self.mode.as_str(),
            self.current().len()
        )
    }

    /// Reads the credentials again if a file has changed, or in any case with `always`. After an
    /// error the current ones stay. Open connections use new ones for their next login.
    pub(crate) fn reload(&self, cluster: &str, always: bool) {
        let mut watcher = lock(&self.watcher);
        let mut is_due = always;
        watcher.if_changed(|| is_due = true);
        if !is_due {
            return;
        }
        match self.file.read() {
            Ok(credentials) => {
                let count = credentials.len();
                tracing::info!(cluster, credentials = count, "file of credentials read");
                *watcher = FileWatcher::new(credentials.paths.clone());
                *lock(&self.current) = Arc::new(credentials);
            }
            Err(error) => {
                let message = "reading the file of credentials failed, kept the credentials";
                tracing::error!(cluster, %error, "{message}");
            }
        }
    }

    pub(crate) fn count(&self, outcome: BrokerLoginOutcome) {
        self.counts[outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Returns outcome and number of all logins.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (BrokerLoginOutcome, u64)> {
        let outcomes = BrokerLoginOutcome::ALL.into_iter().zip(&self.counts);
        outcomes.map(|(outcome, count)| (outcome, count.load(Ordering::Relaxed)))
    }
}
