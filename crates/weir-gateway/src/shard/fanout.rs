//! The hot path: sends one update to all subscribers of its item.
//!
//! Each update is encoded once per frame class and form. All members of a class are sent the same
//! bytes; nothing is allocated per client.

use std::sync::Arc;

use weir_mapping::{FieldSet, FrozenValues};
use weir_net::server::TrySend;

use super::backlog::{Backlog, LaggingItem};
use super::class::{ClassMember, FrameClass, MemberState};
use super::delivery::{PayloadSource, QueuePolicy};
use super::diffs::Encoder;
use super::encode::{EncodedForms, ItemNotice, notice_frame};
use super::frequency::{FrequencyScope, SendDelay, SessionTimers};
use super::item::ItemTable;
use super::keys::SessionKey;
use super::queue::{OverflowCounts, Queue};
use super::row_table::{BackfilledRow, RowStep};
use super::session::Sessions;
use super::session_writer::SessionWriter;
use super::transition::Emission;
use super::wire::Wire;
use super::{HistoryBackfill, RowBackfill, Shard};
use crate::interest::ItemKey;
use crate::metrics::ShardCounters;

impl Shard {
    /// Queues an update for every subscriber of its item. `extracted` are the fields that were read
    /// from its record.
    pub(super) fn fan_out(
        &mut self,
        wire: &mut impl Wire,
        key: ItemKey,
        update: Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
    ) {
        let (items, mut fan_out) = self.split_fan_out(wire);
        let Some(item) = items.get_mut(key) else {
            return;
        };
        let transition = item.advance(update, extracted, &mut fan_out.counters.rows);
        for class in &mut item.classes {
            let fields = match class.delivery.payload_source() {
                PayloadSource::Event | PayloadSource::Row => extracted,
                PayloadSource::State => &item.known,
            };
            if !class.schema.wanted().is_subset(fields) {
                // The record was read before this class requested its fields: its members joined
                // later.
                class.require_full();
            } else if let Some(emission) = transition.emission(class.delivery) {
                fan_out.send_to_class(class, &emission);
            } else {
                match transition.row {
                    Some(RowStep::Clear) => fan_out.send_notice(class, ItemNotice::Clear),
                    Some(RowStep::EndOfSnapshot) => {
                        fan_out.send_notice(class, ItemNotice::EndOfSnapshot)
                    }
                    Some(RowStep::Row(_)) | None => {}
                }
            }
        }
        self.arm_session_timers(wire);
    }

    /// Stores values of an item from before this shard's interest in them. They are not an update:
    /// they go only to subscribers that wait for a snapshot or for missing fields.
    pub(super) fn backfill(
        &mut self,
        wire: &mut impl Wire,
        key: ItemKey,
        values: Arc<FrozenValues>,
        fields: &Arc<FieldSet>,
    ) {
        let (items, mut fan_out) = self.split_fan_out(wire);
        let Some(item) = items.get_mut(key).filter(|item| !item.has_all_values()) else {
            return;
        };
        let transition = item.backfill(values, fields);
        for class in &mut item.classes {
            let is_state = class.delivery.payload_source() == PayloadSource::State;
            if is_state && class.schema.wanted().is_subset(&item.known) {
                if let Some(emission) = transition.emission(class.delivery) {
                    fan_out.send_to_class(class, &emission.as_backfill());
                }
            }
        }
        self.arm_session_timers(wire);
    }

    /// Stores the rows that a worker had before this shard's interest in them. They go to
    /// subscribers that wait for their snapshot. The end of the snapshot is sent when all workers
    /// have responded.
    pub(super) fn backfill_rows(&mut self, wire: &mut impl Wire, backfill: &RowBackfill) {
        let (items, mut fan_out) = self.split_fan_out(wire);
        let Some(item) = items.get_mut(backfill.item) else {
            return;
        };
        let Some(table) = item
            .table_mut()
            .filter(|table| table.awaits_backfill(backfill.generation))
        else {
            return;
        };
        let (rows, counts) = (backfill.rows.iter(), &mut fan_out.counters.rows);
        let backfilled: Vec<BackfilledRow> =
            rows.filter_map(|row| table.backfill(row, counts)).collect();
        let is_complete = table.note_backfill(backfill.in_snapshot);
        let is_pending = table.is_pending();
        for class in &mut item.classes {
            if class.delivery.payload_source() != PayloadSource::Row {
                continue;
            }
            for BackfilledRow { change, previous } in &backfilled {
                let emission = Emission::of_row(change);
                let previous = previous.as_ref();
                if previous.is_some_and(|previous| class.schema.differs(previous, &change.values)) {
                    // Send it also to members that have received the previous row.
                    fan_out.send_to_class(class, &emission);
                } else {
                    fan_out.send_to_class(class, &emission.as_backfill());
                }
            }
            if is_complete {
                fan_out.send_notice(class, ItemNotice::EndOfSnapshot);
            }
            if !is_pending {
                let members = class.members.iter_mut();
                members.for_each(|member| member.awaits_rows = false);
            }
        }
        self.arm_session_timers(wire);
    }

    /// Stores updates from before this shard's history of their item. When all workers have
    /// responded, the updates go to subscribers that wait for their snapshot, followed by the
    /// updates queued since.
    pub(super) fn backfill_history(&mut self, wire: &mut impl Wire, backfill: HistoryBackfill) {
        let (items, fan_out) = self.split_fan_out(wire);
        let Some(item) = items.get_mut(backfill.item) else {
            return;
        };
        let history = item.retained.as_mut().map(|retained| &mut retained.history);
        let past = history
            .and_then(|history| history.note_backfill(backfill.generation, backfill.updates));
        let Some(past) = past else {
            return;
        };
        let mut ready = Vec::new();
        for class in &mut item.classes {
            if class.delivery.payload_source() != PayloadSource::Event {
                continue;
            }
            let (wanted, at) = (class.schema.wanted(), (class.sub_id, class.position));
            let read = past.iter().filter(|one| wanted.is_subset(&one.fields));
            let read: Vec<_> = read.map(|one| &one.values).collect();
            for member in &mut class.members {
                if !std::mem::take(&mut member.awaits_snapshot) {
                    continue;
                }
                fan_out.backlog.release(member.session, at, |queue| {
                    read.iter()
                        .rev()
                        .for_each(|values| queue.push_backfill(values));
                });
                ready.push(member.session);
            }
        }
        for session in ready {
            self.catch_up(wire, session);
        }
    }

    /// Returns the item table and a fan-out over the rest of the shard's state.
    fn split_fan_out<'a, W: Wire>(
        &'a mut self,
        wire: &'a mut W,
    ) -> (&'a mut ItemTable, FanOut<'a, W>) {
        let fan_out = FanOut {
            now_ms: wire.now_ms(),
            wire,
            sessions: &mut self.sessions,
            backlog: &mut self.backlog,
            session_timers: &mut self.session_timers,
            writer: &mut self.writer,
            counters: &mut self.counters,
            encoder: &mut self.encoder,
        };
        (&mut self.items, fan_out)
    }
}

/// The state that a fan-out to the subscribers of an item needs.
struct FanOut<'a, W> {
    wire: &'a mut W,
    sessions: &'a mut Sessions,
    backlog: &'a mut Backlog,
    session_timers: &'a mut SessionTimers,
    writer: &'a mut SessionWriter,
    counters: &'a mut ShardCounters,
    encoder: &'a mut Encoder,
    now_ms: u64,
}

impl<W: Wire> FanOut<'_, W> {
    /// Sends an update to the members of a class, starting with another member each time.
    fn send_to_class(&mut self, class: &mut FrameClass, emission: &Emission<'_>) {
        let mut members = std::mem::take(&mut class.members);
        let start = class.start % members.len().max(1);
        let before = emission.before.filter(|_| !emission.is_live);
        let changes = before.is_none_or(|before| class.schema.differs(before, emission.values));
        let mut forms = EncodedForms::new(class, emission);
        let (second, first) = members.split_at_mut(start);
        for member in first.iter_mut().chain(second) {
            if !emission.is_live && !member.wants_backfill(class.delivery, changes) {
                continue;
            }
            if member.state == MemberState::Lagging {
                self.queue_update(class, member, emission);
                continue;
            }
            let Some(frame) = forms.get(member.state, self.encoder) else {
                self.counters.unchanged += 1;
                continue;
            };
            let Some(session) = self.sessions.get_mut(member.session) else {
                continue;
            };
            if frame.bytes() > session.line_max as usize {
                let bytes = frame.bytes();
                self.report_too_long(class, member, emission, bytes);
                continue;
            }
            let has_limits = member.has_frequency_limit || session.bandwidth.is_some();
            let at = (class.sub_id, class.position);
            if has_limits {
                if let Some(delay) = session.send_delay(at, frequency_scope(emission), self.now_ms)
                {
                    self.start_lagging(class, member, emission, Some(delay));
                    continue;
                }
            }
            let policy = class.delivery.queue_policy();
            match (self.writer).data(self.wire, session, frame, 1, policy) {
                TrySend::Queued => {
                    // A deleted row has no values to which a delta could refer.
                    let has_values = Arc::ptr_eq(emission.values, emission.whole);
                    if has_values || member.state == MemberState::UpToDate {
                        member.state = MemberState::UpToDate;
                    }
                    member.awaits_snapshot &= class.delivery.payload_source() == PayloadSource::Row;
                    self.counters.updates_out += 1;
                    if has_limits {
                        let bytes = frame.lines().len();
                        session.note_sent(at, frequency_scope(emission), bytes, self.now_ms);
                    }
                }
                TrySend::Full => self.start_lagging(class, member, emission, None),
                TrySend::Closed => {
                    // The send queue is full, or the connection is closed; then the client may bind
                    // again.
                    self.wire.notify_writable(session.conn);
                    self.start_lagging(class, member, emission, None);
                }
            }
        }
        class.members = members;
        class.start = start + 1;
    }

    /// Reports an update that is longer than the member's client can read as lost. The next update
    /// is sent with all fields.
    fn report_too_long(
        &mut self,
        class: &FrameClass,
        member: &mut ClassMember,
        emission: &Emission<'_>,
        bytes: usize,
    ) {
        let Some(session) = self.sessions.get_mut(member.session) else {
            return;
        };
        self.writer.note_too_long(session, bytes, self.now_ms);
        let notice = notice_frame(class, ItemNotice::Lost(1), self.encoder);
        let sent = (self.writer).data(self.wire, session, &notice, 1, QueuePolicy::Always);
        if sent != TrySend::Queued {
            self.wire.notify_writable(session.conn);
            return self.start_lagging(class, member, emission, None);
        }
        member.state = MemberState::New;
        member.awaits_snapshot &= class.delivery.payload_source() == PayloadSource::Row;
        self.counters.too_long += 1;
    }

    /// Queues the first update that cannot be sent to a member now.
    fn start_lagging(
        &mut self,
        class: &FrameClass,
        member: &mut ClassMember,
        emission: &Emission<'_>,
        delay: Option<SendDelay>,
    ) {
        let is_up_to_date = member.state == MemberState::UpToDate;
        member.state = MemberState::Lagging;
        // The queued values are its snapshot now.
        member.awaits_snapshot &= class.delivery.payload_source() == PayloadSource::Row;
        let lagging = LaggingItem {
            sub_id: class.sub_id,
            position: class.position,
            seen: emission.before.filter(|_| is_up_to_date).map(Arc::clone),
            queue: self.new_queue(class, member),
        };
        let queues = lagging.queue.is_some();
        let due_ms = match delay {
            Some(SendDelay::Item(at_ms)) => at_ms,
            Some(SendDelay::Session(_)) | None => self.now_ms,
        };
        self.backlog.push(member.session, lagging, due_ms);
        if queues {
            self.queue_update(class, member, emission);
        }
        if let Some(SendDelay::Session(at_ms) | SendDelay::Item(at_ms)) = delay {
            self.wake_at(member.session, at_ms);
        }
    }

    fn wake_at(&mut self, session: SessionKey, at_ms: u64) {
        if self.backlog.wake_at(session, at_ms) {
            self.session_timers.set(session, at_ms);
        }
    }

    fn new_queue(&mut self, class: &FrameClass, member: &ClassMember) -> Option<Box<Queue>> {
        let session = self.sessions.get_mut(member.session)?;
        session.new_queue(class.sub_id, class.delivery)
    }

    /// Queues an update for a lagging member.
    fn queue_update(&mut self, class: &FrameClass, member: &ClassMember, emission: &Emission<'_>) {
        if class.delivery.conflates_to_latest() {
            self.counters.conflated += 1;
            return;
        }
        let at = (class.sub_id, class.position);
        let overflow =
            self.backlog
                .append(member.session, at, |queue, bytes_max| match emission.row {
                    Some(change) => queue.push_row(change, bytes_max),
                    None => queue.push(emission.values, bytes_max),
                });
        self.count_overflow(overflow);
        if let (true, Some(change)) = (member.has_frequency_limit, emission.row) {
            // Each row has its own frequency limit, so this row may be due before those in the
            // queue.
            let scope = FrequencyScope::row(&change.key, change.command);
            let session = self.sessions.get_mut(member.session);
            let at_ms = match session.and_then(|session| session.send_delay(at, scope, self.now_ms))
            {
                None => self.now_ms,
                Some(SendDelay::Session(at_ms) | SendDelay::Item(at_ms)) => at_ms,
            };
            self.backlog.advance_due(member.session, at, at_ms);
            self.wake_at(member.session, at_ms);
        }
    }

    fn count_overflow(&mut self, overflow: OverflowCounts) {
        self.counters.conflated += overflow.conflated;
        self.counters.dropped += overflow.dropped;
        self.counters.lost += overflow.lost;
    }

    /// Sends a notice to the members of a class.
    fn send_notice(&mut self, class: &mut FrameClass, notice: ItemNotice) {
        if class.delivery.payload_source() != PayloadSource::Row {
            return;
        }
        let frame = notice_frame(class, notice, self.encoder);
        let mut members = std::mem::take(&mut class.members);
        for member in &mut members {
            if notice == ItemNotice::EndOfSnapshot && !std::mem::take(&mut member.awaits_snapshot) {
                continue;
            }
            if member.state != MemberState::Lagging {
                let Some(session) = self.sessions.get_mut(member.session) else {
                    continue;
                };
                let sent = (self.writer).data(self.wire, session, &frame, 1, QueuePolicy::Always);
                if sent == TrySend::Queued {
                    continue;
                }
                self.wire.notify_writable(session.conn);
                member.state = MemberState::Lagging;
                let lagging = LaggingItem {
                    sub_id: class.sub_id,
                    position: class.position,
                    // The last values sent are not known here; the next row is sent with all
                    // fields.
                    seen: None,
                    queue: self.new_queue(class, member),
                };
                self.backlog.push(member.session, lagging, self.now_ms);
            }
            let at = (class.sub_id, class.position);
            self.backlog.append(member.session, at, |queue, _| {
                match notice {
                    ItemNotice::Clear => queue.push_clear(),
                    _ => queue.push_end(),
                }
                OverflowCounts::default()
            });
        }
        class.members = members;
    }
}

/// Returns the scope of the frequency limit that applies to an update.
fn frequency_scope<'a>(emission: &Emission<'a>) -> FrequencyScope<'a> {
    match emission.row {
        Some(change) => FrequencyScope::row(&change.key, change.command),
        None => FrequencyScope::Item,
    }
}
