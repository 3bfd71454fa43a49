//! Tests of the filter configuration and its errors.

use super::*;
use crate::Direction;

fn error(toml: &str) -> String {
    try_filters(toml).unwrap_err().to_string()
}

#[test]
fn filters_apply_to_topics_and_directions() {
    let filters = filters(
        "[[filter]]\ntype = \"lower-case\"\ntopics = [\"perf-*\"]\n\
         [[filter]]\ntype = \"mask\"\nmembers = [\"pin\"]\non = [\"fetch\"]\n",
    );
    assert!(filters.wants(Direction::Produce) && filters.wants(Direction::Fetch));
    assert_eq!(
        filters.describe(),
        [
            "lower-case on produce of perf-*: LowerCase",
            "mask on fetch of *: Mask { members: [[\"pin\"]], with: \"\\\"***\\\"\" }"
        ]
    );
    assert_eq!(
        [0, 1, 78, 3].map(|key| filters.version_max(key)),
        [None, None, Some(-1), None]
    );
    let produce_only = self::filters("[[filter]]\ntype = \"upper-case\"\n");
    assert!(!produce_only.wants(Direction::Fetch));
    assert_eq!(
        [0, 1, 78].map(|key| produce_only.version_max(key)),
        [None, None, None]
    );
    let none = self::filters("");
    assert!(!none.wants(Direction::Produce));
    assert_eq!(none.version_max(0), None);
}

#[test]
fn unknown_keys_and_types_are_rejected() {
    let unknown =
        parse_filters("[[filter]]\ntype = \"lower-case\"\ntopic = [\"a\"]\n").unwrap_err();
    assert!(unknown.contains("unknown field `topic`"), "{unknown}");
    let kind = parse_filters("[[filter]]\ntype = \"rot13\"\n").unwrap_err();
    assert!(
        kind.contains("unknown variant `rot13`") && kind.contains("lower-case"),
        "{kind}"
    );
    let missing = parse_filters("[[filter]]\ntype = \"mask\"\n").unwrap_err();
    assert!(missing.contains("missing field `members`"), "{missing}");
    let way = parse_filters("[[filter]]\ntype = \"mask\"\nmembers = [\"a\"]\non = [\"both\"]\n")
        .unwrap_err();
    assert!(way.contains("unknown variant `both`"), "{way}");
}

#[test]
fn invalid_filters_name_key_value_and_remedy() {
    let cases = [
        (
            "type = \"lower-case\"\ntopics = []",
            "filter lower-case: topics = []: \
             name a topic, or remove the key for all topics except internal ones",
        ),
        (
            "type = \"lower-case\"\non = []",
            "filter lower-case: on = []: name produce, fetch or both",
        ),
        (
            "type = \"mask\"\nmembers = [\"a..b\"]",
            "filter mask: members = a..b: use one dot between names and none at the ends",
        ),
        (
            "type = \"require\"",
            "filter require: json = false: set json = true, value_bytes_max or headers",
        ),
        (
            "type = \"require\"\njson = true\non = [\"fetch\"]",
            "filter require: on = fetch: remove fetch: stored records cannot be rejected",
        ),
        (
            "type = \"delay\"\ndelay_ms = 0",
            "filter delay: delay_ms = 0: use 1 to 600000 milliseconds",
        ),
        (
            "type = \"set-header\"\nname = \"\"\nvalue = \"\"",
            "filter set-header: name = \"\": give the header a name",
        ),
        (
            "type = \"remove-header\"\nname = \"\"",
            "filter remove-header: name = \"\": name the header",
        ),
    ];
    for (toml, text) in cases {
        assert_eq!(error(&format!("[[filter]]\n{toml}\n")), text);
    }
    let long = format!(
        "[[filter]]\ntype = \"set-header\"\nname = \"n\"\nvalue = {:?}",
        "v".repeat(5000)
    );
    assert!(error(&long).contains("up to 4096 bytes"));
}
