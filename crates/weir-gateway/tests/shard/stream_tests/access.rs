//! Identities, item rules and session rules on the wire. Each row fails if its check is removed.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use weir_fanout::SessionKey;
use weir_identity::keys::KeySet;
use weir_identity::{Algorithm, Revocation, RevocationKey};
use weir_net::http1::{ParseLimits, Parsed, parse_request};
use weir_net::server::RequestOutcome;

use super::{TestEnv, UNIX_START_MS, conn};
use crate::config::{GatewayLimits, UnknownNames};
use crate::messages::Messages;
use crate::shard::http;
use crate::shard::wire::Wire as _;
use weir_access::{AccessChange, AccessConfig, Authenticator, RawAccess};

mod refresh;
#[path = "../../../tests/support/signer.rs"]
mod signer;

use self::signer::{ISSUER, Signer, key_document};

const AUTH: &str = r#"
[auth]
sources = ["password", "header", "cookie:weir"]
tenant_claim = "tenant"
[[auth.issuer]]
issuer = "https://id.test"
audience = "weir"
jwks_url = "http://127.0.0.1:1/keys"
"#;
const RULES: &str = r#"
[[authorize]]
name = "own"
items = ["item-[key={claims.accounts}]"]
modes = ["MERGE", "DISTINCT"]
[[authorize]]
name = "free"
items = ["item-[key=free]"]
fields = ["a"]
max_frequency = 0.5
snapshot = false
[[authorize]]
name = "embargo"
effect = "deny"
items = ["item-[key=A9]"]
"#;

/// Returns a signer whose tokens are valid on the scripted clock.
fn signer(id: &'static str) -> Signer {
    Signer::new(id, UNIX_START_MS / 1_000 + 600)
}

fn key_set(signers: &[&Signer]) -> KeySet {
    let allowed = [Algorithm::Es256].into_iter().collect();
    KeySet::parse(key_document(signers).as_bytes(), allowed).expect("a key set")
}

/// A shard that identifies its clients.
struct AccessEnv {
    env: TestEnv,
    auth: Arc<Authenticator>,
    signer: Signer,
}

impl AccessEnv {
    fn new(sections: &str) -> Self {
        Self::build(sections, GatewayLimits::default(), None)
    }

    fn build(sections: &str, limits: GatewayLimits, messages: Option<Arc<Messages>>) -> Self {
        let raw: RawAccess = toml::from_str(sections).expect("valid TOML");
        let config = AccessConfig::new(raw, ".".as_ref()).expect("valid sections");
        let auth = Arc::new(Authenticator::new(config.expect("sections"), &["Data"]));
        let signer = signer("k1");
        auth.rotate(|keys| {
            assert!(keys.start_fetch(0));
            keys.fetched(key_set(&[&signer]), None, 0);
        });
        let names = UnknownNames::default();
        let env = TestEnv::build(limits, names, Some(Arc::clone(&auth)), messages);
        Self { env, auth, signer }
    }

    fn token(&self, claims: &str) -> String {
        self.signer.token(claims)
    }

    /// Creates a session over a WebSocket, with the options and a token. Returns its first line.
    fn open(&mut self, number: u32, token: &str) -> String {
        self.ws(
            number,
            &format!("create_session\r\n{CREATE}&LS_password={token}"),
        )
        .remove(0)
    }

    /// Creates a session and returns its ID.
    fn session(&mut self, number: u32, claims: &str) -> String {
        let token = self.token(claims);
        let line = self.open(number, &token);
        assert!(line.starts_with("CONOK,"), "{line}");
        line.split(',').nth(1).expect("session ID").to_owned()
    }

    fn ws(&mut self, number: u32, text: &str) -> Vec<String> {
        self.env.ws(number, text)
    }

    fn add(&mut self, number: u32, sub_id: u32, what: &str) -> String {
        let text = format!(
            "control\r\nLS_reqId=1&LS_op=add&LS_subId={sub_id}&LS_data_adapter=Data&{what}"
        );
        let lines = self.ws(number, &text);
        lines.first().cloned().unwrap_or_default()
    }

    /// Sends an HTTP request with these header lines.
    fn http(&mut self, number: u32, head: &str, body: &str) -> Vec<String> {
        let len = body.len();
        let text = format!("{head}Host: x\r\nContent-Length: {len}\r\n\r\n{body}");
        self.env.wire.peers.entry(number).or_default();
        let limits = ParseLimits {
            head_bytes: 10_000,
            body_bytes: 10_000,
        };
        let parsed = parse_request(text.as_bytes(), limits, ([127, 0, 0, 1], 1).into());
        let Ok(Parsed::Complete(request, _)) = parsed else {
            panic!("{parsed:?}")
        };
        let (shard, wire) = (&mut self.env.shard, &mut self.env.wire);
        if let RequestOutcome::Respond(response) =
            http::respond(shard, wire, conn(number), &request)
        {
            wire.respond(conn(number), &response);
        }
        self.env.wire.lines(number)
    }

    fn create_over_http(&mut self, number: u32, headers: &str, options: &str) -> String {
        let head = format!("{POST_CREATE}{headers}");
        let mut lines = self.http(number, &head, &format!("{CREATE}{options}"));
        let line = lines.remove(0);
        match line.starts_with("CONOK") {
            true => "CONOK".to_owned(),
            false => line,
        }
    }

    fn lines(&mut self, number: u32) -> Vec<String> {
        self.env.wire.lines(number)
    }

    /// Sends a new token within a session.
    fn refresh(&mut self, number: u32, prog: u32, token: &str) -> Vec<String> {
        let text = format!(
            "msg\r\nLS_reqId=5&LS_sequence=weir_auth&LS_msg_prog={prog}&LS_message={token}"
        );
        self.ws(number, &text)
    }

    fn change(&mut self, change: AccessChange) {
        self.env.shard.access_changed(&mut self.env.wire, change);
        self.env.retry_waiting();
    }
}

const CREATE: &str = "LS_adapter_set=Set&LS_send_sync=false&LS_cid=x";
const POST_CREATE: &str =
    "POST /lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\n";
const REFUSED: &str = "CONERR,1,User or password refused";

#[test]
fn tokens_are_checked_with_constant_text() {
    let mut env = AccessEnv::new(AUTH);
    let valid = env.token("{}");
    assert!(env.open(1, &valid).starts_with("CONOK,"));
    let foreign = signer("k1").token("{}");
    let (header, rest) = valid.split_once('.').expect("parts");
    let (claims, signature) = rest.split_once('.').expect("parts");
    let none = BASE64.encode(r#"{"alg":"none","kid":"k1"}"#);
    let rows = [
        ("absent", String::new()),
        ("no token", "secret".to_owned()),
        ("other key", foreign),
        ("no algorithm", format!("{none}.{claims}.")),
        ("unsigned", format!("{header}.{claims}.")),
        (
            "critical header",
            env.signer
                .signed(r#"{"alg":"ES256","kid":"k1","crit":["exp"]}"#, "{}"),
        ),
        (
            "other claims",
            format!("{header}.{}.{signature}", BASE64.encode("{}")),
        ),
        ("expired", env.token(r#"{"exp":1800000000.0}"#)),
        ("not yet valid", env.token(r#"{"nbf":1800000900}"#)),
        ("other audience", env.token(r#"{"aud":"shop"}"#)),
        ("other issuer", env.token(r#"{"iss":"https://id.test/"}"#)),
        ("no user", env.token(r#"{"sub":""}"#)),
        ("other user", format!("{valid}&LS_user=bob")),
        ("user of other case", format!("{valid}&LS_user=Anna")),
    ];
    for (number, (name, token)) in (10..).zip(rows) {
        if name == "expired" {
            env.env.pass(40_000);
        }
        assert_eq!(env.open(number, &token), REFUSED, "{name}");
    }
    assert!(
        env.open(100, &format!("{valid}&LS_user=anna"))
            .starts_with("CONOK,")
    );
    assert!(
        env.open(101, &format!("{valid}&LS_user="))
            .starts_with("CONOK,")
    );
}

#[test]
fn first_present_source_decides() {
    let mut env = AccessEnv::new(AUTH);
    let token = env.token("{}");
    let header = format!("Authorization: Bearer {token}\r\n");
    let cookie = format!("Cookie: a=b; weir={token}\r\n");
    let bad_header = "Authorization: Bearer x.y.z\r\n".to_owned();
    let rows = [
        (String::new(), String::new(), REFUSED),
        (header.clone(), String::new(), "CONOK"),
        (cookie.clone(), String::new(), "CONOK"),
        (String::new(), format!("&LS_password={token}"), "CONOK"),
        (header.clone(), "&LS_password=bad".to_owned(), REFUSED),
        (header.clone(), "&LS_password=".to_owned(), "CONOK"),
        (format!("{bad_header}{cookie}"), String::new(), REFUSED),
        ("Cookie: other=x\r\n".to_owned(), String::new(), REFUSED),
        (header.replace("Bearer", "Basic"), String::new(), REFUSED),
    ];
    for (number, (headers, options, expected)) in (1..).zip(rows) {
        let line = env.create_over_http(number, &headers, &options);
        assert_eq!(line, expected, "row {number}");
    }
    let in_url = format!(
        "GET /lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0&{CREATE}&LS_password={token} \
         HTTP/1.1\r\n"
    );
    assert_eq!(env.http(50, &in_url, "")[0], REFUSED);
}

#[test]
fn handshake_credentials_serve_later_requests() {
    let mut env = AccessEnv::new(AUTH);
    let upgrade = |token: &str| {
        format!(
            "GET /lightstreamer HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: TLCP-2.5.0.lightstreamer.com\r\nCookie: weir={token}\r\n"
        )
    };
    let (anna, bob) = (env.token("{}"), env.token(r#"{"sub":"bob"}"#));
    env.http(1, &upgrade(&anna), "");
    let line = env.ws(1, &format!("create_session\r\n{CREATE}")).remove(0);
    let id = line.split(',').nth(1).expect("session ID").to_owned();
    // The session of another client is as good as none.
    env.http(2, &upgrade(&bob), "");
    let refused = "CONERR,20,Session not found";
    assert_eq!(
        env.ws(2, &format!("bind_session\r\nLS_session={id}")),
        [refused]
    );
    let head = format!(
        "POST /lightstreamer/control.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\nCookie: weir={bob}\r\n"
    );
    let destroy = format!("LS_session={id}&LS_reqId=1&LS_op=destroy");
    assert_eq!(
        env.http(3, &head, &destroy),
        ["REQERR,1,20,Session not found"]
    );
    let old = format!("create_session\r\n{CREATE}&LS_old_session={id}");
    assert!(env.ws(2, &old)[0].starts_with("CONOK,"));
    assert_eq!(env.env.sessions(), 2, "a foreign session is not replaced");
    // Its own client may do all of that, with or without credentials.
    env.http(4, &upgrade(&anna), "");
    assert!(env.ws(4, &format!("bind_session\r\nLS_session={id}"))[0].starts_with("CONOK,"));
    assert!(env.ws(5, &format!("bind_session\r\nLS_session={id}"))[0].starts_with("CONOK,"));
    env.http(6, &upgrade(&anna), "");
    assert!(env.ws(6, &old)[0].starts_with("CONOK,"));
    assert_eq!(env.env.sessions(), 2);
}

#[test]
fn item_rules_decide_about_canonical_names() {
    let mut env = AccessEnv::new(&format!("{AUTH}{RULES}"));
    env.session(1, r#"{"accounts":["A1","A2","A9","*","{claims.x}"]}"#);
    let denied = "REQERR,1,-2,Not authorized";
    let twice = "REQERR,1,21,";
    let rows = [
        (
            "LS_group=item-[key=A1]&LS_schema=a b&LS_mode=MERGE",
            "REQOK,1",
        ),
        (
            "LS_group=item-[key=A1] item-[key=A2]&LS_schema=a&LS_mode=MERGE",
            "REQOK,1",
        ),
        ("LS_group=item-[key=A3]&LS_schema=a&LS_mode=MERGE", denied),
        (
            "LS_group=item-[key=A1] item-[key=A3]&LS_schema=a&LS_mode=MERGE",
            denied,
        ),
        ("LS_group=item-[key=a1]&LS_schema=a&LS_mode=MERGE", denied),
        (
            "LS_group=item-[key=A1%00]&LS_schema=a&LS_mode=MERGE",
            denied,
        ),
        (
            "LS_group=item-[key=\u{410}1]&LS_schema=a&LS_mode=MERGE",
            denied,
        ),
        // Written differently: decoded once, then compared.
        (
            "LS_group=%69tem-%5Bkey=A3%5D&LS_schema=a&LS_mode=MERGE",
            denied,
        ),
        (
            "LS_group=%69tem-%5Bkey=A2%5D&LS_schema=a&LS_mode=MERGE",
            "REQOK,1",
        ),
        (
            "LS_group=item-[key=%2541]&LS_schema=a&LS_mode=MERGE",
            denied,
        ),
        (
            "LS_group=item-[key=A1,key=A3]&LS_schema=a&LS_mode=MERGE",
            twice,
        ),
        (
            "LS_group=item-[key=A1%2Ckey%3DA3]&LS_schema=a&LS_mode=MERGE",
            twice,
        ),
        (
            "LS_group=item-[key=A1]&LS_group=item-[key=A3]&LS_schema=a&LS_mode=MERGE",
            denied,
        ),
        (
            "LS_group=unknown&LS_schema=a&LS_mode=MERGE",
            "REQERR,1,21,no topic",
        ),
        // Mode, fields and unfiltered delivery count if the item itself is allowed.
        (
            "LS_group=item-[key=A1]&LS_schema=a&LS_mode=RAW",
            "REQERR,1,24,",
        ),
        ("LS_group=item-[key=A3]&LS_schema=a&LS_mode=RAW", denied),
        (
            "LS_group=item-[key=free]&LS_schema=a b&LS_mode=MERGE",
            "REQERR,1,23,",
        ),
        (
            "LS_group=item-[key=free]&LS_schema=a&LS_mode=RAW",
            "REQERR,1,26,",
        ),
        (
            "LS_group=item-[key=free]&LS_schema=a&LS_mode=MERGE\
             &LS_requested_max_frequency=unfiltered",
            "REQERR,1,26,",
        ),
        // A rule that denies wins over one that allows.
        ("LS_group=item-[key=A9]&LS_schema=a&LS_mode=MERGE", denied),
    ];
    for (sub_id, (what, expected)) in (1..).zip(rows) {
        let line = env.add(1, sub_id, what);
        assert!(line.starts_with(expected), "{what}: {line}");
    }
}

#[test]
fn rules_limit_frequency_and_snapshot() {
    let mut env = AccessEnv::new(&format!("{AUTH}{RULES}"));
    env.session(1, "{}");
    for (sub_id, wanted, granted) in [
        (1, "unlimited", "0.5"),
        (2, "3.0", "0.5"),
        (3, "0.25", "0.25"),
    ] {
        let text = format!(
            "control\r\nLS_reqId=1&LS_op=add&LS_subId={sub_id}&LS_data_adapter=Data\
             &LS_mode=DISTINCT&LS_group=item-[key=free]&LS_schema=a&LS_snapshot=true\
             &LS_requested_max_frequency={wanted}"
        );
        let lines = env.ws(1, &text);
        let conf = format!("CONF,{sub_id},{granted},filtered");
        // Without a snapshot there is no end of one.
        let expected = ["REQOK,1".to_owned(), format!("SUBOK,{sub_id},1,1"), conf];
        assert_eq!(lines, expected);
    }
    let reconf = |wanted: &str| {
        format!("control\r\nLS_reqId=1&LS_op=reconf&LS_subId=1&LS_requested_max_frequency={wanted}")
    };
    assert_eq!(
        env.ws(1, &reconf("2.0")),
        ["REQOK,1", "CONF,1,0.5,filtered"]
    );
    assert_eq!(
        env.ws(1, &reconf("unlimited")),
        ["REQOK,1", "CONF,1,0.5,filtered"]
    );
    assert_eq!(
        env.ws(1, &reconf("0.125")),
        ["REQOK,1", "CONF,1,0.125,filtered"]
    );
}

#[test]
fn anonymous_clients_need_a_rule() {
    let rules = r#"
        [[authorize]]
        name = "public"
        when = { "weir.auth" = "anonymous" }
        items = ["item-[key=free]"]
        [[session_rule]]
        name = "public"
        when = { "weir.auth" = "anonymous" }
        max_bandwidth = 64
        max_age = "1m"
        max_subscriptions = 1"#;
    let auth = AUTH.replace("[auth]", "[auth]\nanonymous = true");
    let mut env = AccessEnv::new(&format!("{auth}{rules}"));
    assert_eq!(
        env.open(1, "x.y.z"),
        REFUSED,
        "a bad token is not the same as none"
    );
    let lines = env.ws(2, &format!("create_session\r\n{CREATE}&LS_user=anna"));
    assert!(lines.contains(&"CONS,64".to_owned()), "{lines:?}");
    let constrain = "control\r\nLS_reqId=1&LS_op=constrain&LS_requested_max_bandwidth=";
    assert_eq!(
        env.ws(2, &format!("{constrain}unlimited")),
        ["REQOK,1", "CONS,64"]
    );
    assert_eq!(env.ws(2, &format!("{constrain}32")), ["REQOK,1", "CONS,32"]);
    let what = "LS_group=item-[key=free]&LS_schema=a&LS_mode=MERGE";
    assert_eq!(env.add(2, 1, what), "REQOK,1");
    assert!(env.add(2, 2, what).starts_with("REQERR,1,68,"));
    assert_eq!(
        env.ws(2, "control\r\nLS_reqId=1&LS_op=delete&LS_subId=1")[0],
        "REQOK,1"
    );
    assert_eq!(env.add(2, 3, what), "REQOK,1");
    let denied = env.add(2, 4, "LS_group=item-[key=A1]&LS_schema=a&LS_mode=MERGE");
    assert!(denied.starts_with("REQERR,1,68,"), "{denied}");
    env.session(3, "{}");
    let denied = env.add(3, 1, what);
    assert_eq!(denied, "REQERR,1,-2,Not authorized");
    env.env.pass(59_000);
    env.lines(2);
    env.env.pass(2_000);
    assert_eq!(env.lines(2), ["END,48,the session is too old"]);
    assert_eq!(env.env.sessions(), 1);
}

#[test]
fn session_ends_after_its_token() {
    let mut env = AccessEnv::new(AUTH);
    let ends: Vec<u64> = (1..=20)
        .map(|number| {
            let exp = UNIX_START_MS / 1_000 + 60;
            env.session(number, &format!(r#"{{"exp":{exp}}}"#));
            let key = SessionKey::from_bits(env.env.wire.peers[&number].tag);
            let entry = env
                .env
                .shard
                .clients
                .sessions
                .get_mut(key)
                .expect("session");
            entry.access_end_ms()
        })
        .collect();
    assert!(
        ends.iter().all(|end_ms| (90_000..91_000).contains(end_ms)),
        "{ends:?}"
    );
    assert!(
        ends.iter().any(|end_ms| *end_ms != ends[0]),
        "the ends are spread"
    );
    env.env.lose(2);
    env.env.pass(89_900);
    assert_eq!(env.env.sessions(), 19, "one was not bound again");
    env.lines(1);
    env.env.pass(1_100);
    let lines = env.lines(1);
    let end = "END,48,the session is too old";
    assert_eq!(lines.last().map(String::as_str), Some(end), "{lines:?}");
    assert_eq!(env.env.sessions(), 0);
}

/// Items of which clients of a tenant get a class of records each.
const CLASSES: &str = r#"
[[authorize]]
name = "staff"
when = { role = "staff" }
items = ["item-[*]"]
[[authorize]]
name = "tenants"
items = ["item-[*]"]
where = "VALUE.tenant = {claims.tenant}"
"#;

#[test]
fn messages_without_identities_stay_refused() {
    let mut env = TestEnv::new(GatewayLimits::default());
    env.create(1, "");
    let text = "msg\r\nLS_reqId=5&LS_sequence=weir_auth&LS_msg_prog=1&LS_message=x";
    let lines = env.ws(1, text);
    assert_eq!(
        lines[1],
        "MSGFAIL,weir_auth,1,0,this gateway takes no messages"
    );
}

#[test]
fn revocation_ends_sessions_and_rejects_tokens() {
    let mut env = AccessEnv::new(AUTH);
    let claims = r#"{"jti":"t1","iat":1799999000}"#;
    env.session(1, claims);
    env.session(2, r#"{"sub":"bob","jti":"t2"}"#);
    let token = env.token(claims);
    let revocation = Revocation {
        key: RevocationKey::Token {
            issuer: ISSUER.into(),
            jti: "t1".into(),
        },
        issued_before_ms: None,
        expires_ms: u64::MAX,
    };
    env.auth.revoke(revocation.clone()).expect("valid");
    assert_eq!(env.open(3, &token), REFUSED);
    env.change(AccessChange::Revoked(Arc::new(revocation.clone())));
    assert_eq!(env.lines(1), ["END,-10,Revoked"]);
    assert_eq!(env.env.sessions(), 1);
    assert!(env.auth.withdraw_revocation(&revocation.key));
    assert!(env.open(4, &token).starts_with("CONOK,"));
    // By time of issue; a session that has not ended yet cannot be recovered.
    let revocation = Revocation {
        key: RevocationKey::User {
            issuer: ISSUER.into(),
            user: "bob".into(),
        },
        issued_before_ms: Some(UNIX_START_MS),
        expires_ms: u64::MAX,
    };
    let id = env.session(5, r#"{"sub":"bob"}"#);
    env.env.lose(5);
    env.auth.revoke(revocation).expect("valid");
    let bind = format!("bind_session\r\nLS_session={id}&LS_recovery_from=0");
    assert_eq!(env.ws(6, &bind), ["CONERR,20,Session not found"]);
}

#[test]
fn users_and_tenants_share_limits() {
    let rules = r#"
        [[session_rule]]
        name = "trial"
        when = { plan = "trial" }
        max_sessions = 1
        end_oldest = true
        [[session_rule]]
        name = "all"
        max_sessions = 2
        per_user = { subscriptions = 2, requests_per_second = 1.0 }
        per_tenant = { sessions = 3 }"#;
    let mut env = AccessEnv::new(&format!("{AUTH}{rules}"));
    let full = "CONERR,-12,Too many sessions";
    let anna = r#"{"tenant":"acme"}"#;
    env.session(1, anna);
    env.session(2, anna);
    let token = env.token(anna);
    assert_eq!(env.open(3, &token), full);
    env.session(4, r#"{"sub":"bob","tenant":"acme"}"#);
    let carol = env.token(r#"{"sub":"carol","tenant":"acme"}"#);
    assert_eq!(env.open(5, &carol), full, "the tenant has three");
    let what = "LS_group=item-[key=x]&LS_schema=a&LS_mode=MERGE";
    assert_eq!(env.add(1, 1, what), "REQOK,1");
    assert_eq!(env.add(2, 1, what), "REQOK,1");
    assert!(env.add(2, 2, what).starts_with("REQERR,1,68,"));
    env.ws(1, "control\r\nLS_reqId=1&LS_op=destroy");
    assert_eq!(env.add(2, 3, what), "REQOK,1", "the other session is gone");
    assert!(env.open(6, &token).starts_with("CONOK,"));
    let trial = r#"{"sub":"dave","plan":"trial"}"#;
    env.session(7, trial);
    env.session(8, trial);
    assert_eq!(
        env.lines(7),
        ["END,35,Another session was opened by the same user"]
    );
    for _ in 0..20 {
        env.ws(6, "heartbeat\r\n");
        env.add(6, 9, "LS_group=unknown&LS_schema=a&LS_mode=MERGE");
    }
    let lines = env.lines(6);
    assert!(lines.is_empty(), "{lines:?}");
    assert!(env.env.wire.peers[&6].closed, "too many requests");
}

#[test]
fn session_rejected_for_tenant_replaces_none() {
    let rules = r#"
        [[session_rule]]
        name = "all"
        max_sessions = 1
        end_oldest = true
        per_tenant = { sessions = 2 }"#;
    let mut env = AccessEnv::new(&format!("{AUTH}{rules}"));
    let anna = r#"{"tenant":"acme"}"#;
    env.session(1, anna);
    env.session(2, r#"{"sub":"bob","tenant":"acme"}"#);
    let token = env.token(anna);
    for number in 3..6 {
        assert_eq!(env.open(number, &token), "CONERR,-12,Too many sessions");
    }
    assert!(env.lines(1).is_empty(), "the first session continues");
    env.ws(2, "control\r\nLS_reqId=1&LS_op=destroy");
    env.session(6, anna);
    let end = "END,35,Another session was opened by the same user";
    assert_eq!(env.lines(1), [end]);
    env.session(7, r#"{"sub":"bob","tenant":"acme"}"#);
    assert_eq!(env.env.sessions(), 2);
}

#[test]
fn too_many_claim_values_are_not_cut() {
    let mut env = AccessEnv::new(&format!("{AUTH}{RULES}"));
    let list: Vec<_> = (0..1_001).map(|n| n.to_string()).collect();
    let token = env.token(&format!(r#"{{"accounts":[{}]}}"#, list.join(",")));
    assert_eq!(env.open(1, &token), "CONERR,-11,Too many claim values");
}

#[test]
fn requests_wait_for_unknown_keys() {
    let mut env = AccessEnv::new(AUTH);
    let next = signer("k2");
    let token = next.token("{}");
    assert_eq!(env.open(1, &token), REFUSED, "the keys are recent");
    let fetch = |env: &mut AccessEnv| {
        env.auth
            .rotate(|keys| assert!(keys.start_fetch(u64::MAX / 4)));
    };
    fetch(&mut env);
    let create = format!("create_session\r\n{CREATE}&LS_password={token}");
    assert_eq!(env.ws(2, &create), [""; 0]);
    assert!(env.env.wire.peers[&2].paused);
    env.session(3, "{}");
    assert_eq!(env.refresh(3, 1, &token), ["REQOK,5"]);
    let keys = key_set(&[&env.signer, &next]);
    env.auth.rotate(|rotation| {
        rotation.fetched(keys, None, 0);
    });
    env.change(AccessChange::Keys);
    assert!(env.lines(2)[0].starts_with("CONOK,"));
    assert!(!env.env.wire.peers[&2].paused);
    assert_eq!(env.lines(3), ["MSGDONE,weir_auth,1,"]);
    // Over HTTP, with a key that does not come.
    fetch(&mut env);
    let other = signer("k3").token("{}");
    let body = format!("{CREATE}&LS_password={other}");
    assert_eq!(env.http(4, POST_CREATE, &body), [""; 0]);
    assert_eq!(env.http(5, POST_CREATE, &body), [""; 0]);
    env.env.pass(1_900);
    assert_eq!(env.lines(4), [""; 0]);
    env.env.pass(200);
    assert_eq!(
        env.lines(4),
        ["CONERR,6,Credentials cannot be checked right now"]
    );
    assert!(env.env.shard.credentials.waiting.is_empty());
}

#[test]
fn waiting_requests_are_checked_in_slices() {
    const COUNT: u32 = 60;
    let mut env = AccessEnv::new(AUTH);
    let next = signer("k2");
    let token = next.token("{}");
    env.session(90, "{}");
    env.auth
        .rotate(|keys| assert!(keys.start_fetch(u64::MAX / 4)));
    let create = format!("create_session\r\n{CREATE}&LS_password={token}");
    for number in 0..COUNT {
        assert_eq!(env.ws(number, &create), [""; 0]);
    }
    assert_eq!(env.refresh(90, 1, &token), ["REQOK,5"]);
    let shard = &mut env.env.shard;
    shard.access_changed(&mut env.env.wire, AccessChange::Keys);
    // Without the key all wait on, and a further change does not start over before the end.
    for _ in 0..2 {
        assert!(shard.retry_waiting(&mut env.env.wire));
        shard.access_changed(&mut env.env.wire, AccessChange::Keys);
    }
    assert_eq!(shard.credentials.waiting.len(), COUNT as usize);
    let keys = key_set(&[&env.signer, &next]);
    env.auth.rotate(|rotation| {
        rotation.fetched(keys, None, 0);
    });
    let (mut left, mut slices) = (COUNT as usize, Vec::new());
    while env.env.shard.retry_waiting(&mut env.env.wire) || left > 0 {
        let now = env.env.shard.credentials.waiting.len();
        slices.push(left - now);
        left = now;
    }
    assert!(slices.iter().all(|slice| *slice <= 25), "{slices:?}");
    for number in 0..COUNT {
        assert!(env.lines(number)[0].starts_with("CONOK,"));
    }
    assert_eq!(env.lines(90), ["MSGDONE,weir_auth,1,"]);
}

#[test]
fn withdrawn_key_is_rejected_at_once() {
    let mut env = AccessEnv::new(AUTH);
    let token = env.token("{}");
    assert!(env.open(1, &token).starts_with("CONOK,"));
    let next = signer("k2");
    let keys = key_set(&[&next]);
    env.auth.rotate(|rotation| {
        rotation.fetched(keys, None, 0);
    });
    env.auth.refreshed(true);
    assert_eq!(
        env.open(2, &token),
        REFUSED,
        "it is not taken from the cache"
    );
    assert!(env.open(3, &next.token("{}")).starts_with("CONOK,"));
}
