//! Clients with tokens of a provider: a broker, a web server with keys, and sessions of two users.

mod support;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use support::signer::{ISSUER, Signer, key_document};
use support::{Client, TEST_TIMEOUT, TestEnv, metric, wait_metric};
use weir_gateway::Gateway;
use weir_identity::{Revocation, RevocationKey};

/// A provider's web server: answers every request with the current documents.
struct Provider {
    address: SocketAddr,
    keys: Arc<Mutex<String>>,
}

impl Provider {
    fn start(keys: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let keys = Arc::new(Mutex::new(keys));
        let served = Arc::clone(&keys);
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let mut stream = BufReader::new(stream);
                let mut line = String::new();
                while stream.read_line(&mut line).is_ok_and(|bytes| bytes > 2) {
                    line.clear();
                }
                let body = served.lock().expect("keys").clone();
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n", body.len());
                // A gateway that has ended reads nothing.
                let _ = write!(stream.get_mut(), "{head}Connection: close\r\n\r\n{body}");
            }
        });
        Self { address, keys }
    }
}

fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.expect("a time after 1970").as_secs()
}

/// Asks for a session with a token, and returns the first line.
fn create(client: &mut Client, token: &str) -> String {
    client.send(&format!(
        "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=test&LS_send_sync=false\
         &LS_reduce_head=true&LS_keepalive_millis=1000&LS_password={token}"
    ));
    client.line()
}

fn add(client: &mut Client, sub_id: u32, key: &str) -> String {
    client.send(&format!(
        "control\r\nLS_reqId={sub_id}&LS_op=add&LS_subId={sub_id}&LS_mode=MERGE\
         &LS_group=ltest-[key={key}]&LS_schema=value&LS_data_adapter=QuickStart&LS_ack=false"
    ));
    client.line()
}

fn session(gateway: &Gateway, token: &str) -> Client {
    let mut client = Client::connect(gateway);
    let line = create(&mut client, token);
    assert!(line.starts_with("CONOK,"), "{line}");
    client
}

/// Asks for unlimited bandwidth, and returns what the session gets.
fn bandwidth(client: &mut Client) -> String {
    client.send("control\r\nLS_reqId=1&LS_op=constrain&LS_requested_max_bandwidth=unlimited");
    let mut lines = std::iter::repeat_with(|| client.line());
    let found = lines.find_map(|line| Some(line.strip_prefix("CONS,")?.to_owned()));
    found.expect("endless lines")
}

#[test]
fn sessions_of_a_user_share_its_bandwidth() {
    let signer = Signer::new("k1", now_s() + 3_600);
    let env = TestEnv::new();
    env.write("keys.json", &key_document(&[&signer]));
    let toml = format!(
        r#"
        event_loops = 2
        [limits]
        recovery_ms = 100
        [auth]
        [[auth.issuer]]
        issuer = "{ISSUER}"
        audience = "weir"
        jwks_file = "keys.json"
        [[session_rule]]
        name = "all"
        per_user = {{ bandwidth = 96 }}
        "#
    );
    let gateway = env.ready(env.config_with(&toml, |xml| xml));
    let open = |user: &str| {
        let token = signer.token(&format!(r#"{{"sub":"{user}"}}"#));
        Client::create_with(&gateway, &format!("&LS_password={token}")).expect("a session")
    };
    let mut sessions: Vec<_> = (0..8).map(|_| open("anna")).collect();
    for session in &mut sessions {
        assert_eq!(bandwidth(session), "12");
    }
    assert_eq!(bandwidth(&mut open("bob")), "96", "bob has his own");
    // When sessions end, the others get more.
    sessions.truncate(2);
    wait_metric(&gateway, "weir_gateway_sessions", |count| count == 2);
    for session in &mut sessions {
        assert_eq!(bandwidth(session), "48");
    }
}

#[test]
fn tokens_of_provider_select_records() {
    let signer = Signer::new("k1", now_s() + 3_600);
    let provider = Provider::start(key_document(&[&signer]));
    let env = TestEnv::new();
    let toml = format!(
        r#"
        [auth]
        [[auth.issuer]]
        issuer = "{ISSUER}"
        audience = "weir"
        jwks_url = "http://{}/keys"
        [[authorize]]
        name = "own"
        items = ["ltest-[key={{claims.accounts}}]"]
        [audit]
        path = "audit.log"
        "#,
        provider.address
    );
    let gateway = env.ready(env.config_with(&toml, |xml| xml));
    let anna_token = signer.token(r#"{"accounts":["A1","A2"]}"#);
    let mut anna = session(&gateway, &anna_token);
    let mut bob = session(&gateway, &signer.token(r#"{"sub":"bob","accounts":"B1"}"#));
    assert_eq!(add(&mut anna, 1, "A1"), "SUBOK,1,1,1");
    assert_eq!(add(&mut bob, 1, "B1"), "SUBOK,1,1,1");
    for client in [&mut anna, &mut bob] {
        assert_eq!(client.line(), "CONF,1,unlimited,filtered");
    }
    assert_eq!(add(&mut bob, 2, "A1"), "REQERR,2,-2,Not authorized");
    env.produce("A1", "for anna");
    env.produce("B1", "for bob");
    assert_eq!(anna.line(), "U,1,1,for anna");
    assert_eq!(bob.line(), "U,1,1,for bob");

    // A session cannot be replaced by a client of another user.
    let mut victim = Client::connect(&gateway);
    let line = create(&mut victim, &anna_token);
    let id = line.split(',').nth(1).expect("a session ID").to_owned();
    let bob_token = signer.token(r#"{"sub":"bob","accounts":"B1"}"#);
    let replacing = format!("{bob_token}&LS_old_session={id}");
    let line = create(&mut Client::connect(&gateway), &replacing);
    assert!(line.starts_with("CONOK,"), "{line}");
    assert_eq!(add(&mut victim, 1, "A2"), "SUBOK,1,1,1");

    let refused = "CONERR,1,User or password refused";
    for token in ["", "x.y.z", &Signer::new("k1", now_s() + 60).token("{}")] {
        let line = create(&mut Client::connect(&gateway), token);
        assert_eq!(line, refused);
    }
    // A key that the provider has not published is rejected without a fetch.
    let next = Signer::new("k2", now_s() + 3_600);
    let before = metric(&gateway, "weir_gateway_jwks_refreshes_total");
    assert_eq!(
        create(&mut Client::connect(&gateway), &next.token("{}")),
        refused
    );
    assert_eq!(
        metric(&gateway, "weir_gateway_jwks_refreshes_total"),
        before
    );
    *provider.keys.lock().expect("keys") = key_document(&[&signer, &next]);

    let revocation = Revocation {
        key: RevocationKey::User {
            issuer: ISSUER.into(),
            user: "bob".into(),
        },
        issued_before_ms: Some(now_s() * 1_000),
        expires_ms: u64::MAX,
    };
    let began = Instant::now();
    gateway.revoke(revocation).expect("a valid entry");
    assert_eq!(bob.line(), "END,-10,Revoked");
    assert!(began.elapsed() < TEST_TIMEOUT);
    let token = signer.token(r#"{"sub":"bob"}"#);
    assert_eq!(create(&mut Client::connect(&gateway), &token), refused);
    env.produce("A1", "still there");
    assert_eq!(anna.line(), "U,1,1,still there");
    assert_eq!(metric(&gateway, "weir_gateway_revocations"), 1);
    let stolen = anna_token.rsplit_once('.').expect("a signature");
    assert!(gateway.shut_down().is_empty());
    let audit = std::fs::read_to_string(env.path("audit.log")).expect("the audit log");
    for part in [stolen.0.split_once('.').expect("claims").1, stolen.1] {
        assert!(!audit.contains(part), "the log has a part of a token");
    }
    for (event, outcome, detail) in [
        ("create", "allow", r#""user":"anna""#),
        ("create", "deny", r#""reason":"signature""#),
        ("create", "deny", r#""reason":"revoked""#),
        ("subscribe", "allow", "ltest-[key=A1]"),
        ("subscribe", "deny", r#""code":-2"#),
        ("revoke", "allow", r#""user":"bob""#),
        ("end", "deny", r#""reason":"foreign_session""#),
    ] {
        let start = format!(r#""event":"{event}","outcome":"{outcome}""#);
        let found = audit
            .lines()
            .any(|line| line.contains(&start) && line.contains(detail));
        assert!(found, "{event} {outcome} {detail}: {audit}");
    }
}
