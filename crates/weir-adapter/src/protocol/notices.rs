//! Notifications of the adapter that wait for an answer, or for the request that they concern.

use foldhash::HashMap;
use weir_identity::ari::{AdapterNotification, AriError, NotificationResult};

use super::action::{NotificationTicket, ProtocolAction};
use super::text::{MESSAGE_BYTES_MAX, cut};

/// Most notifications without an answer. More are not read before.
const UNANSWERED_MAX: usize = 1_000;
/// Longest ID of a notification, in bytes.
const ID_BYTES_MAX: usize = 64;
/// Longest session ID, in bytes.
const SESSION_BYTES_MAX: usize = 256;

/// A notification to report.
#[derive(Debug)]
pub(super) struct Notice(NotificationTicket, AdapterNotification);

impl<T> From<Notice> for ProtocolAction<T> {
    fn from(Notice(ticket, notification): Notice) -> Self {
        Self::Notify(ticket, notification)
    }
}

/// Notifications without an answer.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// Number of the connection.
    generation: u64,
    last: u64,
    /// ID of the adapter, and the notification without texts.
    unanswered: HashMap<u64, (String, AdapterNotification)>,
    /// Notifications about sessions and subscriptions that are being accepted.
    deferred: Vec<(String, Notice)>,
}

impl Notices {
    pub(super) fn is_full(&self) -> bool {
        self.unanswered.len() >= UNANSWERED_MAX
    }

    /// Forgets everything about the connection.
    pub(super) fn reset(&mut self) {
        *self = Self {
            generation: self.generation + 1,
            ..Self::default()
        };
    }

    /// Receives a notification. Returns it unless it has to wait for a request, which `waits`
    /// decides by session.
    pub(super) fn receive(
        &mut self,
        id: &str,
        mut notification: AdapterNotification,
        waits: impl Fn(&str) -> bool,
        out: &mut String,
    ) -> Result<Option<Notice>, AriError> {
        if id.len() > ID_BYTES_MAX {
            return Err(AriError::Line);
        }
        let (session, plain) = match &mut notification {
            AdapterNotification::ForceSessionEnd { session, cause } => {
                if let Some((_, Some(message))) = cause {
                    cut(message, MESSAGE_BYTES_MAX);
                }
                let plain = AdapterNotification::ForceSessionEnd {
                    session: String::new(),
                    cause: None,
                };
                (session.clone(), plain)
            }
            AdapterNotification::ForceUnsubscription { session, window } => {
                let plain = AdapterNotification::ForceUnsubscription {
                    session: String::new(),
                    window: *window,
                };
                (session.clone(), plain)
            }
            _ => return Ok(None),
        };
        if session.len() > SESSION_BYTES_MAX {
            let result = NotificationResult::Failed("unknown session".to_owned());
            plain.encode_result(id, &result, out);
            return Ok(None);
        }
        self.last += 1;
        let ticket = NotificationTicket {
            generation: self.generation,
            number: self.last,
        };
        self.unanswered.insert(self.last, (id.to_owned(), plain));
        let notice = Notice(ticket, notification);
        if waits(&session) {
            self.deferred.push((session, notice));
            return Ok(None);
        }
        Ok(Some(notice))
    }

    /// Returns the notifications that have waited for a request of a session.
    pub(super) fn release(&mut self, session: &str) -> Vec<Notice> {
        if self.deferred.is_empty() {
            return Vec::new();
        }
        let all = std::mem::take(&mut self.deferred);
        let (due, left): (Vec<_>, _) = all.into_iter().partition(|(name, _)| name == session);
        self.deferred = left;
        due.into_iter().map(|(_, notice)| notice).collect()
    }

    /// Appends the answer, unless the notification belongs to an earlier connection.
    pub(super) fn respond(
        &mut self,
        ticket: NotificationTicket,
        result: &NotificationResult,
        out: &mut String,
    ) {
        if ticket.generation != self.generation {
            return;
        }
        if let Some((id, notification)) = self.unanswered.remove(&ticket.number) {
            notification.encode_result(&id, result, out);
        }
    }
}
