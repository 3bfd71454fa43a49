//! Sends updates from the backlog, as far as the connection accepts them and limits allow it.

use std::sync::Arc;

use weir_mapping::{FrozenValues, RowCommand};
use weir_net::server::TrySend;

use super::Shard;
use super::backlog::{LaggingItem, NEVER};
use super::class::{ClassKey, FrameClass, MemberState};
use super::delivery::{PayloadSource, QueuePolicy};
use super::diffs::Encoder;
use super::encode::{ItemNotice, notice_frame, update_frame};
use super::frame::Frame;
use super::frequency::{FrequencyScope, SendDelay};
use super::keys::SessionKey;
use super::queue::{Queue, QueuedUpdate};
use super::row_table::RowTable;
use super::session::SessionEntry;
use super::session_writer::SessionWriter;
use super::timer_tokens::SESSION_TIMERS;
use super::wire::Wire;
use crate::metrics::ShardCounters;

/// Result of sending one lagging item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CatchUpProgress {
    All,
    /// The rest may be sent from this time on.
    Until(u64),
    /// Nothing of this session may be sent before this time.
    SessionUntil(u64),
    /// The send queue of the connection is full.
    Blocked,
}

impl Shard {
    /// Sends the queued updates of a session.
    pub(super) fn catch_up(&mut self, wire: &mut impl Wire, session: SessionKey) {
        let Some(mut waiting) = self.backlog.take(session) else {
            return;
        };
        let now_ms = wire.now_ms();
        let next_ms = loop {
            let sent = waiting.send_first(now_ms, |lagging| {
                match self.send_item(wire, session, lagging) {
                    CatchUpProgress::All => Ok(None),
                    CatchUpProgress::Until(at_ms) => Ok(Some(at_ms.max(now_ms + 1))),
                    CatchUpProgress::SessionUntil(at_ms) => Err(at_ms),
                    // The event loop reports when the socket is writable again.
                    CatchUpProgress::Blocked => Err(NEVER),
                }
            });
            match sent {
                None => break waiting.next_ms(),
                Some(Ok(())) => {}
                Some(Err(at_ms)) => break at_ms,
            }
        };
        self.backlog.put_back(session, waiting);
        if next_ms < NEVER {
            self.wake_at(wire, session, next_ms);
        }
    }

    /// Schedules a session to catch up at `at_ms`.
    pub(super) fn wake_at(&mut self, wire: &mut impl Wire, session: SessionKey, at_ms: u64) {
        if self.backlog.wake_at(session, at_ms) {
            self.session_timers.set(session, at_ms);
        }
        self.arm_session_timers(wire);
    }

    pub(super) fn arm_session_timers(&mut self, wire: &mut impl Wire) {
        if let Some(at_ms) = self.session_timers.arm() {
            wire.set_timer(at_ms, SESSION_TIMERS);
        }
    }

    /// Sends the updates of sessions whose time has come.
    pub(super) fn on_session_timers(&mut self, wire: &mut impl Wire) {
        self.session_timers.on_fired();
        while let Some(session) = self.session_timers.next(wire.now_ms()) {
            self.backlog.on_fired(session);
            self.catch_up(wire, session);
        }
        self.arm_session_timers(wire);
    }

    /// Sends the queued updates of one item.
    fn send_item(
        &mut self,
        wire: &mut impl Wire,
        session: SessionKey,
        lagging: &mut LaggingItem,
    ) -> CatchUpProgress {
        let Some(entry) = self.sessions.get_mut(session) else {
            return CatchUpProgress::All;
        };
        let Some(subscription) = entry.core.subscription(lagging.sub_id) else {
            return CatchUpProgress::All;
        };
        let subscribed = &subscription.handle;
        let place = subscribed.places.get(lagging.position as usize - 1);
        let Some((place, item)) =
            place.and_then(|place| Some(((*place)?, self.items.at_mut((*place)?.slot)?)))
        else {
            return CatchUpProgress::All;
        };
        let schema = Arc::clone(&subscribed.schema);
        let diffs = subscribed.diffs.clone();
        let key = ClassKey {
            schema: &schema,
            sub_id: lagging.sub_id,
            position: lagging.position,
            delivery: subscribed.delivery,
            diffs: diffs.as_ref(),
        };
        let newest = match lagging.queue {
            None => item.snapshot(&schema).map(Arc::clone),
            Some(_) => item.last(key.delivery.payload_source()).map(Arc::clone),
        };
        let (table, class) = item.table_and_class_mut(key);
        let Some(class) = class else {
            return CatchUpProgress::All;
        };
        let mut catch_up = CatchUpWriter {
            wire,
            entry,
            writer: &mut self.writer,
            counters: &mut self.counters,
            encoder: &mut self.encoder,
            sent_incomplete_rows: false,
        };
        let progress = match &mut lagging.queue {
            None => catch_up.send_latest(class, &mut lagging.seen, newest.as_ref()),
            Some(queue) => catch_up.send_queue(class, &mut lagging.seen, queue, table),
        };
        let is_up_to_date = match (&lagging.seen, &newest) {
            (Some(seen), Some(newest)) => Arc::ptr_eq(seen, newest),
            _ => false,
        };
        let awaits_rows = catch_up.sent_incomplete_rows;
        if let Some(member) = class.members.get_mut(place.member as usize) {
            member.awaits_rows |= awaits_rows;
            member.state = match progress {
                CatchUpProgress::All if is_up_to_date => MemberState::UpToDate,
                CatchUpProgress::All => MemberState::New,
                _ => MemberState::Lagging,
            };
        }
        progress
    }
}

/// Sends queued updates to one session.
struct CatchUpWriter<'a, W> {
    wire: &'a mut W,
    entry: &'a mut SessionEntry,
    writer: &'a mut SessionWriter,
    counters: &'a mut ShardCounters,
    encoder: &'a mut Encoder,
    /// All rows of the table were queued again before all workers had sent theirs.
    sent_incomplete_rows: bool,
}

impl<W: Wire> CatchUpWriter<'_, W> {
    /// Sends the latest values of an item.
    fn send_latest(
        &mut self,
        class: &FrameClass,
        seen: &mut Option<Arc<FrozenValues>>,
        newest: Option<&Arc<FrozenValues>>,
    ) -> CatchUpProgress {
        let Some(newest) = newest else {
            *seen = None;
            self.counters.conflated += 1;
            return CatchUpProgress::All;
        };
        self.send_values(class, seen, newest, FrequencyScope::Item)
    }

    /// Sends an update, unless it changes nothing.
    fn send_values(
        &mut self,
        class: &FrameClass,
        seen: &mut Option<Arc<FrozenValues>>,
        values: &Arc<FrozenValues>,
        scope: FrequencyScope<'_>,
    ) -> CatchUpProgress {
        if let Some(wait) = self.delay(class, scope) {
            return wait;
        }
        match update_frame(class, seen.as_ref(), values, self.encoder) {
            None => self.counters.conflated += 1,
            Some(frame) if frame.bytes() > self.entry.line_max as usize => {
                let progress = self.send_notice(class, ItemNotice::Lost(1));
                if progress == CatchUpProgress::All {
                    let now_ms = self.wire.now_ms();
                    self.writer.note_too_long(self.entry, frame.bytes(), now_ms);
                    self.counters.too_long += 1;
                    // The next update is sent with all fields.
                    *seen = None;
                }
                return progress;
            }
            Some(frame) => match self.send(class, &frame, scope) {
                CatchUpProgress::All => self.counters.updates_out += 1,
                not_yet => return not_yet,
            },
        }
        *seen = Some(Arc::clone(values));
        CatchUpProgress::All
    }

    /// Returns the reason why nothing may be sent yet. It is checked before a frame is encoded.
    fn delay(&mut self, class: &FrameClass, scope: FrequencyScope<'_>) -> Option<CatchUpProgress> {
        let (at, now_ms) = ((class.sub_id, class.position), self.wire.now_ms());
        Some(match self.entry.send_delay(at, scope, now_ms)? {
            SendDelay::Session(at_ms) => CatchUpProgress::SessionUntil(at_ms),
            SendDelay::Item(at_ms) => CatchUpProgress::Until(at_ms),
        })
    }

    /// Sends a frame that is subject to limits.
    fn send(
        &mut self,
        class: &FrameClass,
        frame: &Frame,
        scope: FrequencyScope<'_>,
    ) -> CatchUpProgress {
        let (at, now_ms) = ((class.sub_id, class.position), self.wire.now_ms());
        match self
            .writer
            .data(self.wire, self.entry, frame, 1, QueuePolicy::Deferrable)
        {
            TrySend::Queued => {
                let bytes = frame.lines().len();
                self.entry.note_sent(at, scope, bytes, now_ms);
                CatchUpProgress::All
            }
            TrySend::Full | TrySend::Closed => CatchUpProgress::Blocked,
        }
    }

    /// Sends the entries of a queue in order.
    fn send_queue(
        &mut self,
        class: &FrameClass,
        seen: &mut Option<Arc<FrozenValues>>,
        queue: &mut Queue,
        table: Option<&RowTable>,
    ) -> CatchUpProgress {
        while let Some(index) = queue.next(self.wire.now_ms()) {
            match self.send_entry(class, seen, queue.get(index), table) {
                CatchUpProgress::All => {
                    let is_loss = matches!(queue.get(index), Some(QueuedUpdate::Lost(_)));
                    queue.take(index);
                    if is_loss && queue.needs_resync() {
                        self.sent_incomplete_rows |= table.is_some_and(RowTable::is_pending);
                        let rows = table.into_iter().flat_map(RowTable::rows);
                        let rows = rows.map(|row| (Arc::clone(&row.key), Arc::clone(&row.values)));
                        queue.resync(rows);
                    }
                }
                // Another row may be due already.
                CatchUpProgress::Until(at_ms)
                    if class.delivery.payload_source() == PayloadSource::Row =>
                {
                    queue.delay(index, at_ms);
                }
                not_yet => {
                    queue.trim();
                    return not_yet;
                }
            }
        }
        let next_delayed_ms = queue.next_delayed_ms();
        match queue.trim() {
            true => CatchUpProgress::All,
            false => CatchUpProgress::Until(next_delayed_ms),
        }
    }

    /// Sends one entry of a queue.
    fn send_entry(
        &mut self,
        class: &FrameClass,
        seen: &mut Option<Arc<FrozenValues>>,
        entry: Option<&QueuedUpdate>,
        table: Option<&RowTable>,
    ) -> CatchUpProgress {
        match entry {
            None | Some(QueuedUpdate::Removed) => CatchUpProgress::All,
            Some(QueuedUpdate::Snapshot(values)) => {
                self.send_values(class, seen, values, FrequencyScope::Free)
            }
            Some(QueuedUpdate::Update(values)) => {
                self.send_values(class, seen, values, FrequencyScope::Item)
            }
            Some(QueuedUpdate::Row {
                key,
                command,
                values,
                ..
            }) => {
                let values = match table {
                    Some(table) => table.with_command(values, *command),
                    None => Arc::clone(values),
                };
                let scope = FrequencyScope::row(key, *command);
                match (command, &seen) {
                    (RowCommand::Delete, None) => {
                        // The next update is sent with all fields: this one has only the key.
                        let progress = self.send_values(class, seen, &values, scope);
                        *seen = None;
                        progress
                    }
                    (RowCommand::Delete, Some(last)) => {
                        let rest = values.filled_from(last, |_| true);
                        let values = rest.map_or(values, Arc::new);
                        self.send_values(class, seen, &values, scope)
                    }
                    _ => self.send_values(class, seen, &values, scope),
                }
            }
            Some(QueuedUpdate::Lost(lost)) => self.send_notice(class, ItemNotice::Lost(*lost)),
            Some(QueuedUpdate::Clear) => self.send_notice(class, ItemNotice::Clear),
            Some(QueuedUpdate::EndOfSnapshot) => self.send_notice(class, ItemNotice::EndOfSnapshot),
        }
    }

    /// Sends a notice about the item.
    fn send_notice(&mut self, class: &FrameClass, notice: ItemNotice) -> CatchUpProgress {
        if let Some(wait) = self.delay(class, FrequencyScope::Free) {
            return wait;
        }
        let frame = notice_frame(class, notice, self.encoder);
        self.send(class, &frame, FrequencyScope::Free)
    }
}
