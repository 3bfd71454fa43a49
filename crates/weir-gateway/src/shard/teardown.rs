//! Spreads work on many items over iterations, so that no iteration of the event loop takes long.
//!
//! This applies to the release of items of ended sessions and to requests from other shards.

use std::sync::Arc;

use weir_net::server::ServerIo;

use super::class::ClassKey;
use super::keys::SessionKey;
use super::state::{ITEMS_PER_ITERATION, Shard};

/// Input bytes that are charged for one item joined or released.
const ITEM_CHARGE: usize = 512;

impl Shard {
    /// Releases items of ended sessions, up to the limit of this iteration.
    pub(super) fn tear_down(&mut self) {
        while self.work.items < ITEMS_PER_ITERATION {
            let Some(key) = self.work.ended_sessions.front().copied() else {
                break;
            };
            if !self.release_one(key) {
                self.work.ended_sessions.pop_front();
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
        let position = subscribed.slots.len() as u32;
        let Some(slot) = subscribed.slots.pop() else {
            entry.core.remove_subscription(sub_id);
            self.counters.subscriptions -= 1;
            self.work.items += 1;
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
        if let Some(slot) = slot {
            self.release_item(slot, class);
        }
        true
    }

    /// Charges the input budget of a peer for the items that its input has joined and released.
    pub(super) fn charge_work(&mut self, io: &mut ServerIo) {
        io.charge_input((self.work.items - self.work.charged) * ITEM_CHARGE);
        self.work.charged = self.work.items;
    }

    /// Starts an iteration with the work that earlier ones have left.
    pub(super) fn begin_iteration(&mut self, io: &mut ServerIo) {
        self.work.items = 0;
        self.schemas.sweep_if_due(io.now_ms());
        self.tear_down();
        self.work.items = 0;
        self.run_pending_requests(io);
        self.work.charged = self.work.items;
        if !self.work.ended_sessions.is_empty() || !self.forwards.incoming.is_empty() {
            io.continue_soon();
        }
    }
}
