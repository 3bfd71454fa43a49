//! Sessions between two streams: `LOOP` leaves a session unbound, and `bind_session` on any
//! WebSocket of the gateway, whichever shard has accepted it, gives it another stream.

use std::time::{Duration, Instant};

use weir_net::server::{ConnId, Detached, Io};
use weir_tlcp::codes::SessionCode;
use weir_tlcp::request::{BindSession, StreamOptions};
use weir_tlcp::server::{Session, SessionId, write_conerr};

use super::requests::{Fate, SessionRefusal, client_ip, may_stream};
use super::session::{SessionKey, Unbound};
use super::waiting::{PATIENCE, Waiting};
use super::wire::Wire;
use super::{Shard, ShardMail};

/// How often a session without a stream is looked at.
const LOOK_MS: u64 = 1_000;

/// A WebSocket on its way to the shard that keeps the session it asks for.
#[derive(Debug)]
pub(crate) struct Handover {
    session: SessionKey,
    stream: StreamOptions,
    connection: Detached,
}

/// Where a connection goes that is about to leave.
#[derive(Debug)]
pub(super) struct Departure {
    shard: u16,
    session: SessionKey,
    stream: StreamOptions,
}

fn not_found<T>() -> Result<T, SessionRefusal> {
    let code = SessionCode::SESSION_NOT_FOUND;
    Err((code, code.text().into()))
}

impl Shard {
    /// Takes a session from its stream; false if there is no room for sessions that wait.
    pub(super) fn unbind(&mut self, wire: &mut impl Wire, key: SessionKey) -> bool {
        let shard = self.number;
        let Some(entry) = self.sessions.get_mut(key) else {
            return false;
        };
        let waiting = Waiting::Unbound {
            shard,
            session: key,
        };
        let room = &self.shared.waiting;
        if !room.admit(*entry.core.id(), waiting, Instant::now()) {
            return false;
        }
        let now_ms = wire.now_ms();
        let patience = u64::try_from(PATIENCE.as_millis()).unwrap_or(u64::MAX);
        entry.unbound = Some(Box::new(Unbound::until(now_ms.saturating_add(patience))));
        entry.arm(wire, now_ms + LOOK_MS, key);
        true
    }

    /// Looks after a session without a stream.
    pub(super) fn watch_unbound(&mut self, wire: &mut impl Wire, key: SessionKey) {
        let now_ms = wire.now_ms();
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        let until_ms = entry.unbound.as_ref().map_or(0, |unbound| unbound.until_ms);
        if now_ms < until_ms {
            entry.arm(wire, until_ms.min(now_ms + LOOK_MS), key);
        } else {
            let conn = entry.conn;
            tracing::debug!(session = %entry.core.id(), "session was not bound again");
            self.remove_session(key);
            wire.close(conn, None, true);
        }
    }

    /// A session that is bound, or was never there, is told as not found: an SDK then starts a
    /// fresh one at once.
    pub(super) fn bind(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
        current: Option<SessionKey>,
        bind: &BindSession<'_>,
        out: &mut Vec<u8>,
    ) -> Fate {
        let last = wire.tag(conn).map(SessionKey::from_bits);
        let last = last.and_then(|key| Some(*self.sessions.get_mut(key)?.core.id()));
        let found = may_stream(current, &bind.stream).and_then(|()| {
            let named = match (&bind.session, &last) {
                (Some(named), _) => named.as_str(),
                (None, Some(last)) => last.as_str(),
                (None, None) => return not_found(),
            };
            let claimed = self.shared.waiting.claim(named, Instant::now());
            claimed.map_or_else(not_found, Ok)
        });
        let done = match found {
            Ok((id, Waiting::New(set))) => self.has_room().map(|()| {
                let ip = client_ip(wire, conn);
                let config = &self.shared.session;
                let core = Session::bind(id, &bind.stream, config, &ip, wire.now_ms(), out);
                let key = self.sessions.insert(core, conn, set);
                self.begin(wire, conn, key);
                Fate::Stays
            }),
            Ok((_, Waiting::Unbound { shard, session })) if shard == self.number => {
                self.rebind(wire, conn, session, &bind.stream, out);
                Ok(Fate::Stays)
            }
            Ok((id, Waiting::Unbound { shard, session })) => self.send_to_owner(
                wire,
                conn,
                id,
                bind,
                Departure {
                    shard,
                    session,
                    stream: bind.stream.clone(),
                },
            ),
            Err(refusal) => Err(refusal),
        };
        done.unwrap_or_else(|(code, text)| {
            write_conerr(out, code, &text);
            Fate::Stays
        })
    }

    /// Gives a session another stream: head, then what was held, then what lags.
    fn rebind(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
        key: SessionKey,
        stream: &StreamOptions,
        out: &mut Vec<u8>,
    ) {
        let ip = client_ip(wire, conn);
        let now_ms = wire.now_ms();
        let Some(entry) = self.sessions.get_mut(key) else {
            let code = SessionCode::SESSION_NOT_FOUND;
            return write_conerr(out, code, code.text());
        };
        let before = std::mem::replace(&mut entry.conn, conn);
        let held = entry.unbound.take();
        entry
            .core
            .rebind(stream, &self.shared.session, &ip, now_ms, out);
        entry.arm(wire, entry.core.next_wake_ms(), key);
        wire.set_tag(conn, key.to_bits());
        if before != conn {
            wire.close(before, None, true);
        }
        let mut sent = out.is_empty() || wire.send_text(conn, out);
        out.clear();
        for frame in held.into_iter().flat_map(|held| held.frames) {
            sent = sent && wire.send(conn, frame);
        }
        if sent {
            self.counters.sessions_rebound += 1;
            self.catch_up(wire, key);
        } else {
            self.end_slow(wire, key);
        }
    }

    /// The session is kept by another shard: its new stream must go there.
    fn send_to_owner(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
        id: SessionId,
        bind: &BindSession<'_>,
        departure: Departure,
    ) -> Result<Fate, SessionRefusal> {
        if self.shared.peers.get().is_none() {
            return not_found();
        }
        tracing::debug!(session = %id, cause = ?bind.cause, "bind_session for another shard");
        wire.detach(conn);
        self.departure = Some(departure);
        Ok(Fate::Leaves)
    }

    /// The connection has left the loop. A shard that is too busy to take it loses it, and with it
    /// the session in time; the client starts over.
    pub(super) fn on_departed(&mut self, connection: Detached) {
        let peers = self.shared.peers.get();
        let Some(departure) = self.departure.take() else {
            return;
        };
        let owner = peers.and_then(|peers| peers.get(usize::from(departure.shard)));
        let handover = Handover {
            session: departure.session,
            stream: departure.stream,
            connection,
        };
        if let Some(owner) = owner {
            if let Err(error) = owner.post(ShardMail::Adopt(Box::new(handover)), Duration::ZERO) {
                tracing::warn!(%error, "a WebSocket could not be handed to another shard");
            }
        }
    }

    /// A WebSocket from another shard, for a session of this one.
    pub(super) fn adopt(&mut self, io: &mut Io, handover: Handover) {
        let Some(conn) = io.adopt(handover.connection) else {
            return;
        };
        let mut out = std::mem::take(&mut self.reply);
        out.clear();
        self.rebind(io, conn, handover.session, &handover.stream, &mut out);
        if !out.is_empty() && !Wire::send_text(io, conn, &out) {
            io.close(conn, None, true);
        }
        self.reply = out;
    }
}
