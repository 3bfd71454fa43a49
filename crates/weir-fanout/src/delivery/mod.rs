//! Delivery of updates to sessions.
//!
//! [`Delivery::fan_out`] is the hot path. Each update is encoded once per frame class and form, all
//! members of a class are sent the same bytes, and nothing is allocated per client. Clients that
//! lag or have limits get their updates later, from the backlog.

mod backfill;
mod catch_up;
mod clear;
mod join;
mod missed;

use std::sync::Arc;

use weir_mapping::{FieldSet, FrozenValues};

use super::backlog::{Backlog, LaggingItem};
use super::class::{ClassMember, FrameClass, MemberState};
use super::delivery_mode::{PayloadSource, QueuePolicy};
use super::encode::{DiffCounters, EncodedForms, LineEncoder};
use super::frequency::{SendDelay, SessionTimers};
use super::item::Emission;
use super::item_table::ItemTable;
use super::keys::{ItemAt, SessionKey};
use super::limits::SessionLimits;
use super::notice::ItemNotice;
use super::output::{Output, SendOutcome, SessionTable, SharedFrame, Subscriber};
use super::queue::{OverflowCounts, UpdateQueue};
use super::row_table::RowStep;
use crate::interest::ItemKey;
use crate::positions::PositionCuts;

pub use self::join::NewSubscriber;
pub use self::missed::MissedUpdate;

/// Counters of updates, for the subscribers of a shard.
#[derive(Debug, Clone, Copy, Default)]
pub struct DeliveryCounters {
    /// Updates sent.
    pub sent: u64,
    /// Updates merged into newer or older ones.
    pub conflated: u64,
    /// Updates not sent because they change nothing for a subscriber.
    pub unchanged: u64,
    /// Updates dropped from full queues, as the mode allows.
    pub dropped: u64,
    /// Updates lost from full queues, which is reported to the client.
    pub lost: u64,
    /// Updates lost because they are too long for their client.
    pub too_long: u64,
    /// Sessions with queued updates now.
    pub lagging: u64,
    /// Changed values by diff format.
    pub diffs: DiffCounters,
}

/// Path of updates from the items of a shard to its [`Output`]: encoder, queues and timers.
#[derive(Debug)]
pub struct Delivery {
    backlog: Backlog,
    timers: SessionTimers,
    encoder: LineEncoder,
    counters: DeliveryCounters,
    positions: PositionCuts,
}

impl Delivery {
    /// Creates the delivery of a shard that queues at most `queue_bytes` per session and compares
    /// at most `diff_bytes_per_second` of values.
    pub fn new(queue_bytes: usize, diff_bytes_per_second: u64) -> Self {
        Self {
            backlog: Backlog::new(queue_bytes),
            timers: SessionTimers::default(),
            encoder: LineEncoder::new(diff_bytes_per_second),
            counters: DeliveryCounters::default(),
            positions: PositionCuts::default(),
        }
    }

    /// Refills the CPU budget of diffs and returns the counters.
    pub fn publish(&mut self, now_ms: u64) -> DeliveryCounters {
        self.encoder.refill(now_ms);
        DeliveryCounters {
            lagging: self.backlog.len() as u64,
            diffs: self.encoder.counters,
            ..self.counters
        }
    }

    /// Counts updates that were sent without fan-out.
    pub fn count_sent(&mut self, updates: u64) {
        self.counters.sent += updates;
    }

    /// Returns `true` if updates of a session are queued.
    pub fn is_lagging(&self, key: SessionKey) -> bool {
        self.backlog.has(key)
    }

    /// Removes the queued updates of a session.
    pub fn forget_session(&mut self, key: SessionKey) {
        self.backlog.take(key);
    }

    /// Removes the queued updates of one item of a session.
    pub fn forget_item(&mut self, key: SessionKey, at: ItemAt) {
        self.backlog.remove(key, at);
    }

    /// Queues an update for every subscriber of its item. `extracted` are the fields that were read
    /// from its record. Returns the number of subscribers to which it was sent at once.
    pub fn fan_out<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        items: &mut ItemTable,
        key: ItemKey,
        update: Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
    ) -> u64 {
        let Some((item, transition)) = items.advance(key, update, extracted) else {
            return 0;
        };
        let sent_before = self.counters.sent;
        for class in &mut item.classes {
            let fields = match class.delivery.payload_source() {
                PayloadSource::Event | PayloadSource::Row => extracted,
                PayloadSource::State => &item.known,
            };
            if !class.schema.field_set().is_subset(fields) {
                // The record was read before this class requested its fields, so its members joined
                // later and do not need it.
                class.require_full();
            } else if let Some(emission) = transition.emission(class.delivery) {
                self.send_to_class(output, sessions, class, &emission);
            } else {
                let notice = match transition.row {
                    Some(RowStep::Clear) => ItemNotice::Clear,
                    Some(RowStep::EndOfSnapshot) => ItemNotice::EndOfSnapshot,
                    Some(RowStep::Row(_)) | None => continue,
                };
                self.send_class_notice(output, sessions, class, notice);
            }
        }
        self.arm_timer(output);
        self.counters.sent - sent_before
    }

    /// Sends an update to the members of a class, starting with another member each time.
    fn send_to_class<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        class: &mut FrameClass,
        emission: &Emission<'_>,
    ) {
        let mut members = std::mem::take(&mut class.members);
        let start = class.start % members.len().max(1);
        let before = emission.before.filter(|_| !emission.is_live);
        let changes = before.is_none_or(|before| class.schema.differs(before, emission.values));
        let now_ms = output.now_ms();
        let mut forms = EncodedForms::<O::Frame>::new(class, emission);
        let has_id = class.events.is_some() && self.encoder.has_id();
        let (second, first) = members.split_at_mut(start);
        for member in first.iter_mut().chain(second) {
            if !emission.is_live && !member.wants_backfill(class.delivery, changes) {
                continue;
            }
            if member.state == MemberState::Lagging {
                self.queue_update(sessions, class, member, emission, now_ms);
                continue;
            }
            // With older updates in the backlog, the client has not reached this position.
            let has_id = has_id && !self.backlog.has(member.session);
            let Some(frame) = forms.get(member.state, has_id, &mut self.encoder) else {
                self.counters.unchanged += 1;
                continue;
            };
            let Some(session) = sessions.get_mut(member.session) else {
                continue;
            };
            if frame.bytes() > session.line_max() as usize {
                let bytes = frame.bytes();
                self.report_too_long(output, sessions, class, member, emission, bytes);
                continue;
            }
            let has_limits = member.has_frequency_limit || session.bandwidth_mut().is_some();
            let at = class.at();
            if has_limits {
                if let Some(delay) = session.send_delay(at, emission.frequency_scope(), now_ms) {
                    self.start_lagging(sessions, class, member, emission, Some(delay), now_ms);
                    continue;
                }
            }
            let policy = class.delivery.queue_policy();
            match output.send(session, frame, policy) {
                SendOutcome::Queued => {
                    // A deleted row has no values to which a delta could refer.
                    let has_values = Arc::ptr_eq(emission.values, emission.whole);
                    if has_values || member.state == MemberState::UpToDate {
                        member.state = MemberState::UpToDate;
                    }
                    member.awaits_snapshot &= class.delivery.payload_source() == PayloadSource::Row;
                    self.counters.sent += 1;
                    if has_limits {
                        let bytes = frame.line_bytes();
                        session.note_sent(at, emission.frequency_scope(), bytes, now_ms);
                    }
                }
                SendOutcome::Full => {
                    self.start_lagging(sessions, class, member, emission, None, now_ms);
                }
                SendOutcome::Closed => {
                    // The client may bind another connection.
                    output.notify_writable(session);
                    self.start_lagging(sessions, class, member, emission, None, now_ms);
                }
            }
        }
        class.members = members;
        class.start = start + 1;
    }

    /// Reports an update that is longer than the member's client can read as lost. The next update
    /// is sent with all fields.
    fn report_too_long<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        class: &FrameClass,
        member: &mut ClassMember,
        emission: &Emission<'_>,
        bytes: usize,
    ) {
        let Some(session) = sessions.get_mut(member.session) else {
            return;
        };
        let now_ms = output.now_ms();
        output.note_too_long(session, bytes);
        let notice: O::Frame = self.encoder.notice(class, ItemNotice::Lost(1));
        let sent = output.send(session, &notice, QueuePolicy::Always);
        if sent != SendOutcome::Queued {
            output.notify_writable(session);
            return self.start_lagging(sessions, class, member, emission, None, now_ms);
        }
        member.state = MemberState::New;
        member.awaits_snapshot &= class.delivery.payload_source() == PayloadSource::Row;
        self.counters.too_long += 1;
    }

    /// Queues the first update that cannot be sent to a member now.
    fn start_lagging<S: Subscriber>(
        &mut self,
        sessions: &mut impl SessionTable<S>,
        class: &FrameClass,
        member: &mut ClassMember,
        emission: &Emission<'_>,
        delay: Option<SendDelay>,
        now_ms: u64,
    ) {
        let is_up_to_date = member.state == MemberState::UpToDate;
        member.state = MemberState::Lagging;
        // The queued values are its snapshot now.
        member.awaits_snapshot &= class.delivery.payload_source() == PayloadSource::Row;
        let lagging = LaggingItem {
            at: class.at(),
            seen: emission.before.filter(|_| is_up_to_date).map(Arc::clone),
            queue: new_queue(sessions, class, member),
        };
        let queues = lagging.queue.is_some();
        let due_ms = match delay {
            Some(SendDelay::Item(at_ms)) => at_ms,
            Some(SendDelay::Session(_)) | None => now_ms,
        };
        self.backlog.push(member.session, lagging, due_ms);
        if queues {
            self.queue_update(sessions, class, member, emission, now_ms);
        }
        if let Some(SendDelay::Session(at_ms) | SendDelay::Item(at_ms)) = delay {
            self.wake_at(member.session, at_ms);
        }
    }

    /// Queues an update for a lagging member.
    fn queue_update<S: Subscriber>(
        &mut self,
        sessions: &mut impl SessionTable<S>,
        class: &FrameClass,
        member: &ClassMember,
        emission: &Emission<'_>,
        now_ms: u64,
    ) {
        if class.delivery.conflates_to_latest() {
            self.counters.conflated += 1;
            return;
        }
        let (key, at) = (member.session, class.at());
        let add = |queue: &mut UpdateQueue, bytes_max| match emission.row {
            Some(change) => queue.push_row(change, bytes_max),
            None => queue.push(emission.values, bytes_max),
        };
        let overflow = self.backlog.append(key, at, add);
        self.counters.conflated += overflow.conflated;
        self.counters.dropped += overflow.dropped;
        self.counters.lost += overflow.lost;
        if member.has_frequency_limit && emission.row.is_some() {
            // Each row has its own frequency limit, so this row may be due before those in the
            // queue.
            let session = sessions.get_mut(key);
            let scope = emission.frequency_scope();
            let delay = session.and_then(|session| session.send_delay(at, scope, now_ms));
            let at_ms = match delay {
                None => now_ms,
                Some(SendDelay::Session(at_ms) | SendDelay::Item(at_ms)) => at_ms,
            };
            self.backlog.advance_due(key, at, at_ms);
            self.wake_at(key, at_ms);
        }
    }

    fn send_class_notice<O: Output>(
        &mut self,
        output: &mut O,
        sessions: &mut impl SessionTable<O::Session>,
        class: &mut FrameClass,
        notice: ItemNotice,
    ) {
        if class.delivery.payload_source() == PayloadSource::State {
            return;
        }
        let frame: O::Frame = self.encoder.notice(class, notice);
        let mut members = std::mem::take(&mut class.members);
        for member in &mut members {
            if notice == ItemNotice::EndOfSnapshot && !std::mem::take(&mut member.awaits_snapshot) {
                continue;
            }
            if member.state != MemberState::Lagging {
                let Some(session) = sessions.get_mut(member.session) else {
                    continue;
                };
                let sent = output.send(session, &frame, QueuePolicy::Always);
                if sent == SendOutcome::Queued {
                    continue;
                }
                output.notify_writable(session);
                member.state = MemberState::Lagging;
                let lagging = LaggingItem {
                    at: class.at(),
                    // The last values sent are not known here; the next row is sent with all
                    // fields.
                    seen: None,
                    queue: new_queue(sessions, class, member),
                };
                self.backlog.push(member.session, lagging, output.now_ms());
            }
            let at = class.at();
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

    /// Schedules a session to catch up at `at_ms`; [`Self::arm_timer`] must follow.
    fn wake_at(&mut self, session: SessionKey, at_ms: u64) {
        if self.backlog.wake_at(session, at_ms) {
            self.timers.set(session, at_ms);
        }
    }

    fn arm_timer(&mut self, output: &mut impl Output) {
        if let Some(at_ms) = self.timers.arm() {
            output.set_timer(at_ms);
        }
    }
}

fn new_queue<S: Subscriber>(
    sessions: &mut impl SessionTable<S>,
    class: &FrameClass,
    member: &ClassMember,
) -> Option<Box<UpdateQueue>> {
    let session = sessions.get_mut(member.session)?;
    session.new_queue(class.sub_id, class.delivery)
}
