//! Tokens: every algorithm, the published vectors, and attacks.

mod support;

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use support::auth::{ISSUER, auth, base64url, key_set, now_ms, verifier};
use support::signer::{Signer, pem};
use weir_identity::config::{AuthConfig, KeyLocation, TokenSource};
use weir_identity::keys::{KeyError, KeySet, KeySetError, VerificationKey};
use weir_identity::token::{
    IdentifiedClient, TokenError, TokenPart, TokenRejection, TokenVerifier,
};
use weir_identity::{
    Algorithm, AlgorithmSet, AuthMethod, ClaimPath, Revocation, RevocationKey, Revocations,
};

fn all_public() -> AlgorithmSet {
    Algorithm::ALL
        .into_iter()
        .filter(|one| *one != Algorithm::Hs256)
        .collect()
}

/// A signer with its verifier and key set.
struct Fixture {
    signer: Signer,
    algorithm: Algorithm,
    verifier: TokenVerifier,
    keys: [Option<Arc<KeySet>>; 1],
}

impl Fixture {
    fn new(algorithm: Algorithm) -> Self {
        let signer = Signer::generate(algorithm);
        let verifier = verifier(&[algorithm]);
        let keys = match &signer {
            Signer::Secret(secret) => KeySet::of_one(VerificationKey::from_secret(secret).unwrap()),
            signer => key_set(&[(signer, "k1")], all_public()),
        };
        let keys = [Some(Arc::new(keys))];
        Self {
            signer,
            algorithm,
            verifier,
            keys,
        }
    }

    fn header(&self) -> Value {
        json!({"alg": self.algorithm.name(), "kid": "k1", "typ": "JWT"})
    }

    fn verify(&self, token: &str) -> Result<IdentifiedClient, TokenError> {
        self.verifier.verify(token, &self.keys, now_ms())
    }

    /// Verifies a token with changed claims; null removes one.
    fn with_claims(&self, changes: &Value) -> Result<IdentifiedClient, TokenError> {
        let mut claims = claims();
        for (name, value) in changes.as_object().unwrap() {
            match value {
                Value::Null => claims.as_object_mut().unwrap().remove(name),
                value => claims
                    .as_object_mut()
                    .unwrap()
                    .insert(name.clone(), value.clone()),
            };
        }
        self.verify(&self.signer.token(&self.header(), &claims))
    }

    fn with_header(&self, header: &Value) -> Result<IdentifiedClient, TokenError> {
        self.verify(&self.signer.token(header, &claims()))
    }
}

fn claims() -> Value {
    json!({"iss": ISSUER, "aud": ["other", "weir"], "sub": "anna", "jti": "t-1",
        "iat": now_ms() / 1000 - 60, "exp": now_ms() / 1000 + 600, "tenant": "acme"})
}

#[test]
fn every_algorithm_is_verified_and_pinned() {
    for algorithm in Algorithm::ALL {
        let fixture = Fixture::new(algorithm);
        let verified = fixture.with_claims(&json!({})).unwrap();
        let identity = &verified.identity;
        assert_eq!((identity.issuer(), identity.user()), (ISSUER, "anna"));
        assert_eq!(
            (identity.tenant(), identity.token_id()),
            (Some("acme"), Some("t-1"))
        );
        assert_eq!(identity.method(), AuthMethod::Jwt);
        // Each other algorithm is rejected, whatever the signature.
        for other in Algorithm::ALL.into_iter().filter(|one| *one != algorithm) {
            let header = json!({"alg": other.name(), "kid": "k1"});
            assert_eq!(
                fixture.with_header(&header),
                Err(TokenError::Algorithm),
                "{other}"
            );
        }
        // Every bit of the token counts.
        let token = fixture.signer.token(&fixture.header(), &claims());
        for at in (0..token.len()).step_by(29) {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).unwrap();
            assert!(fixture.verify(&changed).is_err(), "{at}");
        }
        let (message, _) = token.rsplit_once('.').unwrap();
        assert_eq!(
            fixture.verify(&format!("{message}.")),
            Err(TokenError::Signature)
        );
    }
}

#[test]
fn issuer_with_all_algorithms_still_pins_them_per_key() {
    let verifier = verifier(&[Algorithm::Rs256, Algorithm::Ps256, Algorithm::Es256]);
    let (rsa, ec) = (
        Signer::generate(Algorithm::Rs256),
        Signer::generate(Algorithm::Es256),
    );
    let mut rsa_key = rsa.jwk();
    rsa_key["kid"] = "rsa".into();
    rsa_key["alg"] = "RS256".into();
    let mut ec_key = ec.jwk();
    ec_key["kid"] = "ec".into();
    let document = json!({"keys": [rsa_key, ec_key]}).to_string();
    let keys = KeySet::parse(document.as_bytes(), all_public()).unwrap();
    let keys = [Some(Arc::new(keys))];
    let verify = |signer: &Signer, algorithm: &str, kid: &str| {
        let token = signer.token(&json!({"alg": algorithm, "kid": kid}), &claims());
        verifier.verify(&token, &keys, now_ms()).map(drop)
    };
    assert_eq!(verify(&rsa, "RS256", "rsa"), Ok(()));
    assert_eq!(verify(&ec, "ES256", "ec"), Ok(()));
    let wrong = |algorithm| Err(TokenError::KeyAlgorithm { algorithm });
    assert_eq!(
        verify(&rsa, "PS256", "rsa"),
        wrong(Algorithm::Ps256),
        "pinned by the key set"
    );
    assert_eq!(verify(&ec, "ES256", "rsa"), wrong(Algorithm::Es256));
    assert_eq!(verify(&rsa, "RS256", "ec"), wrong(Algorithm::Rs256));
    let unnamed = rsa.token(&json!({"alg": "RS256"}), &claims());
    assert!(
        verifier.verify(&unnamed, &keys, now_ms()).is_ok(),
        "only one key fits"
    );
}

#[test]
fn public_key_is_never_a_secret() {
    // HS256 with every form of the RSA key as the secret.
    let fixture = Fixture::new(Algorithm::Rs256);
    let jwk = fixture.signer.jwk();
    let pem = pem(&fixture.signer);
    for secret in [
        jwk["n"].as_str().unwrap(),
        &pem,
        pem.trim(),
        &jwk.to_string(),
    ] {
        let forger = Signer::Secret(secret.as_bytes().to_vec());
        let token = forger.token(&json!({"alg": "HS256", "kid": "k1"}), &claims());
        assert_eq!(fixture.verify(&token), Err(TokenError::Algorithm));
    }
    let mixed = auth(
        &["RS256", "HS256"],
        "jwks_url = \"https://id.example.com/keys\"",
    );
    assert!(mixed.unwrap_err().contains("mixes HS256 with public keys"));
}

#[test]
fn keys_in_headers_are_ignored() {
    let fixture = Fixture::new(Algorithm::Es256);
    let forger = Signer::generate(Algorithm::Es256);
    let header = json!({"alg": "ES256", "kid": "k1", "jku": "http://127.0.0.1:1/",
        "x5u": "http://127.0.0.1:1/", "jwk": forger.jwk(), "x5c": ["x"]});
    let token = forger.token(&header, &claims());
    assert_eq!(fixture.verify(&token), Err(TokenError::Signature));
    assert!(
        fixture.with_header(&header).is_ok(),
        "signed with the right key"
    );
    for kid in ["../../etc/passwd", "' or 1=1 --", "", &"k".repeat(5000)] {
        let header = json!({"alg": "ES256", "kid": kid});
        let error = fixture.with_header(&header).unwrap_err();
        assert_eq!(error, TokenError::UnknownKey { issuer: 0 });
    }
    let critical = json!({"alg": "ES256", "kid": "k1", "crit": ["exp"]});
    assert_eq!(fixture.with_header(&critical), Err(TokenError::Critical));
}

#[test]
fn token_types_are_checked() {
    let fixture = Fixture::new(Algorithm::EdDsa);
    let types = |fixture: &Fixture, kind: Value| {
        let header = json!({"alg": "EdDSA", "kid": "k1", "typ": kind});
        fixture.with_header(&header).map(drop)
    };
    for kind in ["JWT", "jwt", "at+jwt", "AT+JWT", "application/at+jwt"] {
        assert_eq!(types(&fixture, kind.into()), Ok(()), "{kind}");
    }
    for kind in ["", "logout+jwt", "secevent+jwt", "JWE"] {
        assert_eq!(
            types(&fixture, kind.into()),
            Err(TokenError::Type),
            "{kind}"
        );
    }
    assert_eq!(
        types(&fixture, json!(["JWT"])),
        Err(TokenError::Header { name: "typ" })
    );
    let mut strict = fixture;
    let location = "jwks_url = \"https://id.example.com/keys\"\nstrict_type = true";
    strict.verifier = TokenVerifier::new(&auth(&["EdDSA"], location).unwrap());
    assert_eq!(types(&strict, "JWT".into()), Err(TokenError::Type));
    assert_eq!(types(&strict, "at+jwt".into()), Ok(()));
}

#[test]
fn issuer_is_compared_exactly() {
    let fixture = Fixture::new(Algorithm::EdDsa);
    for issuer in [
        format!("{ISSUER}/"),
        ISSUER.to_uppercase(),
        "https://user@id.example.com/realms/prod".to_owned(),
        "http://127.0.0.1:1/".to_owned(),
        String::new(),
    ] {
        let error = fixture.with_claims(&json!({ "iss": issuer })).unwrap_err();
        assert_eq!(error, TokenError::Issuer);
    }
    let list = fixture.with_claims(&json!({"iss": [ISSUER]}));
    assert_eq!(list, Err(TokenError::Claim { name: "iss" }));
    let none = fixture.with_claims(&json!({"iss": null}));
    assert_eq!(none, Err(TokenError::Missing { name: "iss" }));
}

#[test]
fn audience_is_required() {
    let fixture = Fixture::new(Algorithm::EdDsa);
    let audience = |value: Value| fixture.with_claims(&json!({ "aud": value })).map(drop);
    assert_eq!(audience("weir".into()), Ok(()));
    assert_eq!(audience(json!(["weir"])), Ok(()));
    for other in [
        json!("Weir"),
        json!("weir "),
        json!(["client-id"]),
        json!([]),
    ] {
        assert_eq!(audience(other), Err(TokenError::Audience));
    }
    assert_eq!(
        audience(json!(null)),
        Err(TokenError::Missing { name: "aud" })
    );
    for wrong in [json!(1), json!(["weir", 1]), json!({"weir": 1})] {
        assert_eq!(audience(wrong), Err(TokenError::Claim { name: "aud" }));
    }
}

#[test]
fn times_are_checked_with_skew() {
    let fixture = Fixture::new(Algorithm::EdDsa);
    let now = (now_ms() / 1000) as i64;
    let with = |name: &str, value: Value| fixture.with_claims(&json!({ name: value })).map(drop);
    for (name, at, expected) in [
        ("exp", now - 29, Ok(())),
        ("exp", now - 30, Err(TokenError::Expired)),
        ("nbf", now + 30, Ok(())),
        ("nbf", now + 31, Err(TokenError::NotYetValid)),
        ("iat", now + 30, Ok(())),
        ("iat", now + 31, Err(TokenError::IssuedInFuture)),
        ("exp", 0, Err(TokenError::Expired)),
    ] {
        assert_eq!(with(name, json!(at)), expected, "{name} {at}");
    }
    assert_eq!(with("exp", json!(now as f64 + 0.5)), Ok(()));
    assert_eq!(
        with("exp", json!(null)),
        Err(TokenError::Missing { name: "exp" })
    );
    for name in ["exp", "nbf", "iat"] {
        let wrong = Err(TokenError::Claim { name });
        for value in [
            json!(-1),
            json!("1800000000"),
            json!(1e300),
            json!([1]),
            json!(true),
        ] {
            assert_eq!(with(name, value), wrong, "{name}");
        }
    }
    let part = TokenPart::Claims;
    for number in ["1e400", "NaN", "01", "0x1"] {
        let text =
            claims()
                .to_string()
                .replacen("\"exp\":", &format!("\"exp\":{number},\"e\":"), 1);
        let token = fixture
            .signer
            .token_of_texts(&fixture.header().to_string(), &text);
        assert_eq!(
            fixture.verify(&token),
            Err(TokenError::Json { part }),
            "{number}"
        );
    }
}

#[test]
fn duplicate_claims_and_deep_json_are_rejected() {
    let fixture = Fixture::new(Algorithm::EdDsa);
    let part = TokenPart::Claims;
    let text = claims().to_string();
    let deep = format!("\"d\":{}{},\"iss\"", "[".repeat(2000), "]".repeat(2000));
    for text in [
        text.replacen("\"aud\"", "\"aud\":\"weir\",\"aud\"", 1),
        text.replacen("\"iss\"", &deep, 1),
        format!("[{text}]"),
    ] {
        let token = fixture
            .signer
            .token_of_texts(&fixture.header().to_string(), &text);
        assert_eq!(fixture.verify(&token), Err(TokenError::Json { part }));
    }
}

#[test]
fn user_is_a_short_text() {
    let fixture = Fixture::new(Algorithm::EdDsa);
    for user in [
        json!(null),
        json!(""),
        json!(7),
        json!(["anna"]),
        json!("u".repeat(257)),
    ] {
        assert_eq!(
            fixture.with_claims(&json!({ "sub": user })),
            Err(TokenError::User)
        );
    }
    let identity = fixture
        .with_claims(&json!({"sub": "u".repeat(256)}))
        .unwrap()
        .identity;
    let none = Revocations::new(1);
    let recheck = |user| fixture.verifier.recheck(&identity, user, &none, now_ms());
    let long = "u".repeat(256);
    for user in [None, Some(""), Some(&*long)] {
        assert_eq!(recheck(user), Ok(()));
    }
    assert_eq!(recheck(Some("anna")), Err(TokenError::OtherUser));
}

#[test]
fn cached_token_expires_and_is_revoked() {
    let fixture = Fixture::new(Algorithm::EdDsa);
    let identity = fixture.with_claims(&json!({})).unwrap().identity;
    let mut list = Revocations::new(1);
    let end_ms = identity.expires_ms() + 30_000;
    let check =
        |list: &Revocations, now_ms| fixture.verifier.recheck(&identity, None, list, now_ms);
    assert_eq!(check(&list, end_ms - 1), Ok(()));
    assert_eq!(check(&list, end_ms), Err(TokenError::Expired));
    let key = RevocationKey::Token {
        issuer: ISSUER.into(),
        jti: "t-1".into(),
    };
    list.insert(Revocation {
        key,
        issued_before_ms: None,
        expires_ms: end_ms,
    })
    .unwrap();
    assert_eq!(check(&list, now_ms()), Err(TokenError::Revoked));
}

#[test]
fn missing_keys_are_a_passing_fault() {
    let fixture = Fixture::new(Algorithm::EdDsa);
    let token = fixture.signer.token(&fixture.header(), &claims());
    for keys in [&[None][..], &[]] {
        let error = fixture.verifier.verify(&token, keys, now_ms()).unwrap_err();
        assert_eq!(error.rejection(), TokenRejection::Unavailable);
    }
    assert_eq!(TokenError::Expired.rejection(), TokenRejection::Credentials);
}

#[test]
fn errors_and_debug_texts_hide_token() {
    let fixture = Fixture::new(Algorithm::Hs256);
    let secret = "0123456789abcdef";
    let texts = format!("{:?} {:?}", fixture.keys, fixture.verifier);
    assert!(!texts.contains(secret), "{texts}");
    let marker = "marker-of-a-secret-value";
    let header = json!({"alg": "HS256", "kid": marker, "typ": marker});
    let claims = json!({"iss": marker, "aud": marker, "sub": marker});
    let error = fixture
        .verify(&fixture.signer.token(&header, &claims))
        .unwrap_err();
    assert!(!format!("{error} {error:?} {}", error.reason()).contains(marker));
}

#[test]
fn unusable_keys_of_a_set_are_dropped() {
    let (rsa, ec) = (
        Signer::generate(Algorithm::Rs256),
        Signer::generate(Algorithm::Es256),
    );
    let with = |mut key: Value, name: &str, value: Value| {
        key[name] = value;
        key
    };
    let rows = [
        (json!({"kty": "oct", "k": "AAAA"}), KeyError::KeyType),
        (
            json!({"kty": "RSA", "n": "AQAB", "e": "AQAB"}),
            KeyError::RsaSize,
        ),
        (with(rsa.jwk(), "e", "".into()), KeyError::Values),
        (with(rsa.jwk(), "n", "****".into()), KeyError::Values),
        (with(rsa.jwk(), "use", "enc".into()), KeyError::Use),
        (
            with(rsa.jwk(), "key_ops", json!(["encrypt"])),
            KeyError::Use,
        ),
        (
            with(rsa.jwk(), "alg", "RSA-OAEP".into()),
            KeyError::Algorithm,
        ),
        (with(rsa.jwk(), "alg", "ES256".into()), KeyError::Algorithm),
        (with(rsa.jwk(), "kid", json!(1)), KeyError::KeyId),
        (
            with(rsa.jwk(), "kid", "k".repeat(1025).into()),
            KeyError::KeyId,
        ),
        (with(ec.jwk(), "crv", "P-521".into()), KeyError::Curve),
        (with(ec.jwk(), "crv", "P-384".into()), KeyError::Values),
        (with(ec.jwk(), "x", ec.jwk()["y"].clone()), KeyError::Values),
        (json!({"kid": "x"}), KeyError::Malformed),
        (json!(1), KeyError::Malformed),
    ];
    let mut keys: Vec<_> = rows.iter().map(|(key, _)| key.clone()).collect();
    let only_bad = json!({ "keys": keys }).to_string();
    let error = KeySet::parse(only_bad.as_bytes(), all_public()).unwrap_err();
    assert!(matches!(error, KeySetError::NoKeys { .. }));
    keys.push(with(ec.jwk(), "key_ops", json!(["verify"])));
    let document = json!({ "keys": keys }).to_string();
    let set = KeySet::parse(document.as_bytes(), all_public()).unwrap();
    assert_eq!(set.keys().len(), 1);
    let errors: Vec<_> = set.rejected().iter().map(|key| key.error).collect();
    assert_eq!(errors, rows.map(|(_, error)| error));
}

#[test]
fn key_set_documents_are_limited() {
    let parse = |text: &str| KeySet::parse(text.as_bytes(), all_public()).unwrap_err();
    let key = Signer::generate(Algorithm::EdDsa).jwk();
    let many = json!({"keys": vec![key; 101]}).to_string();
    assert_eq!(parse(&many), KeySetError::TooManyKeys { count: 101 });
    let large = " ".repeat(256 * 1024 + 1);
    assert!(matches!(parse(&large), KeySetError::TooLarge { .. }));
    for text in [
        "",
        "[]",
        "{}",
        "{\"keys\":1}",
        "{\"keys\":[],\"keys\":[]}",
        "<html>",
    ] {
        assert_eq!(parse(text), KeySetError::Malformed, "{text}");
    }
    let error = KeySet::parse(b"{\"keys\":[],\"x\":\"\xff\"}", all_public()).unwrap_err();
    assert_eq!(error, KeySetError::Malformed);
}

#[test]
fn pem_keys_verify_tokens() {
    for algorithm in [
        Algorithm::Ps384,
        Algorithm::Es256,
        Algorithm::Es384,
        Algorithm::EdDsa,
    ] {
        let fixture = Fixture::new(algorithm);
        let pem = pem(&fixture.signer);
        let key = VerificationKey::from_pem(pem.as_bytes(), all_public()).unwrap();
        let keys = [Some(Arc::new(KeySet::of_one(key)))];
        let token = fixture.signer.token(&fixture.header(), &claims());
        assert!(
            fixture.verifier.verify(&token, &keys, now_ms()).is_ok(),
            "{algorithm}"
        );
        let twice = pem.repeat(2);
        assert!(VerificationKey::from_pem(twice.as_bytes(), all_public()).is_err());
        let other: AlgorithmSet = [Algorithm::Hs256].into_iter().collect();
        let error = VerificationKey::from_pem(pem.as_bytes(), other).unwrap_err();
        assert_eq!(error, KeyError::Algorithm);
    }
    for (bytes, expected) in [
        (support::signer::SHORT_RSA_KEY, KeyError::RsaSize),
        (support::signer::P521_KEY, KeyError::Curve),
        ("AAAA", KeyError::Curve),
        ("****", KeyError::Pem),
    ] {
        let pem = format!("-----BEGIN PUBLIC KEY-----\n{bytes}\n-----END PUBLIC KEY-----\n");
        let error = VerificationKey::from_pem(pem.as_bytes(), all_public()).unwrap_err();
        assert_eq!(error, expected, "{bytes}");
    }
    let error = VerificationKey::from_secret(&[7; 31]).unwrap_err();
    assert_eq!(error, KeyError::ShortSecret);
}

/// Returns the vectors of RFC 7515, 7519 and 8037.
fn vectors() -> Value {
    serde_json::from_str(include_str!("vectors.json")).unwrap()
}

#[test]
fn published_signatures_are_verified() {
    let vectors = vectors();
    let vectors = vectors["signed"].as_array().unwrap();
    assert_eq!(vectors.len(), 4);
    for vector in vectors {
        let source = &vector["source"];
        let algorithm = Algorithm::from_name(vector["algorithm"].as_str().unwrap()).unwrap();
        let set = match vector["secret"].as_str() {
            Some(secret) => {
                KeySet::of_one(VerificationKey::from_secret(&base64url(secret)).unwrap())
            }
            None => {
                let document = json!({ "keys": [vector["key"]] }).to_string();
                KeySet::parse(document.as_bytes(), all_public()).unwrap()
            }
        };
        let token = vector["token"].as_str().unwrap();
        let (message, signature) = token.rsplit_once('.').unwrap();
        let signature = base64url(signature);
        let key = set.find(None, algorithm).unwrap();
        assert!(
            key.verify(algorithm, message.as_bytes(), &signature),
            "{source}"
        );
        let changed = message.replacen('J', "K", 1);
        assert!(
            !key.verify(algorithm, changed.as_bytes(), &signature),
            "{source}"
        );
    }
}

#[test]
fn published_unsecured_token_is_rejected() {
    let fixture = Fixture::new(Algorithm::Es256);
    let token = &vectors()["unsecured"]["token"];
    assert_eq!(
        fixture.verify(token.as_str().unwrap()),
        Err(TokenError::Algorithm)
    );
}

#[test]
fn configuration_has_safe_defaults() {
    let config = auth(&[], "keys = \"discovery\"").unwrap();
    assert_eq!(config.sources, [TokenSource::Password]);
    assert!(!config.anonymous);
    assert_eq!(config.skew_ms, 30_000);
    assert_eq!(config.user_claim, ClaimPath::parse("sub").unwrap());
    let issuer = &config.issuers[0];
    let algorithms: Vec<_> = issuer.algorithms.iter().collect();
    assert_eq!(algorithms, [Algorithm::Rs256, Algorithm::Es256]);
    let KeyLocation::Discovery(url) = &issuer.keys else {
        panic!("{:?}", issuer.keys);
    };
    assert_eq!(
        url.as_str(),
        format!("{ISSUER}/.well-known/openid-configuration")
    );
}

#[test]
fn faulty_configurations_are_rejected() {
    let keys = "keys = \"discovery\"";
    let rows = [
        (&["RS256"][..], "", "needs exactly one of"),
        (
            &["RS256"],
            "keys = \"discovery\"\njwks_file = \"x\"",
            "needs exactly one of",
        ),
        (&["RS256"], "keys = \"other\"", "needs exactly one of"),
        (&["none"], keys, "unknown algorithm \"none\""),
        (&["rs256"], keys, "unknown algorithm \"rs256\""),
        (&["HS256"], keys, "mixes HS256"),
        (&["RS256"], "secret_file = \"s\"", "mixes HS256"),
        (
            &["RS256"],
            "jwks_url = \"http://id.example.com/k\"",
            "uses HTTP to another host",
        ),
        (
            &["RS256"],
            "jwks_url = \"https://a@b/k\"",
            "user information",
        ),
        (
            &["RS256"],
            "keys = \"discovery\"\nrefresh = \"5s\"",
            "refresh = \"5s\" is not",
        ),
        (
            &["RS256"],
            "keys = \"discovery\"\nmax_stale = \"90d\"",
            "max_stale = \"90d\" is not",
        ),
        (
            &["RS256"],
            "keys = \"discovery\"\nkid = \"k\"",
            "unknown field `kid`",
        ),
    ];
    for (algorithms, text, expected) in rows {
        let error = auth(algorithms, text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
    let parse = |text: &str| {
        let raw = toml::from_str(text).map_err(|error| error.to_string())?;
        AuthConfig::new(&raw).map_err(|error| error.to_string())
    };
    let issuer = "[[issuer]]\nissuer=\"https://a\"\naudience=\"weir\"\nkeys=\"discovery\"\n";
    for (text, expected) in [
        (issuer.repeat(2), "issuer \"https://a\" is configured twice"),
        (
            issuer.replace("audience=\"weir\"\n", ""),
            "issuer \"https://a\" has no audience",
        ),
        (
            issuer.replace("\"weir\"", "[]"),
            "issuer \"https://a\" has no audience",
        ),
        ("skew = \"121s\"".to_owned(), "skew = \"121s\" is not"),
        ("sources = []".to_owned(), "no token source"),
        (
            "sources = [\"query\"]".to_owned(),
            "unknown token source \"query\"",
        ),
        (
            "sources = [\"cookie:a b\"]".to_owned(),
            "unknown token source",
        ),
        (
            "sources = [\"header\", \"header\"]".to_owned(),
            "listed twice",
        ),
        (
            "user_claim = \"a b\"".to_owned(),
            "user_claim: invalid claim path",
        ),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

proptest! {
    #![proptest_config(support::property_config(300))]

    #[test]
    fn random_texts_are_never_tokens(text in "[A-Za-z0-9_.-]{0,80}", any in ".{0,40}") {
        let verifier = verifier(&[Algorithm::Es256]);
        for text in [text, any] {
            prop_assert!(verifier.verify(&text, &[None], now_ms()).is_err());
        }
    }
}
