//! Encodes values as frames of a class, with diffs of values where clients accept them.

use std::sync::Arc;

use weir_mapping::FrozenValues;
use weir_tlcp::diff::{DiffBudget, DiffFormat, DiffOutcome, FieldDiffs};
use weir_tlcp::server::{
    push_clear_snapshot, push_delta_payload, push_delta_payload_by, push_end_of_snapshot,
    push_full_payload, push_overflow, push_update_prefix,
};
use weir_tlcp::text::push_value;

use super::class::{ClassDiffs, FrameClass, MemberState};
use super::delivery_mode::PayloadSource;
use super::events::{EventEncoder, ValuesEvent};
use super::item::Emission;
use super::notice::ItemNotice;
use super::output::SharedFrame;

/// The forms of an update within a class, each encoded when first needed.
pub(crate) struct EncodedForms<'a, F> {
    class: &'a FrameClass,
    emission: &'a Emission<'a>,
    /// Without and with the id of an event.
    forms: [FormFrames<F>; 2],
}

struct FormFrames<F> {
    full: Option<F>,
    /// Inner `None`: nothing to send to members that are up to date.
    delta: Option<Option<F>>,
    /// For members that continue after a lost connection.
    resumed: Option<F>,
}

impl<F> Default for FormFrames<F> {
    fn default() -> Self {
        Self {
            full: None,
            delta: None,
            resumed: None,
        }
    }
}

impl<'a, F: SharedFrame> EncodedForms<'a, F> {
    pub(crate) fn new(class: &'a FrameClass, emission: &'a Emission<'a>) -> Self {
        Self {
            class,
            emission,
            forms: Default::default(),
        }
    }

    /// Returns the frame for a member in this state, with the id of the encoder if `has_id` is
    /// `true`; `None` if there is nothing to send.
    #[inline(always)]
    pub(crate) fn get(
        &mut self,
        state: MemberState,
        has_id: bool,
        encoder: &mut LineEncoder,
    ) -> Option<&F> {
        // For nearly all members of a large class.
        if state == MemberState::UpToDate && !has_id && self.forms[0].delta.is_some() {
            return self.forms[0].delta.as_ref()?.as_ref();
        }
        self.encoded(state, has_id, encoder)
    }

    #[cold]
    fn encoded(
        &mut self,
        state: MemberState,
        has_id: bool,
        encoder: &mut LineEncoder,
    ) -> Option<&F> {
        let (class, emission) = (self.class, self.emission);
        let forms = &mut self.forms[usize::from(has_id)];
        encoder.omit_id(!has_id);
        match emission.before.filter(|_| state == MemberState::UpToDate) {
            Some(before) => forms
                .delta
                .get_or_insert_with(|| encoder.delta(class, before, emission.values))
                .as_ref(),
            None if state == MemberState::Resumed => {
                let resumed = &mut forms.resumed;
                Some(resumed.get_or_insert_with(|| encoder.resumed(class, emission.whole)))
            }
            None => {
                let full = &mut forms.full;
                Some(full.get_or_insert_with(|| encoder.full(class, emission.whole, false)))
            }
        }
    }
}

/// Counters of changed values, counted once per shared frame.
#[derive(Debug, Clone, Copy, Default)]
pub struct DiffCounters {
    /// Values sent as JSON Patch.
    pub json_patch: u64,
    /// Values sent as TLCP-diff.
    pub tlcp_diff: u64,
    /// Compared, but the diff was not clearly smaller, or not exact.
    pub not_smaller: u64,
    /// Not compared, because the budget was spent.
    pub over_budget: u64,
}

#[derive(Debug)]
pub(crate) struct LineEncoder {
    line: Vec<u8>,
    budget: DiffBudget,
    scratch: String,
    pub(crate) counters: DiffCounters,
    /// Id of the events that are encoded now; empty for none.
    id: String,
    /// `true` if the id is not sent with the next event.
    omits_id: bool,
}

impl LineEncoder {
    pub(crate) fn new(diff_bytes_per_second: u64) -> Self {
        Self {
            line: Vec::new(),
            budget: DiffBudget::new(diff_bytes_per_second, 0),
            scratch: String::new(),
            counters: DiffCounters::default(),
            id: String::new(),
            omits_id: false,
        }
    }

    /// Sets the id of the next events; `None` is no id.
    pub(crate) fn set_id(&mut self, id: Option<&str>) {
        self.id.clear();
        self.id.push_str(id.unwrap_or_default());
        self.omits_id = false;
    }

    /// Sets whether the next event has no id.
    pub(crate) fn omit_id(&mut self, omits: bool) {
        self.omits_id = omits;
    }

    /// Returns `true` if the next events have an id.
    #[inline]
    pub(crate) fn has_id(&self) -> bool {
        !self.id.is_empty()
    }

    /// Adds the budget for the time since the last call.
    pub(crate) fn refill(&mut self, now_ms: u64) {
        self.budget.refill(now_ms);
    }

    /// Returns an update as a delta to `seen`, or with all fields if `seen` is `None`. Returns
    /// `None` if nothing is to be sent. `in_snapshot` is `true` for a part of a snapshot.
    pub(crate) fn update<F: SharedFrame>(
        &mut self,
        class: &FrameClass,
        seen: Option<&Arc<FrozenValues>>,
        values: &FrozenValues,
        in_snapshot: bool,
    ) -> Option<F> {
        match seen.filter(|_| !in_snapshot || class.events.is_none()) {
            Some(seen) => self.delta(class, seen, values),
            None => Some(self.full(class, values, in_snapshot)),
        }
    }

    pub(crate) fn notice<F: SharedFrame>(&mut self, class: &FrameClass, notice: ItemNotice) -> F {
        let line = &mut self.line;
        line.clear();
        if let Some(events) = &class.events {
            events.push_notice(line, notice);
            return F::of(line);
        }
        let (sub_id, position) = (class.sub_id, class.position);
        match notice {
            ItemNotice::Clear => push_clear_snapshot(line, sub_id, position),
            ItemNotice::EndOfSnapshot => push_end_of_snapshot(line, sub_id, position),
            ItemNotice::Lost(lost) => push_overflow(line, sub_id, position, lost),
        }
        F::of(line)
    }

    /// Returns an update with all values for a client that has received others before.
    pub(crate) fn resumed<F: SharedFrame>(
        &mut self,
        class: &FrameClass,
        values: &FrozenValues,
    ) -> F {
        match &class.events {
            Some(events) => self.event(class, events, ValuesEvent::Update, values),
            None => self.full(class, values, false),
        }
    }

    fn full<F: SharedFrame>(
        &mut self,
        class: &FrameClass,
        values: &FrozenValues,
        in_snapshot: bool,
    ) -> F {
        if let Some(events) = &class.events {
            // The first values of such a client are its snapshot.
            let is_state = class.delivery.payload_source() == PayloadSource::State;
            let event = match in_snapshot || is_state {
                true => ValuesEvent::Snapshot,
                false => ValuesEvent::Update,
            };
            return self.event(class, events, event, values);
        }
        self.begin_update(class);
        push_full_payload(&mut self.line, class.schema.project(values));
        self.framed_update()
    }

    /// Returns an update with changed fields only. Returns `None` if nothing changed and the
    /// delivery mode skips such updates.
    fn delta<F: SharedFrame>(
        &mut self,
        class: &FrameClass,
        before: &FrozenValues,
        values: &FrozenValues,
    ) -> Option<F> {
        if let Some(events) = &class.events {
            let changed = class.schema.differs(before, values);
            return (changed || class.delivery.sends_unchanged())
                .then(|| self.event(class, events, ValuesEvent::Update, values));
        }
        self.begin_update(class);
        let before = class.schema.project(before);
        let values = class.schema.project(values);
        let changed = match &class.diffs {
            None => push_delta_payload(&mut self.line, before, values),
            Some(diffs) => self.push_delta(diffs, before, values),
        };
        (changed || class.delivery.sends_unchanged()).then(|| self.framed_update())
    }

    /// Returns an event, which has the values of all fields.
    fn event<F: SharedFrame>(
        &mut self,
        class: &FrameClass,
        events: &EventEncoder,
        event: ValuesEvent,
        values: &FrozenValues,
    ) -> F {
        self.line.clear();
        let id = if self.omits_id { "" } else { &self.id };
        events.push_values(&mut self.line, (event, id), class.schema.project(values));
        F::of(&self.line)
    }

    fn begin_update(&mut self, class: &FrameClass) {
        self.line.clear();
        push_update_prefix(&mut self.line, class.sub_id, class.position);
    }

    fn framed_update<F: SharedFrame>(&mut self) -> F {
        self.line.extend_from_slice(b"\r\n");
        F::of(&self.line)
    }

    /// Appends changed values to the line, as diffs where allowed and smaller. Returns `false` if
    /// nothing changed.
    fn push_delta<'a>(
        &mut self,
        class: &ClassDiffs,
        before: impl Iterator<Item = Option<&'a str>>,
        values: impl Iterator<Item = Option<&'a str>>,
    ) -> bool {
        let mut fields = FieldDiffs {
            settings: &class.options,
            budget: &mut self.budget,
            scratch: &mut self.scratch,
        };
        let counters = &mut self.counters;
        let mut patched = class.patched.borrow_mut();
        push_delta_payload_by(
            &mut self.line,
            before,
            values,
            |out, field, before, value| {
                match fields.push(out, before, value, patched.contains(field)) {
                    DiffOutcome::Pushed(DiffFormat::JsonPatch) => {
                        counters.json_patch += 1;
                        patched.insert(field);
                        return;
                    }
                    DiffOutcome::Pushed(DiffFormat::TlcpDiff) => {
                        counters.tlcp_diff += 1;
                        return;
                    }
                    DiffOutcome::NotSmaller => counters.not_smaller += 1,
                    DiffOutcome::TooCostly => counters.over_budget += 1,
                    DiffOutcome::Excluded => {}
                }
                push_value(out, value);
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_tlcp::diff::{DiffOptions, DiffOrder};

    #[test]
    fn patched_field_gets_no_text_diff() {
        let class = ClassDiffs::new(&Arc::new(DiffOptions {
            order: DiffOrder::of([DiffFormat::JsonPatch, DiffFormat::TlcpDiff]),
            ..DiffOptions::default()
        }));
        let mut encoder = LineEncoder::new(1_000_000);
        let text = "a text that is long enough for TLCP-diff ".repeat(3);
        let json = |n: u32| format!(r#"{{"n":{n},"text":"{text}"}}"#);
        let plain = |n: u32| format!("{n} {text}");
        let mut encode = |before: [&str; 2], values: [&str; 2]| {
            encoder.line.clear();
            assert!(encoder.push_delta(
                &class,
                before.map(Some).into_iter(),
                values.map(Some).into_iter()
            ));
            String::from_utf8(encoder.line.clone()).expect("UTF-8")
        };
        let line = encode([&json(1), &plain(1)], [&json(2), &plain(2)]);
        assert_eq!(
            line,
            r#"^P[{"op":"replace","path":"/n","value":2}]|^Tab2bEu"#
        );
        let line = encode([&json(2), &plain(2)], [&plain(3), &plain(3)]);
        assert_eq!(line, format!("{}|^Tab3bEu", plain(3)));
        let line = encode([&plain(3), &plain(3)], [&plain(4), &plain(4)]);
        assert_eq!(line, format!("{}|^Tab4bEu", plain(4)));
        let counters = encoder.counters;
        assert_eq!((counters.json_patch, counters.tlcp_diff), (1, 3));
    }
}
