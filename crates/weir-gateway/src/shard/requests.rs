//! TLCP requests on a WebSocket: sessions come, and the answers.

use std::borrow::Cow;

use weir_net::server::ConnId;
use weir_tlcp::codes::{ControlCode, SessionCode};
use weir_tlcp::request::{
    ControlOp, CreateSession, Message, Request, StreamOptions, parse_ws_message,
};
use weir_tlcp::server::{Session, SessionId, write_conerr, write_reqerr, write_wsok};

use super::session::{AdapterSet, SessionKey};
use super::wire::{Wire, message};
use super::{Shard, simulator};
use crate::resolve::Refusal;

/// What becomes of the connection after a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Stays,
    /// To another shard; what it has sent after this message goes with it.
    Leaves,
    Closes,
}

/// Why a session does not begin.
pub(super) type SessionRefusal = (SessionCode, Cow<'static, str>);

/// Text of the refusal when the limit is reached.
pub(super) const TOO_MANY: &str = "too many sessions, try again later";

/// Whether a WebSocket can be the stream that is asked for.
pub(super) fn may_stream(
    current: Option<SessionKey>,
    stream: &StreamOptions,
) -> Result<(), SessionRefusal> {
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

pub(super) fn client_ip(wire: &mut impl Wire, conn: ConnId) -> String {
    wire.peer_ip(conn)
        .map_or_else(String::new, |ip| ip.to_string())
}

impl Shard {
    /// Handles one WebSocket message: requests in order, answers in order, in one message.
    pub(super) fn handle_message(&mut self, wire: &mut impl Wire, conn: ConnId, text: &str) {
        let mut reply = std::mem::take(&mut self.reply);
        reply.clear();
        let mut fate = Fate::Stays;
        parse_ws_message(text, &mut |parsed| {
            if fate == Fate::Stays {
                fate = match parsed {
                    Ok(request) => self.handle_request(wire, conn, &request, &mut reply),
                    Err(error) => {
                        self.counters.requests_refused += 1;
                        error.write(&mut reply);
                        Fate::Stays
                    }
                };
            }
        });
        if fate == Fate::Closes {
            let last = (!reply.is_empty()).then(|| message(&reply));
            wire.close(conn, last, false);
        } else if fate == Fate::Leaves {
            // There is nothing to answer: the request alone is in its message.
        } else if !reply.is_empty() && !wire.send_text(conn, &reply) {
            self.give_up(wire, conn);
        }
        self.reply = reply;
        // Snapshots follow the confirmations of their subscriptions.
        if let Some(key) = self.session_of(wire, conn) {
            self.catch_up(wire, key);
        }
    }

    /// A client that floods the gateway with requests and does not read the answers.
    fn give_up(&mut self, wire: &mut impl Wire, conn: ConnId) {
        match self.session_of(wire, conn) {
            Some(key) => self.end_slow(wire, key),
            None => wire.close(conn, None, true),
        }
    }

    /// The session whose stream this connection is.
    fn session_of(&mut self, wire: &mut impl Wire, conn: ConnId) -> Option<SessionKey> {
        let key = SessionKey::from_bits(wire.tag(conn).filter(|tag| *tag != 0)?);
        let entry = self.sessions.get_mut(key)?;
        entry.is_bound_to(conn).then_some(key)
    }

    fn handle_request(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
        request: &Request<'_>,
        out: &mut Vec<u8>,
    ) -> Fate {
        let now_ms = wire.now_ms();
        let key = self.session_of(wire, conn);
        if let Some(entry) = key.and_then(|key| self.sessions.get_mut(key)) {
            entry.core.touch(now_ms);
        }
        match request {
            Request::Wsok => write_wsok(out),
            Request::CreateSession(create) => self.create(wire, conn, key, create, out),
            Request::BindSession(bind) => return self.bind(wire, conn, key, bind, out),
            Request::Control(control) => return self.control(wire, conn, key, control, out),
            Request::Message(message) => self.refuse_message(message, out),
            Request::Heartbeat(_) => {}
        }
        Fate::Stays
    }

    fn create(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
        current: Option<SessionKey>,
        create: &CreateSession<'_>,
        out: &mut Vec<u8>,
    ) {
        tracing::debug!(cid = ?create.cid, cause = ?create.cause, "create_session");
        let fitting = may_stream(current, &create.stream);
        let set = match fitting.and_then(|()| self.may_create(create)) {
            Ok(set) => set,
            Err((code, message)) => {
                self.counters.sessions_refused += 1;
                return write_conerr(out, code, &message);
            }
        };
        let id = SessionId::from_random(&rand::random());
        let ip = client_ip(wire, conn);
        let begin = out.len();
        let config = &self.shared.session;
        let core = Session::create(id, create, config, &ip, wire.now_ms(), out);
        let key = self.sessions.insert(core, conn, set);
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
        self.begin(wire, conn, key);
    }

    /// A new session's stream is open.
    pub(super) fn begin(&mut self, wire: &mut impl Wire, conn: ConnId, key: SessionKey) {
        self.counters.sessions_created += 1;
        wire.set_tag(conn, key.to_bits());
        if let Some(entry) = self.sessions.get_mut(key) {
            entry.arm(wire, entry.core.next_wake_ms(), key);
        }
    }

    /// What a new session needs, over whatever it is created.
    pub(super) fn may_create(
        &self,
        create: &CreateSession<'_>,
    ) -> Result<AdapterSet, SessionRefusal> {
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
    pub(super) fn has_room(&self) -> Result<(), SessionRefusal> {
        if self.draining {
            let text = "the gateway is shutting down";
            return Err((SessionCode::RETRY_LATER, text.into()));
        }
        if self.sessions.len() >= self.shared.limits.sessions_per_shard {
            return Err((SessionCode::RETRY_LATER, TOO_MANY.into()));
        }
        Ok(())
    }

    fn refuse_message(&mut self, message: &Message<'_>, out: &mut Vec<u8>) {
        self.counters.requests_refused += 1;
        let text = "this gateway takes no client messages";
        if let Some(id) = message.request_id.as_deref() {
            write_reqerr(out, id, ControlCode::REFUSED, text);
        }
    }
}
