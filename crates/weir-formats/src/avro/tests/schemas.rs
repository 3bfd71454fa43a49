//! Accepted and rejected schemas.

use super::{schema, text_of};
use crate::avro::AvroSchema;
use std::sync::Arc;

#[test]
fn names_are_found_in_their_namespace_and_outside() {
    let schema = schema(
        r#"{"type": "record", "name": "a.b.R", "doc": "d", "aliases": ["x"], "fields": [
            {"name": "e", "type": {"type": "enum", "name": "E", "symbols": ["A", "B"]}},
            {"name": "f", "type": "E"},
            {"name": "g", "type": "a.b.E", "default": "A"},
            {"name": "i", "type": {"type": "record", "name": "S", "namespace": "c", "fields": [
                {"name": "o", "type": ["null", {"type": "fixed", "name": "E", "size": 1}]},
                {"name": "p", "type": {"type": "E"}},
                {"name": "q", "type": "a.b.E"}]}},
            {"name": "j", "type": "c.E"},
            {"name": "k", "type": {"type": "error", "name": "T", "namespace": "", "fields": []}},
            {"name": "l", "type": {"type": {"type": "array", "items": "T"}}},
            {"name": "m", "type": "S2"}]}"#
            .replace(r#""S2""#, r#"["c.S", "R"]"#)
            .as_str(),
    );
    let bytes = [2, 0, 2, 2, 7, 8, 2, 9, 2, 0, 0, 0, 5, 0];
    let expected = concat!(
        r#"{"e": "B", "f": "A", "g": "B", "i": {"o": [7], "p": [8], "q": "B"}, "j": [9], "#,
        r#""k": {}, "l": [{}], "m": {"o": null, "p": [5], "q": "A"}}"#
    );
    assert_eq!(
        text_of(&schema, "VALUE", &bytes),
        Ok(Some(expected.to_owned()))
    );
}

#[test]
fn references_define_names() {
    let inner = r#"{"type": "record", "name": "x.I", "fields": [{"name": "a", "type": "int"}]}"#;
    let middle = r#"{"type": "record", "name": "x.M", "fields": [{"name": "i", "type": "I"}]}"#;
    let outer = r#"{"type": "record", "name": "y.O", "fields": [
        {"name": "m", "type": "x.M"}, {"name": "n", "type": ["null", "x.I"]}]}"#;
    let references = [inner, middle, inner].map(str::to_owned);
    let schema = Arc::new(AvroSchema::parse(outer, &references).expect("a valid schema"));
    assert_eq!(
        text_of(&schema, "VALUE.m.i.a", &[8, 0]),
        Ok(Some("4".to_owned()))
    );
    assert_eq!(
        text_of(&schema, "VALUE.n.a", &[8, 2, 6]),
        Ok(Some("3".to_owned()))
    );
    let error = AvroSchema::parse(outer, &[middle.to_owned()]).expect_err("an unknown name");
    assert_eq!(
        error.to_string(),
        "Avro schema, record \"x.M\", field \"i\": unknown type \"I\"; define it before its first \
         use or pass it as a reference"
    );
}

#[test]
fn invalid_schemas_are_rejected() {
    let deep = format!(
        "{}\"int\"{}",
        r#"{"type": "array", "items": "#.repeat(200),
        "}".repeat(200)
    );
    let rows = [
        ("", "not JSON: EOF while parsing a value at line 1 column 0"),
        ("int", "not JSON: expected value at line 1 column 1"),
        (
            "7",
            "expected a type as text, object or array, not a number",
        ),
        ("null", "expected a type as text, object or array, not null"),
        (
            "{}",
            "missing or malformed attribute \"type\" of a type \"object\"",
        ),
        (
            r#""foo""#,
            "unknown type \"foo\"; define it before its first use or pass it as a reference",
        ),
        (
            r#"{"type": "array"}"#,
            "missing or malformed attribute \"items\" of a type \"array\"",
        ),
        (
            r#"{"type": "map"}"#,
            "missing or malformed attribute \"values\" of a type \"map\"",
        ),
        (
            r#"{"type": "fixed", "name": "F"}"#,
            "missing or malformed attribute \"size\" of a type \"fixed\"",
        ),
        (
            r#"{"type": "fixed", "name": "F", "size": -1}"#,
            "missing or malformed attribute \"size\" of a type \"fixed\"",
        ),
        (
            r#"{"type": "fixed", "size": 1}"#,
            "missing or malformed attribute \"name\" of a type \"fixed\"",
        ),
        (
            r#"{"type": "enum", "name": "E"}"#,
            "missing or malformed attribute \"symbols\" of a type \"enum\"",
        ),
        (
            r#"{"type": "enum", "name": "E", "symbols": ["A", "A"]}"#,
            "the name \"A\" occurs twice",
        ),
        (
            r#"{"type": "record", "name": "R", "namespace": 3, "fields": []}"#,
            "missing or malformed attribute \"namespace\" of a type \"record\"",
        ),
        (r#"[["null"]]"#, "a union contains a union"),
        (
            r#"["int", "null", "int"]"#,
            "a union contains the type \"int\" twice",
        ),
        (
            r#"[{"type": "map", "values": "int"}, {"type": "map", "values": "long"}]"#,
            "a union contains the type \"map\" twice",
        ),
        (
            r#"[{"type": "enum", "name": "F", "symbols": []},
                {"type": "fixed", "name": "F", "size": 1}]"#,
            "the name \"F\" is defined twice",
        ),
    ];
    for (text, expected) in rows {
        let error = AvroSchema::parse(text, &[]).expect_err("an invalid schema");
        assert_eq!(
            error.to_string(),
            format!("Avro schema: {expected}"),
            "{text}"
        );
    }
    let error = AvroSchema::parse(&deep, &[]).expect_err("too deep");
    assert!(error.to_string().contains("recursion limit"), "{error}");
    let long = format!("\"{}\"", "x".repeat(5 << 20));
    let error = AvroSchema::parse(&long, &[]).expect_err("too long");
    assert!(
        error.to_string().contains("at most 4194304 are accepted"),
        "{error}"
    );
    let bare = r#"{"type": "record", "name": "R"}"#;
    let error = AvroSchema::parse(bare, &[]).expect_err("no fields");
    assert_eq!(
        error.to_string(),
        "Avro schema, record \"R\": missing or malformed attribute \"fields\" of a type \
         \"record\""
    );
    let twice = r#"{"type": "record", "name": "R", "fields": [
        {"name": "a", "type": "int"}, {"name": "a", "type": "int"}]}"#;
    let error = AvroSchema::parse(twice, &[]).expect_err("a repeated name");
    assert_eq!(
        error.to_string(),
        "Avro schema, record \"R\": the name \"a\" occurs twice"
    );
}
