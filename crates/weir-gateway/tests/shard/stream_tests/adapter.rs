//! A scripted remote adapter decides about clients, or is down, slow or wrong.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_access::{AccessConfig, RawAccess};
use weir_adapter::{
    AdapterConfig, AdapterMetrics, AdapterPort, AdapterProtocol, CloseRecovery, NotificationTicket,
    ProtocolAction, ProtocolOptions, WhileDown,
};
use weir_identity::ari::{AdapterRequest, NotificationResult};
use weir_mapping::ConnectionConfig;
use weir_net::lock;

use super::*;
use crate::adapter::{AdapterEvent, AdapterToken};
use crate::messages::MessageConfig;

/// The protocol of the gateway, without a thread.
#[derive(Debug)]
struct ScriptedPort {
    protocol: Mutex<AdapterProtocol<AdapterToken>>,
    metrics: Arc<AdapterMetrics>,
    now_ms: AtomicU64,
}

impl ScriptedPort {
    fn now_ms(&self) -> u64 {
        self.now_ms.load(Ordering::Relaxed)
    }
}

impl AdapterPort<AdapterToken> for ScriptedPort {
    fn request(&self, request: AdapterRequest, token: AdapterToken, while_down: WhileDown) -> bool {
        let mut protocol = lock(&self.protocol);
        protocol.request(request, token, while_down, self.now_ms());
        true
    }

    fn notify_close(&self, request: AdapterRequest) {
        lock(&self.protocol).notify_close(request, self.now_ms());
    }

    fn respond(&self, ticket: NotificationTicket, result: NotificationResult) {
        lock(&self.protocol).respond(ticket, &result, self.now_ms());
    }

    fn metrics(&self) -> &AdapterMetrics {
        &self.metrics
    }
}

/// A shard with an adapter, whose lines the test writes and reads.
struct AdapterEnv {
    env: TestEnv,
    port: Arc<ScriptedPort>,
    /// Lines for the adapter that are not taken yet.
    requests: Vec<String>,
}

const BUSY: &str = "CONERR,6,the gateway is busy%2C try again later";
const NO_SUBSCRIPTIONS: &str = "REQERR,1,68,subscriptions are not possible%2C try again later";
const ADD: &str = "LS_reqId=1&LS_op=add&LS_subId=1&LS_mode=MERGE&LS_group=mine&LS_schema=x\
                   &LS_data_adapter=Data&LS_snapshot=false";
const MESSAGE: &str = "msg\r\nLS_reqId=m&LS_sequence=s&LS_msg_prog=1&LS_message=buy";

impl AdapterEnv {
    fn new() -> Self {
        Self::with("", "", 10_000)
    }

    /// Creates a shard with keys of `[adapter]`, sections on access, and a number of pending
    /// requests.
    fn with(keys: &str, sections: &str, pending_max: usize) -> Self {
        let raw = toml::from_str(&format!("listen = \"127.0.0.1:0\"\n{keys}"));
        let config = AdapterConfig::new(raw.expect("keys"), ".".as_ref()).expect("valid keys");
        let metrics = Arc::new(AdapterMetrics::default());
        let options = ProtocolOptions {
            users: Vec::new(),
            parameters: Vec::new(),
            timeout_ms: config.timeout_ms,
            activity_timeout_ms: config.activity_timeout_ms,
            pending_max,
            close_recovery: CloseRecovery::Unneeded,
        };
        let protocol = AdapterProtocol::new(options, Arc::clone(&metrics));
        let port = Arc::new(ScriptedPort {
            protocol: Mutex::new(protocol),
            metrics,
            now_ms: AtomicU64::new(0),
        });
        let access: RawAccess = toml::from_str(sections).expect("valid TOML");
        let access = AccessConfig::new(access, ".".as_ref()).expect("valid sections");
        let auth = access.map(|access| Arc::new(Authenticator::new(access, &["Data"])));
        let adapter = AdapterAccess {
            port: Arc::clone(&port) as _,
            unavailable: config.unavailable,
            identifies: true,
        };
        let policies = (auth, Some(messages()), Some(adapter));
        let env = TestEnv::build_with(GatewayLimits::default(), UnknownNames::default(), policies);
        let requests = Vec::new();
        Self {
            env,
            port,
            requests,
        }
    }

    /// Returns a shard with an adapter that is ready.
    fn ready() -> Self {
        let mut env = Self::new();
        env.connect();
        env
    }

    fn connect(&mut self) {
        lock(&self.port.protocol).on_connected(self.port.now_ms());
        self.feed("1|RAC|S|enableClosePacket|S|true");
        let line = self.requests.pop().expect("a line");
        assert!(line.starts_with("w0|MPI|"), "{line}");
        self.feed("w0|MPI|S|ARI.version|S|1.9.1");
        assert!(self.port.metrics.is_connected());
    }

    /// Sends a line of the adapter.
    fn feed(&mut self, line: &str) {
        let bytes = format!("{line}\r\n");
        lock(&self.port.protocol).on_received(bytes.as_bytes(), self.port.now_ms());
        self.pump();
    }

    /// Passes outcomes on, as the thread of the adapter does.
    fn pump(&mut self) {
        loop {
            let (output, actions) = {
                let mut protocol = lock(&self.port.protocol);
                (protocol.take_output(), protocol.take_actions())
            };
            let output = output.split_terminator("\r\n");
            self.requests.extend(output.map(str::to_owned));
            if actions.is_empty() {
                return;
            }
            for action in actions {
                let event = match action {
                    ProtocolAction::Complete(token, outcome) => {
                        AdapterEvent::Complete(token.call, outcome)
                    }
                    ProtocolAction::Notify(ticket, notification) => {
                        AdapterEvent::Notified(ticket, notification)
                    }
                    ProtocolAction::Ready => continue,
                    ProtocolAction::Close => {
                        lock(&self.port.protocol).on_lost(self.port.now_ms());
                        continue;
                    }
                };
                self.env.shard.adapter_event(&mut self.env.wire, event);
            }
        }
    }

    fn pass(&mut self, ms: u64) {
        self.env.pass(ms);
        self.port
            .now_ms
            .store(self.env.wire.now_ms, Ordering::Relaxed);
        lock(&self.port.protocol).on_tick(self.port.now_ms());
        self.pump();
    }

    /// Sends a message of a client over its WebSocket. Returns the lines that follow at once.
    fn ws(&mut self, number: u32, text: &str) -> Vec<String> {
        let mut lines = self.env.ws(number, text);
        self.pump();
        lines.retain(|line| line != "PROBE");
        lines.extend(self.lines(number));
        lines
    }

    fn create(&mut self, number: u32, user: &str) -> Vec<String> {
        let text = format!(
            "create_session\r\nLS_adapter_set=Set&LS_send_sync=false&LS_user={user}\
             &LS_password=secret"
        );
        self.ws(number, &text)
    }

    fn add(&mut self, number: u32) -> Vec<String> {
        self.ws(number, &format!("control\r\n{ADD}"))
    }

    /// Returns the lines of a client since the last call, without probes.
    fn lines(&mut self, number: u32) -> Vec<String> {
        let mut lines = self.env.wire.lines(number);
        lines.retain(|line| line != "PROBE");
        lines
    }

    /// Takes the next request, which must have this method. Returns its ID and the rest.
    fn request(&mut self, method: &str) -> (String, String) {
        assert!(!self.requests.is_empty(), "no {method}");
        let line = self.requests.remove(0);
        let mut parts = line.splitn(3, '|');
        let id = parts.next().expect("an ID").to_owned();
        assert_eq!(parts.next(), Some(method), "{line}");
        (id, parts.next().unwrap_or_default().to_owned())
    }

    /// Takes the next request and replies to it.
    fn reply(&mut self, method: &str, reply: &str) -> String {
        let (id, rest) = self.request(method);
        self.feed(&format!("{id}|{method}|{reply}"));
        rest
    }

    /// Creates a session whose subscriptions the adapter wants to know of. Returns its ID.
    fn session(&mut self, number: u32, user: &str) -> String {
        assert_eq!(self.create(number, user), [""; 0]);
        self.reply("NUS", "D|0|B|1");
        self.reply("NNS", "I|0");
        let line = self.lines(number).remove(0);
        let id = line.strip_prefix("CONOK,").expect("a session");
        id.split(',').next().expect("an ID").to_owned()
    }

    /// Replies to the requests about a subscription until the one about its table.
    fn decide(&mut self) {
        self.reply("GIS", "S|item-[key=x]");
        self.reply("GSC", "S|a");
        self.reply("GIT", "I|0|D|0|M|RMDC");
        self.reply("GUI", "I|0|D|0|M|RMDC");
    }

    /// Makes a subscription.
    fn subscribe(&mut self, number: u32) {
        assert_eq!(self.add(number), [""; 0]);
        self.decide();
        self.reply("NNT", "B|1|B|0");
        let lines = self.lines(number);
        assert_eq!(
            lines,
            ["REQOK,1", "SUBOK,1,1,1", "CONF,1,unlimited,filtered"]
        );
    }
}

/// Messages for the adapter.
fn messages() -> Arc<Messages> {
    #[derive(serde::Deserialize)]
    struct Sections {
        message: Vec<weir_identity::config::RawMessage>,
    }
    let toml = "[[message]]\nname = 'any'\ndestination = 'adapter'";
    let raw: Sections = toml::from_str(toml).expect("valid sections");
    let config = MessageConfig::new(&raw.message, Default::default(), &[], true);
    let none: &[ConnectionConfig] = &[];
    let (messages, queues) = Messages::new(config.expect("valid rules"), none, 1).expect("rules");
    assert!(queues.is_empty(), "no topic is written");
    messages
}

#[test]
fn requests_of_a_client_follow_the_order() {
    let mut env = AdapterEnv::ready();
    assert_eq!(env.create(1, "anna"), [""; 0]);
    assert!(env.env.wire.peers[&1].paused, "no input until the decision");
    let user = env.reply("NUS", "D|64|B|1");
    assert!(
        user.starts_with("S|anna|S|secret|S|REQUEST_ID|S|"),
        "{user}"
    );
    let session = env.reply("NNS", "I|0");
    let lines = env.lines(1);
    let id = lines[0].split(',').nth(1).expect("an ID").to_owned();
    assert!(session.starts_with(&format!("S|anna|S|{id}|")), "{session}");
    assert_eq!(lines.last().map(String::as_str), Some("CONS,64"));
    assert!(!env.env.wire.peers[&1].paused);
    assert_eq!(env.add(1), [""; 0]);
    assert_eq!(env.requests.len(), 2, "GIS and GSC together");
    assert_eq!(
        env.reply("GIS", "S|item-[key%3Dx]"),
        format!("S|anna|S|mine|S|{id}")
    );
    env.reply("GSC", "S|b");
    assert_eq!(env.requests.len(), 2, "GIT and GUI together");
    // The smallest limits of all.
    env.reply("GIT", "I|0|D|0|M|MD");
    env.reply("GUI", "I|0|D|2.5|M|RM");
    let table = env.reply("NNT", "V");
    assert!(
        table.starts_with(&format!("S|anna|S|{id}|I|1|M|M|S|mine|S|Data|S|x|")),
        "{table}"
    );
    assert!(table.ends_with("|I|1|S|item-%5Bkey%3Dx%5D"), "{table}");
    let lines = env.lines(1);
    assert_eq!(lines, ["REQOK,1", "SUBOK,1,1,1", "CONF,1,2.5,filtered"]);
    // A client may set another bandwidth, below the adapter's.
    for (wanted, granted) in [("unlimited", "64"), ("32", "32")] {
        let change = format!("LS_reqId=2&LS_op=constrain&LS_requested_max_bandwidth={wanted}");
        let lines = env.ws(1, &format!("control\r\n{change}"));
        assert_eq!(lines, ["REQOK,2".to_owned(), format!("CONS,{granted}")]);
    }
    assert_eq!(
        env.ws(1, "control\r\nLS_reqId=3&LS_op=destroy")[0],
        "REQOK,3"
    );
    env.reply("NTC", "V");
    assert_eq!(env.reply("NSC", "V"), format!("S|{id}"));
    assert!(env.requests.is_empty());
}

#[test]
fn item_properties_are_asked_for_once() {
    let mut env = AdapterEnv::ready();
    env.session(1, "anna");
    env.subscribe(1);
    let again = ADD.replace("Id=1", "Id=2");
    let ask = |env: &mut AdapterEnv| {
        assert_eq!(env.ws(1, &format!("control\r\n{again}")), [""; 0]);
        env.reply("GIS", "S|item-[key=x]");
        env.reply("GSC", "S|a");
    };
    let end = |env: &mut AdapterEnv| {
        env.reply("NNT", "V");
        assert_eq!(env.lines(1)[0], "REQOK,2");
        env.ws(1, "control\r\nLS_reqId=3&LS_op=delete&LS_subId=2");
        env.reply("NTC", "V");
    };
    ask(&mut env);
    end(&mut env);
    env.pass(5_001);
    ask(&mut env);
    env.reply("GUI", "I|0|D|0|M|RMDC");
    end(&mut env);
    // Another adapter may decide otherwise.
    env.feed("2|FAL|E|restart");
    env.request("CLOSE");
    env.connect();
    ask(&mut env);
    env.reply("GIT", "I|0|D|0|M|RMDC");
    env.reply("GUI", "I|0|D|0|M|RMDC");
    end(&mut env);
}

#[test]
fn unreachable_adapter_refuses_new_work_only() {
    let mut env = AdapterEnv::new();
    assert_eq!(env.create(1, "anna"), [BUSY]);
    env.connect();
    env.session(1, "anna");
    env.feed("2|FAL|E|database is gone");
    assert!(!env.port.metrics.is_connected());
    env.requests.clear();
    assert_eq!(env.create(2, "anna"), [BUSY]);
    let lines = env.ws(1, MESSAGE);
    assert_eq!(
        lines,
        ["REQOK,m", "MSGFAIL,s,1,34,the message was not processed"]
    );
    assert_eq!(env.add(1), [""; 0]);
    env.pass(2_999);
    assert_eq!(env.lines(1), [""; 0]);
    env.pass(1);
    assert_eq!(env.lines(1), [NO_SUBSCRIPTIONS]);
    // A subscription waits for the next adapter.
    assert_eq!(env.add(1), [""; 0]);
    env.pass(1_000);
    env.connect();
    env.decide();
    env.reply("NNT", "V");
    assert_eq!(env.lines(1)[0], "REQOK,1");
}

#[test]
fn session_ends_instead_of_subscription_if_configured() {
    let mut env = AdapterEnv::with("unavailable = \"end_session\"", "", 10_000);
    env.connect();
    env.session(1, "anna");
    assert_eq!(env.add(1), [""; 0]);
    env.requests.clear();
    env.pass(3_000);
    let lines = env.lines(1);
    assert!(
        lines.len() == 1 && lines[0].starts_with("END,48,"),
        "{lines:?}"
    );
    assert_eq!(env.env.sessions(), 0);
}

#[test]
fn slow_adapter_is_like_none_and_late_acceptance_is_undone() {
    let mut env = AdapterEnv::ready();
    assert_eq!(env.create(1, "anna"), [""; 0]);
    let (user, _) = env.request("NUS");
    env.pass(3_000);
    assert_eq!(env.lines(1), [BUSY]);
    // The next attempt gets the reply to the first one.
    assert_eq!(env.create(2, "anna"), [""; 0]);
    assert!(env.requests.is_empty(), "the request is under way");
    env.feed(&format!("{user}|NUS|D|0|B|1"));
    let (session, named) = env.request("NNS");
    let id = named.split('|').nth(3).expect("an ID").to_owned();
    env.pass(3_000);
    assert_eq!(env.lines(2), [BUSY]);
    assert_eq!(env.env.sessions(), 0);
    env.feed(&format!("{session}|NNS|I|0"));
    assert_eq!(env.reply("NSC", "V"), format!("S|{id}"));

    env.session(3, "bob");
    assert_eq!(env.add(3), [""; 0]);
    env.decide();
    let (table, _) = env.request("NNT");
    env.pass(3_000);
    assert_eq!(env.lines(3), [NO_SUBSCRIPTIONS]);
    env.feed(&format!("{table}|NNT|V"));
    env.reply("NTC", "V");
    let lines = env.ws(3, MESSAGE);
    assert_eq!(lines, ["REQOK,m"]);
    env.pass(3_000);
    let failed = ["MSGFAIL,s,1,34,the message was not processed"];
    assert_eq!(env.lines(3), failed);
    assert!(env.port.metrics.is_connected());
}

#[test]
fn too_many_pending_requests_fail_at_once() {
    let mut env = AdapterEnv::with("", "", 2);
    env.connect();
    env.session(1, "anna");
    for number in [2, 3] {
        assert_eq!(env.create(number, &format!("user{number}")), [""; 0]);
    }
    assert_eq!(env.create(4, "user4"), [BUSY]);
    assert_eq!(env.add(1), [NO_SUBSCRIPTIONS]);
    let failed = "MSGFAIL,s,1,34,the message was not processed";
    assert_eq!(env.ws(1, MESSAGE), ["REQOK,m", failed]);
}

#[test]
fn wrong_replies_are_errors_and_keep_the_connection() {
    for wrong in ["E|stack trace", "D|NaN|B|1", "I|1"] {
        let mut env = AdapterEnv::ready();
        assert_eq!(env.create(1, "anna"), [""; 0]);
        env.reply("NUS", wrong);
        assert_eq!(env.lines(1), ["CONERR,66,internal error"], "{wrong}");
        env.session(2, "bob");
        assert_eq!(env.add(2), [""; 0]);
        env.reply("GIS", "S|item-[key=x]");
        env.reply("GSC", "S|a");
        env.reply("GIT", "I|0|D|0|M|RMDC");
        env.reply("GUI", wrong);
        assert_eq!(env.lines(2), ["REQERR,1,66,internal error"], "{wrong}");
        assert_eq!(env.ws(2, MESSAGE), ["REQOK,m"]);
        env.reply("NUM", "E|stack trace");
        let failed = "MSGFAIL,s,1,35,the message was not processed";
        assert_eq!(env.lines(2), [failed]);
        assert!(env.port.metrics.is_connected(), "{wrong}");
    }
}

#[test]
fn garbage_closes_the_connection() {
    for garbage in ["garbage", "w3|NSC|V", "x9|NUS|D|0|B|1"] {
        let mut env = AdapterEnv::ready();
        assert_eq!(env.create(1, "anna"), [""; 0]);
        env.reply("NUS", "D|0|B|0");
        assert_eq!(env.requests.len(), 1, "NNS");
        env.feed(garbage);
        assert!(!env.port.metrics.is_connected(), "{garbage}");
        assert_eq!(env.lines(1), [BUSY], "{garbage}");
        assert_eq!(env.env.sessions(), 0);
    }
}

#[test]
fn adapter_names_are_admitted_like_client_names() {
    let refusals = [
        ("S|other-[key=x]", "S|a", "21"),
        ("S|item-[key=x]|S|item-[key=x]", "S|a", "21"),
        ("S|item-[key=x", "S|a", "21"),
        ("S|item-[key=x y]", "S|a", "21"),
        ("", "S|a", "21"),
        ("S|item-[key=x]", "S|c", "23"),
        ("S|item-[key=x]", "S|a b", "23"),
    ];
    for (items, fields, code) in refusals {
        let mut env = AdapterEnv::ready();
        env.session(1, "anna");
        assert_eq!(env.add(1), [""; 0]);
        let (names, _) = env.request("GIS");
        let separator = if items.is_empty() { "" } else { "|" };
        env.feed(&format!(
            "{names}|GIS{separator}{}",
            items.replace(' ', "%20")
        ));
        env.reply("GSC", &fields.replace(' ', "%20"));
        let lines = env.lines(1);
        let expected = format!("REQERR,1,{code},");
        assert!(
            lines[0].starts_with(&expected),
            "{items} {fields}: {lines:?}"
        );
        assert!(env.requests.is_empty(), "no further request");
    }
}

#[test]
fn rules_decide_before_the_adapter() {
    let rules = "[auth]\nanonymous = true\n[[authorize]]\nname = \"own\"\n\
                 items = [\"item-[key={claims.weir.user}]\"]\n\
                 when = { \"weir.auth\" = \"adapter\" }\nmax_frequency = 2.0\n";
    let mut env = AdapterEnv::with("", rules, 10_000);
    env.connect();
    env.session(1, "anna");
    assert_eq!(env.add(1), [""; 0]);
    env.reply("GIS", "S|item-[key=bob]");
    env.reply("GSC", "S|a");
    assert_eq!(env.lines(1), ["REQERR,1,-2,Not authorized"]);
    assert!(env.requests.is_empty(), "the adapter cannot allow it");
    for (frequency, granted) in [("0", "2"), ("0.5", "0.5"), ("8", "2")] {
        assert_eq!(env.add(1), [""; 0]);
        env.reply("GIS", "S|item-[key=anna]");
        env.reply("GSC", "S|a");
        if frequency == "0" {
            env.reply("GIT", "I|0|D|0|M|RMDC");
        }
        env.reply("GUI", &format!("I|0|D|{frequency}|M|RMDC"));
        env.reply("NNT", "V");
        let lines = env.lines(1);
        assert_eq!(lines[2], format!("CONF,1,{granted},filtered"));
        env.ws(1, "control\r\nLS_reqId=3&LS_op=delete&LS_subId=1");
        env.reply("NTC", "V");
        env.pass(5_001);
    }
}

#[test]
fn deleted_subscription_is_cancelled_at_each_step() {
    for step in 0..3 {
        let mut env = AdapterEnv::ready();
        env.session(1, "anna");
        assert_eq!(env.add(1), [""; 0]);
        match step {
            0 => {}
            1 => {
                env.reply("GIS", "S|item-[key=x]");
                env.reply("GSC", "S|a");
            }
            _ => env.decide(),
        }
        let lines = env.ws(1, "control\r\nLS_reqId=2&LS_op=delete&LS_subId=1");
        assert_eq!(lines, ["REQOK,1", "REQOK,2", "UNSUB,1"], "{step}");
        if step == 2 {
            env.reply("NNT", "V");
            env.reply("NTC", "V");
        }
        env.requests.clear();
        env.pass(3_000);
        assert_eq!(env.lines(1), [""; 0]);
        env.subscribe_again();
    }
}

impl AdapterEnv {
    /// Makes a subscription of which the adapter may know the item.
    fn subscribe_again(&mut self) {
        assert_eq!(self.add(1), [""; 0]);
        self.reply("GIS", "S|item-[key=x]");
        self.reply("GSC", "S|a");
        while !self.requests[0].contains("|NNT|") {
            let is_item = self.requests[0].contains("|GIT|");
            self.reply(if is_item { "GIT" } else { "GUI" }, "I|0|D|0|M|RMDC");
        }
        self.reply("NNT", "V");
        assert_eq!(self.lines(1)[0], "REQOK,1");
    }
}

#[test]
fn session_end_during_a_decision_is_in_order() {
    let mut env = AdapterEnv::ready();
    let id = env.session(1, "anna");
    assert_eq!(env.add(1), [""; 0]);
    env.decide();
    env.ws(1, "control\r\nLS_reqId=2&LS_op=destroy");
    assert_eq!(env.requests.len(), 1, "NNT; no NSC before its reply");
    env.reply("NNT", "V");
    env.reply("NTC", "V");
    assert_eq!(env.reply("NSC", "V"), format!("S|{id}"));
    // A client that does not wait for its session has none.
    assert_eq!(env.create(2, "bob"), [""; 0]);
    env.reply("NUS", "D|0|B|0");
    let adapter = env.env.shard.clients.adapter.as_mut().expect("an adapter");
    adapter.forget(conn(2));
    let session = env.reply("NNS", "V");
    let id = session.split('|').nth(3).expect("an ID").to_owned();
    assert_eq!(env.reply("NSC", "V"), format!("S|{id}"));
    assert_eq!((env.env.sessions(), env.lines(2).len()), (0, 0));
}

#[test]
fn conflicting_session_ends_for_the_new_one() {
    let mut env = AdapterEnv::ready();
    let other = env.session(1, "anna");
    assert_eq!(env.create(2, "anna"), [""; 0]);
    env.reply("NUS", "D|0|B|0");
    let first = env.reply("NNS", &format!("EX|conflict|-9|elsewhere|{other}"));
    let ended = env.lines(1);
    assert!(ended[0].starts_with("END,35,"), "{ended:?}");
    assert_eq!(env.reply("NSC", "V"), format!("S|{other}"));
    let second = env.reply("NNS", "V");
    assert_ne!(first, second, "a new session ID");
    let request = |text: &str| text.split("REQUEST_ID|S|").nth(1).map(str::to_owned);
    assert_eq!(request(&first), request(&second));
    assert!(env.lines(2)[0].starts_with("CONOK,"));
    // A conflict that remains is a refusal.
    assert_eq!(env.create(3, "bob"), [""; 0]);
    env.reply("NUS", "D|0|B|0");
    for _ in 0..4 {
        env.reply("NNS", "EX|conflict|-9|elsewhere|Sunknown");
    }
    assert_eq!(env.lines(3), ["CONERR,-9,elsewhere"]);
    assert_eq!(env.env.sessions(), 1);
}

#[test]
fn adapter_ends_sessions_and_subscriptions() {
    let mut env = AdapterEnv::ready();
    let id = env.session(1, "anna");
    env.subscribe(1);
    let answer = |env: &mut AdapterEnv, line: &str| {
        env.feed(line);
        let index = env.requests.iter().position(|line| line.starts_with("6"));
        env.requests.remove(index.expect("an answer"))
    };
    assert_eq!(
        answer(&mut env, "61|FST|S|Sunknown|V"),
        "61|FST|E|unknown%20session"
    );
    assert_eq!(
        answer(&mut env, &format!("62|FUS|S|{id}|I|7")),
        "62|FUS|B|0"
    );
    assert_eq!(
        answer(&mut env, &format!("63|FUS|S|{id}|I|1")),
        "63|FUS|B|1"
    );
    assert_eq!(env.lines(1), ["UNSUB,1"]);
    env.reply("NTC", "V");
    assert_eq!(answer(&mut env, &format!("64|FST|S|{id}|V")), "64|FST|V");
    let end = env.lines(1);
    assert!(end[0].starts_with("END,32,"), "{end:?}");
    env.reply("NSC", "V");
    for (number, code, sent) in [(2, "-12", "-12"), (3, "48", "0")] {
        let id = env.session(number, "bob");
        let line = format!("6{number}|FST|S|{id}|I|{code}|S|closed");
        assert_eq!(answer(&mut env, &line), format!("6{number}|FST|V"));
        let end = env.lines(number);
        assert_eq!(end, [format!("END,{sent},closed")]);
        env.reply("NSC", "V");
    }
}

#[test]
fn time_to_live_and_drain_end_sessions() {
    let mut env = AdapterEnv::ready();
    assert_eq!(env.create(1, "anna"), [""; 0]);
    env.reply("NUS", "D|0|B|0");
    env.reply("NNS", "I|60");
    env.lines(1);
    env.pass(10_000);
    env.feed("KEEPALIVE");
    env.pass(10_000);
    assert_eq!(env.env.sessions(), 1);
    for _ in 0..4 {
        env.feed("KEEPALIVE");
        env.pass(10_000);
    }
    let lines = env.lines(1);
    assert!(
        lines.iter().any(|line| line.starts_with("END,48,")),
        "{lines:?}"
    );
    env.reply("NSC", "V");
    let id = env.session(2, "bob");
    env.subscribe(2);
    env.env.shard.clients.begin_drain(&mut env.env.wire, 0);
    env.pump();
    assert!(env.lines(2)[0].starts_with("END,48,"));
    env.reply("NTC", "V");
    assert_eq!(env.reply("NSC", "V"), format!("S|{id}"));
}

#[test]
fn messages_of_a_sequence_wait_for_each_other() {
    let mut env = AdapterEnv::ready();
    env.session(1, "anna");
    let numbered = |prog: u32| {
        format!("msg\r\nLS_reqId={prog}&LS_sequence=s&LS_msg_prog={prog}&LS_message=m{prog}")
    };
    for prog in 1..=3 {
        assert_eq!(env.ws(1, &numbered(prog)), [format!("REQOK,{prog}")]);
    }
    for prog in [7, 8] {
        let text = format!("msg\r\nLS_reqId={prog}&LS_msg_prog={prog}&LS_message=u{prog}");
        assert_eq!(env.ws(1, &text), [format!("REQOK,{prog}")]);
    }
    let texts = |env: &AdapterEnv| -> Vec<String> {
        let last = |line: &String| line.rsplit('|').next().unwrap_or_default().to_owned();
        env.requests.iter().map(last).collect()
    };
    assert_eq!(texts(&env), ["m1", "u7", "u8"]);
    env.reply("NUM", "EC|refused|-3|no%20more");
    assert_eq!(env.lines(1), ["MSGFAIL,s,1,-3,no more"]);
    assert_eq!(texts(&env), ["u7", "u8", "m2"]);
    for _ in 0..4 {
        env.reply("NUM", "V");
    }
    let done = [
        "MSGDONE,*,7,",
        "MSGDONE,*,8,",
        "MSGDONE,s,2,",
        "MSGDONE,s,3,",
    ];
    assert_eq!(env.lines(1), done);
    assert!(env.requests.is_empty());
}

#[test]
fn responses_over_http_wait_for_the_decision() {
    let mut env = AdapterEnv::ready();
    let id = env.session(1, "anna");
    let body = format!(
        "LS_session={id}&{ADD}\r\nLS_session={id}&{}",
        ADD.replace("Id=1", "Id=2")
    );
    assert_eq!(env.env.http(5, "control", &body), [""; 0]);
    env.env.shard.run_forwarded(&mut env.env.wire);
    env.pump();
    assert_eq!(env.requests.len(), 4);
    env.reply("GIS", "EI|unknown%20list");
    env.reply("GSC", "S|a");
    assert_eq!(env.lines(5), [""; 0], "the other one is not decided");
    env.reply("GIS", "EI|unknown%20list");
    let refusal = |number| format!("REQERR,{number},21,unknown item group");
    assert_eq!(env.lines(5), [refusal(1), refusal(2)]);
    let combined = "create_session\r\nLS_adapter_set=Set&LS_user=anna\r\nLS_op=add&LS_subId=1\
                    &LS_mode=RAW&LS_group=item-[key=x]&LS_schema=a&LS_data_adapter=Data";
    let refused = env.ws(6, combined);
    assert!(refused[0].starts_with("CONERR,64,"), "{refused:?}");
    let in_url = "GET /lightstreamer/create_session.txt?LS_protocol=TLCP-2.5.0&LS_adapter_set=Set\
                  &LS_password=x HTTP/1.1";
    assert_eq!(env.get(7, in_url), ["CONERR,1,User or password refused"]);
}

impl AdapterEnv {
    fn get(&mut self, number: u32, line: &str) -> Vec<String> {
        let text = format!("{line}\r\nHost: x\r\n\r\n");
        self.env.wire.peers.entry(number).or_default();
        let limits = ParseLimits {
            head_bytes: 1_000,
            body_bytes: 1_000,
        };
        let parsed = parse_request(text.as_bytes(), limits, ([127, 0, 0, 1], 1).into());
        let Ok(Parsed::Complete(request, _)) = parsed else {
            panic!("{parsed:?}")
        };
        let (shard, wire) = (&mut self.env.shard, &mut self.env.wire);
        if let RequestOutcome::Respond(response) =
            http::respond(shard, wire, conn(number), &request)
        {
            wire.respond(conn(number), &response);
        }
        self.lines(number)
    }
}
