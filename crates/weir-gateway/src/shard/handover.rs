//! `create_session` and `bind_session` give a session its stream, whichever shard has accepted the
//! connection: it moves to the shard that keeps the session.

use weir_net::limited;
use weir_net::log::Truncated;
use weir_net::server::{ConnId, Detached, ServerIo};
use weir_tlcp::codes::SessionCode;
use weir_tlcp::request::{BindSession, StreamOptions};
use weir_tlcp::server::{write_conerr, write_prog};

use super::event::{Handover, HandoverTarget};
use super::frame::Framing;
use super::keys::SessionKey;
use super::reply::{MessageOutcome, Reply, RequestTransport, SessionRefusal};
use super::requests::client_ip;
use super::session::{OtherBinding, Poll, StreamBinding};
use super::wire::Wire;
use super::{Shard, ShardEvent, http};

/// Bytes of an HTTP answer after which the client has to bind anew, if it does not say.
const STREAM_BYTES: u64 = 4_000_000;
/// The least and the most that a client may ask for: browsers keep a whole answer in memory.
const STREAM_BYTES_MIN: u64 = 1_000;
const STREAM_BYTES_MAX: u64 = 50_000_000;

fn not_found() -> SessionRefusal {
    let code = SessionCode::SESSION_NOT_FOUND;
    (code, code.text().into())
}

impl Shard {
    /// A session that is not there is told as not found: an SDK then starts a fresh one at once.
    pub(super) fn bind(
        &mut self,
        wire: &mut impl Wire,
        bind: &BindSession<'_>,
        reply: &mut Reply,
    ) -> MessageOutcome {
        let mut bind = bind.clone().into_owned();
        if bind.session.is_none() {
            let last = wire.tag(reply.conn).map(SessionKey::from_bits);
            let entry = last.and_then(|key| self.sessions.get_mut(key));
            bind.session = entry.map(|entry| entry.core.id().into());
        }
        let bound = match self.may_stream(wire, reply) {
            Err(refusal) => Err(refusal),
            Ok(()) => match bind.session.as_ref().and_then(|id| self.elsewhere(id)) {
                Some(shard) => {
                    wire.detach(reply.conn);
                    self.departure = Some(HandoverTarget {
                        shard,
                        bind,
                        via: reply.via.clone(),
                        dialect: self.dialects.remove(reply.conn),
                    });
                    return MessageOutcome::Leaves;
                }
                None => self.attach(wire, &bind, reply),
            },
        };
        bound.unwrap_or_else(|(code, text)| {
            write_conerr(&mut reply.lines, code, &text);
            MessageOutcome::Stays
        })
    }

    /// Gives a session of this shard another stream.
    fn attach(
        &mut self,
        wire: &mut impl Wire,
        bind: &BindSession<'_>,
        reply: &mut Reply,
    ) -> Result<MessageOutcome, SessionRefusal> {
        let id = bind.session.as_deref().unwrap_or_default();
        let key = self.sessions.find(self.number, id).ok_or_else(not_found)?;
        limited!(
            debug,
            "bind_session",
            session = ?Truncated(&bind.session),
            cause = ?Truncated(&bind.cause),
            recovery_from = ?bind.recovery_from,
            "bind_session"
        );
        let ip = client_ip(wire, reply.conn);
        let now_ms = wire.now_ms();
        let version = self.dialects.version(bind.version, reply.conn);
        let entry = self.sessions.get_mut(key).ok_or_else(not_found)?;
        if entry.version != version {
            let code = SessionCode::INCOMPATIBLE_SESSION;
            return Err((code, code.text().into()));
        }
        let mut from = None;
        if let Some(received) = bind.recovery_from {
            from = entry.rewind(received);
            if from.is_none() {
                self.counters.recoveries_refused += 1;
                let code = SessionCode::RECOVERY_UNAVAILABLE;
                return Err((code, code.text().into()));
            }
            self.counters.recoveries += 1;
        }
        let line_bytes = self.shared.limits.line_bytes;
        let framing = reply.via.framing();
        let line_max = self.dialects.line_max(reply.conn, framing, line_bytes);
        let entry = self.sessions.get_mut(key).ok_or_else(not_found)?;
        let waits = entry.journal.as_ref();
        if waits.is_some_and(|journal| !journal.is_readable(line_max)) {
            // The SDK would lose this connection too; it starts over with a fresh session instead.
            let code = SessionCode::RECOVERY_UNAVAILABLE;
            return Err((
                code,
                "what waits has a line too long for this client".into(),
            ));
        }
        let config = &self.shared.session;
        entry
            .core
            .bind(&bind.stream, config, &ip, now_ms, &mut reply.lines);
        if let Some(from) = from {
            write_prog(&mut reply.lines, from);
        }
        self.counters.sessions_rebound += 1;
        Ok(self.connect(wire, key, &bind.stream, &[], reply))
    }

    /// Makes a connection the stream of a session: first the head, which the reply has, then
    /// `notes`, what waits, and what lags. A stream the session has is given up without a word.
    pub(super) fn connect(
        &mut self,
        wire: &mut impl Wire,
        key: SessionKey,
        stream: &StreamOptions,
        notes: &[u8],
        reply: &mut Reply,
    ) -> MessageOutcome {
        let now_ms = wire.now_ms();
        let framing = reply.via.framing();
        let line_bytes = self.shared.limits.line_bytes;
        let line_max = self.dialects.line_max(reply.conn, framing, line_bytes);
        let Some(entry) = self.sessions.get_mut(key) else {
            return MessageOutcome::Stays;
        };
        let before = std::mem::replace(&mut entry.conn, reply.conn);
        entry.line_max = line_max;
        let link = match (stream.polling, framing) {
            (Some(asked), _) => {
                let granted = self.shared.session.granted(asked);
                StreamBinding::Other(Box::new(OtherBinding::Poll(Poll {
                    framing,
                    until_ms: now_ms + granted.idle_ms,
                    interval_ms: granted.interval_ms,
                    fed: false,
                })))
            }
            (None, Framing::WebSocket) => StreamBinding::WebSocket,
            (None, Framing::Chunk) => {
                let asked = stream.content_length.unwrap_or(STREAM_BYTES);
                let left = asked.clamp(STREAM_BYTES_MIN, STREAM_BYTES_MAX);
                StreamBinding::Other(Box::new(OtherBinding::Http { left, fresh: true }))
            }
        };
        let window = wire.deflate_window(reply.conn);
        self.courier.bind(entry, link, window);
        entry.arm(wire);
        wire.set_tag(reply.conn, key.to_bits());
        if before != reply.conn {
            wire.close(before, None, true);
        }
        let mut fate = MessageOutcome::Stays;
        if let RequestTransport::Http { origin } = &reply.via {
            wire.begin_body(reply.conn, &http::lines(Vec::new(), origin.as_deref()));
            fate = MessageOutcome::Streams;
        }
        let head = std::mem::take(&mut reply.lines);
        self.tell(wire, key, &head);
        reply.lines = head;
        reply.lines.clear();
        if !notes.is_empty() {
            self.notify(wire, key, notes);
        }
        self.resume(wire, key);
        fate
    }

    /// The connection has left the loop.
    pub(super) fn on_departed(&mut self, connection: Detached) {
        let departure = self.departure.take();
        let Some(HandoverTarget {
            shard,
            bind,
            via,
            dialect,
        }) = departure
        else {
            return;
        };
        let handover = Handover {
            bind,
            via,
            dialect,
            connection,
        };
        self.post(shard, ShardEvent::Adopt(Box::new(handover)));
    }

    /// A connection from another shard, for a session of this one.
    pub(super) fn accept_handover(&mut self, io: &mut ServerIo, handover: Handover) {
        let Handover {
            bind,
            via,
            dialect,
            connection,
        } = handover;
        if let Some(conn) = io.adopt(connection) {
            self.enter_adopted(io, conn);
            self.dialects.insert(conn, dialect);
            self.bind_adopted(io, conn, via, &bind);
        }
    }

    fn bind_adopted(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
        via: RequestTransport,
        bind: &BindSession<'_>,
    ) {
        let mut reply = Reply::on(conn, via, std::mem::take(&mut self.reply));
        if let Err((code, text)) = self.attach(wire, bind, &mut reply) {
            write_conerr(&mut reply.lines, code, &text);
            match &reply.via {
                RequestTransport::WebSocket => {
                    wire.send_text(conn, &reply.lines);
                }
                RequestTransport::Http { origin } => {
                    let lines = std::mem::take(&mut reply.lines);
                    wire.reply(conn, &http::lines(lines, origin.as_deref()));
                }
            }
        }
        self.reply = reply.lines;
    }
}
