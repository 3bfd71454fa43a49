//! Connections, sessions and rates of each client address, in a table of bounded size.

use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use slab::Slab;

use super::limit::{AdmissionId, AdmissionLimit, PerAddress};
use weir_access::RateBucket;

/// An IPv4 address, or the first 64 bits of an IPv6 address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum AddressKey {
    V4(u32),
    V6(u64),
}

impl From<IpAddr> for AddressKey {
    fn from(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::V4(address.to_bits()),
            IpAddr::V6(address) => Self::V6((address.to_bits() >> 64) as u64),
        }
    }
}

#[derive(Debug)]
pub(super) struct AddressEntry {
    key: AddressKey,
    pub(super) connections: u32,
    pub(super) sessions: u32,
    /// Bytes charged for subscriptions.
    pub(super) charged: usize,
    /// `None` until the first session.
    session_rate: Option<RateBucket>,
    request_rate: Option<RateBucket>,
    idle: bool,
}

impl AddressEntry {
    fn is_in_use(&self) -> bool {
        self.connections > 0 || self.sessions > 0
    }
}

#[derive(Debug)]
pub(super) struct AddressTable {
    capacity: usize,
    by_key: HashMap<AddressKey, AdmissionId>,
    entries: Slab<AddressEntry>,
    /// Addresses that became idle, oldest first. They may be in use again.
    idle: VecDeque<AdmissionId>,
}

impl AddressTable {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            by_key: HashMap::new(),
            entries: Slab::new(),
            idle: VecDeque::new(),
        }
    }

    /// Counts a connection. Returns `None` if the address has `connections_max` already (0: no
    /// limit).
    pub(super) fn enter(&mut self, address: IpAddr, connections_max: u32) -> Option<AdmissionId> {
        let key = AddressKey::from(address);
        let id = match self.by_key.get(&key) {
            Some(id) => *id,
            None => self.insert(key),
        };
        let entry = self.entry(id)?;
        if connections_max > 0 && entry.connections >= connections_max {
            return None;
        }
        entry.connections += 1;
        Some(id)
    }

    /// Changes an entry. Without connections and sessions it becomes idle.
    pub(super) fn update(&mut self, id: AdmissionId, change: impl FnOnce(&mut AddressEntry)) {
        let Some(entry) = self.entry(id) else { return };
        change(entry);
        if !entry.is_in_use() && !entry.idle {
            entry.idle = true;
            self.idle.push_back(id);
        }
    }

    /// Counts a session, or returns the limit that rejects it.
    pub(super) fn begin_session(
        &mut self,
        id: AdmissionId,
        limits: &PerAddress,
        now_ms: u64,
    ) -> Result<(), AdmissionLimit> {
        let Some(entry) = self.entry(id) else {
            return Ok(());
        };
        if limits.sessions > 0 && entry.sessions >= limits.sessions {
            return Err(AdmissionLimit::AddressSessions);
        }
        let rate = limits.sessions_per_second;
        if rate > 0.0 && !take(&mut entry.session_rate, rate, now_ms) {
            return Err(AdmissionLimit::AddressSessionRate);
        }
        entry.sessions += 1;
        Ok(())
    }

    /// Returns the bytes charged for subscriptions of an address.
    pub(super) fn charged(&mut self, id: AdmissionId) -> usize {
        self.entry(id).map_or(0, |entry| entry.charged)
    }

    /// Counts a request. Returns `false` if the address exceeds `rate` requests per second.
    pub(super) fn request(&mut self, id: AdmissionId, rate: f32, now_ms: u64) -> bool {
        let entry = self.entry(id);
        entry.is_none_or(|entry| take(&mut entry.request_rate, rate, now_ms))
    }

    /// Returns the number of entries in the table.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    fn entry(&mut self, id: AdmissionId) -> Option<&mut AddressEntry> {
        // Id 0 means no address.
        self.entries.get_mut((id as usize).checked_sub(1)?)
    }

    fn insert(&mut self, key: AddressKey) -> AdmissionId {
        while self.entries.len() >= self.capacity && self.evict_one() {}
        let entry = AddressEntry {
            key,
            connections: 0,
            sessions: 0,
            charged: 0,
            session_rate: None,
            request_rate: None,
            idle: false,
        };
        let id = self.entries.insert(entry) as u32 + 1;
        self.by_key.insert(key, id);
        id
    }

    /// Removes one entry from the idle list. Returns `false` if the list is empty.
    fn evict_one(&mut self) -> bool {
        let Some(id) = self.idle.pop_front() else {
            return false;
        };
        if let Some(entry) = self.entry(id) {
            entry.idle = false;
            if !entry.is_in_use() {
                let key = entry.key;
                self.by_key.remove(&key);
                self.entries.remove(id as usize - 1);
            }
        }
        true
    }
}

/// Takes one token from a bucket, which is full at its first use.
fn take(bucket: &mut Option<RateBucket>, rate: f32, now_ms: u64) -> bool {
    let bucket = bucket.get_or_insert_with(|| RateBucket::full(rate, now_ms));
    bucket.take(rate, now_ms)
}
