//! Clients without an SDK: JSON over WebSocket at `/ws`.
//!
//! The first message logs the client in and names items; later ones add and remove items. The
//! session is that of a client of server-sent events, with another form of the events.

use std::sync::Arc;

use weir_fanout::SessionKey;
use weir_fanout::events::{
    ClientLogin, ClientMessage, EventNotice, EventRequest, MessageFault, parse_message,
};
use weir_mapping::CanonicalItem;
use weir_net::http1::{HttpRequest, Response};
use weir_net::server::{ConnId, RequestOutcome, ServerIo};
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{Add, Control, ControlOp, Request};

use super::clients::Clients;
use super::dialect::Dialect;
use super::event_clients::{adapter_name, limits, session_request};
use super::http_responses::{send_response, with_cors};
use super::responses::{MessageOutcome, RequestTransport, ResponseBatch};
use super::socket_end::close;
use super::state::{SUBSCRIBE, Shard, UNSUBSCRIBE};
use super::wire::Wire;
use crate::error::SubscriptionError;

/// Path of JSON over WebSocket.
pub(super) const WS_PATH: &str = "/ws";
/// Lowest number under which an item waits for the remote adapter. Slots of items, which number
/// accepted ones, are lower.
const WAITING_MIN: u32 = 1 << 30;

/// Handles a request for a WebSocket.
pub(super) fn upgrade(
    shard: &mut Shard,
    wire: &mut impl Wire,
    conn: ConnId,
    request: &HttpRequest<'_>,
) -> RequestOutcome {
    let refusal = match request.is_websocket_upgrade() {
        false => {
            let text = "this path requires a WebSocket\n";
            Some(Response::text(426, text).with_header("Upgrade", "websocket"))
        }
        true if shard.clients.is_draining() => {
            Some(Response::text(503, "the gateway is shutting down\n"))
        }
        true => None,
    };
    if let Some(response) = refusal {
        return RequestOutcome::Respond(with_cors(response, request.header("origin")));
    }
    shard.dialects.insert(conn, Dialect::json());
    shard.note_credentials(wire, conn, request, true);
    shard.logins.expect(wire, conn);
    RequestOutcome::Upgrade {
        protocol: None,
        deflate: shard.clients.shared.compression.enabled,
    }
}

impl Shard {
    /// Closes WebSockets without a message.
    pub(super) fn end_silent(&mut self, wire: &mut impl Wire) {
        while let Some(conn) = self.logins.pop_due(wire) {
            let has_session = wire.tag(conn) != Some(0);
            let adapter = self.clients.adapter.as_ref();
            let waits = self.credentials.waiting.contains_key(&conn)
                || adapter.is_some_and(|adapter| adapter.has_create(conn));
            if !has_session && !waits && self.dialects.is_json(conn) {
                self.clients.counters.sessions_refused += 1;
                let text = "no message in time: name items to subscribe";
                close(wire, conn, SessionCode::MALFORMED.code(), text);
            }
        }
    }

    /// Handles a message of a client.
    pub(super) fn receive_json(&mut self, io: &mut ServerIo, conn: ConnId, text: &str) {
        let message = parse_message(text, limits(&self.clients.shared));
        let items = message.as_ref().map_or(1, ClientMessage::items);
        if self.is_flooding(io, conn, items as u32) {
            return;
        }
        self.handle_json(io, conn, message);
        self.charge_work(io);
    }

    /// Handles a message that was read.
    pub(super) fn handle_json(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
        message: Result<ClientMessage, MessageFault>,
    ) {
        let key = self.clients.sessions.bound_to(conn, wire.tag(conn));
        let fault = match (key, message) {
            (None, Ok(ClientMessage::Subscribe(login, wanted))) => {
                return self.log_in(wire, conn, login, &wanted);
            }
            (Some(key), Ok(ClientMessage::Subscribe(login, wanted)))
                if login == ClientLogin::default() =>
            {
                let request = session_request(&wanted, &self.clients.shared);
                (self.clients.recoveries).set_point(key, wanted.after.as_deref());
                return self.subscribe_events(wire, key, conn, &request.controls, true);
            }
            (Some(key), Ok(ClientMessage::Unsubscribe(items, adapter))) => {
                return self.unsubscribe_events(wire, key, &items, adapter.as_deref());
            }
            (Some(_), Ok(ClientMessage::Subscribe(..))) => {
                "only the first message has a user or a password".to_owned()
            }
            (None, Ok(ClientMessage::Unsubscribe(..))) => "nothing is subscribed".to_owned(),
            (_, Err(fault)) => fault.to_string(),
        };
        self.clients.counters.requests_refused += 1;
        match key {
            Some(key) => {
                let code = SessionCode::MALFORMED;
                (self.clients).end_session(wire, key, code, &fault, false);
            }
            None => close(wire, conn, SessionCode::MALFORMED.code(), &fault),
        }
    }

    /// Creates the session that the first message of a connection asks for.
    fn log_in(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
        login: ClientLogin,
        wanted: &EventRequest,
    ) {
        let mut create = session_request(wanted, &self.clients.shared);
        create.user = login.user.map(Into::into);
        create.password = login.password;
        let after = wanted.after.as_deref().map(Box::from);
        let transport = RequestTransport::Json { after };
        let mut responses = ResponseBatch::on(conn, transport, Vec::new());
        if self.create(wire, &create, &mut responses) == MessageOutcome::Respond {
            send_response(wire, responses);
        }
    }

    /// Subscribes items for a client of events whose stream is open. `is_counted` is `true` if
    /// they count as requests of their user.
    pub(super) fn subscribe_events(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        conn: ConnId,
        controls: &[Control<'_>],
        is_counted: bool,
    ) {
        for control in controls {
            let ControlOp::Add(add) = &control.op else {
                continue;
            };
            if is_counted && !self.clients.take_request(wire, key) {
                return;
            }
            if let Some(tracer) = &self.tracer {
                tracer.note_request(key, &Request::Control(control.clone()));
            }
            match self.waiting_number() {
                Some(sub_id) if self.clients.has_adapter(key) => {
                    let add = Add {
                        sub_id,
                        ..add.clone()
                    };
                    let transport = RequestTransport::Json { after: None };
                    let mut responses = ResponseBatch::on(conn, transport, Vec::new());
                    self.ask_about_subscription(wire, key, (control, &add), &mut responses);
                }
                _ => self.subscribe_event_item(wire, key, add),
            }
        }
        if let Some(entry) = self.clients.sessions.get_mut(key) {
            entry.core.touch(wire.now_ms());
        }
        self.clients.catch_up(wire, key);
    }

    /// Returns a number for an item that waits for the remote adapter, if there is one.
    fn waiting_number(&mut self) -> Option<u32> {
        let adapter = self.clients.adapter.as_mut()?;
        Some(WAITING_MIN | (adapter.next_number() as u32 & (WAITING_MIN - 1)))
    }

    fn subscribe_event_item(&mut self, wire: &mut impl Wire, key: SessionKey, add: &Add<'_>) {
        self.metrics.heartbeat.begin(SUBSCRIBE);
        // Confirmations for SDKs; the client gets its own.
        let mut lines = Vec::new();
        match self.clients.subscribe(key, add, None, &mut lines) {
            Ok(_) => {
                self.clients.confirm_event_item(wire, key, &add.group);
            }
            Err(refusal) => {
                self.clients.counters.requests_refused += 1;
                (self.clients).refuse_event_item(wire, key, &add.group, &refusal);
            }
        }
    }

    fn unsubscribe_events(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        items: &[String],
        adapter: Option<&str>,
    ) {
        self.metrics.heartbeat.begin(UNSUBSCRIBE);
        for item in items {
            if !self.clients.take_request(wire, key) {
                return;
            }
            let canonical = CanonicalItem::parse(item).ok();
            let name = canonical.as_ref().map_or(&**item, |item| item.as_str());
            let found = self.clients.event_subscription(key, name, adapter);
            let is_ended = match found {
                Some(sub_id) => self
                    .clients
                    .unsubscribe(key, sub_id, &mut Vec::new())
                    .is_ok(),
                None => self.cancel_event_item(wire, key, item),
            };
            if is_ended {
                let about = EventNotice::Unsubscribed(name);
                self.clients.send_notice(wire, key, about);
            } else {
                // A name costs CPU time, even if nothing has it.
                self.clients.work.items += 1;
                self.clients.counters.requests_refused += 1;
                let refusal = SubscriptionError::from(ControlCode::SUBSCRIPTION_NOT_FOUND);
                self.clients.refuse_event_item(wire, key, item, &refusal);
            }
        }
    }

    /// Cancels an item that waits for the remote adapter. Returns `false` if it does not.
    fn cancel_event_item(&mut self, wire: &mut impl Wire, key: SessionKey, item: &str) -> bool {
        let adapter = self.clients.adapter.as_ref();
        let waiting = adapter.and_then(|adapter| adapter.waiting_add(key, item));
        waiting.is_some_and(|sub_id| self.cancel_add(wire, key, sub_id))
    }
}

impl Clients {
    /// Returns the number of a session's subscription to an item of events.
    fn event_subscription(
        &mut self,
        key: SessionKey,
        item: &str,
        adapter: Option<&str>,
    ) -> Option<u32> {
        let shared = Arc::clone(&self.shared);
        let name = adapter_name(adapter, &shared);
        let mut connections = shared.connections.iter();
        let connection = connections.position(|one| one.config.name == name)?;
        let sub_id = self.items.slot_for(&(connection as u16, Arc::from(item))) + 1;
        let entry = self.sessions.get_mut(key)?;
        entry.core.subscription(sub_id).map(|_| sub_id)
    }
}
