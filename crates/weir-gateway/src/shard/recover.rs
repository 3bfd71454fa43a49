//! Steps of the recoveries of clients of events; see [`Recoveries`](super::recoveries::Recoveries).

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use weir_fanout::events::{EventForm, EventNotice};
use weir_fanout::{ClassKey, ItemName, MissedUpdate, PositionReport, RecordPosition, SessionKey};
use weir_ingest::{MissedRecord, ReadBackRequest, ReadBackResult, ResetReason, item_of};
use weir_tlcp::request::Snapshot;

use super::clients::Clients;
use super::event_clients;
use super::recoveries::{Recovery, RecoveryStage};
use super::session_writer::ClientOutput;
use super::wire::Wire;

/// Result of a step: the member stays held, with the reason if it gets a snapshot.
type Step = Result<(), ResetReason>;

impl Clients {
    /// Returns `true` if a new subscriber of events continues after a lost connection.
    pub(super) fn continues(&self, key: SessionKey, class: ClassKey<'_>) -> bool {
        class.form.is_some() && self.recoveries.point(key).is_some()
    }

    /// Begins the recovery of a member that was added as held, or arranges that a new client of
    /// events gets its first id.
    pub(super) fn begin_recovery(
        &mut self,
        key: SessionKey,
        (connection, name): &ItemName,
        class: ClassKey<'_>,
        snapshot: Snapshot,
    ) {
        if class.form.is_none() {
            return;
        }
        let number = self.shared.connections[usize::from(*connection)]
            .positions
            .request();
        let Some(point) = self.recoveries.point(key) else {
            return self.await_id(key, *connection, number);
        };
        let Some(item) = self.items.find(&(*connection, Arc::clone(name))) else {
            return;
        };
        self.recoveries.add(Recovery {
            session: key,
            at: (class.sub_id, class.position),
            item,
            name: Arc::clone(name),
            connection: *connection,
            fields: class.schema.field_set().clone(),
            snapshot,
            point,
            began: Instant::now(),
            stage: RecoveryStage::Requested(number),
        });
    }

    /// Arranges that a session gets an id with the report of this number.
    fn await_id(&mut self, key: SessionKey, connection: u16, number: u64) {
        let waiting = &mut self.recoveries.without_id;
        match waiting.last_mut() {
            Some(last) if (last.0, last.1) == (key, connection) => last.2 = number,
            _ => waiting.push((key, connection, number)),
        }
        // Sessions may end while a reading thread has no positions to report.
        if waiting.len() > 2 * self.sessions.len() + 64 {
            waiting.retain(|(key, ..)| self.sessions.get_mut(*key).is_some());
        }
    }

    /// Handles positions of a reading thread.
    pub(super) fn on_positions(&mut self, wire: &mut impl Wire, report: &PositionReport) {
        self.delivery.report_positions(report);
        let connection = report.connection;
        for token in self.recoveries.of_connection(connection) {
            let step = self.advance_recovery(wire, token, report);
            self.end_step(wire, token, step);
        }
        self.recoveries.expire();
        self.fail_recoveries(wire);
        if !self.recoveries.of_connection(connection).is_empty() {
            // Further reports show whether live updates have reached the positions of clients.
            self.shared.connections[usize::from(connection)]
                .positions
                .request();
        }
        let mut waiting = std::mem::take(&mut self.recoveries.without_id);
        waiting.retain(|(key, of, number)| {
            let is_answered = *of == connection && *number <= report.number;
            if is_answered {
                self.send_position(wire, *key, connection);
            }
            !is_answered
        });
        self.recoveries.without_id = waiting;
    }

    /// Sends the id of the position that a session has reached, unless updates are queued for it:
    /// the last of these has the id.
    fn send_position(&mut self, wire: &mut impl Wire, key: SessionKey, connection: u16) {
        let form = self
            .sessions
            .get_mut(key)
            .and_then(|entry| entry.event_form);
        let id = self.delivery.position_id(key, connection);
        if let (Some(form), Some(id)) = (form, id) {
            let lines = event_clients::notice(form, EventNotice::Position(id));
            self.write_control_lines(wire, key, &lines);
        }
    }

    /// Returns the event that keeps the stream of a session open, with its position if that is
    /// known.
    pub(super) fn heartbeat(&mut self, key: SessionKey, form: EventForm) -> Vec<u8> {
        let entry = self.sessions.get_mut(key);
        let of = |entry: &mut super::session::SessionEntry| {
            let mut all = entry.core.subscriptions().iter();
            let first = all.next()?.handle.connection;
            // An id is a position of one Kafka connection.
            all.all(|one| one.handle.connection == first)
                .then_some(first)
        };
        let connection = entry.and_then(of);
        if let Some(connection) = connection {
            // The next one is newer.
            self.shared.connections[usize::from(connection)]
                .positions
                .request();
        }
        let id = connection.and_then(|connection| self.delivery.position_id(key, connection));
        let about = id.map_or(EventNotice::Heartbeat, EventNotice::Position);
        event_clients::notice(form, about)
    }

    fn advance_recovery(
        &mut self,
        wire: &mut impl Wire,
        token: u64,
        report: &PositionReport,
    ) -> Step {
        let Some(recovery) = self.recoveries.get_mut(token) else {
            return Ok(());
        };
        match recovery.stage {
            RecoveryStage::Requested(number) if number <= report.number => {
                self.read_missed(wire, token, report)
            }
            RecoveryStage::Requested(_) | RecoveryStage::Reading { .. } => Ok(()),
            RecoveryStage::Behind { .. } => {
                self.finish_recovery(wire, token);
                Ok(())
            }
        }
    }

    /// Requests the records from the position of a client on, up to the positions of a report.
    fn read_missed(&mut self, wire: &mut impl Wire, token: u64, report: &PositionReport) -> Step {
        let Some(recovery) = self.recoveries.get_mut(token) else {
            return Ok(());
        };
        let connection = &self.shared.connections[usize::from(recovery.connection)];
        let position = recovery.point.0.as_ref().ok_or(ResetReason::InvalidId)?;
        let layout = report.layout.as_ref();
        let layout = layout.filter(|layout| {
            layout.check() == position.check && position.next.len() == layout.partitions()
        });
        let layout = layout.ok_or(ResetReason::OtherPartitions)?;
        let pairs = position.next.iter().zip(&report.next);
        let missed = pairs.map(|(from, to)| to.saturating_sub(*from).max(0) as u64);
        let missed = missed.fold(0, u64::saturating_add);
        if missed > connection.read_back.limits.records {
            return Err(ResetReason::TooManyRecords);
        }
        let to: Arc<[i64]> = report.next.as_ref().into();
        if missed == 0 {
            let records = Arc::from([]);
            recovery.stage = RecoveryStage::Behind { to, records };
            self.finish_recovery(wire, token);
            return Ok(());
        }
        let is_cancelled = Arc::new(AtomicBool::new(false));
        let request = ReadBackRequest {
            shard: self.sessions.shard,
            token,
            item: Arc::clone(&recovery.name),
            fields: recovery.fields.clone(),
            layout: Arc::clone(layout),
            from: position.next.as_ref().into(),
            to: Arc::clone(&to),
            is_cancelled: Arc::clone(&is_cancelled),
            since: Instant::now(),
        };
        recovery.stage = RecoveryStage::Reading { to, is_cancelled };
        match connection.read_back.push(request) {
            true => Ok(()),
            false => Err(ResetReason::Busy),
        }
    }

    /// Handles the records that were read for a recovery.
    pub(super) fn on_read_back(&mut self, wire: &mut impl Wire, result: ReadBackResult) {
        let token = result.token;
        let Some(recovery) = self.recoveries.get_mut(token) else {
            return;
        };
        let RecoveryStage::Reading { to, .. } = &recovery.stage else {
            return;
        };
        let to = Arc::clone(to);
        match result.outcome {
            Ok(records) => {
                recovery.stage = RecoveryStage::Behind { to, records };
                self.finish_recovery(wire, token);
            }
            Err(reason) => self.end_step(wire, token, Err(reason)),
        }
    }

    /// Sends the missed updates, if live updates have reached the position of the client.
    fn finish_recovery(&mut self, wire: &mut impl Wire, token: u64) {
        let Some(recovery) = self.recoveries.get_mut(token) else {
            return;
        };
        let RecoveryStage::Behind { to, records } = &recovery.stage else {
            return;
        };
        let (to, records) = (Arc::clone(to), Arc::clone(records));
        let Some(position) = &recovery.point.0 else {
            return;
        };
        let Some((layout, next)) = self.delivery.position(recovery.connection) else {
            return;
        };
        if layout.check() != position.check {
            // The partitions have changed meanwhile.
            return self.recoveries.fail(token, ResetReason::OtherPartitions);
        }
        let mut pairs = next.iter().zip(&position.next);
        if pairs.all(|(next, from)| next >= from) {
            self.send_missed(wire, token, &to, &records);
        }
    }

    fn send_missed(
        &mut self,
        wire: &mut impl Wire,
        token: u64,
        to: &[i64],
        records: &[MissedRecord],
    ) {
        let missed = self.recoveries.missed(token, to, records);
        let Some(recovery) = self.recoveries.remove(token) else {
            return;
        };
        self.counters.event_recoveries += 1;
        self.counters.missed_updates += missed.len() as u64;
        let member = (recovery.session, recovery.at);
        let output = &mut ClientOutput {
            wire,
            writer: &mut self.writer,
        };
        let (sessions, items) = (&mut self.sessions, &mut self.items);
        (self.delivery).send_missed(output, sessions, items, member, &missed);
        if missed.is_empty() {
            self.send_position(wire, recovery.session, recovery.connection);
        }
    }

    /// Sends snapshots to the clients whose recoveries have failed.
    pub(super) fn fail_recoveries(&mut self, wire: &mut impl Wire) {
        for (token, reason) in self.recoveries.take_failed() {
            self.end_step(wire, token, Err(reason));
        }
    }

    fn end_step(&mut self, wire: &mut impl Wire, token: u64, step: Step) {
        let Err(reason) = step else { return };
        let Some(recovery) = self.recoveries.remove(token) else {
            return;
        };
        self.counters.resets[reason as usize] += 1;
        let key = recovery.session;
        let form = self
            .sessions
            .get_mut(key)
            .and_then(|entry| entry.event_form);
        let Some(form) = form else { return };
        let about = EventNotice::Reset(item_of(&recovery.name), reason.label());
        let lines = event_clients::notice(form, about);
        self.write_control_lines(wire, key, &lines);
        let output = &mut ClientOutput {
            wire,
            writer: &mut self.writer,
        };
        let (sessions, items) = (&mut self.sessions, &mut self.items);
        let member = (key, recovery.at);
        (self.delivery).restart(output, sessions, items, member, recovery.snapshot);
        let kafka = &self.shared.connections[usize::from(recovery.connection)];
        let number = kafka.positions.request();
        self.await_id(key, recovery.connection, number);
    }

    /// Stores a live update for members that are held.
    #[inline]
    pub(super) fn log_update(
        &mut self,
        item: weir_fanout::ItemKey,
        position: RecordPosition,
        update: impl FnOnce() -> MissedUpdate,
    ) {
        if self.recoveries.has_log(item) {
            self.recoveries.log(item, position, &update());
        }
    }
}
