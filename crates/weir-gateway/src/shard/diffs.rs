//! Encodes lines of updates in a reusable buffer, with diffs of values.

use std::cell::RefCell;
use std::sync::Arc;

use weir_mapping::FieldSet;
use weir_tlcp::diff::{DiffBudget, DiffFormat, DiffOptions, DiffOutcome, FieldDiffs};
use weir_tlcp::server::push_delta_payload_by;
use weir_tlcp::text::push_value;

/// Diffs of one frame class; absent in classes whose members accept none.
#[derive(Debug)]
pub(super) struct ClassDiffs {
    pub(super) settings: Arc<DiffOptions>,
    /// Positions, from 0, of fields of which some member may have received a JSON Patch, so that
    /// they may not get a TLCP-diff. Positions are never removed, because members may have received
    /// values of different updates. It is a cell because the class is borrowed while its members
    /// change.
    patched: RefCell<FieldSet>,
}

impl ClassDiffs {
    pub(super) fn new(settings: &Arc<DiffOptions>) -> Self {
        Self {
            settings: Arc::clone(settings),
            patched: RefCell::new(FieldSet::empty()),
        }
    }
}

/// Counters of changed values, counted once per shared frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DiffCounters {
    /// Values encoded as JSON Patch.
    pub(crate) json_patch: u64,
    /// Values encoded as TLCP-diff.
    pub(crate) tlcp_diff: u64,
    /// Compared, but the diff was not clearly smaller, or not exact.
    pub(crate) not_smaller: u64,
    /// Not compared, because the budget was spent.
    pub(crate) over_budget: u64,
}

/// Encoder of the lines of one shard.
#[derive(Debug)]
pub(super) struct Encoder {
    /// The current line.
    pub(super) line: Vec<u8>,
    budget: DiffBudget,
    scratch: String,
    pub(super) counters: DiffCounters,
}

impl Encoder {
    pub(super) fn new(diff_bytes_per_second: u64) -> Self {
        Self {
            line: Vec::new(),
            budget: DiffBudget::new(diff_bytes_per_second, 0),
            scratch: String::new(),
            counters: DiffCounters::default(),
        }
    }

    /// Adds the budget for the time since the last call.
    pub(super) fn refill(&mut self, now_ms: u64) {
        self.budget.refill(now_ms);
    }

    /// Appends changed values to the line, as diffs where allowed and smaller. Returns `false` if
    /// nothing changed.
    pub(super) fn push_delta<'a>(
        &mut self,
        class: &ClassDiffs,
        before: impl Iterator<Item = Option<&'a str>>,
        values: impl Iterator<Item = Option<&'a str>>,
    ) -> bool {
        let mut fields = FieldDiffs {
            settings: &class.settings,
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
    use weir_tlcp::diff::DiffOrder;

    #[test]
    fn patched_field_gets_no_text_diff() {
        let class = ClassDiffs::new(&Arc::new(DiffOptions {
            order: DiffOrder::of([DiffFormat::JsonPatch, DiffFormat::TlcpDiff]),
            ..DiffOptions::default()
        }));
        let mut encoder = Encoder::new(1_000_000);
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
