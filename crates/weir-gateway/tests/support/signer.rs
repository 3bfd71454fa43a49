//! A signer of tokens, with its key set document.

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;

pub(crate) const ISSUER: &str = "https://id.test";

/// A signer of tokens.
pub(crate) struct Signer {
    key: EcdsaKeyPair,
    id: &'static str,
    /// Default of the claim `exp`.
    expires_s: u64,
}

impl Signer {
    pub(crate) fn new(id: &'static str, expires_s: u64) -> Self {
        let key = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).expect("a key");
        Self { key, id, expires_s }
    }

    /// Returns a token with these claims; some are added if they are missing.
    pub(crate) fn token(&self, claims: &str) -> String {
        let mut all: serde_json::Map<_, _> = serde_json::from_str(claims).expect("claims");
        for (name, value) in [
            ("iss", ISSUER.into()),
            ("aud", "weir".into()),
            ("sub", "anna".into()),
            ("exp", self.expires_s.into()),
        ] {
            all.entry(name).or_insert(value);
        }
        let header = format!(r#"{{"alg":"ES256","kid":"{}"}}"#, self.id);
        self.signed(&header, &serde_json::to_string(&all).expect("JSON"))
    }

    /// Returns a token with exactly this header and these claims.
    pub(crate) fn signed(&self, header: &str, claims: &str) -> String {
        let signed = format!("{}.{}", BASE64.encode(header), BASE64.encode(claims));
        let signature = self.key.sign(&SystemRandom::new(), signed.as_bytes());
        format!("{signed}.{}", BASE64.encode(signature.expect("signature")))
    }
}

/// Returns the key set document of signers.
pub(crate) fn key_document(signers: &[&Signer]) -> String {
    let jwk = |signer: &&Signer| {
        let point = signer.key.public_key().as_ref();
        let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..]));
        let id = signer.id;
        format!(r#"{{"kty":"EC","crv":"P-256","kid":"{id}","x":"{x}","y":"{y}"}}"#)
    };
    let keys: Vec<_> = signers.iter().map(jwk).collect();
    format!(r#"{{"keys":[{}]}}"#, keys.join(","))
}
