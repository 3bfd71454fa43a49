//! Bounded mailbox of an event loop: other threads post events, and the loop takes them once per
//! iteration.
//!
//! Posting wakes the event loop with a system call only while it sleeps. To a running loop it costs
//! only a queue operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use crossbeam_channel::{Receiver, SendTimeoutError, Sender, TrySendError};

/// Sending end of a mailbox; clones share the queue.
#[derive(Debug)]
pub struct MailboxSender<T> {
    queue: Sender<T>,
    wake_state: Arc<WakeState>,
}

/// Receiving end, used by the event loop.
#[derive(Debug)]
pub(crate) struct MailboxReceiver<T> {
    queue: Receiver<T>,
    wake_state: Arc<WakeState>,
}

#[derive(Debug)]
struct WakeState {
    asleep: AtomicBool,
    waker: mio::Waker,
}

/// Creates a mailbox for `capacity` events; `waker` wakes the event loop that receives them.
pub(crate) fn mailbox<T>(
    waker: mio::Waker,
    capacity: usize,
) -> (MailboxSender<T>, MailboxReceiver<T>) {
    let (sender, queue) = crossbeam_channel::bounded(capacity);
    let asleep = AtomicBool::new(false);
    let wake_state = Arc::new(WakeState { asleep, waker });
    let sender = MailboxSender {
        queue: sender,
        wake_state: Arc::clone(&wake_state),
    };
    (sender, MailboxReceiver { queue, wake_state })
}

impl<T> Clone for MailboxSender<T> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            wake_state: Arc::clone(&self.wake_state),
        }
    }
}

impl<T> MailboxSender<T> {
    /// Posts an event, waiting up to `timeout` while the queue is full. Fails if it stays full or
    /// the event loop has ended.
    pub fn post(&self, event: T, timeout: Duration) -> Result<(), SendTimeoutError<T>> {
        let posted = self.queue.try_send(event).or_else(|error| match error {
            TrySendError::Full(event) => self.queue.send_timeout(event, timeout),
            TrySendError::Disconnected(event) => Err(SendTimeoutError::Disconnected(event)),
        });
        fence(Ordering::SeqCst);
        let asleep = &self.wake_state.asleep;
        if asleep.load(Ordering::Relaxed) && asleep.swap(false, Ordering::Relaxed) {
            // The waker is an eventfd: writing to it fails only when the loop has ended.
            let _ = self.wake_state.waker.wake();
        }
        posted
    }
}

impl<T> MailboxReceiver<T> {
    pub(crate) fn take(&self) -> Option<T> {
        self.queue.try_recv().ok()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Announces that the event loop is about to sleep. Returns `false` if events wait, so that it
    /// must not.
    pub(crate) fn may_sleep(&self) -> bool {
        self.wake_state.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `post`: either the sender sees the loop asleep, or the loop sees
        // the event.
        fence(Ordering::SeqCst);
        if self.is_empty() {
            return true;
        }
        self.awake();
        false
    }

    /// Announces that the event loop is running. Returns `true` if it did not announce to sleep, or
    /// an event was posted since. One that is posted meanwhile is found by
    /// [`may_sleep`](Self::may_sleep).
    pub(crate) fn awake(&self) -> bool {
        let asleep = &self.wake_state.asleep;
        let may_have_events = !asleep.load(Ordering::Relaxed);
        asleep.store(false, Ordering::Relaxed);
        may_have_events
    }
}
