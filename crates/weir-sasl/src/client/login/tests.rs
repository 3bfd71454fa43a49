//! The dialogue of a login, with responses encoded by `kafka-protocol`.

use std::sync::Arc;

use bytes::Bytes;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{
    ApiKey, ApiVersionsResponse, RequestHeader, SaslAuthenticateRequest, SaslAuthenticateResponse,
    SaslHandshakeRequest, SaslHandshakeResponse,
};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use weir_security::{Login, ScramHash, Secret};

use super::*;
use crate::client::{ScramError, ScramUser};
use weir_wire::header::{RequestPeek, request_header_version};

fn login() -> Login {
    Login {
        username: "user".to_owned(),
        password: Secret::new("pencil"),
    }
}

fn plain() -> SaslExchange {
    SaslExchange::plain(&login())
}

/// Returns API key, API version and body of the next request.
fn sent(dialogue: &mut LoginDialogue) -> (ApiKey, i16, Bytes) {
    let mut out = BytesMut::new();
    dialogue.write(&mut out, 7, "me").expect("encodes");
    let mut frame = out.freeze().slice(4..);
    let peek = RequestPeek::read(&frame).expect("header");
    let version = request_header_version(peek.api_key, peek.api_version).expect("known");
    RequestHeader::decode(&mut frame, version).expect("header");
    let key = ApiKey::try_from(peek.api_key).expect("known");
    (key, peek.api_version, frame)
}

fn sent_token(dialogue: &mut LoginDialogue) -> Bytes {
    let (key, version, mut body) = sent(dialogue);
    assert_eq!(key, ApiKey::SaslAuthenticate);
    let request = SaslAuthenticateRequest::decode(&mut body, version).expect("body");
    request.auth_bytes
}

fn read(dialogue: &mut LoginDialogue, frame: &[u8]) -> Result<LoginProgress, LoginError> {
    dialogue.read(frame, Instant::now(), 0)
}

fn versions(latest: i16) -> BytesMut {
    let mut response = ApiVersionsResponse::default();
    let range = ApiVersion::default().with_api_key(ApiKey::SaslAuthenticate as i16);
    response.api_keys = vec![range.with_max_version(latest)];
    let mut out = BytesMut::new();
    response.encode(&mut out, 0).expect("encodes");
    out
}

fn mechanisms(code: i16) -> BytesMut {
    let mut out = BytesMut::new();
    SaslHandshakeResponse::default()
        .with_error_code(code)
        .with_mechanisms(vec![StrBytes::from_static_str("SCRAM-SHA-256")])
        .encode(&mut out, 1)
        .expect("encodes");
    out
}

fn token(version: i16, code: i16, message: &str, token: &[u8], lifetime_ms: i64) -> BytesMut {
    let mut out = BytesMut::new();
    if version == 2 {
        // No tagged fields in the header.
        out.extend_from_slice(&[0]);
    }
    let lifetime_ms = if version == 0 { 0 } else { lifetime_ms };
    SaslAuthenticateResponse::default()
        .with_error_code(code)
        .with_error_message(Some(StrBytes::from_string(message.to_owned())))
        .with_auth_bytes(Bytes::copy_from_slice(token))
        .with_session_lifetime_ms(lifetime_ms)
        .encode(&mut out, version)
        .expect("encodes");
    out
}

#[test]
fn login_uses_the_latest_version_of_the_broker() {
    for (offered, used) in [(0, 0), (1, 1), (2, 2), (9, 2)] {
        let mut dialogue = LoginDialogue::new(plain(), None);
        let (key, version, _) = sent(&mut dialogue);
        assert_eq!((key, version), (ApiKey::ApiVersions, 0));
        let progress = read(&mut dialogue, &versions(offered));
        assert_eq!(progress, Ok(LoginProgress::Continue));
        let (key, version, mut body) = sent(&mut dialogue);
        assert_eq!((key, version), (ApiKey::SaslHandshake, 1));
        let request = SaslHandshakeRequest::decode(&mut body, 1).expect("body");
        assert_eq!(request.mechanism.as_str(), "PLAIN");
        let progress = read(&mut dialogue, &mechanisms(0));
        assert_eq!(progress, Ok(LoginProgress::Continue));
        assert_eq!(sent_token(&mut dialogue), b"\0user\0pencil"[..]);
        let progress = read(&mut dialogue, &token(used, 0, "", b"", 5000));
        let Ok(LoginProgress::Complete(session)) = progress else {
            panic!("{progress:?}");
        };
        assert_eq!(session.authenticate_version, used);
        let later = Instant::now() + std::time::Duration::from_secs(6);
        assert_eq!(session.is_due(later), used > 0);
    }
}

#[test]
fn repeated_login_begins_with_handshake() {
    let session = LoginSession::new(1, 5000, Instant::now(), 0);
    let mut dialogue = LoginDialogue::new(plain(), Some(&session));
    assert_eq!(sent(&mut dialogue).0, ApiKey::SaslHandshake);
    read(&mut dialogue, &mechanisms(0)).expect("accepted");
    let (key, version, _) = sent(&mut dialogue);
    assert_eq!((key, version), (ApiKey::SaslAuthenticate, 1));
}

fn at_token(exchange: SaslExchange) -> LoginDialogue {
    let mut dialogue = LoginDialogue::new(exchange, None);
    read(&mut dialogue, &versions(1)).expect("accepted");
    read(&mut dialogue, &mechanisms(0)).expect("accepted");
    dialogue
}

#[test]
fn each_rejection_has_its_own_error() {
    let mut dialogue = LoginDialogue::new(plain(), None);
    read(&mut dialogue, &versions(1)).expect("accepted");
    let error = read(&mut dialogue, &mechanisms(33)).expect_err("unsupported");
    let text = error.to_string();
    assert!(text.starts_with("mechanism PLAIN is not enabled"), "{text}");
    assert!(text.contains("which has SCRAM-SHA-256"), "{text}");

    let mut dialogue = LoginDialogue::new(plain(), None);
    read(&mut dialogue, &versions(1)).expect("accepted");
    let error = read(&mut dialogue, &mechanisms(34));
    assert_eq!(error, Err(LoginError::SaslNotEnabled));

    let failed = token(1, 58, "invalid credentials", b"", 0);
    let error = read(&mut at_token(plain()), &failed).expect_err("rejected");
    let expected = "PLAIN login rejected: invalid credentials; check user name and password or \
                    token";
    assert_eq!(error.to_string(), expected);
    assert!(error.is_final());

    let failed = token(1, 58, "", b"", 0);
    let error = read(&mut at_token(plain()), &failed).expect_err("rejected");
    assert!(error.to_string().contains("no reason given"), "{error}");

    let failed = token(1, -1, "database\ndown", b"", 0);
    let error = read(&mut at_token(plain()), &failed).expect_err("failed");
    let expected = "SaslAuthenticate: Kafka error code -1 (database down)";
    assert_eq!(error.to_string(), expected);

    let mut old = ApiVersionsResponse::default();
    old.api_keys = vec![ApiVersion::default()];
    let mut out = BytesMut::new();
    old.encode(&mut out, 0).expect("encodes");
    let error = read(&mut LoginDialogue::new(plain(), None), &out);
    assert_eq!(error, Err(LoginError::BrokerTooOld));
}

#[test]
fn bearer_error_reaches_the_user() {
    let mut dialogue = at_token(SaslExchange::bearer(b"n,,".to_vec()));
    let error = token(1, 0, "", br#"{"status":"invalid_token"}"#, 0);
    assert_eq!(read(&mut dialogue, &error), Ok(LoginProgress::Continue));
    assert_eq!(sent_token(&mut dialogue), b"\x01"[..]);
    let failed = token(1, 58, "{\"status\":\"invalid_token\"}", b"", 0);
    let error = read(&mut dialogue, &failed).expect_err("rejected");
    assert!(
        error.to_string().contains("status invalid_token"),
        "{error}"
    );
}

#[test]
fn server_without_valid_signature_is_rejected() {
    let user = Arc::new(ScramUser::new(ScramHash::Sha256, login()));
    let exchange = SaslExchange::scram("SCRAM-SHA-256", user, "nonce".to_owned());
    let mut dialogue = at_token(exchange);
    assert_eq!(sent_token(&mut dialogue), b"n,,n=user,r=nonce"[..]);
    let first = token(1, 0, "", b"r=nonce1,s=QSXC,i=4096", 0);
    assert_eq!(read(&mut dialogue, &first), Ok(LoginProgress::Continue));
    assert!(sent_token(&mut dialogue).starts_with(b"c=biws,r=nonce1,p="));
    let error = read(&mut dialogue, &token(1, 0, "", b"v=AAAA", 0));
    let mechanism = "SCRAM-SHA-256";
    let expected = LoginError::Scram {
        mechanism,
        error: ScramError::Signature,
    };
    assert_eq!(error, Err(expected));
}

#[test]
fn login_without_versions_starts_with_handshake() {
    let mut login = LoginDialogue::without_versions(plain());
    assert_eq!(sent(&mut login).0, ApiKey::SaslHandshake);
    let handshake = read(&mut login, &mechanisms(0));
    assert_eq!(handshake.ok(), Some(LoginProgress::Continue));
    assert_eq!(&sent_token(&mut login)[..], b"\0user\0pencil");
    let Ok(LoginProgress::Complete(session)) = read(&mut login, &token(1, 0, "", b"", 5_000))
    else {
        panic!("complete");
    };
    assert_eq!(session.lifetime(), Some(std::time::Duration::from_secs(5)));
    assert_eq!(format!("{login:?}"), "LoginDialogue", "no password");
}
