//! Unmodified remote Metadata Adapters decide about clients of a gateway with a real broker.

mod support;

use std::cell::RefCell;
use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use support::{Client, TEST_TIMEOUT, TestEnv, http, wait_metric};
use weir_gateway::Gateway;

const TOML: &str = r#"
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
struct Adapter {
    child: Child,
    lines: Receiver<String>,
    /// Lines that no test has waited for.
    others: RefCell<Vec<String>>,
}

impl Adapter {
    fn start(mut command: Command, address: SocketAddr) -> Self {
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
    fn wait_for(&self, expected: &str) {
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

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        let done = Command::new("kill").args([name, &pid]).status();
        assert!(done.expect("kill runs").success());
    }

    fn wait_for_end(&mut self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < deadline, "the adapter does not end");
            std::thread::yield_now();
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
struct AdapterEnv {
    env: TestEnv,
    gateway: Gateway,
}

impl AdapterEnv {
    /// Starts a gateway with changed keys, without an adapter.
    fn start(change: impl FnOnce(&str) -> String) -> Self {
        let env = TestEnv::new();
        env.write("adapter.secret", "p+w|1\n");
        let config = env.config_with(&change(TOML), |xml| xml);
        let gateway = Gateway::start(config).expect("a gateway");
        Self { env, gateway }
    }

    fn address(&self) -> SocketAddr {
        self.gateway.adapter_address().expect("it listens")
    }

    fn wait_ready(&self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !self.gateway.ready() {
            assert!(Instant::now() < deadline, "not ready");
            std::thread::yield_now();
        }
    }

    /// Returns status line and text of the readiness page.
    fn readiness(&self) -> (String, String) {
        let request = "GET /health/ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
        let (head, body) = http(self.gateway.admin_address(), request);
        (head.lines().next().expect("a status").to_owned(), body)
    }

    /// Creates a session; fails with the refusal.
    fn create(&self, user: &str) -> Result<Session, String> {
        let mut client = Client::connect(&self.gateway);
        client.send(&format!(
            "create_session\r\nLS_adapter_set=KafkaConnector&LS_cid=test&LS_send_sync=false\
             &LS_user={user}&LS_password=pw%7C1"
        ));
        let line = client.line();
        let Some(rest) = line.strip_prefix("CONOK,") else {
            return Err(line);
        };
        let id = rest.split(',').next().expect("an ID").to_owned();
        let lines: Vec<_> = (0..3).map(|_| client.line()).collect();
        assert_eq!(lines[2], "CONS,128.5");
        Ok(Session { client, id })
    }

    fn session(&self, user: &str) -> Session {
        self.create(user).expect("a session")
    }

    /// Waits until the audit log has a line with all parts.
    fn wait_audit(&self, parts: &[&str]) {
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
            std::thread::yield_now();
        }
    }
}

struct Session {
    client: Client,
    id: String,
}

impl Session {
    /// Sends a request for a subscription.
    fn add(&mut self, sub_id: u32, group: &str, more: &str) {
        self.client.send(&format!(
            "control\r\nLS_reqId={sub_id}&LS_op=add&LS_subId={sub_id}&LS_group={group}\
             &LS_data_adapter=QuickStart&LS_snapshot=false{more}"
        ));
    }

    fn line_after_add(&mut self, sub_id: u32, group: &str, more: &str) -> String {
        self.add(sub_id, group, more);
        self.client.line()
    }

    /// Sends a message and returns its outcome.
    fn message(&mut self, prog: u32, text: &str) -> String {
        self.client.send(&format!(
            "msg\r\nLS_reqId=m{prog}&LS_sequence=orders&LS_msg_prog={prog}&LS_message={text}"
        ));
        assert_eq!(self.client.line(), format!("REQOK,m{prog}"));
        self.client.line()
    }
}

/// Refusal on which clients try again.
const BUSY: &str = "CONERR,6,the gateway is busy%2C try again later";
const MERGE: &str = "&LS_mode=MERGE&LS_schema=value";

/// Checks the decisions of an adapter about all requests of clients.
fn check(command: impl Fn() -> Command) {
    let env = AdapterEnv::start(str::to_owned);
    assert_eq!(env.create("anna").err().as_deref(), Some(BUSY));
    let (status, text) = env.readiness();
    assert!(
        status.contains("503") && text.contains("remote adapter: not connected"),
        "{text}"
    );

    let mut adapter = Adapter::start(command(), env.address());
    env.wait_ready();
    adapter.wait_for("init eu");
    check_users(&env);
    let mut anna = env.session("anna");
    check_subscriptions(&env, &mut anna, &adapter);
    check_messages(&env, &mut anna);
    check_http(&env, &anna);
    check_ends(&env, &adapter);
    check_loss(&env, &mut anna, &mut adapter);

    let mut adapter = Adapter::start(command(), env.address());
    env.wait_ready();
    assert_eq!(anna.line_after_add(31, "a", MERGE), "REQOK,31");
    let gateway = env.gateway;
    let ending = std::thread::spawn(move || gateway.shut_down());
    let end = std::iter::repeat_with(|| anna.client.line()).find(|line| line.starts_with("END,"));
    assert!(end.is_some_and(|line| line.starts_with("END,48,")));
    adapter.wait_for(&format!("NSC {}", anna.id));
    adapter.wait_for_end();
    assert!(ending.join().expect("it ends").is_empty());
}

fn check_users(env: &AdapterEnv) {
    let refusal = |user| env.create(user).err().expect("a refusal");
    assert_eq!(refusal("bad"), "CONERR,1,user or password rejected");
    let blocked = refusal("blocked");
    assert!(blocked.starts_with("CONERR,-7,Daily limit"), "{blocked}");
    // The conflicting session does not exist, so the conflict remains.
    let two = refusal("two");
    assert!(two.starts_with("CONERR,-9,Logged in elsewhere"), "{two}");
    env.wait_audit(&[
        "\"create\"",
        "\"deny\"",
        "\"reason\":\"adapter\"",
        "\"code\":-7",
    ]);
    let mut first = env.session("single");
    let mut second = env.session("single");
    assert!(first.client.line().starts_with("END,35,"));
    second.client.send("control\r\nLS_reqId=9&LS_op=destroy");
    assert_eq!(second.client.line(), "REQOK,9");
    env.wait_audit(&[
        "\"disconnect\"",
        "\"replaced\"",
        "\"user\":\"single\"",
        "\"adapter\"",
    ]);
}

fn check_subscriptions(env: &AdapterEnv, anna: &mut Session, adapter: &Adapter) {
    assert_eq!(anna.line_after_add(1, "own", MERGE), "REQOK,1");
    assert_eq!(anna.client.line(), "SUBOK,1,1,1");
    assert_eq!(anna.client.line(), "CONF,1,2.5,filtered");
    env.env.produce("anna", "first");
    assert_eq!(anna.client.line(), "U,1,1,first");
    env.wait_audit(&[
        "\"subscribe\"",
        "\"allow\"",
        "ltest-[key=anna]",
        "\"auth\":\"adapter\"",
    ]);
    // A client cannot exceed the adapter's limit, now or later.
    let fast = format!("{MERGE}&LS_requested_max_frequency=100");
    assert_eq!(anna.line_after_add(2, "own", &fast), "REQOK,2");
    assert_eq!(anna.client.line(), "SUBOK,2,1,1");
    assert_eq!(anna.client.line(), "CONF,2,2.5,filtered");
    let change = "control\r\nLS_reqId=r&LS_op=reconf&LS_subId=2&LS_requested_max_frequency=";
    for (wanted, granted) in [("1.5", "1.5"), ("unlimited", "2.5"), ("100", "2.5")] {
        anna.client.send(&format!("{change}{wanted}"));
        assert_eq!(anna.client.line(), "REQOK,r");
        assert_eq!(anna.client.line(), format!("CONF,2,{granted},filtered"));
    }
    let refused = [
        ("unknown", "&LS_mode=MERGE&LS_schema=value", "21"),
        ("a", "&LS_mode=MERGE&LS_schema=secret", "23"),
        ("a", "&LS_mode=RAW&LS_schema=value", "24"),
        ("a", "&LS_mode=DISTINCT&LS_schema=value", "24"),
        ("a", "&LS_mode=MERGE&LS_schema=value&LS_selector=x", "25"),
        (
            "a",
            "&LS_mode=MERGE&LS_schema=value&LS_requested_max_frequency=unfiltered",
            "26",
        ),
        ("full", "&LS_mode=MERGE&LS_schema=value", "-5"),
    ];
    for (sub_id, (group, more, code)) in (11..).zip(refused) {
        let line = anna.line_after_add(sub_id, group, more);
        let expected = format!("REQERR,{sub_id},{code},");
        assert!(line.starts_with(&expected), "{group} {more}: {line}");
    }
    env.wait_audit(&[
        "\"subscribe\"",
        "\"deny\"",
        "\"reason\":\"adapter\"",
        "\"code\":-5",
    ]);
    anna.client
        .send("control\r\nLS_reqId=d&LS_op=delete&LS_subId=2");
    assert_eq!(anna.client.line(), "REQOK,d");
    assert_eq!(anna.client.line(), "UNSUB,2");
    adapter.wait_for(&format!("NTC {} 2", anna.id));
}

fn check_messages(env: &AdapterEnv, anna: &mut Session) {
    assert_eq!(anna.message(1, "buy"), "MSGDONE,orders,1,");
    assert!(anna.message(2, "no").starts_with("MSGFAIL,orders,2,-3,"));
    assert!(anna.message(3, "%3F").starts_with("MSGFAIL,orders,3,34,"));
    // Several at once keep their order.
    let all: String = (4..24)
        .map(|prog| {
            format!(
                "LS_reqId={prog}&LS_sequence=orders&LS_msg_prog={prog}\
                             &LS_message=x&LS_ack=false\r\n"
            )
        })
        .collect();
    anna.client.send(&format!("msg\r\n{}", all.trim_end()));
    for prog in 4..24 {
        assert_eq!(anna.client.line(), format!("MSGDONE,orders,{prog},"));
    }
    env.wait_audit(&["\"message\"", "\"allow\"", "\"for the adapter\""]);
}

/// Subscribes over HTTP, through the shard of the session and through another one.
fn check_http(env: &AdapterEnv, anna: &Session) {
    for (sub_id, group, expected) in [
        (41, "a", "REQOK,41"),
        (42, "unknown", "REQERR,42,21,unknown item group"),
        (43, "b", "REQOK,43"),
        (44, "unknown", "REQERR,44,21,unknown item group"),
    ] {
        let body = format!(
            "LS_session={}&LS_reqId={sub_id}&LS_op=add&LS_subId={sub_id}&LS_group={group}\
             &LS_data_adapter=QuickStart{MERGE}",
            anna.id
        );
        let request = format!(
            "POST /lightstreamer/control.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\nHost: x\r\n\
             Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (_, body) = http(env.gateway.listen_address(), &request);
        assert_eq!(body.trim_end(), expected);
    }
    let body = "LS_adapter_set=KafkaConnector&LS_user=bad&LS_password=x";
    let request = format!(
        "POST /lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0 HTTP/1.1\r\nHost: x\r\n\
         Connection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let (_, body) = http(env.gateway.listen_address(), &request);
    assert_eq!(body.trim_end(), "CONERR,1,user or password rejected");
}

fn check_ends(env: &AdapterEnv, adapter: &Adapter) {
    let mut bob = env.session("bob");
    assert_eq!(bob.line_after_add(7, "a", MERGE), "REQOK,7");
    bob.client.send("control\r\nLS_reqId=9&LS_op=destroy");
    let lines = std::iter::repeat_with(|| bob.client.line());
    assert!(lines.take(4).any(|line| line == "REQOK,9"));
    adapter.wait_for(&format!("NTC {} 7", bob.id));
    adapter.wait_for(&format!("NSC {}", bob.id));
}

/// Kills the adapter: open sessions continue, and nothing new begins.
fn check_loss(env: &AdapterEnv, anna: &mut Session, adapter: &mut Adapter) {
    adapter.child.kill().expect("killed");
    wait_metric(&env.gateway, "weir_gateway_adapter_connected", |value| {
        value == 0
    });
    assert!(!env.gateway.ready());
    assert_eq!(env.create("anna").err().as_deref(), Some(BUSY));
    env.env.produce("anna", "second");
    let update = std::iter::repeat_with(|| anna.client.line());
    assert!(update.take(8).any(|line| line == "U,1,1,second"));
    let failed = anna.message(24, "buy");
    assert!(failed.starts_with("MSGFAIL,orders,24,34,"), "{failed}");
    let refused = anna.line_after_add(30, "own", MERGE);
    assert!(refused.starts_with("REQERR,30,68,"), "{refused}");
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/adapters")
}

fn node() -> Command {
    let sdk = weir_lab::sdk::node_adapter(&mut |_| {}, &AtomicBool::new(false)).unwrap();
    let mut command = Command::new(&sdk.node_bin);
    command
        .env("NODE_PATH", sdk.modules())
        .arg(sources().join("adapter.js"));
    command
}

#[test]
fn node_adapter_decides() {
    check(node);
}

#[test]
fn python_adapter_decides() {
    let sdk = weir_lab::sdk::python_adapter(&mut |_| {}, &AtomicBool::new(false)).unwrap();
    check(|| {
        let mut command = Command::new(&sdk.python_bin);
        command.envs([("PYTHONUTF8", "1"), ("PYTHONDONTWRITEBYTECODE", "1")]);
        command.arg(sources().join("adapter.py"));
        command
    });
}

#[test]
fn java_adapter_decides_and_forces_ends() {
    let sdk = weir_lab::sdk::java_adapter(&mut |_| {}, &AtomicBool::new(false)).unwrap();
    let classes = tempfile::tempdir().unwrap();
    let java = || {
        let mut command = Command::new(&sdk.java_bin);
        command.args(["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m"]);
        command.arg("-Dfile.encoding=UTF-8");
        command
    };
    let compiled = java()
        .args(["-m", "jdk.compiler/com.sun.tools.javac.Main"])
        .args(["-encoding", "UTF-8", "-cp", &sdk.class_path, "-d"])
        .arg(classes.path())
        .arg(sources().join("Adapter.java"))
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&compiled.stderr);
    assert!(compiled.status.success(), "{errors}");
    let command = || {
        let mut command = java();
        let class_path = format!("{}:{}", classes.path().display(), sdk.class_path);
        command.args(["-cp", &class_path, "Adapter"]);
        command
    };
    check(command);

    let env = AdapterEnv::start(str::to_owned);
    let adapter = Adapter::start(command(), env.address());
    env.wait_ready();
    let mut anna = env.session("anna");
    assert_eq!(anna.line_after_add(1, "a", MERGE), "REQOK,1");
    let confirmed = [anna.client.line(), anna.client.line()];
    assert_eq!(confirmed, ["SUBOK,1,1,1", "CONF,1,2.5,filtered"]);
    let lines = [anna.message(1, "unsubscribe"), anna.client.line()];
    assert!(lines.contains(&"UNSUB,1".to_owned()), "{lines:?}");
    adapter.wait_for("unsubscribed true");
    adapter.wait_for(&format!("NTC {} 1", anna.id));
    let lines = [anna.message(2, "end")];
    let next = lines
        .into_iter()
        .chain(std::iter::repeat_with(|| anna.client.line()));
    let end = next.into_iter().find(|line| line.starts_with("END,"));
    assert_eq!(end.as_deref(), Some("END,-12,closed%2C by office"));
    adapter.wait_for("ended true");
    adapter.wait_for(&format!("NSC {}", anna.id));
    env.wait_audit(&[
        "\"grant_lost\"",
        "\"reason\":\"adapter\"",
        "\"user\":\"anna\"",
    ]);
    env.wait_audit(&[
        "\"disconnect\"",
        "\"reason\":\"adapter\"",
        "\"user\":\"anna\"",
    ]);
}

#[test]
fn stopped_adapter_delays_nothing_but_decisions() {
    let env = AdapterEnv::start(|toml| {
        toml.replace(
            "timeout_ms = 3000",
            "timeout_ms = 500\nactivity_timeout_ms = 3000\nunavailable = \"end_session\"",
        )
    });
    let mut adapter = Adapter::start(node(), env.address());
    env.wait_ready();
    let mut anna = env.session("anna");
    assert_eq!(anna.line_after_add(1, "own", MERGE), "REQOK,1");
    let confirmed = [anna.client.line(), anna.client.line()];
    assert_eq!(confirmed, ["SUBOK,1,1,1", "CONF,1,2.5,filtered"]);
    adapter.signal("-STOP");
    assert_eq!(env.create("bob").err().as_deref(), Some(BUSY));
    let late = anna.message(1, "buy");
    assert!(late.starts_with("MSGFAIL,orders,1,34,"), "{late}");
    env.env.produce("anna", "while stopped");
    assert_eq!(anna.client.line(), "U,1,1,while stopped");
    // The SDK creates a new session with all its subscriptions.
    let end = anna.line_after_add(2, "own", MERGE);
    assert!(end.starts_with("END,48,"), "{end}");
    wait_metric(&env.gateway, "weir_gateway_adapter_connected", |value| {
        value == 0
    });
    adapter.signal("-CONT");
    adapter.wait_for_end();
    let next = Adapter::start(node(), env.address());
    // The session that ended without an adapter is reported to the next one.
    next.wait_for(&format!("NSC {}", anna.id));
    env.wait_ready();
    env.session("anna");
}
