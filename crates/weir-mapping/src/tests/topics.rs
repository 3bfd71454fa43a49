//! Topics given as patterns.

use super::common::{mapping, record};
use crate::{CanonicalItem, ItemNames, Mapping, RecordView};

const PATTERNS: &[(&str, &str)] = &[
    ("map.regex.enable", "true"),
    ("item-template.by-key", "k-#{key=KEY}"),
    ("item-template.by-topic", "t-#{topic=TOPIC}"),
    ("map.stock_.*.to", "stocks,item-template.by-key"),
    (
        "map..*_eu.to",
        "item-template.by-key,item-template.by-topic",
    ),
    ("field.value", "#{VALUE}"),
];

fn items(mapping: &Mapping, topic: &str, names: &mut ItemNames) -> Vec<String> {
    let view = RecordView {
        topic,
        ..record(Some(b"1"), None)
    };
    mapping
        .item_names(&view, names)
        .expect("no extraction error");
    names.iter().map(str::to_owned).collect()
}

#[test]
fn matching_topic_gets_templates_of_all_patterns() {
    let mapping = mapping(PATTERNS);
    assert!(mapping.has_patterns());
    let topics: Vec<_> = mapping.topics().collect();
    assert_eq!(topics, ["T", "stock_.*", ".*_eu"]);
    let mut names = ItemNames::new();
    for _ in 0..2 {
        assert_eq!(
            items(&mapping, "stock_us", &mut names),
            ["stocks", "k-[key=1]"]
        );
        let expected = ["stocks", "k-[key=1]", "t-[topic=stock_eu]"];
        assert_eq!(items(&mapping, "stock_eu", &mut names), expected);
        assert_eq!(
            items(&mapping, "other_eu", &mut names),
            ["k-[key=1]", "t-[topic=other_eu]"]
        );
        assert_eq!(items(&mapping, "T", &mut names), ["all"]);
        assert!(
            items(&mapping, "Tx", &mut names).is_empty(),
            "the whole name must match"
        );
    }
    assert!(mapping.maps_topic("stock_") && !mapping.maps_topic("stock"));
    assert!(mapping.admits(&CanonicalItem::parse("t-[topic=any]").expect("an item")));
}

#[test]
fn literal_topics_become_patterns_too() {
    let parameters = [("map.a.b.to", "dotted"), ("field.value", "#{VALUE}")];
    let names = &mut ItemNames::new();
    let literal = mapping(&parameters);
    assert!(!literal.has_patterns() && items(&literal, "axb", names).is_empty());
    let patterns = mapping(&[&parameters[..], &[("map.regex.enable", "true")]].concat());
    assert_eq!(items(&patterns, "axb", &mut ItemNames::new()), ["dotted"]);
}
