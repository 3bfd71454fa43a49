//! Texts compared with those of the Java library.

use std::collections::BTreeMap;

use super::common::{FoundValue, find, members, message};
use crate::json::JsonCheck;

const GOLDEN: &str = include_str!("golden.txt");

/// A message and the results of its paths.
#[derive(Default)]
struct Record {
    name: &'static str,
    message: &'static str,
    bytes: Vec<u8>,
    rows: Vec<(&'static str, &'static str)>,
}

fn records() -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let lines = GOLDEN
        .lines()
        .filter(|l| !l.is_empty() && !l.starts_with('#'));
    for line in lines {
        if let Some(rest) = line.strip_prefix("record ") {
            let (name, message) = rest.split_once(' ').expect("a name and a message");
            records.push(Record {
                name,
                message,
                ..Record::default()
            });
            continue;
        }
        let record = records.last_mut().expect("a record first");
        if let Some(hex) = line.strip_prefix("hex") {
            let digits: Vec<u8> = hex.trim().bytes().collect();
            record.bytes.extend(digits.chunks(2).map(|pair| {
                let pair = std::str::from_utf8(pair).expect("hexadecimal digits");
                u8::from_str_radix(pair, 16).expect("hexadecimal digits")
            }));
        } else {
            let (path, result) = line.split_once(" | ").expect("a path and a result");
            record.rows.push((path, result));
        }
    }
    records
}

/// Returns the bytes of all messages.
pub(super) fn messages() -> Vec<Vec<u8>> {
    records().into_iter().map(|record| record.bytes).collect()
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some((before, escape)) = rest.split_once('\\') {
        out.push_str(before);
        let length = match escape.as_bytes()[0] {
            b'n' => {
                out.push('\n');
                1
            }
            b'x' => {
                let code = u8::from_str_radix(&escape[1..3], 16).expect("two digits");
                out.push(char::from(code));
                3
            }
            _ => {
                out.push('\\');
                1
            }
        };
        rest = &escape[length..];
    }
    out + rest
}

#[test]
fn paths_give_texts_of_java_library() {
    let mut count = 0;
    for record in records() {
        let message = message(record.message);
        for (path, result) in &record.rows {
            if path.ends_with('*') {
                continue;
            }
            count += 1;
            let (mark, text) = result.split_at(1);
            let text = unescape(text.strip_prefix(' ').unwrap_or(text));
            let expected = match mark {
                "=" => FoundValue::Scalar(text),
                "{" => FoundValue::Complex(text),
                _ if text == "decode" => FoundValue::Malformed,
                _ => FoundValue::Missing(text),
            };
            let found = find(&message, &record.bytes, path, JsonCheck::Whole);
            assert_eq!(found, expected, "{} {path}", record.name);
            if expected != FoundValue::Malformed {
                let found = find(&message, &record.bytes, path, JsonCheck::Needed);
                assert_eq!(found, expected, "{} {path}", record.name);
            }
        }
    }
    assert!(count > 250, "{count} rows");
}

#[test]
fn members_have_texts_of_java_library() {
    let mut count = 0;
    for record in records() {
        let mut expected: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
        for (path, result) in record.rows.iter().filter(|(path, _)| path.ends_with('*')) {
            let (name, text) = result.split_once(" = ").expect("a name and a text");
            let rows = expected.entry(path).or_default();
            rows.insert(name.trim().to_owned(), unescape(text));
            count += 1;
        }
        for (path, mut rows) in expected {
            let node = path.trim_end_matches('*').trim_end_matches('.');
            let found = members(&message(record.message), &record.bytes, node);
            // The connector fails for these lists and so shows nothing to compare with.
            rows.extend(
                found
                    .get("history")
                    .map(|text| ("history".into(), text.clone())),
            );
            assert_eq!(found, rows, "{} {path}", record.name);
        }
    }
    assert!(count > 40, "{count} rows");
}
