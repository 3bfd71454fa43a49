//! Sessions over all transports on a scripted clock, without sockets: lines, timers and ends of
//! sessions.

mod access;
mod adapter;
mod dialects;
mod events;
mod listing;
mod messages;

use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use bytes::Bytes;
use weir_fanout::SessionKey;
use weir_mapping::{ConfigReport, ParseOptions};
use weir_net::http1::{ParseLimits, Parsed, Response, parse_request};
use weir_net::server::{ConnId, RequestOutcome, TrySend};
use weir_net::tls::CertificateNames;
use weir_net::websocket::{DeflateWindow, server_text_payload};
use weir_tlcp::server::SessionConfig;

use super::timers::{ADAPTER_TIMER, DRAIN_STEP, END_POLLS, KEYS_TIMEOUT, LOGIN_TIMER};
use super::wire::Wire;
use super::{Placement, Shard, ShardContext, http};
use crate::limits::GatewayLimits;
use crate::messages::Messages;
use weir_ingest::Cluster;
use weir_ingest::KafkaConnection;
use weir_net::memory::MemoryUse;

use super::clients::ITEMS_PER_ITERATION;
use crate::adapter::AdapterAccess;
use crate::admission::{Admission, Origins};
use crate::config::UnknownNames;
use crate::metrics::ShardMetrics;
use crate::session_handles::SessionHandles;
use weir_access::Authenticator;

const ADAPTERS: &str = r#"<adapters_conf id="Set"><metadata_provider>
<adapter_class>com.lightstreamer.kafka.adapters.pub.KafkaConnectorMetadataAdapter</adapter_class>
<param name="logging.configuration.path">log4j.properties</param></metadata_provider>
<data_provider name="Data">
<adapter_class>com.lightstreamer.kafka.adapters.KafkaConnectorDataAdapter</adapter_class>
<param name="bootstrap.servers">nowhere:9092</param>
<param name="item-template.item">item-#{key=KEY}</param>
<param name="map.topic.to">item-template.item</param>
<param name="field.a">#{HEADERS.a}</param><param name="field.b">#{HEADERS.b}</param>
</data_provider></adapters_conf>"#;

/// One connection from the view of its peer.
#[derive(Default)]
struct Peer {
    tag: u64,
    lines: String,
    /// `true` during a response of unknown length.
    streams: bool,
    finished: usize,
    closed: bool,
    /// Close code of a WebSocket, if the gateway has chosen one.
    close_code: Option<u16>,
    /// `true` if the gateway's send queue is full.
    full: bool,
    /// `true` while the gateway does not handle input.
    paused: bool,
}

#[derive(Default)]
struct ScriptedWire {
    now_ms: u64,
    peers: HashMap<u32, Peer>,
    timers: BTreeMap<u64, Vec<u64>>,
}

/// Unix time at the start of the scripted clock.
const UNIX_START_MS: u64 = 1_800_000_000_000;

fn conn(number: u32) -> ConnId {
    ConnId::from_parts(number, 1)
}

impl ScriptedWire {
    fn peer(&mut self, id: ConnId) -> Option<&mut Peer> {
        let number = (0..1_000).find(|number| conn(*number) == id)?;
        Some(self.peers.entry(number).or_default())
    }

    fn lines(&mut self, number: u32) -> Vec<String> {
        let peer = self.peers.entry(number).or_default();
        let text = std::mem::take(&mut peer.lines);
        text.lines().map(str::to_owned).collect()
    }

    fn take(&mut self, id: ConnId, bytes: &[u8]) {
        let Some(peer) = self.peer(id) else { return };
        let lines = if bytes[0] == 0x81 {
            server_text_payload(bytes)
        } else {
            assert!(peer.streams, "chunk without a response");
            let at = bytes
                .iter()
                .position(|byte| *byte == b'\n')
                .expect("chunk size");
            &bytes[at + 1..bytes.len() - 2]
        };
        peer.lines += std::str::from_utf8(lines).expect("text");
    }
}

impl Wire for ScriptedWire {
    fn now_ms(&self) -> u64 {
        self.now_ms
    }

    fn send(&mut self, id: ConnId, chunk: Bytes) -> bool {
        let open = self.peer(id).is_some_and(|peer| !peer.closed && !peer.full);
        if open {
            self.take(id, &chunk);
        }
        open
    }

    fn try_send(&mut self, id: ConnId, chunk: Bytes) -> TrySend {
        match self.send(id, chunk) {
            true => TrySend::Queued,
            false => TrySend::Full,
        }
    }

    fn notify_writable(&mut self, _id: ConnId) {}

    fn close(&mut self, id: ConnId, last: Option<Bytes>, _drop_queued: bool) {
        if let Some(last) = last {
            self.take(id, &last);
        }
        if let Some(peer) = self.peer(id) {
            peer.closed = true;
        }
    }

    fn close_with(&mut self, id: ConnId, code: u16, last: Option<Bytes>, drop_queued: bool) {
        self.close(id, last, drop_queued);
        if let Some(peer) = self.peer(id) {
            peer.close_code = Some(code);
        }
    }

    fn begin_body(&mut self, id: ConnId, _head: &Response) {
        self.peer(id).expect("known peer").streams = true;
    }

    fn finish(&mut self, id: ConnId) {
        let peer = self.peer(id).expect("known peer");
        assert!(std::mem::take(&mut peer.streams), "no response to finish");
        peer.finished += 1;
    }

    fn respond(&mut self, id: ConnId, response: &Response) {
        let text = String::from_utf8(response.body.clone()).expect("text");
        self.peer(id).expect("known peer").lines += &text;
    }

    fn detach(&mut self, _id: ConnId) {
        unreachable!("there is only one shard");
    }

    fn pause_input(&mut self, id: ConnId) {
        self.peer(id).expect("known peer").paused = true;
    }

    fn resume_input(&mut self, id: ConnId) {
        self.peer(id).expect("known peer").paused = false;
    }

    fn unix_ms(&self) -> u64 {
        UNIX_START_MS + self.now_ms
    }

    fn tag(&mut self, id: ConnId) -> Option<u64> {
        self.peer(id)
            .filter(|peer| !peer.closed)
            .map(|peer| peer.tag)
    }

    fn set_tag(&mut self, id: ConnId, tag: u64) {
        if let Some(peer) = self.peer(id) {
            peer.tag = tag;
        }
    }

    fn set_timer(&mut self, at_ms: u64, token: u64) {
        self.timers.entry(at_ms).or_default().push(token);
    }

    fn admission_id(&mut self, _id: ConnId) -> u32 {
        0
    }

    fn queued_bytes(&mut self, _id: ConnId) -> usize {
        0
    }

    fn client_names(&mut self, _conn: ConnId) -> Option<CertificateNames> {
        None
    }

    fn deflate_window(&mut self, _id: ConnId) -> Option<DeflateWindow> {
        None
    }

    fn peer_ip(&mut self, _id: ConnId) -> Option<IpAddr> {
        Some(Ipv4Addr::LOCALHOST.into())
    }
}

/// Rules and adapters that decide about clients.
type Policies = (
    Option<Arc<Authenticator>>,
    Option<Arc<Messages>>,
    Option<AdapterAccess>,
);

struct TestEnv {
    shard: Shard,
    wire: ScriptedWire,
}

impl TestEnv {
    fn new(limits: GatewayLimits) -> Self {
        Self::with(limits, UnknownNames::default())
    }

    fn with(limits: GatewayLimits, unknown_names: UnknownNames) -> Self {
        Self::build(limits, unknown_names, None, None)
    }

    fn build(
        limits: GatewayLimits,
        unknown_names: UnknownNames,
        auth: Option<Arc<Authenticator>>,
        messages: Option<Arc<Messages>>,
    ) -> Self {
        Self::build_with(limits, unknown_names, (auth, messages, None))
    }

    fn build_with(
        limits: GatewayLimits,
        unknown_names: UnknownNames,
        (auth, messages, adapter): Policies,
    ) -> Self {
        let none = |_: &str| None;
        let options = ParseOptions::default();
        let mut report = ConfigReport::of("adapters.xml", ADAPTERS, &none, options);
        let config = report.connections.remove(0).expect("valid file");
        let cluster = Cluster::of(&config, &[], Default::default()).expect("valid settings");
        let admission = Arc::new(Admission::new(&limits, Origins::default(), 1));
        let shared = Arc::new(ShardContext {
            example_fields: BTreeMap::default(),
            audit: None,
            handles: SessionHandles::default(),
            set_id: "Set".to_owned(),
            connections: vec![Arc::new(KafkaConnection::new(
                config,
                cluster,
                None,
                &Default::default(),
            ))],
            session: SessionConfig::default(),
            limits,
            unknown_names,
            simulator: None,
            adapter,
            messages,
            auth,
            compression: Default::default(),
            diff_bytes_per_second: 0,
            admission,
            shards: 1,
            placement: Placement::new(1, 1),
            inboxes: Arc::default(),
        });
        Self {
            shard: Shard::new(0, shared, Arc::new(ShardMetrics::new(Default::default()))),
            wire: ScriptedWire::default(),
        }
    }

    fn ws(&mut self, number: u32, text: &str) -> Vec<String> {
        self.wire.peers.entry(number).or_default();
        self.shard
            .handle_message(&mut self.wire, conn(number), text);
        self.wire.lines(number)
    }

    fn http(&mut self, number: u32, name: &str, body: &str) -> Vec<String> {
        self.http_as("HTTP/1.1", number, name, body)
    }

    fn http_as(&mut self, version: &str, number: u32, name: &str, body: &str) -> Vec<String> {
        let text = format!(
            "POST /lightstreamer/{name}.txt?LS_protocol=TLCP-2.5.0 {version}\r\nHost: x\r\n\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
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
        if let RequestOutcome::Respond(response) = answer {
            self.wire.respond(conn(number), &response);
        }
        self.wire.lines(number)
    }

    fn create(&mut self, number: u32, options: &str) -> String {
        let lines = self.ws(
            number,
            &format!("create_session\r\nLS_adapter_set=Set&LS_send_sync=false{options}"),
        );
        lines[0].split(',').nth(1).expect("session id").to_owned()
    }

    /// Adds a subscription, which causes two data notifications.
    fn add(&mut self, id: &str, sub_id: u32) {
        let body = format!(
            "LS_session={id}&LS_reqId=1&LS_op=add&LS_subId={sub_id}&LS_mode=RAW\
             &LS_group=item-[key=x]&LS_schema=a&LS_data_adapter=Data"
        );
        assert_eq!(self.http(999, "control", &body), ["REQOK,1"]);
    }

    /// Advances the time; each timer fires at its time.
    /// Checks the requests that wait for keys, in as many iterations as needed.
    fn retry_waiting(&mut self) {
        while self.shard.retry_waiting(&mut self.wire) {}
    }

    fn pass(&mut self, ms: u64) {
        let end = self.wire.now_ms + ms;
        while let Some((at_ms, tokens)) = self.wire.timers.pop_first() {
            if at_ms > end {
                self.wire.timers.insert(at_ms, tokens);
                break;
            }
            self.wire.now_ms = self.wire.now_ms.max(at_ms);
            for token in tokens {
                match token {
                    END_POLLS => self.shard.clients.end_polls_with_data(&mut self.wire),
                    KEYS_TIMEOUT => {
                        self.shard.credentials.keys_changed();
                        self.retry_waiting();
                    }
                    ADAPTER_TIMER => self.shard.clients.end_aged(&mut self.wire),
                    LOGIN_TIMER => self.shard.end_silent(&mut self.wire),
                    DRAIN_STEP => self.shard.clients.drain_step(&mut self.wire),
                    session => {
                        let key = SessionKey::from_bits(session);
                        self.shard.clients.wake(&mut self.wire, key);
                    }
                }
            }
        }
        self.wire.now_ms = end;
    }

    /// Loses a connection.
    fn lose(&mut self, number: u32) {
        let peer = self.wire.peers.get_mut(&number).expect("known peer");
        peer.closed = true;
        let key = SessionKey::from_bits(peer.tag);
        self.shard.clients.lost(&mut self.wire, key);
    }

    fn sessions(&self) -> usize {
        self.shard.clients.sessions.len()
    }
}

const POLL: &str = "&LS_polling=true&LS_polling_millis=300&LS_idle_millis=8000&LS_reduce_head=true";

#[test]
fn streams_over_http_1_0_are_refused() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let id = env.create(1, "");
    let refusal = ["CONERR,67,sessions require HTTP/1.1 from clients and proxies"];
    for (number, name, body) in [
        (2, "create_session", "LS_adapter_set=Set".to_owned()),
        (3, "bind_session", format!("LS_session={id}")),
        (4, "bind_session", format!("LS_session={id}{POLL}")),
    ] {
        assert_eq!(env.http_as("HTTP/1.0", number, name, &body), refusal);
    }
    assert_eq!(env.sessions(), 1);
    let destroy = format!("LS_session={id}&LS_reqId=1&LS_op=destroy");
    let done = env.http_as("HTTP/1.0", 5, "control", &destroy);
    assert_eq!(done, ["REQOK,1"]);
}

#[test]
fn idle_streams_get_probes_and_idle_polls_end() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let first = env.create(1, "&LS_keepalive_millis=2000");
    let second = env.create(2, "");
    let bind = format!(
        "LS_session={second}&LS_send_sync=false&LS_keepalive_millis=3000&LS_reduce_head=true"
    );
    assert_eq!(env.http(3, "bind_session", &bind), [""; 0]);
    assert!(env.wire.peers[&2].closed, "the previous stream is closed");
    let third = env.create(4, POLL);
    env.pass(6_500);
    assert_eq!(env.wire.lines(1), ["PROBE"; 3]);
    assert_eq!(env.wire.lines(3), ["PROBE"; 2]);
    assert_eq!(env.wire.lines(4), [""; 0], "a poll gets no probe");
    env.pass(2_000);
    assert_eq!(env.wire.lines(4), ["LOOP,300"]);
    assert!(!env.wire.peers[&4].closed);
    env.add(&third, 1);
    let lines = env.ws(4, &format!("bind_session\r\n{}", &POLL[1..]));
    assert_eq!(
        lines,
        ["SUBOK,1,1,1", "CONF,1,unlimited,unfiltered", "LOOP,300"]
    );
    assert_ne!(first, third);
}

#[test]
fn unbound_sessions_time_out() {
    let limits = GatewayLimits::default();
    let (unbound_ms, recovery_ms) = (limits.unbound_timeout_ms, limits.recovery_ms);
    let mut env = TestEnv::new(limits);
    env.create(1, "&LS_polling=true&LS_polling_millis=300");
    env.pass(unbound_ms + 299);
    assert_eq!(env.sessions(), 1);
    env.pass(1);
    assert_eq!(env.sessions(), 0);
    assert!(env.wire.peers[&1].closed, "its WebSocket is closed");

    let id = env.create(2, "");
    env.add(&id, 1);
    env.lose(2);
    env.pass(recovery_ms - 1);
    let recover = format!(
        "LS_session={id}&LS_recovery_from=1&LS_polling=true&LS_polling_millis=0&LS_reduce_head=true"
    );
    let lines = env.http(3, "bind_session", &recover);
    assert_eq!(
        lines,
        [
            "PROG,0",
            "SUBOK,1,1,1",
            "CONF,1,unlimited,unfiltered",
            "LOOP,0"
        ],
        "both were in one frame, so both are sent again"
    );
    env.pass(unbound_ms - 1);
    assert_eq!(env.sessions(), 1);
    env.pass(1);
    assert_eq!(env.sessions(), 0);
    assert_eq!(env.shard.clients.writer.journal_bytes, 0);
    assert_eq!(env.shard.clients.writer.unbound, 0);
}

/// A client gives up a connection and recovers the session; then its last request on that
/// connection arrives and takes over the session.
#[test]
fn late_bind_request_loses_nothing() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let id = env.create(1, "");
    let bind = format!("LS_session={id}&LS_send_sync=false&LS_reduce_head=true");
    let subscribed = |number| {
        let confirmed = format!("SUBOK,{number},1,1");
        [confirmed, format!("CONF,{number},unlimited,unfiltered")]
    };
    env.add(&id, 1);
    env.lose(1);
    let recover = format!("{bind}&LS_recovery_from=2&LS_polling=true&LS_polling_millis=0");
    assert_eq!(env.http(2, "bind_session", &recover), ["PROG,2", "LOOP,0"]);
    assert_eq!(env.http(3, "bind_session", &bind), [""; 0], "the late one");
    env.add(&id, 2);
    assert_eq!(env.wire.lines(3), subscribed(2));
    env.lose(3);
    assert_eq!(env.http(4, "bind_session", &bind), subscribed(2));
    // Also if the gateway has not noticed the end of that connection.
    assert_eq!(env.http(5, "bind_session", &bind), subscribed(2));
    let rebind = format!("LS_session={id}&LS_reqId=1&LS_op=force_rebind");
    assert_eq!(env.http(6, "control", &rebind), ["REQOK,1"]);
    assert_eq!(env.wire.lines(5), ["LOOP,0"]);
    assert_eq!(
        env.http(7, "bind_session", &bind),
        [""; 0],
        "all was received"
    );
}

#[test]
fn recovery_covers_recent_notifications_only() {
    let limits = GatewayLimits::default();
    let recovery_ms = limits.recovery_ms;
    let mut env = TestEnv::new(limits);
    let id = env.create(1, "");
    env.add(&id, 1);
    assert!(env.shard.clients.writer.journal_bytes > 0);
    env.pass(recovery_ms + 6_000);
    assert_eq!(
        env.shard.clients.writer.journal_bytes, 0,
        "an idle session stores no frames"
    );
    env.add(&id, 2);
    env.lose(1);
    let recover = |from| {
        format!(
            "LS_session={id}&LS_recovery_from={from}&LS_polling=true&LS_polling_millis=0\
             &LS_reduce_head=true"
        )
    };
    assert!(env.http(2, "bind_session", &recover(1))[0].starts_with("CONERR,4,"));
    let lines = env.http(2, "bind_session", &recover(2));
    assert_eq!(lines[..2], ["PROG,2", "SUBOK,2,1,1"]);
}

#[test]
fn heartbeats_over_any_connection_prevent_inactivity_timeout() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let id = env.create(1, "&LS_inactivity_millis=1000");
    for _ in 0..10 {
        env.pass(2_999);
        let beat = format!("LS_session={id}");
        assert_eq!(env.http(2, "heartbeat", &beat), ["REQOK"]);
        assert_eq!(env.ws(3, &format!("heartbeat\r\n{beat}")), [""; 0]);
    }
    assert!(!env.wire.peers[&1].closed);
    env.pass(3_000);
    assert!(env.wire.peers[&1].closed);
    assert_eq!((env.sessions(), env.shard.clients.writer.unbound), (1, 1));
}

#[test]
fn http_stream_keeps_to_its_content_length() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let id = env.create(1, "");
    let bind =
        format!("LS_session={id}&LS_content_length=1000&LS_send_sync=false&LS_reduce_head=true");
    let (mut answers, mut bytes) = (0, 0);
    env.http(2, "bind_session", &bind);
    let mut confirmed = 0;
    for sub_id in 1..200 {
        env.add(&id, sub_id);
        let text = std::mem::take(&mut env.wire.peers.get_mut(&2).expect("known peer").lines);
        bytes += text.len();
        assert!(bytes <= 1_000, "{bytes}");
        confirmed += text.matches("SUBOK").count();
        if text.ends_with("LOOP,0\r\n") {
            answers += 1;
            assert_eq!(env.wire.peers[&2].finished, answers);
            assert!(bytes > 900, "{bytes}");
            let lines = env.http(2, "bind_session", &bind);
            confirmed += lines
                .iter()
                .filter(|line| line.starts_with("SUBOK"))
                .count();
            bytes = lines.iter().map(|line| line.len() + 2).sum();
        }
    }
    assert!(answers > 5);
    assert_eq!(confirmed, 199, "nothing is lost between responses");
}

#[test]
fn timers_do_not_accumulate() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let id = env.create(1, POLL);
    for sub_id in 1..500 {
        env.add(&id, sub_id);
        env.pass(16);
        env.ws(1, &format!("bind_session\r\n{}", &POLL[1..]));
        env.pass(1);
    }
    let waiting: usize = env.wire.timers.values().map(Vec::len).sum();
    assert!(waiting < 10, "{waiting} timers");
}

#[test]
fn unsent_data_is_sent_before_new_data() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let id = env.create(1, "");
    env.ws(1, "control\r\nLS_reqId=7&LS_op=force_rebind");
    env.add(&id, 1);
    env.wire.peers.entry(2).or_default();
    let bind = format!("bind_session\r\nLS_session={id}&LS_send_sync=false&LS_reduce_head=true");
    env.wire.peers.get_mut(&2).expect("known peer").full = true;
    assert_eq!(env.ws(2, &bind), [""; 0]);
    env.add(&id, 2);
    env.wire.peers.get_mut(&2).expect("known peer").full = false;
    env.add(&id, 3);
    assert_eq!(
        env.wire.lines(2),
        [""; 0],
        "responses do not overtake unsent data"
    );
    let key = SessionKey::from_bits(env.wire.peers[&2].tag);
    env.shard.clients.resume(&mut env.wire, key);
    let lines = env.wire.lines(2);
    let confirmed: Vec<_> = lines
        .iter()
        .filter(|line| line.starts_with("SUBOK"))
        .collect();
    assert_eq!(confirmed, ["SUBOK,1,1,1", "SUBOK,2,1,1", "SUBOK,3,1,1"]);
}

#[test]
fn drain_is_spread_over_its_period() {
    let mut env = TestEnv::new(GatewayLimits::default());
    for number in 1..=50 {
        env.create(number, "");
    }
    env.shard.clients.begin_drain(&mut env.wire, 1_000);
    let mut left = Vec::new();
    for _ in 0..10 {
        left.push(env.sessions());
        env.pass(100);
    }
    assert_eq!(env.sessions(), 0);
    assert_eq!(left[0], 49);
    assert!(
        left.windows(2)
            .all(|two| (4..=7).contains(&(two[0] - two[1]))),
        "{left:?}"
    );
    for number in 1..=50 {
        assert_eq!(
            env.wire.lines(number),
            ["END,48,the gateway is shutting down"]
        );
    }
    let refused = env.ws(51, "create_session\r\nLS_adapter_set=Set");
    assert!(refused[0].starts_with("CONERR,6,"), "{refused:?}");
}

/// Returns a subscription request for `count` items, numbered from `first`.
fn add_many(sub_id: u32, first: usize, count: usize) -> String {
    let names: Vec<_> = (first..first + count)
        .map(|number| format!("item-[key=k{number}]"))
        .collect();
    format!(
        "control\r\nLS_reqId=1&LS_op=add&LS_subId={sub_id}&LS_mode=RAW&LS_group={}\
         &LS_schema=a&LS_data_adapter=Data",
        names.join("%20")
    )
}

#[test]
fn ended_session_releases_items_in_slices() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let unused = env.shard.clients.items.size;
    let subscribe = |env: &mut TestEnv, number: u32, sub_id: u32| {
        let first = sub_id as usize * ITEMS_PER_ITERATION;
        env.ws(number, &add_many(sub_id, first, ITEMS_PER_ITERATION));
        env.shard.clients.work.items = 0;
    };
    for number in [1, 2] {
        env.create(number, "");
        (0..3).for_each(|sub_id| subscribe(&mut env, number, sub_id + 1));
    }
    assert_eq!(
        env.shard.clients.items.size.members,
        6 * ITEMS_PER_ITERATION
    );
    let held = env.shard.clients.shared.admission.held.bytes();
    assert!(held > 3 * ITEMS_PER_ITERATION * 1_000, "{held}");

    let destroy = "control\r\nLS_reqId=9&LS_op=destroy&LS_close_socket=false";
    env.ws(1, destroy);
    assert_eq!(env.sessions(), 1, "ended sessions are not counted");
    assert!(
        env.shard.clients.items.size.members >= 5 * ITEMS_PER_ITERATION,
        "most items are still to be released"
    );
    // Other subscribers of its items leave meanwhile.
    env.ws(2, "control\r\nLS_reqId=3&LS_op=delete&LS_subId=2");
    env.ws(2, destroy);
    let mut iterations = 0;
    while env.shard.clients.items.size != unused {
        let before = env.shard.clients.items.size.members;
        env.shard.clients.work.items = 0;
        env.shard.clients.tear_down();
        let released = before - env.shard.clients.items.size.members;
        assert!(
            released <= ITEMS_PER_ITERATION,
            "{released} in one iteration"
        );
        iterations += 1;
        assert!(iterations < 20, "release makes no progress");
    }
    env.shard.clients.work.items = 0;
    env.shard.clients.tear_down();
    assert_eq!(
        (
            env.shard.clients.items.len(),
            env.shard.clients.counters.subscriptions
        ),
        (0, 0)
    );
    assert!(env.shard.clients.work.ended_sessions.is_empty());
    env.shard.clients.schemas.sweep();
    env.shard.clients.count_held();
    assert_eq!(env.shard.clients.shared.admission.held.bytes(), 0);
}

#[test]
fn items_per_session_are_limited() {
    let limits = GatewayLimits {
        items_per_session: 5,
        ..GatewayLimits::default()
    };
    let mut env = TestEnv::new(limits);
    env.create(1, "");
    env.ws(1, &add_many(1, 0, 3));
    let refused = env.ws(1, &add_many(2, 3, 3));
    assert!(
        refused[0].starts_with("REQERR,1,68,more than 5 items"),
        "{refused:?}"
    );
    let room = env.ws(1, &add_many(3, 3, 2));
    assert!(room[0].starts_with("REQOK,1"), "{room:?}");
}

#[test]
fn sessions_are_refused_while_memory_is_short() {
    let mut env = TestEnv::new(GatewayLimits::default());
    let id = env.create(1, "");
    let overload = &env.shard.clients.shared.admission.overload;
    overload.observe(MemoryUse {
        used: 100,
        max: 100,
    });
    let refused = env.ws(2, "create_session\r\nLS_adapter_set=Set");
    assert!(
        refused[0].starts_with("CONERR,6,the gateway is short of memory"),
        "{refused:?}"
    );
    let refused = env.ws(1, &add_many(1, 0, 1));
    assert!(
        refused[0].starts_with("REQERR,1,68,the gateway is short"),
        "{refused:?}"
    );
    let overload = &env.shard.clients.shared.admission.overload;
    overload.observe(MemoryUse { used: 1, max: 100 });
    env.add(&id, 1);
}
