//! Sends what waits in the backlog, as far as the connection takes it and limits allow it now.

use std::sync::Arc;

use weir_mapping::{Command, FrozenValues};
use weir_net::server::Offer;

use super::Shard;
use super::backlog::{Behind, NEVER};
use super::class::{Basis, ClassKey, FrameClass, Progress};
use super::courier::{Courier, Urgency};
use super::diffing::Encoder;
use super::encode::{Mark, mark_frame, update_frame};
use super::frame::Frame;
use super::pacing::{Paced, Wait};
use super::queue::{Queue, Slot};
use super::session::{SessionEntry, SessionKey};
use super::table::Table;
use super::wire::Wire;
use crate::metrics::ShardCounters;

/// Timer token of the alarms; no session has this key.
pub(super) const ALARM: u64 = u64::MAX;

/// How far one item came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Told {
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
                match self.tell_item(wire, session, behind) {
                    Told::All => Ok(None),
                    Told::Until(at_ms) => Ok(Some(at_ms.max(now_ms + 1))),
                    Told::SessionUntil(at_ms) => Err(at_ms),
                    // The connection calls when it takes more.
                    Told::Blocked => Err(NEVER),
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
        self.arm_alarms(wire);
    }

    pub(super) fn arm_alarms(&mut self, wire: &mut impl Wire) {
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
        self.arm_alarms(wire);
    }

    fn tell_item(
        &mut self,
        wire: &mut impl Wire,
        session: SessionKey,
        behind: &mut Behind,
    ) -> Told {
        let Some(entry) = self.sessions.get_mut(session) else {
            return Told::All;
        };
        let Some(subscription) = entry.core.subscription(behind.sub_id) else {
            return Told::All;
        };
        let subscribed = &subscription.handle;
        let place = subscribed.places.get(behind.position as usize - 1);
        let Some((place, item)) =
            place.and_then(|place| Some(((*place)?, self.items.at_mut((*place)?.slot)?)))
        else {
            return Told::All;
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
            return Told::All;
        };
        let mut post = Post {
            wire,
            entry,
            courier: &mut self.courier,
            counters: &mut self.counters,
            encoder: &mut self.encoder,
        };
        let told = match &mut behind.queue {
            None => post.tell_newest(class, &mut behind.seen, newest.as_ref()),
            Some(queue) => post.tell_queue(class, &mut behind.seen, queue, table),
        };
        let in_step = match (&behind.seen, &newest) {
            (Some(seen), Some(newest)) => Arc::ptr_eq(seen, newest),
            _ => false,
        };
        if let Some(member) = class.members.get_mut(place.member as usize) {
            member.progress = match told {
                Told::All if in_step => Progress::InStep,
                Told::All => Progress::New,
                _ => Progress::Behind,
            };
        }
        told
    }
}

/// Sends to one session.
struct Post<'a, W> {
    wire: &'a mut W,
    entry: &'a mut SessionEntry,
    courier: &'a mut Courier,
    counters: &'a mut ShardCounters,
    encoder: &'a mut Encoder,
}

impl<W: Wire> Post<'_, W> {
    fn tell_newest(
        &mut self,
        class: &FrameClass,
        seen: &mut Option<Arc<FrozenValues>>,
        newest: Option<&Arc<FrozenValues>>,
    ) -> Told {
        let Some(newest) = newest else {
            *seen = None;
            self.counters.conflated += 1;
            return Told::All;
        };
        self.tell_values(class, seen, newest, Paced::Item)
    }

    /// An update, unless it changes nothing.
    fn tell_values(
        &mut self,
        class: &FrameClass,
        seen: &mut Option<Arc<FrozenValues>>,
        values: &Arc<FrozenValues>,
        what: Paced<'_>,
    ) -> Told {
        if let Some(wait) = self.wait(class, what) {
            return wait;
        }
        match update_frame(class, seen.as_ref(), values, self.encoder) {
            None => self.counters.conflated += 1,
            Some(frame) if frame.bytes() > self.entry.line_max as usize => {
                let told = self.tell_mark(class, Mark::Lost(1));
                if told == Told::All {
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
                Told::All => self.counters.updates_out += 1,
                not_yet => return not_yet,
            },
        }
        *seen = Some(Arc::clone(values));
        Told::All
    }

    /// Returns why nothing may be sent yet. Looked at before a frame is made for nothing.
    fn wait(&mut self, class: &FrameClass, what: Paced<'_>) -> Option<Told> {
        let (at, now_ms) = ((class.sub_id, class.position), self.wire.now_ms());
        Some(match self.entry.wait(at, what, now_ms)? {
            Wait::Session(at_ms) => Told::SessionUntil(at_ms),
            Wait::Item(at_ms) => Told::Until(at_ms),
        })
    }

    fn send(&mut self, class: &FrameClass, frame: &Frame, what: Paced<'_>) -> Told {
        let (at, now_ms) = ((class.sub_id, class.position), self.wire.now_ms());
        match self
            .courier
            .data(self.wire, self.entry, frame, 1, Urgency::CanWait)
        {
            Offer::Queued => {
                let bytes = frame.lines().len();
                self.entry.note_paced(at, what, bytes, now_ms);
                Told::All
            }
            Offer::Behind | Offer::Gone => Told::Blocked,
        }
    }

    fn tell_queue(
        &mut self,
        class: &FrameClass,
        seen: &mut Option<Arc<FrozenValues>>,
        queue: &mut Queue,
        table: Option<&Table>,
    ) -> Told {
        while let Some(index) = queue.next(self.wire.now_ms()) {
            match self.tell_slot(class, seen, queue.get(index), table) {
                Told::All => {
                    let is_loss = matches!(queue.get(index), Some(Slot::Lost(_)));
                    queue.take(index);
                    if is_loss && queue.must_renew() {
                        let rows = table.into_iter().flat_map(Table::rows);
                        let rows = rows.map(|row| (Arc::clone(&row.key), Arc::clone(&row.values)));
                        queue.renew(rows);
                    }
                }
                // Another row may be due already.
                Told::Until(at_ms) if class.delivery.basis() == Basis::Row => {
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
            true => Told::All,
            false => Told::Until(later_ms),
        }
    }

    fn tell_slot(
        &mut self,
        class: &FrameClass,
        seen: &mut Option<Arc<FrozenValues>>,
        slot: Option<&Slot>,
        table: Option<&Table>,
    ) -> Told {
        match slot {
            None | Some(Slot::Gone) => Told::All,
            Some(Slot::Past(values)) => self.tell_values(class, seen, values, Paced::Free),
            Some(Slot::Update(values)) => self.tell_values(class, seen, values, Paced::Item),
            Some(Slot::Row {
                key,
                command,
                values,
                ..
            }) => {
                let values = match table {
                    Some(table) => table.with_command(values, *command),
                    None => Arc::clone(values),
                };
                let what = Paced::row(key, *command);
                match (command, &seen) {
                    (Command::Delete, None) => {
                        // The next one goes out whole again: this has no values but the key's.
                        let told = self.tell_values(class, seen, &values, what);
                        *seen = None;
                        told
                    }
                    (Command::Delete, Some(last)) => {
                        let rest = values.over(last, |_| true);
                        let values = rest.map_or(values, Arc::new);
                        self.tell_values(class, seen, &values, what)
                    }
                    _ => self.tell_values(class, seen, &values, what),
                }
            }
            Some(Slot::Lost(lost)) => self.tell_mark(class, Mark::Lost(*lost)),
            Some(Slot::Clear) => self.tell_mark(class, Mark::Clear),
            Some(Slot::EndOfSnapshot) => self.tell_mark(class, Mark::EndOfSnapshot),
        }
    }

    fn tell_mark(&mut self, class: &FrameClass, mark: Mark) -> Told {
        if let Some(wait) = self.wait(class, Paced::Free) {
            return wait;
        }
        let frame = mark_frame(class, mark, self.encoder);
        self.send(class, &frame, Paced::Free)
    }
}
