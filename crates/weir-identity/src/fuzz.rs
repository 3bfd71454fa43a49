//! Fuzz targets, run by `fuzz/` and briefly by the property tests.

use std::sync::{Arc, OnceLock};

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::Value;

use crate::acl::{AclRule, Effect, NamePattern, parse_listing};
use crate::algorithm::{Algorithm, AlgorithmSet};
use crate::ari::{AdapterLine, AdapterPeer, AdapterRequest, AriVersion, LineBuffer};
use crate::config::{AuthConfig, RawAuth};
use crate::keys::{KeySet, VerificationKey, discovered_keys_url};
use crate::token::{TokenVerifier, UnverifiedToken};

const SECRET: [u8; 32] = [7; 32];
const NOW_MS: u64 = 1_800_000_000_000;

/// Reads `data` as a token, and signs it as the claims of one. A token that is accepted has the
/// issuer, audience, times and user that are required.
pub fn token(data: &[u8]) {
    static VERIFIER: OnceLock<TokenVerifier> = OnceLock::new();
    let verifier = VERIFIER.get_or_init(|| {
        let section = r#"{"issuer": [{"issuer": "https://id", "audience": "weir",
            "secret_file": "x"}]}"#;
        let raw: RawAuth = serde_json::from_str(section).expect("a valid section");
        TokenVerifier::new(&AuthConfig::new(&raw).expect("a valid section"))
    });
    let key = VerificationKey::from_secret(&SECRET).expect("a long secret");
    let keys = [Some(Arc::new(KeySet::of_one(key)))];
    if let Ok(text) = std::str::from_utf8(data) {
        // Nothing that the fuzzer writes has a valid signature.
        let _ = UnverifiedToken::parse(text);
        assert!(verifier.verify(text, &keys, NOW_MS).is_err());
    }
    let claims = URL_SAFE_NO_PAD.encode(data);
    let message = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256"}"#));
    let signature = hmac::sign(
        &hmac::Key::new(hmac::HMAC_SHA256, &SECRET),
        message.as_bytes(),
    );
    let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
    let Ok(verified) = verifier.verify(&token, &keys, NOW_MS) else {
        return;
    };
    let claims: Value = serde_json::from_slice(data).expect("it was accepted");
    let audience = &claims["aud"];
    let lists_weir = |list: &Vec<Value>| list.contains(&Value::from("weir"));
    assert_eq!(claims["iss"], "https://id");
    assert!(*audience == "weir" || audience.as_array().is_some_and(lists_weir));
    assert!(
        claims["exp"]
            .as_f64()
            .is_some_and(|at| at * 1_000.0 + 30_000.0 > NOW_MS as f64)
    );
    assert!(!verified.identity.user().is_empty());
    assert_eq!(claims["sub"], verified.identity.user());
}

/// Reads `data` as a list of ACLs. Rules that are accepted, written as `kafka-acls.sh` does, are
/// the same when read again.
pub fn acls(data: &[u8]) {
    let Ok(rules) = parse_listing(&String::from_utf8_lossy(data), "f") else {
        return;
    };
    let text: String = rules.iter().map(listed).collect();
    let again = parse_listing(&text, "f").expect("its own format");
    let without_origin = |rules: Vec<AclRule>| {
        let rules = rules.into_iter();
        let rules = rules.map(|rule| AclRule {
            origin: "".into(),
            ..rule
        });
        rules.collect::<Vec<_>>()
    };
    assert_eq!(without_origin(again), without_origin(rules));
}

fn listed(rule: &AclRule) -> String {
    let (name, pattern) = match &rule.names {
        NamePattern::Any => ("*", "LITERAL"),
        NamePattern::Literal(name) => (&**name, "LITERAL"),
        NamePattern::Prefix(name) => (&**name, "PREFIXED"),
    };
    let permission = match rule.effect {
        Effect::Allow => "ALLOW",
        Effect::Deny => "DENY",
    };
    format!(
        "Current ACLs for resource `ResourcePattern(resourceType={}, name={name}, \
         patternType={pattern})`: \n \t(principal={}, host={}, operation={}, \
         permissionType={permission})\n",
        rule.resource_type, rule.principal, rule.addresses, rule.operation,
    )
}

/// Reads `data` as a key set, a discovery document and a PEM file. Keys that are accepted support
/// an algorithm, are found by their ID or are ambiguous, and do not accept a constant signature.
pub fn key_set(data: &[u8]) {
    let public = Algorithm::ALL
        .into_iter()
        .filter(|one| *one != Algorithm::Hs256);
    let allowed: AlgorithmSet = public.collect();
    let _ = discovered_keys_url(data, "https://id");
    let _ = VerificationKey::from_pem(data, allowed);
    let Ok(set) = KeySet::parse(data, allowed) else {
        return;
    };
    assert!((1..=100).contains(&set.keys().len()));
    for key in set.keys() {
        let algorithm = allowed.iter().find(|one| key.supports(*one));
        let algorithm = algorithm.expect("keys without an algorithm are rejected");
        if let Ok(found) = set.find(key.id(), algorithm) {
            assert!(found.supports(algorithm));
        }
        assert!(!key.supports(Algorithm::Hs256));
        assert!(!key.verify(algorithm, b"message", &[0; 64]));
    }
}

/// Reads `data` as lines of a remote adapter. Chunks give the same lines as the whole, and what is
/// decoded is encoded to a line that means the same.
pub fn ari(data: &[u8]) {
    let whole = lines(std::iter::once(data));
    let chunk = usize::from(*data.first().unwrap_or(&1)).max(1);
    assert_eq!(lines(data.chunks(chunk)), whole);
    for line in &whole {
        for version in [AriVersion::V180, AriVersion::V183, AriVersion::V191] {
            adapter_line(line, version);
            gateway_line(line, version);
        }
    }
}

fn lines<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let mut buffer = LineBuffer::default();
    let mut found = Vec::new();
    for chunk in chunks {
        buffer.push(chunk);
        while let Some(line) = buffer.next_line() {
            match line {
                Ok(line) => found.push(line.to_owned()),
                Err(_) => return found,
            }
        }
    }
    found
}

fn adapter_line(line: &str, version: AriVersion) {
    match AdapterLine::parse(line, version) {
        Ok(AdapterLine::Reply(reply)) => {
            let (id, method) = (reply.id.to_owned(), reply.method);
            let Ok(decoded) = reply.decode(method, 1, version) else {
                return;
            };
            let mut own = String::new();
            match &decoded {
                Ok(reply) => reply.encode(&id, method, &mut own),
                Err(exception) => exception.encode(&id, method, &mut own),
            }
            let Ok(AdapterLine::Reply(again)) = AdapterLine::parse(own.trim_end(), version) else {
                panic!("{own} is not a reply");
            };
            assert_eq!(again.decode(method, 1, version), Ok(decoded));
        }
        Ok(AdapterLine::Notification(id, notification)) => {
            let mut own = String::new();
            notification.encode(id, &mut own);
            let Ok(AdapterLine::Notification(_, again)) =
                AdapterLine::parse(own.trim_end(), version)
            else {
                panic!("{own} is not a notification");
            };
            assert!(again == notification, "{own}");
        }
        Ok(AdapterLine::KeepAlive) | Err(_) => {}
    }
}

fn gateway_line(line: &str, version: AriVersion) {
    let Ok((id, request)) = AdapterRequest::decode(line, version) else {
        return;
    };
    let peer = AdapterPeer {
        version,
        is_node: false,
        wants_close: true,
    };
    let mut own = String::new();
    request.encode(id, &peer, &mut own);
    let again = AdapterRequest::decode(own.trim_end(), version).map(|(_, request)| request);
    assert!(again == Ok(request), "{own}");
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    const TOKEN: &[u8] = include_bytes!("../../../fuzz/seeds/identity_token/claims");
    const KEYS: &[u8] = include_bytes!("../../../fuzz/seeds/identity_key_set/all");
    const ACLS: &[u8] = include_bytes!("../../../fuzz/seeds/identity_acls/list");
    const LINES: &[u8] = include_bytes!("../../../fuzz/seeds/identity_ari/java");

    /// Replaces bytes of a seed.
    fn changed(seed: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
        vec((any::<prop::sample::Index>(), any::<u8>()), 0..4).prop_map(move |changes| {
            let mut data = seed.to_vec();
            for (place, byte) in changes {
                let place = place.index(data.len());
                data[place] = byte;
            }
            data
        })
    }

    #[test]
    fn seeds_are_accepted() {
        token(TOKEN);
        let claims: Value = serde_json::from_slice(TOKEN).unwrap();
        assert_eq!(claims["sub"], "anna");
        let allowed = Algorithm::ALL.into_iter().collect();
        assert_eq!(KeySet::parse(KEYS, allowed).unwrap().keys().len(), 3);
        acls(ACLS);
        assert_eq!(lines(std::iter::once(LINES)).len(), 8);
    }

    proptest! {
        #[test]
        fn changed_claims(data in changed(TOKEN)) {
            token(&data);
        }

        #[test]
        fn changed_key_sets(data in changed(KEYS)) {
            key_set(&data);
        }

        #[test]
        fn changed_acls(data in changed(ACLS)) {
            acls(&data);
        }

        #[test]
        fn changed_lines(data in changed(LINES)) {
            ari(&data);
        }
    }
}
