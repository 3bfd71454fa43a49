//! The hot path: one update to all its subscribers. Encodes once per frame class and form, then
//! queues the same bytes for every member; nothing is allocated per client.

use std::sync::Arc;

use bytes::Bytes;
use weir_mapping::{FieldSet, FrozenValues};
use weir_net::server::Offer;
use weir_tlcp::server::{push_delta_payload, push_full_payload, push_update_prefix};

use super::Shard;
use super::backlog::Behind;
use super::item::{Delivery, FrameClass, Progress, Step};
use super::session::{SessionEntry, SessionKey};
use super::wire::{Wire, message};
use crate::routing::ItemKey;

/// The two forms of an update within a class, each made when first needed.
struct Forms<'a> {
    class: &'a FrameClass,
    step: &'a Step,
    full: Option<Bytes>,
    /// `None` inside: nothing to tell to those in step.
    delta: Option<Option<Bytes>>,
}

impl Forms<'_> {
    /// What a member with this progress gets; `None` if that is nothing.
    fn get(&mut self, progress: Progress, line: &mut Vec<u8>) -> Option<Bytes> {
        let (class, step) = (self.class, self.step);
        let (values, before) = step.values(class.delivery);
        match before.filter(|_| progress == Progress::InStep) {
            Some(before) => self
                .delta
                .get_or_insert_with(|| delta_frame(class, before, values, line))
                .clone(),
            None => {
                let full = self
                    .full
                    .get_or_insert_with(|| full_frame(class, values, line));
                Some(full.clone())
            }
        }
    }
}

/// An update with every field.
pub(super) fn full_frame(class: &FrameClass, values: &FrozenValues, line: &mut Vec<u8>) -> Bytes {
    begin_line(class, line);
    push_full_payload(line, class.schema.project(values));
    framed(line)
}

/// An update with changes only; `None` if there is none and the mode leaves such updates out.
pub(super) fn delta_frame(
    class: &FrameClass,
    before: &FrozenValues,
    values: &FrozenValues,
    line: &mut Vec<u8>,
) -> Option<Bytes> {
    begin_line(class, line);
    let before = class.schema.project(before);
    let changed = push_delta_payload(line, before, class.schema.project(values));
    (changed || class.delivery != Delivery::Newest).then(|| framed(line))
}

fn begin_line(class: &FrameClass, line: &mut Vec<u8>) {
    line.clear();
    push_update_prefix(line, class.sub_id, class.position);
}

/// One whole WebSocket message with the one line.
fn framed(line: &mut Vec<u8>) -> Bytes {
    line.extend_from_slice(b"\r\n");
    message(line)
}

/// Puts an update on its way. Whoever is owed every update and has no room for one is gone.
pub(super) fn hand(
    wire: &mut impl Wire,
    session: &mut SessionEntry,
    delivery: Delivery,
    frame: Bytes,
    held_bytes_max: usize,
) -> Offer {
    let queued = match (&mut session.unbound, delivery) {
        (None, Delivery::Newest) => return wire.offer(session.conn, frame),
        (Some(_), Delivery::Newest) => return Offer::Behind,
        (None, _) => wire.send(session.conn, frame),
        (Some(unbound), _) => unbound.hold(frame, held_bytes_max),
    };
    match queued {
        true => Offer::Queued,
        false => Offer::Gone,
    }
}

impl Shard {
    /// Queues an update for every subscriber of its item. `extracted` are the fields that were
    /// read from its record.
    pub(super) fn fan_out(
        &mut self,
        wire: &mut impl Wire,
        key: ItemKey,
        update: Arc<FrozenValues>,
        extracted: &Arc<FieldSet>,
    ) {
        let now_ms = wire.now_ms();
        let held_bytes_max = self.shared.limits.queue_bytes;
        let mut too_slow: Vec<SessionKey> = Vec::new();
        let Some(item) = self.items.get_mut(key) else {
            return;
        };
        let step = item.advance(update, extracted);
        for class in &mut item.classes {
            let fields = match class.delivery {
                Delivery::Events => extracted,
                Delivery::States | Delivery::Newest => &item.known,
            };
            if !class.schema.wanted().is_subset(fields) {
                // Read before this class asked for its fields: its members joined later.
                class.miss();
                continue;
            }
            let mut members = std::mem::take(&mut class.members);
            let start = class.start % members.len().max(1);
            let mut forms = Forms {
                class,
                step: &step,
                full: None,
                delta: None,
            };
            let (second, first) = members.split_at_mut(start);
            for member in first.iter_mut().chain(second) {
                if member.progress == Progress::Behind {
                    self.counters.conflated += 1;
                    continue;
                }
                let Some(frame) = forms.get(member.progress, &mut self.line) else {
                    self.counters.unchanged += 1;
                    continue;
                };
                let Some(session) = self.sessions.get_mut(member.session) else {
                    continue;
                };
                match hand(wire, session, class.delivery, frame, held_bytes_max) {
                    Offer::Queued => {
                        member.progress = Progress::InStep;
                        session.core.note_data(1);
                        session.core.wrote(now_ms);
                        self.counters.updates_out += 1;
                    }
                    Offer::Behind => {
                        let in_step = member.progress == Progress::InStep;
                        let seen = step.state_before.clone().filter(|_| in_step);
                        member.progress = Progress::Behind;
                        let (sub_id, position) = (class.sub_id, class.position);
                        self.backlog.push(
                            member.session,
                            Behind {
                                sub_id,
                                position,
                                seen,
                            },
                        );
                    }
                    // Its end is on the way.
                    Offer::Gone if class.delivery == Delivery::Newest => {}
                    Offer::Gone => too_slow.push(member.session),
                }
            }
            class.members = members;
            class.start = start + 1;
        }
        for session in too_slow {
            self.end_slow(wire, session);
        }
    }
}
