//! All clients of a run: their life as the event loop and the coordinator drive it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::TryRecvError;
use std::time::{Duration, Instant};

use weir_net::client::{Busy, CloseReason, Handler, Io};
use weir_tlcp::Mode;
use weir_tlcp::client::ClientPlan;

use super::items::assign_keys;
use super::meter::Meter;
use super::session::{Context, Phase, Session, Step, close_text};
use super::target::Target;
use super::verify::{ClientCheck, Identity, Received, Tools, Wanted};
use super::{ClientsError, ClientsOptions, Kind};
use crate::clock::Clock;
use crate::delivery::{Conflation, DeliverySummary, Expected, Ledger, Verdict};
use crate::keys::{KeyId, KeyTable};
use crate::local_time::LocalTime;
use crate::stamp::Stamp;
use crate::worker::Link;
use crate::worker::protocol::{Command, Event, Schedule, Summary};

/// The handler of the event loop.
#[derive(Debug)]
pub(super) struct Fleet<'a> {
    target: &'a Target,
    plans: Vec<ClientPlan<'a>>,
    link: &'a Link,
    setup_timeout: Duration,
    sessions: Vec<Session>,
    shared: Shared,
    key_ids: Vec<KeyId>,
    ledger: Option<Ledger>,
    started: Instant,
    ready: bool,
    next_report: Instant,
    next_settle: Instant,
    busy_at_report: Busy,
    io: IoState,
    out: Vec<u8>,
}

/// What the event loop said at the last tick.
#[derive(Debug, Clone, Copy, Default)]
struct IoState {
    busy: Busy,
    bytes_received: u64,
    bytes_sent: u64,
}

/// What the sessions report into while one of them is borrowed.
#[derive(Debug)]
struct Shared {
    clock: Clock,
    meter: Meter,
    local: LocalTime,
    keys: KeyTable,
    /// Of records without a key, and of those known by partition and offset.
    no_key: KeyId,
    position_key: KeyId,
    schedule: Option<Schedule>,
    errors: BTreeMap<String, u64>,
    /// Sessions that have started, are live, have ended.
    opened: usize,
    live: usize,
    ended: usize,
    /// Sessions that ended after they had been live.
    disconnects: u64,
    /// Updates that were not to be timed.
    background: u64,
}

impl<'a> Fleet<'a> {
    pub(super) fn new(
        options: &ClientsOptions,
        target: &'a Target,
        link: &'a Link,
        clock: Clock,
    ) -> Self {
        let conflation = match options.kind {
            Kind::Tlcp {
                mode: Mode::Merge, ..
            } => Conflation::Allowed,
            Kind::Tlcp { .. } | Kind::Floor => Conflation::Forbidden,
        };
        let assigned = assign_keys(options.clients, target.keys.len(), options.seed);
        let own = options.share.numbers(options.clients);
        let sessions = own.map(|client| Session::new(assigned[client] as u32, conflation));
        let mut keys = KeyTable::default();
        // Invariant: an empty table has room for two.
        let [no_key, position_key] =
            [b"".as_slice(), POSITION].map(|name| keys.id(name).expect("room"));
        // The table takes far more keys than a plan has; those beyond share one.
        let key_id = |key: &String| keys.id(key.as_bytes()).unwrap_or(no_key);
        let key_ids = target.keys.iter().map(key_id).collect();
        let now = Instant::now();
        Self {
            target,
            plans: target.plans(),
            link,
            setup_timeout: options.setup_timeout,
            sessions: sessions.collect(),
            shared: Shared {
                clock,
                meter: Meter::new(clock.now_unix_ns()),
                local: LocalTime::system(),
                keys,
                no_key,
                position_key,
                schedule: None,
                errors: BTreeMap::new(),
                opened: 0,
                live: 0,
                ended: 0,
                disconnects: 0,
                background: 0,
            },
            key_ids,
            ledger: None,
            started: now,
            ready: false,
            next_report: now + REPORT_EVERY,
            next_settle: now,
            busy_at_report: Busy::default(),
            io: IoState::default(),
            out: Vec::new(),
        }
    }

    /// Settles all clients and sends the summary.
    pub(super) fn finish(mut self) -> Result<DeliverySummary, ClientsError> {
        if self.shared.live == 0 && self.shared.disconnects == 0 && self.shared.ended > 0 {
            return Err(self.unreachable());
        }
        let summary = self.summary();
        self.report();
        self.link.events.send(&Event::Final {
            summary: Summary::Delivery(summary.clone()),
        });
        Ok(summary)
    }

    fn summary(&self) -> DeliverySummary {
        let stamped = self.target.fields.stamp.is_some();
        let ledger = self.ledger.as_ref().filter(|_| stamped);
        let mut summary = DeliverySummary {
            bytes_received: self.io.bytes_received,
            disconnects: self.shared.disconnects,
            latency_resolution_ns: if stamped { 1 } else { TEXT_RESOLUTION_NS },
            settled: ledger.is_some(),
            errors: self.shared.errors.clone(),
            ..DeliverySummary::default()
        };
        for session in &self.sessions {
            let checker = &session.check.checker;
            let counts = match ledger {
                Some(ledger) => checker.settle(ledger, self.expected(session)),
                None => checker.settle_without_ledger(),
            };
            let p99_us = session.check.latency.percentile_us(99.0);
            summary.add_client(&counts, p99_us.map(|us| us * 1000));
        }
        if self.shared.meter.early > 0 {
            let text = "arrivals before their due instant (clocks disagree)".to_owned();
            summary.errors.insert(text, self.shared.meter.early);
        }
        summary
    }

    fn expected(&self, session: &Session) -> Expected {
        match self.target.keyed {
            true => Expected::Key(self.key_ids[session.key as usize]),
            false => Expected::All,
        }
    }

    fn unreachable(&self) -> ClientsError {
        let most = self.shared.errors.iter().max_by_key(|(_, count)| **count);
        ClientsError::Unreachable {
            server: self.target.servers.clone(),
            reason: most.map_or_else(|| "no answer".to_owned(), |(text, _)| text.clone()),
        }
    }

    /// Lets a session take bytes, then sends and ends as it wants.
    fn drive(&mut self, io: &mut Io<'_>, conn: usize, bytes: &[u8], read_at: Instant) {
        let now_ms = self.now_ms(read_at);
        let session = &mut self.sessions[conn];
        session.last_read_ms = now_ms;
        session.silent = false;
        let context = Context {
            target: self.target,
            plan: self.plans.get(session.key as usize),
        };
        let read_unix_ns = self.shared.clock.unix_ns(read_at);
        let (shared, key_id) = (&mut self.shared, self.key_ids[session.key as usize]);
        self.out.clear();
        session.on_data(
            bytes,
            &context,
            &mut self.out,
            &mut |session, step, payload| {
                shared.step(session, step, payload, context.target, key_id, read_unix_ns);
            },
        );
        if !self.out.is_empty() {
            io.send(conn, &self.out);
        }
        if self.sessions[conn].phase == Phase::Ended {
            io.close(conn);
        }
    }

    /// Commands of the coordinator; `Break` ends the run.
    fn commands(&mut self) -> ControlFlow<()> {
        loop {
            match self.link.commands.try_recv() {
                Ok(Command::Start(schedule)) => self.shared.schedule = Some(schedule),
                Ok(Command::Ledger { entries }) => {
                    self.ledger = Some(Ledger::new(&entries, &mut self.shared.keys));
                }
                Ok(Command::Stop) | Err(TryRecvError::Disconnected) => {
                    return ControlFlow::Break(());
                }
                Err(TryRecvError::Empty) => return ControlFlow::Continue(()),
            }
        }
    }

    /// Sessions that take too long to come up, and live ones that hear nothing.
    fn check_times(&mut self, io: &mut Io<'_>, now: Instant) {
        let now_ms = self.now_ms(now);
        let setup_ms = u32::try_from(self.setup_timeout.as_millis()).unwrap_or(u32::MAX);
        for conn in 0..self.sessions.len() {
            let session = &mut self.sessions[conn];
            match session.phase {
                Phase::Opening | Phase::Subscribing
                    if now_ms.saturating_sub(session.started_ms) > setup_ms =>
                {
                    let text = "setup failed: no answer in time".to_owned();
                    self.shared.end(session, text);
                    io.close(conn);
                }
                Phase::Live if session.keepalive_ms() > 0 && !session.silent => {
                    let silence_ms = u64::from(now_ms.saturating_sub(session.last_read_ms));
                    if silence_ms > session.keepalive_ms() + KEEPALIVE_SLACK_MS {
                        session.silent = true;
                        self.shared
                            .error("server silent for longer than its keepalive".to_owned());
                    }
                }
                _ => {}
            }
        }
    }

    /// Whether every record of the ledger has arrived, or nobody is left to receive any.
    fn is_settled(&self) -> bool {
        if self.shared.live == 0 {
            return true;
        }
        let Some(ledger) = self
            .ledger
            .as_ref()
            .filter(|_| self.target.fields.stamp.is_some())
        else {
            return self.ledger.is_some();
        };
        // The cheap sum first: it is short of the target nearly every time this is asked.
        let mut per_key = vec![None; self.key_ids.len()];
        let mut expected = 0;
        for session in &self.sessions {
            let records = per_key[session.key as usize]
                .get_or_insert_with(|| ledger.records(self.expected(session)));
            expected += *records;
        }
        if self.shared.meter.in_window < expected {
            return false;
        }
        self.sessions.iter().all(|session| {
            session
                .check
                .checker
                .settle(ledger, self.expected(session))
                .lost
                == 0
        })
    }

    fn report(&mut self) {
        let counters = self.counters();
        self.busy_at_report = self.io.busy;
        let now_unix_ns = self.shared.clock.now_unix_ns();
        self.shared
            .meter
            .report(&self.link.events, now_unix_ns, counters);
    }

    fn counters(&self) -> BTreeMap<String, u64> {
        let busy_share = self.io.busy.share_since(self.busy_at_report);
        let shared = &self.shared;
        let mut counters = BTreeMap::new();
        for (name, value) in [
            ("clients", self.sessions.len() as u64),
            ("connected", shared.live as u64),
            ("failed", shared.ended as u64),
            ("updates", shared.meter.updates),
            ("in_window", shared.meter.in_window),
            ("early", shared.meter.early),
            ("background", shared.background),
            ("errors", shared.errors.values().sum()),
            ("disconnects", shared.disconnects),
            ("bytes_received", self.io.bytes_received),
            ("bytes_sent", self.io.bytes_sent),
            // The share is at most 1.
            ("busy_permille", (busy_share * 1000.0) as u64),
            ("turn_max_us", self.io.busy.turn_max_ns / 1000),
        ] {
            counters.insert(name.to_owned(), value);
        }
        counters
    }

    fn now_ms(&self, now: Instant) -> u32 {
        u32::try_from(now.saturating_duration_since(self.started).as_millis()).unwrap_or(u32::MAX)
    }
}

impl Shared {
    fn step(
        &mut self,
        session: &mut Session,
        step: Step,
        payload: &[u8],
        target: &Target,
        key_id: KeyId,
        read_unix_ns: u64,
    ) {
        match step {
            Step::Continue => {}
            Step::Live => self.live += 1,
            Step::Update => self.update(session, payload, target, key_id, read_unix_ns),
            Step::Complain(text) => self.error(text),
            Step::End(text) => self.end(session, text),
        }
    }

    fn update(
        &mut self,
        session: &mut Session,
        payload: &[u8],
        target: &Target,
        key_id: KeyId,
        read_unix_ns: u64,
    ) {
        let check = &mut session.check;
        let wanted = match target.keyed {
            true => Wanted::Key(&target.keys[session.key as usize], key_id),
            false => Wanted::All(self.no_key),
        };
        let mut tools = Tools {
            local: &mut self.local,
            keys: &mut self.keys,
            marks: target.marked_only,
        };
        let received = match check.read(payload, wanted, &target.fields, &mut tools) {
            Ok(received) => received,
            Err(fault) => {
                self.meter.record_untimed();
                return self.error(fault.to_string());
            }
        };
        let Some(due_unix_ns) = received.due_unix_ns else {
            self.meter.record_untimed();
            check.checker.on_unstamped(false);
            return self.error("update without stamp or timestamp".to_owned());
        };
        let in_window = self.time(check, &received, due_unix_ns, target, read_unix_ns);
        let verdict = self.deliver(check, &received, due_unix_ns, target, in_window);
        let state = check.state_due_unix_ns.replace(due_unix_ns);
        if let (Verdict::AfterGap(_), true, Some(state)) = (verdict, in_window, state) {
            if check.checker.conflation() == Conflation::Allowed {
                self.meter
                    .record_state_age(read_unix_ns.saturating_sub(state));
            }
        }
    }

    /// Takes the latency; returns whether the record was due in the window.
    fn time(
        &mut self,
        check: &mut ClientCheck,
        received: &Received,
        due_unix_ns: u64,
        target: &Target,
        read_unix_ns: u64,
    ) -> bool {
        let schedule = self.schedule.as_ref();
        if target.marked_only && !received.marked {
            self.background += 1;
            return self.meter.record_background(due_unix_ns, schedule);
        }
        let stamp = match &received.identity {
            Identity::Stamp(stamp) => Some(stamp),
            _ => None,
        };
        let response_ns = self
            .meter
            .record(due_unix_ns, stamp, read_unix_ns, schedule);
        if let Some(response_ns) = response_ns {
            check.latency.record_ns(response_ns);
        }
        response_ns.is_some()
    }

    /// Checks that the record is the next one of this client.
    fn deliver(
        &self,
        check: &mut ClientCheck,
        received: &Received,
        due_unix_ns: u64,
        target: &Target,
        in_window: bool,
    ) -> Verdict {
        let checker = &mut check.checker;
        match (received.identity, received.key) {
            (Identity::Stamp(stamp), Some(key)) => checker.on_delivery(key, &stamp, in_window),
            (Identity::Position { partition, offset }, _) => {
                // No broker has so many partitions.
                let partition = u32::try_from(partition).unwrap_or(u32::MAX);
                if target.keyed {
                    let key = self.position_key;
                    return checker.on_sparse_offset(key, partition, offset, in_window);
                }
                let position = Stamp {
                    due_unix_ns,
                    producer: partition,
                    seq: offset,
                    sent_unix_ns: None,
                };
                checker.on_delivery(self.position_key, &position, in_window)
            }
            _ => {
                checker.on_unstamped(in_window);
                Verdict::Unknown
            }
        }
    }

    fn end(&mut self, session: &mut Session, text: String) {
        if session.phase == Phase::Ended {
            return;
        }
        if session.phase == Phase::Live {
            self.live -= 1;
            self.disconnects += 1;
        }
        session.phase = Phase::Ended;
        self.ended += 1;
        self.error(text);
    }

    /// Counts an error by its text; texts beyond a bound share one entry.
    fn error(&mut self, text: String) {
        let text = match self.errors.len() < ERROR_TEXTS_MAX || self.errors.contains_key(&text) {
            true => text,
            false => "other errors".to_owned(),
        };
        *self.errors.entry(text).or_default() += 1;
    }
}

impl Handler for Fleet<'_> {
    fn on_connected(&mut self, io: &mut Io<'_>, conn: usize) {
        let now_ms = self.now_ms(Instant::now());
        let session = &mut self.sessions[conn];
        self.shared.opened += 1;
        session.started_ms = now_ms;
        session.last_read_ms = now_ms;
        self.out.clear();
        session.open(conn, self.target, &mut self.out);
        io.send(conn, &self.out);
    }

    fn on_data(&mut self, io: &mut Io<'_>, conn: usize, bytes: &[u8], read_at: Instant) {
        self.drive(io, conn, bytes, read_at);
    }

    fn on_closed(&mut self, _io: &mut Io<'_>, conn: usize, reason: CloseReason) {
        let session = &mut self.sessions[conn];
        let text = close_text(session.phase, reason);
        self.shared.end(session, text);
    }

    fn on_tick(&mut self, io: &mut Io<'_>, now: Instant) -> ControlFlow<()> {
        self.io = IoState {
            busy: io.busy(),
            bytes_received: io.bytes_received(),
            bytes_sent: io.bytes_sent(),
        };
        self.commands()?;
        let resolved = self.shared.live + self.shared.ended >= self.sessions.len();
        if !self.ready && resolved {
            if self.shared.live == 0 && self.shared.ended > 0 {
                return ControlFlow::Break(());
            }
            self.ready = true;
            let connections = self.shared.live as u64;
            self.link.events.send(&Event::Ready {
                connections,
                port: None,
            });
        }
        if now >= self.next_report {
            self.next_report = now + REPORT_EVERY;
            self.check_times(io, now);
            self.report();
        }
        let now_unix_ns = self.shared.clock.unix_ns(now);
        if self
            .shared
            .schedule
            .is_some_and(|schedule| now_unix_ns >= schedule.stop_unix_ns)
        {
            return ControlFlow::Break(());
        }
        if self.ready && self.ledger.is_some() && now >= self.next_settle {
            self.next_settle = now + SETTLE_EVERY;
            if self.is_settled() {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    /// A server that is slow to answer slows the ramp, instead of meeting a growing pile.
    fn may_connect(&self, opened: usize) -> bool {
        opened < self.shared.live + self.shared.ended + SETUPS_AT_ONCE_MAX
    }
}

const REPORT_EVERY: Duration = Duration::from_secs(1);
const SETTLE_EVERY: Duration = Duration::from_millis(100);
const SETUPS_AT_ONCE_MAX: usize = 512;
const ERROR_TEXTS_MAX: usize = 100;
/// Two seconds beyond the promise: what the SDKs grant by default.
const KEEPALIVE_SLACK_MS: u64 = 2000;
/// Stands for the keys of records that are known by partition and offset; no record has this key.
const POSITION: &[u8] = b"\0position";
const TEXT_RESOLUTION_NS: u64 = 1_000_000;
