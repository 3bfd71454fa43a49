//! Records of the audit log about sessions.

use weir_fanout::SessionKey;
use weir_identity::audit::{AuditEvent, AuditOutcome, AuditRecord};

use super::clients::Clients;
use super::requests::client_ip;
use super::wire::Wire;

impl Clients {
    /// Records an event of a session, with its handle and the client's address; `add` completes the
    /// record. Costs one branch without an audit log.
    pub(super) fn audit(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        (event, outcome): (AuditEvent, AuditOutcome),
        add: impl FnOnce(AuditRecord) -> AuditRecord,
    ) {
        let Some(log) = &self.shared.audit else {
            return;
        };
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let handle = self.shared.handles.of(entry.core.id());
        let record = log.event(event, outcome).session(&handle);
        let address = client_ip(wire, entry.conn);
        log.record(add(match address.is_empty() {
            true => record,
            false => record.address(&address),
        }));
    }

    /// Records the end of a session; the caller ends it next.
    pub(super) fn audit_end(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        reason: &'static str,
        code: Option<i32>,
    ) {
        let event = (AuditEvent::End, AuditOutcome::Allow);
        self.audit(wire, key, event, |record| {
            let record = record.reason(reason);
            match code {
                Some(code) => record.code(code),
                None => record,
            }
        });
    }
}
