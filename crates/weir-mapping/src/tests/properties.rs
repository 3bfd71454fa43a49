//! Properties for arbitrary text: no panics, stable canonical names, expansion that parses back.

use std::sync::Arc;

use weir_formats::expression::Expression;

use crate::template::ItemTemplate;
use crate::{
    CanonicalItem, ConfigSource, ConnectionConfig, FieldValues, ItemNames, Mapping, Parameter,
    ParseOptions, RecordView, fuzz,
};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

/// Generates texts from the characters that are significant to the parsers.
fn tricky() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "KEY",
        "VALUE",
        "HEADERS",
        "TOPIC",
        ".",
        "..",
        "[",
        "]",
        "[0]",
        "['a']",
        "'",
        "*",
        "#{",
        "}",
        "-",
        "-[",
        "-#{",
        "=",
        ",",
        " ",
        "\t",
        "\n",
        "a",
        "b_1",
        "0",
        "99999999999",
        "é",
        "\u{a0}",
        "\u{2028}",
        "$env.",
        "\\$",
        "item",
        "<",
        ">",
        "&amp;",
        "\"",
        "/",
    ]);
    vec(pieces, 0..12).prop_map(|pieces| pieces.concat())
}

fn parameter(name: &str, value: String) -> Parameter {
    Parameter {
        name: name.to_owned(),
        value,
        line: None,
    }
}

fn mapping(template: String) -> Arc<Mapping> {
    let source = ConfigSource {
        file: "test",
        options: ParseOptions::default(),
    };
    let parameters = [
        parameter("bootstrap.servers", "h:1".into()),
        parameter("item-template.t", template),
        parameter("map.T.to", "item-template.t".into()),
        parameter("field.v", "#{VALUE}".into()),
    ];
    ConnectionConfig::from_parameters("C", parameters, &source, None, &mut Vec::new())
        .expect("valid parameters")
        .mapping
}

proptest! {
    #[test]
    fn expressions_and_templates_never_panic(text in tricky()) {
        fuzz::expression(text.as_bytes());
    }

    #[test]
    fn canonicalization_is_idempotent_and_never_panics(text in tricky()) {
        fuzz::item(text.as_bytes());
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in vec(any::<u8>(), 0..200)) {
        fuzz::expression(&bytes);
        fuzz::item(&bytes);
        fuzz::config(&bytes);
    }

    #[test]
    fn configurations_never_panic(
        name in tricky(),
        value in tricky(),
        template in tricky(),
        expression in tricky(),
    ) {
        let escape = |text: &str| {
            text.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;")
        };
        let xml = format!(
            "<adapters_conf id=\"x\"><data_provider name=\"n\"><adapter_class>\
             com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>\
             <param name=\"bootstrap.servers\">h:1</param>\
             <param name=\"item-template.t\">i-#{{k={}}}</param>\
             <param name=\"map.T.to\">item-template.t,{}</param>\
             <param name=\"field.f\">#{{{}}}</param><param name=\"{}\">{}</param>\
             </data_provider></adapters_conf>",
            escape(&template), escape(&value), escape(&expression), escape(&name), escape(&value),
        );
        fuzz::config(xml.as_bytes());
    }

    #[test]
    fn quoted_and_bare_names_are_equivalent(
        name in "[A-Za-z0-9_-]{1,8}",
        index in 0u32..99,
    ) {
        let bare = Expression::parse(&format!("VALUE.{name}[{index}]")).expect("valid");
        let quoted = Expression::parse(&format!("VALUE['{name}'][{index}]")).expect("valid");
        prop_assert_eq!(bare.steps(), quoted.steps());
    }

    #[test]
    fn parameter_order_is_irrelevant(
        parameters in btree_map("[a-z_][a-z0-9_]{0,5}", "[^,\\s]{1,6}", 1..6),
        rotation in 0usize..6,
    ) {
        let mut written: Vec<_> = parameters.iter().map(|(n, v)| format!("{n}={v}")).collect();
        let sorted = format!("item-[{}]", written.join(","));
        let sorted = CanonicalItem::parse(&sorted).expect("valid");
        let count = written.len();
        written.rotate_left(rotation % count);
        let rotated = format!("item-[{}]", written.join(","));
        let rotated = CanonicalItem::parse(&rotated).expect("valid");
        prop_assert_eq!(sorted.as_str(), rotated.as_str());
        let expected = parameters.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        prop_assert!(sorted.parameters().eq(expected));
    }

    #[test]
    fn expanded_template_is_canonical_item_of_client(
        key in "[^,\\s\u{85}\u{2028}\u{2029}]{1,12}",
        header in "[^,\\s\u{85}\u{2028}\u{2029}]{1,12}",
    ) {
        let mapping = mapping("i-#{k=KEY,H=HEADERS.h,p=PARTITION}".into());
        let headers = [("h", Some(header.as_bytes()))];
        let record = RecordView {
            topic: "T",
            partition: 5,
            offset: 0,
            timestamp_ms: 0,
            key: Some(key.as_bytes()),
            value: None,
            headers: &headers,
        };
        let mut names = ItemNames::new();
        mapping.item_names(&record, &mut names).expect("complete record");
        let name = names.iter().next().expect("one name");
        let written = format!("i-[p=5,k={key},H={header}]");
        let item = CanonicalItem::parse(&written).expect("valid name");
        prop_assert_eq!(item.as_str(), name);
        prop_assert!(mapping.admits(&item));
        let again = CanonicalItem::parse(name).expect("canonical");
        prop_assert_eq!(again.as_str(), name);
    }

    #[test]
    fn value_with_comma_yields_no_item(
        keys in vec("[^,\\s]{0,4}", 2..4),
    ) {
        let mapping = mapping("i-#{k=KEY}".into());
        let key = keys.join(",");
        let record = RecordView {
            topic: "T",
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: Some(key.as_bytes()),
            value: None,
            headers: &[],
        };
        let mut names = ItemNames::new();
        mapping.item_names(&record, &mut names).expect("no null");
        prop_assert_eq!((names.len(), names.unnameable()), (0, 1));
    }

    #[test]
    fn arbitrary_bytes_are_converted_to_text(
        key in vec(any::<u8>(), 0..40),
        value in vec(any::<u8>(), 0..40),
    ) {
        let mapping = mapping("i-#{k=KEY}".into());
        let record = RecordView {
            topic: "T",
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: Some(&key),
            value: Some(&value),
            headers: &[],
        };
        let mut values = FieldValues::new();
        let all = mapping.all_fields();
        mapping.field_values(&record, &all, &mut values).expect("a text value");
        let text = values.get(0).expect("not null");
        match std::str::from_utf8(&value) {
            Ok(valid) => prop_assert_eq!(text, valid),
            Err(_) => prop_assert!(text.contains(char::REPLACEMENT_CHARACTER)),
        }
        mapping.item_names(&record, &mut ItemNames::new()).expect("a text key");
    }

    #[test]
    fn valid_templates_have_sorted_names(text in tricky()) {
        if let Ok(template) = ItemTemplate::parse(&format!("i-#{{{text}}}")) {
            let names: Vec<_> = template.parameters().map(|(name, _)| name).collect();
            prop_assert!(names.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
