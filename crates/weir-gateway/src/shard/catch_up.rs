//! Sends what waits in the backlog, as far as the connection takes it and limits allow it now.

use std::sync::Arc;

use weir_mapping::{FrozenValues, RowCommand};
use weir_net::server::TrySend;

use super::Shard;
use super::backlog::{Behind, NEVER};
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
use super::timer_tokens::ALARM;
use super::wire::Wire;
use crate::metrics::ShardCounters;

/// How far one item came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CatchUpProgress {
    All,
    /// The rest may be sent at that instant.
    Until(u64),
    /// Nothing of this session may be sent before that instant.
    SessionUntil(u64),
    /// The connection takes no more.
    Blocked,
}

impl Shard {
    /// Sends what waits for a session.
    pub(super) fn catch_up(&mut self, wire: &mut impl Wire, session: SessionKey) {
        let Some(mut waiting) = self.backlog.take(session) else {
            return;
        };
        let now_ms = wire.now_ms();
        let next_ms = loop {
            let sent = waiting.send_first(now_ms, |behind| {
                match self.send_item(wire, session, behind) {
                    CatchUpProgress::All => Ok(None),
                    CatchUpProgress::Until(at_ms) => Ok(Some(at_ms.max(now_ms + 1))),
                    CatchUpProgress::SessionUntil(at_ms) => Err(at_ms),
                    // The connection calls when it takes more.
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

    /// Has a session catch up at an instant.
    pub(super) fn wake_at(&mut self, wire: &mut impl Wire, session: SessionKey, at_ms: u64) {
        if self.backlog.wake_at(session, at_ms) {
            self.alarms.set(session, at_ms);
        }
        self.arm_session_timers(wire);
    }

    pub(super) fn arm_session_timers(&mut self, wire: &mut impl Wire) {
        if let Some(at_ms) = self.alarms.arm() {
            wire.set_timer(at_ms, ALARM);
        }
    }

    /// Those who waited for an instant that has come.
    pub(super) fn on_alarm(&mut self, wire: &mut impl Wire) {
        self.alarms.rang();
        while let Some(session) = self.alarms.next(wire.now_ms()) {
            self.backlog.rang(session);
            self.catch_up(wire, session);
        }
        self.arm_session_timers(wire);
    }

    fn send_item(
        &mut self,
        wire: &mut impl Wire,
        session: SessionKey,
        behind: &mut Behind,
    ) -> CatchUpProgress {
        let Some(entry) = self.sessions.get_mut(session) else {
            return CatchUpProgress::All;
        };
        let Some(subscription) = entry.core.subscription(behind.sub_id) else {
            return CatchUpProgress::All;
        };
        let subscribed = &subscription.handle;
        let place = subscribed.places.get(behind.position as usize - 1);
        let Some((place, item)) =
            place.and_then(|place| Some(((*place)?, self.items.at_mut((*place)?.slot)?)))
        else {
            return CatchUpProgress::All;
        };
        let schema = Arc::clone(&subscribed.schema);
        let diffs = subscribed.diffs.clone();
        let key = ClassKey {
            schema: &schema,
            sub_id: behind.sub_id,
            position: behind.position,
            delivery: subscribed.delivery,
            diffs: diffs.as_ref(),
        };
        let newest = match behind.queue {
            None => item.snapshot(&schema).map(Arc::clone),
            Some(_) => item.last(key.delivery.basis()).map(Arc::clone),
        };
        let (table, class) = item.table_and_class_mut(key);
        let Some(class) = class else {
            return CatchUpProgress::All;
        };
        let mut post = CatchUpWriter {
            wire,
            entry,
            courier: &mut self.courier,
            counters: &mut self.counters,
            encoder: &mut self.encoder,
        };
        let told = match &mut behind.queue {
            None => post.send_latest(class, &mut behind.seen, newest.as_ref()),
            Some(queue) => post.send_queue(class, &mut behind.seen, queue, table),
        };
        let in_step = match (&behind.seen, &newest) {
            (Some(seen), Some(newest)) => Arc::ptr_eq(seen, newest),
            _ => false,
        };
        if let Some(member) = class.members.get_mut(place.member as usize) {
            member.progress = match told {
                CatchUpProgress::All if in_step => MemberState::InStep,
                CatchUpProgress::All => MemberState::New,
                _ => MemberState::Behind,
            };
        }
        told
    }
}

/// Sends to one session.
struct CatchUpWriter<'a, W> {
    wire: &'a mut W,
    entry: &'a mut SessionEntry,
    courier: &'a mut SessionWriter,
    counters: &'a mut ShardCounters,
    encoder: &'a mut Encoder,
}

impl<W: Wire> CatchUpWriter<'_, W> {
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

    /// An update, unless it changes nothing.
    fn send_values(
        &mut self,
        class: &FrameClass,
        seen: &mut Option<Arc<FrozenValues>>,
        values: &Arc<FrozenValues>,
        what: FrequencyScope<'_>,
    ) -> CatchUpProgress {
        if let Some(wait) = self.wait(class, what) {
            return wait;
        }
        match update_frame(class, seen.as_ref(), values, self.encoder) {
            None => self.counters.conflated += 1,
            Some(frame) if frame.bytes() > self.entry.line_max as usize => {
                let told = self.send_notice(class, ItemNotice::Lost(1));
                if told == CatchUpProgress::All {
                    let now_ms = self.wire.now_ms();
                    self.courier
                        .note_too_long(self.entry, frame.bytes(), now_ms);
                    self.counters.too_long += 1;
                    // The next one goes out whole.
                    *seen = None;
                }
                return told;
            }
            Some(frame) => match self.send(class, &frame, what) {
                CatchUpProgress::All => self.counters.updates_out += 1,
                not_yet => return not_yet,
            },
        }
        *seen = Some(Arc::clone(values));
        CatchUpProgress::All
    }

    /// Returns why nothing may be sent yet. Looked at before a frame is made for nothing.
    fn wait(&mut self, class: &FrameClass, what: FrequencyScope<'_>) -> Option<CatchUpProgress> {
        let (at, now_ms) = ((class.sub_id, class.position), self.wire.now_ms());
        Some(match self.entry.wait(at, what, now_ms)? {
            SendDelay::Session(at_ms) => CatchUpProgress::SessionUntil(at_ms),
            SendDelay::Item(at_ms) => CatchUpProgress::Until(at_ms),
        })
    }

    fn send(
        &mut self,
        class: &FrameClass,
        frame: &Frame,
        what: FrequencyScope<'_>,
    ) -> CatchUpProgress {
        let (at, now_ms) = ((class.sub_id, class.position), self.wire.now_ms());
        match self
            .courier
            .data(self.wire, self.entry, frame, 1, QueuePolicy::CanWait)
        {
            TrySend::Queued => {
                let bytes = frame.lines().len();
                self.entry.note_paced(at, what, bytes, now_ms);
                CatchUpProgress::All
            }
            TrySend::Behind | TrySend::Gone => CatchUpProgress::Blocked,
        }
    }

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
                        let rows = table.into_iter().flat_map(RowTable::rows);
                        let rows = rows.map(|row| (Arc::clone(&row.key), Arc::clone(&row.values)));
                        queue.resync(rows);
                    }
                }
                // Another row may be due already.
                CatchUpProgress::Until(at_ms) if class.delivery.basis() == PayloadSource::Row => {
                    queue.put_off(index, at_ms);
                }
                not_yet => {
                    queue.trim();
                    return not_yet;
                }
            }
        }
        let later_ms = queue.later_ms();
        match queue.trim() {
            true => CatchUpProgress::All,
            false => CatchUpProgress::Until(later_ms),
        }
    }

    fn send_entry(
        &mut self,
        class: &FrameClass,
        seen: &mut Option<Arc<FrozenValues>>,
        slot: Option<&QueuedUpdate>,
        table: Option<&RowTable>,
    ) -> CatchUpProgress {
        match slot {
            None | Some(QueuedUpdate::Gone) => CatchUpProgress::All,
            Some(QueuedUpdate::Past(values)) => {
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
                let what = FrequencyScope::row(key, *command);
                match (command, &seen) {
                    (RowCommand::Delete, None) => {
                        // The next one goes out whole again: this has no values but the key's.
                        let told = self.send_values(class, seen, &values, what);
                        *seen = None;
                        told
                    }
                    (RowCommand::Delete, Some(last)) => {
                        let rest = values.over(last, |_| true);
                        let values = rest.map_or(values, Arc::new);
                        self.send_values(class, seen, &values, what)
                    }
                    _ => self.send_values(class, seen, &values, what),
                }
            }
            Some(QueuedUpdate::Lost(lost)) => self.send_notice(class, ItemNotice::Lost(*lost)),
            Some(QueuedUpdate::Clear) => self.send_notice(class, ItemNotice::Clear),
            Some(QueuedUpdate::EndOfSnapshot) => self.send_notice(class, ItemNotice::EndOfSnapshot),
        }
    }

    fn send_notice(&mut self, class: &FrameClass, mark: ItemNotice) -> CatchUpProgress {
        if let Some(wait) = self.wait(class, FrequencyScope::Free) {
            return wait;
        }
        let frame = notice_frame(class, mark, self.encoder);
        self.send(class, &frame, FrequencyScope::Free)
    }
}
