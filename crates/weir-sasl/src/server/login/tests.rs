use bytes::BytesMut;
use kafka_protocol::protocol::Request;
use weir_security::{Login, ScramHash, Secret};
use weir_wire::header::write_request;
use weir_wire::login as wire;

use super::*;
use crate::client::SaslExchange;
use crate::users::Credential;

const HASH: ScramHash = ScramHash::Sha256;
const ALL: [Mechanism; 3] = [
    Mechanism::Plain,
    Mechanism::Scram(HASH),
    Mechanism::OAuthBearer,
];

fn users() -> Users {
    let credential = Credential::derive(HASH, &Secret::new("pencil"), vec![1; 8], 4096);
    Users::parse(&format!("user:SCRAM-SHA-256:{credential}"), b"").expect("valid")
}

fn env(users: &Users, now_ms: u64) -> LoginEnv<'_> {
    LoginEnv {
        mechanisms: &ALL,
        users,
        nonce: "server-nonce",
        now_ms,
    }
}

fn frame(version: i16, body: &impl Request) -> BytesMut {
    let mut out = BytesMut::new();
    write_request(&mut out, version, 7, "me", body).expect("encodes");
    out
}

/// A login with the time of its requests.
struct Client {
    login: ServerLogin,
    users: Users,
    now_ms: u64,
}

impl Client {
    fn new() -> Self {
        Self {
            login: ServerLogin::default(),
            users: users(),
            now_ms: 0,
        }
    }

    fn handshake(&mut self, version: i16, mechanism: &'static str) -> LoginResponse {
        let frame = frame(version, &wire::handshake(mechanism));
        assert_eq!(self.login.admit(HANDSHAKE, true), Admission::Login);
        let env = env(&self.users, self.now_ms);
        self.login.request(&frame, &env).expect("valid")
    }

    fn token(&mut self, message: &[u8]) -> LoginResponse {
        let frame = frame(1, &wire::authenticate(message.to_vec()));
        assert_eq!(self.login.admit(AUTHENTICATE, true), Admission::Login);
        let env = env(&self.users, self.now_ms);
        self.login.request(&frame, &env).expect("valid")
    }

    /// Logs in with PLAIN and this lifetime.
    fn plain(&mut self, lifetime_ms: Option<u64>) -> i64 {
        assert_eq!(handshake_error(&self.handshake(1, "PLAIN")), 0);
        let check = self.token(b"\0user\0pencil");
        assert!(matches!(
            check,
            LoginResponse::Check(Check::Password { .. })
        ));
        assert!(self.login.is_waiting());
        let frame = self.login.accept(lifetime_ms);
        let response = wire::read_authenticate(&frame[8..], 1).expect("valid");
        assert_eq!((response.error, response.token), (0, &b""[..]));
        assert!(self.login.is_logged_in());
        response.lifetime_ms
    }
}

fn handshake_error(reply: &LoginResponse) -> i16 {
    let frame = match reply {
        LoginResponse::Send(frame) => frame,
        LoginResponse::Failed { frame, .. } => frame.as_ref().expect("a response"),
        other => panic!("{other:?}"),
    };
    wire::read_handshake(&frame[8..]).expect("valid").error
}

/// Returns error code, text and reason of a failed token.
fn failure(reply: &LoginResponse) -> (i16, String, FailureReason) {
    let LoginResponse::Failed {
        frame: Some(frame),
        reason,
    } = reply
    else {
        panic!("{reply:?}");
    };
    let response = wire::read_authenticate(&frame[8..], 1).expect("valid");
    let text = response.message.expect("a text").to_owned();
    (response.error, text, *reason)
}

#[test]
fn only_versions_and_handshake_are_allowed_before_login() {
    let mut login = ServerLogin::default();
    assert_eq!(login.admit(API_VERSIONS, false), Admission::Other);
    assert_eq!(login.admit(API_VERSIONS, true), Admission::Other);
    assert_eq!(
        login.admit(API_VERSIONS, true),
        Admission::Violation,
        "once"
    );
    assert_eq!(login.admit(3, true), Admission::Violation);
    let mut early = Client::new();
    let reply = early.token(b"\0user\0pencil");
    let reason = FailureReason::Order;
    assert_eq!(
        reply,
        LoginResponse::Failed {
            frame: None,
            reason
        }
    );
    assert!(early.login.has_failed());
    assert_eq!(early.login.admit(HANDSHAKE, true), Admission::Violation);
}

#[test]
fn unknown_mechanism_gets_the_list_and_ends() {
    let mut client = Client::new();
    let reply = client.handshake(1, "SCRAM-SHA-512");
    assert_eq!(handshake_error(&reply), 33);
    let LoginResponse::Failed { frame, reason } = reply else {
        panic!("{reply:?}");
    };
    assert_eq!(reason, FailureReason::Mechanism);
    let response = wire::read_handshake(&frame.expect("a response")[8..]).expect("valid");
    assert_eq!(
        response.mechanisms,
        ["PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"]
    );
}

#[test]
fn wrong_passwords_get_58_with_one_text() {
    let mut client = Client::new();
    client.handshake(1, "PLAIN");
    client.token(b"\0user\0pen");
    let reply = client.login.reject(FailureReason::Credentials);
    let failed = |reason| (58, "Authentication failed".to_owned(), reason);
    assert_eq!(failure(&reply), failed(FailureReason::Credentials));
    let mut client = Client::new();
    client.handshake(1, "PLAIN");
    assert_eq!(
        failure(&client.token(b"x")),
        failed(FailureReason::Malformed)
    );
    let mut client = Client::new();
    client.handshake(1, "SCRAM-SHA-256");
    assert!(matches!(
        client.token(b"n,,n=unknown,r=x"),
        LoginResponse::Send(_)
    ));
    let proof = [b"c=biws,r=xserver-nonce,p=".as_slice(), &[b'A'; 43], b"="].concat();
    assert_eq!(
        failure(&client.token(&proof)),
        failed(FailureReason::Credentials)
    );
}

#[test]
fn scram_completes_with_the_signature() {
    let login = Login {
        username: "user".to_owned(),
        password: Secret::new("pencil"),
    };
    let user = std::sync::Arc::new(crate::client::ScramUser::new(HASH, login));
    let mut exchange = SaslExchange::scram(HASH.mechanism(), user, "nonce".to_owned());
    let mut client = Client::new();
    client.handshake(1, "SCRAM-SHA-256");
    let LoginResponse::Send(first) = client.token(&exchange.take_first()) else {
        panic!("no challenge");
    };
    let challenge = wire::read_authenticate(&first[8..], 1)
        .expect("valid")
        .token;
    let proof = exchange
        .respond(challenge)
        .expect("valid")
        .expect("a proof");
    assert_eq!(client.token(&proof), LoginResponse::User("user".to_owned()));
    let last = client.login.accept(None);
    let signature = wire::read_authenticate(&last[8..], 1).expect("valid").token;
    assert_eq!(exchange.respond(signature), Ok(None));
}

#[test]
fn rejected_token_is_acknowledged_before_58() {
    let mut client = Client::new();
    client.handshake(1, "OAUTHBEARER");
    let check = client.token(b"n,,\x01auth=Bearer abc\x01\x01");
    assert!(matches!(
        check,
        LoginResponse::Check(Check::Token { user: None, .. })
    ));
    let LoginResponse::Send(frame) = client.login.reject(FailureReason::Credentials) else {
        panic!("no challenge");
    };
    let challenge = wire::read_authenticate(&frame[8..], 1).expect("valid");
    assert_eq!((challenge.error, challenge.token), (0, bearer::REJECTION));
    assert_eq!(failure(&client.token(b"\x01")).0, 58);
}

#[test]
fn raw_tokens_follow_an_old_handshake() {
    let mut client = Client::new();
    assert!(!client.login.expects_raw_token());
    assert_eq!(handshake_error(&client.handshake(0, "PLAIN")), 0);
    assert!(client.login.expects_raw_token());
    let env = env(&client.users, 0);
    let reply = client.login.raw_token(b"\0user\0pencil", &env);
    assert!(matches!(reply, LoginResponse::Check(_)));
    assert_eq!(client.login.accept(Some(5_000)), [0, 0, 0, 0]);
    assert!(!client.login.expects_raw_token());
    let mut client = Client::new();
    client.handshake(0, "PLAIN");
    let env = self::env(&client.users, 0);
    client.login.raw_token(b"\0user\0pencil", &env);
    let reason = FailureReason::Credentials;
    let closed = LoginResponse::Failed {
        frame: None,
        reason,
    };
    assert_eq!(client.login.reject(reason), closed);
}

#[test]
fn login_repeats_need_lifetime_and_interval() {
    let mut client = Client::new();
    assert_eq!(client.plain(None), 0);
    assert_eq!(handshake_error(&client.handshake(1, "PLAIN")), 34);
    assert_eq!(client.login.admit(3, true), Admission::Other, "still open");
    let mut client = Client::new();
    assert_eq!(client.plain(Some(0)), 1);
    client.now_ms = 10;
    assert_eq!(
        client.plain(Some(4_000)),
        4_000,
        "the first repetition is at any time"
    );
    client.now_ms = 1_009;
    assert_eq!(handshake_error(&client.handshake(1, "PLAIN")), 34);
    client.now_ms = 1_010;
    assert_eq!(client.plain(Some(4_000)), 4_000);
    let LoginResponse::Send(frame) = client.token(b"x") else {
        panic!("closed");
    };
    assert_eq!(
        wire::read_authenticate(&frame[8..], 1)
            .expect("valid")
            .error,
        34
    );
}

#[test]
fn repeated_login_with_other_mechanism_or_requests_fails() {
    let mut client = Client::new();
    client.plain(Some(4_000));
    assert!(client.login.is_repeated());
    assert_eq!(handshake_error(&client.handshake(1, "SCRAM-SHA-256")), 0);
    let reply = client.token(b"n,,n=user,r=x");
    assert_eq!(failure(&reply).2, FailureReason::Changed);
    let mut client = Client::new();
    client.plain(Some(4_000));
    client.handshake(1, "PLAIN");
    assert_eq!(client.login.admit(3, true), Admission::Violation);
    assert_eq!(handshake_error(&client.handshake(1, "PLAIN")), 34);
    assert!(client.login.has_failed());
}
