//! Tokens and key sets that other libraries have made.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::Deserialize;
use serde_json::{Value, json};
use weir_identity::keys::{KeySet, VerificationKey};
use weir_identity::token::{TokenError, TokenVerifier};
use weir_identity::{Algorithm, ClaimPath};
use weir_lab::identity::{ForeignSigner, jose, pyjwt};

use crate::tokens::{AUDIENCE, all_public, now_ms, unless_missing, verifier};

const ISSUER: &str = "https://id.example.com";

/// Tokens and public keys, or secrets, of the algorithms of [`Algorithm::ALL`].
#[derive(Deserialize)]
struct Signed {
    tokens: Vec<String>,
    keys: Vec<Value>,
}

fn signed(signer: &ForeignSigner) -> Signed {
    let now_s = now_ms() / 1000;
    let claims = json!({"iss": ISSUER, "aud": [AUDIENCE, "other"], "sub": "anna", "iat": now_s,
        "nbf": now_s, "exp": now_s + 600, "roles": ["trader", "ärzte"]});
    let requests = Algorithm::ALL.map(|one| json!({"alg": one.name(), "claims": claims}));
    let signed: Signed = serde_json::from_str(&signer.sign(&json!(requests).to_string()).unwrap())
        .expect("the signer prints JSON");
    assert_eq!(signed.tokens.len(), requests.len());
    signed
}

/// Returns a verifier that allows one algorithm.
fn verifier_of(algorithm: Algorithm) -> TokenVerifier {
    let keys = match algorithm {
        Algorithm::Hs256 => "secret_file = \"secret\"",
        _ => "keys = \"discovery\"",
    };
    let name = algorithm.name();
    verifier(
        ISSUER,
        "sub",
        &format!("algorithms = [\"{name}\"]\n{keys}\n"),
    )
}

fn secret(key: &Value) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(key.as_str().unwrap()).unwrap()
}

/// Verifies the tokens of a signer, and rejects each of them with any byte changed and with the key
/// of any other algorithm.
fn check(signer: &ForeignSigner) {
    let Signed { tokens, keys } = signed(signer);
    let public: Vec<_> = keys.iter().filter(|key| key.is_object()).collect();
    assert_eq!(public.len(), Algorithm::ALL.len() - 1);
    let document = json!({ "keys": public }).to_string();
    let set = KeySet::parse(document.as_bytes(), all_public()).unwrap();
    assert_eq!(set.rejected(), [], "every key is usable");
    let set = Arc::new(set);
    for ((algorithm, token), key) in Algorithm::ALL.into_iter().zip(&tokens).zip(&keys) {
        let own = match algorithm {
            Algorithm::Hs256 => {
                let key = VerificationKey::from_secret(&secret(key)).unwrap();
                Arc::new(KeySet::of_one(key))
            }
            _ => Arc::clone(&set),
        };
        let verifier = verifier_of(algorithm);
        let keys = [Some(own)];
        let verified = verifier.verify(token, &keys, now_ms());
        let verified = verified.unwrap_or_else(|error| panic!("{algorithm}: {error}"));
        assert_eq!(verified.identity.user(), "anna", "{algorithm}");
        let roles = verified.claims.get(&ClaimPath::parse("roles").unwrap());
        assert_eq!(*roles.unwrap(), json!(["trader", "ärzte"]), "{algorithm}");
        reject_changes(&verifier, token, &keys);
        for other in Algorithm::ALL.into_iter().filter(|one| *one != algorithm) {
            let error = verifier_of(other)
                .verify(token, &keys, now_ms())
                .unwrap_err();
            assert_eq!(error, TokenError::Algorithm, "{algorithm} as {other}");
        }
    }
    // A signature of another token does not fit, not even one with the same key type.
    for (algorithm, pair) in Algorithm::ALL.into_iter().zip(tokens.windows(2)) {
        let (message, _) = pair[0].rsplit_once('.').unwrap();
        let (_, signature) = pair[1].rsplit_once('.').unwrap();
        let keys = [Some(Arc::clone(&set))];
        let swapped = format!("{message}.{signature}");
        assert!(
            verifier_of(algorithm)
                .verify(&swapped, &keys, now_ms())
                .is_err()
        );
    }
}

/// Changes each character that a signature covers, and those of the signature.
fn reject_changes(verifier: &TokenVerifier, token: &str, keys: &[Option<Arc<KeySet>>]) {
    // The last character of an RSA signature has bits that encode nothing; those must be zero.
    for at in 0..token.len() {
        let mut bytes = token.as_bytes().to_vec();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let changed = String::from_utf8(bytes).unwrap();
        assert!(
            verifier.verify(&changed, keys, now_ms()).is_err(),
            "{at} of {token}"
        );
    }
}

#[test]
fn tokens_of_jose_are_verified() {
    let signer = jose(&mut |_| (), &AtomicBool::new(false));
    unless_missing(signer).iter().for_each(check);
}

#[test]
fn tokens_of_pyjwt_are_verified() {
    let signer = pyjwt(&mut |_| (), &AtomicBool::new(false));
    unless_missing(signer).iter().for_each(check);
}
