//! Handles TLCP requests of any transport: creates sessions, executes control requests, collects
//! responses.

use weir_fanout::SessionKey;
use weir_net::limited;
use weir_net::log::Truncated;
use weir_net::server::ConnId;
use weir_tlcp::RequestError;
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{
    ControlOp, CreateSession, Request, ToBoundedStatic as _, parse_ws_message,
};
use weir_tlcp::server::{Session, SessionId, write_error, write_reqok, write_wsok};

use super::admission::{NO_MEMORY, TOO_MANY};
use super::clients::ITEMS_PER_ITERATION;
use super::credentials::Client;
use super::event::{ForwardedResponse, ShardEvent, StreamRequest};
use super::http_responses;
use super::responses::{
    ForwardPlace, MessageOutcome, RequestTransport, ResponseBatch, SessionRefusal, refused,
};
use super::session::AdapterSet;
use super::state::Shard;
use super::wire::{NO_CONNECTION, Wire};
use crate::admission::AdmissionLimit;
use crate::error::SubscriptionError;

pub(super) fn client_ip(wire: &mut impl Wire, conn: ConnId) -> String {
    wire.peer_ip(conn)
        .map_or_else(String::new, |ip| ip.to_string())
}

/// Returns the session that a control request, a message or a heartbeat names.
pub(super) fn named<'a>(request: &'a Request<'_>) -> Option<&'a str> {
    let session = match request {
        Request::Control(control) => control.session.as_ref(),
        Request::Message(message) => message.session.as_ref(),
        Request::Heartbeat(heartbeat) => heartbeat.session.as_ref(),
        Request::Wsok | Request::CreateSession(_) | Request::BindSession(_) => None,
    };
    session.map(|id| id.as_str())
}

impl Shard {
    /// Handles one WebSocket message. The responses are in the order of the requests.
    pub(super) fn handle_message(&mut self, wire: &mut impl Wire, conn: ConnId, text: &str) {
        let lines = std::mem::take(&mut self.response_buffer);
        let mut responses = ResponseBatch::on(conn, RequestTransport::WebSocket, lines);
        let mut outcome = MessageOutcome::Respond;
        parse_ws_message(text, &mut |parsed| {
            if outcome == MessageOutcome::Respond {
                outcome = self.handle_parsed(wire, parsed, &mut responses);
            }
        });
        if !responses.remote.is_empty() {
            // Responses keep the order of the requests, and a later message may move the connection
            // to another shard.
            wire.pause_input(conn);
            let client = self.client_of(wire, conn);
            return self.forwarding.forward(responses, client);
        }
        if outcome == MessageOutcome::Respond {
            self.flush(wire, &mut responses);
        }
        self.response_buffer = responses.lines;
    }

    /// Handles one request, or refuses it if it is malformed.
    pub(super) fn handle_parsed(
        &mut self,
        wire: &mut impl Wire,
        parsed: Result<Request<'_>, RequestError>,
        responses: &mut ResponseBatch,
    ) -> MessageOutcome {
        match parsed {
            Ok(request) => self.handle_request(wire, &request, responses),
            Err(error) => {
                self.clients.counters.requests_refused += 1;
                error.write(&mut responses.lines);
                MessageOutcome::Respond
            }
        }
    }

    /// Sends the responses so far if they share a connection with the next lines of a session.
    pub(super) fn flush_before(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        responses: &mut ResponseBatch,
    ) {
        let entry = self.clients.sessions.get_mut(key);
        if entry.is_some_and(|entry| entry.is_bound_to(responses.conn)) {
            self.flush(wire, responses);
        }
    }

    /// Sends the responses so far. Over HTTP all responses are sent together at the end.
    fn flush(&mut self, wire: &mut impl Wire, responses: &mut ResponseBatch) {
        if responses.transport != RequestTransport::WebSocket {
            return;
        }
        if !responses.lines.is_empty() && !wire.send_text(responses.conn, &responses.lines) {
            self.drop_slow_client(wire, responses.conn);
        }
        responses.lines.clear();
    }

    /// Ends a client that sends requests without reading the responses.
    pub(super) fn drop_slow_client(&mut self, wire: &mut impl Wire, conn: ConnId) {
        match self.clients.sessions.bound_to(conn, wire.tag(conn)) {
            Some(key) => self.clients.end_slow(wire, key),
            None => wire.close(conn, None, true),
        }
    }

    /// Handles one request: executes it here, or adds it to those for other shards.
    pub(super) fn handle_request(
        &mut self,
        wire: &mut impl Wire,
        request: &Request<'_>,
        responses: &mut ResponseBatch,
    ) -> MessageOutcome {
        let named = match request {
            Request::Wsok if responses.transport == RequestTransport::WebSocket => {
                write_wsok(&mut responses.lines);
                return MessageOutcome::Respond;
            }
            Request::Wsok => {
                let text = "wsok requires a WebSocket";
                write_error(&mut responses.lines, ControlCode::MALFORMED, text);
                return MessageOutcome::Respond;
            }
            Request::CreateSession(create) => return self.create(wire, create, responses),
            Request::BindSession(bind) => return self.bind(wire, bind, responses),
            Request::Control(_) | Request::Message(_) | Request::Heartbeat(_) => named(request),
        };
        let remote = named.and_then(|id| self.forwarding.remote_shard(id));
        let own = self.clients.sessions.shard;
        let is_deferred = named.is_some() && self.is_deferred(request, &responses.transport);
        let target = match remote {
            None if is_deferred => Some(own),
            remote => remote,
        };
        if let Some(shard) = target {
            let before = std::mem::take(&mut responses.lines);
            let request = request.to_static();
            responses.remote.push((before, shard, request));
            return MessageOutcome::Respond;
        }
        let key = match named {
            Some(id) => self.clients.sessions.find(id),
            // The last session that was bound on the connection, unless it has another stream now.
            None => {
                let last = self.clients.sessions.tagged(wire.tag(responses.conn));
                let last = last.filter(|one| one.conn == responses.conn || !one.is_bound());
                last.map(|entry| entry.key())
            }
        };
        let key = key.filter(|key| !self.is_intrusion(wire, *key, responses.conn));
        self.carry_out(wire, key, request, responses);
        MessageOutcome::Respond
    }

    /// Executes requests of other shards, in a later iteration if this one has joined and released
    /// many items.
    pub(super) fn run_forwarded(&mut self, wire: &mut impl Wire) {
        while self.clients.work.items < ITEMS_PER_ITERATION {
            let Some(forwarded) = self.forwarding.incoming.pop_front() else {
                return;
            };
            let mut responses = ResponseBatch::on(NO_CONNECTION, forwarded.transport, Vec::new());
            responses.place = Some(forwarded.place.clone());
            for request in &forwarded.requests {
                let key = named(request).and_then(|id| self.clients.sessions.find(id));
                let client = forwarded.client.as_deref();
                let key = key.filter(|key| !self.clients.is_foreign(*key, client));
                self.carry_out(wire, key, request, &mut responses);
            }
            if !responses.is_deferred {
                self.respond_forwarded(wire, &forwarded.place, responses.lines);
            }
        }
    }

    /// Returns response lines to the shard that has received the requests.
    pub(super) fn respond_forwarded(
        &mut self,
        wire: &mut impl Wire,
        place: &ForwardPlace,
        lines: Vec<u8>,
    ) {
        let place = place.clone();
        let (from, response) = (place.from, ForwardedResponse { place, lines });
        match from == self.clients.sessions.shard {
            true => self.receive_response(wire, response),
            false => (self.forwarding).send(from, ShardEvent::Response(Box::new(response))),
        }
    }

    /// Adds the response of another shard. Sends all responses when they are complete.
    pub(super) fn receive_response(&mut self, wire: &mut impl Wire, response: ForwardedResponse) {
        let Some((conn, transport, lines)) = self.forwarding.complete(response) else {
            return;
        };
        let is_socket = transport == RequestTransport::WebSocket;
        let mut responses = ResponseBatch::on(conn, transport, Vec::new());
        responses.lines = lines;
        if !http_responses::send_response(wire, responses) {
            self.drop_slow_client(wire, conn);
        }
        if is_socket {
            wire.resume_input(conn);
        }
    }

    /// Executes a request for a session of this shard, or for no session.
    pub(super) fn carry_out(
        &mut self,
        wire: &mut impl Wire,
        key: Option<SessionKey>,
        request: &Request<'_>,
        responses: &mut ResponseBatch,
    ) {
        let now_ms = wire.now_ms();
        if key.is_some_and(|key| !self.clients.take_request(wire, key)) {
            return;
        }
        if let Some(entry) = key.and_then(|key| self.clients.sessions.get_mut(key)) {
            entry.core.touch(now_ms);
        }
        if let (Some(tracer), Some(key)) = (&self.tracer, key) {
            tracer.note_request(key, request);
        }
        match request {
            Request::Control(control) => self.control(wire, key, control, responses),
            Request::Message(message) if self.is_refresh(message) => {
                self.refresh(wire, key, message, responses);
            }
            Request::Message(message) => self.message(wire, key, message, responses),
            // Only HTTP requires a response. An unknown session is not an error.
            Request::Heartbeat(_) if responses.transport != RequestTransport::WebSocket => {
                write_reqok(&mut responses.lines, None);
            }
            _ => {}
        }
    }

    /// Handles `create_session`, or has the shard handle it that gets the session.
    pub(super) fn create(
        &mut self,
        wire: &mut impl Wire,
        create: &CreateSession<'_>,
        responses: &mut ResponseBatch,
    ) -> MessageOutcome {
        if let Err(refusal) = self.check_stream(wire, responses) {
            self.clients.counters.sessions_refused += 1;
            return responses.refuse(&refusal);
        }
        let client = match self.identify(wire, create, responses) {
            Ok(client) => client,
            Err(outcome) => return outcome,
        };
        let own = self.clients.sessions.shard;
        let shard = self.clients.shared.placement.select(own);
        if shard == own {
            return self.create_here(wire, create, &client, responses);
        }
        let request = StreamRequest::Create(create.to_static(), client);
        self.hand_over(wire, shard, request, responses)
    }

    /// Creates a session of an identified client in this shard.
    pub(super) fn create_here(
        &mut self,
        wire: &mut impl Wire,
        create: &CreateSession<'_>,
        client: &Client,
        responses: &mut ResponseBatch,
    ) -> MessageOutcome {
        limited!(
            debug, "create_session", cid = ?Truncated(&create.cid),
            cause = ?Truncated(&create.cause), replaces = ?Truncated(&create.old_session),
            "received create_session"
        );
        if let Some(old) = &create.old_session {
            match self.forwarding.remote_shard(old) {
                Some(shard) => {
                    let (id, by) = (old.to_static(), client.clone());
                    let event = ShardEvent::DiscardSession { id, by };
                    self.forwarding.send(shard, event);
                }
                None => (self.clients).discard_replaced(wire, old, client.as_deref()),
            }
        }
        if self.clients.asks_adapter(&create.adapter_set) {
            return self.ask_about_user(wire, create, client, responses);
        }
        match self.open(wire, create, client, responses) {
            Ok((key, notifications)) => {
                let outcome = self.connect(wire, key, &create.stream, &notifications, responses);
                if matches!(responses.transport, RequestTransport::Json { .. }) {
                    self.subscribe_events(wire, key, responses.conn, &create.controls, false);
                }
                outcome
            }
            Err(refusal) => {
                self.clients.counters.sessions_refused += 1;
                responses.refuse(&refusal)
            }
        }
    }

    /// Creates a session without a stream and executes the control requests that come with it.
    /// Appends the session's head to `responses` and returns the data notifications that the
    /// requests cause.
    fn open(
        &mut self,
        wire: &mut impl Wire,
        create: &CreateSession<'_>,
        client: &Client,
        responses: &mut ResponseBatch,
    ) -> Result<(SessionKey, Vec<u8>), SessionRefusal> {
        let begin = responses.lines.len();
        let key = self.open_session(wire, create, client, responses)?;
        let mut notifications = Vec::new();
        let controls = match responses.transport {
            // Items that are refused do not end the session.
            RequestTransport::Json { .. } => &[],
            _ => &create.controls[..],
        };
        for control in controls {
            let done = match &control.op {
                ControlOp::Add(add) => {
                    let added = (self.clients).subscribe(key, add, None, &mut notifications);
                    added.map(|_| ())
                }
                _ => Err(SubscriptionError {
                    code: ControlCode::BAD_VALUE,
                    message: "create_session accepts only LS_op=add".to_owned(),
                }),
            };
            if let Err(refusal) = done {
                self.clients.remove_session(key);
                responses.lines.truncate(begin);
                if refusal.code == ControlCode::TOO_MANY_SUBSCRIPTIONS {
                    // The condition may be temporary, and code 64 would stop an SDK for good.
                    return Err((SessionCode::RETRY_LATER, refusal.message.into()));
                }
                let code = match responses.transport.event_form() {
                    None => SessionCode::COMBO_CONTROL_FAILED,
                    Some(_) => SessionCode::from_code(refusal.code.code()),
                };
                return Err((code, refusal.message.into()));
            }
        }
        self.grant_session(wire, key, client);
        Ok((key, notifications))
    }

    /// Creates a session without a stream and without its client's rights to send messages.
    pub(super) fn open_session(
        &mut self,
        wire: &mut impl Wire,
        create: &CreateSession<'_>,
        client: &Client,
        responses: &mut ResponseBatch,
    ) -> Result<SessionKey, SessionRefusal> {
        let set = self.check_create(create)?;
        let access = self.access(wire, client, responses.conn)?;
        let version = self.dialects.version(create.version, responses.conn);
        let admission_id = wire.admission_id(responses.conn);
        let admission = &self.clients.shared.admission;
        if admission
            .begin_session(admission_id, wire.now_ms())
            .is_err()
        {
            return Err((SessionCode::RETRY_LATER, TOO_MANY.into()));
        }
        let ip = client_ip(wire, responses.conn);
        let now_ms = wire.now_ms();
        let shard = self.clients.sessions.shard;
        let config = &self.clients.shared.session;
        let limited = access
            .as_deref()
            .map(|access| self.clients.limit_create(access, create));
        let limited = limited.as_ref().unwrap_or(create);
        let key = (self.clients.sessions).insert(set, |location| {
            let id = SessionId::new(location, &rand::random());
            Session::create(id, limited, config, &ip, now_ms, &mut responses.lines)
        });
        let after = responses.transport.after();
        self.clients.recoveries.set_point(key, after);
        if let Some(entry) = self.clients.sessions.get_mut(key) {
            entry.access = access;
            if let Some(access) = &mut entry.access {
                access.set_place((shard, key.to_bits()));
            }
            entry.limit_bandwidth(now_ms);
            entry.version = version;
            entry.event_form = responses.transport.event_form();
            entry.created_s = (now_ms / 1_000) as u32;
            entry.diffs = version.diffs(create.supported_diffs).into();
            entry.admission_id = admission_id;
        }
        Ok(key)
    }

    /// Completes a session that its client gets.
    pub(super) fn grant_session(&mut self, wire: &mut impl Wire, key: SessionKey, client: &Client) {
        if let Some(client) = client {
            self.clients.set_message_rights(key, client);
        }
        self.clients.audit_create(wire, key);
        self.clients.counters.sessions_created += 1;
    }

    /// Checks that a connection can become a stream connection.
    pub(super) fn check_stream(
        &mut self,
        wire: &mut impl Wire,
        responses: &ResponseBatch,
    ) -> Result<(), SessionRefusal> {
        match (self.clients.sessions).bound_to(responses.conn, wire.tag(responses.conn)) {
            Some(_) => Err(refused(SessionCode::STREAM_ALREADY_OPEN)),
            None => Ok(()),
        }
    }

    pub(super) fn check_create(
        &self,
        create: &CreateSession<'_>,
    ) -> Result<AdapterSet, SessionRefusal> {
        let Some(set) = self.clients.shared.adapter_set(&create.adapter_set) else {
            let text = format!("adapter set \"{}\" does not exist", create.adapter_set);
            return Err((SessionCode::ADAPTER_SET_UNKNOWN, text.into()));
        };
        self.check_capacity().map(|()| set)
    }

    /// Checks the limits on sessions. Codes 5 and 6 make SDKs retry later; 7 to 10 would stop them
    /// for good.
    fn check_capacity(&self) -> Result<(), SessionRefusal> {
        if self.clients.is_draining() {
            let text = "the gateway is shutting down";
            return Err((SessionCode::RETRY_LATER, text.into()));
        }
        let shared = &self.clients.shared;
        if shared.admission.overload.is_on() {
            shared.admission.note(AdmissionLimit::Memory);
            return Err((SessionCode::RETRY_LATER, NO_MEMORY.into()));
        }
        let most = shared.limits.sessions.div_ceil(shared.shards);
        let ended = self.clients.work.ended_sessions.len();
        if self.clients.sessions.len() + ended >= most {
            shared.admission.note(AdmissionLimit::Sessions);
            return Err((SessionCode::RETRY_LATER, TOO_MANY.into()));
        }
        Ok(())
    }
}
