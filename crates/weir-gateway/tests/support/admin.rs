//! A gateway with session administration, and clients with tokens.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::Instant;

use serde_json::Value;
use weir_gateway::Gateway;
use weir_identity::audit::AuditRecord;

use super::{Client, TEST_TIMEOUT, TestEnv};

/// Token of session administration.
pub const TOKEN: &str = "operators-0123456789-0123456789-0123456789";

/// Secret of the issuer, and two tokens of anna that it signs: `t-1` and `t-2`.
pub const SECRET: &str = "0123456789abcdef0123456789abcdef";
pub const TOKENS: [&str; 2] = [
    "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJ3ZWlyIiwic3V\
     iIjoiYW5uYSIsImp0aSI6InQtMSIsImlhdCI6MTcwMDAwMDAwMCwiZXhwIjo0MTAyNDQ0ODAwfQ.rnJb\
     5VRYa0k2bU9iVR4MM2Gs3uoMq7VcWxlXyWEMtUs",
    "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lkLmV4YW1wbGUiLCJhdWQiOiJ3ZWlyIiwic3V\
     iIjoiYW5uYSIsImp0aSI6InQtMiIsImlhdCI6MTcwMDAwMDAwMCwiZXhwIjo0MTAyNDQ0ODAwfQ.flyS\
     GDxtPBB85iqXpznjTeoSISewJCAF11Isq4_450Y",
];

/// A gateway with session administration and an audit log.
pub struct Administered {
    pub env: TestEnv,
    pub gateway: Gateway,
    pub audit: PathBuf,
}

impl Administered {
    pub fn new() -> Self {
        Self::with("")
    }

    /// Starts a gateway with more sections.
    pub fn with(more: &str) -> Self {
        Self::on(TestEnv::new(), more)
    }

    /// Starts a gateway with more sections, in an environment.
    pub fn on(env: TestEnv, more: &str) -> Self {
        env.write("secret", SECRET);
        let audit = env.path("audit.log");
        env.write("token", &format!("{TOKEN}\n"));
        let toml = "[admin.sessions]\ntoken_file = \"token\"\n[audit]\npath = \"audit.log\"\n\
                    gateway = \"gw-1\"\n";
        let gateway = env.ready(env.config_with(&format!("{toml}{more}"), |xml| xml));
        Self {
            env,
            gateway,
            audit,
        }
    }

    /// Stops the gateway and returns its environment.
    pub fn stop(self) -> TestEnv {
        self.gateway.shut_down();
        self.env
    }

    pub fn send(&self, request: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.gateway.admin_address()).expect("a connection");
        let timeout = Some(TEST_TIMEOUT);
        stream.set_read_timeout(timeout).expect("a timeout");
        let length = body.len();
        let head = format!(
            "{request} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Content-Length: {length}\r\nAuthorization: Bearer {TOKEN}\r\n\r\n{body}"
        );
        stream.write_all(head.as_bytes()).expect("sent");
        stream
    }

    /// Returns status and body of a call.
    pub fn call(&self, request: &str, body: &str) -> (u16, Value) {
        let mut response = String::new();
        let mut stream = self.send(request, body);
        stream.read_to_string(&mut response).expect("a response");
        let (head, body) = response.split_once("\r\n\r\n").expect("a head");
        let status = head[9..12].parse().expect("a status");
        (status, serde_json::from_str(body).unwrap_or(Value::Null))
    }

    pub fn sessions(&self, query: &str) -> Vec<Value> {
        let (status, body) = self.call(&format!("GET /admin/v1/sessions?{query}"), "");
        assert_eq!(status, 200, "{body}");
        body["sessions"].as_array().expect("sessions").clone()
    }

    pub fn item(&self, key: &str) -> String {
        format!("ltest-[key={key}]")
    }

    /// Waits until the audit log has a record.
    pub fn wait_audit(&self, what: &str, is_it: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let text = std::fs::read_to_string(&self.audit).unwrap_or_default();
            let lines = text
                .lines()
                .map(|line| serde_json::from_str(line).expect("JSON"));
            // `docs/audit.schema.json` is derived from this type.
            let is_record = |line| serde_json::from_str::<AuditRecord>(line).is_ok();
            assert!(text.lines().all(is_record), "{text}");
            if let Some(found) = lines.into_iter().find(|line| is_it(line)) {
                return found;
            }
            assert!(Instant::now() < deadline, "no record: {what}\n{text}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Sections that identify clients.
pub const IDENTIFIED: &str = r#"
[[auth.issuer]]
issuer = "https://id.example"
audience = "weir"
algorithms = ["HS256"]
secret_file = "secret"

[[authorize]]
name = "own"
items = ["ltest-[key=A]"]
"#;

/// Creates a session with a token; returns the first line of the response.
pub fn create(gateway: &Gateway, token: &str) -> (Client, String) {
    let mut client = Client::connect(gateway);
    client.send(&format!(
        "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=test&LS_send_sync=false\
         &LS_keepalive_millis=1000&LS_reduce_head=true&LS_password={token}"
    ));
    let line = client.line();
    (client, line)
}
