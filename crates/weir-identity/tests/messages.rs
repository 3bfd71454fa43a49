//! Rules for client messages as written in a file.

mod support;

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use support::rules::claims;
use weir_identity::config::{MessageRule, RawMessage, RuleConfigError};
use weir_identity::rules::{MessageRights, shadowed_messages};
use weir_identity::{AuthMethod, IdentityParts, UserIdentity};

const TO: &str = "connection = \"c\"\ntopic = \"t\"\n";

#[derive(Deserialize)]
struct Sections {
    message: Vec<RawMessage>,
}

/// Parses sections, each without its header, connection and topic.
fn parse(sections: &[&str]) -> Result<Vec<MessageRule>, RuleConfigError> {
    let section = |text: &&str| format!("[[message]]\n{TO}{text}\n");
    let text: String = sections.iter().map(section).collect();
    let sections: Sections = toml::from_str(&text).expect("valid TOML");
    MessageRule::parse_all(&sections.message)
}

fn rules(sections: &[&str]) -> Vec<MessageRule> {
    parse(sections).expect("valid rules")
}

fn rights(rules: &[MessageRule], token: Value) -> MessageRights {
    let parts = IdentityParts {
        user: "anna",
        ..IdentityParts::default()
    };
    let identity = UserIdentity::new(Arc::from("https://id"), AuthMethod::Jwt, parts);
    MessageRights::compile(rules, &claims(token), &identity.expect("short texts"))
}

#[test]
fn first_applicable_rule_decides() {
    let rules = rules(&[
        "name = 'traders'\nwhen = { roles = 'trader' }\nsequences = ['orders*']",
        "name = 'own'\nsequences = ['orders', 'notes']\nkey = '{claims.account}'",
        "name = 'rest'\nsequences = ['UNORDERED_MESSAGES', 'n*']",
    ]);
    let decided = |token: Value, sequence: Option<&str>| {
        let rights = rights(&rules, token);
        let grant = rights.find(&rules, sequence);
        grant.map(|grant| {
            (
                &*rules[grant.rule].name,
                grant.key.as_deref().map(str::to_owned),
            )
        })
    };
    let trader = || json!({"roles": ["trader"], "account": "A1"});
    assert_eq!(decided(trader(), Some("orders_1")), Some(("traders", None)));
    let own = Some(("own", Some("A1".to_owned())));
    assert_eq!(decided(json!({"account": "A1"}), Some("orders")), own);
    assert_eq!(decided(json!({"account": "A1"}), Some("orders_1")), None);
    assert_eq!(decided(trader(), Some("notes")), own);
    for account in [json!(["A1", "A2"]), json!([]), json!(null), json!(1.5)] {
        let decided = decided(json!({"account": account}), Some("notes"));
        assert_eq!(decided, Some(("rest", None)), "no single value");
    }
    assert_eq!(decided(trader(), None), Some(("rest", None)));
    assert_eq!(decided(trader(), Some("x")), None);
    let many = vec!["trader"; 1_001];
    assert_eq!(
        decided(json!({"roles": many}), Some("orders_1")),
        None,
        "fails closed"
    );
}

#[test]
fn token_refresh_is_never_covered() {
    for sequences in ["", "sequences = ['*']", "sequences = ['weir*']"] {
        let rules = rules(&[&format!("name = 'a'\n{sequences}")]);
        assert!(!rules[0].covers(Some("weir_auth")), "{sequences}");
        assert!(rules[0].covers(Some("weir_auth2")), "{sequences}");
        assert_eq!(rules[0].covers(None), !sequences.contains("weir"));
    }
}

#[test]
fn faults_are_named() {
    for (section, expected) in [
        ("", "rule 1 has no name"),
        ("name = 'a'\nsequences = []", "sequences is empty"),
        (
            "name = 'a'\nsequences = ['weir_auth']",
            "weir_auth is reserved",
        ),
        ("name = 'a'\nsequences = ['a-b']", "sequence \"a-b\""),
        ("name = 'a'\nsequences = ['*a']", "sequence \"*a\""),
        (
            "name = 'a'\nkey = 'constant'",
            "write {sequence} or {claims.PATH}",
        ),
        ("name = 'a'\nkey = '{user}'", "invalid claim path"),
        (
            "name = 'a'\nrate_per_session = 0.0",
            "rate_per_session must be",
        ),
        ("name = 'a'\nrate_per_user = inf", "rate_per_user must be"),
    ] {
        let error = parse(&[section]).expect_err(section).to_string();
        assert!(error.contains(expected), "{section}: {error}");
    }
    let error = parse(&["name = 'a'", "name = 'a'"]).expect_err("same names");
    assert!(error.to_string().contains("two rules"), "{error}");
    let raw: RawMessage = toml::from_str("name = 'a'\nconnection = 'c'").expect("valid TOML");
    let error = MessageRule::parse_all(&[raw]).expect_err("no topic");
    assert_eq!(error.to_string(), "rule \"a\": topic is missing");
}

#[test]
fn shadowed_rules_are_found() {
    let names = |sections: &[&str]| {
        let rules = rules(sections);
        let shadowed = shadowed_messages(&rules).into_iter();
        let pairs = shadowed.map(|(rule, by)| format!("{} by {}", rule.name, by.name));
        pairs.collect::<Vec<_>>()
    };
    assert_eq!(
        names(&["name = 'a'", "name = 'b'\nsequences = ['x']"]),
        ["b by a"]
    );
    assert_eq!(
        names(&["name = 'a'\nsequences = ['*']", "name = 'b'"]),
        ["b by a"]
    );
    assert_eq!(
        names(&[
            "name = 'a'\nsequences = ['o*', 'p']",
            "name = 'b'\nsequences = ['or*', 'p']"
        ]),
        ["b by a"]
    );
    let none: [&str; 0] = [];
    for (first, second) in [
        ("sequences = ['o*']", "sequences = ['p', 'o']"),
        ("sequences = ['o*']", ""),
        ("sequences = ['o']", "sequences = ['o*']"),
        (
            "sequences = ['UNORDERED*']",
            "sequences = ['UNORDERED_MESSAGES']",
        ),
        ("when = { a = '1' }", ""),
        ("when = { a = '1' }", "when = { a = ['1', '2'] }"),
        ("key = '{claims.sub}'", ""),
    ] {
        let sections = [
            format!("name = 'a'\n{first}"),
            format!("name = 'b'\n{second}"),
        ];
        assert_eq!(
            names(&[&sections[0], &sections[1]]),
            none,
            "{first}; {second}"
        );
    }
    let narrower = [
        "name = 'a'\nwhen = { a = ['1', '2'] }",
        "name = 'b'\nwhen = { a = '1' }",
    ];
    assert_eq!(names(&narrower), ["b by a"]);
}
