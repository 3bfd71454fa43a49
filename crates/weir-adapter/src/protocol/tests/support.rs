//! Test support: a protocol with a scripted clock, and sample requests.

use weir_identity::ItemMode;
use weir_identity::ari::{AdapterNotification, AriVersion, Parameter, TableInfo};

use super::super::*;
use crate::config::CloseRecovery;
use crate::metrics::RequestOutcome;

pub(super) const TIMEOUT_MS: u64 = 3_000;

/// A protocol with a clock, and what it has sent to the adapter and to its caller.
pub(super) struct Pair {
    pub(super) protocol: AdapterProtocol<u32>,
    pub(super) metrics: Arc<AdapterMetrics>,
    pub(super) version: AriVersion,
    pub(super) now_ms: u64,
    /// Lines to the adapter that the test has not taken yet.
    pub(super) lines: Vec<String>,
    pub(super) outcomes: Vec<(u32, AdapterOutcome)>,
    pub(super) notices: Vec<(NotificationTicket, AdapterNotification)>,
    pub(super) closes: usize,
}

pub(super) fn options() -> ProtocolOptions {
    ProtocolOptions {
        users: Vec::new(),
        parameters: vec![Parameter::new("adapters_conf.id", "KafkaConnector")],
        timeout_ms: TIMEOUT_MS,
        activity_timeout_ms: 15_000,
        pending_max: 10_000,
        close_recovery: CloseRecovery::Unneeded,
    }
}

impl Pair {
    pub(super) fn new(options: ProtocolOptions) -> Self {
        let metrics = Arc::new(AdapterMetrics::default());
        Self {
            protocol: AdapterProtocol::new(options, Arc::clone(&metrics)),
            metrics,
            version: AriVersion::V191,
            now_ms: 1_000_000,
            lines: Vec::new(),
            outcomes: Vec::new(),
            notices: Vec::new(),
            closes: 0,
        }
    }

    /// Returns a pair after the handshake with an adapter of this version.
    pub(super) fn ready(options: ProtocolOptions, version: AriVersion) -> Self {
        let mut pair = Self::new(options);
        pair.version = version;
        pair.connect();
        pair
    }

    pub(super) fn connect(&mut self) {
        self.protocol.on_connected(self.now_ms);
        self.feed("1|RAC|S|enableClosePacket|S|true");
        assert_eq!(self.take().len(), 1, "MPI");
        self.feed(&format!("w0|MPI|S|ARI.version|S|{}", self.version.as_str()));
        assert!(self.metrics.is_connected());
    }

    /// Receives a line from the adapter.
    pub(super) fn feed(&mut self, line: &str) {
        self.protocol
            .on_received(format!("{line}\r\n").as_bytes(), self.now_ms);
        self.collect();
    }

    /// Advances the clock.
    pub(super) fn advance(&mut self, ms: u64) {
        self.now_ms += ms;
        self.protocol.on_tick(self.now_ms);
        self.collect();
    }

    /// Moves the output and the actions of the protocol to this pair.
    pub(super) fn collect(&mut self) {
        let output = self.protocol.take_output();
        self.lines
            .extend(output.split_terminator("\r\n").map(str::to_owned));
        for action in self.protocol.take_actions() {
            match action {
                ProtocolAction::Complete(token, outcome) => self.outcomes.push((token, outcome)),
                ProtocolAction::Notify(ticket, notice) => self.notices.push((ticket, notice)),
                ProtocolAction::Ready => {}
                ProtocolAction::Close => {
                    self.closes += 1;
                    self.disconnect();
                }
            }
        }
    }

    /// Ends the connection.
    pub(super) fn disconnect(&mut self) {
        self.protocol.on_lost(self.now_ms);
        self.collect();
    }

    pub(super) fn request(&mut self, token: u32, request: AdapterRequest, while_down: WhileDown) {
        self.protocol
            .request(request, token, while_down, self.now_ms);
        self.collect();
    }

    pub(super) fn notify_close(&mut self, request: AdapterRequest) {
        self.protocol.notify_close(request, self.now_ms);
        self.collect();
    }

    /// Takes the lines to the adapter.
    pub(super) fn take(&mut self) -> Vec<String> {
        std::mem::take(&mut self.lines)
    }

    /// Takes the lines to the adapter. Returns the ID and the method of each.
    pub(super) fn requests(&mut self) -> Vec<(String, String)> {
        let part = |line: &String| {
            let mut parts = line.split('|').map(str::to_owned);
            (parts.next().unwrap(), parts.next().unwrap())
        };
        self.take().iter().map(part).collect()
    }

    /// Takes the lines to the adapter. Returns the method of each.
    pub(super) fn methods(&mut self) -> Vec<String> {
        self.requests()
            .into_iter()
            .map(|(_, method)| method)
            .collect()
    }

    /// Takes the only outcome.
    pub(super) fn outcome(&mut self) -> (u32, AdapterOutcome) {
        assert_eq!(self.outcomes.len(), 1, "{:?}", self.outcomes);
        self.outcomes.remove(0)
    }

    /// Returns the number of requests of a method that had an outcome.
    pub(super) fn count(&self, method: AdapterMethod, outcome: RequestOutcome) -> u64 {
        let found = self.metrics.methods().find(|one| one.method == method);
        found.unwrap().outcomes[outcome as usize]
    }
}

pub(super) fn user(name: &str, id: &str) -> AdapterRequest {
    AdapterRequest::NotifyUser {
        user: Some(name.to_owned()),
        password: Some("pw".to_owned()),
        headers: vec![
            Parameter::new("user-agent", "sdk"),
            Parameter::new("REQUEST_ID", id),
        ],
    }
}

pub(super) fn new_session(session: &str) -> AdapterRequest {
    AdapterRequest::NotifyNewSession {
        user: None,
        session: session.to_owned(),
        context: Vec::new(),
    }
}

pub(super) fn items(group: &str) -> AdapterRequest {
    AdapterRequest::GetItems {
        user: None,
        group: group.to_owned(),
        session: "S1".to_owned(),
    }
}

pub(super) fn table(window: i32) -> TableInfo {
    TableInfo {
        window,
        mode: ItemMode::Merge,
        group: "g".to_owned(),
        data_adapter: None,
        schema: "f".to_owned(),
        first: 1,
        last: 1,
        selector: None,
        items: vec!["g".to_owned()],
    }
}

pub(super) fn new_tables(session: &str, window: i32) -> AdapterRequest {
    AdapterRequest::NotifyNewTables {
        user: None,
        session: session.to_owned(),
        table: table(window),
    }
}

pub(super) fn tables_close(session: &str, window: i32) -> AdapterRequest {
    AdapterRequest::NotifyTablesClose {
        session: session.to_owned(),
        table: table(window),
        statistics: Vec::new(),
    }
}

pub(super) fn session_close(session: &str) -> AdapterRequest {
    let session = session.to_owned();
    AdapterRequest::NotifySessionClose { session }
}
