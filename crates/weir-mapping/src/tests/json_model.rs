//! JSON keys and values compared with a model, the tree of `serde_json`.

use std::sync::Arc;

use std::fmt::Write;

use weir_formats::expression::{Expression, PathStep};

use super::common::{mapping, record, values};
use crate::{Mapping, fuzz};
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

const NAMES: [&str; 8] = [
    "a",
    "b",
    "ab",
    "x y",
    "é😀",
    "q\"\\",
    "",
    "long name with many characters",
];

fn value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(NAMES.to_vec()).prop_map(Value::from),
        "\\PC{0,80}".prop_map(Value::from),
        "[\"\\\\,{}\\[\\]\u{0}\u{1f}\n€a]{0,40}".prop_map(Value::from),
    ];
    scalar.prop_recursive(5, 200, 40, |inner| {
        let name = prop::sample::select(NAMES.to_vec()).prop_map(str::to_owned);
        prop_oneof![
            vec(inner.clone(), 0..40).prop_map(Value::from),
            vec((name, inner), 0..9)
                .prop_map(|members| { Value::Object(members.into_iter().collect()) }),
        ]
    })
}

/// Ways to write a document.
#[derive(Debug, Clone, Copy)]
enum Style {
    Compact,
    Pretty,
    Escaped,
}

fn style() -> impl Strategy<Value = Style> {
    prop::sample::select(vec![Style::Compact, Style::Pretty, Style::Escaped])
}

fn write(value: &Value, style: Style) -> String {
    match style {
        Style::Compact => value.to_string(),
        Style::Pretty => serde_json::to_string_pretty(value).expect("serializable"),
        // Writes every non-ASCII character and every letter a as an escape sequence.
        Style::Escaped => value.to_string().chars().fold(String::new(), |mut out, c| {
            if c.is_ascii() && c != 'b' || value.to_string().contains("\\b") {
                out.push(c);
                return out;
            }
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(out, "\\u{unit:04x}");
            }
            out
        }),
    }
}

/// Generates paths that exist in most documents.
fn path() -> impl Strategy<Value = String> {
    let step = prop_oneof![
        prop::sample::select(vec![
            ".a",
            ".b",
            ".ab",
            ".x y",
            ".é😀",
            "['q\"\\']",
            "['']",
            "['z']"
        ])
        .prop_map(str::to_owned),
        (0_u32..45).prop_map(|index| format!("[{index}]")),
    ];
    vec(step, 0..5).prop_map(|steps| format!("VALUE{}", steps.concat()))
}

/// Returns the text that the connector produces for a node of a tree.
fn model(root: &Value, expression: &Expression) -> Result<Option<String>, String> {
    let mut at = root;
    for step in expression.steps() {
        at = match (step, at) {
            (PathStep::Member(name), Value::Object(members)) => members
                .get(&**name)
                .ok_or_else(|| format!("field [{name}] not found"))?,
            (PathStep::Member(name), Value::Array(_)) => {
                return Err(format!(
                    "cannot retrieve field [{name}] from an array object"
                ));
            }
            (PathStep::Member(name), Value::Null) => {
                return Err(format!("cannot retrieve field [{name}] from a null object"));
            }
            (PathStep::Member(name), _) => {
                return Err(format!(
                    "cannot retrieve field [{name}] from a scalar object"
                ));
            }
            (PathStep::Index { index, .. }, Value::Array(elements)) => elements
                .get(*index as usize)
                .ok_or_else(|| format!("field not found at index [{index}]"))?,
            (PathStep::Index { index, .. }, Value::Object(_)) => {
                return Err(format!(
                    "cannot retrieve index [{index}] from a non-array object"
                ));
            }
            (PathStep::Index { index, .. }, Value::Null) => {
                return Err(format!(
                    "cannot retrieve index [{index}] from a null object"
                ));
            }
            (PathStep::Index { container, .. }, _) => {
                return Err(format!("field [{container}] is not indexed"));
            }
        };
    }
    match at {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone())),
        Value::Object(_) | Value::Array(_) => {
            Err("the expression must evaluate to a non-complex object".to_owned())
        }
        scalar => Ok(Some(scalar.to_string())),
    }
}

/// Returns `true` if the texts are equal or denote the same double. Formatting is tested elsewhere.
fn same_text(found: &Option<String>, expected: &Option<String>) -> bool {
    let double = |text: &Option<String>| text.as_deref().and_then(|t| t.parse::<f64>().ok());
    found == expected || double(found).is_some() && double(found) == double(expected)
}

/// Returns `true` if the values are equal except for the last digits of doubles, which `serde_json`
/// does not always parse exactly.
fn equal_values(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| equal_values(a, b))
        }
        (Value::Object(a), Value::Object(b)) => {
            let in_other =
                |(name, a): (&String, &Value)| b.get(name).is_some_and(|b| equal_values(a, b));
            a.len() == b.len() && a.iter().all(in_other)
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (
                a.as_f64().unwrap_or_default(),
                b.as_f64().unwrap_or_default(),
            );
            (a - b).abs() <= a.abs() * 1e-12
        }
        (a, b) => a == b,
    }
}

fn with_paths(paths: &[String], more: &[(&str, &str)]) -> Arc<Mapping> {
    let mut parameters = vec![("record.value.evaluator.type", "JSON")];
    parameters.extend(more);
    let fields: Vec<_> = paths
        .iter()
        .enumerate()
        .map(|(i, path)| (format!("field.f{i}"), format!("#{{{path}}}")))
        .collect();
    parameters.extend(fields.iter().map(|(n, v)| (n.as_str(), v.as_str())));
    mapping(&parameters)
}

const SKIP: (&str, &str) = ("fields.skip.failed.mapping.enable", "true");
const WHOLE: (&str, &str) = ("weir.json.check", "WHOLE");

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn single_path_matches_model(tree in value(), path in path(), style in style()) {
        let document = write(&tree, style);
        let view = record(None, Some(document.as_bytes()));
        let expected = model(&tree, &Expression::parse(&path).expect("valid"));
        for more in [&[][..], &[WHOLE]] {
            let mapping = with_paths(std::slice::from_ref(&path), more);
            let found = values(&mapping, &view).map(|mut found| found.remove(0));
            match (&found, &expected) {
                (Ok(Some(found)), Ok(expected)) => {
                    prop_assert!(same_text(found, expected), "{document}: {found:?} {expected:?}");
                }
                (Err(found), Err(expected)) => {
                    prop_assert_eq!(&found.reason.to_string(), expected);
                }
                _ => prop_assert!(false, "{document}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn many_paths_match_model(
        tree in value(),
        paths in vec(path(), 1..30),
        style in style(),
    ) {
        let document = write(&tree, style);
        let view = record(None, Some(document.as_bytes()));
        for more in [&[SKIP][..], &[SKIP, WHOLE]] {
            let found = values(&with_paths(&paths, more), &view).expect("valid JSON");
            for (path, found) in paths.iter().zip(found) {
                let expected = model(&tree, &Expression::parse(path).expect("valid"));
                match (found, expected) {
                    (Some(found), Ok(expected)) => prop_assert!(same_text(&found, &expected)),
                    (None, Err(_)) => {}
                    (found, expected) => {
                        prop_assert!(false, "{path} in {document}: {found:?}, not {expected:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn compact_text_is_same_document(tree in value(), style in style()) {
        let complex = ("fields.map.non.scalar.values.enable", "true");
        let mapping = with_paths(&["VALUE".to_owned()], &[complex]);
        let document = write(&tree, style);
        let view = record(None, Some(document.as_bytes()));
        let found = values(&mapping, &view).expect("valid JSON");
        if matches!(tree, Value::Object(_) | Value::Array(_)) {
            let text = found[0].clone().flatten().expect("not null");
            let again = serde_json::from_str(&text).expect("valid JSON");
            prop_assert!(equal_values(&again, &tree), "{text}: {tree}");
        }
    }

    #[test]
    fn truncated_document_fails_or_has_wanted_value(
        tree in value(),
        path in path(),
        cut in 0_usize..100,
    ) {
        prop_assume!(matches!(tree, Value::Object(_) | Value::Array(_)));
        let whole = tree.to_string();
        let document = &whole.as_bytes()[..whole.len() * cut / 100];
        prop_assume!(!document.is_empty());
        let view = record(None, Some(document));
        let paths = std::slice::from_ref(&path);
        let checked = values(&with_paths(paths, &[WHOLE]), &view);
        prop_assert!(checked.is_err_and(|error| error.is_deserialization()));
        if let Ok(mut found) = values(&with_paths(paths, &[]), &view) {
            let expected = model(&tree, &Expression::parse(&path).expect("valid"));
            let found = found.remove(0).expect("no skipped field");
            prop_assert!(expected.is_ok_and(|expected| same_text(&found, &expected)), "{found:?}");
        }
    }

    /// The checking reader accepts and rejects the same texts as the model. After a scalar it may
    /// reject text that the model ignores.
    #[test]
    fn reader_and_model_accept_same_texts(
        pieces in vec(prop::sample::select(vec![
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\", "1", "-", "0", ".5", "e", "E+2",
            "true", "false", "null", " ", "\n", "\u{1}", "é", "\\n", "\\u0041", "\\u12", "\"b\":",
        ]), 0..12),
    ) {
        let text = pieces.concat();
        let document = text.as_bytes();
        // An empty value is null, and the model rejects infinite numbers.
        prop_assume!(!document.is_empty());
        let first = serde_json::Deserializer::from_str(&text).into_iter::<Value>().next();
        let first = first.is_some_and(|outcome| outcome.is_ok());
        let complex = ("fields.map.non.scalar.values.enable", "true");
        let mapping = with_paths(&["VALUE".to_owned()], &[WHOLE, complex]);
        let found = values(&mapping, &record(None, Some(document)));
        let whole = serde_json::from_str::<Value>(&text).is_ok();
        prop_assert!(found.is_ok() <= first, "{text}: {found:?}");
        prop_assert!(found.is_ok() >= whole, "{text}: {found:?}");
        if text.trim_start().starts_with(['{', '[']) {
            prop_assert_eq!(found.is_ok(), first, "{}: {:?}", text, found);
        }
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..300)) {
        fuzz::json(&bytes);
    }

    #[test]
    fn both_check_modes_agree(tree in value(), style in style()) {
        fuzz::json(write(&tree, style).as_bytes());
    }

    #[test]
    fn malformed_documents_never_panic(tree in value(), at in 0_usize..500, byte in any::<u8>()) {
        let mut bytes = tree.to_string().into_bytes();
        let length = bytes.len();
        bytes[at % length] = byte;
        fuzz::json(&bytes);
    }
}
