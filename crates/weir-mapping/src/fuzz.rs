//! Fuzz targets, run by `fuzz/` and briefly by the property tests.

use weir_formats::expression::Expression;

use crate::config::{
    ConfigReport, ConfigSource, ConnectionConfig, Parameter, ParseOptions, expand,
};
use crate::error::ItemNameError;
use crate::field_values::{FieldValue, FieldValues};
use crate::item_name::CanonicalItem;
use crate::mapping::ItemNames;
use crate::record_view::RecordView;
pub use crate::schema::fuzz::schema_frames;
use crate::template::ItemTemplate;

/// Parses `data` as `adapters.xml`. An accepted configuration must run on any record of its topics.
pub fn config(data: &[u8]) {
    let Ok(xml) = std::str::from_utf8(data) else {
        return;
    };
    let env = |name: &str| (name.len() < 4).then(|| name.repeat(2));
    for strict in [false, true] {
        let options = ParseOptions { strict };
        let report = ConfigReport::of("adapters.xml", xml, &env, options);
        if !report.errors.is_empty() {
            continue;
        }
        for connection in report.connections.iter().flatten() {
            let (mut names, mut values) = (ItemNames::new(), FieldValues::new());
            for topic in connection.mapping.topics() {
                let record = RecordView {
                    topic,
                    partition: 0,
                    offset: -1,
                    timestamp_ms: i64::MIN,
                    key: Some(data),
                    value: None,
                    headers: &[("a", Some(data)), ("a", None)],
                };
                // Success and failure are both fine; a panic is not.
                let _ = connection.mapping.item_names(&record, &mut names);
                let all = connection.mapping.all_fields();
                let extracted = connection.mapping.field_values(&record, &all, &mut values);
                if extracted.is_ok() {
                    assert_eq!(values.freeze().len(), connection.mapping.fields().len());
                }
            }
        }
    }
}

/// Parses `data` as an expression, a wrapped expression and a template.
pub fn expression(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    if let Ok(expression) = Expression::parse(text) {
        assert_eq!(expression.text(), text);
        if !text.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']) {
            assert_eq!(
                Expression::parse_wrapped(&format!("#{{{text}}}")),
                Ok(expression)
            );
        }
    }
    if let Ok(template) = ItemTemplate::parse(text) {
        assert!(template.parameters().len() > 0);
    }
    let _ = expand(text, &|_| None);
}

/// Parses `data` as an item name. The canonical form of a canonical form is the same.
pub fn item(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    match CanonicalItem::parse(text) {
        Ok(item) => {
            let again = CanonicalItem::parse(item.as_str());
            assert_eq!(again.as_ref(), Ok(&item));
            assert!(item.as_str().len() <= text.len());
        }
        Err(ItemNameError::DuplicateParameter) => assert!(text.contains(',')),
        Err(ItemNameError::Invalid) => {}
    }
}

/// Reads `data` as a JSON value. A document that is fully checked gives the same result with both
/// check modes, and again when read from its compact text.
pub fn json(data: &[u8]) {
    const PATHS: [&str; 9] = [
        "VALUE",
        "VALUE.a",
        "VALUE.a.b",
        "VALUE.a[0]",
        "VALUE[0]",
        "VALUE[2].a",
        "VALUE[63][1]",
        "VALUE.b['a'][1].a",
        "VALUE[0][0][0]",
    ];
    let texts = |check: &str, document: &[u8]| {
        let mut parameters = vec![
            ("bootstrap.servers".to_owned(), "h:1".to_owned()),
            ("map.T.to".to_owned(), "i".to_owned()),
            ("record.value.evaluator.type".to_owned(), "JSON".to_owned()),
            (
                "fields.skip.failed.mapping.enable".to_owned(),
                "true".to_owned(),
            ),
            (
                "fields.map.non.scalar.values.enable".to_owned(),
                "true".to_owned(),
            ),
            ("weir.json.check".to_owned(), check.to_owned()),
        ];
        parameters.extend(PATHS.map(|path| (format!("field.{path}"), format!("#{{{path}}}"))));
        let parameters = parameters.into_iter().map(|(name, value)| Parameter {
            name,
            value,
            line: None,
        });
        let source = ConfigSource {
            file: "fuzz",
            options: ParseOptions::default(),
        };
        let connection =
            ConnectionConfig::from_parameters("C", parameters, &source, None, &mut Vec::new());
        let mapping = connection.expect("the parameters are valid").mapping;
        let record = RecordView {
            topic: "T",
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: None,
            value: Some(document),
            headers: &[],
        };
        let mut values = FieldValues::new();
        let all = mapping.all_fields();
        let outcome = mapping.field_values(&record, &all, &mut values);
        outcome.map(|()| values.freeze())
    };
    let needed = texts("NEEDED", data);
    let Ok(whole) = texts("WHOLE", data) else {
        return;
    };
    let needed = needed.expect("a well-formed document");
    let Some(FieldValue::Text(compact)) = whole.iter().next() else {
        return;
    };
    let document = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    let has_parts = matches!(document.trim_ascii_start().first(), Some(b'{' | b'['));
    // An extracted string is not JSON, and neither is `Infinity`.
    if has_parts && !compact.contains("Infinity") {
        assert_eq!(texts("WHOLE", compact.as_bytes()).as_ref(), Ok(&whole));
        assert_eq!(texts("NEEDED", compact.as_bytes()).as_ref(), Ok(&needed));
    }
}
