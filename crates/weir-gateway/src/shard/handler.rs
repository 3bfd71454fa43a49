//! The event handler of a shard: calls that the event loop makes.

use std::net::SocketAddr;
use std::sync::Arc;

use weir_fanout::{
    HistoryBackfill, ItemKey, MissedUpdate, RecordPosition, RowBackfill, SessionKey,
};
use weir_ingest::{ItemEvent, PositionedUpdate, TracedUpdate};
use weir_mapping::{FieldSet, FrozenValues};
use weir_net::http1::HttpRequest;
use weir_net::limited;
use weir_net::server::{CloseReason, ConnId, Detached, RequestOutcome, ServerHandler, ServerIo};

use super::clients::Clients;
use super::drain::DrainSchedule;
use super::event::ShardEvent;
use super::http;
use super::session_writer::ClientOutput;
use super::state::{CONNECTION_LOST, Shard};
use super::timers::{
    ADAPTER_TIMER, DRAIN_OVER, DRAIN_STEP, END_POLLS, KEYS_TIMEOUT, LOGIN_TIMER, SESSION_TIMERS,
};
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

impl ServerHandler for Shard {
    type Posted = ShardEvent;

    fn on_accept(&mut self, peer: SocketAddr) -> Option<u32> {
        self.clients.shared.admission.enter(peer.ip()).ok()
    }

    fn on_release(&mut self, admission_id: u32) {
        self.clients.shared.admission.leave(admission_id);
    }

    fn on_request(
        &mut self,
        io: &mut ServerIo,
        conn: ConnId,
        request: &HttpRequest<'_>,
    ) -> RequestOutcome {
        let outcome = match self.reject_request(io, conn, request) {
            Some(response) => RequestOutcome::Respond(response),
            None => http::respond(self, io, conn, request),
        };
        self.charge_work(io);
        outcome
    }

    fn on_message(&mut self, io: &mut ServerIo, conn: ConnId, text: &str) {
        if self.dialects.is_json(conn) {
            return self.receive_json(io, conn, text);
        }
        let requests = self
            .clients
            .shared
            .admission
            .count_lines(text.as_bytes())
            .max(1);
        if self.is_flooding(io, conn, requests) {
            return;
        }
        self.handle_message(io, conn, text);
        self.charge_work(io);
    }

    fn on_frames(&mut self, io: &mut ServerIo, conn: ConnId, count: u32) {
        self.is_flooding(io, conn, count);
    }

    fn on_closed(&mut self, io: &mut ServerIo, conn: ConnId, tag: u64, reason: CloseReason) {
        self.on_removed(conn);
        let key = SessionKey::from_bits(tag);
        // The session of a connection that was replaced continues on another connection.
        let bound = self.clients.sessions.get_mut(key);
        if let Some(entry) = bound.filter(|entry| entry.is_bound_to(conn)) {
            self.metrics.heartbeat.begin(CONNECTION_LOST);
            limited!(
                debug, "connection lost", session = %entry.core.id(), ?reason,
                "session lost its connection"
            );
            self.clients.lost(io, key);
        }
    }

    fn on_removed(&mut self, conn: ConnId) {
        self.dialects.remove(conn);
        self.credentials.forget(conn);
        if let Some(adapter) = &mut self.clients.adapter {
            adapter.forget(conn);
        }
    }

    fn on_timer(&mut self, io: &mut ServerIo, token: u64) {
        match token {
            DRAIN_OVER => io.stop(),
            DRAIN_STEP => self.clients.drain_step(io),
            END_POLLS => self.clients.end_polls_with_data(io),
            KEYS_TIMEOUT => self.credentials.keys_changed(),
            ADAPTER_TIMER => self.clients.end_aged(io),
            LOGIN_TIMER => self.end_silent(io),
            SESSION_TIMERS => self.clients.on_session_timers(io),
            session => self.clients.wake(io, SessionKey::from_bits(session)),
        }
    }

    fn on_detached(&mut self, _io: &mut ServerIo, connection: Detached) {
        self.forwarding.hand_over(connection);
    }

    fn on_writable(&mut self, io: &mut ServerIo, _conn: ConnId, tag: u64) {
        self.clients.resume(io, SessionKey::from_bits(tag));
    }

    fn on_posted(&mut self, io: &mut ServerIo, event: ShardEvent) {
        match event {
            ShardEvent::Item(event) => self.on_item_event(io, event),
            ShardEvent::Handover(handover) => self.accept_handover(io, handover.0, handover.1),
            ShardEvent::Requests(requests) => {
                self.forwarding.incoming.push_back(*requests);
                self.run_forwarded(io);
            }
            ShardEvent::Response(response) => self.receive_response(io, *response),
            ShardEvent::MessageResults => {}
            ShardEvent::DiscardSession { id, by } => {
                self.clients.discard_replaced(io, &id, by.as_deref());
            }
            ShardEvent::Access(change) => self.access_changed(io, change),
            ShardEvent::Replaced(key) => self.clients.end_replaced(io, key),
            ShardEvent::Adapter(event) => self.adapter_event(io, *event),
            ShardEvent::Visit(visit) => self.visit(io, *visit),
            ShardEvent::Drain {
                spread_ms,
                within_ms,
            } => {
                io.stop_accepting();
                io.set_timer(io.now_ms() + spread_ms + within_ms, DRAIN_OVER);
                self.clients.begin_drain(io, spread_ms);
            }
        }
    }

    fn on_first_written(&mut self) {
        self.traces.on_first_written();
    }

    fn on_flushed(&mut self, _io: &mut ServerIo) {
        self.count_ages();
        self.traces.on_flushed();
    }

    fn on_iteration_end(&mut self, io: &mut ServerIo) {
        self.end_traced_iteration();
        self.begin_iteration(io);
        self.publish(io);
        if self.forwarding.retry() {
            io.wake_soon();
        }
        if self
            .clients
            .drain
            .as_ref()
            .is_some_and(DrainSchedule::is_over)
        {
            io.close_idle();
            if io.connections() == 0 {
                io.stop();
            }
        }
    }
}

impl Shard {
    fn on_item_event(&mut self, io: &mut ServerIo, event: ItemEvent) {
        let clients = &mut self.clients;
        match event {
            ItemEvent::Update {
                item,
                update,
                fields,
                record_ms,
            } => {
                let deliveries = clients.fan_out(io, item, update, &fields);
                self.note_deliveries(item, record_ms, deliveries);
            }
            ItemEvent::Positioned(positioned) => {
                let PositionedUpdate {
                    connection,
                    position,
                    update,
                } = *positioned;
                self.on_positioned(io, (connection, position), update);
            }
            ItemEvent::Positions(report) => clients.on_positions(io, &report),
            ItemEvent::ReadBack(result) => clients.on_read_back(io, *result),
            ItemEvent::Traced(traced) => {
                let TracedUpdate {
                    item,
                    update,
                    fields,
                    record_ms,
                    trace,
                    posted_ns,
                } = *traced;
                let trace = (trace, posted_ns, clients.sessions.shard);
                let work = || clients.fan_out(io, item, update, &fields);
                let deliveries = self.traces.run(trace, work);
                self.note_deliveries(item, record_ms, deliveries);
            }
            ItemEvent::Backfill {
                item,
                update,
                fields,
            } => clients.backfill(io, item, update, &fields),
            ItemEvent::RowBackfill(backfill) => clients.backfill_rows(io, &backfill),
            ItemEvent::HistoryBackfill(backfill) => clients.backfill_history(io, *backfill),
            ItemEvent::Clear(item) => clients.clear(io, item),
            ItemEvent::ForceUnsubscribe { connection } => clients.force_unsubscribe(io, connection),
        }
    }

    /// Handles an update of a record with a known position.
    fn on_positioned(&mut self, io: &mut ServerIo, at: (u16, RecordPosition), update: ItemEvent) {
        let clients = &mut self.clients;
        match update {
            ItemEvent::Update {
                item,
                update,
                fields,
                record_ms,
            } => {
                let deliveries = clients.fan_out_at(io, item, at, update, &fields);
                self.note_deliveries(item, record_ms, deliveries);
            }
            ItemEvent::Traced(traced) => {
                let TracedUpdate {
                    item,
                    update,
                    fields,
                    record_ms,
                    trace,
                    posted_ns,
                } = *traced;
                let trace = (trace, posted_ns, clients.sessions.shard);
                let work = || clients.fan_out_at(io, item, at, update, &fields);
                let deliveries = self.traces.run(trace, work);
                self.note_deliveries(item, record_ms, deliveries);
            }
            other => self.on_item_event(io, other),
        }
    }

    /// Passes the deliveries of an update to the traces of operators and to the ages.
    #[inline]
    fn note_deliveries(&mut self, item: ItemKey, record_ms: i64, deliveries: u64) {
        if let Some(tracer) = &mut self.tracer {
            tracer.note_update(&mut self.clients, item, record_ms, deliveries);
        }
        if self.ages.note(record_ms, deliveries) {
            self.count_ages();
        }
    }
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

    /// As [`Self::fan_out`], of a record of a Kafka connection at a position.
    pub(super) fn fan_out_at(
        &mut self,
        wire: &mut impl Wire,
        item: ItemKey,
        at: (u16, RecordPosition),
        update: Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
    ) -> u64 {
        self.log_update(item, at.1, || MissedUpdate {
            values: Arc::clone(&update),
            fields: Arc::clone(extracted),
        });
        deliver!(self, wire, fan_out_at, item, at, update, extracted)
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

    pub(super) fn on_session_timers(&mut self, wire: &mut impl Wire) {
        deliver!(self, wire, on_session_timers);
    }
}
