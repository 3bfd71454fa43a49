//! All simulated clients of a process, driven by the event loop and the coordinator.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use weir_net::client::{ClientHandler, ClientIo, DisconnectReason, LoopUtilization};
use weir_net::websocket::Inflater;
use weir_tlcp::client::ClientSessionConfig;

use super::diff_choice::DiffChoice;
use super::items::assign_keys;
use super::json::JsonMessages;
use super::session::{ClientPhase, SessionAction, SessionIo, SimulatedClient, close_text};
use super::shared::SessionTotals;
use super::target::RequestTexts;
use super::verify::ClientCheck;
use crate::clock::Clock;
use crate::delivery::{Conflation, DeliverySummary, Expected, Ledger};
use crate::error::{LoadError, Result};
use crate::keys::KeyId;
use crate::worker::CoordinatorChannel;
use crate::worker::protocol::{Summary, WorkerCommand};

#[derive(Debug)]
pub(super) struct ClientPool<'a> {
    target: &'a RequestTexts<'a>,
    session_configs: Vec<ClientSessionConfig<'a>>,
    /// Like `session_configs`, for clients that allow no diffs.
    plain_session_configs: Vec<ClientSessionConfig<'a>>,
    /// Messages of a protocol with JSON.
    json: Option<JsonMessages>,
    link: &'a CoordinatorChannel,
    sessions: Vec<SimulatedClient>,
    shared: SessionTotals,
    key_ids: Vec<KeyId>,
    ledger: Option<Ledger>,
    /// The server may conflate, so the number of updates does not show whether all have arrived.
    may_conflate: bool,
    started: Instant,
    ready: bool,
    next_report: Instant,
    next_settle: Instant,
    busy_at_report: LoopUtilization,
    io: IoState,
    out: Vec<u8>,
    inflater: Inflater,
}

#[derive(Debug, Clone, Copy, Default)]
struct IoState {
    busy: LoopUtilization,
    bytes_received: u64,
    bytes_sent: u64,
}

impl<'a> ClientPool<'a> {
    pub(super) fn new(
        target: &'a RequestTexts<'a>,
        json: Option<JsonMessages>,
        link: &'a CoordinatorChannel,
        clock: Clock,
    ) -> Self {
        let options = target.options;
        let conflation = match options.kind.may_conflate() {
            true => Conflation::Allowed,
            false => Conflation::Forbidden,
        };
        let assigned = assign_keys(options.clients, target.keys.len(), options.seed);
        let local = options.share.numbers(options.clients);
        // To compare values, the first client of each key allows no diffs.
        let mut has_plain = vec![!options.verify_values; target.keys.len()];
        let sessions = local.map(|client| {
            let key = assigned[client];
            let plain = !std::mem::replace(&mut has_plain[key], true);
            let diffs = if plain {
                DiffChoice::NONE
            } else {
                options.diffs
            };
            let check = ClientCheck::new(conflation).with_diffs(diffs, target);
            SimulatedClient::new(key as u32, plain, check)
        });
        let mut shared = SessionTotals::new(options, clock);
        let key_ids = target.keys.iter().map(|key| shared.key_id(key)).collect();
        let now = Instant::now();
        Self {
            target,
            sessions: sessions.collect(),
            session_configs: target.session_configs(options.diffs),
            plain_session_configs: target.session_configs(DiffChoice::NONE),
            json,
            link,
            shared,
            key_ids,
            ledger: None,
            may_conflate: conflation == Conflation::Allowed,
            started: now,
            ready: false,
            next_report: now + REPORT_INTERVAL,
            next_settle: now,
            busy_at_report: LoopUtilization::default(),
            io: IoState::default(),
            out: Vec::new(),
            inflater: Inflater::new(),
        }
    }

    pub(super) fn finish(mut self) -> Result<DeliverySummary> {
        if self.shared.live == 0 && self.shared.disconnects == 0 && self.shared.ended > 0 {
            return Err(self.unreachable());
        }
        let summary = self.summary();
        self.report_progress();
        self.report_published(Instant::now(), true);
        self.link.events.finish(Summary::Delivery(summary.clone()));
        Ok(summary)
    }

    fn summary(&self) -> DeliverySummary {
        let stamped = self.target.fields.has_stamp();
        let mut summary = DeliverySummary {
            bytes_received: self.io.bytes_received,
            disconnects: self.shared.disconnects,
            timed_by_timestamp: self.shared.from_timestamp,
            latency_resolution_ns: match stamped && self.shared.from_timestamp == 0 {
                true => 1,
                false => TEXT_RESOLUTION_NS,
            },
            errors: self.shared.errors.clone(),
            ..DeliverySummary::default()
        };
        let clients = self.sessions.iter().map(|session| {
            let check = &session.check;
            (&check.checker, &check.latency, self.expected(session))
        });
        summary.settle(clients, self.stamped_ledger(), self.shared.meter.early);
        summary
    }

    /// Returns the ledger if clients can be compared with it.
    fn stamped_ledger(&self) -> Option<&Ledger> {
        let ledger = self.ledger.as_ref();
        ledger.filter(|_| self.target.fields.has_stamp())
    }

    fn expected(&self, session: &SimulatedClient) -> Expected {
        match self.target.keyed {
            true => Expected::Key(self.key_ids[session.key as usize]),
            false => Expected::All,
        }
    }

    fn unreachable(&self) -> LoadError {
        let errors = self.shared.errors.iter();
        let most_frequent = errors.max_by_key(|(_, count)| **count);
        let reason = most_frequent.map_or("no response", |(text, _)| text);
        LoadError::Unreachable(self.target.servers.clone(), reason.to_owned())
    }

    /// Ends sessions that exceed the setup timeout, and counts live ones that receive no keepalive.
    fn check_times(&mut self, io: &mut ClientIo, now: Instant) {
        let now_ms = self.now_ms(now);
        let setup_ms = self.target.options.setup_timeout.as_millis();
        for conn in 0..self.sessions.len() {
            let session = &mut self.sessions[conn];
            match session.phase {
                ClientPhase::Opening | ClientPhase::Subscribing
                    if u128::from(now_ms.saturating_sub(session.started_ms)) > setup_ms =>
                {
                    let text = "setup failed: no response within the setup timeout";
                    self.shared.end(session, text);
                    io.close(conn);
                }
                ClientPhase::Live if session.keepalive_ms() > 0 && !session.is_overdue => {
                    let idle_ms = u64::from(now_ms.saturating_sub(session.last_read_ms));
                    if idle_ms > session.keepalive_ms() + KEEPALIVE_SLACK_MS {
                        session.is_overdue = true;
                        self.shared.error(OVERDUE);
                    }
                }
                _ => {}
            }
        }
    }

    /// Returns `true` if every record of the ledger has arrived, or no session is live.
    fn is_settled(&self) -> bool {
        if self.shared.live == 0 {
            return true;
        }
        let Some(ledger) = self.stamped_ledger() else {
            return self.ledger.is_some();
        };
        if !self.may_conflate && self.shared.meter.in_window < self.due_in_all(ledger) {
            return false;
        }
        self.sessions.iter().all(|session| {
            let checker = &session.check.checker;
            checker.settle(ledger, self.expected(session)).lost == 0
        })
    }

    /// Returns the number of deliveries due to all clients. Comparing it first is cheaper than
    /// checking every client.
    fn due_in_all(&self, ledger: &Ledger) -> u64 {
        let mut per_key = vec![None; self.key_ids.len()];
        let due = self.sessions.iter().map(|session| {
            *per_key[session.key as usize]
                .get_or_insert_with(|| ledger.records(self.expected(session)))
        });
        due.sum()
    }

    fn report_published(&mut self, now: Instant, at_end: bool) {
        if let Some(published) = &mut self.shared.published {
            published.poll(&self.link.events, now, at_end);
        }
    }

    fn report_progress(&mut self) {
        let busy_share = self.io.busy.share_since(self.busy_at_report);
        self.busy_at_report = self.io.busy;
        let shared = &mut self.shared;
        let counters = [
            ("clients", self.sessions.len() as u64),
            ("connected", shared.live as u64),
            ("failed", shared.ended as u64),
            ("updates", shared.meter.updates),
            ("in_window", shared.meter.in_window),
            ("early", shared.meter.early),
            ("background", shared.background),
            ("values_compared", shared.reference.compared),
            ("errors", shared.errors.values().sum()),
            ("disconnects", shared.disconnects),
            ("bytes_received", self.io.bytes_received),
            ("bytes_sent", self.io.bytes_sent),
            // The share is at most 1.
            ("busy_permille", (busy_share * 1000.0) as u64),
            ("turn_max_us", self.io.busy.iteration_max_ns / 1000),
        ];
        let now_unix_ns = shared.clock.now_unix_ns();
        let events = &self.link.events;
        shared.meter.report(events, now_unix_ns, &counters);
    }

    fn now_ms(&self, now: Instant) -> u32 {
        u32::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(u32::MAX)
    }
}

impl ClientHandler for ClientPool<'_> {
    fn on_connected(&mut self, io: &mut ClientIo, conn: usize) {
        let now_ms = self.now_ms(Instant::now());
        let session = &mut self.sessions[conn];
        session.started_ms = now_ms;
        session.last_read_ms = now_ms;
        self.out.clear();
        session.open(conn, self.target, self.json.as_ref(), &mut self.out);
        io.send(conn, &self.out);
    }

    /// Passes received bytes to a session, then sends its output and closes it if it has ended.
    fn on_data(&mut self, io: &mut ClientIo, conn: usize, bytes: &[u8], read_at: Instant) {
        let now_ms = self.now_ms(read_at);
        let session = &mut self.sessions[conn];
        session.last_read_ms = now_ms;
        session.is_overdue = false;
        let session_configs = if session.plain {
            &self.plain_session_configs
        } else {
            &self.session_configs
        };
        let read_unix_ns = self.shared.clock.unix_ns(read_at);
        let (shared, target) = (&mut self.shared, self.target);
        let key_id = self.key_ids[session.key as usize];
        self.out.clear();
        let mut session_io = SessionIo {
            target,
            config: session_configs.get(session.key as usize),
            json: self.json.as_mut(),
            out: &mut self.out,
            sink: &mut |session, action, payload| match action {
                SessionAction::Continue => {}
                SessionAction::Live => shared.live += 1,
                SessionAction::Update => {
                    shared.on_update(session, payload, target, key_id, read_unix_ns);
                }
                SessionAction::Error(text) => shared.error(&text),
                SessionAction::End(text) => shared.end(session, &text),
            },
        };
        session.on_data(bytes, &mut session_io, &mut self.inflater);
        if !self.out.is_empty() {
            io.send(conn, &self.out);
        }
        if self.sessions[conn].phase == ClientPhase::Ended {
            io.close(conn);
        }
    }

    fn on_closed(&mut self, _io: &mut ClientIo, conn: usize, reason: DisconnectReason) {
        let session = &mut self.sessions[conn];
        let text = close_text(session.phase, reason);
        self.shared.end(session, &text);
    }

    fn on_tick(&mut self, io: &mut ClientIo, now: Instant) -> ControlFlow<()> {
        self.io = IoState {
            busy: io.utilization(),
            bytes_received: io.bytes_received(),
            bytes_sent: io.bytes_sent(),
        };
        let is_stopped = self.link.take_commands(|command| match command {
            WorkerCommand::Ledger { entries } => {
                self.ledger = Some(Ledger::new(&entries, &mut self.shared.keys));
            }
            WorkerCommand::Start(schedule) => self.shared.schedule = Some(schedule),
            WorkerCommand::Stop => {}
        });
        if is_stopped {
            return ControlFlow::Break(());
        }
        let resolved = self.shared.live + self.shared.ended >= self.sessions.len();
        if !self.ready && resolved {
            if self.shared.live == 0 && self.shared.ended > 0 {
                return ControlFlow::Break(());
            }
            self.ready = true;
            self.link.events.ready(self.shared.live, None);
        }
        if now >= self.next_report {
            self.next_report = now + REPORT_INTERVAL;
            self.check_times(io, now);
            self.report_progress();
            self.report_published(now, false);
        }
        let now_unix_ns = self.shared.clock.unix_ns(now);
        let schedule = self.shared.schedule;
        if schedule.is_some_and(|schedule| now_unix_ns >= schedule.stop_unix_ns) {
            return ControlFlow::Break(());
        }
        if self.ready && self.ledger.is_some() && now >= self.next_settle {
            self.next_settle = now + SETTLE_INTERVAL;
            if self.is_settled() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// Limits concurrent setups, so that a slow server slows the ramp down.
    fn may_connect(&self, opened: usize) -> bool {
        opened < self.shared.live + self.shared.ended + CONCURRENT_SETUPS_MAX
    }
}

const OVERDUE: &str = "server sent nothing for longer than its keepalive";
const REPORT_INTERVAL: Duration = Duration::from_secs(1);
const SETTLE_INTERVAL: Duration = Duration::from_millis(100);
const CONCURRENT_SETUPS_MAX: usize = 512;
/// Slack beyond the keepalive interval: the default of the SDKs.
const KEEPALIVE_SLACK_MS: u64 = 2000;
const TEXT_RESOLUTION_NS: u64 = 1_000_000;
