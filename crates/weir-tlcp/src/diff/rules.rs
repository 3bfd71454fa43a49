//! Rules of the protocol and of SDKs for sending a diff instead of a value.

use super::{DiffBudget, push_json_patch, push_tlcp_diff};
use crate::request::Diffs;
use crate::text::push_rest_of_value;

/// Maximum size of a diff in percent of the new value.
const WORTH_PERCENT: usize = 70;

/// Diff format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DiffFormat {
    /// `^P`: JSON Patch, RFC 6902.
    JsonPatch,
    /// `^T`: copies, additions and deletions of characters.
    TlcpDiff,
}

/// Diff formats in order of preference; each occurs at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DiffOrder([Option<DiffFormat>; 2]);

impl DiffOrder {
    /// No diffs.
    pub const NONE: Self = Self([None; 2]);

    /// Returns these formats without duplicates.
    pub fn of(formats: impl IntoIterator<Item = DiffFormat>) -> Self {
        let mut order = Self::NONE;
        for format in formats {
            let free = order
                .0
                .iter_mut()
                .find(|place| place.is_none_or(|it| it == format));
            if let Some(place) = free {
                *place = Some(format);
            }
        }
        order
    }

    /// Returns the formats that a client with this `LS_supported_diffs` accepts.
    pub fn accepted_by(self, supported: Diffs) -> Self {
        Self::of(self.formats().filter(|format| match format {
            DiffFormat::JsonPatch => supported.json_patch,
            DiffFormat::TlcpDiff => supported.tlcp_diff,
        }))
    }

    /// Returns the formats in order of preference.
    pub fn formats(self) -> impl Iterator<Item = DiffFormat> {
        self.0.into_iter().flatten()
    }

    /// Returns `true` if there are no formats.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// Configuration of diffs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffOptions {
    /// Diff formats in order of preference; default none.
    pub order: DiffOrder,
    /// Minimum size of new values for a JSON Patch. Default 50, because small values save nothing.
    pub json_patch_min_bytes: usize,
    /// Minimum size of new values for a TLCP-diff. Default 50.
    pub tlcp_diff_min_bytes: usize,
    /// Maximum size of values. Larger ones are sent without diffs. Default 64 KiB.
    pub value_bytes_max: usize,
    /// Writes TLCP-diffs with numbers of one letter only, which all clients interpret in the same
    /// way. Default `false`, because this takes three more bytes per 25 copied characters.
    pub portable: bool,
}

impl Default for DiffOptions {
    fn default() -> Self {
        Self {
            order: DiffOrder::NONE,
            json_patch_min_bytes: 50,
            tlcp_diff_min_bytes: 50,
            value_bytes_max: 64 * 1024,
            portable: false,
        }
    }
}

/// Result of an attempt to send a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffOutcome {
    /// Not allowed: null, too short, too long, or after another format.
    Excluded,
    /// The diff was computed, but is not small enough or not exact.
    NotSmaller,
    /// The budget is used up.
    TooCostly,
    /// A diff of this format was appended.
    Pushed(DiffFormat),
}

/// Decides about diffs and encodes them.
#[derive(Debug)]
pub struct FieldDiffs<'a> {
    /// Configuration, with the formats that the client accepts.
    pub settings: &'a DiffOptions,
    /// Limit of the computation.
    pub budget: &'a mut DiffBudget,
    /// Buffer for diffs before escaping.
    pub scratch: &'a mut String,
}

impl FieldDiffs<'_> {
    /// Appends a diff as the token of a field, if one is allowed and small enough.
    ///
    /// `previous` is the value last sent on this subscription for the item and field; there must be
    /// one. `patched`: a JSON Patch may have set the client's copy last. Its text may then differ,
    /// so no TLCP-diff can be applied.
    pub fn push(
        &mut self,
        out: &mut Vec<u8>,
        previous: Option<&str>,
        new: Option<&str>,
        patched: bool,
    ) -> DiffOutcome {
        let (Some(previous), Some(new)) = (previous, new) else {
            return DiffOutcome::Excluded;
        };
        let longest = previous.len().max(new.len());
        if previous.is_empty() || new.is_empty() || longest > self.settings.value_bytes_max {
            return DiffOutcome::Excluded;
        }
        let mut attempted = DiffOutcome::Excluded;
        for format in self.settings.order.formats() {
            let (min, allowed) = match format {
                DiffFormat::JsonPatch => {
                    let braces = [previous, new].iter().all(|text| looks_like_json(text));
                    (self.settings.json_patch_min_bytes, braces)
                }
                DiffFormat::TlcpDiff => (self.settings.tlcp_diff_min_bytes, !patched),
            };
            if !allowed || new.len() < min {
                continue;
            }
            if !self.budget.take(previous.len() + new.len()) {
                return DiffOutcome::TooCostly;
            }
            attempted = DiffOutcome::NotSmaller;
            if self.push_format(out, format, previous, new) {
                return DiffOutcome::Pushed(format);
            }
        }
        attempted
    }

    fn push_format(
        &mut self,
        out: &mut Vec<u8>,
        format: DiffFormat,
        previous: &str,
        new: &str,
    ) -> bool {
        let bytes_max = new.len() * WORTH_PERCENT / 100;
        self.scratch.clear();
        let (mark, done) = match format {
            DiffFormat::JsonPatch => (
                b"^P",
                push_json_patch(self.scratch, previous, new, bytes_max),
            ),
            DiffFormat::TlcpDiff => {
                let portable = self.settings.portable;
                let done = push_tlcp_diff(self.scratch, previous, new, portable, bytes_max);
                (b"^T", done)
            }
        };
        if !done {
            return false;
        }
        let start = out.len();
        out.extend_from_slice(mark);
        push_rest_of_value(out, self.scratch);
        // Escaping makes diffs longer, but also plain values; the limit refers to the unescaped
        // value.
        let fits = out.len() - start <= bytes_max;
        if !fits {
            out.truncate(start);
        }
        fits
    }
}

/// Returns `true` for objects and arrays. Values such as `12` are also JSON, but not worth parsing.
fn looks_like_json(text: &str) -> bool {
    text.trim_ascii_start().starts_with(['{', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(formats: impl IntoIterator<Item = DiffFormat>) -> DiffOptions {
        DiffOptions {
            order: DiffOrder::of(formats),
            json_patch_min_bytes: 0,
            tlcp_diff_min_bytes: 0,
            ..DiffOptions::default()
        }
    }

    fn attempted(
        settings: &DiffOptions,
        previous: Option<&str>,
        new: Option<&str>,
        patched: bool,
    ) -> (DiffOutcome, String) {
        let mut out = Vec::new();
        let result = FieldDiffs {
            settings,
            budget: &mut DiffBudget::new(10_000, 0),
            scratch: &mut String::new(),
        }
        .push(&mut out, previous, new, patched);
        (result, String::from_utf8(out).expect("UTF-8"))
    }

    use DiffFormat::{JsonPatch, TlcpDiff};

    #[test]
    fn order_contains_each_format_once() {
        let order = DiffOrder::of([TlcpDiff, TlcpDiff, JsonPatch]);
        assert!(order.formats().eq([TlcpDiff, JsonPatch]));
        let only = |json_patch, tlcp_diff| Diffs {
            json_patch,
            tlcp_diff,
        };
        assert!(
            order
                .accepted_by(only(true, false))
                .formats()
                .eq([JsonPatch])
        );
        assert!(order.accepted_by(only(false, false)).is_none());
        assert_eq!(order.accepted_by(only(true, true)), order);
    }

    #[test]
    fn diffs_match_specification_vectors() {
        let text = settings([TlcpDiff]);
        let (old, new) = ("price=10.5;qty=3", "price=11.5;qty=3");
        assert_eq!(
            attempted(&text, Some(old), Some(new), false),
            (DiffOutcome::Pushed(TlcpDiff), "^Thb1bi".into())
        );
        let long = |k: u32| format!(r#"{{"k":{k},"text":"{}"}}"#, "a text ".repeat(20));
        let (result, token) = attempted(
            &settings([JsonPatch]),
            Some(&long(1)),
            Some(&long(2)),
            false,
        );
        assert_eq!(result, DiffOutcome::Pushed(JsonPatch));
        assert_eq!(token, r#"^P[{"op":"replace","path":"/k","value":2}]"#);
    }

    #[test]
    fn excluded_values_get_no_diff() {
        let both = settings([JsonPatch, TlcpDiff]);
        let (old, new) = ("price=10.5;qty=3", "price=11.5;qty=3");
        for (previous, new) in [
            (None, Some(new)),
            (Some(old), None),
            (Some(""), Some(new)),
            (Some(old), Some("")),
        ] {
            assert_eq!(
                attempted(&both, previous, new, false),
                (DiffOutcome::Excluded, String::new())
            );
        }
        assert_eq!(
            attempted(&both, Some(old), Some(new), true).0,
            DiffOutcome::Excluded
        );
        assert_eq!(
            attempted(&settings([]), Some(old), Some(new), false).0,
            DiffOutcome::Excluded
        );
        let strict = DiffOptions {
            tlcp_diff_min_bytes: new.len() + 1,
            ..both.clone()
        };
        assert_eq!(
            attempted(&strict, Some(old), Some(new), false).0,
            DiffOutcome::Excluded
        );
        let small = DiffOptions {
            value_bytes_max: new.len() - 1,
            ..both.clone()
        };
        assert_eq!(
            attempted(&small, Some(old), Some(new), false).0,
            DiffOutcome::Excluded
        );
        assert_eq!(
            attempted(&both, Some("abc"), Some("xyz"), false),
            (DiffOutcome::NotSmaller, String::new())
        );
        assert_eq!(
            attempted(
                &both,
                Some("a😀aaaaaaaaaaaa"),
                Some("b😀aaaaaaaaaaaa"),
                false
            )
            .0,
            DiffOutcome::NotSmaller
        );
    }

    #[test]
    fn escaped_diffs_respect_size_limit() {
        let text = settings([TlcpDiff]);
        let old = "0123456789".repeat(3);
        let (result, token) = attempted(&text, Some(&old), Some(&format!("{old}|%\n")), false);
        assert_eq!(
            (result, token.as_str()),
            (DiffOutcome::Pushed(TlcpDiff), "^TBed%7C%25%0A")
        );
        // Escaped, the diff is longer than it may be.
        let bars = "|".repeat(15);
        assert_eq!(
            attempted(&text, Some(&old), Some(&format!("{old}{bars}")), false).0,
            DiffOutcome::NotSmaller
        );
    }

    #[test]
    fn exhausted_budget_stops_diffs() {
        let settings = settings([TlcpDiff]);
        let mut budget = DiffBudget::new(32, 0);
        let mut push = || {
            FieldDiffs {
                settings: &settings,
                budget: &mut budget,
                scratch: &mut String::new(),
            }
            .push(
                &mut Vec::new(),
                Some("price=10.5;qty=3"),
                Some("price=11.5;qty=3"),
                false,
            )
        };
        assert_eq!(push(), DiffOutcome::Pushed(TlcpDiff));
        assert_eq!(push(), DiffOutcome::TooCostly);
    }
}
