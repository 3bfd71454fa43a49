//! Sessions that wait for the adapter: first it decides about the user, then about the session.

use std::sync::Arc;

use weir_adapter::decision::{
    ClientInfo, ClientRefusal, SessionDecision, session_decision, user_decision,
};
use weir_adapter::{AdapterOutcome, OpenSession, WhileDown};
use weir_fanout::SessionKey;
use weir_identity::ari::AdapterRequest;
use weir_identity::audit::{AuditEvent, AuditOutcome};
use weir_tlcp::codes::SessionCode;
use weir_tlcp::request::{CreateSession, ToBoundedStatic as _};

use super::limits::bandwidth;
use super::state::{NewSession, PendingCreate};
use crate::adapter::{AdapterCall, AdapterEvent};
use crate::shard::clients::Clients;
use crate::shard::credentials::Client;
use crate::shard::event::ShardEvent;
use crate::shard::http_responses;
use crate::shard::responses::{MessageOutcome, ResponseBatch, SessionRefusal, refused};
use crate::shard::state::Shard;
use crate::shard::timers::ADAPTER_TIMER;
use crate::shard::wire::Wire;

/// Other sessions that one request may end.
const CONFLICTS_MAX: u32 = 3;
/// Time for a decision, more than any adapter has. Then the session expires.
const DECISION_MS_MAX: u64 = 120_000;
/// Reason in the audit log.
const REASON: &str = "adapter";
/// Text at the end of a session whose time to live has ended. SDKs create a new one at once.
const TOO_OLD: &str = "the session is too old";

impl Shard {
    /// Asks the adapter about the user of a new session.
    pub(in crate::shard) fn ask_about_user(
        &mut self,
        wire: &mut impl Wire,
        create: &CreateSession<'_>,
        client: &Client,
        responses: &mut ResponseBatch,
    ) -> MessageOutcome {
        if let Err(refusal) = self.check_create(create) {
            self.clients.counters.sessions_refused += 1;
            return responses.refuse(&refusal);
        }
        if !create.controls.is_empty() && responses.transport.event_form().is_none() {
            self.clients.counters.sessions_refused += 1;
            let text = "subscriptions must follow the session, in requests of their own";
            return responses.refuse(&(SessionCode::COMBO_CONTROL_FAILED, text.into()));
        }
        let Some(adapter) = &mut self.clients.adapter else {
            return responses.refuse(&refused(SessionCode::RETRY_LATER));
        };
        let (conn, number) = (responses.conn, adapter.next_number());
        let head = adapter.heads.get(&conn);
        let info = ClientInfo {
            user: create.user.as_deref().map(str::to_owned),
            password: create.password.as_ref().map(|one| one.reveal().to_owned()),
            principal: head.and_then(|head| Some(Some(head.principal()?.to_owned()))),
            headers: head.map_or_else(Vec::new, |head| head.headers().to_vec()),
            request_id: format!("{}-{number}", adapter.shard),
        };
        let context = head.map_or_else(Vec::new, |head| head.context());
        let call = AdapterCall::User(number);
        if let Err(failure) = adapter.request(info.notify_user(), call, WhileDown::Fail) {
            let refusal = user_decision(&Err(failure)).err().map(session_refusal);
            let refusal = refusal.unwrap_or_else(|| refused(SessionCode::RETRY_LATER));
            return self.refuse_counted(wire, REASON, &refusal, responses);
        }
        let pending = PendingCreate {
            conn,
            is_open: true,
            transport: responses.transport.clone(),
            create: create.to_static(),
            client: client.clone(),
            info,
            context,
            before: std::mem::take(&mut responses.lines),
            user: None,
            session: None,
            conflicts: 0,
        };
        adapter.creates.insert(number, pending);
        adapter.creates_by_connection.insert(conn, number);
        if responses.transport.is_socket() {
            wire.pause_input(conn);
        }
        MessageOutcome::Wait
    }

    /// Continues with the decision about a user.
    pub(super) fn user_decided(
        &mut self,
        wire: &mut impl Wire,
        number: u64,
        outcome: &AdapterOutcome,
    ) {
        let Some(mut pending) = self.take_create(number) else {
            return;
        };
        if !pending.is_open {
            return;
        }
        match user_decision(outcome) {
            Ok(user) => {
                let wanted = pending.create.requested_max_bandwidth;
                pending.create.requested_max_bandwidth = bandwidth(wanted, user.bandwidth_max_kbps);
                pending.user = Some(user);
                self.ask_about_session(wire, number, pending);
            }
            Err(refusal) => {
                let mut responses = pending.responses();
                let refusal = session_refusal(refusal);
                self.refuse_counted(wire, REASON, &refusal, &mut responses);
                answer(wire, responses, MessageOutcome::Respond);
            }
        }
    }

    /// Creates a session and asks the adapter about it, before the client gets a response.
    fn ask_about_session(&mut self, wire: &mut impl Wire, number: u64, mut pending: PendingCreate) {
        let mut responses = pending.responses();
        let begin = responses.lines.len();
        let opened = self.open_session(wire, &pending.create, &pending.client, &mut responses);
        let key = match opened {
            Ok(key) => key,
            Err(refusal) => return self.refuse_pending(wire, pending, &refusal),
        };
        let Some(entry) = self.clients.sessions.get_mut(key) else {
            return;
        };
        self.clients
            .writer
            .unbind(wire, entry, DECISION_MS_MAX, false);
        let id = entry.core.id().as_str().to_owned();
        let request = (pending.info).notify_new_session(&id, &pending.context);
        let lines = responses.lines.split_off(begin);
        pending.session = Some(NewSession { key, id, lines });
        let Some(adapter) = &mut self.clients.adapter else {
            return;
        };
        let call = AdapterCall::Session(number);
        let sent = adapter.request(request, call, WhileDown::Fail);
        adapter.creates_by_connection.insert(pending.conn, number);
        adapter.creates.insert(number, pending);
        if let Err(failure) = sent {
            self.session_decided(wire, number, &Err(failure));
        }
    }

    /// Continues with the decision about a session.
    pub(super) fn session_decided(
        &mut self,
        wire: &mut impl Wire,
        number: u64,
        outcome: &AdapterOutcome,
    ) {
        let Some(mut pending) = self.take_create(number) else {
            return;
        };
        let Some(session) = pending.session.take() else {
            return;
        };
        let is_alive = self.clients.sessions.get_mut(session.key).is_some();
        match session_decision(outcome) {
            Ok(SessionDecision::Accepted { time_to_live }) if pending.is_open && is_alive => {
                let end_ms = time_to_live.map(|time| wire.now_ms() + time.as_millis() as u64);
                self.begin_session(wire, pending, session, end_ms);
            }
            Ok(SessionDecision::Accepted { .. }) => {
                self.clients.remove_session(session.key);
                if let Some(adapter) = &self.clients.adapter {
                    let session = session.id;
                    adapter.notify_all([AdapterRequest::NotifySessionClose { session }]);
                }
                self.refuse_pending(wire, pending, &refused(SessionCode::RETRY_LATER));
            }
            Ok(SessionDecision::Conflict {
                session: other,
                refusal,
            }) => {
                self.clients.remove_session(session.key);
                self.end_other(wire, &other);
                pending.conflicts += 1;
                match pending.is_open && pending.conflicts <= CONFLICTS_MAX {
                    true => self.ask_about_session(wire, number, pending),
                    false => self.refuse_pending(wire, pending, &session_refusal(refusal)),
                }
            }
            Err(refusal) => {
                self.clients.remove_session(session.key);
                self.refuse_pending(wire, pending, &session_refusal(refusal));
            }
        }
    }

    /// Begins a session that the adapter has accepted.
    fn begin_session(
        &mut self,
        wire: &mut impl Wire,
        pending: PendingCreate,
        NewSession { key, id, lines }: NewSession,
        end_ms: Option<u64>,
    ) {
        let mut responses = pending.responses();
        responses.lines.extend_from_slice(&lines);
        let identity = pending.client.as_ref();
        let session = OpenSession {
            id,
            user: pending.info.user,
            wants_tables: pending.user.is_some_and(|user| user.wants_tables),
            bandwidth_max_kbps: pending.user.and_then(|user| user.bandwidth_max_kbps),
            identity: identity.map(|client| Arc::clone(&client.identity)),
            end_ms,
        };
        if let Some(adapter) = &mut self.clients.adapter {
            adapter.sessions.open(key.to_bits(), session);
        }
        if let Some(end_ms) = end_ms {
            wire.set_timer(end_ms, ADAPTER_TIMER);
        }
        // The connection is known only now.
        if let Some(entry) = self.clients.sessions.get_mut(key) {
            entry.conn = responses.conn;
        }
        self.grant_session(wire, key, &pending.client);
        let stream = &pending.create.stream;
        let outcome = self.connect(wire, key, stream, &[], &mut responses);
        answer(wire, responses, outcome);
        // Only clients of events name their items before they have a session.
        let controls = &pending.create.controls;
        self.subscribe_events(wire, key, pending.conn, controls, false);
    }

    fn refuse_pending(
        &mut self,
        wire: &mut impl Wire,
        pending: PendingCreate,
        refusal: &SessionRefusal,
    ) {
        self.clients.counters.sessions_refused += 1;
        if !pending.is_open {
            return;
        }
        let mut responses = pending.responses();
        (self.clients).audit_refused(wire, responses.conn, REASON, refusal.0);
        let outcome = responses.refuse(refusal);
        answer(wire, responses, outcome);
    }

    /// Ends a session that conflicts with a new one, in any shard.
    fn end_other(&mut self, wire: &mut impl Wire, id: &str) {
        match self.forwarding.remote_shard(id) {
            Some(shard) => {
                let event = AdapterEvent::Conflict(id.to_owned());
                (self.forwarding).send(shard, ShardEvent::Adapter(Box::new(event)));
            }
            None => self.clients.end_conflicting(wire, id),
        }
    }

    fn take_create(&mut self, number: u64) -> Option<PendingCreate> {
        let adapter = self.clients.adapter.as_mut()?;
        let pending = adapter.creates.remove(&number)?;
        adapter.creates_by_connection.remove(&pending.conn);
        Some(pending)
    }
}

impl PendingCreate {
    /// Returns the responses so far.
    fn responses(&self) -> ResponseBatch {
        let mut responses = ResponseBatch::on(self.conn, self.transport.clone(), Vec::new());
        responses.lines.extend_from_slice(&self.before);
        responses
    }
}

impl Clients {
    /// Ends a session because its user has a new one.
    pub(super) fn end_conflicting(&mut self, wire: &mut impl Wire, id: &str) {
        if let Some(key) = self.sessions.find(id) {
            let (event, code) = (AuditEvent::Disconnect, SessionCode::SAME_USER_ELSEWHERE);
            self.audit_reason(wire, key, (event, AuditOutcome::Allow), Some("replaced"));
            self.end_session(wire, key, code, code.text(), false);
        }
    }

    /// Ends the sessions whose time to live has ended.
    pub(in crate::shard) fn end_aged(&mut self, wire: &mut impl Wire) {
        let now_ms = wire.now_ms();
        while let Some(adapter) = &mut self.adapter {
            let Some(key) = adapter.sessions.pop_ended(now_ms) else {
                if let Some(at_ms) = adapter.sessions.next_end_ms() {
                    wire.set_timer(at_ms, ADAPTER_TIMER);
                }
                return;
            };
            let key = SessionKey::from_bits(key);
            let event = (AuditEvent::Expire, AuditOutcome::Allow);
            self.audit_reason(wire, key, event, Some(REASON));
            self.end_session(wire, key, SessionCode::EXPIRED, TOO_OLD, false);
        }
    }
}

fn session_refusal(refusal: ClientRefusal) -> SessionRefusal {
    (SessionCode::from_code(refusal.code), refusal.text.into())
}

/// Sends the response to a request that has waited.
fn answer(wire: &mut impl Wire, responses: ResponseBatch, outcome: MessageOutcome) {
    let conn = responses.conn;
    let is_socket = responses.transport.is_socket();
    if outcome == MessageOutcome::Respond {
        http_responses::send_response(wire, responses);
    }
    if is_socket {
        wire.resume_input(conn);
    }
}
