//! State of a cluster's logins that all event loops share.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use weir_identity::Principal;
use weir_net::lock;
use weir_net::tls::FileWatcher;
use weir_sasl::random::{NoRandom, random_bytes};
use weir_sasl::server::{Check, FailureReason, Mechanism, PasswordCache};
use weir_sasl::users::{Users, UsersError};
use weir_security::Secret;

use super::check::CheckOutcome;
use super::rejection_limiter::RejectionLimiter;
use super::tokens::TokenLogins;
use crate::secret_file::{self, SecretFileError};

/// Longest file of users, in bytes.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Permission bits that a file of users must not have: its keys allow guessing passwords.
const FORBIDDEN_MODE: u32 = 0o027;
/// Names of the mechanisms in metrics; the last one stands for all that are not offered.
const MECHANISMS: [&str; 5] = [
    "PLAIN",
    "SCRAM-SHA-256",
    "SCRAM-SHA-512",
    "OAUTHBEARER",
    "other",
];

/// Result of a login in metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LoginOutcome {
    Accepted,
    Failed,
    /// Failed at once, because of earlier failures of the address.
    Limited,
    /// Right, but the proxy has no login at the brokers for it.
    Refused,
}

impl LoginOutcome {
    pub(crate) const ALL: [Self; 4] = [Self::Accepted, Self::Failed, Self::Limited, Self::Refused];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Failed => "failed",
            Self::Limited => "limited",
            Self::Refused => "refused",
        }
    }
}

/// Limits of a cluster's logins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LoginLimits {
    /// Time after which clients must log in again.
    pub(crate) session_ms: Option<u64>,
    pub(crate) failed_delay_ms: u64,
    pub(crate) timeout_ms: u64,
}

/// File of users that cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum UserStoreError {
    #[error(transparent)]
    File(#[from] SecretFileError),
    #[error("{path}, {error}")]
    Users { path: String, error: UsersError },
    #[error(transparent)]
    Random(#[from] NoRandom),
}

/// Mechanisms, users, limits and counters of a cluster.
#[derive(Debug)]
pub(crate) struct ClusterLogins {
    pub(crate) mechanisms: Vec<Mechanism>,
    pub(crate) limits: LoginLimits,
    users: Mutex<Arc<Users>>,
    /// Number of times that the users were read again.
    revision: AtomicU64,
    file: UserPath,
    tokens: Option<TokenLogins>,
    passwords: Mutex<PasswordCache>,
    limiter: Mutex<RejectionLimiter>,
    started: Instant,
    counts: [[AtomicU64; LoginOutcome::ALL.len()]; MECHANISMS.len()],
    expired: AtomicU64,
    /// Times of accepted logins, by mechanism.
    seconds: [Histogram; MECHANISMS.len()],
}

#[derive(Debug)]
struct UserPath {
    /// `None` if no mechanism has passwords.
    path: Option<PathBuf>,
    watcher: FileWatcher,
    /// Key of the salts of unknown users.
    decoy_secret: DecoySecret,
}

/// Random bytes that are not printed.
struct DecoySecret([u8; 32]);

impl std::fmt::Debug for DecoySecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

impl UserPath {
    fn read(&self) -> Result<Users, UserStoreError> {
        let read = |path| secret_file::read(path, FILE_BYTES_MAX, FORBIDDEN_MODE);
        let text = self.path.as_deref().map(read).transpose()?;
        let text = text.unwrap_or_default();
        Users::parse(&text, &self.decoy_secret.0).map_err(|error| UserStoreError::Users {
            path: self
                .path
                .iter()
                .map(|path| path.display().to_string())
                .collect(),
            error,
        })
    }
}

/// Returns the place of a mechanism in [`MECHANISMS`].
fn row(mechanism: Option<Mechanism>) -> usize {
    let name = mechanism.map_or("other", Mechanism::name);
    let row = MECHANISMS.iter().position(|known| *known == name);
    row.unwrap_or(MECHANISMS.len() - 1)
}

impl ClusterLogins {
    /// Reads the users.
    pub(super) fn open(
        mechanisms: Vec<Mechanism>,
        path: Option<PathBuf>,
        tokens: Option<TokenLogins>,
        limits: LoginLimits,
    ) -> Result<Self, UserStoreError> {
        let file = UserPath {
            watcher: FileWatcher::new(path.clone()),
            path,
            decoy_secret: DecoySecret(random_bytes()?),
        };
        Ok(Self {
            mechanisms,
            limits,
            users: Mutex::new(Arc::new(file.read()?)),
            revision: AtomicU64::new(0),
            file,
            tokens,
            passwords: Mutex::new(PasswordCache::new(&random_bytes::<32>()?)),
            limiter: Mutex::default(),
            started: Instant::now(),
            counts: Default::default(),
            expired: AtomicU64::new(0),
            seconds: std::array::from_fn(|_| {
                // A millisecond to half a minute.
                Histogram::new(exponential_buckets(0.001, 2.0, 16))
            }),
        })
    }

    /// Returns the current users.
    pub(crate) fn users(&self) -> Arc<Users> {
        Arc::clone(&lock(&self.users))
    }

    /// Returns a number that changes when the users are read again.
    pub(super) fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Returns a human-readable text: mechanisms and number of users.
    pub(crate) fn describe(&self) -> String {
        let names: Vec<_> = self.mechanisms.iter().map(|one| one.name()).collect();
        let names = names.join(", ");
        match &self.file.path {
            Some(_) => format!("{names}, {} users", self.users().len()),
            None => names,
        }
    }

    /// Reads the users again if the file has changed, or in any case with `always`. After an error
    /// the current ones stay.
    pub(crate) fn reload(&self, cluster: &str, always: bool) {
        if self.file.path.is_none() {
            return;
        }
        let read = || match self.file.read() {
            Ok(users) => {
                tracing::info!(cluster, users = users.len(), "file of users read");
                *lock(&self.users) = Arc::new(users);
                self.revision.fetch_add(1, Ordering::Release);
            }
            Err(error) => {
                let message = "reading the file of users failed, kept the users";
                tracing::error!(cluster, %error, "{message}");
            }
        };
        match always {
            true => self.file.watcher.run_now(read),
            false => self.file.watcher.if_changed(read),
        }
    }

    fn now_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// Returns `true` if the password was right a short time ago.
    pub(super) fn knows_password(&self, user: &str, password: &Secret) -> bool {
        let (users, now_ms) = (self.users(), self.now_ms());
        lock(&self.passwords).contains(&users, user, password, now_ms)
    }

    /// Starts the threads that fetch keys of tokens, once.
    pub(crate) fn start(&self) -> std::io::Result<()> {
        self.tokens.as_ref().map_or(Ok(()), TokenLogins::start)
    }

    /// Checks credentials. Takes milliseconds.
    pub(crate) fn check(&self, check: &Check) -> CheckOutcome {
        match check {
            Check::Password { user, password } => match Principal::user(user) {
                None => CheckOutcome::Wrong("user"),
                Some(principal) if self.has_password(user, password) => {
                    CheckOutcome::Right(Box::new(principal), None)
                }
                Some(_) => CheckOutcome::Wrong(FailureReason::Credentials.as_str()),
            },
            Check::Token { user, token } => match &self.tokens {
                Some(tokens) => tokens.check(token, user.as_deref()),
                None => CheckOutcome::Wrong(FailureReason::Mechanism.as_str()),
            },
        }
    }

    fn has_password(&self, user: &str, password: &Secret) -> bool {
        let users = self.users();
        let is_right = users.has_password(user, password);
        if is_right {
            lock(&self.passwords).insert(&users, user, password, self.now_ms());
        }
        is_right
    }

    /// Returns `true` if the address may try a login.
    pub(super) fn admits(&self, address: IpAddr) -> bool {
        lock(&self.limiter).admits(address, self.now_ms())
    }

    /// Counts the end of a login.
    pub(super) fn count(
        &self,
        mechanism: Option<Mechanism>,
        outcome: LoginOutcome,
        address: IpAddr,
    ) {
        // Attempts that are not admitted do not extend the wait.
        if outcome == LoginOutcome::Failed {
            lock(&self.limiter).count(address, self.now_ms());
        }
        self.counts[row(mechanism)][outcome as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an accepted login that took this time.
    pub(super) fn observe(&self, mechanism: Option<Mechanism>, took_ms: u64) {
        self.seconds[row(mechanism)].observe(took_ms as f64 / 1e3);
    }

    /// Returns mechanism and times of the mechanisms with logins.
    pub(crate) fn seconds(&self) -> impl Iterator<Item = (&'static str, &Histogram)> {
        let rows = MECHANISMS.iter().zip(&self.seconds).zip(&self.counts);
        let accepted = LoginOutcome::Accepted as usize;
        let used = rows.filter(move |(_, row)| row[accepted].load(Ordering::Relaxed) > 0);
        used.map(|((mechanism, seconds), _)| (*mechanism, seconds))
    }

    pub(super) fn count_expired(&self) {
        self.expired.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of connections closed because their login had expired or their user was
    /// removed.
    pub(crate) fn expired(&self) -> u64 {
        self.expired.load(Ordering::Relaxed)
    }

    /// Returns mechanism, outcome and number of all logins.
    pub(crate) fn counts(&self) -> impl Iterator<Item = (&'static str, LoginOutcome, u64)> {
        let rows = MECHANISMS.iter().zip(&self.counts);
        rows.flat_map(|(mechanism, row)| {
            let outcomes = LoginOutcome::ALL.into_iter().zip(row);
            outcomes.map(|(outcome, count)| (*mechanism, outcome, count.load(Ordering::Relaxed)))
        })
    }
}
