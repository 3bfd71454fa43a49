//! Limits that prevent a few clients from using all resources: allowed origins, and numbers and
//! rates per address and in total. They are checked on connections and requests, never on updates.

mod addresses;
mod limit;
mod origin;
mod subscription_usage;

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use self::addresses::{AddressEntry, AddressTable};
pub use self::limit::PerAddress;
pub(crate) use self::limit::{AdmissionId, AdmissionLimit};
pub(crate) use self::origin::{AdminPages, Origins};
pub(crate) use self::subscription_usage::SubscriptionUsage;
use self::subscription_usage::TotalSubscriptionUsage;
use crate::limits::GatewayLimits;
use crate::overload::Overload;
use weir_access::RateBucket;
use weir_net::lock;

#[derive(Debug)]
pub(crate) struct Admission {
    pub(crate) origins: Origins,
    per_address: PerAddress,
    /// `None` if addresses have no limits.
    addresses: Option<Mutex<AddressTable>>,
    session_rate: Option<Mutex<RateBucket>>,
    sessions_per_second: f32,
    request_rate: Option<Mutex<RateBucket>>,
    requests_per_second: f32,
    pub(crate) held: TotalSubscriptionUsage,
    pub(crate) overload: Overload,
    last_origin: Mutex<Option<String>>,
    hits: [AtomicU64; AdmissionLimit::ALL.len()],
}

impl Admission {
    /// Creates the state for `limits`; `connections` is the maximum number of connections.
    pub(crate) fn new(limits: &GatewayLimits, origins: Origins, connections: usize) -> Self {
        let per_address = limits.per_address;
        // The table has the addresses in use and a number of idle ones, remembered for their rate.
        let capacity = connections + limits.sessions + IDLE_ADDRESSES_MAX;
        let table = || Mutex::new(AddressTable::new(capacity));
        let bucket = |rate: f32| (rate > 0.0).then(|| Mutex::new(RateBucket::full(rate, 0)));
        Self {
            origins,
            per_address,
            addresses: (!per_address.is_unlimited()).then(table),
            session_rate: bucket(limits.sessions_per_second),
            sessions_per_second: limits.sessions_per_second,
            request_rate: bucket(limits.requests_per_second),
            requests_per_second: limits.requests_per_second,
            held: TotalSubscriptionUsage::new(limits),
            overload: Overload::default(),
            last_origin: Mutex::new(None),
            hits: [const { AtomicU64::new(0) }; AdmissionLimit::ALL.len()],
        }
    }

    pub(crate) fn hits(&self, limit: AdmissionLimit) -> u64 {
        self.hits[limit as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, limit: AdmissionLimit) -> AdmissionLimit {
        self.hits[limit as usize].fetch_add(1, Ordering::Relaxed);
        limit
    }

    /// Counts a request of a rejected origin, and stores the origin for the log.
    pub(crate) fn note_origin(&self, origin: &str) {
        self.note(AdmissionLimit::Origin);
        let mut last = lock(&self.last_origin);
        if last.is_none() {
            *last = Some(origin.chars().take(ORIGIN_CHARS_MAX).collect());
        }
    }

    /// Removes and returns the first origin rejected since the previous call.
    pub(crate) fn take_origin(&self) -> Option<String> {
        lock(&self.last_origin).take()
    }

    fn has_request_rate(&self) -> bool {
        self.request_rate.is_some() || self.per_address.requests_per_second > 0.0
    }

    /// Returns the number of line ends, each of which may start one more request; 0 if there is no
    /// limit on requests.
    pub(crate) fn count_lines(&self, text: &[u8]) -> u32 {
        match self.has_request_rate() {
            true => text.iter().filter(|byte| **byte == b'\n').count() as u32,
            false => 0,
        }
    }

    /// Registers a connection; [`Self::leave`] must follow when it is closed.
    pub(crate) fn enter(&self, address: IpAddr) -> Result<AdmissionId, AdmissionLimit> {
        let Some(addresses) = &self.addresses else {
            return Ok(0);
        };
        let most = self.per_address.connections;
        let entered = lock(addresses).enter(address, most);
        entered.ok_or_else(|| self.note(AdmissionLimit::AddressConnections))
    }

    pub(crate) fn leave(&self, id: AdmissionId) {
        self.update(id, |it| it.connections = it.connections.saturating_sub(1));
    }

    /// Registers a session; [`Self::end_session`] must follow when it ends.
    pub(crate) fn begin_session(&self, id: AdmissionId, now_ms: u64) -> Result<(), AdmissionLimit> {
        if let Some(mut addresses) = self.addresses_with(id) {
            let begun = addresses.begin_session(id, &self.per_address, now_ms);
            begun.map_err(|limit| self.note(limit))?;
        }
        let allowed = take(self.session_rate.as_ref(), self.sessions_per_second, now_ms);
        if !allowed {
            self.end_session(id);
            return Err(self.note(AdmissionLimit::SessionRate));
        }
        Ok(())
    }

    pub(crate) fn end_session(&self, id: AdmissionId) {
        self.update(id, |it| it.sessions = it.sessions.saturating_sub(1));
    }

    pub(crate) fn may_hold(
        &self,
        id: AdmissionId,
        wanted: SubscriptionUsage,
    ) -> Result<(), AdmissionLimit> {
        if self.overload.is_on() {
            return Err(self.note(AdmissionLimit::Memory));
        }
        let total = self.held.may_add(wanted);
        total.map_err(|limit| self.note(limit))?;
        let most = self.per_address.subscription_bytes;
        if let Some(mut addresses) = self.addresses_with(id).filter(|_| most > 0) {
            if addresses.charged(id).saturating_add(wanted.bytes) > most {
                return Err(self.note(AdmissionLimit::AddressSubscriptionBytes));
            }
        }
        Ok(())
    }

    /// Charges an address for a subscription; [`Self::refund`] must follow when it ends.
    pub(crate) fn charge(&self, id: AdmissionId, bytes: usize) {
        self.update(id, |it| it.charged = it.charged.saturating_add(bytes));
    }

    /// Refunds an ended subscription of an address.
    pub(crate) fn refund(&self, id: AdmissionId, bytes: usize) {
        self.update(id, |it| it.charged = it.charged.saturating_sub(bytes));
    }

    fn update(&self, id: AdmissionId, change: impl FnOnce(&mut AddressEntry)) {
        if let Some(mut addresses) = self.addresses_with(id) {
            addresses.update(id, change);
        }
    }

    fn addresses_with(&self, id: AdmissionId) -> Option<MutexGuard<'_, AddressTable>> {
        self.addresses.as_ref().filter(|_| id != 0).map(lock)
    }

    /// Counts `count` requests of one peer at once.
    pub(crate) fn requests(
        &self,
        id: AdmissionId,
        count: u32,
        now_ms: u64,
    ) -> Result<(), AdmissionLimit> {
        if !self.has_request_rate() {
            return Ok(());
        }
        (0..count).try_for_each(|_| self.request(id, now_ms))
    }

    pub(crate) fn request(&self, id: AdmissionId, now_ms: u64) -> Result<(), AdmissionLimit> {
        let rate = self.per_address.requests_per_second;
        if rate > 0.0 {
            if let Some(mut addresses) = self.addresses_with(id) {
                if !addresses.request(id, rate, now_ms) {
                    return Err(self.note(AdmissionLimit::AddressRequestRate));
                }
            }
        }
        match take(self.request_rate.as_ref(), self.requests_per_second, now_ms) {
            true => Ok(()),
            false => Err(self.note(AdmissionLimit::RequestRate)),
        }
    }
}

/// Number of idle addresses that are remembered, so that a reconnect does not reset the rate.
const IDLE_ADDRESSES_MAX: usize = 16_384;

const ORIGIN_CHARS_MAX: usize = 100;

fn take(bucket: Option<&Mutex<RateBucket>>, rate: f32, now_ms: u64) -> bool {
    bucket.is_none_or(|bucket| lock(bucket).take(rate, now_ms))
}

#[cfg(test)]
mod tests;
