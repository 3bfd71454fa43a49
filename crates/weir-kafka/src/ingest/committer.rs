//! The thread that stores offsets: librdkafka tells nobody how an asynchronous commit went, so this
//! one waits for each answer in the reader's place.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rdkafka::TopicPartitionList;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};

use super::SourceError;
use super::client::IngestContext;
use super::state::IngestState;

/// The reader's end. Dropping it ends the thread, unless a broker keeps that waiting.
pub(super) struct Committer {
    desk: Arc<PendingCommit>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct PendingCommit {
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    waiting: Option<TopicPartitionList>,
    busy: bool,
    stopping: bool,
}

impl Committer {
    pub(super) fn spawn(
        consumer: &Arc<BaseConsumer<IngestContext>>,
        shared: &Arc<IngestState>,
    ) -> Result<Self, SourceError> {
        let desk = Arc::new(PendingCommit::default());
        let (consumer, shared) = (Arc::clone(consumer), Arc::clone(shared));
        let theirs = Arc::clone(&desk);
        let thread = std::thread::Builder::new()
            .name("kafka-commit".to_owned())
            .spawn(move || theirs.serve(&consumer, &shared))
            .map_err(|error| SourceError::Thread {
                reason: error.to_string(),
            })?;
        Ok(Self {
            desk,
            thread: Some(thread),
        })
    }

    /// Hands over a list. One that still waits is replaced, so each must be complete.
    pub(super) fn post(&self, list: TopicPartitionList) {
        self.desk.lock().waiting = Some(list);
        self.desk.changed.notify_all();
    }

    /// Whether every list handed over was sent and answered or replaced within `patience`.
    pub(super) fn wait_committed(&self, patience: Duration) -> bool {
        let open = |inner: &mut Inner| inner.busy || inner.waiting.is_some();
        let waited = self
            .desk
            .changed
            .wait_timeout_while(self.desk.lock(), patience, open);
        let (inner, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(inner);
        !timeout.timed_out()
    }
}

impl Drop for Committer {
    fn drop(&mut self) {
        let mut inner = self.desk.lock();
        inner.stopping = true;
        let busy = inner.busy;
        drop(inner);
        self.desk.changed.notify_all();
        if let Some(thread) = self.thread.take().filter(|_| !busy) {
            // A panic there was reported by its own thread; nothing is left to do here.
            let _ = thread.join();
        }
    }
}

impl PendingCommit {
    fn serve(&self, consumer: &BaseConsumer<IngestContext>, shared: &IngestState) {
        while let Some(list) = self.next() {
            let outcome = consumer.commit(&list, CommitMode::Sync);
            let error = outcome.err().map(|error| error.to_string());
            shared.note_commit(error.map(|error| format!("commit of offsets: {error}")));
        }
    }

    /// The next list; `None` to stop.
    fn next(&self) -> Option<TopicPartitionList> {
        let mut inner = self.lock();
        inner.busy = false;
        self.changed.notify_all();
        let idle = |inner: &mut Inner| inner.waiting.is_none() && !inner.stopping;
        let waited = self.changed.wait_while(inner, idle);
        inner = waited.unwrap_or_else(PoisonError::into_inner);
        let list = inner.waiting.take();
        inner.busy = list.is_some();
        list
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
