//! Records and texts of Avro's Java library.

use super::{Text, schema, select};
use crate::json::JsonCheck;

const SCHEMA: &str = include_str!("../../../tests/fixtures/avro-java.avsc");
const RECORDS: &str = include_str!("../../../tests/fixtures/avro-java.txt");

fn bytes_of(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).expect("ASCII"), 16);
    pairs.map(|pair| byte(pair).expect("hexadecimal")).collect()
}

/// Decodes the escapes of the fixture.
fn decoded(text: &str) -> Text {
    if text == "\\N" {
        return None;
    }
    let mut parts = text.split("\\u");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (code, rest) = part.split_at(4);
        let code = u32::from_str_radix(code, 16).expect("hexadecimal");
        out.extend(char::from_u32(code));
        out.push_str(rest);
    }
    Some(out)
}

#[test]
fn records_of_java_library_have_its_texts() {
    let schema = schema(SCHEMA);
    let mut checked = 0;
    for record in RECORDS.split("\nrecord ").skip(1) {
        let (hex, lines) = record.split_once('\n').expect("lines after the record");
        let bytes = bytes_of(hex);
        for line in lines.lines() {
            let columns: Vec<_> = line.split('\t').collect();
            let path = match columns[0] {
                "VALUE" => "VALUE".to_owned(),
                name => format!("VALUE.{name}"),
            };
            let mut selected = select(&schema, &[&path, "VALUE"]);
            for extent in [JsonCheck::Needed, JsonCheck::Whole] {
                selected.read(&bytes, extent).expect("a valid record");
                let found = selected.text(0, &bytes, true).expect("an existing field");
                assert_eq!(found, decoded(columns[1]), "{path}");
            }
            if let Some(discovered) = columns.get(2) {
                let members = selected.members(1, &bytes).expect("a record");
                let found = members.iter().find(|(name, _)| name == columns[0]);
                assert_eq!(found.expect("a field").1, decoded(discovered), "{path}.*");
            }
            checked += 1;
        }
    }
    assert_eq!(checked, 66);
}
