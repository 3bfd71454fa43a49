//! A bounded inbox for an event loop: other threads post, the loop drains once a turn.
//!
//! The system call that wakes the loop is made only while it sleeps, so a busy loop costs its
//! senders a queue operation and nothing else.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

use crossbeam_channel::{Receiver, SendTimeoutError, Sender};

/// The posting end; clones share one queue.
#[derive(Debug)]
pub struct MailboxSender<T> {
    queue: Sender<T>,
    bell: Arc<WakeState>,
}

/// The loop's end.
#[derive(Debug)]
pub struct MailboxReceiver<T> {
    queue: Receiver<T>,
    bell: Arc<WakeState>,
}

#[derive(Debug)]
struct WakeState {
    asleep: AtomicBool,
    waker: mio::Waker,
}

/// Why a mail was not taken; the mail comes back.
#[derive(Debug, thiserror::Error)]
pub enum PostError<T> {
    /// The queue stayed full for the whole waiting time.
    #[error("the event loop's inbox is full")]
    Full(T),
    /// The loop has ended.
    #[error("the event loop has ended")]
    Closed(T),
}

/// An inbox for `capacity` mails; `waker` wakes the loop that drains it.
pub fn mailbox<T>(waker: mio::Waker, capacity: usize) -> (MailboxSender<T>, MailboxReceiver<T>) {
    let (sender, receiver) = crossbeam_channel::bounded(capacity);
    let bell = Arc::new(WakeState {
        asleep: AtomicBool::new(false),
        waker,
    });
    (
        MailboxSender {
            queue: sender,
            bell: Arc::clone(&bell),
        },
        MailboxReceiver {
            queue: receiver,
            bell,
        },
    )
}

impl<T> Clone for MailboxSender<T> {
    fn clone(&self) -> Self {
        Self {
            queue: self.queue.clone(),
            bell: Arc::clone(&self.bell),
        }
    }
}

impl<T> MailboxSender<T> {
    /// Posts `mail`, waiting up to `timeout` while the queue is full.
    pub fn post(&self, mail: T, timeout: Duration) -> Result<(), PostError<T>> {
        let posted = match self.queue.try_send(mail) {
            Ok(()) => Ok(()),
            Err(crossbeam_channel::TrySendError::Full(mail)) => self
                .queue
                .send_timeout(mail, timeout)
                .map_err(|error| match error {
                    SendTimeoutError::Timeout(mail) => PostError::Full(mail),
                    SendTimeoutError::Disconnected(mail) => PostError::Closed(mail),
                }),
            Err(crossbeam_channel::TrySendError::Disconnected(mail)) => {
                Err(PostError::Closed(mail))
            }
        };
        self.bell.ring();
        posted
    }

    /// Mails waiting now.
    pub fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether no mail waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

impl<T> MailboxReceiver<T> {
    /// The next mail, if any.
    pub fn take(&self) -> Option<T> {
        self.queue.try_recv().ok()
    }

    /// Announces that the loop is about to sleep; false when mail is waiting and it must not.
    pub fn may_sleep(&self) -> bool {
        self.bell.asleep.store(true, Ordering::Relaxed);
        // Pairs with the fence in `ring`: either the sender sees us asleep or we see its mail.
        fence(Ordering::SeqCst);
        if self.queue.is_empty() {
            return true;
        }
        self.awake();
        false
    }

    /// Announces that the loop is awake again.
    pub fn awake(&self) {
        self.bell.asleep.store(false, Ordering::Relaxed);
    }
}

impl WakeState {
    fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            // The waker is an eventfd: writing can only fail when the loop is gone.
            let _ = self.waker.wake();
        }
    }
}
