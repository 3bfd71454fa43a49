//! One issuer, its verifier and its key set.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::json;
use weir_identity::config::{AuthConfig, RawAuth};
use weir_identity::keys::KeySet;
use weir_identity::token::TokenVerifier;
use weir_identity::{Algorithm, AlgorithmSet};

use super::signer::Signer;

/// Name of the issuer.
pub(crate) const ISSUER: &str = "https://id.example.com/realms/prod";

/// Returns the scripted time: Unix time in milliseconds.
pub(crate) fn now_ms() -> u64 {
    1_800_000_000_000
}

/// Parses `[auth]` with one issuer; `more` are further lines of the issuer.
pub(crate) fn auth(algorithms: &[&str], more: &str) -> Result<AuthConfig, String> {
    let listed = match algorithms {
        [] => String::new(),
        names => format!("algorithms = {names:?}\n"),
    };
    let text = format!(
        "tenant_claim = \"tenant\"\n[[issuer]]\nissuer = \"{ISSUER}\"\naudience = [\"weir\"]\n\
         {listed}{more}"
    );
    let raw: RawAuth = toml::from_str(&text).map_err(|error| error.to_string())?;
    AuthConfig::new(&raw).map_err(|error| error.to_string())
}

/// Returns the verifier of an issuer with these algorithms.
pub(crate) fn verifier(algorithms: &[Algorithm]) -> TokenVerifier {
    let names: Vec<_> = algorithms.iter().map(|one| one.name()).collect();
    let keys = match algorithms {
        [Algorithm::Hs256] => "secret_file = \"secret\"",
        _ => "jwks_url = \"https://id.example.com/keys\"",
    };
    TokenVerifier::new(&auth(&names, keys).unwrap())
}

/// Returns the key set of these signers.
pub(crate) fn key_set(signers: &[(&Signer, &str)], allowed: AlgorithmSet) -> KeySet {
    let keys = signers.iter().map(|(signer, id)| {
        let mut key = signer.jwk();
        key["kid"] = (*id).into();
        key["use"] = "sig".into();
        key
    });
    let document = json!({"keys": keys.collect::<Vec<_>>()}).to_string();
    KeySet::parse(document.as_bytes(), allowed).unwrap()
}

/// Decodes base64url.
pub(crate) fn base64url(text: &str) -> Vec<u8> {
    URL_SAFE_NO_PAD.decode(text).unwrap()
}
