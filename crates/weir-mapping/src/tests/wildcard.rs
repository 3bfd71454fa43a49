//! Dynamic fields: `field.*` compared with a walk over the parsed document.

use std::sync::Arc;

use std::collections::BTreeMap;

use proptest::prelude::*;
use serde_json::Value;

use super::common::{mapping, record};
use crate::{FieldSet, FieldValue, FieldValues, Mapping, RecordView};

type Fields = BTreeMap<String, Option<String>>;

/// Returns all dynamic fields of a record; an error as text.
fn discovered(mapping: &Mapping, record: &RecordView<'_>) -> Result<Fields, String> {
    let names = mapping.dynamic_names(record);
    let names: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    extracted(mapping, record, &names)
}

/// Returns those of the named fields that an update has.
fn extracted(mapping: &Mapping, record: &RecordView<'_>, names: &[&str]) -> Result<Fields, String> {
    let used = mapping
        .use_dynamic_fields(names.iter().copied())
        .expect("room for the names");
    // At least one, so that the wildcard is evaluated.
    let reserved = mapping.field_index("command");
    let indexes = names.iter().filter_map(|name| mapping.field_index(name));
    let wanted: FieldSet = indexes.chain(reserved).collect();
    let mut values = FieldValues::new();
    let read = mapping.field_values(record, &wanted, &mut values);
    read.map_err(|error| error.to_string())?;
    let present = names.iter().filter_map(|name| {
        let value = values.value(mapping.field_index(name)?);
        let text = value.text().map(str::to_owned);
        (value != FieldValue::Skipped).then(|| ((*name).to_owned(), text))
    });
    let present = present.collect();
    drop(used);
    Ok(present)
}

fn json_mapping(expression: &str, extra: &[(&str, &str)]) -> Arc<Mapping> {
    let json = [
        ("record.value.evaluator.type", "JSON"),
        ("field.*", expression),
    ];
    mapping(&[&json, extra].concat())
}

fn fields(rows: &[(&str, Option<&str>)]) -> Fields {
    let row = |(name, text): &(&str, Option<&str>)| ((*name).to_owned(), text.map(str::to_owned));
    rows.iter().map(row).collect()
}

#[test]
fn json_members_become_fields() {
    let document =
        br#"{"a":1,"b":null,"c":{"x":[1.10,"y"]},"d.e":"f","g\u0041":true,"list":[[1],2,null],
        "a":2}"#;
    let value = record(None, Some(document));
    let found = discovered(&json_mapping("#{VALUE.*}", &[]), &value);
    let expected = fields(&[
        ("a", Some("2")),
        ("b", None),
        ("c", Some(r#"{"x":[1.1,"y"]}"#)),
        ("d.e", Some("f")),
        ("gA", Some("true")),
        ("list", Some("[[1],2,null]")),
    ]);
    assert_eq!(found, Ok(expected));
    let found = discovered(&json_mapping("#{VALUE.list.*}", &[]), &value);
    let expected = fields(&[
        ("list[0]", Some("[1]")),
        ("list[1]", Some("2")),
        ("list[2]", None),
    ]);
    assert_eq!(found, Ok(expected));
    let found = discovered(&json_mapping("#{VALUE.list[0].*}", &[]), &value);
    assert_eq!(found, Ok(fields(&[("list[0][0]", Some("1"))])));
    for scalar in [
        "#{VALUE.a.*}",
        "#{VALUE.b.*}",
        "#{VALUE.list[1].*}",
        "#{VALUE.list[2].*}",
    ] {
        assert_eq!(
            discovered(&json_mapping(scalar, &[]), &value),
            Ok(Fields::new()),
            "{scalar}"
        );
    }
    let top = record(None, Some(b"[7]"));
    let found = discovered(&json_mapping("#{VALUE.*}", &[]), &top);
    assert_eq!(found, Ok(fields(&[("VALUE[0]", Some("7"))])));
    assert_eq!(
        discovered(&json_mapping("#{VALUE.*}", &[]), &record(None, None)),
        Ok(Fields::new())
    );
}

#[test]
fn named_fields_take_precedence() {
    let mapping = json_mapping("#{VALUE.*}", &[("field.a", "#{VALUE.b}")]);
    let value = record(None, Some(br#"{"a":"of a","b":"of b"}"#));
    assert_eq!(
        discovered(&mapping, &value),
        Ok(fields(&[("b", Some("of b"))]))
    );
    assert_eq!(mapping.field_index("a"), Some(0));
    let mut values = FieldValues::new();
    mapping
        .field_values(&value, &FieldSet::all(1), &mut values)
        .expect("valid JSON");
    assert_eq!((values.get(0), values.len()), (Some("of b"), 1));
}

#[test]
fn wildcard_is_skipped_as_one_unit() {
    let value = record(None, Some(br#"{"a":1}"#));
    let missing = json_mapping("#{VALUE.x.*}", &[]);
    let error = "cannot extract field \"*\" by [VALUE.x.*]: field [x] not found";
    assert_eq!(extracted(&missing, &value, &["b"]), Err(error.to_owned()));
    let skip = ("fields.skip.failed.mapping.enable", "true");
    let skipping = json_mapping("#{VALUE.x.*}", &[skip]);
    assert_eq!(extracted(&skipping, &value, &["b"]), Ok(Fields::new()));
    let broken = record(None, Some(br#"{"a":1,"b":}"#));
    let error = extracted(&json_mapping("#{VALUE.*}", &[skip]), &broken, &["a"]).unwrap_err();
    assert!(error.contains("the value is not JSON"), "{error}");
    // No subscription needs a dynamic field, so none is read.
    let mut values = FieldValues::new();
    let named = json_mapping("#{VALUE.x.*}", &[("field.a", "#{VALUE.a}")]);
    named
        .field_values(&value, &FieldSet::all(1), &mut values)
        .expect("one named field");
    assert_eq!(values.get(0), Some("1"));
}

#[test]
fn headers_and_pairs_become_fields() {
    let headers: [(&str, Option<&[u8]>); 4] = [
        ("a", Some(b"1")),
        ("k", Some(b"x")),
        ("k", None),
        ("e.f", Some(b"")),
    ];
    let value = RecordView {
        headers: &headers,
        ..record(None, Some(b"p=1, q=2,p=3,=4"))
    };
    let of = |expression, extra: &[(&str, &str)]| {
        discovered(
            &mapping(&[&[("field.*", expression)], extra].concat()),
            &value,
        )
    };
    let expected = fields(&[
        ("a", Some("1")),
        ("k[0]", Some("x")),
        ("k[1]", None),
        ("e.f", Some("")),
    ]);
    assert_eq!(of("#{HEADERS.*}", &[]), Ok(expected));
    assert_eq!(
        of("#{HEADERS.k.*}", &[]),
        Ok(fields(&[("k[0]", Some("x")), ("k[1]", None)]))
    );
    assert_eq!(of("#{HEADERS.a.*}", &[]), Ok(Fields::new()));
    let pairs = [("record.value.evaluator.type", "KVP")];
    let expected = fields(&[("p", Some("3")), ("q", Some("2"))]);
    assert_eq!(of("#{VALUE.*}", &pairs), Ok(expected));
    assert_eq!(of("#{VALUE.p.*}", &pairs), Ok(Fields::new()));
    assert_eq!(
        of("#{VALUE.*}", &[]),
        Ok(Fields::new()),
        "STRING has no members"
    );
}

#[test]
fn auto_command_mode_deletes_rows_without_dynamic_fields() {
    let mapping = json_mapping(
        "#{VALUE.*}",
        &[
            ("field.key", "#{KEY}"),
            ("fields.auto.command.mode.enable", "true"),
        ],
    );
    let used = mapping.use_dynamic_fields(["a"].into_iter()).expect("room");
    let wanted = mapping.all_fields();
    let mut values = FieldValues::new();
    let mut texts = |value| {
        let read = mapping.field_values(&record(Some(b"k"), value), &wanted, &mut values);
        read.expect("valid");
        values
            .iter()
            .map(|value| value.text().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        texts(Some(br#"{"a":1}"#)),
        [text("k"), text("ADD"), text("1")]
    );
    assert_eq!(texts(None), [text("k"), text("DELETE"), None]);
    drop(used);
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~é\\n\"]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("[a-c]|[ -~é\"]{0,4}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Walks a path of members and elements.
fn walk<'a>(document: &'a Value, path: &[Result<&str, usize>]) -> Option<&'a Value> {
    path.iter().try_fold(document, |at, step| match step {
        Ok(member) => at.get(member),
        Err(index) => at.get(index),
    })
}

fn model(node: &Value, name: &str) -> Fields {
    let text = |value: &Value| match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    match node {
        Value::Object(members) => members
            .iter()
            .map(|(name, value)| (name.clone(), text(value)))
            .collect(),
        Value::Array(elements) => {
            let elements = elements.iter().enumerate();
            elements
                .map(|(index, value)| (format!("{name}[{index}]"), text(value)))
                .collect()
        }
        _ => Fields::new(),
    }
}

proptest! {
    /// Every expression finds the same fields as a walk over the parsed document.
    #[test]
    fn dynamic_fields_match_model(document in json(), pretty in any::<bool>()) {
        let text = match pretty {
            true => serde_json::to_string_pretty(&document),
            false => serde_json::to_string(&document),
        };
        let text = text.expect("JSON");
        let value = record(None, Some(text.as_bytes()));
        type Row<'a> = (&'a str, &'a str, &'a [Result<&'a str, usize>]);
        let paths: [Row<'_>; 5] = [
            ("#{VALUE.*}", "VALUE", &[]),
            ("#{VALUE.a.*}", "a", &[Ok("a")]),
            ("#{VALUE[1].*}", "VALUE[1]", &[Err(1)]),
            ("#{VALUE.b[0].*}", "b[0]", &[Ok("b"), Err(0)]),
            ("#{VALUE.a.c.*}", "c", &[Ok("a"), Ok("c")]),
        ];
        for (expression, name, path) in paths {
            for check in ["NEEDED", "WHOLE"] {
                let mapping = json_mapping(expression, &[("weir.json.check", check)]);
                let found = discovered(&mapping, &value);
                match walk(&document, path) {
                    Some(node) => prop_assert_eq!(found, Ok(model(node, name)), "{}", text),
                    None => prop_assert!(found.is_err(), "{expression} in {text}"),
                }
            }
        }
    }
}
