//! Remote adapters in processes of their own, and a gateway that asks one.

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use weir_gateway::Gateway;

use super::{Client, TEST_TIMEOUT, TestEnv, http, wait_metric};

pub const TOML: &str = r#"
unknown_names = "accept"
[adapter]
listen = "127.0.0.1:0"
users = [{ name = "gw user", password_file = "adapter.secret" }]
parameters = { "app:region" = "eu" }
close_notifications_recovery = "pessimistic"
timeout_ms = 3000
[[message]]
name = "for the adapter"
destination = "adapter"
rate_per_session = 1000.0
[audit]
path = "audit.log"
"#;

/// A running adapter with the lines that it prints; killed when dropped.
pub struct Adapter {
    pub child: Child,
    lines: Receiver<String>,
    /// Lines that no test has waited for.
    others: RefCell<Vec<String>>,
}

impl Adapter {
    pub fn start(mut command: Command, address: SocketAddr) -> Self {
        let mut child = command
            .args([&address.ip().to_string(), &address.port().to_string()])
            .args(["gw user", "p+w|1"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .expect("the adapter starts");
        let stdout = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let all = BufReader::new(stdout).lines().map_while(Result::ok);
            all.for_each(|line| drop(sender.send(line)));
        });
        Self {
            child,
            lines,
            others: RefCell::default(),
        }
    }

    /// Waits for a line. The order of lines does not matter.
    pub fn wait_for(&self, expected: &str) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        let mut others = self.others.borrow_mut();
        if let Some(index) = others.iter().position(|line| line == expected) {
            others.remove(index);
            return;
        }
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("no line \"{expected}\": {error}"));
            if line == expected {
                return;
            }
            others.push(line);
        }
    }

    pub fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args([name, &pid]).status();
        assert!(done.expect("kill runs").success());
    }

    pub fn wait_for_end(&mut self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < deadline, "the adapter does not end");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A gateway that asks an adapter.
pub struct AdapterEnv {
    pub env: TestEnv,
    pub gateway: Gateway,
}

impl AdapterEnv {
    /// Starts a gateway with changed keys, without an adapter.
    pub fn start(change: impl FnOnce(&str) -> String) -> Self {
        let env = TestEnv::new();
        env.write("adapter.secret", "p+w|1\n");
        let config = env.config_with(&change(TOML), |xml| xml);
        let gateway = Gateway::start(config).expect("a gateway");
        Self { env, gateway }
    }

    pub fn address(&self) -> SocketAddr {
        self.gateway.adapter_address().expect("it listens")
    }

    pub fn wait_ready(&self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !self.gateway.ready() {
            assert!(Instant::now() < deadline, "not ready");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    pub fn wait_adapter_left(&self) {
        wait_metric(&self.gateway, "weir_gateway_adapter_connected", |value| {
            value == 0
        });
    }

    /// Returns status line and text of the readiness page.
    pub fn readiness(&self) -> (String, String) {
        let request = "GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let (head, body) = http(self.gateway.admin_address(), request);
        (head.lines().next().expect("a status").to_owned(), body)
    }

    /// Sends the request for a session.
    pub fn request_session(&self, user: &str) -> Client {
        let mut client = Client::connect(&self.gateway);
        client.send(&format!(
            "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=test&LS_send_sync=false\
             &LS_user={user}&LS_password=pw%7C1"
        ));
        client
    }

    /// Creates a session; fails with the refusal.
    pub fn create(&self, user: &str) -> Result<Session, String> {
        let mut client = self.request_session(user);
        let line = client.line();
        let Some(rest) = line.strip_prefix("CONOK,") else {
            return Err(line);
        };
        let id = rest.split(',').next().expect("an ID").to_owned();
        let lines: Vec<_> = (0..3).map(|_| client.line()).collect();
        assert_eq!(lines[2], "CONS,128.5");
        Ok(Session { client, id })
    }

    pub fn session(&self, user: &str) -> Session {
        self.create(user).expect("a session")
    }

    /// Waits until the audit log has a line with all parts.
    pub fn wait_audit(&self, parts: &[&str]) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let text = std::fs::read_to_string(self.env.path("audit.log")).unwrap_or_default();
            if text
                .lines()
                .any(|line| parts.iter().all(|part| line.contains(part)))
            {
                assert!(!text.contains("pw|1"), "no password is logged");
                return;
            }
            assert!(Instant::now() < deadline, "no record {parts:?}:\n{text}");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

pub struct Session {
    pub client: Client,
    pub id: String,
}

impl Session {
    /// Sends a request for a subscription.
    pub fn add(&mut self, sub_id: u32, group: &str, more: &str) {
        self.client.send(&format!(
            "control\r\nLS_reqId={sub_id}&LS_op=add&LS_subId={sub_id}&LS_group={group}\
             &LS_data_adapter=QuickStart&LS_snapshot=false{more}"
        ));
    }

    pub fn line_after_add(&mut self, sub_id: u32, group: &str, more: &str) -> String {
        self.add(sub_id, group, more);
        self.client.line()
    }

    /// Sends a message and returns its outcome.
    pub fn message(&mut self, prog: u32, text: &str) -> String {
        self.client.send(&format!(
            "msg\r\nLS_reqId=m{prog}&LS_sequence=orders&LS_msg_prog={prog}&LS_message={text}"
        ));
        assert_eq!(self.client.line(), format!("REQOK,m{prog}"));
        self.client.line()
    }
}

/// Refusal on which clients try again.
pub const BUSY: &str = "CONERR,6,the gateway is busy%2C try again later";
pub const MERGE: &str = "&LS_mode=MERGE&LS_schema=value";

pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/adapters")
}

pub fn node() -> Command {
    let sdk = weir_lab::sdk::node_adapter(&mut |_| {}, &AtomicBool::new(false)).unwrap();
    let mut command = Command::new(&sdk.node_bin);
    command
        .env("NODE_PATH", sdk.modules())
        .arg(sources().join("adapter.js"));
    command
}
