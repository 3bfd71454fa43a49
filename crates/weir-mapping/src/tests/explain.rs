//! Explanations of the mapping of a record, and of items that it does not reach.

use super::common::{mapping, record};
use crate::{CanonicalItem, Explanation, FieldSet, Mapping, RecordView};

const PARAMETERS: &[(&str, &str)] = &[
    ("record.value.evaluator.type", "JSON"),
    ("item-template.one", "ltest-#{key=KEY}"),
    ("item-template.two", "deep-#{x=VALUE.a.x,key=KEY}"),
    ("map.U.to", "all,item-template.one,item-template.two"),
    ("field.key", "#{KEY}"),
    ("field.x", "#{VALUE.a.x}"),
    ("field.n", "#{VALUE.n}"),
    ("field.bad", "#{VALUE.a[0]}"),
];

fn explain(mapping: &Mapping, key: &str, value: &str, wanted: &FieldSet) -> Explanation {
    let view = RecordView {
        topic: "U",
        ..record(Some(key.as_bytes()), Some(value.as_bytes()))
    };
    mapping.explain(&view, wanted)
}

/// Returns for each source "matches" or the reason why it does not yield the item.
fn matches(explanation: &Explanation, item: &str) -> Vec<String> {
    let item = CanonicalItem::parse(item).unwrap();
    let outcomes = explanation
        .sources
        .iter()
        .map(|source| source.matches(&item));
    outcomes
        .map(|outcome| outcome.map_or_else(|why| why.to_string(), |()| "matches".to_owned()))
        .collect()
}

#[test]
fn explanation_has_all_templates_and_fields() {
    let mapping = mapping(PARAMETERS);
    let value = r#"{"a":{"x":1.10},"n":null}"#;
    let explanation = explain(&mapping, "Apple", value, &mapping.all_fields());
    let expected = ["all", "ltest-[key=Apple]", "deep-[key=Apple,x=1.1]"];
    assert_eq!(
        explanation.items.as_deref(),
        Ok(&expected.map(str::to_owned)[..])
    );
    let texts: Vec<_> = explanation
        .sources
        .iter()
        .map(|s| s.text.as_str())
        .collect();
    assert_eq!(
        texts,
        ["all", "ltest-#{key=KEY}", "deep-#{key=KEY,x=VALUE.a.x}"]
    );
    let found: Vec<_> = explanation
        .fields
        .iter()
        .map(|field| match &field.outcome {
            Ok(text) => format!("{}: {text:?}", field.name),
            Err(reason) => format!("{}: {reason}", field.name),
        })
        .collect();
    assert_eq!(
        found,
        [
            "key: Some(\"Apple\")",
            "x: Some(\"1.1\")",
            "n: None",
            "bad: cannot retrieve index [0] from a non-array object"
        ]
    );
    assert!(explanation.fields_error.is_some());
    let wanted = [0, 1, 2].into_iter().collect();
    let fine = explain(&mapping, "Apple", value, &wanted);
    assert_eq!((fine.fields.len(), fine.fields_error), (3, None));
}

#[test]
fn mismatch_explains_why_item_is_not_reached() {
    let mapping = mapping(PARAMETERS);
    let all = mapping.all_fields();
    let explanation = explain(&mapping, "Apple", r#"{"a":{"x":1}}"#, &all);
    assert_eq!(
        matches(&explanation, "ltest-[key=Apple]"),
        [
            "its items begin with \"all\", not with \"ltest\"",
            "matches",
            "its items begin with \"deep\", not with \"ltest\"",
        ]
    );
    assert_eq!(
        matches(&explanation, "ltest-[key=Banana]")[1],
        "key is \"Apple\" in the record, not \"Banana\""
    );
    assert_eq!(
        matches(&explanation, "ltest")[1],
        "its items have the parameters key, this one has no parameters"
    );
    assert_eq!(
        matches(&explanation, "deep-[x=2,key=Apple]")[2],
        "x is \"1\" in the record, not \"2\""
    );
    assert_eq!(matches(&explanation, "all")[0], "matches");

    let broken = explain(&mapping, "Apple", "text", &all);
    assert!(broken.items.is_err());
    assert_eq!(
        matches(&broken, "deep-[key=Apple,x=1]")[2],
        "parameter \"x\" by [VALUE.a.x]: the value is not JSON: expected a value at byte 0"
    );
    let comma = explain(&mapping, "1,2", r#"{"a":{"x":null}}"#, &all);
    assert_eq!(
        matches(&comma, "ltest-[key=1]")[1],
        "parameter \"key\" = \"1,2\" contains a comma, so no client can name the item"
    );
    assert!(matches(&comma, "deep-[key=1,x=2]")[2].contains("contains a comma"));
    let null = explain(&mapping, "1", r#"{"a":{"x":null}}"#, &all);
    assert!(matches(&null, "deep-[key=1,x=2]")[2].contains("null cannot be a value"));
}

#[test]
fn unmapped_topic_has_no_sources() {
    let mapping = mapping(PARAMETERS);
    let view = RecordView {
        topic: "other",
        ..record(None, None)
    };
    let explanation = mapping.explain(&view, &FieldSet::empty());
    assert!(explanation.sources.is_empty());
    assert_eq!(explanation.items.as_deref(), Ok(&[][..]));
}
