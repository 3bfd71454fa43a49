use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

fn masked(text: &str, members: &[&str]) -> String {
    let split = |path: &&str| path.split('.').map(str::to_owned).collect();
    let members: Vec<Vec<String>> = members.iter().map(split).collect();
    let mut out = Vec::new();
    let is_masked = mask(text, &members, "\"*\"", &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    assert_eq!(is_masked, out != text || text.contains("\"*\""));
    out
}

#[test]
fn only_selected_members_are_replaced() {
    let text = r#" {"a" : 1.50,"b":{"c":[1,{"d":2}], "a":null}, "a":{"x":"}\""} } "#;
    assert_eq!(
        masked(text, &["a"]),
        r#" {"a" : "*","b":{"c":[1,{"d":2}], "a":null}, "a":"*" } "#
    );
    assert_eq!(
        masked(text, &["b.c.d", "b.a"]),
        r#" {"a" : 1.50,"b":{"c":[1,{"d":"*"}], "a":"*"}, "a":{"x":"}\""} } "#
    );
    assert_eq!(
        masked(text, &["*.x"]),
        r#" {"a" : 1.50,"b":{"c":[1,{"d":2}], "a":null}, "a":{"x":"*"} } "#
    );
    assert_eq!(masked(text, &["none", "b.none"]), text);
}

#[test]
fn escaped_names_match() {
    assert_eq!(masked(r#"{"p\u0069n":1}"#, &["pin"]), r#"{"p\u0069n":"*"}"#);
    assert_eq!(masked(r#"{"pi\"n":1}"#, &["pi\"n"]), r#"{"pi\"n":"*"}"#);
    assert_eq!(
        masked(r#"[{"pin":[1,2]},3]"#, &["pin"]),
        r#"[{"pin":"*"},3]"#
    );
    assert_eq!(masked("3", &["pin"]), "3");
}

#[test]
fn deeply_nested_texts_are_refused_without_recursion() {
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(masked(&deep(127), &["a"]), deep(127));
    let members = [vec!["a".to_owned()]];
    for text in [deep(1_000_000), format!("{{\"a\":{}}}", deep(1_000_000))] {
        assert_eq!(mask(&text, &members, "0", &mut Vec::new()), None);
    }
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ab\"\\\\{}\\[\\],:é\n]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop_oneof![Just("a".to_owned()), Just("b\"".to_owned()), "[a-c\n]{0,2}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name, inner), 0..4)
                .prop_map(|rows| Value::Object(rows.into_iter().collect())),
        ]
    })
}

/// A naive implementation on parsed values.
fn model(value: &Value, members: &[Vec<String>], depth: usize) -> Value {
    match value {
        Value::Array(all) => all.iter().map(|it| model(it, members, depth)).collect(),
        Value::Object(all) => {
            let row = |(name, value): (&String, &Value)| {
                let matched: Vec<_> = members
                    .iter()
                    .filter(|path| path.get(depth).is_some_and(|it| it == "*" || it == name))
                    .cloned()
                    .collect();
                let is_whole = matched.iter().any(|path| path.len() == depth + 1);
                let value = match is_whole {
                    true => json!("*"),
                    false => model(value, &matched, depth + 1),
                };
                (name.clone(), value)
            };
            Value::Object(all.iter().map(row).collect())
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn masker_matches_naive_model(value in json(), pretty in any::<bool>()) {
        let paths = ["a", "b\".a", "c.*.a"];
        let members: Vec<Vec<String>> = paths
            .iter()
            .map(|path| path.split('.').map(str::to_owned).collect())
            .collect();
        let text = match pretty {
            true => serde_json::to_string_pretty(&value).unwrap(),
            false => value.to_string(),
        };
        let mut out = Vec::new();
        mask(&text, &members, "\"*\"", &mut out).unwrap();
        let found: Value = serde_json::from_slice(&out).unwrap();
        prop_assert_eq!(found, model(&value, &members, 0));
    }
}
