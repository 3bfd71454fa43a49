//! Access tokens of a certified OpenID provider.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use serde_json::{Map, json};
use weir_identity::ClaimPath;
use weir_identity::token::TokenError;
use weir_lab::identity::{IdentityProvider, Issuer, IssuerFault, TokenClaims};

use crate::tokens::{AUDIENCE, all_public, published_keys, unless_missing, verify};

fn claims(user: &str) -> TokenClaims<'_> {
    TokenClaims {
        user,
        audience: AUDIENCE,
        lifetime_s: 600,
        more: Map::new(),
    }
}

#[test]
fn access_tokens_are_verified_through_rotation_and_outage() {
    let provider = IdentityProvider::start(&mut |_| (), &AtomicBool::new(false));
    let Some(provider) = unless_missing(provider) else {
        return;
    };
    for algorithm in all_public().iter() {
        tokens_are_verified(&provider.issuer(algorithm.name()).unwrap());
    }
    rotated_keys_are_published(&provider.issuer("ES256").unwrap());
    faults_are_injected(&provider.issuer("EdDSA").unwrap());
}

fn tokens_are_verified(issuer: &Issuer<'_>) {
    let mut wanted = claims("anna");
    let more = json!({"roles": ["trader"], "https://x/tenant": "acme"});
    wanted.more = more.as_object().unwrap().clone();
    let token = issuer.token(&wanted).unwrap();
    let keys = || published_keys(issuer.url());
    let verified = verify(issuer.url(), "sub", keys(), &token).unwrap();
    let identity = &verified.identity;
    assert_eq!((identity.issuer(), identity.user()), (issuer.url(), "anna"));
    assert!(identity.token_id().is_some(), "the provider sets jti");
    for (path, value) in [
        ("roles", json!(["trader"])),
        ("\"https://x/tenant\"", json!("acme")),
    ] {
        let path = ClaimPath::parse(path).unwrap();
        assert_eq!(verified.claims.get(&path), Some(&value));
    }
    wanted.audience = "another";
    let token = issuer.token(&wanted).unwrap();
    let rejected = verify(issuer.url(), "sub", keys(), &token).unwrap_err();
    assert_eq!(rejected, TokenError::Audience);
}

fn rotated_keys_are_published(issuer: &Issuer<'_>) {
    let old = issuer.token(&claims("anna")).unwrap();
    let key = issuer.add_key("RS256").unwrap();
    assert_eq!(published_keys(issuer.url()).keys().len(), 2);
    issuer.sign_with(&key).unwrap();
    let new = issuer.token(&claims("anna")).unwrap();
    for token in [&old, &new] {
        verify(issuer.url(), "sub", published_keys(issuer.url()), token).unwrap();
    }
    issuer.withdraw_key(issuer.first_key()).unwrap();
    let keys = || published_keys(issuer.url());
    verify(issuer.url(), "sub", keys(), &new).unwrap();
    let rejected = verify(issuer.url(), "sub", keys(), &old).unwrap_err();
    assert_eq!(rejected, TokenError::UnknownKey { issuer: 0 });
    assert!(issuer.withdraw_key(&key).is_err(), "it signs");
}

fn faults_are_injected(issuer: &Issuer<'_>) {
    issuer.set_fault(IssuerFault::Refused).unwrap();
    assert!(issuer.token(&claims("anna")).is_err());
    issuer.set_fault(IssuerFault::Status(503)).unwrap();
    assert!(issuer.token(&claims("anna")).is_err());
    let before = issuer.requests().unwrap();
    assert_eq!(
        (before.keys, before.tokens),
        (0, 1),
        "refused ones are not counted"
    );
    let delay = Duration::from_millis(300);
    issuer.set_fault(IssuerFault::Slow(delay)).unwrap();
    let started = Instant::now();
    issuer.token(&claims("anna")).unwrap();
    assert!(started.elapsed() >= delay);
    issuer.set_fault(IssuerFault::None).unwrap();
    published_keys(issuer.url());
    assert_eq!(issuer.requests().unwrap().keys, 1);
}
