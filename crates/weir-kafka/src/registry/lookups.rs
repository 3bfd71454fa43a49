//! Looks up schemas in the background, with a fixed number of threads.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;

use super::client::RegistryClient;
use super::error::RegistryError;
use super::file_cache::FileCache;
use super::id::RegistryId;
use super::log::FailureLog;
use super::queue::{LookupAction, LookupLimits, LookupOutcome, LookupQueue, NextStep};
use super::response::RegisteredSchema;

/// Number of threads, and so of requests at a time.
const THREADS: usize = 2;
/// Longest sleep of a thread without work, which only bounds a wrong clock.
const IDLE: Duration = Duration::from_secs(60);

/// Reason why a receiver cannot use a schema.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct UnusableSchema(pub String);

/// Receiver of schemas. Called by the threads of [`Lookups`].
pub trait SchemaSink: Send + Sync {
    /// Takes a schema.
    ///
    /// # Errors
    /// The schema cannot be used.
    fn found(&self, id: &RegistryId, schema: &RegisteredSchema) -> Result<(), UnusableSchema>;
    /// Notes that a lookup has failed for good, with the reason.
    fn failed(&self, id: &RegistryId, reason: &str);
    /// Notes that a failure is forgotten; the next record requests the schema again.
    fn expired(&self, id: &RegistryId);
}

/// Counters of lookups.
#[derive(Debug, Default)]
pub struct LookupCounters {
    /// Requests to the registry.
    pub requests: AtomicU64,
    /// Requests that failed, those for unknown ids included.
    pub failures: AtomicU64,
    /// Ids given up because the registry does not know them.
    pub unknown_ids: AtomicU64,
    /// Schemas read from files.
    pub from_files: AtomicU64,
}

/// Lookups in the background. Dropping it ends the threads after their current requests.
pub struct Lookups {
    shared: Arc<SharedLookups>,
}

struct SharedLookups {
    client: RegistryClient,
    files: Option<FileCache>,
    sink: Arc<dyn SchemaSink>,
    counters: LookupCounters,
    state: Mutex<LookupState>,
    wake: Condvar,
}

struct LookupState {
    queue: LookupQueue,
    log: FailureLog,
    is_stopped: bool,
}

/// Result of a lookup.
enum LookupResult {
    Schema,
    Failed(LookupOutcome, String, Option<RegistryError>),
}

impl Lookups {
    /// Starts the threads.
    ///
    /// # Errors
    /// The operating system refuses a thread.
    pub fn start(
        client: RegistryClient,
        files: Option<FileCache>,
        limits: LookupLimits,
        sink: Arc<dyn SchemaSink>,
    ) -> io::Result<Self> {
        let state = LookupState {
            queue: LookupQueue::new(limits),
            log: FailureLog::default(),
            is_stopped: false,
        };
        let shared = Arc::new(SharedLookups {
            client,
            files,
            sink,
            counters: LookupCounters::default(),
            state: Mutex::new(state),
            wake: Condvar::new(),
        });
        let lookups = Self { shared };
        for number in 0..THREADS {
            let shared = Arc::clone(&lookups.shared);
            std::thread::Builder::new()
                .name(format!("registry-{number}"))
                .spawn(move || shared.run())?;
        }
        Ok(lookups)
    }

    /// Requests a schema, unless that is under way. The sink receives the result.
    pub fn request(&self, id: &RegistryId) {
        if self.shared.state().queue.add(id, Instant::now()) {
            self.shared.wake.notify_one();
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &LookupCounters {
        &self.shared.counters
    }
}

impl Drop for Lookups {
    fn drop(&mut self) {
        self.shared.state().is_stopped = true;
        self.shared.wake.notify_all();
    }
}

impl SharedLookups {
    fn state(&self) -> MutexGuard<'_, LookupState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        while let Some(id) = self.next() {
            let found = self.look_up(&id);
            self.finish(&id, found);
        }
    }

    /// Waits for the next due lookup. Returns `None` at the end.
    fn next(&self) -> Option<RegistryId> {
        let mut state = self.state();
        loop {
            if state.is_stopped {
                return None;
            }
            let now = Instant::now();
            let expired = state.queue.take_expired(now);
            if !expired.is_empty() {
                drop(state);
                expired.iter().for_each(|id| self.sink.expired(id));
                state = self.state();
                continue;
            }
            let wait = match state.queue.next(now) {
                NextStep::Request(id) => return Some(id),
                NextStep::Wait(until) => until.map_or(IDLE, |until| until - now).min(IDLE),
            };
            let waited = self.wake.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn look_up(&self, id: &RegistryId) -> LookupResult {
        if let Some(schema) = self.files.as_ref().and_then(|files| files.get(id)) {
            self.counters.from_files.fetch_add(1, Ordering::Relaxed);
            if self.sink.found(id, &schema).is_ok() {
                return LookupResult::Schema;
            }
            self.files.iter().for_each(|files| files.remove(id));
        }
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let schema = match self.client.schema(id) {
            Ok(schema) => schema,
            Err(error) => {
                let outcome = match &error {
                    error if error.is_not_found() => LookupOutcome::Unknown,
                    error if error.is_transient() => LookupOutcome::Unavailable,
                    _ => LookupOutcome::Unusable,
                };
                return LookupResult::Failed(outcome, error.to_string(), Some(error));
            }
        };
        // Stored first, so that a program that uses a schema finds it after a restart.
        if let Some(Err(error)) = self.files.as_ref().map(|files| files.put(id, &schema)) {
            tracing::warn!(schema = %id, %error, "schema not stored in a file");
        }
        if let Err(error) = self.sink.found(id, &schema) {
            self.files.iter().for_each(|files| files.remove(id));
            return LookupResult::Failed(LookupOutcome::Unusable, error.to_string(), None);
        }
        LookupResult::Schema
    }

    fn finish(&self, id: &RegistryId, found: LookupResult) {
        let random = RandomState::new().build_hasher().finish();
        let now = Instant::now();
        let mut state = self.state();
        let (outcome, reason, error) = match found {
            LookupResult::Schema => {
                state.queue.finish(id, LookupOutcome::Found, now, random);
                return;
            }
            LookupResult::Failed(outcome, reason, error) => (outcome, reason, error),
        };
        self.counters.failures.fetch_add(1, Ordering::Relaxed);
        match state.queue.finish(id, outcome, now, random) {
            LookupAction::Done => {}
            LookupAction::Retry => {
                if let Some(error) = error {
                    state.log.note(id, &error, now);
                }
            }
            LookupAction::GiveUp => {
                drop(state);
                if outcome == LookupOutcome::Unknown {
                    self.counters.unknown_ids.fetch_add(1, Ordering::Relaxed);
                }
                tracing::warn!(
                    schema = %id, %reason,
                    "schema lookup failed, its records cannot be decoded"
                );
                self.sink.failed(id, &reason);
            }
        }
    }
}

#[cfg(test)]
mod tests;
