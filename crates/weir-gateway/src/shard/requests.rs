//! TLCP requests on a WebSocket: sessions, subscriptions, and the answers.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use weir_net::server::{ConnId, Io};
use weir_net::websocket;
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{
    Add, BindSession, Control, ControlOp, CreateSession, Message, Request, SessionRef,
    StreamOptions, parse_ws_message,
};
use weir_tlcp::server::{
    Session, SessionId, Subscription, write_conerr, write_end, write_error, write_loop,
    write_reqerr, write_reqok, write_wsok,
};

use super::Shard;
use super::item::Ask;
use super::session::{SessionKey, Subscribed};
use crate::resolve::{Refusal, Resolved, resolve};

/// What becomes of the connection after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Stays,
    Closes,
}

/// Why a session does not begin.
pub(super) type SessionRefusal = (SessionCode, Cow<'static, str>);

/// Text of the refusal when the limit is reached.
pub(super) const TOO_MANY: &str = "too many sessions, try again later";

/// Whether a WebSocket can be the stream that is asked for.
fn may_stream(current: Option<SessionKey>, stream: &StreamOptions) -> Result<(), SessionRefusal> {
    if current.is_some() {
        let code = SessionCode::STREAM_ALREADY_OPEN;
        return Err((code, code.text().into()));
    }
    if stream.polling.is_some() {
        let text = "polling is not served by this version: use WebSocket streaming";
        return Err((SessionCode::PORT_FORBIDDEN, text.into()));
    }
    Ok(())
}

fn client_ip(io: &mut Io, conn: ConnId) -> String {
    io.peer(conn)
        .map_or_else(String::new, |peer| peer.ip().to_string())
}

impl Shard {
    /// Handles one WebSocket message: requests in order, answers in order, in one message.
    pub(super) fn handle_message(&mut self, io: &mut Io, conn: ConnId, text: &str) {
        let mut reply = std::mem::take(&mut self.reply);
        reply.clear();
        let mut fate = Fate::Stays;
        parse_ws_message(text, &mut |parsed| {
            if fate == Fate::Stays {
                fate = match parsed {
                    Ok(request) => self.handle_request(io, conn, &request, &mut reply),
                    Err(error) => {
                        self.counters.requests_refused += 1;
                        error.write(&mut reply);
                        Fate::Stays
                    }
                };
            }
        });
        if fate == Fate::Closes {
            let mut last = Vec::with_capacity(reply.len() + websocket::HEADER_BYTES_MAX);
            websocket::push_server_text(&mut last, &reply);
            io.close(conn, (!reply.is_empty()).then(|| Bytes::from(last)), false);
        } else if !reply.is_empty() && !io.send_text(conn, &reply) {
            self.give_up(io, conn);
        }
        self.reply = reply;
    }

    /// A client that floods the gateway with requests and does not read the answers.
    fn give_up(&mut self, io: &mut Io, conn: ConnId) {
        match self.session_of(io, conn) {
            Some(key) => self.end_slow(io, key),
            None => io.close(conn, None, true),
        }
    }

    fn session_of(&mut self, io: &mut Io, conn: ConnId) -> Option<SessionKey> {
        io.tag(conn)
            .filter(|tag| *tag != 0)
            .map(SessionKey::from_bits)
    }

    fn handle_request(
        &mut self,
        io: &mut Io,
        conn: ConnId,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Fate {
        let now_ms = io.now_ms();
        let key = self.session_of(io, conn);
        if let Some(entry) = key.and_then(|key| self.sessions.get_mut(key)) {
            entry.core.touch(now_ms);
        }
        match request {
            Request::Wsok => write_wsok(out),
            Request::CreateSession(create) => self.create(io, conn, key, create, out),
            Request::BindSession(bind) => self.bind(io, conn, key, bind, out),
            Request::Control(control) => return self.control(io, conn, key, control, out),
            Request::Message(message) => self.refuse_message(message, out),
            Request::Heartbeat(_) => {}
        }
        Fate::Stays
    }

    fn create(
        &mut self,
        io: &mut Io,
        conn: ConnId,
        current: Option<SessionKey>,
        create: &CreateSession<'_>,
        out: &mut Vec<u8>,
    ) {
        tracing::debug!(cid = ?create.cid, cause = ?create.cause, "create_session");
        let fitting = may_stream(current, &create.stream);
        if let Err((code, message)) = fitting.and_then(|()| self.may_create(create)) {
            self.counters.sessions_refused += 1;
            return write_conerr(out, code, &message);
        }
        let id = SessionId::from_random(&rand::random());
        let ip = client_ip(io, conn);
        let begin = out.len();
        let config = &self.shared.session;
        let core = Session::create(id, create, config, &ip, io.now_ms(), out);
        let key = self.sessions.insert(core, conn);
        for control in &create.controls {
            let done = match &control.op {
                ControlOp::Add(add) => self.subscribe(key, add, out),
                _ => Err(Refusal {
                    code: ControlCode::BAD_VALUE,
                    message: "only LS_op=add goes with create_session".to_owned(),
                }),
            };
            if let Err(refusal) = done {
                self.remove_session(key);
                self.counters.sessions_refused += 1;
                out.truncate(begin);
                return write_conerr(out, SessionCode::COMBO_CONTROL_FAILED, &refusal.message);
            }
        }
        self.begin(io, conn, key);
    }

    /// A new session's stream is open.
    fn begin(&mut self, io: &mut Io, conn: ConnId, key: SessionKey) {
        self.counters.sessions_created += 1;
        io.set_tag(conn, key.to_bits());
        if let Some(entry) = self.sessions.get_mut(key) {
            io.set_timer(entry.core.next_wake_ms(), key.to_bits());
        }
    }

    /// What a new session needs, over whatever it is created.
    pub(super) fn may_create(&self, create: &CreateSession<'_>) -> Result<(), SessionRefusal> {
        if create.adapter_set != self.shared.set_id {
            let text = format!("no adapter set \"{}\" here", create.adapter_set);
            return Err((SessionCode::ADAPTER_SET_UNKNOWN, text.into()));
        }
        self.has_room()
    }

    /// 5 and 6 make SDKs come back later; 7 to 10 would stop them for good.
    fn has_room(&self) -> Result<(), SessionRefusal> {
        if self.draining {
            let text = "the gateway is shutting down";
            return Err((SessionCode::RETRY_LATER, text.into()));
        }
        if self.sessions.len() >= self.shared.limits.sessions_per_shard {
            return Err((SessionCode::RETRY_LATER, TOO_MANY.into()));
        }
        Ok(())
    }

    /// Sessions end with their WebSocket in this version, so the only one there can be to bind is
    /// one that was created over HTTP and waits. The answer to all else makes an SDK start a fresh
    /// session at once.
    fn bind(
        &mut self,
        io: &mut Io,
        conn: ConnId,
        current: Option<SessionKey>,
        bind: &BindSession<'_>,
        out: &mut Vec<u8>,
    ) {
        let fitting = may_stream(current, &bind.stream).and_then(|()| self.has_room());
        let named = bind.session.as_deref().unwrap_or_default();
        let id = fitting.and_then(|()| {
            let waiting = &self.shared.waiting;
            let id = waiting.claim(named, Instant::now());
            let code = SessionCode::SESSION_NOT_FOUND;
            id.ok_or_else(|| (code, code.text().into()))
        });
        match id {
            Ok(id) => {
                let ip = client_ip(io, conn);
                let config = &self.shared.session;
                let core = Session::bind(id, &bind.stream, config, &ip, io.now_ms(), out);
                let key = self.sessions.insert(core, conn);
                self.begin(io, conn, key);
            }
            Err((code, text)) => write_conerr(out, code, &text),
        }
    }

    fn refuse_message(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        self.counters.requests_refused += 1;
        let text = "this gateway takes no client messages";
        if let Some(id) = message.request_id.as_deref() {
            write_reqerr(out, id, ControlCode::from_code(-1), text);
        }
    }

    fn control(
        &mut self,
        io: &mut Io,
        conn: ConnId,
        current: Option<SessionKey>,
        control: &Control<'_>,
        out: &mut Vec<u8>,
    ) -> Fate {
        let key = current.filter(|key| self.is_named(*key, control.session.as_ref()));
        let Some(key) = key else {
            let code = ControlCode::SESSION_NOT_FOUND;
            self.refuse(
                control,
                &Refusal {
                    code,
                    message: code.text().to_owned(),
                },
                out,
            );
            return Fate::Stays;
        };
        let at = out.len();
        let done = match &control.op {
            ControlOp::Add(add) => self.subscribe(key, add, out),
            ControlOp::Delete { sub_id } => self.unsubscribe(key, *sub_id, out),
            ControlOp::Destroy {
                cause_code,
                cause_message,
                close_socket,
            } => {
                acknowledge(control, out);
                self.remove_session(key);
                io.set_tag(conn, 0);
                write_end(out, SessionCode::from_code(*cause_code), cause_message);
                return if *close_socket {
                    Fate::Closes
                } else {
                    Fate::Stays
                };
            }
            ControlOp::ForceRebind { close_socket, .. } => {
                // The session cannot outlive its socket yet: after LOOP the client's bind is told
                // that it is gone, and the client starts afresh.
                acknowledge(control, out);
                self.remove_session(key);
                io.set_tag(conn, 0);
                write_loop(out, 0);
                return if *close_socket {
                    Fate::Closes
                } else {
                    Fate::Stays
                };
            }
            // RAW subscriptions are unfiltered: there is no frequency to change.
            ControlOp::Reconf { .. } => Err(Refusal {
                code: ControlCode::UNFILTERED,
                message: ControlCode::UNFILTERED.text().to_owned(),
            }),
            // CONS said "unmanaged": clients that look at it do not ask.
            ControlOp::Constrain { .. } => Ok(()),
        };
        match done {
            Ok(()) => {
                // The answer goes before what the request caused.
                let caused = out.split_off(at);
                acknowledge(control, out);
                out.extend_from_slice(&caused);
            }
            Err(refusal) => {
                out.truncate(at);
                self.refuse(control, &refusal, out);
            }
        }
        Fate::Stays
    }

    fn is_named(&mut self, key: SessionKey, named: Option<&SessionRef<'_>>) -> bool {
        let entry = self.sessions.get_mut(key);
        entry.is_some_and(|entry| named.is_none_or(|id| id.as_str() == entry.core.id().as_str()))
    }

    fn refuse(&mut self, control: &Control<'_>, refusal: &Refusal, out: &mut Vec<u8>) {
        self.counters.requests_refused += 1;
        match &control.request_id {
            Some(id) => write_reqerr(out, id, refusal.code, &refusal.message),
            None => write_error(out, ControlCode::MALFORMED, &refusal.message),
        }
    }

    fn subscribe(
        &mut self,
        key: SessionKey,
        add: &Add<'_>,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let shared = Arc::clone(&self.shared);
        let Resolved { connection, items } = resolve(add, &shared.connections, &shared.limits)?;
        let mapping = &shared.connections[usize::from(connection)].config.mapping;
        let schema = self.schemas.get(connection, &add.schema, mapping);
        let Some(entry) = self.sessions.get_mut(key) else {
            return Ok(());
        };
        let (item_count, field_count) = (items.len() as u32, schema.len() as u32);
        let subscribed = Subscribed {
            connection,
            schema: Arc::clone(&schema),
            places: items.iter().map(|_| None).collect(),
        };
        let subscription = Subscription {
            sub_id: add.sub_id,
            mode: add.mode,
            handle: subscribed,
        };
        let most = shared.limits.subscriptions_per_session;
        entry
            .core
            .add_subscription(subscription, most)
            .map_err(|code| Refusal {
                code,
                message: code.text().to_owned(),
            })?;
        self.counters.subscriptions += 1;
        entry
            .core
            .write_subok(add.sub_id, item_count, field_count, out);
        for (index, name) in items.into_iter().enumerate() {
            let Some(name) = name else { continue };
            let name = (connection, name);
            let position = index as u32 + 1;
            let (place, asked) = self.items.add(&name, &schema, add.sub_id, position, key);
            let places = self
                .sessions
                .get_mut(key)
                .and_then(|entry| entry.core.subscription_mut(add.sub_id));
            if let Some(slot) = places.and_then(|one| one.handle.places.get_mut(index)) {
                *slot = Some(place);
            }
            let ingest = &shared.connections[usize::from(connection)];
            match asked {
                Ask::Nothing => {}
                Ask::New(item, fields) => self.wishes.subscribe(ingest, name.1, item, fields),
                Ask::More(item, fields) => self.wishes.change(ingest, name.1, item, fields),
            }
        }
        Ok(())
    }

    fn unsubscribe(
        &mut self,
        key: SessionKey,
        sub_id: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let entry = self.sessions.get_mut(key);
        let removed = entry.and_then(|entry| {
            let subscription = entry.core.remove_subscription(sub_id)?;
            entry.core.write_unsub(sub_id, out);
            Some(subscription)
        });
        match removed {
            Some(subscription) => {
                self.release(subscription);
                Ok(())
            }
            None => Err(Refusal {
                code: ControlCode::SUBSCRIPTION_NOT_FOUND,
                message: format!("no subscription {sub_id} in this session"),
            }),
        }
    }
}

fn acknowledge(control: &Control<'_>, out: &mut Vec<u8>) {
    if let Some(id) = control.request_id.as_deref().filter(|_| control.ack) {
        write_reqok(out, Some(id));
    }
}
