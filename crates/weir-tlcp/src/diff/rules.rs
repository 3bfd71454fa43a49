//! When a diff may be sent instead of a value: everything the protocol and the SDKs demand.

use super::{DiffBudget, push_json_patch, push_tlcp_diff};
use crate::request::Diffs;
use crate::text::push_rest_of_value;

/// A diff is sent if it has at most this share of the new value's bytes.
const WORTH_PERCENT: usize = 70;

/// A format of diffs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffFormat {
    /// `^P`, RFC 6902.
    JsonPatch,
    /// `^T`, copies, additions and deletions of characters.
    TlcpDiff,
}

/// Formats in the order in which they are tried; each at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct DiffOrder([Option<FormatTag>; 2]);

/// A [`DiffFormat`] as a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FormatTag {
    P,
    T,
}

impl DiffOrder {
    /// No diffs.
    pub const NONE: Self = Self([None; 2]);

    /// These formats; repetitions are left out.
    pub fn of(formats: impl IntoIterator<Item = DiffFormat>) -> Self {
        let mut order = Self::NONE;
        for format in formats {
            let tag = match format {
                DiffFormat::JsonPatch => FormatTag::P,
                DiffFormat::TlcpDiff => FormatTag::T,
            };
            if !order.0.contains(&Some(tag)) {
                if let Some(free) = order.0.iter_mut().find(|place| place.is_none()) {
                    *free = Some(tag);
                }
            }
        }
        order
    }

    /// The formats that a client with this `LS_supported_diffs` accepts.
    pub fn accepted_by(self, supported: Diffs) -> Self {
        Self::of(self.formats().filter(|format| match format {
            DiffFormat::JsonPatch => supported.json_patch,
            DiffFormat::TlcpDiff => supported.tlcp_diff,
        }))
    }

    /// The formats, the preferred one first.
    pub fn formats(self) -> impl Iterator<Item = DiffFormat> {
        self.0.into_iter().flatten().map(|tag| match tag {
            FormatTag::P => DiffFormat::JsonPatch,
            FormatTag::T => DiffFormat::TlcpDiff,
        })
    }

    /// Whether there are none.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

/// What a server wants of diffs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiffSettings {
    /// Formats in the order in which they are tried; default none.
    pub order: DiffOrder,
    /// New values shorter than this are never sent as JSON Patch. Default 50, as small values save
    /// nothing.
    pub json_patch_min_bytes: usize,
    /// The same for TLCP-diff.
    pub tlcp_diff_min_bytes: usize,
    /// Values longer than this are sent as they are. Default 64 KiB.
    pub value_bytes_max: usize,
    /// Write TLCP-diffs with numbers of one letter only, which every reading of the format agrees
    /// on. Default false: it takes three bytes more per 25 copied characters.
    pub portable: bool,
}

impl Default for DiffSettings {
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

/// What came of trying to send a diff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiffOutcome {
    /// The rules forbid it: null, too short, too long, after another format.
    Excluded,
    /// It was computed and would not have been clearly shorter, or not exact.
    Useless,
    /// The budget is spent.
    TooCostly,
    /// It was appended, in this format.
    Pushed(DiffFormat),
}

/// Decides about diffs and writes them.
#[derive(Debug)]
pub struct FieldDiffs<'a> {
    /// What the server wants, its order without what the client has excluded.
    pub settings: &'a DiffSettings,
    /// What computing may cost.
    pub budget: &'a mut DiffBudget,
    /// Memory for diffs before they are escaped.
    pub scratch: &'a mut String,
}

impl FieldDiffs<'_> {
    /// Appends a diff as the token of a field, if one may be sent and is worth it.
    ///
    /// `previous` is what was last sent on this subscription for the item and field; the caller
    /// sees to it that something was. `patched`: the client's copy may have been last set by a JSON
    /// Patch, so that its text is its own and no TLCP-diff fits it.
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
        let mut tried = DiffOutcome::Excluded;
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
            tried = DiffOutcome::Useless;
            if self.push_format(out, format, previous, new) {
                return DiffOutcome::Pushed(format);
            }
        }
        tried
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
        // Escaping makes texts longer, but the plain value as well: that one's least length counts.
        let fits = out.len() - start <= bytes_max;
        if !fits {
            out.truncate(start);
        }
        fits
    }
}

/// Values that are JSON by accident, such as `12`, are not worth reading.
fn looks_like_json(text: &str) -> bool {
    text.trim_ascii_start().starts_with(['{', '['])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(formats: impl IntoIterator<Item = DiffFormat>) -> DiffSettings {
        DiffSettings {
            order: DiffOrder::of(formats),
            json_patch_min_bytes: 0,
            tlcp_diff_min_bytes: 0,
            ..DiffSettings::default()
        }
    }

    fn tried(
        settings: &DiffSettings,
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
    fn orders_hold_each_format_once() {
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
    fn the_vectors_of_the_protocol() {
        let text = settings([TlcpDiff]);
        let (old, new) = ("price=10.5;qty=3", "price=11.5;qty=3");
        assert_eq!(
            tried(&text, Some(old), Some(new), false),
            (DiffOutcome::Pushed(TlcpDiff), "^Thb1bi".into())
        );
        let long = |k: u32| format!(r#"{{"k":{k},"text":"{}"}}"#, "a text ".repeat(20));
        let (result, token) = tried(
            &settings([JsonPatch]),
            Some(&long(1)),
            Some(&long(2)),
            false,
        );
        assert_eq!(result, DiffOutcome::Pushed(JsonPatch));
        assert_eq!(token, r#"^P[{"op":"replace","path":"/k","value":2}]"#);
    }

    #[test]
    fn the_rules_exclude() {
        let both = settings([JsonPatch, TlcpDiff]);
        let (old, new) = ("price=10.5;qty=3", "price=11.5;qty=3");
        for (previous, new) in [
            (None, Some(new)),
            (Some(old), None),
            (Some(""), Some(new)),
            (Some(old), Some("")),
        ] {
            assert_eq!(
                tried(&both, previous, new, false),
                (DiffOutcome::Excluded, String::new())
            );
        }
        assert_eq!(
            tried(&both, Some(old), Some(new), true).0,
            DiffOutcome::Excluded
        );
        assert_eq!(
            tried(&settings([]), Some(old), Some(new), false).0,
            DiffOutcome::Excluded
        );
        let strict = DiffSettings {
            tlcp_diff_min_bytes: new.len() + 1,
            ..both.clone()
        };
        assert_eq!(
            tried(&strict, Some(old), Some(new), false).0,
            DiffOutcome::Excluded
        );
        let small = DiffSettings {
            value_bytes_max: new.len() - 1,
            ..both.clone()
        };
        assert_eq!(
            tried(&small, Some(old), Some(new), false).0,
            DiffOutcome::Excluded
        );
        assert_eq!(
            tried(&both, Some("abc"), Some("xyz"), false),
            (DiffOutcome::Useless, String::new())
        );
        assert_eq!(
            tried(
                &both,
                Some("a😀aaaaaaaaaaaa"),
                Some("b😀aaaaaaaaaaaa"),
                false
            )
            .0,
            DiffOutcome::Useless
        );
    }

    #[test]
    fn diffs_are_escaped_and_still_shorter() {
        let text = settings([TlcpDiff]);
        let old = "0123456789".repeat(3);
        let (result, token) = tried(&text, Some(&old), Some(&format!("{old}|%\n")), false);
        assert_eq!(
            (result, token.as_str()),
            (DiffOutcome::Pushed(TlcpDiff), "^TBed%7C%25%0A")
        );
        // Escaped, the diff is longer than it may be.
        let bars = "|".repeat(15);
        assert_eq!(
            tried(&text, Some(&old), Some(&format!("{old}{bars}")), false).0,
            DiffOutcome::Useless
        );
    }

    #[test]
    fn a_spent_budget_stops_diffs() {
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
