//! The state of a shard, and what it does in each iteration of its event loop.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use weir_net::server::ServerIo;
use weir_net::watchdog::Activity;

use super::clients::Clients;
use super::context::ShardContext;
use super::credentials::ClientCredentials;
use super::dialect::Dialects;
use super::expected_logins::ExpectedLogins;
use super::forwarding::Forwarding;
use super::placement::BusyMeter;
use super::tracer::Tracer;
use super::traces::UpdateTraces;
use crate::latency::PendingAges;
use crate::metrics::ShardMetrics;

/// Activities that the watchdog logs for a shard that is stuck.
pub(crate) const ACTIVITIES: &[&str] =
    &["a subscription", "an unsubscription", "a lost connection"];
pub(super) const SUBSCRIBE: Activity = Activity(Activity::FIRST_OWN);
pub(super) const UNSUBSCRIBE: Activity = Activity(Activity::FIRST_OWN + 1);
pub(super) const CONNECTION_LOST: Activity = Activity(Activity::FIRST_OWN + 2);

/// Input bytes that are charged for one item joined or released.
const ITEM_CHARGE: usize = 512;

/// Handler of one event loop. It dispatches requests and events to its components.
pub(crate) struct Shard {
    pub(super) clients: Clients,
    pub(super) forwarding: Forwarding,
    pub(super) dialects: Dialects,
    pub(super) logins: ExpectedLogins,
    pub(super) credentials: ClientCredentials,
    /// Updates of this flush round, whose delivery ages are not recorded yet.
    pub(super) ages: PendingAges,
    pub(super) metrics: Arc<ShardMetrics>,
    pub(super) busy: BusyMeter,
    /// Active traces of operators.
    pub(super) tracer: Option<Box<Tracer>>,
    /// Sampled updates of this flush round.
    pub(super) traces: UpdateTraces,
    /// Buffer for the response lines of one message, reused.
    pub(super) response_buffer: Vec<u8>,
    /// Buffer for the data notifications caused by one request, reused.
    pub(super) notifications: Vec<u8>,
}

impl Shard {
    pub(crate) fn new(number: u16, shared: Arc<ShardContext>, metrics: Arc<ShardMetrics>) -> Self {
        Self {
            forwarding: Forwarding::new(number, Arc::clone(&shared)),
            clients: Clients::new(number, shared),
            dialects: Dialects::default(),
            logins: ExpectedLogins::default(),
            credentials: ClientCredentials::default(),
            ages: PendingAges::default(),
            metrics,
            busy: BusyMeter::default(),
            tracer: None,
            traces: UpdateTraces::default(),
            response_buffer: Vec::new(),
            notifications: Vec::new(),
        }
    }

    /// Records the delivery ages of the updates that were queued before this flush round.
    pub(super) fn count_ages(&mut self) {
        if !self.ages.is_empty() {
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let now_ms = i64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
            self.ages.count(now_ms, &self.metrics.latency);
        }
    }

    /// Publishes the counters and refills the budgets.
    pub(super) fn publish(&mut self, io: &ServerIo) {
        let clients = &mut self.clients;
        clients.counters.sessions = clients.sessions.len() as u64;
        clients.counters.by_transport = clients.sessions.by_transport(io.now_ms());
        clients.counters.items = clients.items.len() as u64;
        clients.counters.rows = clients.items.rows;
        clients.counters.delivery = clients.delivery.publish(io.now_ms());
        clients.counters.writer = clients.writer.publish(io.now_ms());
        clients.counters.connections = io.connections() as u64;
        clients.counters.io = io.counters();
        let is_busy = self.busy.is_busy(io.now_ms());
        let (placement, shard) = (&clients.shared.placement, clients.sessions.shard);
        placement.publish(shard, clients.sessions.len(), is_busy);
        self.metrics.publish(&clients.counters);
    }

    /// Charges the input budget of a peer for the items that its input has joined and released.
    pub(super) fn charge_work(&mut self, io: &mut ServerIo) {
        let work = &mut self.clients.work;
        io.charge_input((work.items - work.charged) * ITEM_CHARGE);
        work.charged = work.items;
    }

    /// Starts an iteration with the work that earlier ones have left.
    pub(super) fn begin_iteration(&mut self, io: &mut ServerIo) {
        self.clients.work.items = 0;
        self.clients.schemas.sweep_if_due(io.now_ms());
        self.clients.tear_down();
        self.clients.work.items = 0;
        self.run_forwarded(io);
        self.clients.report_messages(io);
        self.clients.fail_recoveries(io);
        if self.retry_waiting(io) {
            io.continue_soon();
        }
        let work = &mut self.clients.work;
        work.charged = work.items;
        if !work.ended_sessions.is_empty() || !self.forwarding.incoming.is_empty() {
            io.continue_soon();
        }
    }
}
