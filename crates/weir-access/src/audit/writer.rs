//! Log writer: a thread that writes lines. Other threads add them to its source under a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use weir_net::{limited, lock};

use super::config::{AuditError, AuditTarget};
use super::sink::AuditSink;

/// Size in bytes from which a batch of lines is written.
const BATCH_BYTES: usize = 64 * 1024;
/// Interval at which a source with pending lines is checked.
const PENDING_INTERVAL: Duration = Duration::from_secs(1);

/// Bounded queue of lines to write.
pub trait LineSource: Send + 'static {
    /// Adds lines that are due.
    fn prepare(&mut self);
    /// Appends the next line to `lines`. Returns `false` if there is none.
    fn pop_line(&mut self, lines: &mut String) -> bool;
    /// Returns `true` if [`Self::prepare`] may add lines later.
    fn has_pending(&self) -> bool;
}

/// Sending end of a log, shared by all threads.
#[derive(Debug)]
pub struct LineWriter<S> {
    state: Mutex<WriterState<S>>,
    /// Notified when the writer has work.
    wake: Condvar,
    /// Notified when the writer has taken lines.
    taken: Condvar,
    /// Lines that could not be written.
    unwritten: AtomicU64,
}

#[derive(Debug)]
struct WriterState<S> {
    source: S,
    reopen: bool,
    closed: bool,
}

impl<S: LineSource> LineWriter<S> {
    /// Opens the log and starts its writer, which ends after [`Self::close`].
    pub fn start(
        source: S,
        target: &AuditTarget,
    ) -> Result<(Arc<Self>, JoinHandle<()>), AuditError> {
        let sink = AuditSink::open(target)?;
        let writer = Arc::new(Self {
            state: Mutex::new(WriterState {
                source,
                reopen: false,
                closed: false,
            }),
            wake: Condvar::new(),
            taken: Condvar::new(),
            unwritten: AtomicU64::new(0),
        });
        let written = Arc::clone(&writer);
        let thread = std::thread::Builder::new().name("audit".to_owned());
        let thread = thread.spawn(move || written.write(sink));
        let thread = thread.map_err(AuditError::Thread)?;
        Ok((writer, thread))
    }

    /// Adds lines to the source.
    pub fn add<R>(&self, add: impl FnOnce(&mut S) -> R) -> R {
        let added = add(&mut lock(&self.state).source);
        self.wake.notify_one();
        added
    }

    /// Waits until the source has space or the log is closed, then adds lines.
    pub fn add_when<R>(&self, has_space: impl Fn(&S) -> bool, add: impl FnOnce(&mut S) -> R) -> R {
        let mut state = lock(&self.state);
        while !has_space(&state.source) && !state.closed {
            let waited = self.taken.wait(state);
            state = waited.unwrap_or_else(PoisonError::into_inner);
        }
        let added = add(&mut state.source);
        drop(state);
        self.wake.notify_one();
        added
    }

    /// Returns a property of the source.
    pub fn read<R>(&self, read: impl FnOnce(&S) -> R) -> R {
        read(&lock(&self.state).source)
    }

    /// Returns the number of lines that could not be written.
    pub fn unwritten(&self) -> u64 {
        self.unwritten.load(Ordering::Relaxed)
    }

    /// Opens the file again, after it was renamed by log rotation.
    pub fn reopen(&self) {
        lock(&self.state).reopen = true;
        self.wake.notify_one();
    }

    /// Ends the writer after it has written the lines of the source.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        self.wake.notify_one();
        self.taken.notify_all();
    }

    fn write(&self, mut sink: AuditSink) {
        let mut lines = String::new();
        loop {
            lines.clear();
            let Some((count, reopen)) = self.next_batch(&mut lines) else {
                return;
            };
            if reopen {
                if let Err(error) = sink.reopen() {
                    tracing::error!(%error, "audit log not opened again, kept the current file");
                }
            }
            if let Err(error) = sink.write(lines.as_bytes()) {
                self.unwritten.fetch_add(count, Ordering::Relaxed);
                limited!(error, "audit log not written", %error, "audit log not written");
            }
        }
    }

    /// Waits for lines and appends them. Returns their number and whether the file must be opened
    /// again before them, `None` at the end.
    fn next_batch(&self, lines: &mut String) -> Option<(u64, bool)> {
        let mut state = lock(&self.state);
        loop {
            state.source.prepare();
            let mut count = 0;
            while lines.len() < BATCH_BYTES && state.source.pop_line(lines) {
                count += 1;
            }
            let reopen = std::mem::take(&mut state.reopen);
            if count > 0 || reopen {
                self.taken.notify_all();
                return Some((count, reopen));
            }
            if state.closed {
                return None;
            }
            state = self.wait(state);
        }
    }

    fn wait<'a>(&self, state: MutexGuard<'a, WriterState<S>>) -> MutexGuard<'a, WriterState<S>> {
        match state.source.has_pending() {
            true => {
                let waited = self.wake.wait_timeout(state, PENDING_INTERVAL);
                waited.unwrap_or_else(PoisonError::into_inner).0
            }
            false => (self.wake.wait(state)).unwrap_or_else(PoisonError::into_inner),
        }
    }
}

/// Returns Unix time in milliseconds.
pub fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_millis() as u64)
}
