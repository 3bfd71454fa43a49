//! The sessions of a shard and what hangs on them.

use std::sync::Arc;

use slab::Slab;
use smallvec::SmallVec;
use weir_net::server::ConnId;
use weir_tlcp::server::Session;

use super::item::Place;
use super::schema::Schema;

/// Names a session of this shard; the serial tells a slot's users apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// One client's session.
#[derive(Debug)]
pub(super) struct SessionEntry {
    pub(super) core: Session<Subscribed>,
    /// The stream connection it is bound to.
    pub(super) conn: ConnId,
    serial: u32,
}

/// A subscription's hold on the item table.
#[derive(Debug)]
pub(super) struct Subscribed {
    /// The connection's number.
    pub(super) connection: u16,
    pub(super) schema: Arc<Schema>,
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

    pub(super) fn insert(&mut self, core: Session<Subscribed>, conn: ConnId) -> SessionKey {
        // Serial 0 is skipped: a connection tag of 0 means "no session".
        self.serial = self.serial.wrapping_add(1).max(1);
        let serial = self.serial;
        let index = self.entries.insert(SessionEntry { core, conn, serial }) as u32;
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
