//! Applies admission limits to requests and responds with the errors of HTTP and TLCP.

use weir_fanout::{ItemName, SchemaCache, SessionKey, TableSize};
use weir_net::http1::{HttpRequest, Response};
use weir_net::server::{ConnId, ServerIo};
use weir_tlcp::codes::{ControlCode, SessionCode};

use super::clients::Clients;
use super::state::Shard;
use crate::admission::{AdmissionLimit, SubscriptionUsage};
use crate::error::SubscriptionError;

impl Shard {
    /// Returns the response to a rejected request: 403 for a forbidden origin, 429 above the
    /// request rate. The responses have no CORS headers, so a browser does not show them to the
    /// page.
    pub(super) fn reject_request(
        &mut self,
        io: &mut ServerIo,
        conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> Option<Response> {
        let admission = &self.clients.shared.admission;
        let (origin, host) = (request.header("origin"), request.header("host"));
        if origin.is_some_and(|origin| !admission.origins.allow(origin, host)) {
            admission.note_origin(origin.unwrap_or_default());
            let text = "this origin is not allowed: add it to allowed_origins\n";
            return Some(Response::text(403, text));
        }
        let (admission_id, now_ms) = (io.admission_id(conn), io.now_ms());
        let body = request.body.strip_suffix(b"\r\n").unwrap_or(&request.body);
        let requests = 1 + admission.count_lines(body);
        admission.requests(admission_id, requests, now_ms).err()?;
        let response = Response::text(429, "too many requests, try again later\n");
        Some(response.with_header("Retry-After", "1"))
    }

    /// Counts requests or frames of a WebSocket. Returns `true` and ends the session if the rate
    /// limit is exceeded. The SDK reconnects, and the limit on new sessions applies if this happens
    /// often.
    pub(super) fn is_flooding(&mut self, io: &mut ServerIo, conn: ConnId, requests: u32) -> bool {
        let (admission_id, now_ms) = (io.admission_id(conn), io.now_ms());
        let admission = &self.clients.shared.admission;
        if admission.requests(admission_id, requests, now_ms).is_ok() {
            return false;
        }
        let entry = self.clients.sessions.tagged(io.tag(conn));
        let text = "too many requests";
        match entry.map(|entry| entry.key()) {
            Some(key) => (self.clients).end_session(io, key, SessionCode::EXPIRED, text, true),
            None => io.close(conn, None, true),
        }
        true
    }
}

impl Clients {
    /// Checks the limits on a subscription: of its session, of its address, and of the gateway.
    pub(super) fn check_subscription(
        &mut self,
        key: SessionKey,
        items: &[Option<ItemName>],
        schema: &str,
    ) -> Result<(), SubscriptionError> {
        let most = self.shared.limits.items_per_session;
        let Some(entry) = self.sessions.get_mut(key) else {
            return Ok(());
        };
        let admission_id = entry.admission_id;
        let subscriptions = entry.core.subscriptions().iter();
        let held: usize = subscriptions.map(|one| one.handle.slots.len()).sum();
        if most > 0 && held + items.len() > most {
            self.shared.admission.note(AdmissionLimit::SessionItems);
            let text = format!("more than {most} items in one session");
            return Err(over_limit(&text));
        }
        let names: usize = items.iter().flatten().map(|name| name.1.len()).sum();
        let size = TableSize {
            classes: items.len(),
            members: items.len(),
            name_bytes: names,
        };
        let wanted = SubscriptionUsage {
            subscriptions: 1,
            items: items.len(),
            bytes: SUBSCRIPTION_BYTES
                + self.table_bytes(items.len(), size)
                + SchemaCache::estimate(schema),
        };
        let admitted = self.shared.admission.may_hold(admission_id, wanted);
        admitted.map_err(|limit| over_limit(limit_text(limit)))
    }

    /// Reports the subscriptions and items of this shard to admission. Returns the increase in
    /// bytes.
    pub(super) fn count_held(&mut self) -> usize {
        let items = self.items.len();
        let subscriptions = usize::try_from(self.counters.subscriptions).unwrap_or(usize::MAX);
        let held = SubscriptionUsage {
            subscriptions,
            items,
            bytes: self.table_bytes(items, self.items.size)
                + subscriptions * SUBSCRIPTION_BYTES
                + self.schemas.bytes,
        };
        let before = std::mem::replace(&mut self.held, held);
        self.shared.admission.held.replace(before, held);
        held.bytes.saturating_sub(before.bytes)
    }

    pub(super) fn charge_subscription(&mut self, key: SessionKey, sub_id: u32) {
        let bytes = u32::try_from(self.count_held()).unwrap_or(u32::MAX);
        let Some(entry) = self.sessions.get_mut(key) else {
            return;
        };
        if entry.admission_id == 0 {
            return;
        }
        self.shared
            .admission
            .charge(entry.admission_id, bytes as usize);
        if let Some(subscription) = entry.core.subscription_mut(sub_id) {
            subscription.handle.charged = bytes;
        }
    }

    /// Returns an estimate of the memory of `items` items in this shard and in ingest.
    fn table_bytes(&self, items: usize, size: TableSize) -> usize {
        let connections = self.shared.connections.iter();
        let workers = connections.map(|one| one.workers.len()).max().unwrap_or(1);
        items * (ITEM_BYTES + workers * ROUTE_BYTES)
            + size.name_bytes
            + size.classes * CLASS_BYTES
            + size.members * MEMBER_BYTES
    }
}

pub(super) fn over_limit(text: &str) -> SubscriptionError {
    SubscriptionError {
        code: ControlCode::TOO_MANY_SUBSCRIPTIONS,
        message: text.to_owned(),
    }
}

fn limit_text(limit: AdmissionLimit) -> &'static str {
    match limit {
        AdmissionLimit::Memory => NO_MEMORY,
        AdmissionLimit::Subscriptions => "too many subscriptions, try again later",
        AdmissionLimit::AddressSubscriptionBytes => "too many subscriptions from this address",
        _ => "too many items, try again later",
    }
}

pub(super) const TOO_MANY: &str = "too many sessions, try again later";

pub(super) const NO_MEMORY: &str = "the gateway is short of memory, try again later";

/// Estimates of memory, above the measured values for items with one subscriber each, which take
/// 0.8 kB in total. They are for an item, its route in one ingest worker, a frame class, a member
/// with its place, and a subscription without its items.
const ITEM_BYTES: usize = 500;
const ROUTE_BYTES: usize = 600;
const CLASS_BYTES: usize = 150;
const MEMBER_BYTES: usize = 50;
const SUBSCRIPTION_BYTES: usize = 300;
