//! `weir gateway sessions` against the live sessions of a gateway, and `explain --token`.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use weir_gateway::config::CliOverrides;
use weir_gateway::{Gateway, GatewayConfig};
use weir_mapping::ParseOptions;

use crate::support::{text, weir};

const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Secret of the issuer, and two tokens of anna that it signs: `t-1` and `t-2`, until 2100.
const SECRET: &str = "0123456789abcdef0123456789abcdef";
const TOKENS: [&str; 2] = [
    "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJ3ZWlyIiwic3V\
     iIjoiYW5uYSIsImp0aSI6InQtMSIsImlhdCI6MTcwMDAwMDAwMCwiZXhwIjo0MTAyNDQ0ODAwfQ.rnJb\
     5VRYa0k2bU9iVR4MM2Gs3uoMq7VcWxlXyWEMtUs",
    "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJ3ZWlyIiwic3V\
     iIjoiYW5uYSIsImp0aSI6InQtMiIsImlhdCI6MTcwMDAwMDAwMCwiZXhwIjo0MTAyNDQ0ODAwfQ.flyS\
     GDxtPBB85iqXpznjTeoSISewJCAF11Isq4_450Y",
];
/// Public key of another issuer, and a token that it has signed, until 2100 (RFC 8037, appendix A).
const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","alg":"EdDSA",
    "x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
const KEYED: &str = "eyJhbGciOiJFZERTQSJ9.eyJpc3MiOiJodHRwOi8vMTI3LjAuMC4xOjEiLCJhdWQiOiJ3ZWlyI\
    iwic3ViIjoiYW5uYSIsImlhdCI6MTcwMDAwMDAwMCwiZXhwIjo0MTAyNDQ0ODAwfQ.EhwjWGegS7nPq_12ZUCprlaz5\
    uRLy_ggAHIHwdcRmllWKZNqADM9Pp0eh_hL-Jm-croaDlbFmevzchnMb1hCDw";

const CONFIG: &str = r##"
listen = "127.0.0.1:0"
[admin]
listen = "127.0.0.1:0"
[admin.sessions]
token_file = "sessions.token"
[auth]
anonymous = true
[[auth.issuer]]
issuer = "https://id.example"
audience = "weir"
algorithms = ["HS256"]
secret_file = "secret"
[[authorize]]
name = "own quotes"
items = ["quote-[symbol={claims.sub}]"]
[connection.feed]
"bootstrap.servers" = "127.0.0.1:1"
"item-template.quote" = "quote-#{symbol=KEY}"
"map.quotes.to" = "item-template.quote"
"field.last" = "#{VALUE}"
"##;

/// A gateway without brokers, and commands against it.
struct Administered {
    dir: tempfile::TempDir,
    gateway: Gateway,
}

impl Administered {
    fn start() -> Self {
        let dir = files(CONFIG);
        let file = dir.path().join("gateway.toml");
        let (overrides, options) = (CliOverrides::default(), ParseOptions::default());
        let config = GatewayConfig::load(None, Some(&file), &overrides, options);
        let gateway = Gateway::start(config.unwrap()).unwrap();
        Self { dir, gateway }
    }

    fn command(&self, arguments: &[&str]) -> std::process::Command {
        let mut command = weir(&["gateway", "sessions"]);
        let admin = format!("http://{}", self.gateway.admin_address());
        command.args(arguments).args(["--admin", &admin]);
        let token = self.dir.path().join("sessions.token");
        command.arg("--token-file").arg(token);
        command
    }

    /// Runs a command. Returns its exit code and output.
    fn run(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = self.command(arguments).output().unwrap();
        (output.status.code(), text_of(&output))
    }

    fn handles(&self, arguments: &[&str]) -> Vec<String> {
        let (_, shown) = self.run(&[&["list", "--json"], arguments].concat());
        let shown: Value = serde_json::from_str(&shown).unwrap_or_else(|_| panic!("{shown}"));
        let rows = shown["sessions"].as_array().unwrap().iter();
        rows.map(|row| row["session"].as_str().unwrap().to_owned())
            .collect()
    }
}

/// Writes a configuration with its files.
fn files(config: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, content) in [
        ("gateway.toml", config),
        ("sessions.token", "operators-0123456789-0123456789-0123"),
        ("secret", SECRET),
        ("token", TOKENS[0]),
        ("keyed", KEYED),
    ] {
        fs::write(dir.path().join(name), content).unwrap();
    }
    dir
}

fn text_of(output: &Output) -> String {
    format!("{}{}", text(&output.stdout), text(&output.stderr))
}

/// A session over HTTP.
struct Session {
    address: SocketAddr,
    id: String,
    lines: BufReader<TcpStream>,
}

impl Session {
    fn create(gateway: &Gateway, token: &str) -> Self {
        let address = gateway.listen_address();
        let body =
            "LS_adapter_set=KafkaConnector&LS_cid=test&LS_send_sync=false&LS_reduce_head=true";
        let body = format!("{body}&LS_keepalive_millis=1000&LS_password={token}");
        let mut session = Self {
            address,
            id: String::new(),
            lines: BufReader::new(post(address, "create_session", &body)),
        };
        let created = session.line("CONOK,");
        session.id = created.split(',').nth(1).unwrap().to_owned();
        session
    }

    /// Returns the next line that starts so.
    fn line(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.lines.read_line(&mut line).unwrap() > 0, "no {start}");
            if line.starts_with(start) {
                return line.trim_end().to_owned();
            }
        }
    }

    fn subscribe(&self, item: &str) {
        let body = format!(
            "LS_session={}&LS_reqId=1&LS_op=add&LS_subId=1&LS_mode=MERGE&LS_group={item}\
             &LS_schema=last&LS_data_adapter=feed",
            self.id
        );
        let mut response = String::new();
        let mut stream = post(self.address, "control", &body);
        stream.read_to_string(&mut response).unwrap();
        assert!(response.contains("REQOK,1"), "{response}");
    }
}

fn post(address: SocketAddr, request: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_TIMEOUT)).unwrap();
    let head = format!(
        "POST /lightstreamer/{request}.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\nHost: localhost\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream
        .write_all(format!("{head}{body}").as_bytes())
        .unwrap();
    stream
}

#[test]
fn commands_find_follow_and_end_live_sessions() {
    let own = Administered::start();
    let mut first = Session::create(&own.gateway, TOKENS[0]);
    let mut second = Session::create(&own.gateway, TOKENS[1]);
    let mut third = Session::create(&own.gateway, "");
    first.subscribe("quote-%5Bsymbol%3Danna%5D");
    first.line("SUBOK,");
    assert_eq!(own.handles(&[]).len(), 3);
    assert_eq!(own.handles(&["--limit", "2"]).len(), 2);
    let (code, shown) = own.run(&["find", "--user", "anna"]);
    assert_eq!(
        (code, shown.matches("anna").count()),
        (Some(0), 2),
        "{shown}"
    );
    let (code, shown) = own.run(&["list", "--user", "bob"]);
    assert_eq!((code, shown.trim()), (Some(1), "no sessions"));
    let found = own.handles(&["--item", "quote-[symbol=anna]"]);
    let [handle] = found.as_slice() else {
        panic!("{found:?}");
    };
    let (code, shown) = own.run(&["show", handle]);
    assert_eq!(code, Some(0), "{shown}");
    for part in [
        "rule \"own quotes\" allows quote-[symbol={claims.sub}]",
        "claims.sub is anna",
        "subscription 1 MERGE feed",
        "  quote-[symbol=anna]",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!shown.contains(&first.id), "the ID is a secret");

    let mut trace = own.command(&["trace", handle]);
    let mut trace = trace.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(trace.stdout.take().unwrap()).lines();
    let mut next = |event: &str| {
        let is_it = |line: &Value| line["event"] == event;
        let mut parsed = lines
            .by_ref()
            .map(|line| serde_json::from_str(&line.unwrap()));
        parsed.find_map(|line| line.ok().filter(is_it)).unwrap()
    };
    assert_eq!(next("state")["subscriptions"], 1);
    let issuer = ["--issuer", "https://id.example"];
    let (code, revoked) = own.run(&[&["revoke", "--jti", "t-1"], &issuer[..]].concat());
    assert_eq!(code, Some(0), "{revoked}");
    assert_eq!(first.line("END,"), "END,-10,Revoked");
    next("end");
    assert_eq!(
        trace.wait().unwrap().code(),
        Some(0),
        "the trace ends with its session"
    );
    let (_, list) = own.run(&["revoke"]);
    assert!(list.contains("\"jti\":\"t-1\""), "{list}");
    let revoked: Value = serde_json::from_str(&revoked).unwrap();
    let remove = ["revoke", "--remove", revoked["id"].as_str().unwrap()];
    assert_eq!((own.run(&remove).0, own.run(&remove).0), (Some(0), Some(1)));

    let disconnect = ["disconnect", "--user", "anna", "--code", "48"];
    assert_eq!(
        own.run(&disconnect),
        (Some(0), "1 sessions ended\n".to_owned())
    );
    assert!(second.line("END,").starts_with("END,48,"));
    assert_eq!(own.run(&disconnect).0, Some(1), "there is none any more");
    let rest = own.handles(&[]);
    let (code, _) = own.run(&["disconnect", &rest[0], "--message", "bye"]);
    assert_eq!(
        (code, third.line("END,")),
        (Some(0), "END,32,bye".to_owned())
    );
    assert_eq!(own.run(&["show", &rest[0]]).0, Some(1));
    own.gateway.shut_down();
}

/// Runs `explain --token` about an item. Returns its exit code and output.
fn explain(dir: &Path, token: &str, more: &[&str]) -> (Option<i32>, String) {
    let mut command = weir(&["gateway", "explain", "--item", "quote-[symbol=anna]"]);
    command.arg("--config").arg(dir.join("gateway.toml"));
    command.arg("--token").arg(dir.join(token)).args(more);
    let output = command.output().unwrap();
    (output.status.code(), text_of(&output))
}

#[test]
fn explain_verifies_tokens_at_a_time() {
    let dir = files(CONFIG);
    let (code, shown) = explain(dir.path(), "token", &[]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(
        shown.contains("token: valid, user anna of https://id.example"),
        "{shown}"
    );
    let valid = explain(dir.path(), "token", &["--at", "2099-12-31T23:59:59Z"]);
    assert_eq!(valid.0, Some(0), "{}", valid.1);
    // The allowed difference of clocks is 30 s.
    let (code, shown) = explain(dir.path(), "token", &["--at", "2100-01-01T00:00:31Z"]);
    assert_eq!(code, Some(1), "{shown}");
    assert!(
        shown.contains("expired") && shown.contains("client: CONERR,1"),
        "{shown}"
    );
    let (code, shown) = explain(dir.path(), "token", &["--at", "1999-01-01T00:00:00Z"]);
    assert!(
        code == Some(1) && shown.contains("client: CONERR,1"),
        "{shown}"
    );
    let (code, shown) = explain(dir.path(), "token", &["--at", "tomorrow"]);
    assert!(
        code == Some(2) && shown.contains("write a time like"),
        "{shown}"
    );
}

#[test]
fn explain_fetches_keys_on_request_only() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/keys", server.local_addr().unwrap());
    let config = CONFIG
        .replace("https://id.example", "http://127.0.0.1:1")
        .replace("HS256", "EdDSA")
        .replace("secret_file = \"secret\"", &format!("jwks_url = \"{url}\""));
    let dir = files(&config);
    // The server responds once, so a fetch without the option would take the response.
    let served = std::thread::spawn(move || {
        let (stream, _) = server.accept().unwrap();
        let mut stream = BufReader::new(stream);
        let mut line = String::new();
        while stream.read_line(&mut line).unwrap() > 2 {
            line.clear();
        }
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", KEYS.len());
        stream
            .get_mut()
            .write_all(format!("{head}{KEYS}").as_bytes())
            .unwrap();
    });
    let (code, shown) = explain(dir.path(), "keyed", &[]);
    assert!(
        code == Some(1) && shown.contains("client: CONERR,6"),
        "{shown}"
    );
    let (code, shown) = explain(dir.path(), "keyed", &["--fetch-keys"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("token: valid, user anna"), "{shown}");
    served.join().unwrap();
    // The server is gone: the reason names the cause.
    let (code, shown) = explain(dir.path(), "keyed", &["--fetch-keys"]);
    assert!(
        code == Some(1) && shown.contains("client: CONERR,6"),
        "{shown}"
    );
    assert!(shown.contains("127.0.0.1"), "{shown}");
    assert!(
        !shown.contains(KEYED.split('.').nth(2).unwrap()),
        "the token is not printed"
    );
}
