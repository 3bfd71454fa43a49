//! Records that do not match their schema, and parts that they do not have.

use std::sync::Arc;

use super::encoder::{put_bytes, put_long};
use super::{schema, select, text_of};
use crate::avro::{AvroReader, AvroSchema};
use crate::expression::Expression;
use crate::json::{JsonCheck, PathTree};

fn longs(numbers: &[i64]) -> Vec<u8> {
    let mut out = Vec::new();
    numbers
        .iter()
        .for_each(|number| put_long(*number, &mut out));
    out
}

fn record(fields: &str) -> Arc<AvroSchema> {
    schema(&format!(
        r#"{{"type": "record", "name": "R", "fields": [{fields}]}}"#
    ))
}

#[test]
fn malformed_records_are_reported_with_path_and_position() {
    let one = |of: &str| record(&format!(r#"{{"name": "f", "type": {of}}}"#));
    let rows: &[(&str, &[u8], &str)] = &[
        (
            r#""int""#,
            &[],
            "field [f]: unexpected end, 1 more bytes expected at byte 0",
        ),
        (
            r#""int""#,
            &[0x80],
            "field [f]: unexpected end, 1 more bytes expected at byte 1",
        ),
        (
            r#""int""#,
            &[0x80, 0x80, 0x80, 0x80, 0x10],
            "field [f]: 2147483648 does not fit into an int at byte 0",
        ),
        (
            r#""long""#,
            &[0xff; 11],
            "field [f]: number of more than 64 bits at byte 0",
        ),
        (
            r#""long""#,
            &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 2],
            "field [f]: number of more than 64 bits at byte 0",
        ),
        (
            r#""boolean""#,
            &[2],
            "field [f]: byte 2 is neither 0 nor 1 at byte 0",
        ),
        (
            r#""double""#,
            &[1, 2],
            "field [f]: unexpected end, 6 more bytes expected at byte 0",
        ),
        (
            r#""string""#,
            &[8, b'a'],
            "field [f]: length 4 exceeds the 1 bytes that follow at byte 0",
        ),
        (
            r#""bytes""#,
            &[1, b'a'],
            "field [f]: length -1 exceeds the 1 bytes that follow at byte 0",
        ),
        (
            r#"{"type": "fixed", "name": "F", "size": 2147483647}"#,
            &[1],
            "field [f]: unexpected end, 2147483646 more bytes expected at byte 0",
        ),
        (
            r#"{"type": "enum", "name": "E", "symbols": ["A"]}"#,
            &[2],
            "field [f]: enum symbol 1 of 1 at byte 0",
        ),
        (
            r#"["null", "int"]"#,
            &[4],
            "field [f]: union branch 2 of 2 at byte 0",
        ),
        (
            r#"["null", "int"]"#,
            &[1],
            "field [f]: union branch -1 of 2 at byte 0",
        ),
        ("[]", &[0], "field [f]: union branch 0 of 0 at byte 0"),
        (
            r#"{"type": "array", "items": "boolean"}"#,
            &[4, 0, 3, 0],
            "field [f[1]]: byte 3 is neither 0 nor 1 at byte 2",
        ),
        (
            r#"{"type": "array", "items": "int"}"#,
            &[3, 2, 0, 0, 0],
            "field [f]: 2 items cannot be in the 1 bytes that follow at byte 0",
        ),
        (
            r#"{"type": "map", "values": {"type": "array", "items": "boolean"}}"#,
            &[2, 2, b'k', 2, 9, 0, 0],
            "field [f['k'][0]]: byte 9 is neither 0 nor 1 at byte 4",
        ),
        (
            r#"{"type": "array", "items": "int"}"#,
            &[1, 6, 0, 0, 0, 0],
            "field [f]: a block has another size than its 3 bytes at byte 3",
        ),
    ];
    for (of, bytes, expected) in rows {
        let schema = one(of);
        let mut selected = select(&schema, &["VALUE"]);
        let found = selected
            .read(bytes, JsonCheck::Whole)
            .expect_err("malformed");
        assert_eq!(found, *expected, "{of} {bytes:x?}");
    }
}

#[test]
fn wanted_value_is_checked_without_the_rest() {
    let schema = record(
        r#"{"name": "a", "type": "boolean"}, {"name": "b", "type": "string"},
           {"name": "c", "type": "boolean"}"#,
    );
    assert_eq!(
        text_of(&schema, "VALUE.b", &[7, 2, b'x', 9]),
        Ok(Some("x".to_owned()))
    );
    let error = text_of(&schema, "VALUE.c", &[7, 2, b'x', 9]).expect_err("malformed");
    // The first error of the record is reported, not the first one that the path meets.
    assert_eq!(error, "field [a]: byte 7 is neither 0 nor 1 at byte 0");
}

#[test]
fn invalid_utf8_is_replaced() {
    let schema = record(r#"{"name": "s", "type": "string"}"#);
    let bytes = [6, b'a', 0xff, 0x7f];
    let found = text_of(&schema, "VALUE.s", &bytes);
    assert_eq!(found, Ok(Some("a\u{fffd}\u{7f}".to_owned())));
    let found = text_of(&schema, "VALUE", &bytes);
    assert_eq!(found, Ok(Some("{\"s\": \"a\u{fffd}\\u007F\"}".to_owned())));
}

#[test]
fn counts_and_lengths_beyond_the_record_fail_at_once() {
    let array = schema(r#"{"type": "array", "items": "string"}"#);
    let nulls = schema(r#"{"type": "array", "items": ["null", "string"]}"#);
    let map = schema(r#"{"type": "map", "values": "null"}"#);
    for schema in [array, nulls, map] {
        for count in [1 << 20, i64::MAX, i64::MIN, -(1 << 20)] {
            let bytes = longs(&[count, 3, 0, 0]);
            for path in ["VALUE", "VALUE[70]", "VALUE.a"] {
                assert!(text_of(&schema, path, &bytes).is_err(), "{path} {count}");
            }
        }
    }
}

#[test]
fn items_without_bytes_are_limited() {
    let schema = schema(r#"{"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}"#);
    let good = longs(&[1 << 15, 1 << 15, 0]);
    assert_eq!(
        text_of(&schema, "VALUE[65535]", &good),
        Ok(Some("[]".to_owned()))
    );
    for bytes in [
        longs(&[1 << 15, 1 << 15, 1, 0]),
        longs(&[i64::MAX, 0]),
        longs(&[i64::MIN, 0, 0]),
    ] {
        for path in ["VALUE", "VALUE[65537]"] {
            let error = text_of(&schema, path, &bytes).expect_err("too many");
            assert!(
                error.contains("more than 65536 items without any byte"),
                "{error}"
            );
        }
    }
}

#[test]
fn text_is_limited() {
    let name = "n".repeat(1 << 20);
    let schema = schema(&format!(
        r#"{{"type": "array", "items":
            {{"type": "record", "name": "R", "fields": [{{"name": "{name}", "type": "int"}}]}}}}"#
    ));
    let mut bytes = longs(&[100]);
    bytes.extend([0; 101]);
    let error = text_of(&schema, "VALUE", &bytes).expect_err("too long");
    assert!(
        error.contains("text of more than 67108864 bytes"),
        "{error}"
    );
    assert_eq!(
        text_of(&schema, &format!("VALUE[99].{name}"), &bytes),
        Ok(Some("0".to_owned()))
    );
}

const NODE: &str = r#"{"type": "record", "name": "Node", "fields": [
    {"name": "id", "type": "int"}, {"name": "next", "type": ["null", "Node"]}]}"#;

#[test]
fn recursive_schemas_are_read_to_a_limit() {
    let schema = schema(NODE);
    let list = |length: i64| {
        let mut bytes = Vec::new();
        for id in 0..length {
            bytes.extend(longs(&[id, i64::from(id + 1 < length)]));
        }
        bytes
    };
    let path = |steps: usize| format!("VALUE{}.id", ".next".repeat(steps));
    assert_eq!(
        text_of(&schema, &path(200), &list(201)),
        Ok(Some("200".to_owned()))
    );
    let mut whole = select(&schema, &["VALUE.id"]);
    assert_eq!(whole.read(&list(256), JsonCheck::Whole), Ok(()));
    let depth = "more than 256 levels";
    let error = whole
        .read(&list(257), JsonCheck::Whole)
        .expect_err("too deep");
    assert!(error.contains(depth), "{error}");
    for path in [path(257), "VALUE".to_owned()] {
        let error = text_of(&schema, &path, &list(5000)).expect_err("too deep");
        assert!(error.contains(depth), "{error}");
    }
}

#[test]
fn recursive_records_fail() {
    for fields in [
        r#"{"name": "a", "type": "R"}"#,
        r#"{"name": "a", "type": "R"}, {"name": "b", "type": "R"}"#,
    ] {
        let schema = record(fields);
        let mut selected = select(&schema, &["VALUE.a"]);
        let error = selected.read(&[0; 9], JsonCheck::Whole);
        let error = error.expect_err("no value");
        assert!(error.contains("more than 256 levels"), "{error}");
    }
}

/// Returns a recursive schema with this number of variants on each level.
fn variants(count: usize) -> Arc<AvroSchema> {
    let variant = |i| {
        format!(r#"{{"type": "record", "name": "V{i}", "fields": [{{"name": "t", "type": "R"}}]}}"#)
    };
    let variants: Vec<_> = (0..count).map(variant).collect();
    record(&format!(
        r#"{{"name": "a", "type": ["int", {}]}}"#,
        variants.join(",")
    ))
}

#[test]
fn plan_size_is_limited() {
    let levels = 100;
    let path = format!("VALUE{}.a", ".a.t".repeat(levels));
    let mut bytes = longs(&vec![2; levels]);
    bytes.extend(longs(&[0, 7]));
    assert_eq!(
        text_of(&variants(50), &path, &bytes),
        Ok(Some("7".to_owned()))
    );
    let error = text_of(&variants(2000), &path, &bytes).expect_err("too many");
    assert!(error.contains("too many variants"), "{error}");
}

#[test]
fn missing_parts_have_reasons_of_connector() {
    let schema = record(
        r#"{"name": "s", "type": "string"},
           {"name": "n", "type": ["null", "string"]},
           {"name": "a", "type": {"type": "array", "items": "int"}},
           {"name": "m", "type": {"type": "map", "values": ["null", "int"]}}"#,
    );
    let mut bytes = Vec::new();
    put_bytes(b"x", &mut bytes);
    bytes.extend(longs(&[0, 2, 7, -8, 0, 2]));
    for (key, value) in [("k", Some(5)), ("z", None)] {
        put_bytes(key.as_bytes(), &mut bytes);
        match value {
            Some(number) => bytes.extend(longs(&[1, number])),
            None => bytes.push(0),
        }
    }
    bytes.push(0);
    let rows = [
        ("VALUE.s", Ok(Some("x"))),
        ("VALUE.n", Ok(None)),
        ("VALUE.a[1]", Ok(Some("-8"))),
        ("VALUE.m['k']", Ok(Some("5"))),
        ("VALUE.x", Err("field [x] not found")),
        ("VALUE.x.y", Err("field [x] not found")),
        (
            "VALUE[0]",
            Err("cannot retrieve index [0] from a non-array object"),
        ),
        (
            "VALUE.s.x",
            Err("cannot retrieve field [x] from a scalar object"),
        ),
        ("VALUE.s[0]", Err("field [s] is not indexed")),
        (
            "VALUE.n.x",
            Err("cannot retrieve field [x] from a null object"),
        ),
        (
            "VALUE.n[2]",
            Err("cannot retrieve index [2] from a null object"),
        ),
        ("VALUE.a[2]", Err("field not found at index [2]")),
        (
            "VALUE.a.x",
            Err("cannot retrieve field [x] from an array object"),
        ),
        (
            "VALUE.m[0]",
            Err("cannot retrieve index [0] from a non-array object"),
        ),
        ("VALUE.m.z", Err("field [z] not found")),
        ("VALUE.m.z.y", Err("field [z] not found")),
        ("VALUE.m.q", Err("field [q] not found")),
        ("VALUE.m", Ok(Some("{k: 5, z: null}"))),
        ("VALUE.a", Ok(Some("[7, -8]"))),
    ];
    for (path, expected) in rows {
        let expected = expected.map(|text| text.map(str::to_owned));
        let expected = expected.map_err(str::to_owned);
        assert_eq!(text_of(&schema, path, &bytes), expected, "{path}");
    }
    let mut simple = select(&schema, &["VALUE", "VALUE.a", "VALUE.m"]);
    simple
        .read(&bytes, JsonCheck::Needed)
        .expect("a valid record");
    for index in 0..3 {
        let missing = simple
            .text(index, &bytes, false)
            .expect_err("several values");
        let expected = "the expression must evaluate to a non-complex object";
        assert_eq!(missing.to_string(), expected);
    }
}

#[test]
fn repeated_key_counts_once() {
    let schema = schema(r#"{"type": "map", "values": {"type": "array", "items": "int"}}"#);
    let bytes = [4, 2, b'k', 2, 2, 0, 2, b'k', 2, 4, 0, 0];
    let mut selected = select(&schema, &["VALUE.k[0]", "VALUE.x"]);
    for (extent, expected) in [(JsonCheck::Needed, "1"), (JsonCheck::Whole, "2")] {
        selected.read(&bytes, extent).expect("a valid record");
        let found = selected.text(0, &bytes, false).expect("an element");
        assert_eq!(found.as_deref(), Some(expected));
    }
}

#[test]
fn empty_payload_is_null_and_empty_body_is_not() {
    let schema = record("");
    let mut selected = select(&schema, &["VALUE", "VALUE.a"]);
    selected.reader.read(b"", JsonCheck::Whole).expect("null");
    assert_eq!(selected.text(0, b"", true), Ok(None));
    let missing = selected.text(1, b"", true).expect_err("null");
    assert_eq!(
        missing.to_string(),
        "cannot retrieve field [a] from a null object"
    );
    selected
        .reader
        .read_body(b"", JsonCheck::Whole)
        .expect("a record");
    assert_eq!(selected.text(0, b"", true), Ok(Some("{}".to_owned())));
}

#[test]
fn reader_changes_between_schemas_and_paths() {
    let schemas: Vec<_> = (0..100)
        .map(|i| schema(&format!(r#"{{"type": "fixed", "name": "F", "size": {i}}}"#)))
        .collect();
    let mut tree = PathTree::new();
    let whole = tree.add(Expression::parse("VALUE").expect("valid").steps());
    let missing = tree.add(Expression::parse("VALUE.x").expect("valid").steps());
    let tree = Arc::new(tree);
    let mut reader = AvroReader::default();
    for _ in 0..3 {
        for (i, schema) in schemas.iter().enumerate() {
            for nodes in [&[whole][..], &[whole, missing], &[whole]] {
                reader.select(schema, &tree, nodes.iter().copied());
                let mut text = String::new();
                assert!(
                    reader.append(whole, &[], true, &mut text).is_err(),
                    "not read yet"
                );
                let bytes = vec![1; i];
                reader
                    .read_body(&bytes, JsonCheck::Whole)
                    .expect("a valid record");
                reader
                    .append(whole, &bytes, true, &mut text)
                    .expect("a value");
                assert_eq!(text.matches('1').count(), i);
            }
        }
    }
}
