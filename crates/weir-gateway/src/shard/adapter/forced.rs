//! Ends of sessions and subscriptions that the adapter demands.

use weir_adapter::NotificationTicket;
use weir_fanout::SessionKey;
use weir_identity::ari::{AdapterNotification, NotificationResult};
use weir_identity::audit::{AuditEvent, AuditOutcome};
use weir_tlcp::codes::{ControlCode, SessionCode};

use crate::shard::clients::Clients;
use crate::shard::wire::Wire;

/// Reason in the audit log.
const REASON: &str = "adapter";

impl Clients {
    /// Does what the adapter demands, and answers.
    pub(super) fn forced(
        &mut self,
        wire: &mut impl Wire,
        ticket: NotificationTicket,
        notification: &AdapterNotification,
    ) {
        let result = match notification {
            AdapterNotification::ForceSessionEnd { session, cause } => {
                let cause = cause.as_ref();
                let cause = cause.map(|(code, text)| (*code, text.as_deref().unwrap_or_default()));
                self.adapter_session(session)
                    .map(|key| self.force_end(wire, key, cause))
            }
            AdapterNotification::ForceUnsubscription { session, window } => self
                .adapter_session(session)
                .map(|key| self.force_end_of(wire, key, *window)),
            AdapterNotification::Credentials { .. } | AdapterNotification::Failure { .. } => return,
        };
        let unknown = || NotificationResult::Failed("unknown session".to_owned());
        let result = result.unwrap_or_else(unknown);
        if let Some(adapter) = &self.adapter {
            adapter.access.port.respond(ticket, result);
        }
    }

    /// Returns a session that the adapter has accepted. It cannot end others.
    fn adapter_session(&self, id: &str) -> Option<SessionKey> {
        let key = self.sessions.find(id)?;
        self.has_adapter(key).then_some(key)
    }

    fn force_end(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        cause: Option<(i32, &str)>,
    ) -> NotificationResult {
        let event = (AuditEvent::Disconnect, AuditOutcome::Allow);
        self.audit_reason(wire, key, event, Some(REASON));
        let (code, text) = match cause {
            None => {
                let code = SessionCode::DESTROYED_BY_SERVER;
                (code, code.text().to_owned())
            }
            // Codes above 0 are those of the protocol.
            Some((code, text)) => {
                let text = text.replace(['\r', '\n'], " ");
                (SessionCode::from_code(code.min(0)), text)
            }
        };
        self.end_session(wire, key, code, &text, false);
        NotificationResult::SessionEnds
    }

    fn force_end_of(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        window: i32,
    ) -> NotificationResult {
        let mut lines = Vec::new();
        // Subscriptions of clients of events get their numbers after the decision.
        let has_events = self.has_events(key);
        let adapter = self.adapter.as_ref().filter(|_| has_events);
        let table = adapter.and_then(|adapter| adapter.sessions.sub_id_of(key.to_bits(), window));
        let sub_id = table.unwrap_or(window as u32);
        let item = self.items.name_at(sub_id.wrapping_sub(1)).cloned();
        let is_done = self.unsubscribe(key, sub_id, &mut lines).is_ok();
        if is_done {
            let event = (AuditEvent::GrantLost, AuditOutcome::Deny);
            self.audit_reason(wire, key, event, Some(REASON));
            self.notify(wire, key, &lines);
            if let Some((_, item)) = item {
                self.refuse_event_item(wire, key, &item, &ControlCode::REFUSED.into());
            }
        }
        NotificationResult::Unsubscribed(is_done)
    }
}
