//! Sends updates from the backlog, as far as the connection accepts them and limits allow it.

use std::sync::Arc;

use weir_mapping::{FrozenValues, RowCommand};

use super::Delivery;
use crate::backlog::{LaggingItem, NEVER};
use crate::class::{ClassKey, FrameClass, MemberState};
use crate::delivery_mode::{PayloadSource, QueuePolicy};
use crate::frequency::{FrequencyScope, SendDelay};
use crate::item_table::ItemTable;
use crate::keys::SessionKey;
use crate::limits::SessionLimits;
use crate::notice::ItemNotice;
use crate::output::{Output, SendOutcome, SessionTable, SharedFrame, Subscriber};
use crate::queue::{QueuedUpdate, UpdateQueue};
use crate::row_table::RowTable;

/// Result of sending one lagging item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Progress {
    All,
    /// The rest may be sent from this time on.
    Until(u64),
    /// Nothing of this session may be sent before this time.
    SessionUntil(u64),
    /// The send queue of the connection is full.
    Blocked,
}

impl Delivery {
    /// Sends the queued updates of a session.
    pub fn catch_up<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        items: &mut ItemTable,
        key: SessionKey,
    ) {
        let Some(mut waiting) = self.backlog.take(key) else {
            return;
        };
        let now_ms = output.now_ms();
        let next_ms = loop {
            let is_last = waiting.has_one();
            let sent = waiting.send_first(now_ms, |lagging| {
                let session = sessions.get_mut(key);
                let progress = session
                    .and_then(|session| self.send_item(output, session, items, lagging, is_last));
                match progress.unwrap_or(Progress::All) {
                    Progress::All => Ok(None),
                    Progress::Until(at_ms) => Ok(Some(at_ms.max(now_ms + 1))),
                    Progress::SessionUntil(at_ms) => Err(at_ms),
                    // The event loop reports when the socket is writable again.
                    Progress::Blocked => Err(NEVER),
                }
            });
            match sent {
                None => break waiting.next_ms(),
                Some(Ok(())) => {}
                Some(Err(at_ms)) => break at_ms,
            }
        };
        self.encoder.set_id(None);
        self.backlog.put_back(key, waiting);
        if next_ms < NEVER {
            self.wake_at(key, next_ms);
            self.arm_timer(output);
        }
    }

    /// Sends the queued updates of all sessions whose limits allow it now. It must be called when
    /// the timer of [`Output::set_timer`] fires.
    pub fn on_session_timers<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        items: &mut ItemTable,
    ) {
        self.timers.on_fired();
        while let Some(session) = self.timers.next(output.now_ms()) {
            self.backlog.on_fired(session);
            self.catch_up(output, sessions, items, session);
        }
        self.arm_timer(output);
    }

    /// Sends the queued updates of one item. With its last one, the client has reached the current
    /// position if `is_last` is `true`. Returns `None` if there is no such subscription.
    fn send_item<O: Output>(
        &mut self,
        output: &mut O,
        session: &mut O::Session,
        items: &mut ItemTable,
        lagging: &mut LaggingItem,
        is_last: bool,
    ) -> Option<Progress> {
        let (sub_id, position) = lagging.at;
        let subscribed = session.subscription(sub_id)?;
        let slot = (*subscribed.slots.get(position as usize - 1)?)?;
        let item = items.at_mut(slot.slot)?;
        let schema = Arc::clone(&subscribed.schema);
        let diffs = subscribed.diffs.clone();
        let key = ClassKey {
            schema: &schema,
            sub_id,
            position,
            delivery: subscribed.delivery,
            diffs: diffs.as_ref(),
            form: subscribed.form,
        };
        let conflates = key.delivery.conflates_to_latest();
        let newest = match lagging.queue {
            None => item.snapshot(&schema).map(Arc::clone),
            Some(_) if conflates => item.snapshot(&schema).map(Arc::clone),
            Some(_) => item.last(key.delivery.payload_source()).map(Arc::clone),
        };
        let (table, class) = item.table_and_class_mut(key);
        let class = class?;
        let mut sent_incomplete_rows = false;
        // With a queue and later values that are not in it, the queue does not reach the position.
        let ends_with_newest = match (&lagging.queue, &newest) {
            (Some(queue), Some(newest)) if conflates => queue.ends_with(newest),
            (queue, _) => queue.is_none() || !conflates,
        };
        let id = (is_last && ends_with_newest && key.form.is_some())
            .then(|| self.positions.id(subscribed.connection));
        self.encoder.set_id(id.flatten());
        let mut catch_up = CatchUp {
            delivery: self,
            output,
            session,
            class,
            seen: &mut lagging.seen,
        };
        let mut progress = match &mut lagging.queue {
            None => catch_up.send_latest(newest.as_ref()),
            Some(queue) => catch_up.send_queue(queue, table, &mut sent_incomplete_rows),
        };
        if conflates && progress == Progress::All && lagging.queue.take().is_some() {
            // Later updates were not queued. The client reaches the position with the next event.
            if let Some(newest) = &newest {
                catch_up.delivery.encoder.omit_id(true);
                progress = catch_up.send_latest(Some(newest));
            }
        }
        let is_up_to_date = match (&lagging.seen, &newest) {
            (Some(seen), Some(newest)) => Arc::ptr_eq(seen, newest),
            _ => false,
        };
        if let Some(member) = class.members.get_mut(slot.member as usize) {
            member.awaits_rows |= sent_incomplete_rows;
            member.state = match progress {
                Progress::All if is_up_to_date => MemberState::UpToDate,
                Progress::All => MemberState::New,
                _ => MemberState::Lagging,
            };
        }
        Some(progress)
    }
}

struct CatchUp<'a, O: Output> {
    delivery: &'a mut Delivery,
    output: &'a mut O,
    session: &'a mut O::Session,
    class: &'a FrameClass,
    seen: &'a mut Option<Arc<FrozenValues>>,
}

impl<O: Output> CatchUp<'_, O> {
    fn send_latest(&mut self, newest: Option<&Arc<FrozenValues>>) -> Progress {
        let Some(newest) = newest else {
            *self.seen = None;
            self.delivery.counters.conflated += 1;
            return Progress::All;
        };
        self.send_values(newest, FrequencyScope::Item, false)
    }

    /// Sends an update, unless it changes nothing.
    fn send_values(
        &mut self,
        values: &Arc<FrozenValues>,
        scope: FrequencyScope<'_>,
        in_snapshot: bool,
    ) -> Progress {
        if let Some(wait) = self.delay(scope) {
            return wait;
        }
        let encoder = &mut self.delivery.encoder;
        let seen = self.seen.as_ref();
        let frame = encoder.update(self.class, seen, values, in_snapshot);
        self.send_frame(frame, values, scope)
    }

    /// Sends an update that the client has missed, unless it changes nothing.
    fn send_missed(&mut self, values: &Arc<FrozenValues>) -> Progress {
        if let Some(wait) = self.delay(FrequencyScope::Free) {
            return wait;
        }
        let encoder = &mut self.delivery.encoder;
        let frame = match self.seen.as_ref() {
            None => Some(encoder.resumed(self.class, values)),
            seen => encoder.update(self.class, seen, values, false),
        };
        self.send_frame(frame, values, FrequencyScope::Free)
    }

    /// Sends the frame of an update; `None` changes nothing.
    fn send_frame(
        &mut self,
        frame: Option<O::Frame>,
        values: &Arc<FrozenValues>,
        scope: FrequencyScope<'_>,
    ) -> Progress {
        match frame {
            None => self.delivery.counters.conflated += 1,
            Some(frame) if frame.bytes() > self.session.line_max() as usize => {
                let progress = self.send_notice(ItemNotice::Lost(1));
                if progress == Progress::All {
                    self.output.note_too_long(self.session, frame.bytes());
                    self.delivery.counters.too_long += 1;
                    // The next update is sent with all fields.
                    *self.seen = None;
                }
                return progress;
            }
            Some(frame) => match self.send(&frame, scope) {
                Progress::All => self.delivery.counters.sent += 1,
                not_yet => return not_yet,
            },
        }
        *self.seen = Some(Arc::clone(values));
        Progress::All
    }

    /// Returns the reason why nothing may be sent yet. It is checked before a frame is encoded.
    fn delay(&mut self, scope: FrequencyScope<'_>) -> Option<Progress> {
        let at = self.class.at();
        let delay = self.session.send_delay(at, scope, self.output.now_ms());
        delay.map(|delay| match delay {
            SendDelay::Session(at_ms) => Progress::SessionUntil(at_ms),
            SendDelay::Item(at_ms) => Progress::Until(at_ms),
        })
    }

    fn send(&mut self, frame: &O::Frame, scope: FrequencyScope<'_>) -> Progress {
        let at = self.class.at();
        match (self.output).send(self.session, frame, QueuePolicy::Deferrable) {
            SendOutcome::Queued => {
                let (bytes, now_ms) = (frame.line_bytes(), self.output.now_ms());
                self.session.note_sent(at, scope, bytes, now_ms);
                Progress::All
            }
            SendOutcome::Full | SendOutcome::Closed => Progress::Blocked,
        }
    }

    /// Sends the entries of a queue in order. Sets `sent_incomplete_rows` if all rows of the table
    /// were queued again before all workers had sent theirs.
    fn send_queue(
        &mut self,
        queue: &mut UpdateQueue,
        table: Option<&RowTable>,
        sent_incomplete_rows: &mut bool,
    ) -> Progress {
        while let Some(index) = queue.next(self.output.now_ms()) {
            self.delivery.encoder.omit_id(!queue.has_one_at_most());
            match self.send_entry(queue.get(index), table) {
                Progress::All => {
                    let is_loss = matches!(queue.get(index), Some(QueuedUpdate::Lost(_)));
                    queue.mark_removed(index);
                    if is_loss && queue.needs_resync() {
                        *sent_incomplete_rows |= table.is_some_and(RowTable::is_pending);
                        let rows = table.into_iter().flat_map(RowTable::rows);
                        let rows = rows.map(|row| (Arc::clone(&row.key), Arc::clone(&row.values)));
                        queue.resync(rows);
                    }
                }
                // Another row may be due already.
                Progress::Until(at_ms)
                    if self.class.delivery.payload_source() == PayloadSource::Row =>
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
            true => Progress::All,
            false => Progress::Until(next_delayed_ms),
        }
    }

    fn send_entry(&mut self, entry: Option<&QueuedUpdate>, table: Option<&RowTable>) -> Progress {
        match entry {
            None | Some(QueuedUpdate::Removed) => Progress::All,
            Some(QueuedUpdate::Snapshot(values)) => {
                self.send_values(values, FrequencyScope::Free, true)
            }
            Some(QueuedUpdate::Missed(values)) => self.send_missed(values),
            Some(QueuedUpdate::Update(values)) => {
                self.send_values(values, FrequencyScope::Item, false)
            }
            Some(QueuedUpdate::Row {
                key,
                command,
                values,
                ..
            }) => {
                let mut values = match table {
                    Some(table) => table.with_command(values, *command),
                    None => Arc::clone(values),
                };
                let is_deletion = *command == RowCommand::Delete;
                if let Some(last) = self.seen.as_ref().filter(|_| is_deletion) {
                    values = values.filled_from(last, |_| true).map_or(values, Arc::new);
                }
                let has_only_key = is_deletion && self.seen.is_none();
                let progress = self.send_values(&values, FrequencyScope::row(key, *command), false);
                if has_only_key {
                    // The next update is sent with all fields.
                    *self.seen = None;
                }
                progress
            }
            Some(QueuedUpdate::Lost(lost)) => self.send_notice(ItemNotice::Lost(*lost)),
            Some(QueuedUpdate::Clear) => self.send_notice(ItemNotice::Clear),
            Some(QueuedUpdate::EndOfSnapshot) => self.send_notice(ItemNotice::EndOfSnapshot),
        }
    }

    fn send_notice(&mut self, notice: ItemNotice) -> Progress {
        if let Some(wait) = self.delay(FrequencyScope::Free) {
            return wait;
        }
        let frame = self.delivery.encoder.notice(self.class, notice);
        self.send(&frame, FrequencyScope::Free)
    }
}
