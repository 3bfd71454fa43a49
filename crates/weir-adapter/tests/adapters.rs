//! Adapters of the unmodified, published SDKs for Node, Python and Java: they connect, decide, and
//! lose their connection. Their code is in `conformance/adapters`.

mod support;

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use support::{
    TEST_TIMEOUT, TestServer, items, message, new_session, new_tables, schema, table, user,
};
use weir_adapter::{AdapterFailure, AdapterOutcome, AdapterPort as _, WhileDown};
use weir_identity::ari::{
    AdapterNotification, AdapterReply, AdapterRequest, ExceptionKind, NotificationResult,
    TableStatistics,
};
use weir_identity::{ItemMode, ItemModes};

/// A running adapter with the lines that it prints; killed when dropped.
struct Adapter {
    child: Child,
    lines: Receiver<String>,
}

impl Adapter {
    fn start(mut command: Command, server: &TestServer) -> Self {
        let address = server.address();
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
        Self { child, lines }
    }

    /// Waits for a line.
    fn wait_for(&self, expected: &str) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("no line \"{expected}\": {error}"));
            if line == expected {
                return;
            }
        }
    }

    fn wait_for_end(&mut self) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while self.child.try_wait().expect("a child").is_none() {
            assert!(Instant::now() < deadline, "the adapter does not end");
            std::thread::sleep(Duration::from_millis(10));
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

fn start_server() -> (TestServer, tempfile::TempDir) {
    start_server_with("")
}

/// Starts with more keys.
fn start_server_with(keys: &str) -> (TestServer, tempfile::TempDir) {
    let dir = tempfile::tempdir().expect("a directory");
    let secret = dir.path().join("adapter.secret");
    std::fs::write(&secret, "p+w|1\n").expect("a file");
    let config = format!(
        "listen = \"127.0.0.1:0\"\nclose_notifications_recovery = \"pessimistic\"\n\
         users = [{{ name = \"gw user\", password_file = \"{}\" }}]\n\
         parameters = {{ \"app:region\" = \"eu\" }}\n{keys}",
        secret.display()
    );
    (TestServer::start(&config), dir)
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/adapters")
}

fn exception(outcome: AdapterOutcome) -> ExceptionKind {
    match outcome {
        Err(AdapterFailure::Exception(exception)) => exception.kind,
        other => panic!("{other:?}"),
    }
}

fn credits(code: i32, user_message: Option<&str>) -> ExceptionKind {
    ExceptionKind::Credits {
        code,
        user_message: user_message.map(str::to_owned),
    }
}

fn modes(modes: [ItemMode; 2]) -> Option<ItemModes> {
    Some(modes.into_iter().collect())
}

/// Checks the decisions of an adapter, then its end.
fn check(command: impl Fn() -> Command) {
    let (server, _dir) = start_server();
    let mut adapter = Adapter::start(command(), &server);
    server.wait_until_connected(true);
    adapter.wait_for("init eu");
    check_users(&server);
    check_items(&server);
    check_tables(&server, &adapter);
    check_messages(&server);

    // Replies come in any order.
    for token in 0..100 {
        let request = match token {
            0 => user("slow"),
            _ => items(&format!("g{token}")),
        };
        assert!(server.handle.request(request, token, WhileDown::Fail));
    }
    let tokens: Vec<u32> = (0..100)
        .map(|_| {
            server
                .outcomes
                .recv_timeout(TEST_TIMEOUT)
                .expect("an outcome")
        })
        .map(|(token, outcome)| {
            assert!(outcome.is_ok(), "{outcome:?}");
            token
        })
        .collect();
    assert_eq!(tokens.last(), Some(&0));

    // Killed: pessimistic recovery sends the notification to the next adapter.
    adapter.child.kill().expect("killed");
    server.wait_until_connected(false);
    let down = server.handle.request(user("anna"), 1, WhileDown::Fail);
    assert!(down);
    let (_, outcome) = server
        .outcomes
        .recv_timeout(TEST_TIMEOUT)
        .expect("an outcome");
    assert_eq!(outcome, Err(AdapterFailure::Down));
    let session = "S9".to_owned();
    server
        .handle
        .notify_close(AdapterRequest::NotifySessionClose { session });
    let mut adapter = Adapter::start(command(), &server);
    adapter.wait_for("NSC S9");
    server.wait_until_connected(true);
    assert_eq!(server.handle.metrics().generation(), 2);
    assert!(server.server.shut_down(Duration::from_secs(5)).is_empty());
    adapter.wait_for_end();
}

fn check_users(server: &TestServer) {
    let accepted = AdapterReply::User {
        bandwidth_max_kbps: 128.5,
        wants_tables: true,
    };
    assert_eq!(server.call(user("anna")), Ok(accepted));
    assert_eq!(exception(server.call(user("bad"))), ExceptionKind::Access);
    let blocked = credits(-7, Some("Daily limit, come back"));
    assert_eq!(exception(server.call(user("blocked"))), blocked);
    let session = server.call(new_session("anna", "S1"));
    assert!(
        matches!(session, Ok(AdapterReply::Session { .. })),
        "{session:?}"
    );
    let conflict = ExceptionKind::ConflictingSession {
        code: -9,
        user_message: Some("Logged in elsewhere".to_owned()),
        session: "Sold1".to_owned(),
    };
    assert_eq!(exception(server.call(new_session("two", "S2"))), conflict);
}

fn check_items(server: &TestServer) {
    let names = |names: &[&str]| {
        let names = names.iter().map(|name| (*name).to_owned());
        Ok(AdapterReply::Names(names.collect()))
    };
    let mine = names(&["orders-[account=anna]", "quote-[symbol=é|+]"]);
    assert_eq!(server.call(items("mine")), mine);
    assert_eq!(server.call(items("a b")), names(&["a", "b"]));
    assert_eq!(
        exception(server.call(items("unknown"))),
        ExceptionKind::Items
    );
    assert_eq!(server.call(schema("bid ask")), names(&["bid", "ask"]));
    assert_eq!(
        exception(server.call(schema("secret"))),
        ExceptionKind::Schema
    );
    let two = || vec!["a é".to_owned(), "b".to_owned()];
    let Ok(AdapterReply::ItemData(data)) =
        server.call(AdapterRequest::GetItemData { items: two() })
    else {
        panic!("item data");
    };
    assert_eq!((data.len(), data[1].snapshot_length), (2, 20));
    assert_eq!(data[0].modes, modes([ItemMode::Raw, ItemMode::Merge]));
    let user = Some("anna".to_owned());
    let Ok(AdapterReply::UserItemData(data)) =
        server.call(AdapterRequest::GetUserItemData { user, items: two() })
    else {
        panic!("data of items for a user");
    };
    assert_eq!((data.len(), data[0].buffer_size), (2, 7));
    assert!((data[1].frequency_max - 2.5).abs() < f64::EPSILON);
    assert_eq!(data[0].modes, modes([ItemMode::Merge, ItemMode::Distinct]));
}

fn check_tables(server: &TestServer, adapter: &Adapter) {
    // Nine items: the SDK for Node would not survive their list.
    let accepted = server.call(new_tables(table(3, "nine", 9)));
    assert!(
        matches!(accepted, Ok(AdapterReply::Tables { .. })),
        "{accepted:?}"
    );
    let full = server.call(new_tables(table(4, "full", 1)));
    assert_eq!(exception(full), credits(-5, None));
    let statistics = TableStatistics {
        sent: 10,
        lost: 0,
        filtered: 3,
    };
    server
        .handle
        .notify_close(AdapterRequest::NotifyTablesClose {
            session: "S1".to_owned(),
            table: table(3, "nine", 9),
            statistics: vec![statistics; 9],
        });
    adapter.wait_for("NTC S1 3");
    let session = "S2".to_owned();
    server
        .handle
        .notify_close(AdapterRequest::NotifySessionClose { session });
    adapter.wait_for("NSC S2");
}

fn check_messages(server: &TestServer) {
    assert_eq!(server.call(message("buy é|+")), Ok(AdapterReply::Void));
    assert_eq!(exception(server.call(message("no"))), credits(-3, None));
    assert_eq!(
        exception(server.call(message("?"))),
        ExceptionKind::Notification
    );
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
fn stopped_adapter_fails_requests_then_loses_its_connection() {
    let (server, _dir) = start_server_with("timeout_ms = 500\nactivity_timeout_ms = 3000");
    let mut adapter = Adapter::start(node(), &server);
    server.wait_until_connected(true);
    let pid = adapter.child.id().to_string();
    let signal = |name: &str| {
        let done = Command::new("kill").args([name, &pid]).status();
        assert!(done.expect("kill runs").success());
    };
    signal("-STOP");
    assert_eq!(server.call(items("a")), Err(AdapterFailure::Timeout));
    assert!(server.handle.metrics().is_connected());
    server.wait_until_connected(false);
    assert_eq!(server.handle.metrics().pending(), 0);
    signal("-CONT");
    // It finds its connection closed, and ends; its supervisor starts another one.
    adapter.wait_for_end();
    let _next = Adapter::start(node(), &server);
    server.wait_until_connected(true);
    assert!(server.call(items("a")).is_ok());
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
        .args(["-Xlint:all", "-Werror", "-encoding", "UTF-8"])
        .args(["-cp", &sdk.class_path, "-d"])
        .arg(classes.path())
        .arg(sources().join("Adapter.java"))
        .output()
        .unwrap();
    assert!(
        compiled.status.success(),
        "{}",
        String::from_utf8_lossy(&compiled.stderr)
    );
    let command = || {
        let mut command = java();
        let class_path = format!("{}:{}", classes.path().display(), sdk.class_path);
        command.args(["-cp", &class_path, "Adapter"]);
        command
    };
    check(command);

    let (server, _dir) = start_server();
    let mut adapter = Adapter::start(command(), &server);
    server.wait_until_connected(true);
    assert!(server.call(new_tables(table(3, "nine", 9))).is_ok());
    assert!(server.call(message("end")).is_ok());
    let (ticket, notice) = server.notice();
    let expected = AdapterNotification::ForceSessionEnd {
        session: "S1".to_owned(),
        cause: Some((-12, Some("closed, by office".to_owned()))),
    };
    assert_eq!(notice, expected);
    server
        .handle
        .respond(ticket, NotificationResult::SessionEnds);
    adapter.wait_for("ended true");
    assert!(server.call(message("end")).is_ok());
    let (ticket, _) = server.notice();
    server
        .handle
        .respond(ticket, NotificationResult::Failed("not now".to_owned()));
    adapter.wait_for("ended false");
    assert!(server.call(message("unsubscribe")).is_ok());
    let (ticket, notice) = server.notice();
    let session = "S1".to_owned();
    assert_eq!(
        notice,
        AdapterNotification::ForceUnsubscription { session, window: 3 }
    );
    server
        .handle
        .respond(ticket, NotificationResult::Unsubscribed(true));
    adapter.wait_for("unsubscribed true");
    // A failure detaches the adapter, whose process ends.
    assert!(server.handle.request(message("fail"), 9, WhileDown::Fail));
    server.wait_until_connected(false);
    adapter.wait_for_end();
}
