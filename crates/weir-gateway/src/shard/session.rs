//! Sessions of a shard, with their stream connections and subscriptions.

use std::sync::Arc;

use slab::Slab;
use weir_fanout::events::EventForm;
use weir_fanout::{AcceptedDiffs, ItemSubscription, SessionKey, SessionTable, Subscriber};
use weir_identity::UserIdentity;
use weir_net::server::ConnId;
use weir_net::websocket::DeflateWindow;
use weir_tlcp::Version;
use weir_tlcp::request::{Bandwidth, Diffs};
use weir_tlcp::server::{self, Session, SessionId, TokenBucket};

use super::frame::Framing;
use super::journal::SessionJournal;
use super::messages::SessionMessages;
use super::wire::{NO_CONNECTION, Wire};
use crate::admission::AdmissionId;
use weir_access::{Authenticator, SessionAccess};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdapterSet {
    Kafka,
    /// The start item of the published load test's simulator.
    StartItem,
}

#[derive(Debug)]
pub(super) struct SessionEntry {
    pub(super) core: Session<ItemSubscription>,
    /// Stream connection to which the session is bound, or was bound last.
    pub(super) conn: ConnId,
    index: u32,
    serial: u32,
    /// Low bits of the time of the earliest timer; other timers of this session are ignored.
    armed_ms: u32,
    /// Time of the event loop in seconds at which the session was created.
    pub(super) created_s: u32,
    /// `None`: a stream on a WebSocket, the most frequent case.
    pub(super) binding: Option<Box<StreamBinding>>,
    /// Window of compressed messages that the WebSocket accepts.
    pub(super) window: Option<DeflateWindow>,
    /// Sent frames stored for recovery, and unsent frames; absent if there are none.
    pub(super) journal: Option<Box<SessionJournal>>,
    pub(super) bandwidth: Option<Box<TokenBucket>>,
    /// Client messages; absent until the first one that a rule covers.
    pub(super) messages: Option<Box<SessionMessages>>,
    /// Identity and rights; `None` if clients are not identified.
    pub(super) access: Option<Box<SessionAccess>>,
    /// `None`: the session has ended, and its items are still to be released.
    pub(super) adapter_set: Option<AdapterSet>,
    /// Id by which admission counts the session; 0 if it does not.
    pub(super) admission_id: AdmissionId,
    pub(super) diffs: AcceptedDiffs,
    pub(super) version: Version,
    /// `true` once the client has recovered the session after a lost connection.
    pub(super) recovers: bool,
    /// Form of the events that the client gets; `None` for TLCP lines.
    pub(super) event_form: Option<EventForm>,
    /// Maximum line length in bytes that the client can read on its current stream connection.
    pub(super) line_max: u32,
}

/// How a session reaches its client, unless by a stream on a WebSocket.
#[derive(Debug)]
pub(super) enum StreamBinding {
    /// No connection. The client can bind the session until `until_ms`.
    Unbound {
        until_ms: u64,
        /// `true` if the last stream ended without `LOOP`.
        lost: bool,
    },
    /// Stream in the body of an HTTP response.
    Http {
        /// Bytes that may still be added to the body.
        bytes_left: u64,
        /// `true` until data is sent.
        fresh: bool,
    },
    Poll(SessionPoll),
}

#[derive(Debug)]
pub(super) struct SessionPoll {
    pub(super) framing: Framing,
    /// Time at which the poll ends without data.
    pub(super) until_ms: u64,
    /// Pause until the next poll in milliseconds.
    pub(super) interval_ms: u64,
    /// `true` if data was sent, so that the poll ends soon.
    pub(super) has_data: bool,
}

impl SessionEntry {
    fn has_ended(&self) -> bool {
        self.adapter_set.is_none()
    }

    pub(super) fn key(&self) -> SessionKey {
        SessionKey {
            index: self.index,
            serial: self.serial,
        }
    }

    pub(super) fn is_bound_to(&self, conn: ConnId) -> bool {
        self.conn == conn && self.is_bound()
    }

    pub(super) fn is_bound(&self) -> bool {
        self.framing().is_some()
    }

    pub(super) fn framing(&self) -> Option<Framing> {
        match self.binding.as_deref() {
            None => Some(Framing::WebSocket),
            Some(StreamBinding::Unbound { .. }) => None,
            Some(StreamBinding::Http { .. }) => Some(Framing::Chunk),
            Some(StreamBinding::Poll(poll)) => Some(poll.framing),
        }
    }

    /// Returns how the session reaches its client.
    pub(super) fn transport(&self) -> &'static str {
        match self.binding.as_deref() {
            Some(StreamBinding::Http { .. }) if self.event_form.is_some() => "sse",
            None if self.event_form.is_some() => "ws_json",
            None => "ws_streaming",
            Some(StreamBinding::Unbound { .. }) => "unbound",
            Some(StreamBinding::Http { .. }) => "http_streaming",
            Some(StreamBinding::Poll(poll)) => match poll.framing {
                Framing::WebSocket => "ws_polling",
                Framing::Chunk => "http_polling",
            },
        }
    }

    pub(super) fn poll(&self) -> Option<&SessionPoll> {
        match self.binding.as_deref() {
            Some(StreamBinding::Poll(poll)) => Some(poll),
            _ => None,
        }
    }

    pub(super) fn delay_poll(&mut self, until_ms: u64) {
        if let Some(StreamBinding::Poll(poll)) = self.binding.as_deref_mut() {
            poll.until_ms = poll.until_ms.max(until_ms);
        }
    }

    #[inline]
    pub(super) fn journal_mut(&mut self) -> &mut SessionJournal {
        let before = self.core.data_count();
        let new = || Box::new(SessionJournal::new(before));
        self.journal.get_or_insert_with(new)
    }

    pub(super) fn rewind(&mut self, received: u64) -> Option<u64> {
        match &mut self.journal {
            Some(journal) => journal.rewind(received),
            None => (received == self.core.data_count()).then_some(received),
        }
    }

    /// Prepares a bind request without `LS_recovery_from`, which assumes that all data of the last
    /// stream was received.
    ///
    /// A client that recovers sessions does not know of a stream that ended without `LOOP`: its
    /// request for that stream arrived after the client had given up the connection. So the data of
    /// that stream is sent again.
    pub(super) fn continue_after_last_stream(&mut self) {
        let looped = matches!(
            self.binding.as_deref(),
            Some(StreamBinding::Unbound { lost: false, .. })
        );
        if let (true, false, Some(journal)) = (self.recovers, looped, &mut self.journal) {
            journal.rewind_stream();
        }
    }

    /// Returns the identity of the client, if clients are identified.
    pub(super) fn identity(&self) -> Option<&Arc<UserIdentity>> {
        self.access.as_ref().map(|access| access.identity())
    }

    /// Returns the time at which the token or the allowed age of the session ends.
    pub(super) fn access_end_ms(&self) -> u64 {
        self.access
            .as_ref()
            .map_or(u64::MAX, |access| access.end_ms())
    }

    pub(super) fn next_wake_ms(&self) -> u64 {
        let stream_ms = match self.binding.as_deref() {
            None | Some(StreamBinding::Http { .. }) => self.core.next_wake_ms(),
            Some(StreamBinding::Unbound { until_ms, .. }) => *until_ms,
            Some(StreamBinding::Poll(poll)) => poll.until_ms,
        };
        let messages = self.messages.as_ref();
        let missing_ms = messages.and_then(|messages| messages.next_timeout_ms());
        let wake_ms = missing_ms.map_or(stream_ms, |at_ms| at_ms.min(stream_ms));
        wake_ms.min(self.access_end_ms())
    }

    /// Sets a timer for [`Self::next_wake_ms`], unless an earlier one is set.
    pub(super) fn arm(&mut self, wire: &mut impl Wire) {
        let mut at_ms = self.next_wake_ms();
        if at_ms as u32 == 0 {
            // 0 stands for no timer.
            at_ms += 1;
        }
        let earlier =
            self.armed_ms != 0 && (at_ms as u32).wrapping_sub(self.armed_ms) <= u32::MAX / 2;
        if !earlier {
            self.armed_ms = at_ms as u32;
            wire.set_timer(at_ms, self.key().to_bits());
        }
    }

    /// Returns `true` if the timer that fires now is the current one, and clears it.
    pub(super) fn is_due(&mut self, now_ms: u64) -> bool {
        let due = self.armed_ms != 0 && (now_ms as u32).wrapping_sub(self.armed_ms) <= u32::MAX / 2;
        if due {
            self.armed_ms = 0;
        }
        due
    }

    /// Lowers the bandwidth to the part of its user or tenant that the session has now.
    pub(super) fn lower_bandwidth(&mut self, auth: &Authenticator, now_ms: u64) {
        let share = self
            .access
            .as_ref()
            .and_then(|access| auth.shared_bandwidth(access));
        let current = self.core.bandwidth_kbps();
        if share.is_some_and(|share| current.is_none_or(|current| share < current)) {
            self.core.set_bandwidth(share.map(Bandwidth::Kbps));
            self.limit_bandwidth(now_ms);
        }
    }

    pub(super) fn limit_bandwidth(&mut self, now_ms: u64) {
        match (self.core.bandwidth_kbps(), &mut self.bandwidth) {
            (None, _) => self.bandwidth = None,
            (Some(kbps), Some(bucket)) => bucket.set_rate(kbps, now_ms),
            (Some(kbps), none) => *none = Some(Box::new(TokenBucket::new(kbps, now_ms))),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Sessions {
    /// Number of the shard.
    pub(super) shard: u16,
    entries: Slab<SessionEntry>,
    /// Number of entries of ended sessions.
    ended: usize,
    serial: u32,
    /// Result and time of the last count; see [`Self::by_transport`].
    by_transport: [u64; 6],
    transport_count_ms: u64,
}

/// Number of sessions up to which transports are counted in every iteration.
const ALWAYS_COUNTED_MAX: usize = 256;
const TRANSPORT_COUNT_INTERVAL_MS: u64 = 1_000;

impl Sessions {
    pub(super) fn of(shard: u16) -> Self {
        Self {
            shard,
            ..Self::default()
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.ended
    }

    /// Returns the number of slots, used or not.
    pub(super) fn slots(&self) -> u32 {
        self.entries.capacity() as u32
    }

    /// Returns the session in a slot.
    pub(super) fn at(&self, slot: u32) -> Option<&SessionEntry> {
        let entry = self.entries.get(slot as usize);
        entry.filter(|entry| !entry.has_ended())
    }

    /// Adds a session; `make` creates it for its location.
    pub(super) fn insert(
        &mut self,
        adapter_set: AdapterSet,
        make: impl FnOnce(server::SessionLocation) -> Session<ItemSubscription>,
    ) -> SessionKey {
        // Serial 0 is skipped: connection tag 0 means "no session".
        self.serial = self.serial.wrapping_add(1).max(1);
        let serial = self.serial;
        let slot = self.entries.vacant_entry();
        let index = slot.key() as u32;
        slot.insert(SessionEntry {
            core: make(server::SessionLocation {
                shard: self.shard,
                slot: index,
            }),
            conn: NO_CONNECTION,
            index,
            serial,
            armed_ms: 0,
            created_s: 0,
            binding: None,
            window: None,
            journal: None,
            bandwidth: None,
            messages: None,
            access: None,
            adapter_set: Some(adapter_set),
            admission_id: 0,
            diffs: Diffs::NONE.into(),
            version: Version::NEWEST,
            recovers: false,
            event_form: None,
            line_max: u32::MAX,
        });
        SessionKey { index, serial }
    }

    pub(super) fn find(&self, id: &str) -> Option<SessionKey> {
        let location = SessionId::location_of(id);
        let index = location
            .filter(|location| location.shard == self.shard)?
            .slot;
        let entry = self.entries.get(index as usize);
        let entry = entry.filter(|one| !one.has_ended())?;
        let serial = entry.serial;
        (entry.core.id().as_str() == id).then_some(SessionKey { index, serial })
    }

    #[inline]
    pub(super) fn get_mut(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        self.any_mut(key).filter(|entry| !entry.has_ended())
    }

    /// Returns the subscription of a session that may have ended.
    pub(super) fn subscription_mut(
        &mut self,
        key: SessionKey,
        sub_id: u32,
    ) -> Option<&mut ItemSubscription> {
        let subscription = self.any_mut(key)?.core.subscription_mut(sub_id)?;
        Some(&mut subscription.handle)
    }

    /// As [`Self::get_mut`], including ended sessions.
    #[inline]
    pub(super) fn any_mut(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        let entry = self.entries.get_mut(key.index as usize);
        entry.filter(|entry| entry.serial == key.serial)
    }

    pub(super) fn tagged(&mut self, tag: Option<u64>) -> Option<&mut SessionEntry> {
        self.get_mut(SessionKey::from_bits(tag.filter(|tag| *tag != 0)?))
    }

    /// Returns the session whose stream connection is `conn`, which has this tag.
    pub(super) fn bound_to(&mut self, conn: ConnId, tag: Option<u64>) -> Option<SessionKey> {
        let entry = self.tagged(tag)?;
        entry.is_bound_to(conn).then(|| entry.key())
    }

    /// Ends a session. From now on only [`Self::any_mut`] finds it, until [`Self::forget`].
    pub(super) fn end(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        self.get_mut(key)?.adapter_set = None;
        self.ended += 1;
        self.any_mut(key)
    }

    pub(super) fn forget(&mut self, key: SessionKey) {
        if self.any_mut(key).is_some_and(|entry| entry.has_ended()) {
            self.entries.remove(key.index as usize);
            self.ended -= 1;
        }
    }

    /// Returns the number of bound sessions by transport: WebSocket and HTTP streams, WebSocket and
    /// HTTP polls, server-sent events, JSON over WebSocket. Many sessions are counted once per
    /// interval only.
    pub(super) fn by_transport(&mut self, now_ms: u64) -> [u64; 6] {
        let next_ms = self.transport_count_ms + TRANSPORT_COUNT_INTERVAL_MS;
        if self.len() <= ALWAYS_COUNTED_MAX || now_ms >= next_ms {
            self.transport_count_ms = now_ms;
            self.by_transport = [0; 6];
            for (_, entry) in self.entries.iter().filter(|(_, entry)| !entry.has_ended()) {
                if let Some(framing) = entry.framing() {
                    let is_poll = entry.poll().is_some();
                    let index = match entry.event_form {
                        None => usize::from(framing == Framing::Chunk) + 2 * usize::from(is_poll),
                        Some(EventForm::ServerSent) => 4,
                        Some(EventForm::Json) => 5,
                    };
                    self.by_transport[index] += 1;
                }
            }
        }
        self.by_transport
    }

    pub(super) fn keys(&self) -> Vec<SessionKey> {
        let key = |(index, entry): (usize, &SessionEntry)| SessionKey {
            index: index as u32,
            serial: entry.serial,
        };
        let live = self.entries.iter().filter(|(_, entry)| !entry.has_ended());
        live.map(key).collect()
    }
}

impl SessionTable<SessionEntry> for Sessions {
    #[inline]
    fn get_mut(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        self.get_mut(key)
    }
}

impl Subscriber for SessionEntry {
    fn line_max(&self) -> u32 {
        self.line_max
    }

    fn bandwidth_mut(&mut self) -> Option<&mut TokenBucket> {
        self.bandwidth.as_deref_mut()
    }

    fn subscription(&self, sub_id: u32) -> Option<&ItemSubscription> {
        Some(&self.core.subscription(sub_id)?.handle)
    }

    fn subscription_mut(&mut self, sub_id: u32) -> Option<&mut ItemSubscription> {
        Some(&mut self.core.subscription_mut(sub_id)?.handle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_tlcp::request::{Request, parse_ws_message};

    /// With its connection and its places in the item table, a session must stay below 1 KiB. Of
    /// the entry, 16 bytes are for the journal and timers, 24 for bandwidth and frequency limits, 8
    /// for diffs, 8 for the line limit and the version, 8 for client messages, 8 for the time of
    /// creation, and 8 for identity and rights.
    #[test]
    fn session_entry_stays_small() {
        assert!(
            size_of::<SessionEntry>() <= 240,
            "{}",
            size_of::<SessionEntry>()
        );
    }

    fn session(location: server::SessionLocation) -> Session<ItemSubscription> {
        let mut made = None;
        parse_ws_message("create_session\r\nLS_cid=x", &mut |request| {
            if let Ok(Request::CreateSession(create)) = request {
                let id = SessionId::new(location, &[1; 16]);
                let config = Default::default();
                made = Some(Session::create(
                    id,
                    &create,
                    &config,
                    "",
                    0,
                    &mut Vec::new(),
                ));
            }
        });
        made.expect("valid request")
    }

    #[test]
    fn session_has_unique_id_and_one_timer() {
        let mut sessions = Sessions::of(7);
        let key = sessions.insert(AdapterSet::Kafka, session);
        let id = sessions
            .get_mut(key)
            .expect("session exists")
            .core
            .id()
            .as_str()
            .to_owned();
        assert_eq!(sessions.find(&id), Some(key));
        assert_eq!(sessions.find(&id.replace('S', "T")), None);
        sessions.shard = 6;
        assert_eq!(sessions.find(&id), None);
        sessions.shard = 7;
        let entry = sessions.get_mut(key).expect("session exists");
        assert!(!entry.is_due(0), "no timer was set");
        for armed in [5_000, u64::from(u32::MAX), u64::from(u32::MAX) + 1_000] {
            entry.armed_ms = armed as u32;
            assert!(!entry.is_due(armed - 1) && !entry.is_due(armed - 4_000));
            assert!(entry.is_due(armed + 60_000) && !entry.is_due(armed + 60_000));
        }
    }
}
