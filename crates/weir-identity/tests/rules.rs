//! Rules as written in a file, compared with a model that compiles nothing.

mod support;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::model::naive;
use support::rules::{EXAMPLES, anna, bob, claims, item_rules, session_rules};
use weir_identity::config::SessionRule;
use weir_identity::config::{ItemRule, SnapshotRule};
use weir_identity::rules::{
    Allowance, ClaimSources, ConnectionFacts, Denial, GrantTable, ItemAccess, ItemRules, ItemShape,
    RuleFinding, explain_rules, rule_findings,
};
use weir_identity::{Claims, ItemMode, ItemModes};
use weir_mapping::CanonicalItem;

struct Request<'a> {
    mode: ItemMode,
    fields: &'a [&'a str],
    unfiltered: bool,
}

const MERGE: Request<'static> = Request {
    mode: ItemMode::Merge,
    fields: &["last"],
    unfiltered: false,
};

fn decide(
    rules: &str,
    claims: &Claims,
    item: &str,
    request: &Request<'_>,
) -> Result<Allowance, Denial> {
    let rules = ItemRules::new(item_rules(rules).unwrap(), &["feed"]);
    let grants = rules.grants(claims, &mut GrantTable::default()).unwrap();
    let access = ItemAccess {
        connection: 0,
        mode: request.mode,
        fields: request.fields,
        unfiltered: request.unfiltered,
    };
    rules.decide(&grants, &CanonicalItem::parse(item).unwrap(), &access)
}

fn rule(decided: &Result<Allowance, Denial>) -> Result<usize, Denial> {
    decided
        .as_ref()
        .map(|allowance| allowance.rule)
        .map_err(|denial| *denial)
}

const NOT_AUTHORIZED: Result<usize, Denial> = Err(Denial::Item { rule: None });

#[test]
fn worked_examples_give_their_results() {
    let anonymous = Claims::default();
    let decided = |claims: &Claims, item: &str, request: &Request<'_>| {
        rule(&decide(EXAMPLES, claims, item, request))
    };
    let raw = Request {
        mode: ItemMode::Raw,
        ..MERGE
    };
    let unfiltered = Request {
        unfiltered: true,
        ..MERGE
    };
    let bid = Request {
        fields: &["symbol", "bid"],
        ..MERGE
    };
    let rows = [
        (&anna(), "orders-[region=EU,account=A2]", &MERGE, Ok(0)),
        (
            &anna(),
            "orders-[account=A3,region=EU]",
            &MERGE,
            NOT_AUTHORIZED,
        ),
        (
            &anna(),
            "orders-[account=A1,region=EU]",
            &raw,
            Err(Denial::Mode),
        ),
        (&anna(), "quote-[symbol=X]", &unfiltered, Ok(1)),
        (&bob(), "quote-[symbol=X]", &bid, Err(Denial::Field)),
        (
            &bob(),
            "quote-[symbol=X]",
            &unfiltered,
            Err(Denial::Unfiltered { rule: 2 }),
        ),
        (
            &anna(),
            "quote-[symbol=ACME]",
            &MERGE,
            Err(Denial::Item { rule: Some(4) }),
        ),
        (
            &bob(),
            "quote-[symbol=ACME]",
            &MERGE,
            Err(Denial::Item { rule: Some(4) }),
        ),
        (&bob(), "news", &MERGE, Ok(3)),
        (&anonymous, "status", &MERGE, Ok(5)),
        (&anonymous, "news", &MERGE, NOT_AUTHORIZED),
    ];
    for (claims, item, request, expected) in rows {
        assert_eq!(decided(claims, item, request), expected, "{item}");
    }
    let limited = decide(EXAMPLES, &bob(), "quote-[symbol=X]", &MERGE).unwrap();
    assert_eq!(limited.frequency_max, Some(0.2));
    assert_eq!(limited.snapshot, SnapshotRule::Excluded);
    let news = decide(EXAMPLES, &bob(), "news", &MERGE)
        .unwrap()
        .records
        .unwrap();
    assert!(news.contains("zeta") && !news.contains("acme"));
    let codes = [Denial::Item { rule: None }, Denial::Field, Denial::Mode];
    assert_eq!(codes.map(Denial::code), [-2, 23, 24]);
}

#[test]
fn hostile_item_names_and_claims_match_nothing() {
    let own =
        |claims: Value, item: &str| rule(&decide(EXAMPLES, &self::claims(claims), item, &MERGE));
    // Names compare as bytes after canonicalization.
    for item in [
        "orders-[account=a1,region=EU]",
        "orders-[account=A1 ,region=EU]",
        "orders-[account=\u{410}1,region=EU]",
        "orders-[account=A1\0,region=EU]",
        "orders-[account=A1]",
        "orders-[account=A1,region=EU,x=1]",
        "Orders-[account=A1,region=EU]",
        "orders",
        "orders-[account=%41%31,region=EU]",
    ] {
        assert_eq!(
            rule(&decide(EXAMPLES, &anna(), item, &MERGE)),
            NOT_AUTHORIZED,
            "{item}"
        );
    }
    let same = "orders-[region=EU,account=A1,]";
    assert_eq!(
        rule(&decide(EXAMPLES, &anna(), same, &MERGE)),
        Ok(0),
        "same canonical name"
    );
    // Claims are literal text.
    let a1 = "orders-[account=A1,region=US]";
    for account in ["*", "{claims.region}", "A1,region=US", "A1 ", ""] {
        let claims = json!({"accounts": account, "region": "EU"});
        assert_eq!(own(claims, a1), NOT_AUTHORIZED, "{account}");
    }
    let star = json!({"accounts": "*", "region": "EU"});
    assert_eq!(
        own(star, "orders-[account=*,region=EU]"),
        Ok(0),
        "an item of this name"
    );
    for region in [json!(null), json!("null"), json!({"a": 1}), json!(1.0)] {
        let claims = json!({"accounts": "A1", "region": region});
        let item = format!(
            "orders-[account=A1,region={}]",
            region.as_str().unwrap_or("1")
        );
        assert_eq!(own(claims, &item), NOT_AUTHORIZED, "{region}");
    }
}

#[test]
fn long_claim_lists_are_an_error_not_truncated() {
    let rules = ItemRules::new(item_rules(EXAMPLES).unwrap(), &[]);
    let grants = |count: usize| {
        let accounts: Vec<_> = (0..count).map(|number| format!("A{number}")).collect();
        let claims = claims(json!({"accounts": accounts}));
        rules.grants(&claims, &mut GrantTable::default()).map(drop)
    };
    assert!(grants(1_000).is_ok());
    assert_eq!(grants(1_001).unwrap_err().count, 1_001);
    let unused: Vec<_> = (0..2_000).collect();
    let claims = claims(json!({"unused": unused}));
    assert!(rules.grants(&claims, &mut GrantTable::default()).is_ok());
}

#[test]
fn connection_and_mixed_lists_are_checked() {
    let text = "[[authorize]]\nname=\"a\"\nconnection=\"feed\"\nitems=[\"x\"]\n\
        [[authorize]]\nname=\"b\"\nconnection=[\"gone\"]\nitems=[\"y\"]\n";
    let rules = ItemRules::new(item_rules(text).unwrap(), &["other", "feed"]);
    let grants = rules
        .grants(&Claims::default(), &mut GrantTable::default())
        .unwrap();
    let access = |connection| ItemAccess {
        connection,
        mode: ItemMode::Raw,
        fields: &["f"],
        unfiltered: true,
    };
    let item = |name: &str| CanonicalItem::parse(name).unwrap();
    assert!(rules.decide(&grants, &item("x"), &access(1)).is_ok());
    for (connection, name) in [(0, "x"), (1, "y"), (0, "y"), (2, "x")] {
        assert!(
            rules
                .decide(&grants, &item(name), &access(connection))
                .is_err()
        );
    }
    let all = |names: &[&str]| {
        let items: Vec<_> = names.iter().map(|name| item(name)).collect();
        rules
            .decide_all(&grants, &items, &access(1))
            .map(|allowed| allowed.len())
    };
    assert_eq!(all(&["x", "x"]), Ok(2));
    assert_eq!(all(&["x", "y", "x"]).unwrap_err().item, 1);
}

#[test]
fn first_matching_session_rule_applies() {
    let rules = session_rules(
        r#"
        [[session_rule]]
        name = "anonymous"
        when = { "weir.auth" = "anonymous" }
        max_bandwidth = 64
        max_age = "8h"
        [[session_rule]]
        name = "adults"
        when = { age = [18, 19], active = true }
        max_sessions = 3
        "#,
    )
    .unwrap();
    let first = |claims: Value| {
        let claims = self::claims(claims);
        let rule = SessionRule::first(&rules, &claims).unwrap();
        rule.map(|place| rules[place].name.to_string())
    };
    assert_eq!(
        first(json!({"age": 18, "active": true})).as_deref(),
        Some("adults")
    );
    assert_eq!(
        first(json!({"age": "19", "active": "true"})).as_deref(),
        Some("adults")
    );
    assert_eq!(first(json!({"age": 18.0, "active": true})), None);
    assert_eq!(first(json!({"age": 18})), None);
    assert_eq!(
        first(json!({"weir": {"auth": "anonymous"}})),
        None,
        "not from a token"
    );
    assert_eq!(rules[0].age_max_ms, Some(28_800_000));
}

#[test]
fn faulty_rules_are_rejected_with_their_name() {
    let rows = [
        ("items=[\"x\"]", "rule 1 has no name"),
        ("name=\"r\"", "items is empty"),
        (
            "name=\"r\"\nitems=[\"x\"]\neffect=\"maybe\"",
            "unknown effect \"maybe\"",
        ),
        (
            "name=\"r\"\nitems=[\"x y\"]",
            "invalid item pattern \"x y\"",
        ),
        (
            "name=\"r\"\nitems=[\"x-[a=b c]\"]",
            "no item can have the value \"b c\"",
        ),
        (
            "name=\"r\"\nitems=[\"x\"]\nmodes=[\"merge\"]",
            "unknown mode \"merge\"",
        ),
        ("name=\"r\"\nitems=[\"x\"]\nmodes=[]", "modes is empty"),
        ("name=\"r\"\nitems=[\"x\"]\nfields=[]", "fields is empty"),
        ("name=\"r\"\nitems=[\"x\"]\nwhen={a=[]}", "when is empty"),
        (
            "name=\"r\"\nitems=[\"x\"]\nwhen={\"a b\"=1}",
            "invalid claim path \"a b\"",
        ),
        (
            "name=\"r\"\nitems=[\"x\"]\nmax_frequency=0.0",
            "max_frequency must be",
        ),
        (
            "name=\"r\"\nitems=[\"x\"]\nmax_frequency=nan",
            "max_frequency must be",
        ),
        (
            "name=\"r\"\nitems=[\"x\"]\nsnapshot=true",
            "snapshot = true is the default",
        ),
        (
            "name=\"r\"\nitems=[\"x\"]\neffect=\"deny\"\nsnapshot=false",
            "snapshot has no meaning",
        ),
        (
            "name=\"r\"\nitems=[\"x\"]\nwhere=\"VALUE.a\"",
            "is not EXPRESSION =",
        ),
        (
            "name=\"r\"\nitems=[\"x\"]\nwhere=\"VALU.a = {claims.b}\"",
            "missing root tokens",
        ),
        (
            "name=\"r\"\nitems=[\"x\"]\nwhere=\"VALUE.a = {b}\"",
            "invalid claim path \"b\"",
        ),
        (
            "name=\"r\"\nitems=[\"x\"]\nwhere=\"VALUE.* = {claims.b}\"",
            "several values",
        ),
        (
            "name=\"r\"\nitems=[\"x\"]\nmode=\"MERGE\"",
            "unknown field `mode`",
        ),
    ];
    for (text, expected) in rows {
        let error = item_rules(&format!("[[authorize]]\n{text}")).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let rule = "[[authorize]]\nname=\"r\"\nitems=[\"x\"]\n";
    let error = item_rules(&rule.repeat(2)).unwrap_err();
    assert_eq!(error, "two rules have the name \"r\"");
    let error = session_rules("[[session_rule]]\nname=\"s\"\n").unwrap_err();
    assert_eq!(error, "rule \"s\" sets no limit");
}

const ALL_SOURCES: ClaimSources = ClaimSources {
    tokens: true,
    certificates: true,
};
const NO_SOURCES: ClaimSources = ClaimSources {
    tokens: false,
    certificates: false,
};

fn facts() -> Vec<ConnectionFacts> {
    let shape = |prefix: &str, names: &[&str]| ItemShape {
        prefix: prefix.into(),
        parameters: names.iter().map(|name| (*name).into()).collect(),
    };
    vec![ConnectionFacts {
        name: "feed".into(),
        items: vec![
            shape("orders", &["account", "region"]),
            shape("quote", &["symbol"]),
            shape("news", &[]),
            shape("status", &[]),
        ],
        fields: Some(["symbol", "last", "bid"].map(Into::into).to_vec()),
        modes: [ItemMode::Raw, ItemMode::Merge, ItemMode::Command]
            .into_iter()
            .collect(),
    }]
}

#[test]
fn unmatchable_rules_are_found() {
    let rule = |name: &str, text: &str| format!("[[authorize]]\nname=\"{name}\"\n{text}\n");
    let rows = [
        (
            "items=[\"order-[account=1]\"]",
            "no item can match \"order-[account=1]\"; the nearest",
        ),
        (
            "items=[\"orders-[account=1]\"]",
            "must name the parameters account, region",
        ),
        ("items=[\"news-[*]\"]", "no item can match \"news-[*]\""),
        ("items=[\"quote\"]", "must name the parameters symbol"),
        (
            "items=[\"news\"]\nconnection=\"fed\"",
            "no connection \"fed\"; the nearest is \"feed\"",
        ),
        (
            "items=[\"news\"]\nmodes=[\"DISTINCT\"]",
            "do not allow mode DISTINCT",
        ),
        (
            "items=[\"news\"]\nfields=[\"lasts\"]",
            "no field \"lasts\"; the nearest is \"last\"",
        ),
        (
            "items=[\"news\"]\nmodes=[\"COMMAND\"]\nfields=[\"last\"]",
            "COMMAND needs the fields",
        ),
        (
            "items=[\"news\"]\nmodes=[\"MERGE\",\"COMMAND\"]\nwhere=\"VALUE.t = {claims.t}\"",
            "where may use KEY only",
        ),
    ];
    for (text, expected) in rows {
        let rules = item_rules(&rule("r", text)).unwrap();
        let findings = rule_findings(&rules, &facts(), ALL_SOURCES);
        let texts: Vec<_> = findings.iter().map(ToString::to_string).collect();
        assert!(
            texts.len() == 1 && texts[0].contains(expected),
            "{text}: {texts:?}"
        );
    }
    let key = rule("r", "items=[\"news\"]\nwhere=\"KEY = {claims.t}\"");
    assert_eq!(
        rule_findings(&item_rules(&key).unwrap(), &facts(), ALL_SOURCES),
        []
    );
    let claims = item_rules(&key).unwrap();
    let texts = rule_findings(&claims, &facts(), NO_SOURCES);
    assert!(texts[0].to_string().contains("there is no [auth]"));
    let certified =
        item_rules(&rule("r", "items=[\"news\"]\nwhen={ \"tls.cn\" = \"a\" }")).unwrap();
    let texts = rule_findings(&certified, &facts(), NO_SOURCES);
    assert!(texts.len() == 1 && texts[0].to_string().contains("auth.sources has no"));
    assert_eq!(rule_findings(&certified, &facts(), ALL_SOURCES), []);
}

#[test]
fn examples_have_no_finding() {
    let rules = item_rules(EXAMPLES).unwrap();
    assert_eq!(rule_findings(&rules, &facts(), ALL_SOURCES), []);
}

#[test]
fn where_beyond_key_excludes_command_mode() {
    let text = "[[authorize]]\nname=\"r\"\nitems=[\"news\"]\nwhere=\"VALUE.t = {claims.tenant}\"";
    let rows = item_rules(text).unwrap();
    let item = CanonicalItem::parse("news").unwrap();
    let decide = |mode| {
        let access = ItemAccess {
            connection: 0,
            mode,
            fields: &[],
            unfiltered: false,
        };
        let explained = explain_rules(&rows, &["feed"], &anna(), &item, &access).unwrap();
        (explained.decision, explained.rules[0].reason.clone())
    };
    assert!(decide(ItemMode::Merge).0.is_ok());
    let (decision, reason) = decide(ItemMode::Command);
    assert_eq!(decision, Err(Denial::Mode));
    assert!(reason.contains("may use KEY only"), "{reason}");
    let mut only = facts();
    only.iter_mut()
        .for_each(|one| one.modes = [ItemMode::Command].into_iter().collect());
    let findings = rule_findings(&rows, &only, ALL_SOURCES);
    assert!(findings[0].to_string().contains("may use KEY only"));
}

#[test]
fn shadowed_rules_are_found() {
    let rules = |first: &str, second: &str| {
        let text =
            format!("[[authorize]]\nname=\"a\"\n{first}\n[[authorize]]\nname=\"b\"\n{second}\n");
        let rules = item_rules(&text).unwrap();
        let findings = rule_findings(&rules, &facts(), ALL_SOURCES);
        findings
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    };
    let news = "items=[\"news\"]";
    let quotes = "items=[\"quote-[symbol=*]\"]";
    let acme = "items=[\"quote-[symbol=ACME]\"]";
    let b_shadowed = "rule \"b\" never applies: rule \"a\" covers all that it does";
    for (first, second) in [
        (news.to_owned(), format!("{news}\nwhen={{a=1}}")),
        (quotes.to_owned(), format!("{acme}\nfields=[\"last\"]")),
        ("items=[\"*\"]".to_owned(), quotes.to_owned()),
        (
            format!("{news}\nwhen={{a=[1,2]}}"),
            format!("{news}\nwhen={{a=2,b=1}}"),
        ),
        (format!("{quotes}\neffect=\"deny\""), acme.to_owned()),
        (
            format!("{news}\neffect=\"deny\""),
            format!("{news}\neffect=\"deny\""),
        ),
    ] {
        assert_eq!(rules(&first, &second), b_shadowed, "{first} {second}");
    }
    let a_shadowed = "rule \"a\" never applies: rule \"b\" covers all that it does";
    assert_eq!(
        rules(acme, &format!("{quotes}\neffect=\"deny\"")),
        a_shadowed
    );
    for (first, second) in [
        (acme.to_owned(), quotes.to_owned()),
        (format!("{quotes}\nmodes=[\"RAW\"]"), acme.to_owned()),
        (format!("{news}\nwhen={{a=1}}"), news.to_owned()),
        (format!("{news}\nfields=[\"last\"]"), news.to_owned()),
        (
            format!("{news}\neffect=\"deny\"\nfields=[\"bid\"]"),
            format!("{news}\nfields=[\"bid\"]"),
        ),
    ] {
        assert_eq!(rules(&first, &second), "", "{first} {second}");
    }
}

fn pattern() -> impl Strategy<Value = String> {
    let value = prop_oneof![
        "[xyz]",
        Just("*".to_owned()),
        Just("{claims.a}".to_owned()),
        Just("{claims.b.c}".to_owned())
    ];
    let one = value.clone().prop_map(|value| format!("[p={value}]"));
    let two = (value.clone(), value).prop_map(|(p, q)| format!("[q={q},p={p}]"));
    let list = prop_oneof![4 => one, 4 => two, 1 => Just("[*]".to_owned())];
    prop_oneof![
        1 => Just("*".to_owned()),
        2 => "[ij]",
        6 => ("[ij]", list).prop_map(|(prefix, list)| format!("{prefix}-{list}")),
    ]
}

fn rule_text() -> impl Strategy<Value = String> {
    let when = prop_oneof![
        2 => Just(""),
        1 => Just("when={a=\"x\"}\n"),
        1 => Just("when={\"b.c\"=[\"y\",\"z\",1]}\n"),
        1 => Just("when={d=true,a=[\"x\",\"y\"]}\n"),
    ];
    let modes = prop_oneof![
        2 => Just(""),
        1 => Just("modes=[\"MERGE\"]\n"),
        1 => Just("modes=[\"RAW\",\"DISTINCT\"]\n"),
    ];
    let fields = prop_oneof![
        2 => Just(""),
        1 => Just("fields=[\"f\"]\n"),
        1 => Just("fields=[\"f\",\"g\"]\n"),
    ];
    let connection = prop_oneof![
        3 => Just(""),
        1 => Just("connection=\"c0\"\n"),
        1 => Just("connection=[\"c1\",\"gone\"]\n"),
    ];
    let limits = prop_oneof![
        4 => Just(""), 2 => Just("max_frequency=0.5\n"), 2 => Just("effect=\"deny\"\n"),
        1 => Just("where=\"KEY = {claims.a}\"\n"),
        1 => Just("where=\"VALUE.x = {claims.a}\"\n"),
    ];
    let items = prop::collection::vec(pattern(), 1..3);
    (when, modes, fields, connection, limits, items).prop_map(
        |(when, modes, fields, connection, limits, items)| {
            format!("{connection}{modes}{fields}{limits}items={items:?}\n{when}")
        },
    )
}

fn claim_value() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        4 => "[xyz]".prop_map(Value::from),
        1 => prop::sample::select(vec![json!(1), json!(true), json!(null)]),
        1 => prop::sample::select(vec![json!("null"), json!(1.5)]),
        1 => prop::sample::select(vec![json!(""), json!("x y"), json!("x,y"), json!("é")]),
    ];
    let list = prop::collection::vec(scalar.clone(), 0..4);
    prop_oneof![2 => scalar, 1 => list.prop_map(Value::from)]
}

fn item_name() -> impl Strategy<Value = String> {
    prop_oneof![
        1 => "[ijk]",
        3 => "[ij]-\\[p=[xyz1*]\\]",
        3 => "[ij]-\\[p=[xyz],q=[xyz1]\\]",
        2 => "[ij]-\\[q=[xyz],p=[xyz],?\\]",
        1 => "[ij]-\\[(p=null|p=\\{claims\\.a\\}|r=x)\\]",
    ]
}

/// Item, connection, mode, fields and unfiltered delivery, as positions.
fn request() -> impl Strategy<Value = (String, usize, usize, usize, bool)> {
    (
        item_name(),
        0..2_usize,
        0..4_usize,
        0..4_usize,
        any::<bool>(),
    )
}

/// Returns a file with these rules.
fn numbered(texts: &[String]) -> String {
    let texts = texts.iter().enumerate();
    let rules = texts.map(|(number, text)| format!("[[authorize]]\nname=\"r{number}\"\n{text}"));
    rules.collect()
}

proptest! {
    // `PROPTEST_CASES=1000000` takes some minutes.
    #![proptest_config(support::property_config(20_000))]

    #[test]
    fn compiled_rules_decide_like_naive_evaluation(
        texts in prop::collection::vec(rule_text(), 1..7),
        (a, b, d) in (claim_value(), claim_value(), claim_value()),
        requests in prop::collection::vec(request(), 1..20),
    ) {
        let text = numbered(&texts);
        let rules = item_rules(&text).unwrap();
        let claims = claims(json!({"a": a, "b": {"c": b}, "d": d}));
        let compiled = ItemRules::new(rules.clone(), &["c0", "c1"]);
        let grants = compiled.grants(&claims, &mut GrantTable::default()).unwrap();
        for (item, connection, mode, fields, unfiltered) in requests {
            let access = ItemAccess {
                connection,
                mode: ItemMode::ALL[mode],
                fields: [&["f"][..], &["g"], &["f", "g"], &["h", "f"]][fields],
                unfiltered,
            };
            let parsed = CanonicalItem::parse(&item).unwrap();
            let decided = compiled.decide(&grants, &parsed, &access);
            let decided = decided.map(|allowance| {
                let records = allowance.records.as_ref();
                let values = records.map(|class| class.values().map(str::to_owned).collect());
                (allowance.rule, values)
            });
            let decided = decided.map_err(Denial::code);
            let expected = naive(&rules, &claims, &item, (&["c0", "c1"], &access));
            prop_assert_eq!(decided, expected, "{} in\n{}", item, text);
        }
    }

}

proptest! {
    #![proptest_config(support::property_config(400))]

    /// Without the rules that are reported as shadowed, the same requests are allowed, by the same
    /// rules.
    #[test]
    fn shadowed_rules_change_nothing(
        texts in prop::collection::vec(rule_text(), 2..6),
        (a, b, d) in (claim_value(), claim_value(), claim_value()),
        items in prop::collection::vec(item_name(), 1..10),
    ) {
        let all = item_rules(&numbered(&texts)).unwrap();
        let facts = ["c0", "c1"].map(|name| ConnectionFacts {
            name: name.into(),
            items: Vec::new(),
            fields: None,
            modes: ItemModes::ALL,
        });
        let mut rest = all.clone();
        for finding in rule_findings(&all, &facts, ALL_SOURCES) {
            if let RuleFinding::Shadowed { rule, .. } = finding {
                rest.retain(|one| one.name != rule);
            }
        }
        let claims = claims(json!({"a": a, "b": {"c": b}, "d": d}));
        let decided = |rules: &[ItemRule]| {
            let compiled = ItemRules::new(rules.to_vec(), &["c0", "c1"]);
            let grants = compiled.grants(&claims, &mut GrantTable::default()).unwrap();
            let mut names = Vec::new();
            for item in items.iter().map(|item| CanonicalItem::parse(item).unwrap()) {
                let fields = [&["f"][..], &["f", "g"]].repeat(2);
                for (mode, fields) in ItemMode::ALL.into_iter().zip(fields) {
                    let access = ItemAccess { connection: 0, mode, fields, unfiltered: false };
                    let decided = compiled.decide(&grants, &item, &access).ok();
                    names.push(decided.map(|one| compiled.name(one.rule).unwrap().to_owned()));
                }
            }
            names
        };
        prop_assert_eq!(decided(&rest), decided(&all), "{}", numbered(&texts));
    }
}
