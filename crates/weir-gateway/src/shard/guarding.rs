//! What the guard says to requests, in the words of HTTP and TLCP.

use weir_net::http1::{HttpRequest, Response};
use weir_net::server::{ConnId, Io};
use weir_tlcp::codes::{ControlCode, SessionCode};

use super::Shard;
use super::requests::{SessionRefusal, TOO_MANY};
use super::session::SessionKey;
use super::wire::Wire;
use crate::guard::{Limit, Ticket};
use crate::resolve::Refusal;

/// Sessions that are counted every turn.
const QUICK: usize = 256;
/// How often more of them are counted.
const CENSUS_MS: u64 = 1_000;

impl Shard {
    /// The answer to a request that is not looked at: 403 for a page of another origin, 429 for one too
    /// many. Without the headers of CORS a browser shows neither to the page.
    pub(super) fn turn_away(
        &mut self,
        io: &mut Io,
        conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> Option<Response> {
        let guard = &self.shared.guard;
        let origin = request.header("origin");
        if origin.is_some_and(|origin| !guard.origins.allow(origin)) {
            guard.note(Limit::Origin);
            return Some(Response::text(403, "this origin is not allowed here\n"));
        }
        let ticket = io.ticket(conn);
        guard.request(ticket, io.now_ms()).err()?;
        let response = Response::text(429, "too many requests, try again later\n");
        Some(response.with_header("Retry-After", "1"))
    }

    /// Whether a WebSocket sends more than it may; then it ends. Its SDK comes back, and meets the limit
    /// of new sessions if it does so all the time.
    pub(super) fn is_flooding(&mut self, io: &mut Io, conn: ConnId) -> bool {
        let ticket = io.ticket(conn);
        if self.shared.guard.request(ticket, io.now_ms()).is_ok() {
            return false;
        }
        let key = io
            .tag(conn)
            .filter(|tag| *tag != 0)
            .map(SessionKey::from_bits);
        match key.filter(|key| self.sessions.get_mut(*key).is_some()) {
            Some(key) => self.finish(io, key, SessionCode::EXPIRED, "too many requests", true),
            None => io.close(conn, None, true),
        }
        true
    }

    /// Counts a session that begins; the guard is told of its end by [`Self::remove_session`].
    pub(super) fn begin_counted(
        &mut self,
        wire: &mut impl Wire,
        conn: ConnId,
    ) -> Result<Ticket, SessionRefusal> {
        let ticket = wire.ticket(conn);
        match self.shared.guard.begin_session(ticket, wire.now_ms()) {
            Ok(()) => Ok(ticket),
            Err(_) => Err((SessionCode::RETRY_LATER, TOO_MANY.into())),
        }
    }

    /// A connection that comes from another shard is counted anew: there it has left.
    pub(super) fn enter_adopted(&mut self, io: &mut Io, conn: ConnId) {
        let peer = io.peer(conn);
        let ticket = peer.and_then(|peer| self.shared.guard.enter(peer.ip()).ok());
        io.set_ticket(conn, ticket.unwrap_or(0));
    }

    /// Counts sessions by transport: often where it is quick, once a second where they are many.
    pub(super) fn take_census(&mut self, now_ms: u64) {
        if self.sessions.len() <= QUICK || now_ms >= self.census_ms.saturating_add(CENSUS_MS) {
            self.census_ms = now_ms;
            self.counters.by_transport = self.sessions.by_transport();
        }
    }

    /// Whether there is room for a subscription to so many items, this shard's share of the limits.
    pub(super) fn may_subscribe(&self, items: usize) -> Result<(), Refusal> {
        let (limits, guard) = (&self.shared.limits, &self.shared.guard);
        let subscriptions = usize::try_from(self.counters.subscriptions).unwrap_or(usize::MAX);
        let (limit, text) = if subscriptions >= limits.subscriptions_per_shard {
            (
                Limit::Subscriptions,
                "too many subscriptions here, try again later",
            )
        } else if self.items.len().saturating_add(items) > limits.items_per_shard {
            (Limit::Items, "too many items here, try again later")
        } else {
            return Ok(());
        };
        guard.note(limit);
        Err(Refusal {
            code: ControlCode::TOO_MANY_SUBSCRIPTIONS,
            message: text.to_owned(),
        })
    }
}
