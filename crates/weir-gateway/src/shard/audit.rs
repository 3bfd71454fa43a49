//! Records of the audit log about sessions.

use weir_fanout::SessionKey;
use weir_identity::audit::{AuditEvent, AuditOutcome, AuditRecord};
use weir_mapping::{CanonicalItem, split_items};
use weir_net::server::ConnId;
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::Add;

use super::clients::Clients;
use super::requests::client_ip;
use super::resolve::ResolvedItems;
use super::wire::Wire;

impl Clients {
    /// Records a new session.
    pub(super) fn audit_create(&mut self, wire: &mut impl Wire, key: SessionKey) {
        self.audit_reason(wire, key, (AuditEvent::Create, AuditOutcome::Allow), None);
    }

    /// Records a client that gets no session.
    pub(super) fn audit_refused(
        &self,
        wire: &mut impl Wire,
        conn: ConnId,
        reason: &'static str,
        code: SessionCode,
    ) {
        if let Some(log) = &self.shared.audit {
            let record = log.event(AuditEvent::Create, AuditOutcome::Deny);
            let address = client_ip(wire, conn);
            log.record(record.reason(reason).code(code.code()).address(&address));
        }
    }

    /// Records a new token for a session; `failure` is the reason why it is not accepted.
    pub(super) fn audit_refresh(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        failure: Option<&'static str>,
    ) {
        let outcome = match failure {
            None => AuditOutcome::Allow,
            Some(_) => AuditOutcome::Deny,
        };
        self.audit_reason(wire, key, (AuditEvent::Refresh, outcome), failure);
    }

    /// Records a subscription that ends because its rule does not apply any more.
    pub(super) fn audit_grant_lost(&mut self, wire: &mut impl Wire, key: SessionKey) {
        self.audit_reason(wire, key, (AuditEvent::GrantLost, AuditOutcome::Deny), None);
    }

    /// Records that a session ends with its rights; `reason` is a word.
    pub(super) fn audit_access_end(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        event: AuditEvent,
        reason: &'static str,
    ) {
        self.audit_reason(wire, key, (event, AuditOutcome::Allow), Some(reason));
    }

    /// Records a decision about a subscription; `code` is that of a refusal.
    pub(super) fn audit_subscribe(
        &mut self,
        key: SessionKey,
        add: &Add<'_>,
        resolved: &ResolvedItems,
        code: Option<ControlCode>,
    ) {
        if self.shared.audit.is_none() {
            return;
        }
        let identity = self.identity_of(key);
        let shared = &self.shared;
        let (Some(log), Some(entry)) = (&shared.audit, self.sessions.get_mut(key)) else {
            return;
        };
        let outcome = match code {
            None => AuditOutcome::Allow,
            Some(_) => AuditOutcome::Deny,
        };
        let record = log.event(AuditEvent::Subscribe, outcome);
        let record = record.session(&shared.handles.of(entry.core.id()));
        let connection = &shared.connections[usize::from(resolved.connection)]
            .config
            .name;
        let items = resolved.canonical.iter().map(CanonicalItem::as_str);
        let record = record.subscription(connection, add.mode.as_str(), items);
        let record = match &identity {
            Some(identity) => record.identity(identity),
            None => record,
        };
        log.record(match code {
            Some(code) => record.code(code.code()),
            None => record,
        });
    }

    /// Records a subscription that the remote adapter refuses.
    pub(super) fn audit_adapter_refusal(
        &mut self,
        key: SessionKey,
        add: &Add<'_>,
        code: ControlCode,
    ) {
        let identity = self.identity_of(key);
        let shared = &self.shared;
        let (Some(log), Some(entry)) = (&shared.audit, self.sessions.get_mut(key)) else {
            return;
        };
        let record = log.event(AuditEvent::Subscribe, AuditOutcome::Deny);
        let record = record.session(&shared.handles.of(entry.core.id()));
        let connection = add.data_adapter.as_deref().unwrap_or_default();
        let items: Vec<&str> = split_items(&add.group).collect();
        let items = items.into_iter();
        let record = record.subscription(connection, add.mode.as_str(), items);
        let record = record.reason("adapter").code(code.code());
        log.record(match &identity {
            Some(identity) => record.identity(identity),
            None => record,
        });
    }

    /// Records an event of a session with its reason.
    pub(super) fn audit_reason(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        event: (AuditEvent, AuditOutcome),
        reason: Option<&'static str>,
    ) {
        self.audit(wire, key, event, |record| match reason {
            Some(reason) => record.reason(reason),
            None => record,
        });
    }

    /// Records an event of a session, with its handle and the client's identity and address; `add`
    /// completes the record. Costs one branch without an audit log.
    pub(super) fn audit(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        (event, outcome): (AuditEvent, AuditOutcome),
        add: impl FnOnce(AuditRecord) -> AuditRecord,
    ) {
        if self.shared.audit.is_none() {
            return;
        }
        let identity = self.identity_of(key);
        let (Some(log), Some(entry)) = (&self.shared.audit, self.sessions.get_mut(key)) else {
            return;
        };
        let handle = self.shared.handles.of(entry.core.id());
        let record = log.event(event, outcome).session(&handle);
        let record = match &identity {
            Some(identity) => record.identity(identity),
            None => record,
        };
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
