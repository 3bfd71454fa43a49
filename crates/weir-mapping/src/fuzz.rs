//! Bodies of the fuzz targets, run by `fuzz/` and, for a short time, by the property tests.

use crate::config::{AdaptersFile, ParseOptions, expand};
use crate::error::ItemNameError;
use crate::expression::Expression;
use crate::field_values::FieldValues;
use crate::item_name::CanonicalItem;
use crate::mapping::ItemNames;
use crate::record_view::RecordView;
use crate::template::ItemTemplate;

/// Any text as `adapters.xml`; what is accepted must run on any record of its topics.
pub fn config(data: &[u8]) {
    let Ok(xml) = std::str::from_utf8(data) else {
        return;
    };
    let env = |name: &str| (name.len() < 4).then(|| name.repeat(2));
    for strict in [false, true] {
        let options = ParseOptions { strict };
        let Ok(file) = AdaptersFile::parse("adapters.xml", xml, &env, options) else {
            continue;
        };
        for connection in &file.connections {
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
                // Both outcomes are fine; a panic is not.
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

/// Any text as an expression, a wrapped expression and a template.
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

/// Any text as an item name; the canonical form of a canonical form is itself.
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
