//! Attacks on identities and rules, with a real broker: what clients try to get records of others,
//! and where a token may be seen.

mod support;

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use support::classes::Classes;
use support::http::{create_by_poll_with, post};
use support::signer::{ISSUER, Signer};
use support::{Client, TEST_TIMEOUT, http};
use weir_gateway::Gateway;
use weir_identity::{Revocation, RevocationKey};

const REFUSED: &str = "CONERR,1,User or password refused";
const CREATE: &str = "LS_adapter_set=KafkaConnector&LS_cid=test&LS_polling=true\
                      &LS_polling_millis=0&LS_idle_millis=0";
const OPERATOR: &str = "operators-0123456789-0123456789-0123456789";
const FIELDS: &[(&str, &str)] = &[
    ("record.key.evaluator.type", "JSON"),
    ("item-template.own", "own-#{id=KEY.id}"),
    ("fields.auto.command.mode.enable", "false"),
    ("field.key", "#{KEY.id}"),
    ("field.command", "#{VALUE}"),
];
/// Rows of a shared item by tenant, and an item for each row.
const RULES: &str = r#"
[[authorize]]
name = "rows"
items = ["rows"]
where = "KEY.tenant = {claims.tenant}"
[[authorize]]
name = "details"
items = ["own-[id={claims.ids}]"]
"#;
const ANY: &str = "[[authorize]]\nname = \"all\"\nitems = [\"*\"]\n";

/// Sends a request with these header lines, and returns the first line of the response's body.
fn first_line(address: SocketAddr, request: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n\
         {headers}\r\n{body}"
    );
    let (head, body) = http(address, &text);
    let chunked = head.to_ascii_lowercase().contains("chunked");
    let mut lines = body.lines().skip(usize::from(chunked));
    lines.next().unwrap_or_default().to_owned()
}

fn post_create(address: SocketAddr, headers: &str, more: &str) -> String {
    let request = "POST /lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0";
    first_line(address, request, headers, &format!("{CREATE}{more}"))
}

#[test]
fn keys_named_by_tokens_cause_no_connection() {
    let classes = Classes::new();
    let gateway = classes.start(ANY, "rows", FIELDS);
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.set_nonblocking(true).expect("a socket");
    let url = format!("http://{}/keys", listener.local_addr().expect("an address"));
    let forger = Signer::new("k1", 4_102_444_800);
    let own = support::signer::key_document(&[&forger]);
    let claims = format!(r#"{{"iss":"{ISSUER}","aud":"weir","sub":"anna","exp":4102444800}}"#);
    let elsewhere = claims.replace(ISSUER, &url);
    let jwk = own
        .trim_start_matches(r#"{"keys":["#)
        .trim_end_matches("]}");
    for (header, claims) in [
        (
            format!(r#"{{"alg":"ES256","kid":"k1","jku":"{url}"}}"#),
            &claims,
        ),
        (
            format!(r#"{{"alg":"ES256","kid":"k2","jku":"{url}"}}"#),
            &claims,
        ),
        (format!(r#"{{"alg":"ES256","kid":"{url}"}}"#), &claims),
        (format!(r#"{{"alg":"ES256","x5u":"{url}"}}"#), &claims),
        (format!(r#"{{"alg":"ES256","jwk":{jwk}}}"#), &claims),
        (r#"{"alg":"ES256","kid":"k1"}"#.to_owned(), &elsewhere),
    ] {
        let token = forger.signed(&header, claims);
        let line = Client::create_with(&gateway, &format!("&LS_password={token}")).err();
        assert_eq!(line.as_deref(), Some(REFUSED), "{header} {claims}");
    }
    // The right key still serves, whatever else the header says.
    let header = format!(r#"{{"alg":"ES256","kid":"k1","jku":"{url}","x5u":"{url}"}}"#);
    let token = classes.signer.signed(&header, &claims);
    Client::create_with(&gateway, &format!("&LS_password={token}")).expect("a session");
    gateway.shut_down();
    let error = listener.accept().expect_err("no connection");
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
}

#[test]
fn cookie_on_foreign_page_opens_no_session() {
    let classes = Classes::new();
    let sections = format!("allowed_origins = [\"https://app.example\"]\n{ANY}");
    let sources = "[auth]\nsources = [\"cookie:weir\"]\n";
    let toml = format!("{sections}{sources}");
    let gateway = classes.start_with_auth(&toml, "rows", FIELDS);
    let address = gateway.listen_address();
    let token = classes.token("{}");
    for (origin, is_own) in [
        ("https://app.example", true),
        ("https://evil.example", false),
        ("https://app.example.evil.example", false),
        ("null", false),
    ] {
        let headers = format!("Origin: {origin}\r\nCookie: weir={token}\r\n");
        let line = post_create(address, &headers, "");
        assert_eq!(line.starts_with("CONOK,"), is_own, "{origin}: {line}");
        let upgrade = format!(
            "GET /lightstreamer HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n\
             Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: TLCP-2.5.0.lightstreamer.com\r\n{headers}\r\n"
        );
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream
            .set_read_timeout(Some(TEST_TIMEOUT))
            .expect("a timeout");
        stream.write_all(upgrade.as_bytes()).expect("a request");
        let mut status = String::new();
        BufReader::new(stream)
            .read_line(&mut status)
            .expect("a response");
        let expected = if is_own {
            "HTTP/1.1 101"
        } else {
            "HTTP/1.1 403"
        };
        assert!(status.starts_with(expected), "{origin}: {status}");
    }
    gateway.shut_down();
}

#[test]
fn guessing_is_limited_per_address() {
    let classes = Classes::new();
    let toml = format!("[limits.per_address]\nsessions_per_second = 1.0\n{ANY}");
    let gateway = classes.start(&toml, "rows", FIELDS);
    let lines: Vec<_> = (0..40)
        .map(|number| {
            post_create(
                gateway.listen_address(),
                "",
                &format!("&LS_password={number}"),
            )
        })
        .collect();
    let refused = lines.iter().filter(|line| *line == REFUSED).count();
    let delayed = lines
        .iter()
        .filter(|line| line.starts_with("CONERR,6,"))
        .count();
    assert!(refused > 0 && refused < 30, "{lines:?}");
    assert_eq!(refused + delayed, lines.len(), "{lines:?}");
    gateway.shut_down();
}

/// Sends control requests over a WebSocket or over HTTP.
enum Route {
    WebSocket(Box<Client>),
    Http(SocketAddr, String),
}

impl Route {
    fn both(gateway: &Gateway, token: &str) -> [Self; 2] {
        let own = format!("&LS_password={token}");
        let client = Client::create_with(gateway, &own).expect("a session");
        let address = gateway.listen_address();
        [
            Self::WebSocket(Box::new(client)),
            Self::Http(address, create_by_poll_with(address, &own)),
        ]
    }

    /// Returns the response to a control request.
    fn control(&mut self, request: &str) -> String {
        match self {
            Self::WebSocket(client) => {
                client.send(&format!("control\r\nLS_reqId=1&{request}"));
                loop {
                    let line = client.line();
                    if line.starts_with("REQ") {
                        return line;
                    }
                }
            }
            Self::Http(address, id) => {
                let body = format!("LS_session={id}&LS_reqId=1&{request}");
                post(*address, "control", &body).1.remove(0)
            }
        }
    }
}

#[test]
fn second_level_items_are_checked_each() {
    let classes = Classes::new();
    let gateway = classes.start(RULES, "rows,item-template.own", FIELDS);
    let anna = classes.token(r#"{"tenant":"acme","ids":["1","2"]}"#);
    let other = classes.token(r#"{"ids":"1"}"#);
    let denied = "REQERR,1,-2,Not authorized";
    let rows = "LS_op=add&LS_mode=COMMAND&LS_group=rows&LS_schema=key%20command\
                &LS_data_adapter=QuickStart&LS_snapshot=true";
    for (mut route, mut other) in Route::both(&gateway, &anna)
        .into_iter()
        .zip(Route::both(&gateway, &other))
    {
        assert_eq!(route.control(&format!("{rows}&LS_subId=1")), "REQOK,1");
        assert_eq!(other.control(&format!("{rows}&LS_subId=1")), denied);
        // As SDKs do it: an item per row, in mode MERGE, added and deleted with the row.
        for (sub, (group, response)) in (2..).zip([
            ("own-[id=1]", "REQOK,1"),
            ("own-[id=2]", "REQOK,1"),
            ("own-[id=3]", denied),
            ("own-[id=1]%20own-[id=3]", denied),
            ("own-[id=*]", denied),
            ("%6Fwn-%5Bid=3%5D", denied),
            ("own-[id=%2533]", denied),
        ]) {
            let group = group.replace("id=", "id%3D");
            let add = format!(
                "LS_op=add&LS_mode=MERGE&LS_subId={sub}&LS_group={group}&LS_schema=command\
                 &LS_data_adapter=QuickStart&LS_snapshot=true"
            );
            assert_eq!(route.control(&add), response, "{group}");
        }
    }
    gateway.shut_down();
}

#[test]
fn recovery_is_for_the_same_valid_client() {
    let classes = Classes::new();
    let toml = format!("{RULES}[auth]\nsources = [\"password\", \"header\"]\n");
    let gateway = classes.start_with_auth(&toml, "rows,item-template.own", FIELDS);
    let address = gateway.listen_address();
    let tenant = |user: &str, tenant: &str| {
        classes.token(&format!(r#"{{"sub":"{user}","tenant":"{tenant}"}}"#))
    };
    let (anna, bob) = (tenant("anna", "acme"), tenant("bob", "zeta"));
    let id = create_by_poll_with(address, &format!("&LS_password={anna}"));
    let add = format!(
        "LS_session={id}&LS_reqId=1&LS_op=add&LS_subId=1&LS_mode=COMMAND&LS_group=rows\
         &LS_schema=key%20command&LS_data_adapter=QuickStart"
    );
    assert_eq!(post(address, "control", &add).1, ["REQOK,1"]);
    classes.row("acme", "a", Some("ADD"));
    classes.row("zeta", "z", Some("ADD"));
    classes.row("acme", "b", Some("ADD"));
    let bind = |token: &str| {
        let headers = format!("Authorization: Bearer {token}\r\n");
        let body = format!(
            "LS_session={id}&LS_recovery_from=0&LS_polling=true&LS_polling_millis=0\
             &LS_idle_millis=2000"
        );
        let length = body.len();
        let text = format!(
            "POST /lightstreamer/bind_session.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\n\
             Host: localhost\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n\
             {body}"
        );
        http(address, &text).1
    };
    let stolen = bind(&bob);
    assert!(stolen.contains("CONERR,20,"), "{stolen}");
    // Every recovery from the start repeats the same lines of the own class.
    for _ in 0..2 {
        let mut lines = bind(&anna);
        while !lines.contains("U,1,1,b") && !lines.contains("U,1,1,b||") {
            lines = bind(&anna);
        }
        assert!(
            lines.contains("PROG,0") && lines.contains("U,1,1,a|ADD"),
            "{lines}"
        );
        assert!(!lines.contains("z|"), "{lines}");
    }
    let revocation = Revocation {
        key: RevocationKey::User {
            issuer: ISSUER.into(),
            user: "anna".into(),
        },
        issued_before_ms: Some(u64::MAX / 2),
        expires_ms: u64::MAX,
    };
    gateway.revoke(revocation).expect("a valid entry");
    let revoked = bind("none");
    assert!(
        revoked.contains("CONERR,20,") || revoked.contains("END,-10,"),
        "{revoked}"
    );
    assert!(!revoked.contains("U,1,1,"), "{revoked}");
    assert_eq!(
        post_create(address, "", &format!("&LS_password={anna}")),
        REFUSED
    );
    gateway.shut_down();
}

/// Log output of all threads.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a buffer").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn token_is_in_no_output() {
    let log = LogBuffer::default();
    let writer = log.clone();
    tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .init();
    let classes = Classes::new();
    let toml = format!(
        "{ANY}[admin.sessions]\ntoken = \"{OPERATOR}\"\n[audit]\npath = \"audit.log\"\n\
         [auth]\nsources = [\"password\", \"header\", \"cookie:weir\"]\n"
    );
    let gateway = classes.start_with_auth(&toml, "rows", FIELDS);
    let address = gateway.listen_address();
    let tokens: Vec<String> = (0..7)
        .map(|number| classes.token(&format!(r#"{{"number":{number}}}"#)))
        .chain([
            classes.token(r#"{"exp":1800000000}"#),
            Signer::new("k1", 4_102_444_800).token(r#"{"sub":"forged"}"#),
            classes.token(r#"{"sub":"bob","number":8}"#),
        ])
        .collect();
    let [
        password,
        header,
        cookie,
        url,
        twice,
        renewed,
        message,
        expired,
        forged,
        bob,
    ] = &tokens[..]
    else {
        panic!("ten tokens");
    };
    let mut output = Vec::new();
    let mut client = Client::create_with(&gateway, &format!("&LS_password={password}"));
    let client = client.as_mut().expect("a session");
    client.subscribe(1, "rows", "key");
    for (headers, more) in [
        (format!("Authorization: Bearer {header}\r\n"), String::new()),
        (format!("Cookie: a=b; weir={cookie}\r\n"), String::new()),
        (
            String::new(),
            format!("&LS_password={twice}&LS_password={twice}"),
        ),
        (String::new(), format!("&LS_password={expired}")),
        (String::new(), format!("&LS_password={forged}&LS_user=x")),
        (
            format!("Authorization: Bearer {expired} x\r\n"),
            String::new(),
        ),
    ] {
        output.push(post_create(address, &headers, &more));
    }
    let get = format!("GET /lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0&{CREATE}");
    output.push(first_line(
        address,
        &format!("{get}&LS_password={url}"),
        "",
        "",
    ));
    output.push(first_line(
        address,
        &format!("{get}&LS_password={url}%ZZ"),
        "",
        "",
    ));
    for (number, token) in (1..).zip([renewed, bob, expired, forged]) {
        client.send(&format!(
            "msg\r\nLS_reqId={number}&LS_sequence=weir_auth&LS_msg_prog={number}&LS_message={token}"
        ));
        output.extend([client.line(), client.line()]);
    }
    // A token that the application sends to the wrong place.
    client.send(&format!(
        "msg\r\nLS_reqId=9&LS_sequence=x&LS_msg_prog=1&LS_message={message}"
    ));
    output.extend([client.line(), client.line()]);
    client.send(&format!(
        "control\r\nLS_reqId=10&LS_op=add&LS_password={message}"
    ));
    output.push(client.line());
    let admin = |path: &str| {
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {OPERATOR}\r\n\r\n"
        );
        let mut stream = TcpStream::connect(gateway.admin_address()).expect("a connection");
        stream.write_all(request.as_bytes()).expect("a request");
        let mut response = String::new();
        stream.read_to_string(&mut response).expect("a response");
        response
    };
    let sessions = admin("/admin/v1/sessions");
    assert!(sessions.contains(r#""user":"anna""#), "{sessions}");
    output.extend([
        sessions,
        admin("/metrics"),
        admin("/health/ready"),
        admin("/dashboard"),
    ]);
    gateway.shut_down();
    let audit = std::fs::read_to_string(classes.env.path("audit.log")).expect("the audit log");
    let log = log.0.lock().expect("a buffer").clone();
    let log = String::from_utf8_lossy(&log).into_owned();
    assert!(
        log.contains("TRACE") || log.contains("DEBUG"),
        "the log has all levels"
    );
    assert!(
        log.contains("refused a session") && audit.contains("signature"),
        "{audit}"
    );
    output.extend([log, audit]);
    for token in &tokens {
        let (_, rest) = token.split_once('.').expect("a header");
        let (payload, signature) = rest.split_once('.').expect("claims");
        for (place, text) in output.iter().enumerate() {
            for part in [payload, signature, &signature[..20], &payload[20..60]] {
                assert!(!text.contains(part), "output {place} has a part of a token");
            }
        }
    }
    for text in &output {
        assert!(
            !text.contains(OPERATOR),
            "the operators' token is in an output"
        );
    }
}
