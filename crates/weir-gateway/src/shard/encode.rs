//! Encodes values as frames of a class.

use std::sync::Arc;

use weir_mapping::FrozenValues;
use weir_tlcp::server::{
    push_clear_snapshot, push_delta_payload, push_end_of_snapshot, push_full_payload,
    push_overflow, push_update_prefix,
};

use super::class::{FrameClass, MemberState};
use super::diffs::Encoder;
use super::frame::Frame;
use super::transition::Emission;

/// The two forms of an update within a class, each encoded when first needed.
pub(super) struct EncodedForms<'a> {
    class: &'a FrameClass,
    emission: &'a Emission<'a>,
    full: Option<Frame>,
    /// Inner `None`: nothing to send to members that are up to date.
    delta: Option<Option<Frame>>,
}

impl<'a> EncodedForms<'a> {
    pub(super) fn new(class: &'a FrameClass, emission: &'a Emission<'a>) -> Self {
        Self {
            class,
            emission,
            full: None,
            delta: None,
        }
    }

    /// Returns the frame for a member in this state; `None` if there is nothing to send.
    pub(super) fn get(&mut self, state: MemberState, encoder: &mut Encoder) -> Option<&Frame> {
        let (class, emission) = (self.class, self.emission);
        match emission.before.filter(|_| state == MemberState::UpToDate) {
            Some(before) => self
                .delta
                .get_or_insert_with(|| delta_frame(class, before, emission.values, encoder))
                .as_ref(),
            None => {
                let full = &mut self.full;
                Some(full.get_or_insert_with(|| full_frame(class, emission.whole, encoder)))
            }
        }
    }
}

/// Returns an update as a delta to `seen`, or with all fields if `seen` is `None`. Returns `None`
/// if nothing is to be sent.
pub(super) fn update_frame(
    class: &FrameClass,
    seen: Option<&Arc<FrozenValues>>,
    values: &FrozenValues,
    encoder: &mut Encoder,
) -> Option<Frame> {
    match seen {
        Some(seen) => delta_frame(class, seen, values, encoder),
        None => Some(full_frame(class, values, encoder)),
    }
}

/// Returns an update with all fields.
fn full_frame(class: &FrameClass, values: &FrozenValues, encoder: &mut Encoder) -> Frame {
    begin_update(class, encoder);
    push_full_payload(&mut encoder.line, class.schema.project(values));
    framed_update(encoder)
}

/// Returns an update with changed fields only. Returns `None` if nothing changed and the delivery
/// mode skips such updates.
fn delta_frame(
    class: &FrameClass,
    before: &FrozenValues,
    values: &FrozenValues,
    encoder: &mut Encoder,
) -> Option<Frame> {
    begin_update(class, encoder);
    let before = class.schema.project(before);
    let values = class.schema.project(values);
    let changed = match &class.diffs {
        None => push_delta_payload(&mut encoder.line, before, values),
        Some(diffs) => encoder.push_delta(diffs, before, values),
    };
    (changed || class.delivery.sends_unchanged()).then(|| framed_update(encoder))
}

fn begin_update(class: &FrameClass, encoder: &mut Encoder) {
    encoder.line.clear();
    push_update_prefix(&mut encoder.line, class.sub_id, class.position);
}

fn framed_update(encoder: &mut Encoder) -> Frame {
    encoder.line.extend_from_slice(b"\r\n");
    Frame::of(&encoder.line)
}

/// Notification about an item that is not an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ItemNotice {
    /// All rows were removed.
    Clear,
    EndOfSnapshot,
    /// This number of updates was lost here.
    Lost(u64),
}

/// Returns the frame of a notice for the members of a class.
pub(super) fn notice_frame(class: &FrameClass, notice: ItemNotice, encoder: &mut Encoder) -> Frame {
    let line = &mut encoder.line;
    line.clear();
    let (sub_id, position) = (class.sub_id, class.position);
    match notice {
        ItemNotice::Clear => push_clear_snapshot(line, sub_id, position),
        ItemNotice::EndOfSnapshot => push_end_of_snapshot(line, sub_id, position),
        ItemNotice::Lost(lost) => push_overflow(line, sub_id, position, lost),
    }
    Frame::of(line)
}
