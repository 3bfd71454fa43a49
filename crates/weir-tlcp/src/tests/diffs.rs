//! Properties of diffs over random documents and texts. Another library applies the patches too,
//! because the crate's JSON parser is used both to compute and to apply them.

use crate::diff::DiffFormat::{JsonPatch, TlcpDiff};
use crate::diff::push_json_patch;
use crate::fuzz;
use proptest::prelude::*;
use serde_json::Value;

/// A JSON text in parts; objects may have duplicate names.
#[derive(Clone, Debug)]
enum Json {
    Scalar(String),
    Array(Vec<Self>),
    Object(Vec<(String, Self)>),
}

const NAMES: [&str; 14] = [
    "a",
    "b",
    "c",
    "long name",
    "a/b",
    "~",
    "~1",
    "é",
    "1",
    "2",
    "10",
    "\\u0041",
    "__proto__",
    "",
];

const SCALARS: [&str; 18] = [
    "0",
    "1",
    "-7",
    "2147483647",
    "0.5",
    "-10.25",
    "1.0",
    "1e3",
    "9007199254740993",
    "true",
    "false",
    "null",
    "\"\"",
    "\"text\"",
    "\"a much longer text | 100%\"",
    "\"é😀\"",
    "\"\\n\\u00e9\\\"\"",
    "\"x\"",
];

/// Selects mostly names and scalars that patches support.
fn pick<const N: usize>(from: [&'static str; N], usual: usize) -> impl Strategy<Value = String> {
    let at = prop_oneof![20 => 0..usual, 1 => 0..N];
    at.prop_map(move |at| from[at].to_owned())
}

fn json() -> impl Strategy<Value = Json> {
    let name = || pick(NAMES, 8);
    let scalar = pick(SCALARS, 6).prop_map(Json::Scalar);
    scalar.prop_recursive(4, 40, 6, move |inner| {
        let unique = |mut members: Vec<(String, Json)>| {
            let mut seen = Vec::new();
            members.retain(|(name, _)| {
                let is_new = !seen.contains(name);
                seen.push(name.clone());
                is_new
            });
            Json::Object(members)
        };
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Json::Array),
            prop::collection::vec((name(), inner.clone()), 0..6).prop_map(unique),
            prop::collection::vec((name(), inner), 0..3).prop_map(Json::Object),
        ]
    })
}

impl Json {
    /// Changes some parts, selected by `choices`.
    fn edit(&mut self, choices: &mut impl Iterator<Item = u8>, other: &Self) {
        let mut next = || choices.next().unwrap_or(255);
        match (next(), &mut *self) {
            (0..=20, _) => *self = other.clone(),
            (21..=50, Self::Array(elements)) => {
                elements.insert(elements.len().min(next().into()), other.clone());
            }
            (51..=70, Self::Array(elements)) if !elements.is_empty() => {
                elements.remove(usize::from(next()) % elements.len());
            }
            (21..=50, Self::Object(members)) => {
                let name = NAMES[usize::from(next()) % 8];
                if !members.iter().any(|(found, _)| found == name) {
                    members.insert(
                        members.len().min(next().into()),
                        (name.to_owned(), other.clone()),
                    );
                }
            }
            (51..=70, Self::Object(members)) if !members.is_empty() => {
                members.remove(usize::from(next()) % members.len());
            }
            (71..=80, Self::Object(members)) => members.reverse(),
            (81..=200, Self::Array(elements)) => {
                elements
                    .iter_mut()
                    .for_each(|element| element.edit(choices, other));
            }
            (81..=200, Self::Object(members)) => {
                members
                    .iter_mut()
                    .for_each(|(_, value)| value.edit(choices, other));
            }
            _ => {}
        }
    }

    fn text(&self, space: &str) -> String {
        let joined = |parts: Vec<String>| parts.join(&format!("{space},{space}"));
        match self {
            Self::Scalar(text) => text.clone(),
            Self::Array(elements) => {
                let parts = elements.iter().map(|element| element.text(space));
                format!("[{space}{}]", joined(parts.collect()))
            }
            Self::Object(members) => {
                let part = |(name, value): &(String, Self)| {
                    format!("\"{name}\"{space}:{space}{}", value.text(space))
                };
                format!("{{{}{space}}}", joined(members.iter().map(part).collect()))
            }
        }
    }
}

/// Generates two similar documents as texts.
fn documents() -> impl Strategy<Value = (String, String)> {
    let choices = prop::collection::vec(any::<u8>(), 0..40);
    let space = || prop::sample::select(vec!["", "", " ", "\n  "]);
    (json(), json(), choices, space(), space()).prop_map(|(old, other, choices, before, after)| {
        let mut new = old.clone();
        new.edit(&mut choices.into_iter(), &other);
        (old.text(before), new.text(after))
    })
}

fn both(old: &str, new: &str) -> Vec<u8> {
    [old.as_bytes(), &[0xff], new.as_bytes()].concat()
}

/// Generates two texts that have much in common.
fn texts() -> impl Strategy<Value = (String, String)> {
    let piece = || prop_oneof!["[a-c]{0,30}", "[a-zé€|%]{0,60}", "[a-z😀]{0,3}"];
    (piece(), piece(), piece(), piece(), piece())
        .prop_map(|(a, b, c, x, y)| (format!("{a}{b}{c}"), format!("{a}{x}{b}{y}{c}{a}")))
}

proptest! {
    #[test]
    fn patches_produce_new_document((old, new) in documents()) {
        let Some(patch) = fuzz::json_patch(&both(&old, &new)) else {
            return Ok(());
        };
        let value = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        let operations: json_patch::Patch = serde_json::from_str(&patch).expect("a patch");
        for operation in &operations.0 {
            prop_assert!(matches!(
                operation,
                json_patch::PatchOperation::Add(_)
                    | json_patch::PatchOperation::Remove(_)
                    | json_patch::PatchOperation::Replace(_)
            ));
        }
        let mut document = value(&old);
        json_patch::patch(&mut document, &operations).expect("patch applies");
        prop_assert_eq!(document, value(&new));
    }

    #[test]
    fn diffs_produce_new_text((old, new) in texts()) {
        fuzz::tlcp_diff(&both(&old, &new));
    }

    #[test]
    fn random_diffs_never_panic(base in "[a-z]{0,20}", diff in "[A-Za-e]{0,8}[a-zé]{0,8}") {
        fuzz::tlcp_diff(&both(&base, &diff));
    }

    #[test]
    fn random_patches_never_panic(base in json(), patch in prop::collection::vec(
        (
            prop::sample::select(vec!["add", "remove", "replace", "test", "x"]),
            "(/(a|b|c|0|1|-|a~1b|~0|~)){0,3}",
            json(),
        ),
        0..4,
    )) {
        let operation = |(op, path, value): (&str, String, Json)| {
            format!(r#"{{"op":"{op}","path":"{path}","value":{}}}"#, value.text(""))
        };
        let patch: Vec<_> = patch.into_iter().map(operation).collect();
        fuzz::json_patch(&both(&base.text(""), &format!("[{}]", patch.join(","))));
    }

    #[test]
    fn sent_diffs_can_be_applied(
        documents in prop::collection::vec(documents(), 1..4),
        texts in prop::collection::vec(texts(), 1..3),
        null: bool,
        order in prop::sample::select(vec![
            vec![JsonPatch], vec![TlcpDiff], vec![JsonPatch, TlcpDiff], vec![TlcpDiff, JsonPatch],
        ]),
        portable: bool,
    ) {
        let mut values: Vec<String> = Vec::new();
        for (old, new) in documents.into_iter().chain(texts) {
            values.extend([old, new]);
        }
        let mut data: Vec<Vec<u8>> = values.into_iter().map(String::into_bytes).collect();
        if null {
            data.insert(1, vec![0xfe]);
        }
        fuzz::diffs(&data.join(&0xff), &order, portable);
    }
}

/// Changes in large objects: names are compared in linear time, and the patches are small.
#[test]
fn wide_documents_have_small_patches() {
    let members = |changed: usize| {
        let member = |at| format!(r#""m{at}":{}"#, if at == changed { 0 } else { at });
        (0..2000).map(member).collect::<Vec<_>>().join(",")
    };
    let (old, new) = (
        format!("{{{}}}", members(5000)),
        format!("{{{}}}", members(1234)),
    );
    let mut patch = String::new();
    assert!(push_json_patch(&mut patch, &old, &new, 100));
    assert_eq!(patch, r#"[{"op":"replace","path":"/m1234","value":0}]"#);
}
