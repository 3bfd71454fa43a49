//! Access rules: decisions, compared with a model without index and cache.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use proptest::prelude::*;
use weir_identity::acl::{
    AclDecision, AclOperation, AclRule, AclSet, AclSubject, AddressRange, DecisionCache, Effect,
    NamePattern, ResourceType,
};

const PRINCIPALS: [&str; 4] = ["User:a", "User:b", "Group:g", "User:*"];
const ADDRESSES: [&str; 3] = ["10.0.0.1", "10.9.9.9", "192.168.0.1"];
const RANGES: [&str; 3] = ["*", "10.0.0.1", "10.0.0.0/8"];

fn rule() -> impl Strategy<Value = AclRule> {
    let names = prop_oneof![
        Just(NamePattern::Any),
        "[ab]{1,3}".prop_map(|name| NamePattern::Literal(name.into())),
        "[ab]{1,3}".prop_map(|name| NamePattern::Prefix(name.into())),
    ];
    let effect = prop_oneof![3 => Just(Effect::Allow), 1 => Just(Effect::Deny)];
    let principal = prop::sample::select(&PRINCIPALS[..]);
    let range = prop::sample::select(&RANGES[..]);
    let operation = prop::sample::select(AclOperation::ALL);
    let types = prop::sample::select(&ResourceType::ALL[..2]);
    (principal, range, operation, effect, types, names).prop_map(
        |(principal, range, operation, effect, resource_type, names)| AclRule {
            principal: principal.into(),
            addresses: range.parse().expect("a range"),
            operation,
            effect,
            resource_type,
            names,
            origin: "".into(),
        },
    )
}

/// Returns `true` if the rule applies to the request, as in Kafka's StandardAuthorizer.
fn matches(
    rule: &AclRule,
    principals: &[Box<str>],
    address: IpAddr,
    requested: AclOperation,
) -> bool {
    use AclOperation::*;
    let is_principal = &*rule.principal == "User:*" || principals.contains(&rule.principal);
    let is_operation = match (rule.operation, requested) {
        (All, _) => true,
        (Read | Write | Delete | Alter, Describe) => rule.effect == Effect::Allow,
        (AlterConfigs, DescribeConfigs) => rule.effect == Effect::Allow,
        (one, other) => one == other,
    };
    is_principal && is_operation && rule.addresses.contains(address)
}

fn model(
    rules: &[AclRule],
    principals: &[Box<str>],
    address: IpAddr,
    requested: AclOperation,
    (resource_type, name): (ResourceType, &str),
) -> bool {
    let of_resource =
        |rule: &&AclRule| rule.resource_type == resource_type && rule.names.contains(name);
    let found: Vec<_> = rules
        .iter()
        .filter(of_resource)
        .filter(|rule| matches(rule, principals, address, requested))
        .collect();
    let denied = found.iter().any(|rule| rule.effect == Effect::Deny);
    !found.is_empty() && !denied
}

fn principals(names: &[&str]) -> Box<[Box<str>]> {
    names.iter().map(|name| Box::from(*name)).collect()
}

proptest! {
    #[test]
    fn decisions_equal_the_model(
        rules in prop::collection::vec(rule(), 0..12),
        user in prop::sample::subsequence(&PRINCIPALS[..3], 1..3),
        address in prop::sample::select(&ADDRESSES[..]),
        operations in prop::collection::vec(prop::sample::select(&AclOperation::ALL[1..]), 1..6),
        names in prop::collection::vec("[ab]{0,4}", 1..6),
    ) {
        let user = principals(&user);
        let address: IpAddr = address.parse().expect("an address");
        let set = Arc::new(AclSet::new(rules.clone(), []));
        let subject = AclSubject::new(Arc::clone(&set), user.clone(), address);
        let mut cache = DecisionCache::default();
        for resource_type in &ResourceType::ALL[..3] {
            for operation in &operations {
                let mut all = HashSet::new();
                for name in &names {
                    let resource = (*resource_type, name.as_str());
                    let wanted = model(&rules, &user, address, *operation, resource);
                    let decision = subject.decide(*operation, *resource_type, name);
                    prop_assert_eq!(decision.is_allowed(), wanted);
                    if let AclDecision::Allowed(rule) | AclDecision::Denied(rule) = decision {
                        prop_assert!(rule.names.contains(name));
                        prop_assert!(matches(rule, &user, address, *operation));
                    }
                    for _ in 0..2 {
                        let cached = cache.allows(&subject, *operation, *resource_type, name);
                        prop_assert_eq!(cached, wanted);
                    }
                    all.insert(wanted);
                }
                if subject.allows_all(*operation, *resource_type) {
                    prop_assert_eq!(all, HashSet::from([true]));
                }
            }
        }
    }
}

fn allow(principal: &str, operation: AclOperation, names: &str) -> AclRule {
    AclRule {
        principal: principal.into(),
        addresses: AddressRange::Any,
        operation,
        effect: Effect::Allow,
        resource_type: ResourceType::Topic,
        names: NamePattern::from_config(names),
        origin: "test".into(),
    }
}

fn deny(principal: &str, operation: AclOperation, names: &str) -> AclRule {
    AclRule {
        effect: Effect::Deny,
        ..allow(principal, operation, names)
    }
}

/// The cases are those of Kafka's `AuthorizerInterfaceDefaultTest` for resource types.
#[test]
fn any_topic_needs_an_allowed_name() {
    use AclOperation::{All, Read, Write};
    let cases: [(&[AclRule], bool); 9] = [
        (&[], false),
        (&[allow("User:a", Write, "x")], true),
        (&[allow("User:a", All, "x*")], true),
        (&[allow("User:a", Read, "x")], false),
        (
            &[allow("User:a", Write, "x"), deny("User:a", Write, "x")],
            false,
        ),
        (
            &[allow("User:a", Write, "xy"), deny("User:*", Write, "x*")],
            false,
        ),
        (
            &[allow("User:a", Write, "x*"), deny("User:a", Write, "xy*")],
            true,
        ),
        (
            &[allow("User:a", Write, "*"), deny("User:a", All, "*")],
            false,
        ),
        (
            &[allow("User:a", Write, "*"), deny("User:a", Write, "x")],
            true,
        ),
    ];
    for (rules, wanted) in cases {
        let set = AclSet::new(rules.to_vec(), []);
        let address = "10.0.0.1".parse().expect("an address");
        let user = principals(&["User:a"]);
        let decision = set.decide_by_resource_type(&user, address, Write, ResourceType::Topic);
        assert_eq!(decision.is_allowed(), wanted, "{rules:?}");
    }
}

#[test]
fn super_users_may_do_everything() {
    let rules = vec![deny("User:*", AclOperation::All, "*")];
    let set = AclSet::new(rules, ["User:root".into()]);
    let address = "10.0.0.1".parse().expect("an address");
    let decide = |user: &str| {
        let user = principals(&[user]);
        set.decide(
            &user,
            address,
            AclOperation::Write,
            ResourceType::Topic,
            "t",
        )
    };
    assert_eq!(decide("User:root"), AclDecision::SuperUser);
    assert!(!decide("User:other").is_allowed());
}
