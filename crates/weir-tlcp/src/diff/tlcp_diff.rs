//! TLCP-diff: copies of the previous text, additions and deletions, with numbers in letters.
//!
//! Numbers are written in radix 26. One third-party client interprets numbers of several letters
//! differently, so the portable form splits them into numbers of one letter.

use super::matches::matches;

/// Appends the diff from `old` to `new` and returns `true`. Returns `false` and leaves `out`
/// unchanged if the diff exceeds `bytes_max` bytes, or if a text has characters beyond the Basic
/// Multilingual Plane, which clients count differently.
pub fn push_tlcp_diff(
    out: &mut String,
    old: &str,
    new: &str,
    portable: bool,
    bytes_max: usize,
) -> bool {
    if has_wide_characters(old) || has_wide_characters(new) {
        return false;
    }
    let start = out.len();
    let mut writer = DiffWriter {
        out,
        number_max: if portable { RADIX - 1 } else { u32::MAX },
        next: Section::Copy,
    };
    let (mut old_at, mut new_at) = (0, 0);
    let mut fits = true;
    matches(old, new, &mut |same| {
        writer.add(&new[new_at..same.new]);
        // The old text after the last copy need not be deleted.
        if same.length > 0 {
            writer.pass(Section::Delete, count(&old[old_at..same.old]));
            let copied = &old[same.old..same.old + same.length];
            writer.pass(Section::Copy, count(copied));
        }
        (old_at, new_at) = (same.old + same.length, same.new + same.length);
        fits = writer.out.len() - start <= bytes_max;
        fits
    });
    if fits && writer.out.len() == start {
        writer.number(0);
    }
    fits = fits && out.len() - start <= bytes_max;
    if !fits {
        out.truncate(start);
    }
    fits
}

/// Applies `diff` to `base`. Returns `None` if it is not a valid diff or exceeds `base`.
pub fn apply_tlcp_diff(base: &str, diff: &str) -> Option<String> {
    let mut out = String::with_capacity(base.len());
    let (mut rest, mut base) = (diff, base);
    let mut section = Section::Copy;
    (!diff.is_empty()).then_some(())?;
    while !rest.is_empty() {
        let count = take_number(&mut rest)?;
        match section {
            Section::Copy => out.push_str(take(&mut base, count)?),
            Section::Add => out.push_str(take(&mut rest, count)?),
            Section::Delete => drop(take(&mut base, count)?),
        }
        section = section.next();
    }
    Some(out)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Section {
    Copy,
    Add,
    Delete,
}

impl Section {
    fn next(self) -> Self {
        match self {
            Self::Copy => Self::Add,
            Self::Add => Self::Delete,
            Self::Delete => Self::Copy,
        }
    }
}

struct DiffWriter<'a> {
    out: &'a mut String,
    number_max: u32,
    next: Section,
}

impl DiffWriter<'_> {
    /// Writes sections that copy or delete `count` characters.
    fn pass(&mut self, section: Section, mut count: u32) {
        while count > 0 {
            let part = count.min(self.number_max);
            self.start_section(section);
            self.number(part);
            count -= part;
        }
    }

    fn add(&mut self, mut text: &str) {
        while !text.is_empty() {
            let part = match self.number_max {
                u32::MAX => text,
                max => take(&mut { text }, max).unwrap_or(text),
            };
            self.start_section(Section::Add);
            self.number(count(part));
            self.out.push_str(part);
            text = &text[part.len()..];
        }
    }

    /// Writes empty sections until `section` is the next one.
    fn start_section(&mut self, section: Section) {
        while self.next != section {
            self.number(0);
            self.next = self.next.next();
        }
        self.next = section.next();
    }

    fn number(&mut self, number: u32) {
        // Most significant digit first; seven digits are enough for every number.
        let mut digits = [0; 7];
        let mut at = digits.len();
        let mut rest = number;
        let mut base = b'a';
        loop {
            at -= 1;
            // A digit is below 26.
            digits[at] = base + (rest % RADIX) as u8;
            rest /= RADIX;
            base = b'A';
            if rest == 0 {
                break;
            }
        }
        self.out
            .extend(digits[at..].iter().map(|digit| char::from(*digit)));
    }
}

fn take_number(rest: &mut &str) -> Option<u32> {
    let mut number = 0_u32;
    for (at, digit) in rest.bytes().enumerate() {
        let (first, last) = match digit {
            b'A'..=b'Z' => (b'A', false),
            b'a'..=b'z' => (b'a', true),
            _ => return None,
        };
        number = number
            .checked_mul(RADIX)?
            .checked_add((digit - first).into())?;
        if last {
            *rest = &rest[at + 1..];
            return Some(number);
        }
    }
    None
}

/// Removes and returns the first `count` characters.
fn take<'a>(text: &mut &'a str, count: u32) -> Option<&'a str> {
    let count = count as usize;
    let at = match count {
        0 => 0,
        // The end of the last character; there are never more characters than bytes.
        _ if count > text.len() => return None,
        _ => text
            .char_indices()
            .nth(count - 1)
            .map(|(at, last)| at + last.len_utf8())?,
    };
    let (taken, rest) = text.split_at(at);
    *text = rest;
    Some(taken)
}

fn count(text: &str) -> u32 {
    u32::try_from(text.chars().count()).unwrap_or(u32::MAX)
}

/// Characters with two UTF-16 code units have four bytes in UTF-8.
fn has_wide_characters(text: &str) -> bool {
    text.bytes().fold(0, |max, byte| byte.max(max)) >= 0xf0
}

const RADIX: u32 = 26;

#[cfg(test)]
mod tests {
    use super::*;

    const FOX: &str = "The quick brown fox jumps over the lazy dog";

    fn diff(old: &str, new: &str) -> String {
        let mut out = String::new();
        assert!(push_tlcp_diff(&mut out, old, new, false, usize::MAX));
        out
    }

    fn portable(old: &str, new: &str) -> String {
        let mut out = String::new();
        assert!(push_tlcp_diff(&mut out, old, new, true, usize::MAX));
        out
    }

    #[test]
    fn numbers_are_plain_radix_26() {
        for (number, code) in [
            (0, "a"),
            (1, "b"),
            (25, "z"),
            (26, "Ba"),
            (27, "Bb"),
            (29, "Bd"),
            (35, "Bj"),
            (51, "Bz"),
            (52, "Ca"),
            (675, "Zz"),
            (676, "BAa"),
            (1000, "BMm"),
            (17575, "ZZz"),
            (17576, "BAAa"),
            (50000, "CVZc"),
            (u32::MAX, "NXMRLXv"),
        ] {
            let mut out = String::new();
            let mut writer = DiffWriter {
                out: &mut out,
                number_max: u32::MAX,
                next: Section::Copy,
            };
            writer.number(number);
            assert_eq!(out, code);
            assert_eq!(take_number(&mut out.as_str()), Some(number));
        }
        assert_eq!(take_number(&mut "ZZZZZZZz"), None);
    }

    #[test]
    fn decoding_matches_specification_vectors() {
        for (base, diff, expected) in [
            ("river", "f", Some("river")),
            ("river", "d", Some("riv")),
            ("river", "cdbed", Some("ribed")),
            ("gateway", "bdxyzdd", Some("gxyzway")),
            (
                FOX,
                "zaakgsleepyee",
                Some("The quick brown fox jumps over the sleepy dog"),
            ),
            (
                FOX,
                "Bjgsleepyee",
                Some("The quick brown fox jumps over the sleepy dog"),
            ),
            (FOX, "Bd", Some("The quick brown fox jumps ove")),
            ("price=10.5;qty=3", "hb1bi", Some("price=11.5;qty=3")),
            ("river", "aewideaf", Some("wideriver")),
            ("streaming", "cade", Some("stming")),
            ("abc", "a", Some("")),
            ("äöü", "bbéac", Some("äéöü")),
            ("river", "g", None),
            ("river", "bdab", None),
            ("river", "A", None),
            ("river", "", None),
            ("river", "b1", None),
        ] {
            assert_eq!(
                apply_tlcp_diff(base, diff).as_deref(),
                expected,
                "{base} {diff}"
            );
        }
    }

    #[test]
    fn encoding_matches_worked_examples() {
        // The reference does not use that both words end in y.
        assert_eq!(
            diff(FOX, "The quick brown fox jumps over the sleepy dog"),
            "Bjfsleepdf"
        );
        assert_eq!(diff(FOX, "The quick brown fox jumps ove"), "Bd");
        assert_eq!(diff("price=10.5;qty=3", "price=11.5;qty=3"), "hb1bi");
        assert_eq!(diff("gateway", "gxyzway"), "bdxyzdd");
        assert_eq!(diff("river", "wideriver"), "aewideaf");
        assert_eq!(diff("streaming", "stming"), "cade");
        assert_eq!(diff("abc", ""), "a");
        assert_eq!(
            portable(FOX, "The quick brown fox jumps over the sleepy dog"),
            "zaakfsleepdf"
        );
    }

    #[test]
    fn several_changes_are_encoded_separately() {
        let (a, b) = ("abcdefghij".repeat(6), "KLMNOPQRST".repeat(6));
        let old = format!("{a}one{b}two{a}");
        let new = format!("{a}1{b}zwei{a}");
        let short = diff(&old, &new);
        assert_eq!(apply_tlcp_diff(&old, &short), Some(new));
        assert!(short.len() < 30, "{short}");
    }

    #[test]
    fn wide_characters_and_long_diffs_are_rejected() {
        let mut out = String::from("x");
        assert!(!push_tlcp_diff(&mut out, "a😀", "b", false, usize::MAX));
        assert!(!push_tlcp_diff(&mut out, "a", "a😀", false, usize::MAX));
        assert!(!push_tlcp_diff(
            &mut out,
            "price=10.5;qty=3",
            "price=11.5;qty=3",
            false,
            4
        ));
        assert_eq!(out, "x");
        assert!(push_tlcp_diff(
            &mut out,
            "price=10.5;qty=3",
            "price=11.5;qty=3",
            false,
            5
        ));
    }
}
