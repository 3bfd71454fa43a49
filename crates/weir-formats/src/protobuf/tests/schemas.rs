//! Schemas from texts and descriptor sets.

use std::fmt::Write;

use super::super::schema::types::{FieldKind, Types};
use super::super::wire::{self, BYTES};
use super::super::{ProtobufSchema, ProtobufSchemaError};
use super::common::{LEGACY, SAMPLE, SAMPLE_SET, bytes_field, sample, varint};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use proptest::prelude::*;

fn references() -> Vec<(String, String)> {
    vec![("legacy.proto".to_owned(), LEGACY.to_owned())]
}

/// Returns all messages and their fields as text, with the names of types instead of positions.
fn describe(schema: &ProtobufSchema) -> String {
    let types: &Types = &schema.types;
    let mut names: Vec<_> = types.by_name.iter().collect();
    names.sort();
    let kind = |kind: FieldKind| match kind {
        FieldKind::Enum(id) => {
            let values = types.enumeration(id);
            format!(
                "{} {} {:?}",
                values.short_name, values.is_closed, values.values
            )
        }
        FieldKind::Message(id) | FieldKind::Group(id) => types.message(id).name.to_string(),
        FieldKind::Map(id) => {
            let fields = types.message(id).fields.iter();
            format!(
                "map {:?}",
                fields
                    .map(|f| (f.kind.wire(), &f.default))
                    .collect::<Vec<_>>()
            )
        }
        kind => format!("{kind:?}"),
    };
    let mut out = String::new();
    for (name, id) in names {
        let message = types.message(*id);
        let nested = message
            .nested
            .iter()
            .map(|id| types.message(*id).name.clone());
        let _ = writeln!(out, "{name} {:?}", nested.collect::<Vec<_>>());
        for index in &message.declared {
            let field = &message.fields[*index as usize];
            let _ = writeln!(
                out,
                "  {} {} {} {} {} {} {} {:?} {}",
                field.number,
                field.name,
                kind(field.kind),
                field.is_repeated,
                field.is_required,
                field.has_presence,
                field.checks_encoding,
                field.oneof,
                field.default
            );
        }
    }
    out
}

#[test]
fn text_and_descriptor_set_give_same_types() {
    let text = ProtobufSchema::parse_proto(SAMPLE, &references()).expect("a schema");
    let set = sample();
    let (text, set) = (describe(&text), describe(&set));
    for (text, set) in text.lines().zip(set.lines()) {
        assert_eq!(text, set);
    }
    assert_eq!(text, set);
}

/// Returns name and descriptor in base64 of each file of a set of small files.
fn descriptors(set: &[u8]) -> Vec<(String, String)> {
    let field = |bytes: &[u8]| {
        let extent = wire::length(bytes, 1).expect("a length");
        (extent.at, extent.end)
    };
    let (mut files, mut rest) = (Vec::new(), set);
    while !rest.is_empty() {
        let (at, end) = field(rest);
        let file = &rest[at..end];
        // The name comes first.
        let (at, name_end) = field(file);
        let name = std::str::from_utf8(&file[at..name_end]).expect("a name");
        files.push((name.to_owned(), BASE64_STANDARD.encode(file)));
        rest = &rest[end..];
    }
    files
}

#[test]
fn descriptors_in_base64_give_same_types() {
    let mut files = descriptors(SAMPLE_SET);
    let (_, main) = files.pop().expect("a file");
    for references in [files, references()] {
        let schema = ProtobufSchema::parse_proto(&format!("{main}\n"), &references);
        let schema = schema.expect("a schema");
        assert_eq!(describe(&schema), describe(&sample()));
    }
    let error = ProtobufSchema::parse_proto(&main, &[]).expect_err("a missing file");
    assert!(error.to_string().contains("legacy.proto"), "{error}");
}

#[test]
fn errors_quote_little_of_a_text() {
    let descriptor = ProtobufSchema::parse_proto(&"A".repeat(1 << 12), &[]);
    let error = descriptor.expect_err("no descriptor").to_string();
    assert!(error.contains("not a Protobuf descriptor"), "{error}");
    for word in ["x_", "ü"] {
        let text = ProtobufSchema::parse_proto(&word.repeat(1 << 12), &[]);
        let error = text.expect_err("no text").to_string();
        assert!(error.len() < 300, "{} bytes", error.len());
    }
}

#[test]
fn messages_are_found_by_name_and_index() {
    let schema = sample();
    let name = |indexes: &[i32]| schema.message_at(indexes).map(|m| m.name().to_owned());
    assert_eq!(name(&[]).as_deref(), Some("weir.sample.Everything"));
    assert_eq!(name(&[0]).as_deref(), Some("weir.sample.Everything"));
    assert_eq!(
        name(&[0, 0]).as_deref(),
        Some("weir.sample.Everything.Nested")
    );
    for indexes in [&[1][..], &[-1], &[0, 1], &[0, 0, 0], &[i32::MAX]] {
        assert_eq!(name(indexes), None, "{indexes:?}");
    }
    let by_name = |name| schema.message(name).map(|m| m.name().to_owned());
    for written in ["weir.legacy.Order", "Order"] {
        assert_eq!(by_name(written).as_deref(), Some("weir.legacy.Order"));
    }
    let nested = by_name("Everything.Nested");
    assert_eq!(nested.as_deref(), Some("weir.sample.Everything.Nested"));
    for unknown in ["", "Nope", ".weir.legacy.Order", "Everything.LabelsEntry"] {
        assert_eq!(by_name(unknown), None, "{unknown}");
    }
}

#[test]
fn same_short_name_in_two_packages_needs_package() {
    let main = "syntax = \"proto3\"; package a; import \"b.proto\"; message M {}";
    let other = ("b.proto".to_owned(), "package b; message M {}".to_owned());
    let schema = ProtobufSchema::parse_proto(main, &[other]).expect("a schema");
    assert!(schema.message("M").is_none());
    assert!(schema.message("a.M").is_some() && schema.message("b.M").is_some());
}

#[test]
fn all_built_in_files_are_valid() {
    for name in [
        "google/protobuf/any.proto",
        "google/protobuf/api.proto",
        "google/protobuf/descriptor.proto",
        "google/protobuf/duration.proto",
        "google/protobuf/empty.proto",
        "google/protobuf/field_mask.proto",
        "google/protobuf/source_context.proto",
        "google/protobuf/struct.proto",
        "google/protobuf/timestamp.proto",
        "google/protobuf/type.proto",
        "google/protobuf/wrappers.proto",
        "confluent/meta.proto",
        "confluent/types/decimal.proto",
        "google/type/date.proto",
        "google/type/dayofweek.proto",
        "google/type/decimal.proto",
        "google/type/interval.proto",
        "google/type/latlng.proto",
        "google/type/money.proto",
        "google/type/month.proto",
        "google/type/timeofday.proto",
    ] {
        let text = format!("import \"{name}\"; message M {{}}");
        if let Err(error) = ProtobufSchema::parse_proto(&text, &[]) {
            panic!("{error}");
        }
    }
}

#[test]
fn editions_follow_their_features() {
    let text = r#"
        edition = "2023";
        option features.field_presence = IMPLICIT;
        message M {
          int32 a = 1;
          int32 b = 2 [features.field_presence = EXPLICIT];
          int32 c = 3 [features.field_presence = LEGACY_REQUIRED];
          N d = 4 [features.message_encoding = DELIMITED];
          E e = 5;
          string f = 6 [features.utf8_validation = NONE];
        }
        message N {}
        enum E { option features.enum_type = CLOSED; ONE = 1; }
    "#;
    let schema = ProtobufSchema::parse_proto(text, &[]).expect("a schema");
    let fields = &schema.types.messages[0].fields;
    let presence: Vec<_> = fields.iter().map(|f| f.has_presence).collect();
    assert_eq!(presence, [false, true, true, true, false, false]);
    let required: Vec<_> = fields.iter().map(|f| f.is_required).collect();
    assert_eq!(required, [false, false, true, false, false, false]);
    assert!(matches!(fields[3].kind, FieldKind::Group(_)));
    assert_eq!(*fields[4].default, *"ONE");
    assert!(fields[0].checks_encoding && !fields[5].checks_encoding);
}

#[test]
fn wrong_texts_have_clear_errors() {
    let rows = [
        (
            "message M { int32 a = 1",
            "schema:1: expected ';', found the end of the text",
        ),
        (
            "\nmessage M { Nope a = 1; }",
            "M.a: type \"Nope\" is not defined",
        ),
        (
            "message M { int32 a = 0; }",
            "M.a: field number 0 is invalid",
        ),
        (
            "message M { int32 a = 1; int32 b = 1; }",
            "M.b: number 1 is used twice",
        ),
        (
            "message M { int32 a = 1; int32 a = 2; }",
            "M.a: field defined twice",
        ),
        ("message M {} message M {}", "M: defined twice"),
        ("enum E {}", "E: an enum without values"),
        (
            "import \"x.proto\";",
            "schema: import \"x.proto\" is neither a reference of the schema nor built in",
        ),
        (
            "syntax = \"proto4\";",
            "schema:1: syntax \"proto4\" is not supported; write proto2, proto3, or edition 2023 \
             or 2024",
        ),
        (
            "message M { optional int32 a = 1 [default = x]; }",
            "M.a: default x is not a value of its type",
        ),
        (
            "message M { map<float, int32> a = 1; }",
            "M.a: malformed map type",
        ),
        (
            "edition = \"2023\"; message M {} option features.enum_type = CLOSED;",
            "schema:1: options of features must come before messages and fields",
        ),
    ];
    for (text, expected) in rows {
        let error = ProtobufSchema::parse_proto(text, &[]).expect_err(text);
        assert_eq!(error.to_string(), expected, "{text}");
    }
}

#[test]
fn deep_and_large_schemas_are_rejected() {
    let deep = "message M {".repeat(100_000);
    assert!(ProtobufSchema::parse_proto(&deep, &[]).is_err());
    let options = format!("message M {{ option (a) = {}", "{".repeat(100_000));
    assert!(ProtobufSchema::parse_proto(&options, &[]).is_err());
    let large = " ".repeat((16 << 20) + 1);
    let error = ProtobufSchema::parse_proto(&large, &[]).expect_err("too large");
    assert!(matches!(error, ProtobufSchemaError::TooLarge { .. }));
    let mut nested = Vec::new();
    for _ in 0..100 {
        nested = bytes_field(3, &nested);
    }
    let set = bytes_field(1, &bytes_field(4, &nested));
    assert!(matches!(
        ProtobufSchema::from_descriptor_set(&set),
        Err(ProtobufSchemaError::Descriptor(_))
    ));
    assert!(ProtobufSchema::from_descriptor_set(&[]).is_err());
    assert!(ProtobufSchema::from_descriptor_set(b"syntax = \"proto3\";").is_err());
}

#[test]
fn recursive_types_are_compiled() {
    let text = "syntax = \"proto3\"; message A { B b = 1; } message B { A a = 1; B b = 2; }";
    let schema = ProtobufSchema::parse_proto(text, &[]).expect("a schema");
    let mut tag = Vec::new();
    varint(1 << 3 | u64::from(BYTES), &mut tag);
    tag.push(0);
    let message = schema.message("A").expect("a message");
    let found = super::common::find(&message, &tag, "b.a.b.b.b", crate::json::JsonCheck::Whole);
    assert_eq!(found, super::common::FoundValue::Complex(String::new()));
}

proptest! {
    #[test]
    fn cut_and_changed_schemas_never_panic(cut in 0_usize..6000, at in 0_usize..20_000, byte: u8) {
        let mut set = SAMPLE_SET.to_vec();
        let position = at % set.len();
        set[position] = byte;
        let _ = ProtobufSchema::from_descriptor_set(&set);
        let _ = ProtobufSchema::from_descriptor_set(&SAMPLE_SET[..at.min(SAMPLE_SET.len())]);
        let text: String = SAMPLE.chars().take(cut).collect();
        let _ = ProtobufSchema::parse_proto(&text, &references());
        let changed: String = SAMPLE
            .chars()
            .enumerate()
            .map(|(i, c)| if i == cut { char::from(byte & 0x7f) } else { c })
            .collect();
        let _ = ProtobufSchema::parse_proto(&changed, &references());
    }
}
