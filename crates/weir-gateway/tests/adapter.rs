//! Unmodified remote Metadata Adapters decide about clients of a gateway with a real broker.

mod support;
#[path = "adapter/tls.rs"]
mod tls;

use std::process::Command;
use std::sync::atomic::AtomicBool;

use support::adapter::{Adapter, AdapterEnv, BUSY, MERGE, Session, node, sources};
use support::{http, wait_metric};

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
fn stopped_adapter_delays_decisions_only() {
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
