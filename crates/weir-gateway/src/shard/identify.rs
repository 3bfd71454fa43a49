//! Identifies the clients of requests. A request waits while the keys of its token are fetched.

use std::sync::Arc;

use weir_fanout::SessionKey;
use weir_identity::audit::AuditEvent;
use weir_identity::token::IdentifiedClient;
use weir_identity::{Revocation, UserIdentity};
use weir_mapping::split_fields;
use weir_net::http1::HttpRequest;
use weir_net::limited;
use weir_net::server::ConnId;
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{Add, CreateSession, Frequency, ToBoundedStatic as _};

use super::admission::TOO_MANY;
use super::clients::Clients;
use super::credentials::{
    Client, RETRIES_PER_ITERATION, WAIT_MS, WAITING_MAX, WaitingCreate, WaitingRequest, access_time,
};
use super::event::ShardEvent;
use super::http_responses;
use super::resolve::ResolvedItems;
use super::responses::{MessageOutcome, ResponseBatch, SessionRefusal};
use super::state::Shard;
use super::timers::KEYS_TIMEOUT;
use super::wire::Wire;
use crate::admission::AdmissionLimit;
use crate::error::SubscriptionError;
use weir_access::{
    AccessChange, AccessEnd, Admitted, AuthFailure, Credentials, ItemLimits, SessionAccess,
    SubscriptionAccess,
};

impl Shard {
    /// Stores the credentials of a connection and in the head of a request, and the whole head for
    /// a remote adapter if the request can create a session.
    pub(super) fn note_credentials(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
        request: &HttpRequest<'_>,
        can_create: bool,
    ) {
        if let Some(auth) = &self.clients.shared.auth {
            let found = auth.connection_credentials(request, || wire.client_names(conn));
            self.credentials.insert(conn, found);
        }
        if let Some(adapter) = self.clients.adapter.as_mut().filter(|_| can_create) {
            adapter.note_head(conn, request, wire.client_names(conn));
        }
    }

    /// Identifies the client of a request. Returns `Err` with the outcome if it is refused or
    /// waits.
    pub(super) fn identify(
        &mut self,
        wire: &mut impl Wire,
        create: &CreateSession<'_>,
        responses: &mut ResponseBatch,
    ) -> Result<Client, MessageOutcome> {
        match self.try_identify(wire, create, responses) {
            Err(AuthFailure::KeysPending) if self.credentials.waiting.len() < WAITING_MAX => {
                let conn = responses.conn;
                let until_ms = wire.now_ms() + WAIT_MS;
                let waiting = WaitingCreate {
                    create: create.to_static(),
                    transport: responses.transport.clone(),
                    lines: std::mem::take(&mut responses.lines),
                    until_ms,
                };
                self.credentials.waiting.insert(conn, waiting);
                if responses.transport.is_socket() {
                    wire.pause_input(conn);
                }
                wire.set_timer(until_ms, KEYS_TIMEOUT);
                Err(MessageOutcome::Wait)
            }
            found => found.map_err(|failure| self.refuse_client(wire, &failure, responses)),
        }
    }

    fn try_identify(
        &self,
        wire: &impl Wire,
        create: &CreateSession<'_>,
        responses: &ResponseBatch,
    ) -> Result<Client, AuthFailure> {
        let shared = &self.clients.shared;
        let adapter = shared.adapter.as_ref();
        let adapter = adapter.filter(|_| self.clients.asks_adapter(&create.adapter_set));
        if shared.auth.is_none() && adapter.is_none() {
            return Ok(None);
        }
        let password = create.password.as_ref().map(|password| password.reveal());
        if responses.in_url && password.is_some_and(|password| !password.is_empty()) {
            return Err(AuthFailure::TokenInUrl);
        }
        if adapter.is_some_and(|adapter| adapter.identifies) {
            let client = IdentifiedClient::by_adapter(create.user.as_deref());
            return client.map(Some).ok_or(AuthFailure::NoCredentials);
        }
        let Some(auth) = &shared.auth else {
            return Ok(None);
        };
        let credentials = Credentials {
            user: create.user.as_deref(),
            password,
            connection: self
                .credentials
                .by_connection
                .get(&responses.conn)
                .map(|one| &**one),
        };
        auth.identify(credentials, wire.unix_ms()).map(Some)
    }

    /// Refuses a client that is not identified.
    fn refuse_client(
        &mut self,
        wire: &mut impl Wire,
        failure: &AuthFailure,
        responses: &mut ResponseBatch,
    ) -> MessageOutcome {
        limited!(
            debug,
            "client not identified",
            reason = failure.reason(),
            "refused a session"
        );
        let (code, text) = failure.refusal();
        self.refuse_counted(wire, failure.reason(), &(code, text.into()), responses)
    }

    /// Refuses a client; `reason` is for the audit log. The attempt counts as a new session for the
    /// rate limits.
    pub(super) fn refuse_counted(
        &mut self,
        wire: &mut impl Wire,
        reason: &'static str,
        refusal: &SessionRefusal,
        responses: &mut ResponseBatch,
    ) -> MessageOutcome {
        self.clients.counters.sessions_refused += 1;
        let admission_id = wire.admission_id(responses.conn);
        let admission = &self.clients.shared.admission;
        if admission
            .begin_session(admission_id, wire.now_ms())
            .is_err()
        {
            return responses.refuse(&(SessionCode::RETRY_LATER, TOO_MANY.into()));
        }
        admission.end_session(admission_id);
        self.clients
            .audit_refused(wire, responses.conn, reason, refusal.0);
        responses.refuse(refusal)
    }

    /// Checks some of the requests that wait for keys, after a change. Returns `true` if more are
    /// left for the next iteration.
    pub(super) fn retry_waiting(&mut self, wire: &mut impl Wire) -> bool {
        for _ in 0..RETRIES_PER_ITERATION {
            match self.credentials.next_retry() {
                Some(WaitingRequest::Create(conn)) => self.retry_create(wire, conn),
                Some(WaitingRequest::Refresh(key)) => self.retry_refresh(wire, key),
                None => break,
            }
        }
        self.credentials.has_retries()
    }

    fn retry_create(&mut self, wire: &mut impl Wire, conn: ConnId) {
        let Some(waiting) = self.credentials.waiting.remove(&conn) else {
            return;
        };
        let mut responses = ResponseBatch::on(conn, waiting.transport.clone(), Vec::new());
        let found = self.try_identify(wire, &waiting.create, &responses);
        if found == Err(AuthFailure::KeysPending) && wire.now_ms() < waiting.until_ms {
            self.credentials.waiting.insert(conn, waiting);
            return;
        }
        responses.lines = waiting.lines;
        let outcome = match found {
            Ok(client) => self.create_here(wire, &waiting.create, &client, &mut responses),
            Err(failure) => self.refuse_client(wire, &failure, &mut responses),
        };
        let is_socket = responses.transport.is_socket();
        if outcome == MessageOutcome::Respond {
            http_responses::send_response(wire, responses);
        }
        let waits = outcome == MessageOutcome::Wait;
        if is_socket && !waits {
            wire.resume_input(conn);
        }
    }

    /// Returns the rights of a new session. Ends the session of the same user that it replaces.
    pub(super) fn access(
        &mut self,
        wire: &mut impl Wire,
        client: &Client,
        conn: ConnId,
    ) -> Result<Option<Box<SessionAccess>>, SessionRefusal> {
        let (Some(auth), Some(client)) = (&self.clients.shared.auth, client) else {
            return Ok(None);
        };
        let admitted = auth.access(client, access_time(wire), rand::random());
        let Admitted { access, replaced } = admitted.map_err(|failure| {
            let (code, text) = failure.refusal();
            (self.clients).audit_refused(wire, conn, failure.reason(), code);
            (code, text.into())
        })?;
        if let Some((shard, key)) = replaced {
            match shard == self.clients.sessions.shard {
                true => self.clients.end_replaced(wire, key),
                false => self.forwarding.send(shard, ShardEvent::Replaced(key)),
            }
        }
        Ok(Some(Box::new(access)))
    }

    /// Returns `true` if a request for a session comes over a connection with the credentials of
    /// another client. Credentials that are not valid are ignored: a long session outlives those of
    /// its handshake.
    pub(super) fn is_foreign(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        conn: ConnId,
    ) -> bool {
        let client = self.client_of(wire, conn);
        let is_foreign = self.clients.is_foreign(key, client.as_deref());
        if is_foreign {
            let code = SessionCode::SESSION_NOT_FOUND;
            (self.clients).audit_refused(wire, conn, "foreign_session", code);
        }
        is_foreign
    }

    /// Returns `true` if a control request comes over a connection with the credentials of another
    /// client. That of the session itself was checked when it was bound.
    pub(super) fn is_intrusion(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        conn: ConnId,
    ) -> bool {
        let entry = self.clients.sessions.get_mut(key);
        let is_other = entry.is_some_and(|entry| !entry.is_bound_to(conn));
        is_other && self.is_foreign(wire, key, conn)
    }

    /// Returns the client whose valid credentials the head of a connection's request contains.
    pub(super) fn client_of(&self, wire: &impl Wire, conn: ConnId) -> Option<Arc<UserIdentity>> {
        let auth = self.clients.shared.auth.as_ref()?;
        let credentials = Credentials {
            user: None,
            password: None,
            connection: Some(self.credentials.by_connection.get(&conn)?),
        };
        let found = auth.identify(credentials, wire.unix_ms()).ok()?;
        Some(Arc::clone(&found.identity))
    }

    /// Handles a change that concerns sessions of all shards.
    pub(super) fn access_changed(&mut self, wire: &mut impl Wire, change: AccessChange) {
        match change {
            AccessChange::Keys => self.credentials.keys_changed(),
            AccessChange::Revoked(entry) => self.clients.end_revoked(wire, &entry),
        }
    }
}

/// Code at the end of sessions whose tokens are revoked: SDKs stop, and report it to the
/// application.
const REVOKED: i32 = -10;

impl Clients {
    /// Checks a subscription against the item rules, and records the decision. Returns the limits
    /// that they set to it.
    pub(super) fn authorize(
        &mut self,
        key: SessionKey,
        add: &Add<'_>,
        resolved: &ResolvedItems,
    ) -> Result<Option<ItemLimits>, SubscriptionError> {
        let decided = self.decide(key, add, resolved);
        let code = decided.as_ref().err().map(|refusal| refusal.code);
        let is_limit = code == Some(ControlCode::TOO_MANY_SUBSCRIPTIONS);
        if !is_limit && (self.shared.auth.is_some() || self.has_adapter(key)) {
            self.audit_subscribe(key, add, resolved, code);
        }
        decided
    }

    /// Checks a subscription against the item rules.
    pub(super) fn decide(
        &mut self,
        key: SessionKey,
        add: &Add<'_>,
        resolved: &ResolvedItems,
    ) -> Result<Option<ItemLimits>, SubscriptionError> {
        let (Some(auth), Some(entry)) = (&self.shared.auth, self.sessions.get_mut(key)) else {
            return Ok(None);
        };
        // Every session has rights if clients are identified.
        let access = entry.access.as_ref().ok_or(ControlCode::REFUSED)?;
        if !auth.may_subscribe(access, entry.core.subscriptions().len()) {
            self.shared
                .admission
                .note(AdmissionLimit::SessionSubscriptions);
            return Err(ControlCode::TOO_MANY_SUBSCRIPTIONS.into());
        }
        let fields: Vec<&str> = split_fields(&add.schema).collect();
        let wanted = SubscriptionAccess {
            connection: resolved.connection,
            mode: add.mode,
            fields: &fields,
            unfiltered: add.requested_max_frequency == Frequency::Unfiltered,
        };
        let decided = auth.decide(access, resolved.canonical.iter(), wanted);
        decided.map(Some).map_err(|(code, text)| SubscriptionError {
            code,
            message: text.to_owned(),
        })
    }

    /// Returns `true` if a session belongs to another client than `client`.
    pub(super) fn is_foreign(&mut self, key: SessionKey, client: Option<&UserIdentity>) -> bool {
        let own = self
            .sessions
            .get_mut(key)
            .and_then(|entry| entry.identity());
        own.zip(client)
            .is_some_and(|(own, client)| own.excludes(client))
    }

    /// Returns `true` if the token of a session is revoked. Its end may be on the way.
    pub(super) fn has_revoked_token(&mut self, key: SessionKey) -> bool {
        let Some(auth) = &self.shared.auth else {
            return false;
        };
        let identity = self
            .sessions
            .get_mut(key)
            .and_then(|entry| entry.identity());
        identity.is_some_and(|identity| auth.is_revoked(identity))
    }

    /// Ends the sessions whose tokens are revoked by an entry.
    fn end_revoked(&mut self, wire: &mut impl Wire, entry: &Revocation) {
        for key in self.sessions.keys() {
            let identity = self
                .sessions
                .get_mut(key)
                .and_then(|entry| entry.identity());
            if identity.is_some_and(|identity| entry.covers(identity)) {
                let code = SessionCode::from_code(REVOKED);
                self.end_access(wire, key, AccessEnd::Revoked, code, "Revoked");
            }
        }
    }

    /// Ends a session that a newer one of the same user replaces.
    pub(super) fn end_replaced(&mut self, wire: &mut impl Wire, key: u64) {
        let (key, code) = (SessionKey::from_bits(key), SessionCode::SAME_USER_ELSEWHERE);
        self.end_access(wire, key, AccessEnd::Replaced, code, code.text());
    }

    /// Ends a session that has lost its rights.
    pub(super) fn end_access(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        reason: AccessEnd,
        code: SessionCode,
        text: &str,
    ) {
        if let (Some(auth), Some(_)) = (&self.shared.auth, self.sessions.get_mut(key)) {
            auth.counters.end_session(reason);
        }
        let (event, word) = match reason {
            AccessEnd::Expired => (AuditEvent::Expire, "expired"),
            AccessEnd::Revoked => (AuditEvent::Revoke, "revoked"),
            AccessEnd::Replaced => (AuditEvent::Disconnect, "replaced"),
            AccessEnd::Requests => (AuditEvent::Disconnect, "requests"),
        };
        self.audit_access_end(wire, key, event, word);
        self.end_session(wire, key, code, text, false);
    }

    /// Returns a request for a session with the bandwidth that session rules allow.
    pub(super) fn limit_create<'a>(
        &self,
        access: &SessionAccess,
        create: &CreateSession<'a>,
    ) -> CreateSession<'a> {
        let mut create = create.clone();
        if let Some(auth) = &self.shared.auth {
            let wanted = create.requested_max_bandwidth;
            create.requested_max_bandwidth = auth.bandwidth(access, wanted);
        }
        create
    }

    /// Counts a request for a session. Returns `false` and ends the session if its user or tenant
    /// sends too many.
    pub(super) fn take_request(&mut self, wire: &mut impl Wire, key: SessionKey) -> bool {
        let now_ms = wire.now_ms();
        let access = self
            .sessions
            .get_mut(key)
            .and_then(|entry| entry.access.as_ref());
        if access.is_none_or(|access| access.take_request(now_ms)) {
            return true;
        }
        let text = "too many requests";
        self.end_access(wire, key, AccessEnd::Requests, SessionCode::EXPIRED, text);
        false
    }
}
