//! Clients without an SDK: shared frame classes, heartbeats and the time for the first message.

use super::*;
use weir_fanout::events::{EventLimits, parse_message};

impl TestEnv {
    /// Requests a stream and returns the status of a refusal.
    fn events(&mut self, number: u32, query: &str) -> Option<u16> {
        match self.get(number, &format!("/sse?{query}"), "") {
            RequestOutcome::Respond(response) => Some(response.status),
            _ => None,
        }
    }

    fn get(&mut self, number: u32, target: &str, head: &str) -> RequestOutcome {
        let text = format!("GET {target} HTTP/1.1\r\nHost: x\r\n{head}\r\n");
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

    /// Opens a WebSocket.
    fn socket(&mut self, number: u32) {
        let head = "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
                    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
        let outcome = self.get(number, "/ws", head);
        assert!(matches!(outcome, RequestOutcome::Upgrade { .. }));
    }

    /// Sends a message and returns what the client gets, with `}` after each document.
    fn json(&mut self, number: u32, text: &str) -> String {
        let limits = EventLimits {
            items: 10,
            fields: 10,
            name_bytes: 100,
        };
        let message = parse_message(text, limits);
        self.shard
            .handle_json(&mut self.wire, conn(number), message);
        self.wire.lines(number).concat()
    }
}

const ONE: &str = "item=item-[key=a]";
const BOTH: &str = "item=item-[key=b]&item=item-[key=a]";

#[test]
fn event_clients_share_frame_classes_in_any_order() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let classes = |env: &TestEnv| env.shard.clients.items.size.classes;
    assert_eq!(env.events(1, ONE), None);
    assert_eq!(env.events(2, BOTH), None);
    assert_eq!(env.events(3, "item=item-[key=a]&item=item-[key=b]"), None);
    assert_eq!(classes(&env), 2);
    assert_eq!(env.events(4, "item=item-[key=a]&fields=a"), None);
    assert_eq!(env.events(5, "item=item-[key=a]&mode=raw"), None);
    assert_eq!(classes(&env), 4);
    assert_eq!(env.shard.clients.items.size.members, 7);
}

#[test]
fn item_under_two_names_is_refused() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let query = "item=item-[key=a]&item=item-%5Bkey=a%5D";
    assert_eq!(env.events(1, query), None, "the same name");
    let query = "item=item-[key=a]&item=item-[key=a%20]";
    assert!(env.events(2, query).is_some());
    assert_eq!(env.shard.clients.sessions.len(), 1);
}

#[test]
fn idle_stream_gets_heartbeats_until_it_is_lost() {
    let mut env = TestEnv::new(GatewayLimits::default());
    assert_eq!(env.events(1, ONE), None);
    let first = env.wire.lines(1);
    assert!(first[0].starts_with("retry: ") && first[1].is_empty());
    env.pass(4_999);
    assert_eq!(env.wire.lines(1), [""; 0]);
    env.pass(2);
    assert_eq!(env.wire.lines(1), [":", ""]);
    let key = env.shard.clients.sessions.keys()[0];
    env.shard.clients.lost(&mut env.wire, key);
    assert_eq!(env.shard.clients.sessions.len(), 0);
    assert_eq!(env.shard.clients.items.len(), 0);
}

const SUBSCRIBE: &str = r#"{"type":"subscribe","items":["item-[key=a]"]}"#;

#[test]
fn sockets_and_streams_have_own_frame_classes() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let open = r#"{"event":"open"}{"event":"subscribed","item":"item-[key=a]"}"#;
    for number in 1..4 {
        env.socket(number);
        assert_eq!(env.json(number, SUBSCRIBE), open);
    }
    assert_eq!(env.events(4, ONE), None);
    assert_eq!(env.shard.clients.items.size.classes, 2);
    assert_eq!(env.shard.clients.items.size.members, 4);
    env.wire.lines(1);
    env.pass(5_001);
    assert_eq!(env.wire.lines(1), [r#"{"event":"heartbeat"}"#]);
}

#[test]
fn socket_without_a_message_is_closed_in_time() {
    let mut env = TestEnv::new(GatewayLimits::default());
    env.socket(1);
    env.pass(4_000);
    env.socket(2);
    env.socket(3);
    assert!(env.json(3, SUBSCRIBE).contains("open"));
    env.pass(5_999);
    assert!(!env.wire.peers[&1].closed);
    env.pass(2);
    let text = env.wire.lines(1).concat();
    assert!(
        text.starts_with(r#"{"event":"end","code":67,"message":"no message in time"#),
        "{text}"
    );
    assert_eq!(env.wire.peers[&1].close_code, Some(1008));
    assert!(!env.wire.peers[&2].closed);
    env.pass(4_000);
    assert!(env.wire.peers[&2].closed && !env.wire.peers[&3].closed);
    assert_eq!(env.sessions(), 1);
}

#[test]
fn items_of_sockets_are_separate() {
    let mut env = TestEnv::new(GatewayLimits::default());
    for number in 1..3 {
        env.socket(number);
        env.json(number, SUBSCRIBE);
    }
    let unsubscribe = r#"{"type":"unsubscribe","items":["item-[key=a]","item-[key=b]"]}"#;
    let confirmed = r#"{"event":"unsubscribed","item":"item-[key=a]"}"#;
    let refused = r#"{"event":"refused","item":"item-[key=b]","code":19"#;
    let lines = env.json(1, unsubscribe);
    assert!(
        lines.starts_with(&format!("{confirmed}{refused}")),
        "{lines}"
    );
    let again = env.json(1, unsubscribe);
    assert!(
        again.starts_with(r#"{"event":"refused","item":"item-[key=a]","code":19"#),
        "{again}"
    );
    assert_eq!(env.shard.clients.items.size.members, 1);
    env.lose(2);
    assert_eq!(env.shard.clients.items.len(), 0);
}
