//! Logins at the proxy with bearer tokens of a real provider.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::{
    SaslAuthenticateRequest, SaslAuthenticateResponse, SaslHandshakeRequest,
};
use kafka_protocol::protocol::StrBytes;
use rdkafka::ClientContext;
use rdkafka::client::OAuthToken;
use rdkafka::producer::{BaseProducer, Producer, ProducerContext};
use serde_json::{Map, json};
use weir_lab::LabError;
use weir_lab::identity::{IdentityProvider, Issuer, IssuerFault, TokenClaims};

use super::support::*;

const AUDIENCE: &str = "kafka";

/// Returns a provider, or prints why this machine cannot run it.
fn provider() -> Option<IdentityProvider> {
    match IdentityProvider::start(&mut |_| (), &AtomicBool::new(false)) {
        Err(error @ (LabError::MissingTool { .. } | LabError::OldTool { .. })) => {
            let text = format!("\nskipped: tokens at the proxy: {error}\n");
            // The harness captures only the macros. A closed terminal is not a failure.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), text.as_bytes());
            None
        }
        provider => Some(provider.expect("a provider")),
    }
}

fn token(issuer: &Issuer<'_>, user: &str, lifetime_s: u64, more: &serde_json::Value) -> String {
    let more: Map<_, _> = more.as_object().expect("claims").clone();
    let claims = TokenClaims {
        user,
        audience: AUDIENCE,
        lifetime_s,
        more,
    };
    issuer.token(&claims).expect("a token")
}

/// Starts a proxy that accepts the tokens of an issuer.
fn accepting(issuer: &Issuer<'_>, keys: &str, more: &str) -> TestProxy {
    let url = issuer.url();
    proxy(&format!(
        "[cluster.identity]\nmechanisms = [\"OAUTHBEARER\"]\nallow_plain_text = true\n\
         failed_delay_ms = 0\n{keys}\n[cluster.identity.tokens]\ngroups_claim = \"roles\"\n\
         skew = \"0s\"\n[[cluster.identity.tokens.issuer]]\nissuer = \"{url}\"\n\
         audience = \"{AUDIENCE}\"\nkeys = \"discovery\"\n{more}"
    ))
}

fn authenticate(raw: &mut Raw, message: Vec<u8>) -> SaslAuthenticateResponse {
    let request = SaslAuthenticateRequest::default().with_auth_bytes(Bytes::from(message));
    raw.exchange(1, &request)
}

fn bearer(raw: &mut Raw, token: &str) -> SaslAuthenticateResponse {
    let mechanism = StrBytes::from_static_str("OAUTHBEARER");
    let hello = SaslHandshakeRequest::default().with_mechanism(mechanism);
    assert_eq!(raw.exchange(1, &hello).error_code, 0);
    authenticate(
        raw,
        format!("n,,\x01auth=Bearer {token}\x01\x01").into_bytes(),
    )
}

fn outcome(proxy: &TestProxy, outcome: &str) -> u64 {
    let labels = format!("cluster=\"default\",mechanism=\"OAUTHBEARER\",outcome=\"{outcome}\"");
    proxy.metric(&format!("weir_proxy_logins_total{{{labels}}}"))
}

#[test]
fn tokens_expire_and_get_challenge() {
    let Some(provider) = provider() else { return };
    let issuer = provider.issuer("ES256").expect("an issuer");
    let topic = topic(&broker(), "roles", 1, 1);
    let rule = format!(
        "[[cluster.access.rule]]\neffect = \"allow\"\nprincipals = [\"Group:trader\"]\n\
         operations = [\"read\"]\ntopics = [\"{topic}\"]\n"
    );
    let proxy = accepting(
        &issuer,
        "session_ms = 60000",
        &format!("[cluster.access]\n{rule}"),
    );
    let none = json!({});
    // The shorter one of token and configuration.
    let long = token(&issuer, "anna", 600, &json!({"roles": ["trader"]}));
    let mut raw = Raw::connect(proxy.address);
    let accepted = bearer(&mut raw, &long);
    assert_eq!(
        (accepted.error_code, accepted.session_lifetime_ms),
        (0, 60_000)
    );
    assert_eq!(super::logins::topic_errors(&mut raw, &[&topic]), [0]);
    let page = proxy.page("/connections");
    assert!(
        page.contains("\"principal\":\"User:anna\"") && !page.contains(&long),
        "{page}"
    );
    let mut raw = Raw::connect(proxy.address);
    let accepted = bearer(&mut raw, &token(&issuer, "bert", 30, &none));
    assert_eq!(accepted.error_code, 0);
    assert!(
        (1..=30_000).contains(&accepted.session_lifetime_ms),
        "{accepted:?}"
    );
    assert_eq!(super::logins::topic_errors(&mut raw, &[&topic]), [29]);

    // Another signature, another user on the same connection.
    let mut forged = long.clone();
    let last = if forged.pop() == Some('A') { 'B' } else { 'A' };
    forged.insert(forged.len() - 10, last);
    let other = token(&issuer, "carl", 600, &none);
    for (wrong, first) in [(&forged, None), (&other, Some(&long))] {
        let mut raw = Raw::connect(proxy.address);
        if let Some(first) = first {
            assert_eq!(bearer(&mut raw, first).error_code, 0);
        }
        let challenge = bearer(&mut raw, wrong);
        assert_eq!(challenge.error_code, 0);
        assert_eq!(&challenge.auth_bytes[..], br#"{"status":"invalid_token"}"#);
        let refused = authenticate(&mut raw, vec![1]);
        let text = refused.error_message.as_deref();
        assert_eq!(
            (refused.error_code, text),
            (58, Some("Authentication failed"))
        );
        assert!(raw.until_closed().is_empty());
    }
    assert_eq!(
        (outcome(&proxy, "failed"), outcome(&proxy, "accepted")),
        (2, 3)
    );

    // A new key is fetched when it is used, and an outage of the provider changes nothing.
    let key = issuer.add_key("ES256").expect("a key");
    issuer.sign_with(&key).expect("signs");
    let new = token(&issuer, "anna", 600, &none);
    await_that("the new key", || {
        let mut raw = Raw::connect(proxy.address);
        let response = bearer(&mut raw, &new);
        response.error_code == 0 && response.auth_bytes.is_empty()
    });
    issuer.set_fault(IssuerFault::Refused).expect("a fault");
    assert_eq!(
        bearer(&mut Raw::connect(proxy.address), &new)
            .auth_bytes
            .len(),
        0
    );
}

/// Gives librdkafka tokens that end soon, each a new one.
struct Tokens {
    tokens: Mutex<Vec<(String, i64)>>,
}

impl ClientContext for Tokens {
    const ENABLE_REFRESH_OAUTH_TOKEN: bool = true;

    fn generate_oauth_token(
        &self,
        _: Option<&str>,
    ) -> Result<OAuthToken, Box<dyn std::error::Error>> {
        let next = self.tokens.lock().expect("no panic").pop();
        let (token, lifetime_ms) = next.ok_or("no more tokens")?;
        Ok(OAuthToken {
            token,
            principal_name: "anna".to_owned(),
            lifetime_ms,
        })
    }
}

impl ProducerContext for Tokens {
    type DeliveryOpaque = ();

    fn delivery(&self, _: &rdkafka::message::DeliveryResult<'_>, (): ()) {}
}

#[test]
fn librdkafka_repeats_its_login_with_new_tokens_under_load() {
    let Some(provider) = provider() else { return };
    let issuer = provider.issuer("RS256").expect("an issuer");
    let proxy = accepting(&issuer, "session_ms = 2000", "");
    let topic = topic(&broker(), "tokens", 1, 1);
    let tokens = (0..5).map(|_| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let end = now.expect("after 1970") + Duration::from_secs(600);
        (
            token(&issuer, "anna", 600, &json!({})),
            end.as_millis() as i64,
        )
    });
    let tokens = Tokens {
        tokens: Mutex::new(tokens.collect()),
    };
    let mut config = client_config(&proxy.bootstrap());
    config
        .set("security.protocol", "sasl_plaintext")
        .set("sasl.mechanism", "OAUTHBEARER");
    let producer: BaseProducer<Tokens> = config.create_with_context(tokens).expect("valid");
    let mut count = 0;
    await_that("five logins", || {
        for number in count..count + 10 {
            let value = format!("token-{number:06}");
            let record = rdkafka::producer::BaseRecord::to(&topic)
                .key("k")
                .payload(&value);
            producer
                .send(record)
                .map_err(|(error, _)| error)
                .expect("queued");
        }
        count += 10;
        producer.flush(TEST_TIMEOUT).expect("stored");
        outcome(&proxy, "accepted") >= 5
    });
    assert_eq!(consume(&broker(), &topic, count).len(), count);
    assert_eq!(outcome(&proxy, "failed"), 0);
}
