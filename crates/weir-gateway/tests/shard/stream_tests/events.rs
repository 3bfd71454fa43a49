//! Server-sent events: shared frame classes and heartbeats.

use super::*;

impl TestEnv {
    /// Requests a stream and returns the status of a refusal.
    fn events(&mut self, number: u32, query: &str) -> Option<u16> {
        let text = format!("GET /sse?{query} HTTP/1.1\r\nHost: x\r\n\r\n");
        self.wire.peers.entry(number).or_default();
        let limits = ParseLimits {
            head_bytes: 1_000,
            body_bytes: 1_000,
        };
        let parsed = parse_request(text.as_bytes(), limits, ([127, 0, 0, 1], 1).into());
        let Ok(Parsed::Complete(request, _)) = parsed else {
            panic!("{parsed:?}")
        };
        let answer = http::respond(&mut self.shard, &mut self.wire, conn(number), &request);
        match answer {
            RequestOutcome::Respond(response) => Some(response.status),
            _ => None,
        }
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
