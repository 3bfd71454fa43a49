//! A thread that stores offsets. librdkafka does not report the result of an asynchronous commit,
//! so this thread commits synchronously in place of the reader.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};

use super::client::IngestContext;
use super::error::SourceError;
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
    queued: Option<TopicPartitionList>,
    committing: bool,
    stopping: bool,
}

impl Committer {
    pub(super) fn spawn(
        consumer: &Arc<BaseConsumer<IngestContext>>,
        shared: &Arc<IngestState>,
    ) -> Result<Self, SourceError> {
        let pending = Arc::new(PendingCommit::default());
        let (consumer, shared) = (Arc::clone(consumer), Arc::clone(shared));
        let for_thread = Arc::clone(&pending);
        let thread = std::thread::Builder::new()
            .name("kafka-commit".to_owned())
            .spawn(move || for_thread.serve(&consumer, &shared))
            .map_err(|error| SourceError::Thread {
                reason: error.to_string(),
            })?;
        Ok(Self {
            pending,
            thread: Some(thread),
        })
    }

    /// Queues a list of offsets. It replaces a list that was not sent yet, so each list must be
    /// complete.
    pub(super) fn post(&self, list: TopicPartitionList) {
        self.pending.lock().queued = Some(list);
        self.pending.changed.notify_all();
    }

    /// Returns `true` if every queued list was committed, rejected or replaced within `timeout`.
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
    fn serve(&self, consumer: &BaseConsumer<IngestContext>, shared: &IngestState) {
        while let Some(list) = self.next() {
            let result = consumer.commit(&list, CommitMode::Sync);
            let error = result.err().map(|error| error.to_string());
            shared.note_commit(error.map(|error| format!("commit of offsets: {error}")));
        }
    }

    /// Returns the next list, or `None` if the thread must stop.
    fn next(&self) -> Option<TopicPartitionList> {
        let mut inner = self.lock();
        inner.committing = false;
        self.changed.notify_all();
        let idle = |inner: &mut Inner| inner.queued.is_none() && !inner.stopping;
        let waited = self.changed.wait_while(inner, idle);
        inner = waited.unwrap_or_else(PoisonError::into_inner);
        let list = inner.queued.take();
        inner.committing = list.is_some();
        list
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
