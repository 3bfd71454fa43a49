//! Cost of reading Protobuf: `bench/run 1 formats`.
//!
//! Each row reads values of one record of 1 KB and 20 fields, with the compiled plan and with
//! `prost_reflect::DynamicMessage`.

use std::fmt::Write;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor, Value};
use weir_formats::protobuf::{ProtobufExtractor, ProtobufMessage, ProtobufSchema};
use weir_formats_bench::cost::{CostTable, RowTimes, best_times};

/// Length of each text field; with the numbers the record has 1 KB.
const TEXT_BYTES: usize = 92;

fn main() -> ExitCode {
    let names: Vec<String> = (1..=20).map(|number| format!("f{number}")).collect();
    let mut text = String::from("syntax = \"proto3\"; message Row { ");
    for (index, name) in names.iter().enumerate() {
        // Every second field is a text, as in the records of the load tests.
        let kind = if index % 2 == 0 { "string" } else { "int64" };
        let _ = write!(text, "{kind} {name} = {}; ", index + 1);
    }
    text.push('}');
    let schema = ProtobufSchema::parse_proto(&text, &[]).expect("a schema");
    let message = schema.message("Row").expect("a message");
    let descriptor = descriptor(&names);
    let record = record();
    let all: Vec<usize> = (0..20).collect();
    let mut table = CostTable::new("prost-reflect", record.len());
    for (title, goal, fields) in [
        ("key field (first)", Some(60.0), &[0][..]),
        ("three fields from the middle", Some(300.0), &[8, 9, 10]),
        ("last field", None, &[19]),
        ("all fields", None, &all),
    ] {
        let names: Vec<_> = fields.iter().map(|index| names[*index].as_str()).collect();
        table.row(title, goal, || {
            times(&message, &descriptor, &names, &record)
        });
    }
    table.finish()
}

fn times(
    message: &Arc<ProtobufMessage>,
    descriptor: &MessageDescriptor,
    names: &[&str],
    record: &[u8],
) -> RowTimes {
    let paths: Vec<String> = names.iter().map(|name| format!("VALUE.{name}")).collect();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let [mut needed_text, mut whole_text, mut texts] = [(); 3].map(|()| String::new());
    let own = |checks_all| ProtobufExtractor::new(message, &paths, checks_all).expect("valid");
    let (mut needed, mut whole) = (own(false), own(true));
    let call = |extractor: &mut ProtobufExtractor, out: &mut String| {
        out.clear();
        extractor.read(black_box(record)).expect("a message");
        for index in 0..paths.len() {
            extractor.append(index, record, out).expect("a value");
        }
        black_box(&*out);
    };
    let mut other = || {
        texts.clear();
        let decoded = DynamicMessage::decode(descriptor.clone(), black_box(record));
        let decoded = decoded.expect("a message");
        for name in names {
            match decoded.get_field_by_name(name).as_deref() {
                Some(Value::String(text)) => texts.push_str(text),
                Some(Value::I64(number)) => {
                    let _ = write!(texts, "{number}");
                }
                _ => panic!("a text or a number"),
            }
        }
        black_box(&texts);
    };
    let best = best_times(&mut [
        &mut || call(&mut needed, &mut needed_text),
        &mut || call(&mut whole, &mut whole_text),
        &mut other,
    ]);
    assert_eq!(needed_text, texts);
    assert_eq!(whole_text, texts);
    RowTimes {
        needed: best[0],
        whole: best[1],
        other: best[2],
    }
}

/// Returns a record in the order of its fields, as all writers produce it.
fn record() -> Vec<u8> {
    let mut bytes = Vec::new();
    for number in 1..=20_u64 {
        if number % 2 == 1 {
            varint(number << 3 | 2, &mut bytes);
            varint(TEXT_BYTES as u64, &mut bytes);
            bytes.extend((0..TEXT_BYTES).map(|i| b'a' + ((i + number as usize) % 26) as u8));
        } else {
            varint(number << 3, &mut bytes);
            varint(number * 1_234_567, &mut bytes);
        }
    }
    bytes
}

/// Returns the same message type for `prost-reflect`, which reads descriptor sets only.
fn descriptor(names: &[String]) -> MessageDescriptor {
    let mut message = field(1, b"Row");
    for (index, name) in names.iter().enumerate() {
        let mut own = field(1, name.as_bytes());
        own.extend([24, index as u8 + 1, 32, 1, 40]);
        own.push(if index % 2 == 0 { 9 } else { 3 });
        message.extend(field(2, &own));
    }
    let mut file = field(1, b"row.proto");
    file.extend(field(4, &message));
    file.extend(field(12, b"proto3"));
    let pool = DescriptorPool::decode(field(1, &file).as_slice()).expect("a descriptor set");
    pool.get_message_by_name("Row").expect("a message")
}

fn field(number: u64, content: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    varint(number << 3 | 2, &mut bytes);
    varint(content.len() as u64, &mut bytes);
    bytes.extend(content);
    bytes
}

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
