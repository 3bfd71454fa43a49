//! Random requests, replies, losses and lines: every request has one outcome, and what is stored
//! has bounds.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use weir_adapter::{
    AdapterMetrics, AdapterProtocol, CloseRecovery, ProtocolAction, ProtocolOptions, WhileDown,
};
use weir_identity::ari::{AdapterRequest, NotificationResult};

const PENDING_MAX: usize = 20;
const TIMEOUT_MS: u64 = 3_000;

#[derive(Debug, Clone)]
enum Input {
    User(u8),
    Session(u8),
    Items {
        waits: bool,
    },
    Close(u8),
    /// Reply to one of the last requests with this text behind the ID.
    Reply(usize, &'static str),
    Line(String),
    Connect,
    Lose,
    Pass(u64),
    Answer,
}

const REPLIES: &[&str] = &[
    "NUS|D|1|B|1",
    "NUS|EA|no",
    "NUS|D|x",
    "NNS|V",
    "NNS|I|5",
    "NNS|EX|a|-1|b|S1",
    "GIS|S|a",
    "GIS|EI|x",
    "NSC|V",
    "XYZ|V",
];

fn input() -> impl Strategy<Value = Input> {
    let line = prop_oneof![
        Just("KEEPALIVE".to_owned()),
        "[0-9]{1,2}\\|FST\\|S\\|S[0-3]\\|V",
        "[0-9]{1,2}\\|FUS\\|S\\|S[0-3]\\|I\\|[0-9]",
        "w[0-9]{1,3}\\|(NUS|GIS|NNS|NSC|MPI)\\|[A-Z]\\|[a-z0-9%+#$]{0,4}",
        ".{0,20}",
    ];
    prop_oneof![
        4 => (0..3u8).prop_map(Input::User),
        3 => (0..4u8).prop_map(Input::Session),
        4 => any::<bool>().prop_map(|waits| Input::Items { waits }),
        3 => (0..4u8).prop_map(Input::Close),
        12 => (0..6usize, prop::sample::select(REPLIES))
            .prop_map(|(at, text)| Input::Reply(at, text)),
        2 => line.prop_map(Input::Line),
        3 => Just(Input::Connect),
        1 => Just(Input::Lose),
        4 => (0..4_000u64).prop_map(Input::Pass),
        4 => Just(Input::Answer),
    ]
}

/// The state machine with the outcomes by request.
struct Model {
    protocol: AdapterProtocol<usize>,
    metrics: Arc<AdapterMetrics>,
    now_ms: u64,
    is_connected: bool,
    /// IDs of sent requests.
    ids: Vec<String>,
    outcomes: BTreeMap<usize, usize>,
    /// Times of all requests.
    begun_ms: Vec<u64>,
    tickets: Vec<weir_adapter::NotificationTicket>,
}

impl Model {
    fn new(close_recovery: CloseRecovery) -> Self {
        let metrics = Arc::new(AdapterMetrics::default());
        let options = ProtocolOptions {
            users: Vec::new(),
            parameters: Vec::new(),
            timeout_ms: TIMEOUT_MS,
            activity_timeout_ms: 15_000,
            pending_max: PENDING_MAX,
            close_recovery,
        };
        Self {
            protocol: AdapterProtocol::new(options, Arc::clone(&metrics)),
            metrics,
            now_ms: 0,
            is_connected: false,
            ids: Vec::new(),
            outcomes: BTreeMap::new(),
            begun_ms: Vec::new(),
            tickets: Vec::new(),
        }
    }

    fn request(&mut self, request: AdapterRequest, while_down: WhileDown) {
        let token = self.begun_ms.len();
        self.begun_ms.push(self.now_ms);
        self.protocol
            .request(request, token, while_down, self.now_ms);
    }

    fn feed(&mut self, line: &str) {
        if self.is_connected && self.protocol.wants_input() {
            let line = format!("{line}\r\n");
            self.protocol.on_received(line.as_bytes(), self.now_ms);
        }
    }

    fn apply(&mut self, input: Input) {
        match input {
            Input::User(number) => {
                let request = AdapterRequest::NotifyUser {
                    user: Some(format!("u{number}")),
                    password: None,
                    headers: Vec::new(),
                };
                self.request(request, WhileDown::Fail);
            }
            Input::Session(number) => {
                let request = AdapterRequest::NotifyNewSession {
                    user: None,
                    session: format!("S{number}"),
                    context: Vec::new(),
                };
                self.request(request, WhileDown::Fail);
            }
            Input::Items { waits } => {
                let request = AdapterRequest::GetItems {
                    user: None,
                    group: "g".to_owned(),
                    session: "S1".to_owned(),
                };
                let while_down = if waits {
                    WhileDown::Wait
                } else {
                    WhileDown::Fail
                };
                self.request(request, while_down);
            }
            Input::Close(number) => {
                let session = format!("S{number}");
                let request = AdapterRequest::NotifySessionClose { session };
                self.protocol.notify_close(request, self.now_ms);
            }
            Input::Reply(at, text) => {
                let id = self.ids.iter().rev().nth(at).cloned();
                if let Some(id) = id {
                    self.feed(&format!("{id}|{text}"));
                }
            }
            Input::Line(line) => self.feed(&line),
            Input::Connect if !self.is_connected => {
                self.is_connected = true;
                self.protocol.on_connected(self.now_ms);
                self.feed("1|RAC|S|enableClosePacket|S|true");
                self.feed("w0|MPI|S|ARI.version|S|1.9.1");
            }
            Input::Connect => {}
            Input::Lose => self.lose(),
            Input::Pass(ms) => return self.pass(ms),
            Input::Answer => {
                if let Some(ticket) = self.tickets.pop() {
                    let result = NotificationResult::SessionEnds;
                    self.protocol.respond(ticket, &result, self.now_ms);
                }
            }
        }
        self.collect();
    }

    fn pass(&mut self, ms: u64) {
        self.now_ms += ms;
        self.protocol.on_tick(self.now_ms);
        self.collect();
        for (token, begun_ms) in self.begun_ms.iter().enumerate() {
            let is_due = begun_ms + TIMEOUT_MS <= self.now_ms;
            assert!(!is_due || self.outcomes.contains_key(&token), "{token}");
        }
    }

    fn lose(&mut self) {
        if std::mem::take(&mut self.is_connected) {
            self.protocol.on_lost(self.now_ms);
        }
    }

    fn collect(&mut self) {
        for line in self.protocol.take_output().lines() {
            let id = line.split('|').next().unwrap_or_default();
            self.ids.push(id.to_owned());
        }
        for action in self.protocol.take_actions() {
            match action {
                ProtocolAction::Complete(token, _) => {
                    *self.outcomes.entry(token).or_default() += 1;
                }
                ProtocolAction::Notify(ticket, _) => self.tickets.push(ticket),
                ProtocolAction::Ready => {}
                ProtocolAction::Close => {
                    self.lose();
                    self.collect();
                }
            }
        }
        assert!(self.metrics.pending() <= PENDING_MAX as u64);
        assert!(!self.metrics.is_connected() || self.is_connected);
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 300,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn every_request_has_one_outcome(
        inputs in prop::collection::vec(input(), 1..150),
        close_recovery in prop_oneof![
            Just(CloseRecovery::Unneeded),
            Just(CloseRecovery::Optimistic),
            Just(CloseRecovery::Pessimistic),
        ],
    ) {
        let mut model = Model::new(close_recovery);
        for input in inputs {
            model.apply(input);
        }
        // Requests about users are forgotten after 10 s.
        for _ in 0..12 {
            model.pass(1_000);
        }
        prop_assert_eq!(model.outcomes.len(), model.begun_ms.len());
        prop_assert!(model.outcomes.values().all(|count| *count == 1), "{:?}", model.outcomes);
        model.lose();
        model.collect();
        prop_assert_eq!(model.metrics.pending(), 0);
        prop_assert!(model.protocol.next_deadline_ms().is_none_or(|at| at > model.now_ms));
    }
}
