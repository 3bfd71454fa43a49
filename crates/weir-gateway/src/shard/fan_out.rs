//! Events of ingest, timers and connections, passed to delivery.

use std::sync::Arc;

use weir_fanout::{HistoryBackfill, ItemKey, RowBackfill, SessionKey};
use weir_mapping::{FieldSet, FrozenValues};

use super::client_output::ClientOutput;
use super::clients::Clients;
use super::wire::Wire;

/// Calls a method of a shard's `Delivery` with its output, sessions and items.
macro_rules! deliver {
    ($clients:ident, $wire:ident, $method:ident $(, $arg:expr)*) => {{
        let output = &mut ClientOutput {
            wire: $wire,
            writer: &mut $clients.writer,
        };
        let (sessions, items) = (&mut $clients.sessions, &mut $clients.items);
        $clients.delivery.$method(output, sessions, items $(, $arg)*)
    }};
}

impl Clients {
    /// Queues an update for every subscriber of its item. Returns the number of deliveries.
    pub(super) fn fan_out(
        &mut self,
        wire: &mut impl Wire,
        item: ItemKey,
        update: Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
    ) -> u64 {
        deliver!(self, wire, fan_out, item, update, extracted)
    }

    pub(super) fn backfill(
        &mut self,
        wire: &mut impl Wire,
        item: ItemKey,
        values: Arc<FrozenValues>,
        fields: &Arc<FieldSet>,
    ) {
        deliver!(self, wire, backfill, item, values, fields);
    }

    pub(super) fn backfill_rows(&mut self, wire: &mut impl Wire, backfill: &RowBackfill) {
        deliver!(self, wire, backfill_rows, backfill);
    }

    pub(super) fn backfill_history(&mut self, wire: &mut impl Wire, backfill: HistoryBackfill) {
        deliver!(self, wire, backfill_history, backfill);
    }

    pub(super) fn clear(&mut self, wire: &mut impl Wire, item: ItemKey) {
        deliver!(self, wire, clear, item);
    }

    /// Sends the queued updates of a session.
    pub(super) fn catch_up(&mut self, wire: &mut impl Wire, key: SessionKey) {
        deliver!(self, wire, catch_up, key);
    }

    pub(super) fn on_session_timers(&mut self, wire: &mut impl Wire) {
        deliver!(self, wire, on_session_timers);
    }
}
