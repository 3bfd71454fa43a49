//! Applies a JSON Patch to a JSON text, as clients do.

use std::borrow::Cow;

use super::document::{Document, JsonNodeType};

/// Applies the operations of `patch` (RFC 6902) to `base`. Returns the result without white space
/// between tokens. Returns `None` if one of them is not JSON, a path does not exist, or an
/// operation is not `add`, `remove` or `replace`.
///
/// Members keep their order; added ones are last. Numbers and strings are copied as written.
pub fn apply_json_patch(base: &str, patch: &str) -> Option<String> {
    let (base, patch) = (Document::parse(base)?, Document::parse(patch)?);
    (patch.nodes[0].kind == JsonNodeType::Array).then_some(())?;
    let mut root = Tree::of(&base, 0);
    for operation in patch.children(0) {
        let operation = Operation::read(&patch, operation)?;
        // The empty path denotes the whole document, which can be replaced but not removed.
        if operation.path.is_empty() {
            root = operation.value?;
            continue;
        }
        let (parent, name) = operation.path.rsplit_once('/')?;
        root.at(parent)?
            .change(operation.kind, &path_segment(name), operation.value)?;
    }
    let mut out = String::with_capacity(base.text.len());
    root.push(&mut out);
    Some(out)
}

/// A JSON value that can be changed.
enum Tree<'a> {
    /// A value as written.
    Scalar(&'a str),
    Array(Vec<Self>),
    /// Members; names are as written, without quotes.
    Object(Vec<(Cow<'a, str>, Self)>),
}

/// Kind of an operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonEdit {
    Add,
    Remove,
    Replace,
}

struct Operation<'a> {
    kind: JsonEdit,
    /// JSON Pointer (RFC 6901).
    path: Cow<'a, str>,
    value: Option<Tree<'a>>,
}

impl<'a> Operation<'a> {
    /// Returns the operation at a node of the patch, or `None` if it is invalid.
    fn read(patch: &Document<'a>, node: u32) -> Option<Self> {
        (patch.nodes[node as usize].kind == JsonNodeType::Object).then_some(())?;
        let member = |name| {
            patch
                .children(node)
                .find(|member| patch.name(*member) == name)
        };
        let text = |name| unquoted(patch.value(member(name)?));
        let kind = match text("op")?.as_ref() {
            "add" => JsonEdit::Add,
            "remove" => JsonEdit::Remove,
            "replace" => JsonEdit::Replace,
            _ => return None,
        };
        let value = member("value").map(|value| Tree::of(patch, value));
        (value.is_some() || kind == JsonEdit::Remove).then_some(Self {
            kind,
            path: text("path")?,
            value,
        })
    }
}

impl<'a> Tree<'a> {
    /// Copies the value at a node of a document.
    fn of(document: &Document<'a>, node: u32) -> Self {
        let children = document.children(node);
        match document.nodes[node as usize].kind {
            JsonNodeType::Scalar => Self::Scalar(document.value(node)),
            JsonNodeType::Array => {
                Self::Array(children.map(|child| Self::of(document, child)).collect())
            }
            JsonNodeType::Object => {
                let member = |child| (document.name(child).into(), Self::of(document, child));
                Self::Object(children.map(member).collect())
            }
        }
    }

    /// Returns the value at a path below this one.
    fn at(&mut self, path: &str) -> Option<&mut Self> {
        let mut value = self;
        for name in path.split('/').skip(1) {
            let name = path_segment(name);
            value = match value {
                Self::Scalar(_) => return None,
                Self::Array(elements) => elements.get_mut(index(&name)?)?,
                Self::Object(members) => members
                    .iter_mut()
                    .find(|(found, _)| is_name(found, &name))
                    .map(|(_, value)| value)?,
            };
        }
        Some(value)
    }

    /// Changes the element or member `name` of this value.
    fn change(&mut self, kind: JsonEdit, name: &str, value: Option<Self>) -> Option<()> {
        match self {
            Self::Scalar(_) => return None,
            Self::Array(elements) => {
                let at = match name {
                    "-" => elements.len(),
                    number => index(number)?,
                };
                let limit = elements.len() + usize::from(kind == JsonEdit::Add);
                (at < limit).then_some(())?;
                match kind {
                    JsonEdit::Add => elements.insert(at, value?),
                    JsonEdit::Remove => drop(elements.remove(at)),
                    JsonEdit::Replace => elements[at] = value?,
                }
            }
            Self::Object(members) => {
                let found = members.iter().position(|(found, _)| is_name(found, name));
                match (kind, found) {
                    (JsonEdit::Add | JsonEdit::Replace, Some(at)) => members[at].1 = value?,
                    (JsonEdit::Add, None) => members.push((escaped(name).into(), value?)),
                    (JsonEdit::Remove, Some(at)) => drop(members.remove(at)),
                    (JsonEdit::Remove | JsonEdit::Replace, None) => return None,
                }
            }
        }
        Some(())
    }

    /// Appends the value as JSON.
    fn push(&self, out: &mut String) {
        match self {
            Self::Scalar(text) => out.push_str(text),
            Self::Array(elements) => {
                out.push('[');
                for (at, element) in elements.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    element.push(out);
                }
                out.push(']');
            }
            Self::Object(members) => {
                out.push('{');
                for (at, (name, value)) in members.iter().enumerate() {
                    out.push_str(if at > 0 { ",\"" } else { "\"" });
                    out.push_str(name);
                    out.push_str("\":");
                    value.push(out);
                }
                out.push('}');
            }
        }
    }
}

/// Decodes the escapes of one segment of a path.
fn path_segment(name: &str) -> Cow<'_, str> {
    match name.contains('~') {
        false => name.into(),
        true => name.replace("~1", "/").replace("~0", "~").into(),
    }
}

/// Returns the array index that a segment of a path denotes; leading zeros and signs are invalid.
fn index(path_segment: &str) -> Option<usize> {
    let is_canonical = path_segment == "0" || !path_segment.starts_with(['0', '+']);
    is_canonical.then(|| path_segment.parse().ok())?
}

/// Returns `true` if a name as written equals `name`.
fn is_name(written: &str, name: &str) -> bool {
    match written.contains('\\') {
        false => written == name,
        true => unescaped(written).is_some_and(|written| written == name),
    }
}

/// Returns the content of a JSON string, without quotes and escapes.
fn unquoted(text: &str) -> Option<Cow<'_, str>> {
    let inside = text.strip_prefix('"')?.strip_suffix('"')?;
    match inside.contains('\\') {
        false => Some(inside.into()),
        true => unescaped(inside).map(Cow::Owned),
    }
}

/// Decodes the escapes of a JSON string. Returns `None` if a `\u` escape is invalid.
fn unescaped(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut units = Vec::new();
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let kind = escape.chars().next()?;
        rest = &escape[kind.len_utf8()..];
        match kind {
            'b' => out.push('\u{8}'),
            'f' => out.push('\u{c}'),
            'n' => out.push('\n'),
            'r' => out.push('\r'),
            't' => out.push('\t'),
            'u' => {
                units.push(u16::from_str_radix(rest.get(..4)?, 16).ok()?);
                rest = &rest[4..];
                // A high surrogate waits for the low one.
                if !(0xd800..0xdc00).contains(units.last()?) {
                    out.push_str(&String::from_utf16(&units).ok()?);
                    units.clear();
                }
            }
            other => out.push(other),
        }
    }
    out.push_str(rest);
    Some(out)
}

/// Returns a text with the escapes of a JSON string, without quotes.
fn escaped(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for character in name.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            control @ '\0'..='\u{1f}' => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_match_rfc_6902() {
        for (base, patch, expected) in [
            (
                r#"{"k":1, "l":[1,2],"s":"x y"}"#,
                concat!(
                    r#"[{"op":"replace","path":"/k","value":2},"#,
                    r#"{"op":"add","path":"/l/-","value":"x|y"}]"#
                ),
                r#"{"k":2,"l":[1,2,"x|y"],"s":"x y"}"#,
            ),
            (r#"{"a":1.50}"#, "[]", r#"{"a":1.50}"#),
            (
                r#"{"a":[1,3],"b":0}"#,
                r#"[{"op":"add","path":"/a/1","value":2},{"op":"remove","path":"/b"}]"#,
                r#"{"a":[1,2,3]}"#,
            ),
            (
                r#"{"a":1,"b":2}"#,
                r#"[{"op":"add","path":"/a","value":{"c":[]}}]"#,
                r#"{"a":{"c":[]},"b":2}"#,
            ),
            (
                r#"{"a/b":0,"c~d":{"\u00e9\ud83d\ude00":1}}"#,
                concat!(
                    r#"[{"op":"replace","path":"/a~1b","value":1},"#,
                    r#"{"op":"remove","path":"/c~0d/é😀"},"#,
                    r#"{"path":"/q\"","op":"add","value":null}]"#
                ),
                r#"{"a/b":1,"c~d":{},"q\"":null}"#,
            ),
            ("[1]", r#"[{"op":"replace","path":"","value":{}}]"#, "{}"),
        ] {
            assert_eq!(
                apply_json_patch(base, patch).as_deref(),
                Some(expected),
                "{patch}"
            );
        }
    }

    #[test]
    fn invalid_patches_are_rejected() {
        for patch in [
            "",
            "{}",
            "[1]",
            r#"[{"op":"replace","path":"/x","value":1}]"#,
            r#"[{"op":"remove","path":"/x"}]"#,
            r#"[{"op":"remove","path":""}]"#,
            r#"[{"op":"remove","path":"a"}]"#,
            r#"[{"op":"add","path":"/a"}]"#,
            r#"[{"op":"add","path":"/l/3","value":0}]"#,
            r#"[{"op":"add","path":"/l/01","value":0}]"#,
            r#"[{"op":"replace","path":"/l/-","value":0}]"#,
            r#"[{"op":"add","path":"/a/b","value":0}]"#,
            r#"[{"op":"test","path":"/a","value":1}]"#,
        ] {
            assert_eq!(
                apply_json_patch(r#"{"a":1,"l":[1,2]}"#, patch),
                None,
                "{patch}"
            );
        }
        assert_eq!(apply_json_patch("text", "[]"), None);
    }
}
