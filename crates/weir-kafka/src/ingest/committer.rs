//! A thread that stores offsets, so that the reader does not wait for the result.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::error::SourceError;
use super::offsets::Offsets;
use super::partition_client::PartitionClient;
use super::state::IngestState;

/// Handle of the commit thread. Dropping it stops the thread and waits for it, unless a commit is
/// in progress.
pub(super) struct Committer {
    pending: Arc<PendingCommit>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct PendingCommit {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    queued: Option<Offsets>,
    committing: bool,
    stopping: bool,
}

impl Committer {
    pub(super) fn spawn(
        client: &Arc<dyn PartitionClient>,
        shared: &Arc<IngestState>,
    ) -> Result<Self, SourceError> {
        let pending = Arc::new(PendingCommit::default());
        let (client, shared) = (Arc::clone(client), Arc::clone(shared));
        let for_thread = Arc::clone(&pending);
        let thread = std::thread::Builder::new()
            .name("kafka-commit".to_owned())
            .spawn(move || for_thread.serve(&*client, &shared))
            .map_err(|error| SourceError::Thread {
                reason: error.to_string(),
            })?;
        Ok(Self {
            pending,
            thread: Some(thread),
        })
    }

    /// Queues offsets. They replace those that were not sent yet, so they must be complete.
    pub(super) fn post(&self, offsets: Offsets) {
        self.pending.lock().queued = Some(offsets);
        self.pending.changed.notify_all();
    }

    /// Returns `true` if all queued offsets were committed, rejected or replaced within `timeout`.
    pub(super) fn wait_committed(&self, timeout: Duration) -> bool {
        let is_unfinished = |inner: &mut Inner| inner.committing || inner.queued.is_some();
        let waited =
            self.pending
                .changed
                .wait_timeout_while(self.pending.lock(), timeout, is_unfinished);
        let (inner, result) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(inner);
        !result.timed_out()
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        let mut inner = self.pending.lock();
        inner.stopping = true;
        let committing = inner.committing;
        drop(inner);
        self.pending.changed.notify_all();
        if let Some(thread) = self.thread.take().filter(|_| !committing) {
            // A panic there was already reported; there is nothing to handle.
            let _ = thread.join();
        }
    }
}

impl PendingCommit {
    fn serve(&self, client: &dyn PartitionClient, shared: &IngestState) {
        while let Some(offsets) = self.next() {
            let error = client.commit(&offsets).err();
            shared.note_commit(error.map(|error| format!("commit of offsets: {error}")));
        }
    }

    /// Returns the next offsets, or `None` if the thread must stop.
    fn next(&self) -> Option<Offsets> {
        let mut inner = self.lock();
        inner.committing = false;
        self.changed.notify_all();
        let idle = |inner: &mut Inner| inner.queued.is_none() && !inner.stopping;
        let waited = self.changed.wait_while(inner, idle);
        inner = waited.unwrap_or_else(PoisonError::into_inner);
        let offsets = inner.queued.take();
        inner.committing = offsets.is_some();
        offsets
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
