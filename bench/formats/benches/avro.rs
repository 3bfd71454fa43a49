//! Cost of reading Avro: `bench/run 1 formats`.
//!
//! Each row reads values of one record of 1 KB and 20 fields, with the compiled plan and with the
//! datum reader of `apache-avro`. That one gets a schema that is resolved once.

use std::fmt::Write;
use std::hint::black_box;
use std::process::ExitCode;
use std::sync::Arc;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;
use weir_formats::avro::{AvroExtractor, AvroSchema};
use weir_formats_bench::avro_model::{put_bytes, put_long};
use weir_formats_bench::cost::{CostTable, RowTimes, best_times};

/// Length of each text; with the numbers the record has 1 KB.
const TEXT_BYTES: usize = 120;
const TYPES: [&str; 5] = [
    r#""string""#,
    r#""long""#,
    r#"["null", "string"]"#,
    r#""double""#,
    r#"{"type": "array", "items": "int"}"#,
];

fn main() -> ExitCode {
    let fields: Vec<_> = (0..20)
        .map(|i| format!(r#"{{"name": "f{i}", "type": {}}}"#, TYPES[i % 5]))
        .collect();
    let fields = fields.join(",");
    let text = format!(r#"{{"type": "record", "name": "R", "fields": [{fields}]}}"#);
    let record = record();
    let all: Vec<usize> = (0..20).collect();
    let mut table = CostTable::new("apache-avro", record.len());
    for (title, goal, fields) in [
        ("key field (first)", Some(100.0), &[0][..]),
        ("three fields from the middle", Some(300.0), &[7, 10, 12]),
        ("last text field", None, &[17]),
        ("all fields", None, &all),
    ] {
        table.row(title, goal, || times(&text, &record, fields));
    }
    table.finish()
}

fn times(text: &str, record: &[u8], fields: &[usize]) -> RowTimes {
    let schema = Arc::new(AvroSchema::parse(text, &[]).expect("a valid schema"));
    let paths: Vec<_> = fields
        .iter()
        .map(|index| format!("VALUE.f{index}"))
        .collect();
    let paths: Vec<_> = paths.iter().map(String::as_str).collect();
    let [mut needed_text, mut whole_text, mut texts] = [(); 3].map(|()| String::new());
    let mut needed = AvroExtractor::new(&schema, &paths).expect("valid paths");
    let mut whole = needed.clone();
    let call = |own: &mut AvroExtractor, is_whole, text: &mut String| {
        text.clear();
        own.read(black_box(record), is_whole)
            .expect("a valid record");
        for index in 0..paths.len() {
            own.append(index, record, text).expect("an existing field");
        }
        black_box(&*text);
    };
    let schema = Schema::parse_str(text).expect("a valid schema");
    let reader = GenericDatumReader::builder(&schema)
        .build()
        .expect("a reader");
    let mut other = || {
        texts.clear();
        let value = reader
            .read_value(&mut black_box(record))
            .expect("a valid record");
        let Value::Record(values) = value else {
            panic!("a record");
        };
        for index in fields {
            append(&values[*index].1, &mut texts);
        }
        black_box(&texts);
    };
    let best = best_times(&mut [
        &mut || call(&mut needed, false, &mut needed_text),
        &mut || call(&mut whole, true, &mut whole_text),
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

/// Appends the text of a value.
fn append(value: &Value, out: &mut String) {
    // Writing to a String cannot fail.
    let _ = match value {
        Value::Long(number) => write!(out, "{number}"),
        Value::Int(number) => write!(out, "{number}"),
        Value::Double(number) => write!(out, "{number:?}"),
        Value::String(text) => out.write_str(text),
        Value::Union(_, inner) => {
            append(inner, out);
            Ok(())
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index == 0 { "[" } else { ", " });
                append(item, out);
            }
            out.write_str("]")
        }
        other => panic!("unexpected {other:?}"),
    };
}

fn record() -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..4 {
        put_bytes(&[b'x'; TEXT_BYTES], &mut out);
        put_long(1_700_000_000_123, &mut out);
        put_long(1, &mut out);
        put_bytes(&[b'y'; TEXT_BYTES], &mut out);
        out.extend(2.5_f64.to_le_bytes());
        out.extend([6, 2, 4, 6, 0]);
    }
    out
}
