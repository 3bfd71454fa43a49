//! Client messages to a real broker: order, headers, outages, and an unmodified SDK.

mod support;

use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use support::{Client, TEST_TIMEOUT, TestEnv, metric, wait_metric};
use weir_gateway::Gateway;
use weir_kafka::KafkaSettings;
use weir_kafka::peek::{OwnedRecord, sample};
use weir_lab::{Lab, LabOptions};

const DELIVERED: &str = "weir_gateway_messages_total";

/// Rules that send messages of sequences from `orders` to the topic of the test.
fn rules(env: &TestEnv, more: &str) -> String {
    format!(
        "[[message]]\nname = \"orders\"\nsequences = [\"orders*\", \"UNORDERED_MESSAGES\"]\n\
         connection = \"QuickStart\"\ntopic = \"{}\"\nkey = \"{{sequence}}\"\n\
         rate_per_session = 10000.0\n{more}",
        env.topic
    )
}

fn start(env: &TestEnv, more: &str) -> Gateway {
    env.ready(env.config_with(&rules(env, more), |xml| xml))
}

fn records(env: &TestEnv, count: usize) -> Vec<OwnedRecord> {
    let kafka = KafkaSettings::plaintext(env.bootstrap());
    let found = sample(&kafka, &env.topic, count + 1, 10_000_000, TEST_TIMEOUT);
    let mut found = found.expect("a readable topic");
    assert_eq!(found.len(), count, "each message is stored once");
    found.sort_by_key(|record| record.offset);
    found
}

fn text(bytes: Option<&Vec<u8>>) -> String {
    String::from_utf8(bytes.cloned().unwrap_or_default()).expect("text")
}

fn header<'a>(record: &'a OwnedRecord, name: &str) -> Option<&'a [u8]> {
    let mut all = record.headers.iter();
    let (_, value) = all.find(|(header, _)| header == name)?;
    value.as_deref()
}

#[test]
fn messages_are_stored_once_in_order_with_headers() {
    const COUNT: u32 = 1_000;
    let env = TestEnv::new();
    let gateway = start(&env, "[messages]\npending_per_session = 2000\n");
    let mut client = Client::create(&gateway);
    // Pairs in reverse order, and every tenth message twice.
    let mut requests = Vec::new();
    for prog in (1..=COUNT).map(|prog| if prog % 2 == 1 { prog + 1 } else { prog - 1 }) {
        let line = format!(
            "LS_reqId={prog}&LS_sequence=orders_1&LS_msg_prog={prog}&LS_message=order%20{prog}"
        );
        for _ in 0..=u32::from(prog % 10 == 0) {
            requests.push(format!("msg\r\n{line}"));
        }
    }
    let requests: Vec<_> = requests.iter().map(String::as_str).collect();
    client.send_together(&requests);
    let mut done = Vec::new();
    while done.len() < COUNT as usize {
        let line = client.line();
        match line.strip_prefix("MSGDONE,orders_1,") {
            Some(prog) => done.push(prog.trim_end_matches(',').parse::<u32>().expect("a number")),
            None => assert!(
                line.starts_with("REQOK,") || line.contains(",32,"),
                "{line}"
            ),
        }
    }
    assert!(done.iter().copied().eq(1..=COUNT), "{done:?}");
    let records = records(&env, COUNT as usize);
    let session = header(&records[0], "weir-session")
        .expect("a handle")
        .to_vec();
    for (record, prog) in records.iter().zip(1..) {
        assert_eq!(text(record.value.as_ref()), format!("order {prog}"));
        assert_eq!(text(record.key.as_ref()), "orders_1");
        assert_eq!(
            header(record, "weir-prog"),
            Some(prog.to_string().as_bytes())
        );
        assert_eq!(
            header(record, "weir-sequence"),
            Some(b"orders_1".as_slice())
        );
        assert_eq!(header(record, "weir-session"), Some(&*session));
        assert_eq!(header(record, "weir-user"), None, "the client is anonymous");
    }
    assert_eq!(metric(&gateway, DELIVERED), u64::from(COUNT));
    assert_eq!(metric(&gateway, "weir_gateway_messages_pending"), 0);
    client.send("msg\r\nLS_reqId=7&LS_message=x&LS_sequence=other&LS_msg_prog=1");
    while !client.line().starts_with("MSGFAIL,other,1,0,") {}
    gateway.shut_down();
}

#[test]
fn outage_fails_messages_in_time_and_blocks_nothing() {
    let options = LabOptions {
        heap_mb: 384,
        ..LabOptions::default()
    };
    let interrupted = AtomicBool::new(false);
    let mut lab = Lab::up(&options, &mut |_| {}, &interrupted).expect("a broker");
    let env = TestEnv::on(&lab.bootstrap(), 1);
    let gateway = start(&env, "[messages]\ndelivery_timeout_ms = 1500\n");
    let mut client = Client::create(&gateway);
    let send = |client: &mut Client, prog: u32| {
        let text = format!("LS_reqId={prog}&LS_sequence=orders&LS_msg_prog={prog}&LS_message=m");
        client.send(&format!("msg\r\n{text}"));
        assert_eq!(client.line(), format!("REQOK,{prog}"));
    };
    send(&mut client, 1);
    assert_eq!(client.line(), "MSGDONE,orders,1,");

    lab.stop_broker(1).expect("stops");
    let begin = Instant::now();
    send(&mut client, 2);
    client.send("control\r\nLS_reqId=90&LS_op=delete&LS_subId=9");
    assert!(
        client.line().starts_with("REQERR,90,19,"),
        "other requests are not delayed"
    );
    let line = client.line();
    assert!(line.starts_with("MSGFAIL,orders,2,35,"), "{line}");
    let waited = begin.elapsed();
    assert!(
        waited.as_millis() >= 1_000 && waited < TEST_TIMEOUT / 4,
        "{waited:?}"
    );

    lab.start_broker(1, &interrupted).expect("starts");
    let mut prog = 3;
    loop {
        send(&mut client, prog);
        let line = client.line();
        if line == format!("MSGDONE,orders,{prog},") {
            break;
        }
        assert!(
            line.starts_with(&format!("MSGFAIL,orders,{prog},35,")),
            "{line}"
        );
        assert!(begin.elapsed() < TEST_TIMEOUT, "the broker is back");
        prog += 1;
    }
    wait_metric(&gateway, "weir_gateway_message_bytes_pending", |bytes| {
        bytes == 0
    });
    gateway.shut_down();
}

/// The SDK sends a sequence without waiting, then an unordered message and one that no rule covers.
#[test]
fn node_sdk_gets_outcomes() {
    let stop = AtomicBool::new(false);
    let sdk = match weir_lab::sdk::node(&mut |_| {}, &stop) {
        Ok(sdk) => sdk,
        Err(error) => return support::skipped(&format!("no Node SDK: {error}")),
    };
    let env = TestEnv::new();
    let gateway = start(&env, "max_bytes = 100\n");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/messages/sdk.js");
    let output = Command::new(&sdk.node_bin)
        .args([script, &format!("http://{}", gateway.listen_address())])
        .env("NODE_PATH", sdk.modules())
        .stdin(Stdio::null())
        .output()
        .expect("node runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let lines = String::from_utf8(output.stdout).expect("text");
    let mut lines: Vec<_> = lines.lines().collect();
    let ordered: Vec<_> = (1..=50)
        .map(|number| format!("processed order {number}"))
        .collect();
    let is_ordered = |line: &&str| line.starts_with("processed order ");
    assert!(
        lines
            .iter()
            .copied()
            .filter(is_ordered)
            .eq(ordered.iter().map(String::as_str))
    );
    lines.retain(|line| !is_ordered(line));
    lines.sort_unstable();
    let expected = [
        "denied -3 long",
        "denied 0 uncovered",
        "processed unordered",
    ];
    assert_eq!(lines, expected);
    let stored = records(&env, 51);
    let values: Vec<_> = stored
        .iter()
        .map(|record| text(record.value.as_ref()))
        .collect();
    let in_order = values.iter().filter(|value| value.starts_with("order "));
    let expected = (1..=50).map(|number| format!("order {number}"));
    assert!(in_order.cloned().eq(expected), "{values:?}");
    gateway.shut_down();
}
