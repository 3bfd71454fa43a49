//! The sessions of a shard and what hangs on them.

use std::sync::Arc;

use slab::Slab;
use smallvec::SmallVec;
use weir_net::server::ConnId;
use weir_net::websocket::DeflateWindow;
use weir_tlcp::Version;
use weir_tlcp::diff::DiffSettings;
use weir_tlcp::request::Diffs;
use weir_tlcp::server::{self, Session, SessionId, TokenBucket};

use super::delivery::DeliveryMode;
use super::frame::Framing;
use super::frequency::{FrequencyLimit, FrequencyScope, SendDelay};
use super::journal::SessionJournal;
use super::keys::{MemberSlot, SessionKey};
use super::queue::Queue;
use super::schema::FieldSchema;
use super::wire::Wire;

/// What a session may subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdapterSet {
    /// The Kafka connections.
    Served,
    /// The start item of the published load test's simulator.
    LoadTests,
    /// Nothing: it has ended, and the item table is still to forget it.
    Nothing,
}

/// One client's session.
#[derive(Debug)]
pub(super) struct SessionEntry {
    pub(super) core: Session<ItemSubscription>,
    /// The stream connection it is bound to, or was before it was unbound.
    pub(super) conn: ConnId,
    index: u32,
    serial: u32,
    /// Low bits of the instant of the timer that fires first; others of this session are void.
    armed_ms: u32,
    pub(super) binding: StreamBinding,
    /// Its WebSocket takes compressed messages that refer no farther back.
    pub(super) window: Option<DeflateWindow>,
    /// What was sent of late and what waits to be sent; absent if that is nothing.
    pub(super) journal: Option<Box<SessionJournal>>,
    /// What may be sent now, of a session with a limit.
    pub(super) bandwidth: Option<Box<TokenBucket>>,
    pub(super) adapter_set: AdapterSet,
    /// Diffs that its client accepts.
    pub(super) diffs: Diffs,
    /// What its client speaks.
    pub(super) version: Version,
    /// Bytes of a line that its client reads over its present stream.
    pub(super) line_max: u32,
}

/// How a session reaches its client.
#[derive(Debug)]
pub(super) enum StreamBinding {
    /// It streams on a WebSocket, as nearly all do.
    WebSocket,
    Other(Box<OtherBinding>),
}

/// The four ways that metrics tell apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Transport {
    WebSocketStream,
    HttpStream,
    WebSocketPoll,
    HttpPoll,
}

/// What is not streaming on a WebSocket.
#[derive(Debug)]
pub(super) enum OtherBinding {
    /// Not at all: the client has until this instant to bind it again.
    Unbound {
        until_ms: u64,
    },
    /// In the body of an HTTP answer.
    Http {
        /// Bytes that the body may still get.
        left: u64,
        /// It has got no data yet.
        fresh: bool,
    },
    Poll(Poll),
}

/// A poll that is waiting for data.
#[derive(Debug)]
pub(super) struct Poll {
    pub(super) framing: Framing,
    /// When it ends without data.
    pub(super) until_ms: u64,
    /// The pause until the next one.
    pub(super) interval_ms: u64,
    /// It has got data, so that it ends soon.
    pub(super) has_data: bool,
}

impl SessionEntry {
    fn has_ended(&self) -> bool {
        self.adapter_set == AdapterSet::Nothing
    }

    pub(super) fn key(&self) -> SessionKey {
        SessionKey {
            index: self.index,
            serial: self.serial,
        }
    }

    /// Whether this connection is its stream.
    pub(super) fn is_bound_to(&self, conn: ConnId) -> bool {
        self.conn == conn && self.is_bound()
    }

    pub(super) fn is_bound(&self) -> bool {
        self.framing().is_some()
    }

    /// How its stream frames lines, if it has one.
    pub(super) fn framing(&self) -> Option<Framing> {
        match &self.binding {
            StreamBinding::WebSocket => Some(Framing::WebSocket),
            StreamBinding::Other(other) => match &**other {
                OtherBinding::Unbound { .. } => None,
                OtherBinding::Http { .. } => Some(Framing::Chunk),
                OtherBinding::Poll(poll) => Some(poll.framing),
            },
        }
    }

    /// How it reaches its client, if it does.
    fn transport(&self) -> Option<Transport> {
        let StreamBinding::Other(other) = &self.binding else {
            return Some(Transport::WebSocketStream);
        };
        match &**other {
            OtherBinding::Unbound { .. } => None,
            OtherBinding::Http { .. } => Some(Transport::HttpStream),
            OtherBinding::Poll(poll) if poll.framing == Framing::WebSocket => {
                Some(Transport::WebSocketPoll)
            }
            OtherBinding::Poll(_) => Some(Transport::HttpPoll),
        }
    }

    /// Leaves it without a stream, for at most so long.
    pub(super) fn unbind(&mut self, wire: &mut impl Wire, wait_ms: u64) {
        let until_ms = wire.now_ms().saturating_add(wait_ms);
        self.binding = StreamBinding::Other(Box::new(OtherBinding::Unbound { until_ms }));
        self.arm(wire);
    }

    /// Goes back to a client that has got so many data notifications; see [`Journal::rewind`].
    pub(super) fn rewind(&mut self, received: u64) -> Option<u64> {
        match &mut self.journal {
            Some(journal) => journal.rewind(received),
            None => (received == self.core.data_count()).then_some(received),
        }
    }

    /// When something may be due.
    pub(super) fn next_wake_ms(&self) -> u64 {
        match &self.binding {
            StreamBinding::WebSocket => self.core.next_wake_ms(),
            StreamBinding::Other(other) => match &**other {
                OtherBinding::Unbound { until_ms } => *until_ms,
                OtherBinding::Http { .. } => self.core.next_wake_ms(),
                OtherBinding::Poll(poll) => poll.until_ms,
            },
        }
    }

    /// Sees to it that a timer fires when something may be due, or earlier.
    pub(super) fn arm(&mut self, wire: &mut impl Wire) {
        let mut at_ms = self.next_wake_ms();
        if at_ms as u32 == 0 {
            // 0 stands for none.
            at_ms += 1;
        }
        let earlier =
            self.armed_ms != 0 && (at_ms as u32).wrapping_sub(self.armed_ms) <= u32::MAX / 2;
        if !earlier {
            self.armed_ms = at_ms as u32;
            wire.set_timer(at_ms, self.key().to_bits());
        }
    }

    /// Whether a timer that fires now is the one that counts; it is used up then.
    pub(super) fn is_due(&mut self, now_ms: u64) -> bool {
        let due = self.armed_ms != 0 && (now_ms as u32).wrapping_sub(self.armed_ms) <= u32::MAX / 2;
        if due {
            self.armed_ms = 0;
        }
        due
    }
}

impl SessionEntry {
    /// Takes over what the session's core says about bandwidth.
    pub(super) fn limit_bandwidth(&mut self, now_ms: u64) {
        match (self.core.bandwidth_kbps(), &mut self.bandwidth) {
            (None, _) => self.bandwidth = None,
            (Some(kbps), Some(bucket)) => bucket.set_rate(kbps, now_ms),
            (Some(kbps), none) => *none = Some(Box::new(TokenBucket::new(kbps, now_ms))),
        }
    }

    /// Whether something must wait.
    pub(super) fn send_delay(
        &mut self,
        (sub_id, position): (u32, u32),
        scope: FrequencyScope<'_>,
        now_ms: u64,
    ) -> Option<SendDelay> {
        let bandwidth = self.bandwidth.as_mut();
        if let Some(until_ms) = bandwidth.and_then(|bucket| bucket.wait_until_ms(now_ms)) {
            return Some(SendDelay::Session(until_ms));
        }
        let frequency_limit = self
            .core
            .subscription(sub_id)?
            .handle
            .frequency_limit
            .as_ref()?;
        frequency_limit
            .wait_until_ms(position, scope, now_ms)
            .map(SendDelay::Item)
    }

    /// A queue for what waits for one item of a subscription; `None` where the newest is enough.
    pub(super) fn new_queue(&self, sub_id: u32, delivery: DeliveryMode) -> Option<Box<Queue>> {
        if delivery.conflates_to_latest() {
            return None;
        }
        let frequency_limit = self
            .core
            .subscription(sub_id)?
            .handle
            .frequency_limit
            .as_ref();
        let buffer = frequency_limit
            .map(|frequency_limit| frequency_limit.buffer)
            .filter(|buffer| *buffer > 0);
        Some(Box::new(Queue::new(delivery, buffer.unwrap_or(usize::MAX))))
    }

    /// Something was sent to a session that has limits.
    pub(super) fn note_sent(
        &mut self,
        (sub_id, position): (u32, u32),
        scope: FrequencyScope<'_>,
        bytes: usize,
        now_ms: u64,
    ) {
        if let Some(bucket) = &mut self.bandwidth {
            bucket.spend(bytes, now_ms);
        }
        let subscription = self.core.subscription_mut(sub_id);
        if let Some(frequency_limit) =
            subscription.and_then(|one| one.handle.frequency_limit.as_mut())
        {
            frequency_limit.note_sent(position, scope, now_ms);
        }
    }
}

/// A subscription's hold on the item table.
#[derive(Debug)]
pub(super) struct ItemSubscription {
    /// The connection's number.
    pub(super) connection: u16,
    pub(super) schema: Arc<FieldSchema>,
    pub(super) delivery: DeliveryMode,
    /// Which diffs its values are sent as.
    pub(super) diffs: Option<Arc<DiffSettings>>,
    /// Limits that the client has asked for.
    pub(super) frequency_limit: Option<Box<FrequencyLimit>>,
    /// One per item of the group, `None` for an item no template admits.
    pub(super) places: SmallVec<[Option<MemberSlot>; 1]>,
    /// Bytes that its client's address is charged for it.
    pub(super) charged: u32,
}

/// All sessions of a shard.
#[derive(Debug)]
pub(super) struct Sessions {
    entries: Slab<SessionEntry>,
    /// Entries of ended sessions.
    ended: usize,
    serial: u32,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            entries: Slab::new(),
            ended: 0,
            serial: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len() - self.ended
    }

    /// Takes in a session that is made for its place.
    pub(super) fn insert(
        &mut self,
        shard: u16,
        conn: ConnId,
        adapter_set: AdapterSet,
        make: impl FnOnce(server::SessionLocation) -> Session<ItemSubscription>,
    ) -> SessionKey {
        // Serial 0 is skipped: a connection tag of 0 means "no session".
        self.serial = self.serial.wrapping_add(1).max(1);
        let serial = self.serial;
        let slot = self.entries.vacant_entry();
        let index = slot.key() as u32;
        slot.insert(SessionEntry {
            core: make(server::SessionLocation { shard, slot: index }),
            conn,
            index,
            serial,
            armed_ms: 0,
            binding: StreamBinding::WebSocket,
            window: None,
            journal: None,
            bandwidth: None,
            adapter_set,
            diffs: Diffs::NONE,
            version: Version::NEWEST,
            line_max: u32::MAX,
        });
        SessionKey { index, serial }
    }

    /// The session with this id, if it is one of this shard.
    pub(super) fn find(&self, shard: u16, id: &str) -> Option<SessionKey> {
        let place = SessionId::location_of(id).filter(|place| place.shard == shard)?;
        let index = place.slot;
        let entry = self
            .entries
            .get(index as usize)
            .filter(|one| !one.has_ended())?;
        let serial = entry.serial;
        (entry.core.id().as_str() == id).then_some(SessionKey { index, serial })
    }

    pub(super) fn get_mut(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        self.any_mut(key).filter(|entry| !entry.has_ended())
    }

    /// As [`Self::get_mut`], also a session that has ended.
    pub(super) fn any_mut(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        self.entries
            .get_mut(key.index as usize)
            .filter(|entry| entry.serial == key.serial)
    }

    /// Ends a session: only [`Self::any_mut`] finds it from now on, until [`Self::forget`].
    pub(super) fn end(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        self.get_mut(key)?.adapter_set = AdapterSet::Nothing;
        self.ended += 1;
        self.any_mut(key)
    }

    /// Forgets a session that has ended.
    pub(super) fn forget(&mut self, key: SessionKey) {
        if self.any_mut(key).is_some_and(|entry| entry.has_ended()) {
            self.entries.remove(key.index as usize);
            self.ended -= 1;
        }
    }

    /// How many reach their clients in which way, in the order of [`Transport`].
    pub(super) fn by_transport(&self) -> [u64; 4] {
        let mut counts = [0; 4];
        for (_, entry) in &self.entries {
            if let Some(transport) = entry.transport().filter(|_| !entry.has_ended()) {
                counts[transport as usize] += 1;
            }
        }
        counts
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

#[cfg(test)]
mod tests {
    use super::*;
    use weir_tlcp::request::{Request, parse_ws_message};

    /// With its connection and its places in the item table a session must stay below 1 KiB. 16 bytes
    /// lead to the journal that recovery needs, and to timers without a key at hand; 24 to limits of
    /// bandwidth and frequency, 8 to settings for diffs, 8 to the longest line and the version.
    #[test]
    fn an_entry_is_small() {
        assert!(
            size_of::<SessionEntry>() <= 216,
            "{}",
            size_of::<SessionEntry>()
        );
        assert_eq!(size_of::<super::super::class::ClassMember>(), 12);
    }

    fn session(place: server::SessionLocation) -> Session<ItemSubscription> {
        let mut made = None;
        parse_ws_message("create_session\r\nLS_cid=x", &mut |request| {
            if let Ok(Request::CreateSession(create)) = request {
                let id = SessionId::new(place, &[1; 16]);
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
        made.expect("a good request")
    }

    #[test]
    fn a_session_is_found_by_its_id_and_woken_by_one_timer() {
        let mut sessions = Sessions::new();
        let conn = ConnId::from_parts(0, 1);
        let key = sessions.insert(7, conn, AdapterSet::Served, session);
        let id = sessions
            .get_mut(key)
            .expect("a session")
            .core
            .id()
            .as_str()
            .to_owned();
        assert_eq!(sessions.find(7, &id), Some(key));
        assert_eq!(sessions.find(6, &id), None);
        assert_eq!(sessions.find(7, &id.replace('S', "T")), None);
        let entry = sessions.get_mut(key).expect("it was just inserted");
        assert!(!entry.is_due(0), "none was set");
        for armed in [5_000, u64::from(u32::MAX), u64::from(u32::MAX) + 1_000] {
            entry.armed_ms = armed as u32;
            assert!(!entry.is_due(armed - 1) && !entry.is_due(armed - 4_000));
            assert!(entry.is_due(armed + 60_000) && !entry.is_due(armed + 60_000));
        }
    }
}
