//! SASL authentication with a real broker through the proxy.

use bytes::Bytes;
use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest, SaslAuthenticateRequest,
    SaslHandshakeRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::foreign::{aiokafka_driver, run_driver_with};
use super::support::*;

/// A user with SCRAM credentials.
const SCRAM_USER: &str = "scrammer";
const SALT: &[u8] = b"salt of the test";
const ITERATIONS: i32 = 4096;
/// `hashlib.pbkdf2_hmac("sha256", PASSWORD, SALT, ITERATIONS)`
const SALTED_PASSWORD: [u8; 32] = [
    0xa5, 0x9c, 0x85, 0xd5, 0x58, 0x4d, 0xe3, 0x1e, 0x8e, 0x1d, 0x80, 0x2c, 0x77, 0x5e, 0x15, 0xfe,
    0x12, 0x4c, 0x8c, 0x3e, 0xca, 0xcb, 0xb4, 0xfb, 0x8f, 0x9d, 0x6f, 0xda, 0x5c, 0xaf, 0xbe, 0x63,
];

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

/// Starts a proxy in front of the listener that requires authentication.
fn secured(toml: &str) -> TestProxy {
    let proxy = proxy_to(&shared().secured, toml);
    // The probe gets no broker list without authentication.
    await_that("the proxy to be ready", || proxy.get().is_ready());
    proxy
}

#[test]
fn plain_authentication_passes() {
    let proxy = secured("");
    let topic = topic(&shared().lab.bootstrap(), "plain", 2, 1);
    let mut client_config = client_config(&proxy.bootstrap());
    client_config
        .set("security.protocol", "sasl_plaintext")
        .set("sasl.mechanism", "PLAIN")
        .set("sasl.username", USER)
        .set("sasl.password", PASSWORD);
    let values = numbered("plain", 300);
    produce(&client_config, &topic, &values);
    assert_eq!(consume_with(client_config, &topic, 300), values);

    // Without authentication the broker closes the connection, as without a proxy.
    let mut raw = Raw::connect(proxy.address);
    raw.send(&request(3, 1, 1, &0_i32.to_be_bytes()));
    assert!(raw.until_closed().is_empty());
    // With a wrong password the client gets the broker's reason, and the broker closes.
    let mut raw = Raw::connect(proxy.address);
    let mechanism = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
    assert_eq!(raw.exchange(1, &mechanism).error_code, 0);
    let token = Bytes::from(format!("\0{USER}\0wrong"));
    let response = raw.exchange(
        2,
        &SaslAuthenticateRequest::default().with_auth_bytes(token),
    );
    assert_eq!(response.error_code, 58);
    let reason = response.error_message.expect("a reason");
    assert!(
        reason.contains("Invalid username or password"),
        "{reason:?}"
    );
    assert!(raw.until_closed().is_empty());
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
}

/// After SaslHandshake v0, tokens have no header.
#[test]
fn raw_sasl_tokens_pass() {
    let proxy = secured("");
    for address in [shared().secured.parse().expect("an address"), proxy.address] {
        let mut raw = Raw::connect(address);
        let mechanism = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
        assert_eq!(raw.exchange(0, &mechanism).error_code, 0);
        let token = format!("\0{USER}\0{PASSWORD}");
        raw.send(&[&(token.len() as i32).to_be_bytes()[..], token.as_bytes()].concat());
        assert_eq!(raw.receive(), b"");
        raw.send(&request(3, 1, 7, &0_i32.to_be_bytes()));
        let response = raw.receive();
        assert_eq!(response[..8], [0, 0, 0, 7, 0, 0, 0, 1], "one broker");
    }
}

#[test]
fn scram_passes_with_downstream_tls() {
    let credential = ScramCredentialUpsertion::default()
        .with_name(text(SCRAM_USER))
        .with_mechanism(1)
        .with_iterations(ITERATIONS)
        .with_salt(Bytes::from_static(SALT))
        .with_salted_password(Bytes::from_static(&SALTED_PASSWORD));
    let alter = AlterUserScramCredentialsRequest::default().with_upsertions(vec![credential]);
    let address = shared().lab.bootstrap().parse().expect("an address");
    let mut raw = Raw::connect(address);
    let results = raw.exchange(0, &alter).results;
    assert!(results.iter().all(|one| one.error_code == 0), "{results:?}");
    let name = UserName::default().with_name(text(SCRAM_USER));
    let describe = DescribeUserScramCredentialsRequest::default().with_users(Some(vec![name]));
    await_that("the broker to store the user", || {
        let response = raw.exchange(0, &describe);
        response.results.iter().all(|user| user.error_code == 0)
    });

    let proxy = secured(&format!(
        "[cluster.tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        fixture("server.pem").display(),
        fixture("server.key").display(),
    ));
    let topic = topic(&shared().lab.bootstrap(), "scram", 2, 1);
    let client_config = serde_json::json!({
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": SCRAM_USER,
        "sasl_plain_password": PASSWORD,
        "cafile": fixture("ca.pem"),
    });
    run_driver_with(
        aiokafka_driver(),
        &proxy,
        &topic,
        &[&client_config.to_string()],
    );
    assert_eq!(proxy.metric("weir_proxy_tls_failures_total"), 0);
}
