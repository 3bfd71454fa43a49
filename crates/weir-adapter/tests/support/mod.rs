//! Adapter server for tests. Outcomes and notifications arrive in channels.

#![allow(dead_code, reason = "each test program uses a part")]

use std::net::SocketAddr;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use weir_adapter::{
    AdapterConfig, AdapterHandle, AdapterOutcome, AdapterPort as _, AdapterServer, AdapterSink,
    NotificationTicket, ServerOptions, WhileDown,
};
use weir_identity::ItemMode;
use weir_identity::ari::{AdapterNotification, AdapterRequest, Parameter, TableInfo};

pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct ChannelSink {
    outcomes: Sender<(u32, AdapterOutcome)>,
    notices: Sender<(NotificationTicket, AdapterNotification)>,
}

impl AdapterSink<u32> for ChannelSink {
    fn complete(&mut self, token: u32, outcome: AdapterOutcome) {
        // Fails if the test has ended.
        let _ = self.outcomes.send((token, outcome));
    }

    fn notified(&mut self, ticket: NotificationTicket, notification: AdapterNotification) {
        let _ = self.notices.send((ticket, notification));
    }
}

pub(crate) struct TestServer {
    pub(crate) server: AdapterServer<u32>,
    pub(crate) handle: AdapterHandle<u32>,
    pub(crate) outcomes: Receiver<(u32, AdapterOutcome)>,
    pub(crate) notices: Receiver<(NotificationTicket, AdapterNotification)>,
}

impl TestServer {
    /// Starts with `[adapter]` as TOML. Paths are relative to the test certificates.
    pub(crate) fn start(config: &str) -> Self {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../weir-net/tests/tls");
        let raw = toml::from_str(config).expect("valid TOML");
        let config = AdapterConfig::new(raw, &dir).expect("valid configuration");
        let (outcomes, received_outcomes) = channel();
        let (notices, received_notices) = channel();
        let options = ServerOptions {
            parameters: vec![Parameter::new("adapters_conf.id", "KafkaConnector")],
        };
        let sink = ChannelSink { outcomes, notices };
        let server = AdapterServer::start(config, options, sink).expect("starts");
        Self {
            handle: server.handle(),
            server,
            outcomes: received_outcomes,
            notices: received_notices,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.server.listen_address().expect("it listens")
    }

    pub(crate) fn wait_until_connected(&self, connected: bool) {
        self.wait("connection", |handle| {
            handle.metrics().is_connected() == connected
        });
    }

    pub(crate) fn wait(&self, what: &str, is_done: impl Fn(&AdapterHandle<u32>) -> bool) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !is_done(&self.handle) {
            assert!(Instant::now() < deadline, "timeout: {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends a request and returns its outcome.
    pub(crate) fn call(&self, request: AdapterRequest) -> AdapterOutcome {
        assert!(self.handle.request(request, 7, WhileDown::Wait));
        let (token, outcome) = self
            .outcomes
            .recv_timeout(TEST_TIMEOUT)
            .expect("an outcome");
        assert_eq!(token, 7);
        outcome
    }

    pub(crate) fn notice(&self) -> (NotificationTicket, AdapterNotification) {
        self.notices
            .recv_timeout(TEST_TIMEOUT)
            .expect("a notification")
    }
}

pub(crate) fn user(name: &str) -> AdapterRequest {
    AdapterRequest::NotifyUser {
        user: Some(name.to_owned()),
        password: Some("pässword|+ ".to_owned()),
        headers: vec![
            Parameter::new("user-agent", "test"),
            Parameter::new("REQUEST_ID", "r1"),
        ],
    }
}

pub(crate) fn new_session(user: &str, session: &str) -> AdapterRequest {
    AdapterRequest::NotifyNewSession {
        user: Some(user.to_owned()),
        session: session.to_owned(),
        context: vec![
            Parameter::new("REMOTE_IP", "10.0.0.7"),
            Parameter::new("REQUEST_ID", "r1"),
        ],
    }
}

pub(crate) fn items(group: &str) -> AdapterRequest {
    AdapterRequest::GetItems {
        user: Some("anna".to_owned()),
        group: group.to_owned(),
        session: "S1".to_owned(),
    }
}

pub(crate) fn schema(schema: &str) -> AdapterRequest {
    AdapterRequest::GetSchema {
        user: Some("anna".to_owned()),
        group: "mine".to_owned(),
        schema: schema.to_owned(),
        session: "S1".to_owned(),
    }
}

pub(crate) fn message(text: &str) -> AdapterRequest {
    AdapterRequest::NotifyUserMessage {
        user: Some("anna".to_owned()),
        session: "S1".to_owned(),
        message: text.to_owned(),
    }
}

pub(crate) fn table(window: i32, group: &str, items: usize) -> TableInfo {
    TableInfo {
        window,
        mode: ItemMode::Merge,
        group: group.to_owned(),
        data_adapter: Some("QuickStart".to_owned()),
        schema: "bid ask".to_owned(),
        first: 1,
        last: i32::try_from(items).expect("few"),
        selector: None,
        items: (0..items)
            .map(|index| format!("quote-[n={index}]"))
            .collect(),
    }
}

pub(crate) fn new_tables(table: TableInfo) -> AdapterRequest {
    AdapterRequest::NotifyNewTables {
        user: Some("anna".to_owned()),
        session: "S1".to_owned(),
        table,
    }
}
