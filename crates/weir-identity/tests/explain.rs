//! Explanations of decisions.

mod support;

use support::rules::{EXAMPLES, anna, bob, item_rules};
use weir_identity::rules::{GrantTable, ItemAccess, ItemRules, explain_rules};
use weir_identity::{Claims, ItemMode};
use weir_mapping::CanonicalItem;

#[test]
fn explanations_name_the_reason_of_each_rule() {
    let rules = item_rules(EXAMPLES).unwrap();
    let compiled = ItemRules::new(rules.clone(), &["feed"]);
    let merge = ItemAccess {
        connection: 0,
        mode: ItemMode::Merge,
        fields: &["last"],
        unfiltered: false,
    };
    let raw = ItemAccess {
        mode: ItemMode::Raw,
        ..merge
    };
    let bid = ItemAccess {
        fields: &["symbol", "bid"],
        ..merge
    };
    for (claims, item, request, rule, reason) in [
        (
            &anna(),
            "orders-[account=A3,region=EU]",
            &merge,
            0,
            "\"account=A3\" is not in claims.accounts (2 values)",
        ),
        (
            &anna(),
            "orders-[account=A1,region=EU]",
            &raw,
            0,
            "does not name mode RAW",
        ),
        (
            &anna(),
            "orders-[region=EU,account=A2]",
            &merge,
            0,
            "covers the request",
        ),
        (
            &anna(),
            "orders-[account=A2]",
            &merge,
            5,
            "names other items: status",
        ),
        (
            &bob(),
            "quote-[symbol=X]",
            &bid,
            2,
            "does not name field \"bid\"",
        ),
        (
            &bob(),
            "quote-[symbol=X]",
            &merge,
            1,
            "there is no claims.roles, which when compares",
        ),
        (&anna(), "quote-[symbol=ACME]", &merge, 4, "denies the item"),
        (
            &anna(),
            "quote-[symbol=ACME]",
            &merge,
            1,
            "covers the request, but another rule decides",
        ),
        (
            &Claims::default(),
            "news",
            &merge,
            3,
            "claims.tenant has no value for where",
        ),
    ] {
        let name = CanonicalItem::parse(item).unwrap();
        let explained = explain_rules(&rules, &["feed"], claims, &name, request).unwrap();
        let grants = compiled.grants(claims, &mut GrantTable::default()).unwrap();
        let expected = compiled.decide(&grants, &name, request);
        assert_eq!(explained.decision, expected, "{item}");
        let found = &explained.rules[rule].reason;
        assert_eq!(found, reason, "{item}");
        let applied: Vec<_> = explained.rules.iter().filter(|one| one.applies).collect();
        assert_eq!(
            applied.len() == 1,
            expected.is_ok() || explained.rules[4].applies
        );
    }
}
