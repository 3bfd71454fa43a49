//! The keys of all issuers, and the threads that fetch them. Event loops never wait for a fetch.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, select};
use weir_identity::config::IssuerConfig;
use weir_identity::keys::{KeyAvailability, KeyRotation, KeySet};

use crate::key_source::{KeyEndpoint, KeyFile, KeySource};

/// Time between two looks at a key file.
const FILE_INTERVAL: Duration = Duration::from_secs(1);

/// Keys of the issuers, in the order of the configuration.
#[derive(Debug)]
pub(crate) struct KeyStore {
    issuers: Vec<Arc<IssuerKeys>>,
    /// Start of the clock of the rotations.
    started: Instant,
}

/// Keys of one issuer.
#[derive(Debug)]
pub(crate) struct IssuerKeys {
    name: Arc<str>,
    keys: Mutex<KeyState>,
    /// Ends the wait of the thread that fetches.
    wake: Sender<()>,
    woken: Receiver<()>,
    /// Number of successful and of failed refreshes.
    refreshes: [AtomicU64; 2],
}

#[derive(Debug)]
enum KeyState {
    File(Arc<KeySet>),
    Web(KeyRotation),
}

/// Keys of an issuer as metrics show them.
#[derive(Debug, Clone)]
pub struct KeyStatus {
    pub issuer: Arc<str>,
    /// Number of valid keys.
    pub keys: usize,
    pub age_ms: Option<u64>,
    pub refreshed: u64,
    pub failed: u64,
}

/// Called after each refresh, with `true` if keys were withdrawn.
pub(crate) type OnRefresh = Arc<dyn Fn(bool) + Send + Sync>;

impl KeyStore {
    /// Takes the keys of files; those of servers are missing until [`Self::start`].
    pub(crate) fn new(issuers: &[IssuerConfig], sources: &mut [KeySource]) -> Self {
        let issuers = issuers.iter().zip(sources).map(|(issuer, source)| {
            let keys = match source {
                KeySource::File(file) => {
                    KeyState::File(Arc::new(file.initial_keys.take().unwrap_or_default()))
                }
                KeySource::Web(_) => KeyState::Web(KeyRotation::new(issuer.rotation, 0)),
            };
            let (wake, woken) = crossbeam_channel::bounded(1);
            Arc::new(IssuerKeys {
                name: Arc::clone(&issuer.issuer),
                keys: Mutex::new(keys),
                wake,
                woken,
                refreshes: Default::default(),
            })
        });
        Self {
            issuers: issuers.collect(),
            started: Instant::now(),
        }
    }

    /// Starts a thread per issuer, which ends after `stopped` is disconnected.
    pub(crate) fn start(
        &self,
        sources: Vec<KeySource>,
        stopped: &Receiver<()>,
        on_refresh: &OnRefresh,
    ) -> std::io::Result<()> {
        for (number, (issuer, source)) in self.issuers.iter().zip(sources).enumerate() {
            let (issuer, stopped) = (Arc::clone(issuer), stopped.clone());
            let (started, on_refresh) = (self.started, Arc::clone(on_refresh));
            let run = move || match source {
                KeySource::File(file) => issuer.watch(&file, &stopped, &*on_refresh),
                KeySource::Web(endpoint) => issuer.poll(&endpoint, started, &stopped, &*on_refresh),
            };
            let name = format!("keys-{number}");
            std::thread::Builder::new().name(name).spawn(run)?;
        }
        Ok(())
    }

    /// Changes the rotation of an issuer, as its thread does. An issuer with a file has none.
    pub(crate) fn rotate(&self, issuer: usize, change: impl FnOnce(&mut KeyRotation)) {
        if let KeyState::Web(rotation) = &mut *self.issuers[issuer].lock() {
            change(rotation);
        }
    }

    /// Returns the valid keys of each issuer.
    pub(crate) fn sets(&self) -> Vec<Option<Arc<KeySet>>> {
        let now_ms = self.now_ms();
        self.issuers.iter().map(|one| one.keys(now_ms)).collect()
    }

    /// Returns the prospects of a token whose key is unknown, and brings a fetch forward.
    pub(crate) fn request_key(&self, issuer: usize) -> KeyAvailability {
        let now_ms = self.now_ms();
        self.issuers
            .get(issuer)
            .map_or(KeyAvailability::Unknown, |one| one.request_key(now_ms))
    }

    /// Returns the issuers without valid keys.
    pub(crate) fn missing(&self) -> impl Iterator<Item = &str> {
        let now_ms = self.now_ms();
        let missing = move |one: &&Arc<IssuerKeys>| one.keys(now_ms).is_none();
        self.issuers.iter().filter(missing).map(|one| &*one.name)
    }

    pub(crate) fn status(&self) -> impl Iterator<Item = KeyStatus> {
        let now_ms = self.now_ms();
        self.issuers.iter().map(move |one| {
            let [refreshed, failed] = one.refreshes.each_ref().map(|n| n.load(Ordering::Relaxed));
            KeyStatus {
                issuer: Arc::clone(&one.name),
                keys: one.keys(now_ms).map_or(0, |set| set.keys().len()),
                age_ms: match &*one.lock() {
                    KeyState::File(_) => None,
                    KeyState::Web(rotation) => rotation.age_ms(now_ms),
                },
                refreshed,
                failed,
            }
        })
    }

    fn now_ms(&self) -> u64 {
        now_ms(self.started)
    }
}

fn now_ms(started: Instant) -> u64 {
    started.elapsed().as_millis() as u64
}

impl IssuerKeys {
    fn keys(&self, now_ms: u64) -> Option<Arc<KeySet>> {
        match &*self.lock() {
            KeyState::File(keys) => Some(Arc::clone(keys)),
            KeyState::Web(rotation) => rotation.keys(now_ms).cloned(),
        }
    }

    fn request_key(&self, now_ms: u64) -> KeyAvailability {
        let availability = match &mut *self.lock() {
            KeyState::File(_) => KeyAvailability::Unknown,
            KeyState::Web(rotation) => rotation.request_key(now_ms),
        };
        // The time of the next fetch may be an earlier one now. A full channel wakes as well.
        let _ = self.wake.try_send(());
        availability
    }

    fn lock(&self) -> MutexGuard<'_, KeyState> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, is_success: bool) {
        self.refreshes[usize::from(!is_success)].fetch_add(1, Ordering::Relaxed);
    }

    /// Reads a file whenever it changes.
    fn watch(&self, file: &KeyFile, stopped: &Receiver<()>, on_refresh: &(dyn Fn(bool) + Sync)) {
        while stopped.recv_timeout(FILE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let issuer = &*self.name;
            match file.read_if_changed() {
                None => continue,
                Some(Ok(keys)) => {
                    let count = keys.keys().len();
                    tracing::info!(%issuer, keys = count, "key file read");
                    *self.lock() = KeyState::File(Arc::new(keys));
                    self.count(true);
                    on_refresh(true);
                }
                Some(Err(error)) => {
                    self.count(false);
                    let message = "reading the key file failed, kept the keys";
                    tracing::error!(%issuer, %error, "{message}");
                }
            }
        }
    }

    /// Fetches keys whenever the rotation says so.
    fn poll(
        &self,
        endpoint: &KeyEndpoint,
        started: Instant,
        stopped: &Receiver<()>,
        on_refresh: &(dyn Fn(bool) + Sync),
    ) {
        loop {
            let due_ms = match &mut *self.lock() {
                KeyState::Web(rotation) => match rotation.start_fetch(now_ms(started)) {
                    true => None,
                    false => rotation.due_ms(),
                },
                KeyState::File(_) => return,
            };
            let Some(due_ms) = due_ms else {
                on_refresh(self.fetch(endpoint, started));
                continue;
            };
            let wait = Duration::from_millis(due_ms.saturating_sub(now_ms(started)));
            select! {
                recv(self.woken) -> _ => {}
                recv(stopped) -> _ => return,
                default(wait) => {}
            }
        }
    }

    /// Fetches keys. Returns `true` if keys were withdrawn.
    fn fetch(&self, endpoint: &KeyEndpoint, started: Instant) -> bool {
        let issuer = &*self.name;
        let fetched = endpoint.fetch();
        let now_ms = now_ms(started);
        self.count(fetched.is_ok());
        let KeyState::Web(rotation) = &mut *self.lock() else {
            return false;
        };
        match fetched {
            Ok((keys, max_age)) => {
                let rejected = keys.rejected().len();
                let max_age_ms = max_age.map(|age| age.as_millis() as u64);
                let change = rotation.fetched(keys, max_age_ms, now_ms);
                let (added, withdrawn) = (change.added, change.withdrawn);
                if added + withdrawn > 0 {
                    tracing::info!(%issuer, added, withdrawn, rejected, "keys fetched");
                }
                withdrawn > 0
            }
            Err(error) => {
                rotation.failed(now_ms);
                tracing::warn!(%issuer, %error, "fetching keys failed, kept the keys");
                false
            }
        }
    }
}
