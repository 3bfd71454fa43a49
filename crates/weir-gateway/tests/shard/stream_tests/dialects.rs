//! Unusual clients: older protocol versions, short line limits, unknown names, and client messages.

use weir_fanout::{AcceptedDiffs, ItemKey};
use weir_mapping::{FieldSet, FieldValues, RecordView};
use weir_tlcp::Version;
use weir_tlcp::request::Diffs;

use super::*;
use crate::config::UnknownNames;

const PYTHON: &str = "Python/3.11 aiohttp/3.14.5";

impl TestEnv {
    /// Opens a WebSocket; returns the negotiated subprotocol.
    fn upgrade(&mut self, number: u32, offers: &str, user_agent: &str) -> Option<&'static str> {
        let text = format!(
            "GET /lightstreamer HTTP/1.1\r\nHost: x\r\n\
             Upgrade: websocket\r\nConnection: Upgrade\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
             Sec-WebSocket-Protocol: {offers}\r\nUser-Agent: {user_agent}\r\n\r\n"
        );
        match self.request(number, &text) {
            RequestOutcome::Upgrade { protocol, .. } => protocol,
            RequestOutcome::Respond(response) => {
                assert_eq!(response.status, 400);
                None
            }
            other => panic!("{other:?}"),
        }
    }

    fn request(&mut self, number: u32, text: &str) -> RequestOutcome {
        self.wire.peers.entry(number).or_default();
        let limits = ParseLimits {
            head_bytes: 1_000,
            body_bytes: 1_000,
        };
        let parsed = parse_request(text.as_bytes(), limits, ([127, 0, 0, 1], 1).into());
        let Ok(Parsed::Complete(request, _)) = parsed else {
            panic!("{parsed:?}")
        };
        http::respond(&mut self.shard, &mut self.wire, conn(number), &request)
    }

    /// Sends a request of a Python client over HTTP in a protocol version.
    fn python(&mut self, number: u32, name: &str, version: Version, body: &str) -> Vec<String> {
        let text = format!(
            "POST /lightstreamer/{name}.txt?LS_protocol={} HTTP/1.1\r\nHost: x\r\n\
             User-Agent: {PYTHON}\r\nContent-Length: {}\r\n\r\n{body}",
            version.name(),
            body.len()
        );
        if let RequestOutcome::Respond(response) = self.request(number, &text) {
            self.wire.respond(conn(number), &response);
        }
        self.wire.lines(number)
    }

    /// Subscribes over another connection; returns the response.
    fn subscribe(&mut self, id: &str, rest: &str) -> String {
        let body =
            format!("LS_session={id}&LS_reqId=1&LS_op=add&LS_subId=1&LS_data_adapter=Data{rest}");
        self.http(999, "control", &body).remove(0)
    }

    /// Returns the item that was subscribed last.
    fn wanted(&self) -> ItemKey {
        let mut found = None;
        let connection = &self.shard.clients.shared.connections[0];
        connection.workers[0].interests.take(|interest| {
            if let Some(wanted) = interest.subscribed() {
                found = Some(wanted.item);
            }
        });
        found.expect("interest in an item")
    }

    /// Delivers a record of an item with these values of the fields `a` and `b`.
    fn record(&mut self, item: ItemKey, a: &str, b: &str) {
        let view = RecordView {
            topic: "topic",
            partition: 0,
            offset: 0,
            timestamp_ms: 0,
            key: Some(b"x"),
            value: None,
            headers: &[("a", Some(a.as_bytes())), ("b", Some(b.as_bytes()))],
        };
        let connection = Arc::clone(&self.shard.clients.shared.connections[0]);
        let mapping = &connection.config.mapping;
        let (fields, mut values) = (Arc::new(FieldSet::all(2)), FieldValues::default());
        let read = mapping.field_values(&view, &fields, &mut values);
        read.expect("both fields are present");
        let update = Arc::new(values.freeze());
        (self.shard.clients).fan_out(&mut self.wire, item, update, &fields);
    }
}

const ITEM: &str = "&LS_group=item-[key=x]&LS_schema=a%20b";

#[test]
fn each_version_is_negotiated() {
    for (number, version) in (1..).zip(Version::all()) {
        let mut env = TestEnv::new(GatewayLimits::default());
        let own = version.subprotocol();
        assert_eq!(env.upgrade(number, own, "x"), Some(own));
        let id = env.create(number, "");
        let key = env
            .shard
            .clients
            .sessions
            .find(&id)
            .expect("session exists");
        let diffs = env
            .shard
            .clients
            .sessions
            .get_mut(key)
            .expect("session exists")
            .diffs;
        let readable = match version {
            Version::V2_1 => Diffs::NONE,
            _ => Diffs::ANY,
        };
        let readable = AcceptedDiffs::from(readable);
        assert_eq!(diffs, readable, "{version:?}");
        // Over HTTP, the session continues with the same version only.
        for (number, other) in (70..).zip(Version::all()) {
            let bind = format!("LS_session={id}{POLL}");
            let lines = env.python(number, "bind_session", other, &bind);
            match other == version {
                true => assert_eq!(lines, [""; 0]),
                false => assert!(lines[0].starts_with("CONERR,3,"), "{lines:?}"),
            }
        }
        let lines = env.python(80, "create_session", version, "LS_adapter_set=Set");
        let id = lines[0].split(',').nth(1).expect("session id");
        let key = env.shard.clients.sessions.find(id).expect("session exists");
        let entry = env
            .shard
            .clients
            .sessions
            .get_mut(key)
            .expect("session exists");
        assert_eq!((entry.version, entry.diffs), (version, readable));
    }
    let mut env = TestEnv::new(GatewayLimits::default());
    assert_eq!(env.upgrade(1, "TLCP-2.0.0.lightstreamer.com", "x"), None);
    assert_eq!(env.upgrade(1, "", "x"), None);
}

#[test]
fn dialect_is_stored_per_connection() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let oldest = Version::V2_1.subprotocol();
    env.upgrade(1, oldest, PYTHON);
    env.upgrade(2, Version::NEWEST.subprotocol(), "okhttp/4.12.0");
    let dialects = env.shard.dialects.stored();
    assert_eq!(dialects.len(), 1, "the default is not stored");
    let dialect = dialects[&conn(1)];
    let first = env.create(1, "");
    let bind = format!("bind_session\r\nLS_session={first}");
    let lines = env.ws(2, &bind);
    assert!(lines[0].starts_with("CONERR,3,"), "{lines:?}");
    env.shard.dialects.insert(conn(2), dialect);
    let lines = env.ws(2, &bind);
    assert!(lines[0].starts_with("CONOK,"), "{lines:?}");
}

#[test]
fn unknown_names_are_refused() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let id = env.create(1, "");
    for (rest, answer) in [
        (
            "&LS_mode=RAW&LS_group=other&LS_schema=a",
            "REQERR,1,21,no topic of connection [Data] has an item \"other\"",
        ),
        // One unmatched item refuses the whole list, because updates name items by their position.
        (
            "&LS_mode=MERGE&LS_group=item-[key=x]%20item-[k=x]&LS_schema=a",
            "REQERR,1,21,no topic of connection [Data] has an item \"item-[k=x]\"",
        ),
        (
            "&LS_mode=RAW&LS_group=item-[key=x]&LS_schema=a%20c%20b",
            "REQERR,1,23,connection [Data] has no field \"c\"",
        ),
        (
            "&LS_mode=COMMAND&LS_group=item-[key=x]&LS_schema=key%20a",
            "REQERR,1,16,Schema has no command field",
        ),
    ] {
        assert_eq!(env.subscribe(&id, rest), answer);
    }
    let long = "y".repeat(500);
    let answer = env.subscribe(&id, &format!("&LS_mode=RAW&LS_group={long}&LS_schema=a"));
    assert!(answer.len() < 150, "{answer}");
    assert_eq!(env.wire.lines(1), [""; 0], "no item was subscribed");
    assert_eq!(env.shard.clients.counters.subscriptions, 0);
    assert_eq!(
        env.subscribe(&id, &format!("&LS_mode=RAW{ITEM}")),
        "REQOK,1"
    );
}

#[test]
fn unknown_names_are_accepted_if_configured() {
    let mut env = TestEnv::with(GatewayLimits::default(), UnknownNames::Accept);
    let id = env.create(1, "");
    let rest = "&LS_mode=RAW&LS_group=other%20item-[key=x]&LS_schema=c%20a";
    assert_eq!(env.subscribe(&id, rest), "REQOK,1");
    let item = env.wanted();
    env.record(item, "1", "2");
    let lines = env.wire.lines(1);
    assert_eq!(
        lines,
        ["SUBOK,1,2,2", "CONF,1,unlimited,unfiltered", "U,1,2,#|1"]
    );
}

#[test]
fn refused_message_fails_if_outcome_is_requested() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let id = env.create(1, "");
    let failed = "0,this gateway takes no messages";
    for (rest, answers) in [
        (
            "&LS_msg_prog=1",
            vec!["REQOK,5".to_owned(), format!("MSGFAIL,*,1,{failed}")],
        ),
        (
            "&LS_msg_prog=2&LS_sequence=A_1&LS_ack=false",
            vec![format!("MSGFAIL,A_1,2,{failed}")],
        ),
        (
            "&LS_msg_prog=3&LS_sequence=A_1&LS_outcome=false",
            vec!["REQOK,5".to_owned()],
        ),
        ("&LS_outcome=false&LS_ack=false", vec![]),
    ] {
        let lines = env.ws(1, &format!("msg\r\nLS_reqId=5&LS_message=hi{rest}"));
        assert_eq!(lines, answers, "{rest}");
    }
    // The response returns to the connection of the request, the outcome to the stream.
    let body = format!("LS_session={id}&LS_reqId=6&LS_message=hi&LS_msg_prog=4");
    assert_eq!(env.http(2, "msg", &body), ["REQOK,6"]);
    assert_eq!(env.wire.lines(1), [format!("MSGFAIL,*,4,{failed}")]);
    let body = "LS_session=S1&LS_reqId=7&LS_message=hi&LS_msg_prog=4";
    assert_eq!(env.http(2, "msg", body), ["REQERR,7,20,Session not found"]);
    // The outcome is a data notification: the client that has received three of three needs no
    // repetition.
    env.lose(1);
    let recover = format!("LS_session={id}&LS_recovery_from=3&LS_reduce_head=true{POLL}");
    assert_eq!(env.http(3, "bind_session", &recover), ["PROG,3"]);
}

#[test]
fn too_long_update_is_reported_lost() {
    let limits = GatewayLimits {
        line_bytes: 100,
        ..GatewayLimits::default()
    };
    let long = "z".repeat(90);
    for (mode, begin) in [("RAW", "unfiltered"), ("MERGE", "filtered")] {
        let mut env = TestEnv::new(limits.clone());
        let id = env.create(1, "");
        assert_eq!(
            env.subscribe(&id, &format!("&LS_mode={mode}{ITEM}")),
            "REQOK,1"
        );
        let item = env.wanted();
        for (a, b) in [("1", "2"), (&long, "2"), ("3", "2"), ("4", "2")] {
            env.record(item, a, b);
        }
        let conf = format!("CONF,1,unlimited,{begin}");
        let expected = [
            "SUBOK,1,1,2",
            &conf,
            "U,1,1,1|2",
            "OV,1,1,1",
            "U,1,1,3|2",
            "U,1,1,4|",
        ];
        assert_eq!(env.wire.lines(1), expected, "{mode}");
        assert_eq!(env.shard.clients.delivery.publish(0).too_long, 1);
    }
}

#[test]
fn too_long_queued_update_is_reported_lost() {
    let mut env = TestEnv::new(GatewayLimits {
        line_bytes: 100,
        ..GatewayLimits::default()
    });
    let id = env.create(1, "");
    assert_eq!(
        env.subscribe(&id, &format!("&LS_mode=MERGE{ITEM}")),
        "REQOK,1"
    );
    let item = env.wanted();
    env.record(item, &"z".repeat(90), "2");
    env.wire.lines(1);
    // The snapshot of a new subscriber is made of known values.
    let other = env.create(2, "");
    let with_snapshot = format!("&LS_mode=MERGE{ITEM}&LS_snapshot=true");
    assert_eq!(env.subscribe(&other, &with_snapshot), "REQOK,1");
    let expected = ["SUBOK,1,1,2", "CONF,1,unlimited,filtered", "OV,1,1,1"];
    assert_eq!(env.wire.lines(2), expected);
    env.record(item, "3", "2");
    assert_eq!(env.wire.lines(2), ["U,1,1,3|2"]);
    assert_eq!(env.shard.clients.delivery.publish(0).too_long, 2);
}

#[test]
fn line_limit_depends_on_the_transport() {
    let long = "z".repeat(600_000);
    let mut env = TestEnv::new(GatewayLimits {
        recovery_bytes: 1 << 20,
        ..GatewayLimits::default()
    });
    env.upgrade(1, Version::NEWEST.subprotocol(), PYTHON);
    let id = env.create(1, "");
    assert_eq!(
        env.subscribe(&id, &format!("&LS_mode=RAW{ITEM}")),
        "REQOK,1"
    );
    let item = env.wanted();
    env.record(item, &long, "2");
    assert_eq!(
        env.wire.lines(1)[2].len(),
        600_008,
        "the line limit of WebSockets is higher"
    );
    // Recovery would send the line over HTTP again and again.
    env.lose(1);
    let recover = format!("LS_session={id}&LS_recovery_from=2{POLL}");
    let lines = env.python(3, "bind_session", Version::NEWEST, &recover);
    assert!(lines[0].starts_with("CONERR,4,"), "{lines:?}");
    // The SDK creates a new session, on a transport where it receives no such line.
    let create = "LS_adapter_set=Set&LS_send_sync=false&LS_reduce_head=true";
    let lines = env.python(4, "create_session", Version::NEWEST, create);
    let id = lines[0].split(',').nth(1).expect("an id").to_owned();
    assert_eq!(
        env.subscribe(&id, &format!("&LS_mode=RAW{ITEM}")),
        "REQOK,1"
    );
    env.record(item, &long, "2");
    env.record(item, "1", "2");
    assert_eq!(env.wire.lines(4)[2..], ["OV,1,1,1", "U,1,1,1|2"]);
}
