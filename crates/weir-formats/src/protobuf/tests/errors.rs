//! Malformed messages: errors with their positions, and no panic for any bytes.

use std::sync::Arc;

use super::super::reader::ProtobufReader;
use super::super::{ProtobufExtractor, ProtobufMessage};
use super::common::{bytes_field, message, sample, varint};
use crate::expression::Expression;
use crate::fuzz;
use crate::json::{JsonCheck, PathTree};
use proptest::collection::vec;
use proptest::prelude::*;

const EVERYTHING: &str = "weir.sample.Everything";

fn extractor(expressions: &[&str]) -> ProtobufExtractor {
    ProtobufExtractor::new(&message(EVERYTHING), expressions, false).expect("expressions")
}

#[test]
fn errors_name_field_and_position() {
    let mut varint_cut = vec![0x18];
    varint_cut.extend([0xff; 3]);
    let rows: [(&[u8], &str); 6] = [
        (
            &[0x72, 5, b'a'],
            "length beyond the end of the message at byte 1 in weir.sample.Everything.string_value",
        ),
        (
            &varint_cut,
            "unexpected end at byte 4 in weir.sample.Everything.int32_value",
        ),
        (
            &[0, 1],
            "invalid field number at byte 0 in weir.sample.Everything",
        ),
        (
            &[0x0f],
            "invalid wire type at byte 1 in weir.sample.Everything.double_value",
        ),
        (
            &[0x8a, 1, 3, 0x0a, 9, b'a'],
            "length beyond the end of the message at byte 4 in weir.sample.Everything.Nested.name",
        ),
        (
            &[0xcb, 0x3e, 0x08],
            "unexpected end at byte 3 in field 1001 of weir.sample.Everything",
        ),
    ];
    let mut extractor = extractor(&["VALUE.far", "VALUE.nested.size"]);
    for (bytes, expected) in rows {
        let error = extractor.read(bytes).expect_err(expected);
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn malformed_text_is_error_where_schema_checks_it() {
    let bytes = bytes_field(14, b"ab\xff");
    let mut extractor = extractor(&["VALUE.string_value", "VALUE.count"]);
    extractor.read(&bytes).expect("lengths are right");
    let mut out = String::new();
    let error = extractor
        .append(0, &bytes, &mut out)
        .expect_err("malformed UTF-8");
    assert_eq!(
        error.to_string(),
        "malformed UTF-8 at byte 4 in weir.sample.Everything.string_value"
    );
    assert_eq!(extractor.append(1, &bytes, &mut out), Ok(true));
}

#[test]
fn text_of_packed_list_is_bounded() {
    let packed = vec![0; 8 << 20];
    let bytes = bytes_field(20, &packed);
    let mut extractor = extractor(&["VALUE.numbers", "VALUE.numbers[8388607]"]);
    extractor.read(&bytes).expect("a message");
    let mut out = String::new();
    assert_eq!(extractor.append(1, &bytes, &mut out), Ok(true));
    let error = extractor
        .append(0, &bytes, &mut out)
        .expect_err("too large");
    assert!(
        error.to_string().starts_with("text of more than 64 MiB"),
        "{error}"
    );
    assert!(out.len() < 70 << 20);
}

#[test]
fn many_alternating_members_of_oneof_are_read_in_one_pass() {
    let mut bytes = Vec::new();
    for _ in 0..200_000 {
        varint(41 << 3, &mut bytes);
        bytes.push(1);
        varint(43 << 3, &mut bytes);
        bytes.push(1);
    }
    let mut extractor = extractor(&["VALUE", "VALUE.count", "VALUE.hue"]);
    extractor.read(&bytes).expect("a message");
    let text = |extractor: &mut ProtobufExtractor, index| {
        let mut out = String::new();
        extractor.append(index, &bytes, &mut out).expect("a value");
        out
    };
    assert_eq!(text(&mut extractor, 0), "hue: RED\n");
    assert_eq!(text(&mut extractor, 1), "0");
    assert_eq!(text(&mut extractor, 2), "RED");
}

#[test]
fn plans_of_many_types_and_selections_stay_apart() {
    let schema = sample();
    let mut reader = ProtobufReader::default();
    let mut paths = PathTree::new();
    let mut add = |path: &str| {
        let expression = Expression::parse(path).expect("an expression");
        paths.add(expression.steps())
    };
    let nodes = [add("VALUE.name"), add("VALUE.size"), add("VALUE.type_url")];
    let paths = Arc::new(paths);
    let messages: Vec<Arc<ProtobufMessage>> = schema
        .message_names()
        .filter_map(|name| schema.message(name))
        .collect();
    assert!(messages.len() > 20);
    let nested = schema
        .message("weir.sample.Everything.Nested")
        .expect("a message");
    for round in 0..3 {
        for message in &messages {
            reader.select(message, &paths, nodes.iter().copied());
            reader.read(&[], JsonCheck::Whole).ok();
        }
        let bytes = [0x0a, 1, b'n', 0x10, round];
        for (index, expected) in [(0, "n".to_owned()), (1, round.to_string())] {
            reader.select(&nested, &paths, [nodes[index]].into_iter());
            reader.read(&bytes, JsonCheck::Whole).expect("a message");
            let mut out = String::new();
            let found = reader.append(nodes[index], &bytes, false, &mut out);
            assert!(found.is_ok() && out == expected, "{out}");
        }
    }
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        fuzz::protobuf(&bytes);
    }

    #[test]
    fn changed_messages_never_panic(record in 0_usize..30, at: usize, bit in 0_u8..8, cut: usize) {
        let records = super::golden::messages();
        let mut bytes = records[record % records.len()].clone();
        if !bytes.is_empty() {
            let length = bytes.len();
            bytes[at % length] ^= 1 << bit;
            fuzz::protobuf(&bytes);
            fuzz::protobuf(&bytes[..cut % length]);
        }
    }
}
