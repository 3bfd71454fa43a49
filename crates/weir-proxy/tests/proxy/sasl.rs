//! SASL of a real broker passes, and with it what the broker thinks of it.

use bytes::Bytes;
use kafka_protocol::messages::alter_user_scram_credentials_request::ScramCredentialUpsertion;
use kafka_protocol::messages::describe_user_scram_credentials_request::UserName;
use kafka_protocol::messages::{
    AlterUserScramCredentialsRequest, DescribeUserScramCredentialsRequest, SaslAuthenticateRequest,
    SaslHandshakeRequest,
};
use kafka_protocol::protocol::StrBytes;

use super::foreign::{aiokafka_driver, drive_with};
use super::support::*;

/// The user that the broker knows with SCRAM.
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

/// A proxy before the listener that wants to know who asks.
fn secured(toml: &str) -> TestProxy {
    let proxy = proxy_to(&shared().secured, toml);
    // It is told nothing of brokers but that they are there.
    await_that("the proxy to be ready", || proxy.get().ready());
    proxy
}

#[test]
fn plain_is_between_client_and_broker() {
    let proxy = secured("");
    let topic = topic(&shared().lab.bootstrap(), "plain", 2, 1);
    let mut settings = settings(&proxy.bootstrap());
    settings
        .set("security.protocol", "sasl_plaintext")
        .set("sasl.mechanism", "PLAIN")
        .set("sasl.username", USER)
        .set("sasl.password", PASSWORD);
    let values = numbered("plain", 300);
    produce(&settings, &topic, &values);
    assert_eq!(consume_with(settings, &topic, 300), values);

    // Without a word about who asks nothing is told, as at the broker.
    let mut raw = Raw::connect(proxy.address);
    raw.send(&request(3, 1, 1, &0_i32.to_be_bytes()));
    assert!(raw.until_closed().is_empty());
    // With a wrong password the broker's reason comes, and its end of the connection.
    let mut raw = Raw::connect(proxy.address);
    let mechanism = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
    assert_eq!(raw.ask(1, &mechanism).error_code, 0);
    let token = Bytes::from(format!("\0{USER}\0wrong"));
    let answer = raw.ask(
        2,
        &SaslAuthenticateRequest::default().with_auth_bytes(token),
    );
    assert_eq!(answer.error_code, 58);
    let reason = answer.error_message.expect("a reason");
    assert!(
        reason.contains("Invalid username or password"),
        "{reason:?}"
    );
    assert!(raw.until_closed().is_empty());
    assert_eq!(proxy.metric("weir_proxy_client_errors_total"), 0);
    assert_eq!(proxy.metric("weir_proxy_broker_errors_total"), 0);
}

/// The older way: behind version 0 of the handshake tokens have no header.
#[test]
fn tokens_without_a_header_are_between_them_too() {
    let proxy = secured("");
    for address in [shared().secured.parse().expect("an address"), proxy.address] {
        let mut raw = Raw::connect(address);
        let mechanism = SaslHandshakeRequest::default().with_mechanism(text("PLAIN"));
        assert_eq!(raw.ask(0, &mechanism).error_code, 0);
        let token = format!("\0{USER}\0{PASSWORD}");
        raw.send(&[&(token.len() as i32).to_be_bytes()[..], token.as_bytes()].concat());
        assert_eq!(raw.receive(), b"");
        raw.send(&request(3, 1, 7, &0_i32.to_be_bytes()));
        let answer = raw.receive();
        assert_eq!(answer[..8], [0, 0, 0, 7, 0, 0, 0, 1], "one broker");
    }
}

#[test]
fn scram_is_so_too_with_tls_before_the_proxy() {
    let credential = ScramCredentialUpsertion::default()
        .with_name(text(SCRAM_USER))
        .with_mechanism(1)
        .with_iterations(ITERATIONS)
        .with_salt(Bytes::from_static(SALT))
        .with_salted_password(Bytes::from_static(&SALTED_PASSWORD));
    let alter = AlterUserScramCredentialsRequest::default().with_upsertions(vec![credential]);
    let address = shared().lab.bootstrap().parse().expect("an address");
    let mut raw = Raw::connect(address);
    let results = raw.ask(0, &alter).results;
    assert!(results.iter().all(|one| one.error_code == 0), "{results:?}");
    let name = UserName::default().with_name(text(SCRAM_USER));
    let describe = DescribeUserScramCredentialsRequest::default().with_users(Some(vec![name]));
    await_that("the broker to know the user", || {
        let answer = raw.ask(0, &describe);
        answer.results.iter().all(|user| user.error_code == 0)
    });

    let proxy = secured(&format!(
        "[cluster.tls]\ncertificate = \"{}\"\nkey = \"{}\"\n",
        fixture("server.pem").display(),
        fixture("server.key").display(),
    ));
    let topic = topic(&shared().lab.bootstrap(), "scram", 2, 1);
    let settings = serde_json::json!({
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "SCRAM-SHA-256",
        "sasl_plain_username": SCRAM_USER,
        "sasl_plain_password": PASSWORD,
        "cafile": fixture("ca.pem"),
    });
    drive_with(aiokafka_driver(), &proxy, &topic, &[&settings.to_string()]);
    assert_eq!(proxy.metric("weir_proxy_tls_failures_total"), 0);
}
