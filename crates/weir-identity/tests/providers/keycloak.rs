//! Access tokens of Keycloak: `make test-keycloak`.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use weir_identity::ClaimPath;
use weir_lab::identity::{Keycloak, KeycloakUser};

use crate::tokens::{AUDIENCE, published_keys, skipped, verify};

const USERS: [KeycloakUser<'_>; 2] = [
    KeycloakUser {
        name: "anna",
        roles: &["trader"],
    },
    KeycloakUser {
        name: "bob",
        roles: &[],
    },
];

#[test]
fn access_tokens_are_verified_through_rotation() {
    if std::env::var_os("WEIR_KEYCLOAK").is_none() {
        return skipped("Keycloak takes 160 MB and half a minute; make test-keycloak runs it");
    }
    let stop = AtomicBool::new(false);
    let lifetime = Duration::from_secs(600);
    let keycloak = Keycloak::start(&USERS, AUDIENCE, lifetime, &mut |_| (), &stop).unwrap();
    let issuer = keycloak.issuer();
    let check = |token: &str| {
        verify(
            &issuer,
            "preferred_username",
            published_keys(&issuer),
            token,
        )
        .unwrap()
    };
    let roles = ClaimPath::parse("realm_access.roles").unwrap();
    let old = keycloak.token("anna").unwrap();
    let verified = check(&old);
    assert_eq!(verified.identity.user(), "anna");
    let has_role = |verified: &weir_identity::token::IdentifiedClient| {
        let texts = verified.claims.texts(&roles).unwrap();
        texts.iter().any(|role| *role == "trader")
    };
    assert!(has_role(&verified));
    let verified = check(&keycloak.token("bob").unwrap());
    assert!(verified.identity.user() == "bob" && !has_role(&verified));

    let before = published_keys(&issuer).keys().len();
    keycloak.rotate_key().unwrap();
    assert_eq!(published_keys(&issuer).keys().len(), before + 1);
    let new = keycloak.token("anna").unwrap();
    let key_id = |token: &str| token.split('.').next().unwrap().to_owned();
    assert_ne!(key_id(&new), key_id(&old), "another key signs");
    check(&new);
    check(&old);
}
