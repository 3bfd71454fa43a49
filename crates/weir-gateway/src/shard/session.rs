//! The sessions of a shard and what hangs on them.

use std::sync::Arc;

use bytes::Bytes;
use slab::Slab;
use smallvec::SmallVec;
use weir_net::server::ConnId;
use weir_tlcp::server::Session;

use super::item::{Delivery, Place};
use super::schema::Schema;
use super::wire::Wire;

/// Names a session of this shard; the serial tells a slot's users apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SessionKey {
    pub(super) index: u32,
    pub(super) serial: u32,
}

impl SessionKey {
    /// As a number that is never 0, for connection tags and timers.
    pub(super) fn to_bits(self) -> u64 {
        u64::from(self.serial) << 32 | u64::from(self.index)
    }

    pub(super) fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            serial: (bits >> 32) as u32,
        }
    }
}

/// What a session may subscribe to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdapterSet {
    /// The Kafka connections.
    Served,
    /// The start item of the published load test's simulator.
    LoadTests,
}

/// One client's session.
#[derive(Debug)]
pub(super) struct SessionEntry {
    pub(super) core: Session<Subscribed>,
    /// The stream connection it is bound to, or was before it was unbound.
    pub(super) conn: ConnId,
    serial: u32,
    /// Low bits of the instant of the timer that counts; others of this session are void.
    armed_ms: u32,
    pub(super) unbound: Option<Box<Unbound>>,
    pub(super) set: AdapterSet,
}

/// A session between two streams: what is sent to it waits here.
#[derive(Debug)]
pub(super) struct Unbound {
    pub(super) frames: Vec<Bytes>,
    bytes: usize,
    pub(super) until_ms: u64,
}

impl Unbound {
    pub(super) fn until(until_ms: u64) -> Self {
        Self {
            frames: Vec::new(),
            bytes: 0,
            until_ms,
        }
    }

    /// Keeps a frame if it fits.
    pub(super) fn hold(&mut self, frame: Bytes, bytes_max: usize) -> bool {
        let fits = self.frames.is_empty() || self.bytes + frame.len() <= bytes_max;
        if fits {
            self.bytes += frame.len();
            self.frames.push(frame);
        }
        fits
    }
}

impl SessionEntry {
    /// Whether this connection is its stream.
    pub(super) fn is_bound_to(&self, conn: ConnId) -> bool {
        self.conn == conn && self.unbound.is_none()
    }

    /// Sets the one timer of the session.
    pub(super) fn arm(&mut self, wire: &mut impl Wire, at_ms: u64, key: SessionKey) {
        self.armed_ms = at_ms as u32;
        wire.set_timer(at_ms, key.to_bits());
    }

    /// Whether a timer that fires now is one that has been replaced by a later one.
    pub(super) fn is_stale(&self, now_ms: u64) -> bool {
        (now_ms as u32).wrapping_sub(self.armed_ms) > u32::MAX / 2
    }
}

/// A subscription's hold on the item table.
#[derive(Debug)]
pub(super) struct Subscribed {
    /// The connection's number.
    pub(super) connection: u16,
    pub(super) schema: Arc<Schema>,
    pub(super) delivery: Delivery,
    /// One per item of the group, `None` for an item no template admits.
    pub(super) places: SmallVec<[Option<Place>; 1]>,
}

/// All sessions of a shard.
#[derive(Debug)]
pub(super) struct Sessions {
    entries: Slab<SessionEntry>,
    serial: u32,
}

impl Sessions {
    pub(super) fn new() -> Self {
        Self {
            entries: Slab::new(),
            serial: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn insert(
        &mut self,
        core: Session<Subscribed>,
        conn: ConnId,
        set: AdapterSet,
    ) -> SessionKey {
        // Serial 0 is skipped: a connection tag of 0 means "no session".
        self.serial = self.serial.wrapping_add(1).max(1);
        let serial = self.serial;
        let entry = SessionEntry {
            core,
            conn,
            serial,
            armed_ms: 0,
            unbound: None,
            set,
        };
        let index = self.entries.insert(entry) as u32;
        SessionKey { index, serial }
    }

    pub(super) fn get_mut(&mut self, key: SessionKey) -> Option<&mut SessionEntry> {
        self.entries
            .get_mut(key.index as usize)
            .filter(|entry| entry.serial == key.serial)
    }

    pub(super) fn remove(&mut self, key: SessionKey) -> Option<SessionEntry> {
        self.get_mut(key)?;
        Some(self.entries.remove(key.index as usize))
    }

    pub(super) fn keys(&self) -> Vec<SessionKey> {
        let key = |(index, entry): (usize, &SessionEntry)| SessionKey {
            index: index as u32,
            serial: entry.serial,
        };
        self.entries.iter().map(key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With its connection and its places in the item table a session must stay below 1 KiB.
    #[test]
    fn an_entry_is_small() {
        assert!(
            size_of::<SessionEntry>() <= 168,
            "{}",
            size_of::<SessionEntry>()
        );
        assert_eq!(size_of::<super::super::item::Member>(), 12);
    }

    #[test]
    fn only_the_timer_that_was_set_last_counts() {
        let core = {
            let id = weir_tlcp::server::SessionId::from_random(&[1; 16]);
            let stream = weir_tlcp::request::StreamOptions {
                polling: None,
                content_length: None,
                keepalive_ms: None,
                inactivity_ms: None,
                send_sync: false,
                reduce_head: true,
            };
            Session::bind(id, &stream, &Default::default(), "", 0, &mut Vec::new())
        };
        let mut sessions = Sessions::new();
        let key = sessions.insert(core, ConnId::from_parts(0, 1), AdapterSet::Served);
        let entry = sessions.get_mut(key).expect("it was just inserted");
        for armed in [5_000, u64::from(u32::MAX), u64::from(u32::MAX) + 1_000] {
            entry.armed_ms = armed as u32;
            assert!(entry.is_stale(armed - 1) && entry.is_stale(armed - 4_000));
            assert!(!entry.is_stale(armed) && !entry.is_stale(armed + 60_000));
        }
    }
}
