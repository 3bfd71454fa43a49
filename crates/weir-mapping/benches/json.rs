//! Cost of reading JSON: `cargo bench -p weir-mapping`.
//!
//! Each row is one record of the load tests, read once by the mapping (item names and fields, as in
//! the gateway) and once by `serde_json::Value` with pointers to the same values. The last rows
//! compare named fields with `field.*`. Best of several rounds, in nanoseconds per record, on one
//! thread.

// The crate has no side effects, but the benchmark reads the clock and prints.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::sync::Arc;

use std::hint::black_box;

use serde_json::Value;
use weir_mapping::{
    ConfigSource, ConnectionConfig, FieldSet, FieldValues, ItemNames, Mapping, Parameter,
    ParseOptions, RecordView,
};

#[path = "../../../bench/best_time.rs"]
mod best_time;

use best_time::best_time;

fn main() {
    println!(
        "{:<44}{:>9}{:>9}{:>9}{:>13}",
        "ns per record", "routing", "fields", "WHOLE", "serde_json"
    );
    let flat = flat();
    row(
        "1 KB object, 4 fields",
        &[("VALUE", "JSON")],
        ("k", &flat),
        &["timestamp", "fstValue", "sndValue", "intNum"],
        &["/timestamp", "/fstValue", "/sndValue", "/intNum"],
    );
    let complex = complex();
    let names = [
        "timestamp",
        "firstText",
        "secondText",
        "thirdText",
        "fourthText",
        "firstnumber",
        "secondNumber",
        "thirdNumber",
        "fourthNumber",
        "hobbies[0]",
    ];
    let pointers = names.map(|name| format!("/{}", name.replace("[0]", "/0")));
    let pointers = pointers.each_ref().map(String::as_str);
    row(
        "1.3 KB object (scenario 3), 10 fields",
        &[("VALUE", "JSON")],
        ("k", &complex),
        &names,
        &pointers,
    );
    row(
        "1.3 KB object (scenario 3), 1 field",
        &[("VALUE", "JSON")],
        ("k", &complex),
        &["hobbies[0]"],
        &["/hobbies/0"],
    );
    let key = array_key();
    row(
        "12 KB key, template on names[998], 1 field",
        &[("KEY", "JSON")],
        (&key, "v"),
        &["names[998]"],
        &["/names/998"],
    );
    let thirteen: Vec<_> = (1..=12)
        .chain([998])
        .map(|i| format!("names[{i}]"))
        .collect();
    let pointers: Vec<_> = (1..=12)
        .chain([998])
        .map(|i| format!("/names/{i}"))
        .collect();
    let strs = |texts: &[String]| {
        texts
            .iter()
            .map(|t| t.clone().leak() as &str)
            .collect::<Vec<_>>()
    };
    row(
        "12 KB key, 13 names",
        &[("KEY", "JSON")],
        (&key, "v"),
        &strs(&thirteen),
        &strs(&pointers),
    );
    let thousand: Vec<_> = (1..=1000).map(|i| format!("names[{i}]")).collect();
    let pointers: Vec<_> = (1..=1000).map(|i| format!("/names/{i}")).collect();
    row(
        "12 KB key, 1000 names (scenario4)",
        &[("KEY", "JSON")],
        (&key, "v"),
        &strs(&thousand),
        &strs(&pointers),
    );
    dynamic_rows();
}

/// Prints the cost of members as named fields and as fields of `field.*`.
fn dynamic_rows() {
    let names: Vec<_> = (0..20).map(|i| format!("m{i}")).collect();
    let members = names.iter().zip(10..);
    let members: Vec<_> = members
        .map(|(name, seed)| format!("\"{name}\":\"{}\"", filler(24, seed)))
        .collect();
    let document = format!("{{{}}}", members.join(","));
    let view = RecordView {
        topic: "T",
        partition: 0,
        offset: 0,
        timestamp_ms: 0,
        key: Some(b"k"),
        value: Some(document.as_bytes()),
        headers: &[],
    };
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    println!(
        "\n{:<44}{:>9}{:>11}",
        format!("object of 20 members, {} bytes", document.len()),
        "ns/record",
        "ns/field"
    );
    for (title, is_dynamic, count) in [
        ("20 named fields", false, 20),
        ("field.*, 20 subscribed", true, 20),
        ("1 named field (the last)", false, 1),
        ("field.*, 1 subscribed (the last)", true, 1),
    ] {
        let wanted = &names[names.len() - count..];
        let mapping = match is_dynamic {
            true => mapping_of(
                "VALUE",
                &[],
                wanted[0],
                "NEEDED",
                &[("field.*", "#{VALUE.*}")],
            ),
            false => mapping("VALUE", wanted, "NEEDED"),
        };
        let _used = mapping
            .use_dynamic_fields(wanted.iter().copied())
            .expect("room for the names");
        let (all, mut values) = (mapping.all_fields(), FieldValues::new());
        let ns = best_time(|| {
            mapping
                .field_values(black_box(&view), &all, &mut values)
                .expect("valid JSON");
            black_box(&values);
        });
        println!("{title:<44}{ns:>9.0}{:>11.1}", ns / count as f64);
    }
}

fn row(
    title: &str,
    types: &[(&str, &str)],
    record: (&str, &str),
    paths: &[&str],
    pointers: &[&str],
) {
    let (root, _) = types[0];
    let view = RecordView {
        topic: "T",
        partition: 0,
        offset: 0,
        timestamp_ms: 0,
        key: Some(record.0.as_bytes()),
        value: Some(record.1.as_bytes()),
        headers: &[],
    };
    let lazy = mapping(root, paths, "NEEDED");
    let whole = mapping(root, paths, "WHOLE");
    let document = if root == "KEY" { record.0 } else { record.1 };
    check(&lazy, &view, document, pointers);

    let (mut names, mut values) = (ItemNames::new(), FieldValues::new());
    let routing = best_time(|| {
        lazy.item_names(black_box(&view), &mut names)
            .expect("valid JSON");
        black_box(&names);
    });
    let mut fields = |mapping: &Mapping| {
        let all = mapping.all_fields();
        best_time(|| {
            mapping
                .field_values(black_box(&view), &all, &mut values)
                .expect("valid JSON");
            black_box(&values);
        })
    };
    let (needed, whole) = (fields(&lazy), fields(&whole));
    let tree = best_time(|| {
        let tree: Value = serde_json::from_str(black_box(document)).expect("valid JSON");
        for pointer in pointers {
            black_box(tree.pointer(pointer));
        }
    });
    println!("{title:<44}{routing:>9.0}{needed:>9.0}{whole:>9.0}{tree:>13.0}");
}

/// Checks that both readers find the same texts.
fn check(mapping: &Mapping, view: &RecordView<'_>, document: &str, pointers: &[&str]) {
    let mut values = FieldValues::new();
    let all: FieldSet = mapping.all_fields();
    mapping
        .field_values(view, &all, &mut values)
        .expect("valid JSON");
    let tree: Value = serde_json::from_str(document).expect("valid JSON");
    for (i, pointer) in pointers.iter().enumerate() {
        let expected = match tree.pointer(pointer).expect("existing pointer") {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        assert_eq!(values.get(i), Some(expected.as_str()));
    }
}

fn mapping(root: &str, paths: &[&str], extent: &str) -> Arc<Mapping> {
    // The last path is used for routing.
    mapping_of(root, paths, paths[paths.len() - 1], extent, &[])
}

fn mapping_of(
    root: &str,
    paths: &[&str],
    routing: &str,
    extent: &str,
    more: &[(&str, &str)],
) -> Arc<Mapping> {
    let source = ConfigSource {
        file: "bench",
        options: ParseOptions::default(),
    };
    let parameter = |name: String, value: String| Parameter {
        name,
        value,
        line: None,
    };
    let template = format!("ltest-#{{key={root}.{routing}}}");
    let mut parameters = vec![
        parameter("bootstrap.servers".into(), "h:1".into()),
        parameter(
            format!("record.{}.evaluator.type", root.to_lowercase()),
            "JSON".into(),
        ),
        parameter("item-template.t".into(), template),
        parameter("map.T.to".into(), "item-template.t".into()),
        parameter("weir.json.check".into(), extent.into()),
    ];
    for (name, value) in more {
        parameters.push(parameter((*name).into(), (*value).into()));
    }
    for path in paths {
        parameters.push(parameter(
            format!("field.{path}"),
            format!("#{{{root}.{path}}}"),
        ));
    }
    ConnectionConfig::from_parameters("C", parameters, &source, None, &mut Vec::new())
        .expect("valid parameters")
        .mapping
}

/// Returns text without escapes, the same in every run.
fn filler(length: usize, seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                [(state % 62) as usize],
        )
    };
    (0..length).map(|_| next()).collect()
}

fn flat() -> String {
    format!(
        concat!(
            r#"{{"timestamp":"2026-01-01 00:00:00.000","fstValue":"{}","sndValue":"{}","#,
            r#""intNum":-123456789}}"#
        ),
        filler(512, 1),
        filler(440, 2)
    )
}

fn complex() -> String {
    let text = |seed| filler(256, seed);
    format!(
        concat!(
            r#"{{"id":"James","firstText":"{}","secondText":"{}","thirdText":"{}","#,
            r#""fourthText":"{}","firstnumber":123456,"secondNumber":-99887766,"#,
            r#""thirdNumber":77,"fourthNumber":2000000000,"#,
            r#""hobbies":["Playing video games","Chess","Hiking"],"#,
            r#""timestamp":"2026-01-01 00:00:00.000"}}"#
        ),
        text(1),
        text(2),
        text(3),
        text(4)
    )
}

fn array_key() -> String {
    let pool = [
        "James",
        "John",
        "Christopher",
        "William",
        "Timothy",
        "Brian",
        "Gregory",
        "Jose",
    ];
    let names: Vec<_> = (0..1024)
        .map(|i| format!("\"{}\"", pool[i * 7 % pool.len()]))
        .collect();
    format!(
        concat!(
            r#"{{"timestamp":"2026-01-01 00:00:00.000","nameId":"James","sndValue":"{}","#,
            r#""intNum":5,"names":[{}]}}"#
        ),
        filler(256, 3),
        names.join(",")
    )
}
