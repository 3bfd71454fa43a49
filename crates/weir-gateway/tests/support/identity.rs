//! An identity provider, and gateways that accept its tokens.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use weir_gateway::{Gateway, GatewayConfig};
use weir_lab::LabError;
use weir_lab::identity::{IdentityProvider, Issuer, TokenClaims};

use super::{Client, TestEnv, skipped};

/// Returns a new issuer of the provider that all tests share, or prints why there is none.
pub fn issuer() -> Option<Issuer<'static>> {
    static PROVIDER: OnceLock<Option<IdentityProvider>> = OnceLock::new();
    let provider = PROVIDER.get_or_init(|| {
        match IdentityProvider::start(&mut |_| (), &AtomicBool::new(false)) {
            Err(error @ (LabError::MissingTool { .. } | LabError::OldTool { .. })) => {
                skipped(&error.to_string());
                None
            }
            started => Some(started.expect("an identity provider")),
        }
    });
    let provider = provider.as_ref()?;
    Some(provider.issuer("ES256").expect("an issuer"))
}

/// Returns an access token of the user anna.
pub fn token(issuer: &Issuer<'_>, claims: Value) -> String {
    token_of(issuer, "anna", claims)
}

/// Returns an access token of a user.
pub fn token_of(issuer: &Issuer<'_>, user: &str, claims: Value) -> String {
    let Value::Object(more) = claims else {
        panic!("{claims} is not an object");
    };
    let claims = TokenClaims {
        user,
        audience: "weir",
        lifetime_s: 3_600,
        more,
    };
    issuer.token(&claims).expect("a token")
}

/// Returns a configuration with one issuer. `keys` is the line with the place of its keys.
pub fn config(env: &TestEnv, issuer: &str, keys: &str, rules: &str) -> GatewayConfig {
    let toml = format!(
        "[auth]\n[[auth.issuer]]\nissuer = \"{issuer}\"\naudience = \"weir\"\n{keys}\n\
         algorithms = [\"ES256\", \"RS256\"]\n{rules}"
    );
    env.config_with(&toml, |xml| xml)
}

/// Makes the gateway fetch keys several times a second.
pub fn fetch_often(config: &mut GatewayConfig) {
    let access = config.access.as_mut().expect("there is [auth]");
    let rotation = &mut access.auth.issuers[0].rotation;
    rotation.refresh_ms = 300;
    rotation.distance_ms = 200;
}

/// Creates a session with a token as its password. Fails with the line that refuses it.
pub fn create(gateway: &Gateway, token: &str) -> Result<Client, String> {
    Client::create_with(gateway, &format!("&LS_password={token}"))
}

/// Returns a token with the ID of a key that no issuer has. Its signature is not looked at.
pub fn with_key_id(token: &str, id: &str) -> String {
    let (_, rest) = token.split_once('.').expect("three parts");
    let header = json!({"alg": "ES256", "kid": id}).to_string();
    format!("{}.{rest}", URL_SAFE_NO_PAD.encode(header))
}

/// Number of keys of all issuers.
pub const KEYS: &str = "weir_gateway_jwks_keys";
/// Number of attempts to fetch keys.
pub const REFRESHES: &str = "weir_gateway_jwks_refreshes_total";
