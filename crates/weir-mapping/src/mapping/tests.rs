use std::sync::Arc;

use weir_formats::error::PathFailure;

use super::*;
use crate::config::{ConfigSource, ConnectionConfig, Parameter, ParseOptions};
use crate::field_values::FieldValue;

/// Returns a mapping built from parameters; `bootstrap.servers` is added.
fn mapping(parameters: &[(&str, &str)]) -> Arc<Mapping> {
    let source = ConfigSource {
        file: "test.xml",
        options: ParseOptions::default(),
    };
    let all = [("bootstrap.servers", "localhost:9092")]
        .iter()
        .chain(parameters)
        .map(|(name, value)| Parameter {
            name: (*name).to_owned(),
            value: (*value).to_owned(),
            line: None,
        });
    ConnectionConfig::from_parameters("C", all, &source, None, &mut Vec::new())
        .unwrap()
        .mapping
}

fn record<'a>(key: Option<&'a str>, value: Option<&'a str>) -> RecordView<'a> {
    RecordView {
        topic: "T",
        partition: 7,
        offset: 42,
        timestamp_ms: 1_700_000_000_123,
        key: key.map(str::as_bytes),
        value: value.map(str::as_bytes),
        headers: &[("h", Some(b"x"))],
    }
}

fn names(mapping: &Mapping, record: &RecordView<'_>) -> Vec<String> {
    let mut out = ItemNames::new();
    mapping.item_names(record, &mut out).unwrap();
    out.iter().map(str::to_owned).collect()
}

const KEYED: &[(&str, &str)] = &[
    ("item-template.t", "ltest-#{key=KEY}"),
    ("map.T.to", "item-template.t"),
    ("field.value", "#{VALUE}"),
];

const TWO: &[(&str, &str)] = &[
    ("item-template.t", "i-#{k=KEY,P=PARTITION}"),
    ("map.T.to", "item-template.t"),
    ("field.value", "#{VALUE}"),
];

#[test]
fn template_expands_to_canonical_name() {
    assert_eq!(
        names(&mapping(KEYED), &record(Some("Apple"), None)),
        ["ltest-[key=Apple]"]
    );
    assert_eq!(
        names(&mapping(TWO), &record(Some("x=]y"), None)),
        ["i-[P=7,k=x=]y]"]
    );
}

#[test]
fn topic_may_have_several_distinct_items() {
    let mapping = mapping(&[
        ("item-template.a", "i-#{k=KEY}"),
        ("item-template.b", "i-#{k=HEADERS.h}"),
        ("map.T.to", "all, item-template.a,item-template.b , all"),
        ("map.U.to", "other"),
        ("field.value", "#{VALUE}"),
    ]);
    assert_eq!(mapping.topics().collect::<Vec<_>>(), ["T", "U"]);
    assert_eq!(
        names(&mapping, &record(Some("y"), None)),
        ["all", "i-[k=y]", "i-[k=x]"]
    );
    assert_eq!(
        names(&mapping, &record(Some("x"), None)),
        ["all", "i-[k=x]"]
    );
    let unmapped = RecordView {
        topic: "V",
        ..record(Some("x"), None)
    };
    assert!(names(&mapping, &unmapped).is_empty());
}

#[test]
fn null_is_valid_only_as_single_parameter() {
    assert_eq!(
        names(&mapping(KEYED), &record(None, None)),
        ["ltest-[key=null]"]
    );
    let mut out = ItemNames::new();
    let error = mapping(TWO)
        .item_names(&record(None, None), &mut out)
        .unwrap_err();
    assert_eq!(error.reason, ExtractionReason::NullParameter);
    assert_eq!(
        error.to_string(),
        "cannot extract parameter \"k\" of item template \"t\" by [KEY]: \
         null cannot be a value of a template with more than one parameter"
    );
    assert!(out.is_empty());
}

#[test]
fn value_with_comma_yields_no_item() {
    let mapping = mapping(KEYED);
    let mut out = ItemNames::new();
    mapping
        .item_names(&record(Some("1,p=3"), None), &mut out)
        .unwrap();
    assert!(out.is_empty());
    assert_eq!(out.unnameable(), 1);
    mapping
        .item_names(&record(Some("1"), None), &mut out)
        .unwrap();
    assert_eq!((out.len(), out.unnameable()), (1, 0));
}

#[test]
fn unusual_values_expand_as_in_connector() {
    let mapping = mapping(KEYED);
    assert_eq!(names(&mapping, &record(Some(""), None)), ["ltest-[key=]"]);
    assert_eq!(
        names(&mapping, &record(Some("a b"), None)),
        ["ltest-[key=a b]"]
    );
    let malformed = RecordView {
        key: Some(b"a\xff"),
        ..record(None, None)
    };
    assert_eq!(names(&mapping, &malformed), ["ltest-[key=a\u{fffd}]"]);
}

#[test]
fn template_extraction_errors_leave_no_names() {
    let mapping = mapping(&[
        ("item-template.t", "i-#{h=HEADERS.z}"),
        ("map.T.to", "all,item-template.t"),
        ("field.value", "#{VALUE}"),
        ("fields.skip.failed.mapping.enable", "true"),
        ("fields.map.non.scalar.values.enable", "true"),
    ]);
    let mut out = ItemNames::new();
    let error = mapping
        .item_names(&record(None, None), &mut out)
        .unwrap_err();
    assert_eq!(error.reason, PathFailure::NotFound("z".into()).into());
    assert!(out.is_empty());
}

#[test]
fn non_scalar_headers_are_allowed_in_fields_only() {
    let mapping = mapping(&[
        ("item-template.t", "i-#{h=HEADERS}"),
        ("map.T.to", "item-template.t"),
        ("field.all", "#{HEADERS}"),
        ("fields.map.non.scalar.values.enable", "true"),
    ]);
    let mut values = FieldValues::new();
    mapping
        .field_values(&record(None, None), &mapping.all_fields(), &mut values)
        .unwrap();
    assert_eq!(values.get(0), Some("{h=x}"));
    let error = mapping
        .item_names(&record(None, None), &mut ItemNames::new())
        .unwrap_err();
    assert_eq!(error.reason, PathFailure::NotScalar.into());
}

const FIELDS: &[(&str, &str)] = &[
    ("map.T.to", "all"),
    ("field.key", "#{KEY}"),
    ("field.value", "#{VALUE}"),
    ("field.ts", "#{TIMESTAMP}"),
    ("field.partition", "#{PARTITION}"),
    ("field.offset", "#{OFFSET}"),
    ("field.topic", "#{TOPIC}"),
    ("field.a b.c", "#{HEADERS['h']}"),
    ("field.bad", "#{HEADERS.z}"),
];

#[test]
fn fields_are_in_configuration_order() {
    let mapping = mapping(FIELDS);
    let names: Vec<_> = mapping.fields().collect();
    assert_eq!(
        names,
        [
            "key",
            "value",
            "ts",
            "partition",
            "offset",
            "topic",
            "a b.c",
            "bad"
        ]
    );
    assert_eq!(mapping.field_index("ts"), Some(2));
    assert_eq!(mapping.field_index("TS"), None);
}

#[test]
fn failing_field_is_error_or_skipped() {
    let strict = mapping(FIELDS);
    let mut values = FieldValues::new();
    let record = record(None, Some(""));
    let error = strict
        .field_values(&record, &strict.all_fields(), &mut values)
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot extract field \"bad\" by [HEADERS.z]: field [z] not found"
    );
    assert!(values.is_empty());

    let mut parameters = FIELDS.to_vec();
    parameters.push(("fields.skip.failed.mapping.enable", "true"));
    let mapping = mapping(&parameters);
    mapping
        .field_values(&record, &mapping.all_fields(), &mut values)
        .unwrap();
    let text = FieldValue::Text;
    let expected = [
        FieldValue::Null,
        text(""),
        text("1700000000123"),
        text("7"),
        text("42"),
        text("T"),
        text("x"),
        FieldValue::Skipped,
    ];
    assert_eq!(values.iter().collect::<Vec<_>>(), expected);
    assert_eq!(values.freeze().iter().collect::<Vec<_>>(), expected);
}

#[test]
fn unwanted_field_is_skipped_and_cannot_fail() {
    let mapping = mapping(FIELDS);
    let mut values = FieldValues::new();
    let wanted = [1, 3].into_iter().collect();
    let record = record(None, Some("v"));
    mapping.field_values(&record, &wanted, &mut values).unwrap();
    assert_eq!(values.len(), 8);
    let found: Vec<_> = (0..8).filter_map(|i| values.get(i)).collect();
    assert_eq!(found, ["v", "7"]);
    assert_eq!(values.value(0), FieldValue::Skipped);

    let none = FieldSet::empty();
    mapping.field_values(&record, &none, &mut values).unwrap();
    assert!(values.iter().all(|value| value == FieldValue::Skipped));
}

#[test]
fn admission_needs_prefix_and_all_parameters() {
    let mapping = mapping(&[
        ("item-template.one", "i-#{a=KEY}"),
        ("item-template.two", "i-#{b=KEY,a=VALUE}"),
        ("item-template.unused", "u-#{a=KEY}"),
        (
            "map.T.to",
            "simple,item-template.one,item-template.two,my.item",
        ),
        ("field.value", "#{VALUE}"),
    ]);
    let admits = |written: &str| mapping.admits(&CanonicalItem::parse(written).unwrap());
    for written in [
        "simple",
        "simple-[]",
        "i-[a=1]",
        "i-[a=1,b=2]",
        "i-[b=1,a=x]",
    ] {
        assert!(admits(written), "{written}");
    }
    for written in [
        "i",
        "i-[b=1]",
        "i-[a=1,b=2,c=3]",
        "I-[a=1]",
        "simple-[a=1]",
        "u-[a=1]",
        "other",
        "i-[A=1]",
    ] {
        assert!(!admits(written), "{written}");
    }
}

#[test]
fn buffers_reuse_memory_between_records() {
    let mapping = mapping(KEYED);
    let (mut items, mut values) = (ItemNames::new(), FieldValues::new());
    let record = record(Some("Apple"), Some("some value"));
    let all = mapping.all_fields();
    mapping.item_names(&record, &mut items).unwrap();
    mapping.field_values(&record, &all, &mut values).unwrap();
    let before = (
        items.text.as_ptr(),
        items.ends.as_ptr(),
        values.get(0).unwrap().as_ptr(),
    );
    for _ in 0..100 {
        mapping.item_names(&record, &mut items).unwrap();
        mapping.field_values(&record, &all, &mut values).unwrap();
    }
    let after = (
        items.text.as_ptr(),
        items.ends.as_ptr(),
        values.get(0).unwrap().as_ptr(),
    );
    assert_eq!(before, after);
}

#[test]
fn mapping_can_be_shared_between_threads() {
    fn shareable<T: Send + Sync>() {}
    shareable::<Mapping>();
    shareable::<ExtractionError>();
}

/// Returns the values of expressions for a record.
fn filtered(mapping: &Mapping, record: &RecordView<'_>, count: usize) -> Vec<Option<String>> {
    let mut values = FilterValues::default();
    mapping.begin_filters(&mut values);
    let mut value = |at| {
        let found = mapping.filter_value(at, record, &mut values);
        found.map(str::to_owned)
    };
    let first: Vec<_> = (0..count).map(&mut value).collect();
    let again: Vec<_> = (0..count).map(value).collect();
    assert_eq!(first, again);
    first
}

#[test]
fn filters_have_values_of_single_nodes_only() {
    let mapping = mapping(&[
        ("map.T.to", "news"),
        ("field.value", "#{VALUE.text}"),
        ("record.value.evaluator.type", "JSON"),
    ]);
    let texts = ["VALUE.tenant", "KEY", "VALUE.list", "HEADERS['h']", "KEY.a"];
    let parsed: Vec<_> = texts.map(|text| Expression::parse(text).ok()).to_vec();
    let checked = parsed.iter().flatten();
    let checked: Vec<_> = checked
        .map(|one| mapping.check_record_filter(one).is_ok())
        .collect();
    assert_eq!(checked, [true, true, true, true, false]);
    let headers = Expression::parse("HEADERS").unwrap();
    assert_eq!(
        mapping.check_record_filter(&headers),
        Err(RecordFilterError::NotScalar("HEADERS".to_owned()))
    );
    let of = |value| record(Some("k"), Some(value));
    assert_eq!(filtered(&mapping, &of("{}"), 5), vec![None; 5], "not set");
    mapping.set_record_filters(&parsed);
    for (value, tenant) in [
        (r#"{"tenant":"acme","list":[1]}"#, Some("acme")),
        (r#"{"tenant":7}"#, Some("7")),
        (r#"{"tenant":true}"#, Some("true")),
        (r#"{"tenant":null}"#, None),
        (r#"{"tenant":{"a":1}}"#, None),
        (r#"{"other":1}"#, None),
        ("not json", None),
    ] {
        let found = filtered(&mapping, &of(value), 5);
        let expected = [tenant, Some("k"), None, Some("x"), None];
        let expected = expected.map(|text| text.map(str::to_owned));
        assert_eq!(found, expected, "{value}");
    }
}
