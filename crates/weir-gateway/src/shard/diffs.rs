//! Lines of updates: a buffer that is used again and again, and what makes diffs of values.

use std::cell::RefCell;
use std::sync::Arc;

use weir_mapping::FieldSet;
use weir_tlcp::diff::{DiffBudget, DiffFormat, DiffOutcome, DiffSettings, FieldDiffs};
use weir_tlcp::server::push_delta_payload_by;
use weir_tlcp::text::push_value;

/// What one frame class is told as diffs; absent in classes whose members get none.
#[derive(Debug)]
pub(super) struct ClassDiffs {
    pub(super) settings: Arc<DiffSettings>,
    /// Positions (from 0) of the fields of which some member may have got a JSON Patch, so that it may
    /// not get a TLCP-diff. Never taken back: members may have got a value at different updates.
    /// Inside a cell, because a class is read while its members are written to.
    patched: RefCell<FieldSet>,
}

impl ClassDiffs {
    pub(super) fn new(settings: &Arc<DiffSettings>) -> Self {
        Self {
            settings: Arc::clone(settings),
            patched: RefCell::new(FieldSet::empty()),
        }
    }
}

/// What became of changed values, counted once for all who share a frame.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct DiffCounters {
    pub(crate) json_patch: u64,
    pub(crate) tlcp_diff: u64,
    /// Compared in vain: the diff would not have been clearly shorter, or not exact.
    pub(crate) useless: u64,
    /// Not compared, because the budget was spent.
    pub(crate) over_budget: u64,
}

/// Builds the lines of one shard.
#[derive(Debug)]
pub(super) struct Encoder {
    /// The line in hand.
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

    /// Time has passed, in which budget has accrued.
    pub(super) fn refill(&mut self, now_ms: u64) {
        self.budget.refill(now_ms);
    }

    /// Appends what changed to the line, as diffs where they may be sent and are worth it; false if
    /// nothing did.
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
                    DiffOutcome::Useless => counters.useless += 1,
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
    fn a_field_that_was_patched_gets_no_text_diff_any_more() {
        let class = ClassDiffs::new(&Arc::new(DiffSettings {
            order: DiffOrder::of([DiffFormat::JsonPatch, DiffFormat::TlcpDiff]),
            ..DiffSettings::default()
        }));
        let mut encoder = Encoder::new(1_000_000);
        let text = "a text that is long enough for everybody ".repeat(3);
        let json = |n: u32| format!(r#"{{"n":{n},"text":"{text}"}}"#);
        let plain = |n: u32| format!("{n} {text}");
        let mut told = |before: [&str; 2], values: [&str; 2]| {
            encoder.line.clear();
            assert!(encoder.push_delta(
                &class,
                before.map(Some).into_iter(),
                values.map(Some).into_iter()
            ));
            String::from_utf8(encoder.line.clone()).expect("UTF-8")
        };
        let line = told([&json(1), &plain(1)], [&json(2), &plain(2)]);
        assert_eq!(
            line,
            r#"^P[{"op":"replace","path":"/n","value":2}]|^Tab2bEu"#
        );
        let line = told([&json(2), &plain(2)], [&plain(3), &plain(3)]);
        assert_eq!(line, format!("{}|^Tab3bEu", plain(3)));
        let line = told([&plain(3), &plain(3)], [&plain(4), &plain(4)]);
        assert_eq!(line, format!("{}|^Tab4bEu", plain(4)));
        let counters = encoder.counters;
        assert_eq!((counters.json_patch, counters.tlcp_diff), (1, 3));
    }
}
