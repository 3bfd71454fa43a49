//! Bounded mailbox of an event loop: other threads post events, and the loop takes them once per
//! iteration.
//!
//! Posting wakes the event loop with a system call only while it sleeps. To a running loop it costs
//! only a queue operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use crossbeam_channel::{Receiver, SendTimeoutError, Sender};

/// Sending end of a mailbox; clones share the queue.
#[derive(Debug)]
pub struct MailboxSender<T> {
    queue: Sender<T>,
    wake_state: Arc<WakeState>,
}

/// Receiving end, used by the event loop.
#[derive(Debug)]
pub struct MailboxReceiver<T> {
    queue: Receiver<T>,
    wake_state: Arc<WakeState>,
}

#[derive(Debug)]
struct WakeState {
    asleep: AtomicBool,
    waker: mio::Waker,
}

/// Failure to post an event, with the event.
#[derive(Debug, thiserror::Error)]
pub enum PostError<T> {
    /// The queue was full until the timeout.
    #[error("the event loop's mailbox is full")]
    Full(T),
    /// The loop has ended.
    #[error("the event loop has ended")]
    Closed(T),
}

/// Creates a mailbox for `capacity` events; `waker` wakes the event loop that receives them.
pub fn mailbox<T>(waker: mio::Waker, capacity: usize) -> (MailboxSender<T>, MailboxReceiver<T>) {
    let (sender, receiver) = crossbeam_channel::bounded(capacity);
    let wake_state = Arc::new(WakeState {
        asleep: AtomicBool::new(false),
        waker,
    });
    (
        MailboxSender {
            queue: sender,
            wake_state: Arc::clone(&wake_state),
        },
        MailboxReceiver {
            queue: receiver,
            wake_state,
        },
    )
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
    /// Posts an event, waiting up to `timeout` while the queue is full.
    ///
    /// # Errors
    /// The queue is full or the event loop has ended.
    pub fn post(&self, event: T, timeout: Duration) -> Result<(), PostError<T>> {
        let posted = match self.queue.try_send(event) {
            Ok(()) => Ok(()),
            Err(crossbeam_channel::TrySendError::Full(event)) => self
                .queue
                .send_timeout(event, timeout)
                .map_err(|error| match error {
                    SendTimeoutError::Timeout(event) => PostError::Full(event),
                    SendTimeoutError::Disconnected(event) => PostError::Closed(event),
                }),
            Err(crossbeam_channel::TrySendError::Disconnected(event)) => {
                Err(PostError::Closed(event))
            }
        };
        self.wake_state.wake();
        posted
    }

    /// Returns the number of waiting events.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Returns `true` if no event waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl<T> MailboxReceiver<T> {
    /// Removes and returns the next event, if any.
    pub fn take(&self) -> Option<T> {
        self.queue.try_recv().ok()
    }

    /// Announces that the event loop is about to sleep. Returns `false` if events wait, so that it
    /// must not.
    pub fn may_sleep(&self) -> bool {
        self.wake_state.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `wake`: either the sender sees the loop asleep, or the loop sees
        // the event.
        fence(Ordering::SeqCst);
        if self.queue.is_empty() {
            return true;
        }
        self.awake();
        false
    }

    /// Announces that the event loop is running again.
    pub fn awake(&self) {
        self.wake_state.asleep.store(false, Ordering::Relaxed);
    }
}

impl WakeState {
    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // The waker is an eventfd: writing to it fails only when the loop has ended.
            let _ = self.waker.wake();
        }
    }
}
