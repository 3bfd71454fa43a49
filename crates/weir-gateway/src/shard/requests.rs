//! TLCP requests, over whatever they come: sessions begin, controls are carried out, answers are
//! collected.

use weir_net::limited;
use weir_net::log::Truncated;
use weir_net::server::ConnId;
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{ControlOp, CreateSession, Request, SessionRef, parse_ws_message};
use weir_tlcp::server::{Session, SessionId, write_conerr, write_error, write_reqok, write_wsok};

use super::admission::{NO_MEMORY, TOO_MANY};
use super::keys::SessionKey;
use super::reply::{MessageOutcome, Reply, RequestTransport, SessionRefusal};
use super::session::AdapterSet;
use super::wire::{NOWHERE, Wire};
use super::{Shard, simulator};
use crate::admission::AdmissionLimit;
use crate::resolve::SubscriptionError;

pub(super) fn client_ip(wire: &mut impl Wire, conn: ConnId) -> String {
    wire.peer_ip(conn)
        .map_or_else(String::new, |ip| ip.to_string())
}

impl Shard {
    /// Handles one WebSocket message: requests in order, answers in order.
    pub(super) fn handle_message(&mut self, wire: &mut impl Wire, conn: ConnId, text: &str) {
        if self.errands.is_waiting(conn) {
            // Answers keep their order, so this message has to wait for another shard.
            return self.put_off(wire, conn, text);
        }
        let lines = std::mem::take(&mut self.reply);
        let mut reply = Reply::on(conn, RequestTransport::WebSocket, lines);
        let mut fate = MessageOutcome::Stays;
        parse_ws_message(text, &mut |parsed| {
            if fate == MessageOutcome::Stays {
                fate = match parsed {
                    Ok(request) => self.handle_request(wire, &request, &mut reply),
                    Err(error) => {
                        self.counters.requests_refused += 1;
                        error.write(&mut reply.lines);
                        MessageOutcome::Stays
                    }
                };
            }
        });
        if !reply.foreign.is_empty() {
            return self.forward_requests(reply);
        }
        if fate == MessageOutcome::Stays {
            self.flush(wire, &mut reply);
        }
        self.reply = reply.lines;
    }

    /// Sends the answers so far if they go the way of what a session is sent next.
    pub(super) fn flush_before(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        reply: &mut Reply,
    ) {
        let entry = self.sessions.get_mut(key);
        if entry.is_some_and(|entry| entry.is_bound_to(reply.conn)) {
            self.flush(wire, reply);
        }
    }

    /// Sends the answers so far; over HTTP they are one answer in the end.
    fn flush(&mut self, wire: &mut impl Wire, reply: &mut Reply) {
        if reply.via != RequestTransport::WebSocket {
            return;
        }
        if !reply.lines.is_empty() && !wire.send_text(reply.conn, &reply.lines) {
            self.give_up(wire, reply.conn);
        }
        reply.lines.clear();
    }

    /// A client that floods the gateway with requests and does not read the answers.
    pub(super) fn give_up(&mut self, wire: &mut impl Wire, conn: ConnId) {
        match self.session_of(wire, conn) {
            Some(key) => self.end_slow(wire, key),
            None => wire.close(conn, None, true),
        }
    }

    /// The session whose stream this connection is.
    pub(super) fn session_of(&mut self, wire: &mut impl Wire, conn: ConnId) -> Option<SessionKey> {
        let key = SessionKey::from_bits(wire.tag(conn).filter(|tag| *tag != 0)?);
        let entry = self.sessions.get_mut(key)?;
        entry.is_bound_to(conn).then_some(key)
    }

    /// The session that a request is about: the one it names, else the last one bound on its
    /// connection, unless that has another stream now.
    fn addressed(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
        named: Option<&SessionRef<'_>>,
    ) -> Option<SessionKey> {
        if let Some(id) = named {
            return self.sessions.find(self.number, id.as_str());
        }
        let key = SessionKey::from_bits(wire.tag(conn).filter(|tag| *tag != 0)?);
        let entry = self.sessions.get_mut(key)?;
        (entry.conn == conn || !entry.is_bound()).then_some(key)
    }

    pub(super) fn handle_request(
        &mut self,
        wire: &mut impl Wire,
        request: &Request<'_>,
        reply: &mut Reply,
    ) -> MessageOutcome {
        let named = match request {
            Request::Wsok if reply.via == RequestTransport::WebSocket => {
                write_wsok(&mut reply.lines);
                return MessageOutcome::Stays;
            }
            Request::Wsok => {
                let text = "wsok is for WebSocket";
                write_error(&mut reply.lines, ControlCode::MALFORMED, text);
                return MessageOutcome::Stays;
            }
            Request::CreateSession(create) => return self.create(wire, create, reply),
            Request::BindSession(bind) => return self.bind(wire, bind, reply),
            Request::Control(control) => control.session.as_ref(),
            Request::Message(message) => message.session.as_ref(),
            Request::Heartbeat(heartbeat) => heartbeat.session.as_ref(),
        };
        if let Some(shard) = named.and_then(|id| self.elsewhere(id)) {
            let before = std::mem::take(&mut reply.lines);
            let request = request.clone().into_owned();
            reply.foreign.push((before, shard, request));
            return MessageOutcome::Stays;
        }
        let key = self.addressed(wire, reply.conn, named);
        self.carry_out(wire, key, request, reply);
        MessageOutcome::Stays
    }

    /// A request about a session of this shard, or about none.
    pub(super) fn carry_out(
        &mut self,
        wire: &mut impl Wire,
        key: Option<SessionKey>,
        request: &Request<'_>,
        reply: &mut Reply,
    ) {
        let now_ms = wire.now_ms();
        if let Some(entry) = key.and_then(|key| self.sessions.get_mut(key)) {
            entry.core.touch(now_ms);
        }
        match request {
            Request::Control(control) => self.control(wire, key, control, reply),
            Request::Message(message) => self.refuse_message(wire, key, message, reply),
            // Only HTTP needs an answer; a session that is not there is no error.
            Request::Heartbeat(_) if reply.via != RequestTransport::WebSocket => {
                write_reqok(&mut reply.lines, None);
            }
            _ => {}
        }
    }

    /// The shard that keeps a session, if it is another one.
    pub(super) fn elsewhere(&self, id: &str) -> Option<u16> {
        let place = SessionId::location_of(id)?;
        let peers = self.shared.peers.get()?;
        let known = usize::from(place.shard) < peers.len();
        (known && place.shard != self.number).then_some(place.shard)
    }

    fn create(
        &mut self,
        wire: &mut impl Wire,
        create: &CreateSession<'_>,
        reply: &mut Reply,
    ) -> MessageOutcome {
        limited!(
            debug,
            "create_session",
            cid = ?Truncated(&create.cid),
            cause = ?Truncated(&create.cause),
            replaces = ?Truncated(&create.old_session),
            "create_session"
        );
        if let Some(old) = &create.old_session {
            self.discard_replaced(wire, old);
        }
        let opened = match self.may_stream(wire, reply) {
            Ok(()) => self.open(wire, create, reply),
            Err(refusal) => Err(refusal),
        };
        match opened {
            Ok((key, notes)) => self.connect(wire, key, &create.stream, &notes, reply),
            Err((code, message)) => {
                self.counters.sessions_refused += 1;
                write_conerr(&mut reply.lines, code, &message);
                MessageOutcome::Stays
            }
        }
    }

    /// Makes a session and carries out the controls that come with it; it has no stream yet. The
    /// head is appended to the reply, what the controls cause is returned.
    fn open(
        &mut self,
        wire: &mut impl Wire,
        create: &CreateSession<'_>,
        reply: &mut Reply,
    ) -> Result<(SessionKey, Vec<u8>), SessionRefusal> {
        let set = self.may_create(create)?;
        let version = self.dialects.version(create.version, reply.conn);
        let ticket = self.begin_counted(wire, reply.conn)?;
        let ip = client_ip(wire, reply.conn);
        let (now_ms, begin) = (wire.now_ms(), reply.lines.len());
        let config = &self.shared.session;
        let key = self.sessions.insert(self.number, NOWHERE, set, |place| {
            let id = SessionId::new(place, &rand::random());
            Session::create(id, create, config, &ip, now_ms, &mut reply.lines)
        });
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.limit_bandwidth(now_ms);
            entry.version = version;
            entry.diffs = version.diffs(create.supported_diffs);
        }
        if ticket != 0 {
            self.tickets.insert(key, ticket);
        }
        let mut notes = Vec::new();
        for control in &create.controls {
            let done = match &control.op {
                ControlOp::Add(add) => self.subscribe(key, add, &mut notes),
                _ => Err(SubscriptionError {
                    code: ControlCode::BAD_VALUE,
                    message: "only LS_op=add goes with create_session".to_owned(),
                }),
            };
            if let Err(refusal) = done {
                self.remove_session(key);
                reply.lines.truncate(begin);
                if refusal.code == ControlCode::TOO_MANY_SUBSCRIPTIONS {
                    // There may be room later, and 64 would stop an SDK for good.
                    return Err((SessionCode::RETRY_LATER, refusal.message.into()));
                }
                return Err((SessionCode::COMBO_CONTROL_FAILED, refusal.message.into()));
            }
        }
        self.counters.sessions_created += 1;
        Ok((key, notes))
    }

    /// Whether a connection can be the stream that is asked for.
    pub(super) fn may_stream(
        &mut self,
        wire: &mut impl Wire,
        reply: &Reply,
    ) -> Result<(), SessionRefusal> {
        if self.session_of(wire, reply.conn).is_some() {
            let code = SessionCode::STREAM_ALREADY_OPEN;
            return Err((code, code.text().into()));
        }
        Ok(())
    }

    /// What a new session needs, over whatever it is created.
    fn may_create(&self, create: &CreateSession<'_>) -> Result<AdapterSet, SessionRefusal> {
        let set = if create.adapter_set == self.shared.set_id {
            AdapterSet::Served
        } else if self.shared.simulator.is_some() && create.adapter_set == simulator::ADAPTER_SET {
            AdapterSet::LoadTests
        } else {
            let text = format!("no adapter set \"{}\" here", create.adapter_set);
            return Err((SessionCode::ADAPTER_SET_UNKNOWN, text.into()));
        };
        self.has_room().map(|()| set)
    }

    /// 5 and 6 make SDKs come back later; 7 to 10 would stop them for good.
    fn has_room(&self) -> Result<(), SessionRefusal> {
        if self.draining() {
            let text = "the gateway is shutting down";
            return Err((SessionCode::RETRY_LATER, text.into()));
        }
        if self.shared.guard.overload.is_on() {
            self.shared.guard.note(AdmissionLimit::Memory);
            return Err((SessionCode::RETRY_LATER, NO_MEMORY.into()));
        }
        if self.sessions.len() + self.departing.len() >= self.shared.limits.sessions_per_shard {
            self.shared.guard.note(AdmissionLimit::Sessions);
            return Err((SessionCode::RETRY_LATER, TOO_MANY.into()));
        }
        Ok(())
    }
}
