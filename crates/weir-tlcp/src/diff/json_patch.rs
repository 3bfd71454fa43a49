//! Computes a JSON Patch (RFC 6902) between two JSON texts, with `add`, `remove` and `replace`.

use super::document::{Document, JsonNodeType};

/// Appends the patch from `old` to `new`, both JSON texts, and returns `true`. Returns `false` and
/// leaves `out` unchanged if there is no patch of at most `bytes_max` bytes.
///
/// A client that has parsed `old` and applies the patch gets the value of `new`: the same members
/// in the same order, equal strings, and numbers that all libraries write as in `new`. Only white
/// space and escapes may differ. There is no patch
///
/// * if a text is not JSON, or is only a string, a number or a literal;
/// * if an object has duplicate names, an order that JavaScript would change, or a name that is
///   empty, escaped or special in JavaScript;
/// * if `new` contains a number that a double does not preserve (`1.50`, `1e9`, 2^53).
pub fn push_json_patch(out: &mut String, old: &str, new: &str, bytes_max: usize) -> bool {
    let (Some(old), Some(new)) = (Document::parse(old), Document::parse(new)) else {
        return false;
    };
    let kind = |document: &Document<'_>| document.nodes[0].kind;
    if !(old.patchable() && new.patchable() && new.numbers_fit()) || kind(&old) != kind(&new) {
        return false;
    }
    let start = out.len();
    let mut writer = PatchWriter {
        old: &old,
        new: &new,
        end_max: start.saturating_add(bytes_max),
        first: true,
        path: String::new(),
        out,
    };
    writer.out.push('[');
    let fits = writer.inside(0, 0).is_some();
    out.push(']');
    if !fits || out.len() - start > bytes_max {
        out.truncate(start);
        return false;
    }
    true
}

struct PatchWriter<'a> {
    old: &'a Document<'a>,
    new: &'a Document<'a>,
    /// Length of `out` at which writing stops.
    end_max: usize,
    first: bool,
    /// Path of the current value.
    path: String,
    out: &'a mut String,
}

impl PatchWriter<'_> {
    /// Writes the operations for two values at the same path. Returns `None` if they are too long.
    fn value(&mut self, old: u32, new: u32) -> Option<()> {
        if self.old.value(old) == self.new.value(new) {
            return Some(());
        }
        let kind = self.old.nodes[old as usize].kind;
        if kind == JsonNodeType::Scalar || kind != self.new.nodes[new as usize].kind {
            return self.replace(new);
        }
        let (at, first, path) = (self.out.len(), self.first, self.path.len());
        let fits = self.inside(old, new).is_some();
        self.path.truncate(path);
        // If most nested values have changed, replacing the whole value is shorter.
        let whole = REPLACE_BYTES + path + self.new.value(new).len();
        if fits && self.out.len() - at <= whole {
            return Some(());
        }
        self.out.truncate(at);
        self.first = first;
        self.replace(new)
    }

    fn inside(&mut self, old: u32, new: u32) -> Option<()> {
        match self.old.nodes[old as usize].kind {
            JsonNodeType::Object => self.object(old, new),
            JsonNodeType::Array => self.array(old, new),
            JsonNodeType::Scalar => Some(()),
        }
    }

    /// Clients keep remaining members in their order and append added ones. So each old member is
    /// either the next new one or removed, and the remaining new ones are added.
    fn object(&mut self, old: u32, new: u32) -> Option<()> {
        let (before, after) = (self.old, self.new);
        let mut added = after.children(new).peekable();
        let length = self.path.len();
        for member in before.children(old) {
            let name = before.name(member);
            self.enter_name(name);
            match added.next_if(|next| after.name(*next) == name) {
                Some(next) => self.value(member, next)?,
                None => self.remove()?,
            }
            self.path.truncate(length);
        }
        for member in added {
            self.enter_name(after.name(member));
            self.add(member)?;
            self.path.truncate(length);
        }
        Some(())
    }

    /// Elements that are equal at the start and at the end are kept; those in between are compared
    /// one by one.
    fn array(&mut self, old: u32, new: u32) -> Option<()> {
        let (before, after) = (self.old, self.new);
        let olds: Vec<u32> = before.children(old).collect();
        let news: Vec<u32> = after.children(new).collect();
        let same = |(old, new): &(&u32, &u32)| before.value(**old) == after.value(**new);
        let head = olds.iter().zip(&news).take_while(same).count();
        let ends = olds[head..].iter().rev().zip(news[head..].iter().rev());
        let tail = ends.take_while(same).count();
        let (olds, news) = (
            &olds[head..olds.len() - tail],
            &news[head..news.len() - tail],
        );
        let length = self.path.len();
        let both = olds.len().min(news.len());
        for (at, (&old, &new)) in olds.iter().zip(news).enumerate() {
            self.enter_index(head + at);
            self.value(old, new)?;
            self.path.truncate(length);
        }
        for at in (both..olds.len()).rev() {
            self.enter_index(head + at);
            self.remove()?;
            self.path.truncate(length);
        }
        for (at, &new) in news.iter().enumerate().skip(both) {
            self.enter_index(head + at);
            self.add(new)?;
            self.path.truncate(length);
        }
        Some(())
    }

    fn enter_name(&mut self, name: &str) {
        self.path.push('/');
        for character in name.chars() {
            match character {
                '~' => self.path.push_str("~0"),
                '/' => self.path.push_str("~1"),
                other => self.path.push(other),
            }
        }
    }

    fn enter_index(&mut self, index: usize) {
        self.path.push('/');
        self.path.push_str(itoa::Buffer::new().format(index));
    }

    fn replace(&mut self, new: u32) -> Option<()> {
        self.operation("replace", Some(new))
    }

    fn add(&mut self, new: u32) -> Option<()> {
        self.operation("add", Some(new))
    }

    fn remove(&mut self) -> Option<()> {
        self.operation("remove", None)
    }

    fn operation(&mut self, name: &str, value: Option<u32>) -> Option<()> {
        if !std::mem::take(&mut self.first) {
            self.out.push(',');
        }
        for piece in ["{\"op\":\"", name, "\",\"path\":\"", &self.path, "\""] {
            self.out.push_str(piece);
        }
        if let Some(value) = value {
            self.out.push_str(",\"value\":");
            self.new.push_compact(value, self.out);
        }
        self.out.push('}');
        (self.out.len() < self.end_max).then_some(())
    }
}

/// Bytes of `{"op":"replace","path":"","value":}`.
const REPLACE_BYTES: usize = 35;

#[cfg(test)]
mod tests {
    use super::*;

    fn patch(old: &str, new: &str) -> Option<String> {
        let mut out = String::new();
        push_json_patch(&mut out, old, new, 10_000).then_some(out)
    }

    #[test]
    fn patch_contains_only_changes() {
        for (old, new, expected) in [
            (
                r#"{"k":1}"#,
                r#"{"k":2}"#,
                r#"[{"op":"replace","path":"/k","value":2}]"#,
            ),
            (
                r#"{"k":1,"l":[1,2],"s":"x y"}"#,
                r#"{"k":2,"l":[1,2,"x|y"],"s":"x y"}"#,
                concat!(
                    r#"[{"op":"replace","path":"/k","value":2},"#,
                    r#"{"op":"add","path":"/l/2","value":"x|y"}]"#
                ),
            ),
            (
                r#"{"a":1,"b":2,"c":3}"#,
                r#"{"a":1,"c":3,"d":[ 4 ]}"#,
                r#"[{"op":"remove","path":"/b"},{"op":"add","path":"/d","value":[4]}]"#,
            ),
            (
                r#"[0,1,2,3,4]"#,
                r#"[0,9,4]"#,
                concat!(
                    r#"[{"op":"replace","path":"/1","value":9},"#,
                    r#"{"op":"remove","path":"/3"},{"op":"remove","path":"/2"}]"#
                ),
            ),
            (
                r#"{"a/b":{"c~d":[{"é":1}]}}"#,
                r#"{"a/b":{"c~d":[{"é":2}]}}"#,
                r#"[{"op":"replace","path":"/a~1b/c~0d/0/é","value":2}]"#,
            ),
            (
                r#"{"a":{"b":1}}"#,
                r#"{"a":[1]}"#,
                r#"[{"op":"replace","path":"/a","value":[1]}]"#,
            ),
            (r#"{"a": 1}"#, r#"{"a":1}"#, "[]"),
        ] {
            assert_eq!(patch(old, new).as_deref(), Some(expected), "{old} {new}");
        }
    }

    #[test]
    fn members_keep_new_order() {
        let expected = r#"[{"op":"remove","path":"/a"},{"op":"add","path":"/a","value":1}]"#;
        let (old, new) = (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#);
        assert_eq!(patch(old, new).as_deref(), Some(expected));
    }

    #[test]
    fn completely_changed_value_is_replaced() {
        let (old, new) = (r#"{"s":0,"a":[1,2,3]}"#, r#"{"s":0,"a":[4,5,6]}"#);
        let expected = r#"[{"op":"replace","path":"/a","value":[4,5,6]}]"#;
        assert_eq!(patch(old, new).as_deref(), Some(expected));
    }

    #[test]
    fn unreproducible_values_have_no_patch() {
        for (old, new) in [
            (r#"{"a":1}"#, r#"{"a":1.50}"#),
            (r#"{"a":1,"b":1.0}"#, r#"{"a":2,"b":1.0}"#),
            (r#"{"a":1,"a":1}"#, r#"{"a":2}"#),
            (r#"{"a":1}"#, r#"{"a":1,"a":2}"#),
            (r#"{"a":1}"#, r#"{"a":1,"1":2}"#),
            (r#"{"a":1}"#, r#"[1]"#),
            (r#"{"a":1}"#, "12"),
            ("12", "13"),
            (r#""x""#, r#""y""#),
            ("{}", "{"),
            ("text", "{}"),
        ] {
            assert_eq!(patch(old, new), None, "{old} {new}");
        }
    }

    #[test]
    fn patch_over_limit_leaves_output_unchanged() {
        let expected = r#"[{"op":"replace","path":"/k","value":2}]"#;
        let mut out = String::from("x");
        let (old, new) = (r#"{"k":1}"#, r#"{"k":2}"#);
        assert!(!push_json_patch(&mut out, old, new, expected.len() - 1));
        assert_eq!(out, "x");
        assert!(push_json_patch(&mut out, old, new, expected.len()));
        assert_eq!(&out[1..], expected);
    }

    #[test]
    fn replace_bytes_matches_output() {
        assert_eq!(
            r#"{"op":"replace","path":"","value":}"#.len(),
            REPLACE_BYTES
        );
    }
}
