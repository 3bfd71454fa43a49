//! Notifications from the adapter that wait for a response, or for the request that they concern.

use foldhash::HashMap;
use weir_identity::ari::{AdapterNotification, AriError, NotificationResult};

use super::action::{NotificationTicket, ProtocolAction};
use super::text::{MESSAGE_BYTES_MAX, cut};

/// Maximum number of notifications without a response. Until it falls, no more are read.
const PENDING_MAX: usize = 1_000;
/// Maximum length of the ID of a notification.
const ID_BYTES_MAX: usize = 64;
/// Maximum length of a session ID.
const SESSION_BYTES_MAX: usize = 256;

/// A notification for the caller of the protocol.
#[derive(Debug)]
pub(super) struct Notice(NotificationTicket, AdapterNotification);

impl<T> From<Notice> for ProtocolAction<T> {
    fn from(Notice(ticket, notification): Notice) -> Self {
        Self::Notify(ticket, notification)
    }
}

/// Notifications without a response.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Number of the connection.
    generation: u64,
    /// Number of the last notification.
    last: u64,
    /// The adapter's ID of a notification, and the notification without its texts; by number.
    pending: HashMap<u64, (String, AdapterNotification)>,
    /// Session IDs and notifications about sessions and subscriptions that the adapter has not
    /// accepted yet.
    deferred: Vec<(String, Notice)>,
}

impl Notices {
    /// Returns `true` if no more notifications may be read.
    pub(super) fn is_full(&self) -> bool {
        self.pending.len() >= PENDING_MAX
    }

    /// Discards all notifications, because the connection has ended.
    pub(super) fn reset(&mut self) {
        *self = Self {
            generation: self.generation + 1,
            ..Self::default()
        };
    }

    /// Stores a notification about a session or subscription. Returns it unless `must_wait` returns
    /// `true` for its session, because a request of that session is pending.
    pub(super) fn receive(
        &mut self,
        id: &str,
        mut notification: AdapterNotification,
        must_wait: impl Fn(&str) -> bool,
        out: &mut String,
    ) -> Result<Option<Notice>, AriError> {
        if id.len() > ID_BYTES_MAX {
            return Err(AriError::Line);
        }
        let (session, without_texts) = match &mut notification {
            AdapterNotification::ForceSessionEnd { session, cause } => {
                if let Some((_, Some(message))) = cause {
                    cut(message, MESSAGE_BYTES_MAX);
                }
                let without_texts = AdapterNotification::ForceSessionEnd {
                    session: String::new(),
                    cause: None,
                };
                (session.clone(), without_texts)
            }
            AdapterNotification::ForceUnsubscription { session, window } => {
                let without_texts = AdapterNotification::ForceUnsubscription {
                    session: String::new(),
                    window: *window,
                };
                (session.clone(), without_texts)
            }
            _ => return Ok(None),
        };
        if session.len() > SESSION_BYTES_MAX {
            let result = NotificationResult::Failed("unknown session".to_owned());
            without_texts.encode_result(id, &result, out);
            return Ok(None);
        }
        self.last += 1;
        let ticket = NotificationTicket {
            generation: self.generation,
            number: self.last,
        };
        self.pending
            .insert(self.last, (id.to_owned(), without_texts));
        let notice = Notice(ticket, notification);
        if must_wait(&session) {
            self.deferred.push((session, notice));
            return Ok(None);
        }
        Ok(Some(notice))
    }

    /// Removes and returns the notifications that have waited for a request of a session.
    pub(super) fn release(&mut self, session: &str) -> Vec<Notice> {
        if self.deferred.is_empty() {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.deferred);
        let (released, deferred): (Vec<_>, _) =
            all.into_iter().partition(|(name, _)| name == session);
        self.deferred = deferred;
        released.into_iter().map(|(_, notice)| notice).collect()
    }

    /// Appends the response to `out`, unless the notification belongs to an earlier connection.
    pub(super) fn respond(
        &mut self,
        ticket: NotificationTicket,
        result: &NotificationResult,
        out: &mut String,
    ) {
        if ticket.generation != self.generation {
            return;
        }
        if let Some((id, notification)) = self.pending.remove(&ticket.number) {
            notification.encode_result(&id, result, out);
        }
    }
}
