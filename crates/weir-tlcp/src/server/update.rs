//! Encoding of `U` lines. The payload depends only on the previous and the new values, so sessions
//! that received the same values share its bytes. Prefix and line end are added per subscription.

use super::line::{push_line_end, write_numbers};
use crate::text::{push_number, push_value};

/// Minimum number of consecutive unchanged fields for which `^n` is shorter than empty tokens.
const RUN_LENGTH_MIN: usize = 4;

/// Appends `U,<sub_id>,<item_pos>,`; item positions start at 1.
pub fn push_update_prefix(out: &mut Vec<u8>, sub_id: u32, item_pos: u32) {
    out.extend_from_slice(b"U,");
    push_number(out, sub_id);
    out.push(b',');
    push_number(out, item_pos);
    out.push(b',');
}

/// Appends a `U` line with an encoded payload.
pub fn push_update(out: &mut Vec<u8>, sub_id: u32, item_pos: u32, payload: &[u8]) {
    push_update_prefix(out, sub_id, item_pos);
    out.extend_from_slice(payload);
    push_line_end(out);
}

/// Appends `EOS`, the end of an item's snapshot in modes DISTINCT and COMMAND.
pub fn push_end_of_snapshot(out: &mut Vec<u8>, sub_id: u32, item_pos: u32) {
    write_numbers(out, "EOS", &[sub_id.into(), item_pos.into()]);
}

/// Appends `CS`: the item is empty again; only in modes DISTINCT and COMMAND.
pub fn push_clear_snapshot(out: &mut Vec<u8>, sub_id: u32, item_pos: u32) {
    write_numbers(out, "CS", &[sub_id.into(), item_pos.into()]);
}

/// Appends `OV` after `lost` updates of an item were dropped.
pub fn push_overflow(out: &mut Vec<u8>, sub_id: u32, item_pos: u32, lost: u64) {
    write_numbers(out, "OV", &[sub_id.into(), item_pos.into(), lost]);
}

/// Appends a payload with all fields, as the first update of an item requires.
pub fn push_full_payload<'a>(out: &mut Vec<u8>, fields: impl IntoIterator<Item = Option<&'a str>>) {
    for (at, value) in fields.into_iter().enumerate() {
        if at > 0 {
            out.push(b'|');
        }
        push_value(out, value);
    }
}

/// Appends a payload relative to `previous`, the values last sent on the subscription for this
/// item. Returns `true` if any field changed.
///
/// In RAW and DISTINCT the line is sent even if nothing changed; in MERGE it is not. `previous`
/// must have as many fields as `new`; fields beyond its end count as changed.
pub fn push_delta_payload<'a, 'b>(
    out: &mut Vec<u8>,
    previous: impl IntoIterator<Item = Option<&'a str>>,
    new: impl IntoIterator<Item = Option<&'b str>>,
) -> bool {
    push_delta_payload_by(out, previous, new, |out, _, _, value| {
        push_value(out, value)
    })
}

/// Appends a payload as [`push_delta_payload`] does, but `push` appends the token of each changed
/// field. It is called with the field's position from 0, its previous value and its new value.
pub fn push_delta_payload_by<'a, 'b>(
    out: &mut Vec<u8>,
    previous: impl IntoIterator<Item = Option<&'a str>>,
    new: impl IntoIterator<Item = Option<&'b str>>,
    mut push: impl FnMut(&mut Vec<u8>, usize, Option<&'a str>, Option<&'b str>),
) -> bool {
    let mut previous = previous.into_iter();
    let mut tokens = TokenWriter { out, first: true };
    let mut unchanged = 0;
    let mut changed = false;
    for (field, value) in new.into_iter().enumerate() {
        let before = previous.next();
        if before == Some(value) {
            unchanged += 1;
        } else {
            tokens.push_unchanged(unchanged);
            unchanged = 0;
            tokens.separate();
            push(tokens.out, field, before.flatten(), value);
            changed = true;
        }
    }
    tokens.push_unchanged(unchanged);
    changed
}

/// Writer of tokens and separators.
struct TokenWriter<'a> {
    out: &'a mut Vec<u8>,
    first: bool,
}

impl TokenWriter<'_> {
    fn separate(&mut self) {
        if !std::mem::take(&mut self.first) {
            self.out.push(b'|');
        }
    }

    fn push_unchanged(&mut self, fields: usize) {
        if fields < RUN_LENGTH_MIN {
            (0..fields).for_each(|_| self.separate());
        } else {
            self.separate();
            self.out.push(b'^');
            push_number(self.out, fields);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(previous: Option<&[Option<&str>]>, new: &[Option<&str>]) -> (String, bool) {
        let mut payload = Vec::new();
        let changed = match previous {
            None => {
                push_full_payload(&mut payload, new.iter().copied());
                true
            }
            Some(old) => push_delta_payload(&mut payload, old.iter().copied(), new.iter().copied()),
        };
        let mut out = Vec::new();
        push_update(&mut out, 1, 1, &payload);
        (String::from_utf8(out).expect("UTF-8"), changed)
    }

    fn texts<const N: usize>(texts: [&str; N]) -> [Option<&str>; N] {
        texts.map(Some)
    }

    #[test]
    fn first_update_contains_all_fields() {
        assert_eq!(
            line(None, &[Some("1"), Some(""), None]).0,
            "U,1,1,1|$|#\r\n"
        );
        assert_eq!(
            line(None, &texts(["1", "a|b%c", r#"{"k":1}"#, "The lazy dog"])).0,
            "U,1,1,1|a%7Cb%25c|{\"k\":1}|The lazy dog\r\n"
        );
    }

    #[test]
    fn deltas_match_specification_vectors() {
        let same = [Some("1"), Some(""), None];
        assert_eq!(line(Some(&same), &same), ("U,1,1,||\r\n".into(), false));
        let five = texts(["a", "b", "c", "d", "e"]);
        for (new, expected) in [
            (["a", "b", "c", "d", "f"], "U,1,1,^4|f\r\n"),
            (["x", "b", "c", "d", "e"], "U,1,1,x|^4\r\n"),
            (["a", "x", "c", "d", "e"], "U,1,1,|x|||\r\n"),
        ] {
            assert_eq!(line(Some(&five), &texts(new)), (expected.into(), true));
        }
        assert_eq!(line(Some(&five), &five), ("U,1,1,^5\r\n".into(), false));
        let three = texts(["a", "b", "c"]);
        assert_eq!(
            line(Some(&three), &texts(["a", "x", "c"])).0,
            "U,1,1,|x|\r\n"
        );
        for (new, expected) in [
            ("^P[]", "U,1,1,%5EP[]\r\n"),
            ("50%|#1", "U,1,1,50%25%7C#1\r\n"),
            ("#1", "U,1,1,%231\r\n"),
            ("x", "U,1,1,\r\n"),
        ] {
            assert_eq!(line(Some(&[Some("x")]), &[Some(new)]).0, expected);
        }
    }

    #[test]
    fn worked_example_of_chapter_10() {
        let one = texts(["1", "a|b%c", r#"{"k":1}"#, "The lazy dog"]);
        let two = [Some("2"), one[1], one[2], one[3]];
        let three = [Some("3"), None, None, Some("")];
        let four = texts(["4", "#x", "$", "^3"]);
        let five = [four[0], Some("two\r\nlines"), four[2], four[3]];
        assert_eq!(line(Some(&one), &two).0, "U,1,1,2|||\r\n");
        assert_eq!(line(Some(&two), &three).0, "U,1,1,3|#|#|$\r\n");
        assert_eq!(line(Some(&three), &four).0, "U,1,1,4|%23x|%24|%5E3\r\n");
        assert_eq!(line(Some(&four), &five).0, "U,1,1,|two%0D%0Alines||\r\n");
    }

    #[test]
    fn null_and_empty_values_differ() {
        assert_eq!(
            line(Some(&[None]), &[Some("")]),
            ("U,1,1,$\r\n".into(), true)
        );
        assert_eq!(
            line(Some(&[Some("")]), &[None]),
            ("U,1,1,#\r\n".into(), true)
        );
    }

    #[test]
    fn payload_with_many_fields_is_encoded() {
        let old = vec![Some("v"); 5000];
        let mut new = old.clone();
        new[4000] = Some("w");
        assert_eq!(line(Some(&old), &new).0, "U,1,1,^4000|w|^999\r\n");
    }
}
