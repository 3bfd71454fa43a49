//! Cost of tokens and rules: `cargo bench -p weir-identity`.
//!
//! Best of several rounds on one thread. A session creation verifies one token and compiles the
//! rules for it; a subscription decides about each item.

// The crate has no side effects, but the benchmark reads the clock and prints.
#![allow(clippy::print_stdout, clippy::disallowed_methods)]

use std::sync::Arc;

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, EcdsaKeyPair, KeyPair, ParsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use weir_identity::acl::{
    AclOperation, AclRule, AclSet, AclSubject, AddressRange, DecisionCache, Effect, NamePattern,
    ResourceType,
};
use weir_identity::rules::{GrantTable, ItemAccess, ItemRules};
use weir_identity::token::{IdentifiedClient, TokenCache};
use weir_identity::{Algorithm, ItemMode, Revocations};
use weir_mapping::CanonicalItem;

#[path = "../../../bench/best_time.rs"]
mod best_time;
#[path = "../tests/support/mod.rs"]
mod support;

use best_time::best_time;
use support::auth::{ISSUER, key_set, now_ms, verifier};
use support::rules::{claims, item_rules};
use support::signer::Signer;

fn main() {
    println!("{:<58}{:>12}{:>14}", "", "ns", "per second");
    for algorithm in [
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
        Algorithm::Rs256,
    ] {
        verification(algorithm);
    }
    for rules in [1, 10, 1_000] {
        rule_costs(rules);
    }
    acl_costs();
}

/// Decides about 900 topics with 10,000 ACLs; the goals are 100 ns with and 2,000 ns without cache.
fn acl_costs() {
    let rule = |index: usize| {
        let (principal, operation, effect, names) = match index % 4 {
            0 => (
                "User:a",
                AclOperation::Read,
                Effect::Allow,
                format!("topic-{index}"),
            ),
            1 => (
                "User:a",
                AclOperation::Write,
                Effect::Allow,
                format!("prefix-{index}-*"),
            ),
            2 => (
                "User:*",
                AclOperation::Delete,
                Effect::Deny,
                format!("topic-{index}"),
            ),
            _ => (
                "User:b",
                AclOperation::All,
                Effect::Allow,
                format!("topic-{index}"),
            ),
        };
        AclRule {
            principal: principal.into(),
            addresses: AddressRange::Any,
            operation,
            effect,
            resource_type: ResourceType::Topic,
            names: NamePattern::from_config(&names),
            origin: "bench".into(),
        }
    };
    let set = Arc::new(AclSet::new((0..10_000).map(rule).collect(), []));
    let address = [10, 0, 0, 1].into();
    let subject = AclSubject::new(set, Box::new(["User:a".into()]), address);
    let names: Vec<_> = (0..900)
        .map(|index| format!("topic-{}", index * 4))
        .collect();
    let (read, topic) = (AclOperation::Read, ResourceType::Topic);
    let cold = best_time(|| {
        names
            .iter()
            .filter(|name| subject.decide(read, topic, name).is_allowed())
            .count()
    });
    row("ACL decision, 10,000 ACLs", cold / names.len() as f64);
    let mut cache = DecisionCache::default();
    let hot = best_time(|| {
        names
            .iter()
            .filter(|name| cache.allows(&subject, read, topic, name))
            .count()
    });
    row(
        "ACL decision, 10,000 ACLs, cached",
        hot / names.len() as f64,
    );
}

fn row(name: &str, ns: f64) {
    println!("{name:<58}{ns:>12.0}{:>14.0}", 1e9 / ns);
}

fn token_claims() -> Value {
    json!({
        "iss": ISSUER, "aud": ["weir"], "sub": "anna", "jti": "t-1", "tenant": "acme",
        "exp": now_ms() / 1000 + 600, "accounts": ["A1", "A2"], "region": "EU", "roles": ["trader"],
    })
}

fn verification(algorithm: Algorithm) {
    let signer = Signer::generate(algorithm);
    let verifier = verifier(&[algorithm]);
    let keys = key_set(&[(&signer, "k1")], [algorithm].into_iter().collect());
    let keys = [Some(Arc::new(keys))];
    let token = signer.token(
        &json!({"alg": algorithm.name(), "kid": "k1"}),
        &token_claims(),
    );
    let name = |what: &str| format!("{algorithm}: {what}");
    let verify = || {
        verifier
            .verify(&token, &keys, now_ms())
            .expect("a valid token")
    };
    row(&name("token verified"), best_time(verify));
    let Signer::Ecdsa(pair, Algorithm::Es256) = &signer else {
        return;
    };
    signature_alone(pair, &token);
    let rules = ItemRules::new(item_rules(&rules_text(10)).expect("valid rules"), &["feed"]);
    let mut table = GrantTable::default();
    let create = || {
        let IdentifiedClient { identity, claims } = verify();
        (
            identity,
            rules.grants(&claims, &mut table).expect("short claims"),
        )
    };
    row(
        &name("session created: verified, 10 rules compiled"),
        best_time(create),
    );
    let mut cache = TokenCache::new(100_000);
    cache.insert(&token, Arc::new(verify()));
    let revocations = Revocations::new(10);
    let again = || {
        let found = cache.get(&token).expect("it is stored");
        verifier.recheck(&found.identity, None, &revocations, now_ms())
    };
    row(&name("token from the cache"), best_time(again));
}

/// Prints the floor of a verification: the signature, with decoded bytes and a prepared key.
fn signature_alone(pair: &EcdsaKeyPair, token: &str) {
    let (message, signature) = token.rsplit_once('.').expect("a token");
    let signature = URL_SAFE_NO_PAD.decode(signature).expect("base64url");
    let key = ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, pair.public_key());
    let key = key.expect("a valid key");
    let verify = || key.verify_sig(message.as_bytes(), &signature);
    verify().expect("a valid signature");
    row("ES256: signature alone", best_time(verify));
}

fn rules_text(count: usize) -> String {
    let own = "[[authorize]]\nname=\"own\"\n\
        items=[\"orders-[account={claims.accounts},region={claims.region}]\"]\n";
    let more = (1..count).map(|number| {
        format!(
            "[[authorize]]\nname=\"r{number}\"\nitems=[\"quote-[symbol=S{number}]\"]\n\
             when={{roles=[\"trader\",\"x{number}\"]}}\n"
        )
    });
    own.to_owned() + &more.collect::<String>()
}

fn rule_costs(count: usize) {
    let rules = ItemRules::new(
        item_rules(&rules_text(count)).expect("valid rules"),
        &["feed"],
    );
    let claims = claims(token_claims());
    let mut table = GrantTable::default();
    let name = |what: &str| format!("{count} rules: {what}");
    let compile = || rules.grants(&claims, &mut table).expect("short claims");
    row(&name("compiled for an identity"), best_time(compile));
    let grants = rules.grants(&claims, &mut table).expect("short claims");
    let access = ItemAccess {
        connection: 0,
        mode: ItemMode::Merge,
        fields: &["last"],
        unfiltered: false,
    };
    let last = format!("quote-[symbol=S{}]", count - 1);
    for item in ["orders-[account=A2,region=EU]", &last, "other"] {
        let parsed = CanonicalItem::parse(item).expect("a valid name");
        let decided = || rules.decide(&grants, &parsed, &access).is_ok();
        row(&name(&format!("decided about {item}")), best_time(decided));
    }
    println!(
        "{:<58}{:>12}",
        name("bytes of a session"),
        grants.memory_bytes()
    );
}
