//! The hot path: one update to all its subscribers. Encodes once per frame class and form, then
//! queues the same bytes for every member; nothing is allocated per client.

use std::sync::Arc;

use weir_mapping::{FieldSet, FrozenValues};
use weir_net::server::Offer;
use weir_tlcp::server::{push_delta_payload, push_full_payload, push_update_prefix};

use super::Shard;
use super::backlog::Behind;
use super::frame::Frame;
use super::item::{Delivery, FrameClass, Progress, Step};
use super::session::SessionKey;
use super::wire::Wire;
use crate::routing::ItemKey;

/// The two forms of an update within a class, each made when first needed.
struct Forms<'a> {
    class: &'a FrameClass,
    step: &'a Step,
    full: Option<Frame>,
    /// `None` inside: nothing to tell to those in step.
    delta: Option<Option<Frame>>,
}

impl Forms<'_> {
    /// What a member with this progress gets; `None` if that is nothing.
    fn get(&mut self, progress: Progress, line: &mut Vec<u8>) -> Option<&Frame> {
        let (class, step) = (self.class, self.step);
        let (values, before) = step.values(class.delivery);
        match before.filter(|_| progress == Progress::InStep) {
            Some(before) => self
                .delta
                .get_or_insert_with(|| delta_frame(class, before, values, line))
                .as_ref(),
            None => {
                let full = self
                    .full
                    .get_or_insert_with(|| full_frame(class, values, line));
                Some(full)
            }
        }
    }
}

/// An update with every field.
pub(super) fn full_frame(class: &FrameClass, values: &FrozenValues, line: &mut Vec<u8>) -> Frame {
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
) -> Option<Frame> {
    begin_line(class, line);
    let before = class.schema.project(before);
    let changed = push_delta_payload(line, before, class.schema.project(values));
    (changed || class.delivery != Delivery::Newest).then(|| framed(line))
}

fn begin_line(class: &FrameClass, line: &mut Vec<u8>) {
    line.clear();
    push_update_prefix(line, class.sub_id, class.position);
}

/// A frame with the one line.
pub(super) fn framed(line: &mut Vec<u8>) -> Frame {
    line.extend_from_slice(b"\r\n");
    Frame::of(line)
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
                let courier = &mut self.courier;
                match courier.data(wire, session, frame, 1, class.delivery) {
                    Offer::Queued => {
                        member.progress = Progress::InStep;
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
