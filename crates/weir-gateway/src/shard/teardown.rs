//! Spreads work on many items over iterations, so that no iteration of the event loop takes long.
//!
//! This applies to the release of items of ended sessions and to requests from other shards.

use std::sync::Arc;

use weir_net::server::ServerIo;

use super::Shard;
use super::class::ClassKey;
use super::keys::SessionKey;

/// Maximum number of items that one iteration joins or releases; about 2 ms.
pub(super) const ITEMS_PER_ITERATION: usize = 1_000;
/// Characters of an item group that take as long to resolve as one item takes to join.
pub(super) const TEXT_PER_ITEM: usize = 32;
/// Input bytes that are charged for one item joined or released.
const ITEM_CHARGE: usize = 512;

/// Interval between removals of unused field schemas.
const SWEEP_INTERVAL_MS: u64 = 1_000;

impl Shard {
    /// Releases items of ended sessions, up to the limit of this iteration.
    pub(super) fn tear_down(&mut self) {
        while self.item_work < ITEMS_PER_ITERATION {
            let Some(key) = self.ended_sessions.front().copied() else {
                break;
            };
            if !self.release_one(key) {
                self.ended_sessions.pop_front();
                self.sessions.forget(key);
            }
        }
        self.count_held();
    }

    /// Releases one item, or an empty subscription, of an ended session. Returns `false` if nothing
    /// is left.
    fn release_one(&mut self, key: SessionKey) -> bool {
        let Some(entry) = self.sessions.any_mut(key) else {
            return false;
        };
        let Some(subscription) = entry.core.subscriptions_mut().next() else {
            return false;
        };
        let (sub_id, subscribed) = (subscription.sub_id, &mut subscription.handle);
        let position = subscribed.places.len() as u32;
        let Some(place) = subscribed.places.pop() else {
            entry.core.remove_subscription(sub_id);
            self.counters.subscriptions -= 1;
            self.item_work += 1;
            return true;
        };
        let (schema, diffs) = (Arc::clone(&subscribed.schema), subscribed.diffs.clone());
        let class = ClassKey {
            schema: &schema,
            sub_id,
            position,
            delivery: subscribed.delivery,
            diffs: diffs.as_ref(),
        };
        if let Some(place) = place {
            self.release_item(place, class);
        }
        true
    }

    /// Charges the input budget of a peer for the items that its input has joined and released.
    pub(super) fn charge_work(&mut self, io: &mut ServerIo) {
        io.charge_input((self.item_work - self.charged_work) * ITEM_CHARGE);
        self.charged_work = self.item_work;
    }

    /// Starts an iteration with the work that earlier ones have left.
    pub(super) fn begin_iteration(&mut self, io: &mut ServerIo) {
        self.item_work = 0;
        if io.now_ms() >= self.swept_ms.saturating_add(SWEEP_INTERVAL_MS) {
            self.swept_ms = io.now_ms();
            self.schemas.sweep();
        }
        self.tear_down();
        self.item_work = 0;
        self.run_pending_requests(io);
        self.charged_work = self.item_work;
        if !self.ended_sessions.is_empty() || self.forwarding.has_incoming() {
            io.continue_soon();
        }
    }
}
