//! A running gateway: starts the threads, provides its addresses, shuts down cleanly.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use weir_adapter::{AdapterPort as _, AdapterServer};
use weir_identity::audit::{AuditEvent, AuditOutcome};
use weir_identity::config::TokenSource;
use weir_identity::{Revocation, RevocationError, RevocationKey};
use weir_mapping::ConnectionConfig;
use weir_net::MailboxSender;
use weir_net::admin::{AdminOptions, AdminServer};
use weir_net::descriptors::client_limit;
use weir_net::http1::ParseLimits;
use weir_net::listener::{end_stalled, limit_unsent};
use weir_net::memory::MemoryMeter;
use weir_net::otlp::{Export, Exporter, TraceSource};
use weir_net::server::{self, EventLoopOptions, Listener};
use weir_net::tls::TlsFiles;
use weir_net::watchdog::{Heartbeat, Watchdog, join_until};
use weir_tlcp::server::SessionConfig;

use crate::adapter::{self, AdapterAccess, AdapterToken, ShardInboxes};
use crate::admin::GatewayPages;
use crate::admission::{AdminPages, Admission};
use crate::config::GatewayConfig;
use crate::dashboard::{GatewayInfo, dashboard};
use crate::error::{GatewayError, InvalidConfig};
use crate::limits::GatewayLimits;
use crate::listeners::{Listeners, client_addresses};
use crate::memory_watch;
use crate::messages::{self, MessageQueue, Messages};
use crate::metrics::{self, MetricSources, ShardMetrics};
use crate::operators::SessionAdmin;
use crate::session_handles::SessionHandles;
use crate::shard::{ACTIVITIES, Placement, Shard, ShardContext, ShardEvent};
use crate::shared_revocations::{self, SharedRevocations};
use crate::try_page::TryPage;
use weir_access::Authenticator;
use weir_access::audit::AuditLog;
use weir_ingest::Cluster;
use weir_ingest::Ingest;
use weir_ingest::KafkaConnection;
use weir_ingest::ReadBackLimits;

/// Capacity of a shard's inbox in events. At 16 bytes and a shared record per event the inbox is
/// small. When it is full, ingest waits and the records stay in Kafka.
const INBOX_CAPACITY: usize = 4096;
/// Maximum bytes per client in the kernel's send buffer. Without this limit a lagging client would
/// have up to 4 MiB of outdated updates in it.
const UNSENT_BYTES: u32 = 64 * 1024;
/// Maximum wait for the shards' inboxes at the start of the drain.
const DRAIN_POST_TIMEOUT: Duration = Duration::from_millis(500);
/// Time for threads to end after their last deadline.
const JOIN_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum wait for a shard's inbox after a change of keys or revocations.
const ACCESS_POST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum wait at shutdown for updates that were already read.
const LAST_POST_TIMEOUT: Duration = Duration::from_secs(5);

/// All threads of a gateway.
#[derive(Debug)]
pub struct Gateway {
    listen: SocketAddr,
    tls_listen: Option<SocketAddr>,
    connections: Vec<Arc<KafkaConnection>>,
    inboxes: Vec<MailboxSender<ShardEvent>>,
    threads: Vec<JoinHandle<()>>,
    /// Closed by each ingest thread after it has posted its last update.
    posted: Vec<Receiver<()>>,
    admin: AdminServer,
    certificates: Vec<Arc<TlsFiles>>,
    audit: Option<Arc<AuditLog>>,
    /// Writer of the audit log, which ends last.
    audit_writer: Option<JoinHandle<()>>,
    auth: Option<Arc<Authenticator>>,
    adapter: Option<AdapterServer<AdapterToken>>,
    /// Export of metrics and traces, which ends last.
    exporter: Option<Exporter>,
    /// Monitors the shards while the gateway exists.
    _watchdog: Watchdog,
    /// Dropped to stop the memory monitor and the threads that fetch keys and read revocations.
    stop_background: Sender<()>,
    stop_ingest: Arc<AtomicBool>,
    draining: Arc<AtomicBool>,
    drain_timeout_ms: u64,
    drain_spread_ms: u64,
}

impl Gateway {
    /// Starts listening and reading; returns when clients can connect.
    ///
    /// # Errors
    /// Returns an error if an address cannot be bound or the operating system refuses a resource.
    pub fn start(mut config: GatewayConfig) -> Result<Self, GatewayError> {
        let meter = MemoryMeter::new(config.limits.memory_bytes as u64);
        config.limits.derive(meter.bytes_max());
        let tls = config.tls.take().map(Arc::new);
        let Listeners {
            listen,
            tls_listen,
            listeners,
        } = Listeners::open(config.listen, tls.as_deref(), config.event_loops)?;
        let (audit, audit_writer) = start_audit(&config)?.unzip();
        let (messages, message_queues) = prepare_messages(&mut config).unzip();
        let shard_inboxes = ShardInboxes::default();
        let adapter = config.adapter.take();
        let unavailable = adapter.as_ref().map(|one| one.unavailable);
        let adapter =
            adapter.map(|one| adapter::start(one, &config.set_id, Arc::clone(&shard_inboxes)));
        let adapter = adapter.transpose()?;
        let access = adapter.as_ref().zip(unavailable);
        let access = access.map(|(server, unavailable)| AdapterAccess {
            port: Arc::new(server.handle()),
            unavailable,
            identifies: is_adapter_alone(&config),
        });
        let listener = listen_admin(config.admin.listen)?;
        config.allowed_origins.add(AdminPages {
            scheme: config.admin.scheme(),
            port: listener.local_addr()?.port(),
            hosts: config.admin.hosts.clone(),
        });
        let shared = shard_context(
            &mut config,
            audit.clone(),
            (messages, access),
            shard_inboxes,
        );
        let shared = Arc::new(shared);
        let shards = make_shards(listeners, &shared)?;
        let inboxes: Vec<_> = shards.iter().map(|(_, inbox, _)| inbox.clone()).collect();
        // Fails only if it is already set, but nothing else sets it.
        let _ = shared.inboxes.set(inboxes.clone());
        let export = config.otlp.take().map(Export::new);
        let metrics = shards.iter().map(|(.., metrics)| Arc::clone(metrics));
        let sources = MetricSources {
            shards: metrics.collect(),
            connections: shared.connections.clone(),
            tls: tls.clone(),
            admission: Arc::clone(&shared.admission),
            audit: audit.clone(),
            messages: shared.messages.clone(),
            auth: shared.auth.clone(),
            adapter: shared.adapter.as_ref().map(|one| Arc::clone(&one.port)),
            otlp: export.as_ref().map(Export::counters),
        };
        let mut threads = start_shards(shards)?;
        let stop_ingest = Arc::new(AtomicBool::new(false));
        let traces = export.as_ref().and_then(Export::traces);
        let ingest = start_ingest(&config, &shared, (&inboxes, traces), &stop_ingest)?;
        let queues = message_queues.unwrap_or_default();
        let writers = start_message_writers(queues, &shared, &inboxes, &stop_ingest)?;
        let (ingest, posted): (Vec<_>, _) = ingest.into_iter().chain(writers).unzip();
        threads.extend(ingest);
        let (stop_background, stopped) = crossbeam_channel::bounded(0);
        let revocations = start_auth(&shared, &inboxes, &stopped)?;
        let watched = Arc::clone(&shared.admission);
        let watch = move || memory_watch::watch(&watched, &meter, &stopped);
        threads.push(spawn("memory", watch)?);
        let heartbeats = sources.shards.iter().map(|one| Arc::clone(&one.heartbeat));
        let watchdog = Watchdog::start(heartbeats.collect(), config.watchdog)?;
        let own = tls.iter().map(|tls| &tls.files);
        let of_adapter = adapter.as_ref().and_then(AdapterServer::certificates);
        let own = own.chain(&config.admin.files).chain(of_adapter);
        let certificates: Vec<_> = own.cloned().collect();
        let draining = Arc::new(AtomicBool::new(false));
        let info = GatewayInfo {
            adapter_set: shared.set_id.clone(),
            clients: client_addresses(listen, tls_listen),
            shards: config.event_loops,
            has_session_calls: config.admin.sessions_token.is_some(),
        };
        let registry = || metrics::registry(sources.clone(), watchdog.watchdog_status());
        let exporter = export.map(|export| export.start(registry())).transpose()?;
        let options = AdminOptions {
            listener,
            config: config.admin,
            registry: registry(),
            dashboard: dashboard(info, sources.clone()),
            watchdog_status: watchdog.watchdog_status(),
            certificates: certificates.clone(),
            draining: Arc::clone(&draining),
        };
        let pages = GatewayPages {
            try_page: TryPage {
                adapter_set: shared.set_id.clone(),
                listen,
                tls_listen,
                example_fields: shared.example_fields.clone(),
            },
            sources,
            sessions: SessionAdmin::new(Arc::clone(&shared), revocations),
        };
        audit_config(audit.as_deref(), "start");
        Ok(Self {
            listen,
            tls_listen,
            connections: shared.connections.clone(),
            inboxes,
            threads,
            posted,
            admin: AdminServer::start(options, pages)?,
            certificates,
            audit,
            audit_writer,
            auth: shared.auth.clone(),
            adapter,
            exporter: exporter.flatten(),
            _watchdog: watchdog,
            stop_background,
            stop_ingest,
            draining,
            drain_timeout_ms: config.drain_timeout_ms,
            drain_spread_ms: config.drain_spread_ms,
        })
    }

    /// Returns the address that clients connect to.
    pub fn listen_address(&self) -> SocketAddr {
        self.listen
    }

    /// Returns the address for TLS, if it is served; equal to [`Self::listen_address`] if only TLS
    /// is served.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_listen
    }

    /// Reloads certificate and key, even if the files have not changed, and opens the audit log
    /// again. If one of them is invalid, the gateway keeps the current one and logs an error.
    pub fn reload(&self) {
        self.certificates.iter().for_each(|tls| tls.reload());
        self.audit.iter().for_each(|audit| audit.reopen());
        audit_config(self.audit.as_deref(), "reload");
    }

    /// Returns the address of metrics and health.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Returns the address on which the gateway waits for the remote adapter.
    pub fn adapter_address(&self) -> Option<SocketAddr> {
        self.adapter.as_ref()?.listen_address()
    }

    /// Returns `true` if every enabled connection delivers what is produced from now on, and new
    /// clients can be identified.
    pub fn ready(&self) -> bool {
        let lacks = |auth: &Arc<Authenticator>| {
            !auth.issuers_without_keys().is_empty() || auth.awaited_revocations().is_some()
        };
        let is_down = |adapter: &AdapterServer<_>| !adapter.handle().metrics().is_connected();
        self.unready_connections().is_empty()
            && !self.auth.iter().any(lacks)
            && !self.adapter.iter().any(is_down)
    }

    /// Returns the connections that are not ready, with their last errors.
    pub fn unready_connections(&self) -> Vec<(String, Option<String>)> {
        let all = self.connections.iter();
        let waiting = all.filter(|one| one.config.enabled && !one.state.ready());
        let named = waiting.map(|one| (one.config.name.clone(), one.state.error()));
        named.collect()
    }

    /// Revokes tokens at this gateway and ends the sessions that they have opened.
    ///
    /// # Errors
    /// The entry is invalid, or too many are stored.
    pub fn revoke(&self, entry: Revocation) -> Result<(), RevocationError> {
        let auth = self.auth.as_ref();
        auth.map_or(Ok(()), |auth| auth.revoke(entry).map(|_| ()))
    }

    /// Removes a revocation from this gateway. Returns `false` if there was none.
    pub fn withdraw_revocation(&self, key: &RevocationKey) -> bool {
        self.auth
            .as_ref()
            .is_some_and(|auth| auth.withdraw_revocation(key))
    }

    /// Returns the revocations whose tokens have not expired at `unix_ms`.
    pub fn revocations(&self, unix_ms: u64) -> Vec<Revocation> {
        self.auth
            .as_ref()
            .map_or_else(Vec::new, |auth| auth.revocations(unix_ms))
    }

    /// Stops reading, delivers the updates already read, ends all sessions and all threads.
    ///
    /// Takes at most the sum of `drain_spread_ms`, `drain_timeout_ms` and a few seconds. Threads
    /// that do not end by then keep running; their names are returned.
    pub fn shut_down(self) -> Vec<String> {
        self.draining.store(true, Ordering::Relaxed);
        self.stop_ingest.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        let budget_ms = self.drain_spread_ms + self.drain_timeout_ms;
        let post_deadline = begin + LAST_POST_TIMEOUT.min(Duration::from_millis(budget_ms / 2));
        for posted in &self.posted {
            // Nothing is ever sent: the wait ends by disconnection or timeout.
            let _ = posted.recv_deadline(post_deadline);
        }
        let left_ms = budget_ms.saturating_sub(begin.elapsed().as_millis() as u64);
        let spread_ms = self.drain_spread_ms.min(left_ms);
        let drain = || ShardEvent::Drain {
            spread_ms,
            within_ms: left_ms - spread_ms,
        };
        let drain_deadline = Instant::now() + DRAIN_POST_TIMEOUT;
        for inbox in &self.inboxes {
            // A shard that cannot accept the event ends with the process.
            let left = drain_deadline.saturating_duration_since(Instant::now());
            let _ = inbox.post(drain(), left);
        }
        let deadline = begin + Duration::from_millis(budget_ms) + JOIN_TIMEOUT;
        drop(self.stop_background);
        let mut stuck = join_until(self.threads, deadline);
        // The shards have posted the ends of all sessions to the adapter.
        let adapter = self.adapter.into_iter();
        stuck.extend(adapter.flat_map(|adapter| adapter.shut_down(JOIN_TIMEOUT)));
        let deadline = deadline.max(Instant::now() + JOIN_TIMEOUT / 2);
        stuck.extend(join_until(vec![self.admin.stop()], deadline));
        self.audit.iter().for_each(|audit| audit.close());
        let audit = self.audit_writer.into_iter().collect();
        stuck.extend(join_until(audit, deadline));
        self.exporter.into_iter().for_each(Exporter::stop);
        stuck
    }
}

fn start_shards(shards: Vec<ShardParts>) -> std::io::Result<Vec<JoinHandle<()>>> {
    let start = |(number, (shard, ..)): (usize, ShardParts)| {
        let run = move || {
            if let Err(error) = shard.run() {
                tracing::error!(%error, "event loop failed");
            }
        };
        spawn(&format!("shard-{number}"), run)
    };
    shards.into_iter().enumerate().map(start).collect()
}

/// Starts the ingest threads. Each closes its channel after it has posted its last update.
fn start_ingest(
    config: &GatewayConfig,
    shared: &ShardContext,
    (inboxes, traces): (&[MailboxSender<ShardEvent>], Option<TraceSource>),
    stop: &Arc<AtomicBool>,
) -> std::io::Result<Vec<(JoinHandle<()>, Receiver<()>)>> {
    let start = |(number, connection): (usize, &Arc<KafkaConnection>)| {
        let ingest = Ingest {
            connection: Arc::clone(connection),
            number: number as u16,
            stop: Arc::clone(stop),
            shards: inboxes.to_vec(),
            store: config.last_values.store_of(connection, &shared.connections),
            traces: traces.clone(),
            idle: config.idle_records,
            resume_delay: Duration::from_millis(config.resume_delay_ms),
        };
        let (posting, posted) = crossbeam_channel::bounded(0);
        let thread = spawn(&format!("ingest-{number}"), move || ingest.run(posting))?;
        Ok((thread, posted))
    };
    let all = shared.connections.iter().enumerate();
    let enabled = all.filter(|(_, connection)| connection.config.enabled);
    enabled.map(start).collect()
}

/// Writes to the audit log that the configuration was read.
fn audit_config(audit: Option<&AuditLog>, reason: &'static str) {
    if let Some(audit) = audit {
        audit.record(
            audit
                .event(AuditEvent::Config, AuditOutcome::Allow)
                .reason(reason),
        );
    }
}

/// The audit log and its writer.
type AuditParts = (Arc<AuditLog>, JoinHandle<()>);

/// Starts the audit log if one is configured.
fn start_audit(config: &GatewayConfig) -> Result<Option<AuditParts>, GatewayError> {
    let started = config.audit.as_ref().map(AuditLog::start).transpose();
    started.map_err(|error| InvalidConfig::from(error).in_file("gateway.toml"))
}

/// Creates the queues of client messages, if there are rules for them.
fn prepare_messages(config: &mut GatewayConfig) -> Option<(Arc<Messages>, Vec<MessageQueue>)> {
    let rules = std::mem::take(&mut config.messages);
    Messages::new(rules, &config.connections, config.event_loops)
}

/// Starts the threads that write client messages; see [`start_ingest`].
fn start_message_writers(
    queues: Vec<MessageQueue>,
    shared: &ShardContext,
    inboxes: &[MailboxSender<ShardEvent>],
    stop: &Arc<AtomicBool>,
) -> std::io::Result<Vec<(JoinHandle<()>, Receiver<()>)>> {
    let Some(messages) = &shared.messages else {
        return Ok(Vec::new());
    };
    let waker = |inbox: &MailboxSender<ShardEvent>| {
        let inbox = inbox.clone();
        let wake = move || {
            // A shard with a full inbox is awake.
            let _ = inbox.post(ShardEvent::MessageResults, Duration::ZERO);
        };
        Box::new(wake) as messages::Waker
    };
    let wakers = inboxes.iter().map(waker).collect();
    messages::start(queues, messages, &shared.connections, wakers, stop)
}

/// Starts fetching keys and reading the revocations of other gateways. Changes go to all shards.
fn start_auth(
    shared: &ShardContext,
    inboxes: &[MailboxSender<ShardEvent>],
    stopped: &Receiver<()>,
) -> std::io::Result<Option<Arc<SharedRevocations>>> {
    let Some(auth) = &shared.auth else {
        return Ok(None);
    };
    let inboxes = inboxes.to_vec();
    auth.start(stopped, move |change| {
        for inbox in &inboxes {
            let event = ShardEvent::Access(change.clone());
            // A shard that accepts nothing until the timeout is reported by the watchdog.
            let _ = inbox.post(event, ACCESS_POST_TIMEOUT);
        }
    })?;
    shared_revocations::start(auth, &shared.connections, stopped)
}

/// Returns `true` if neither tokens nor certificates identify clients, only the remote adapter.
fn is_adapter_alone(config: &GatewayConfig) -> bool {
    config.access.as_ref().is_none_or(|access| {
        let auth = &access.auth;
        auth.issuers.is_empty() && !auth.sources.contains(&TokenSource::Certificate)
    })
}

fn shard_context(
    config: &mut GatewayConfig,
    audit: Option<Arc<AuditLog>>,
    (messages, adapter): (Option<Arc<Messages>>, Option<AdapterAccess>),
    inboxes: ShardInboxes,
) -> ShardContext {
    let access = config.access.take();
    let names: Vec<&str> = config
        .connections
        .iter()
        .map(|one| one.name.as_str())
        .collect();
    let auth = access.map(|access| Arc::new(Authenticator::new(access, &names)));
    let read_back = ReadBackLimits {
        records: config.limits.missed_records as u64,
        records_per_second: config.limits.missed_records_per_second as u32,
    };
    let connect = |((connection, cluster), registry): ((ConnectionConfig, Cluster), _)| {
        let diffs = config.diffs.of(&connection.name);
        let of_rules = auth
            .as_ref()
            .map(|auth| auth.record_selections(&connection.name));
        let mut connection = KafkaConnection::new(connection, cluster, registry, diffs);
        connection.read_back.limits = read_back;
        Arc::new(connection.select_records(of_rules.unwrap_or_default()))
    };
    let connections = std::mem::take(&mut config.connections).into_iter();
    let connections = connections.zip(std::mem::take(&mut config.clusters));
    let connections = connections.zip(std::mem::take(&mut config.registries));
    let origins = std::mem::take(&mut config.allowed_origins);
    let limits = config.limits.clone();
    let most = limits.connections_in_all(config.event_loops);
    ShardContext {
        admission: Arc::new(Admission::new(&limits, origins, most)),
        audit,
        handles: SessionHandles::default(),
        set_id: std::mem::take(&mut config.set_id),
        connections: connections.map(connect).collect(),
        example_fields: std::mem::take(&mut config.example_fields),
        session: SessionConfig {
            request_limit_bytes: limits.request_bytes,
            control_link: config.control_link.take().map(Into::into),
            ..SessionConfig::default()
        },
        auth,
        adapter,
        limits,
        unknown_names: config.unknown_names,
        simulator: config.simulator.take(),
        messages,
        compression: config.compression,
        diff_bytes_per_second: config.diffs.budget_bytes_per_second,
        shards: config.event_loops,
        placement: Placement::new(config.event_loops, sessions_per_shard(config)),
        inboxes,
    }
}

/// Returns the number of sessions after which new ones go to the next shard: the configured number,
/// unless the limits of a shard are lower.
fn sessions_per_shard(config: &GatewayConfig) -> usize {
    let (limits, shards) = (&config.limits, config.event_loops);
    let connections = limits.connections_in_all(shards).div_ceil(shards);
    let most = limits.sessions.div_ceil(shards).min(connections / 2);
    config.event_loop_sessions.min(most).max(1)
}

type ShardParts = (
    server::EventLoop<Shard>,
    MailboxSender<ShardEvent>,
    Arc<ShardMetrics>,
);

fn make_shards(
    listeners: Vec<Vec<Listener>>,
    shared: &Arc<ShardContext>,
) -> Result<Vec<ShardParts>, GatewayError> {
    let connections = shared.limits.connections_in_all(shared.shards);
    let connections = connections.div_ceil(shared.shards);
    let epoch = Instant::now();
    let mut parts = Vec::with_capacity(listeners.len());
    for (number, listeners) in listeners.into_iter().enumerate() {
        for listener in &listeners {
            let stall_timeout = Duration::from_millis(shared.limits.stall_timeout_ms);
            end_stalled(&listener.socket, stall_timeout)?;
            limit_unsent(&listener.socket, UNSENT_BYTES)?;
        }
        let heartbeat = Heartbeat::new(format!("shard-{number}"), epoch, ACTIVITIES);
        let metrics = Arc::new(ShardMetrics::new(heartbeat));
        let handler = Shard::new(number as u16, Arc::clone(shared), Arc::clone(&metrics));
        let options = EventLoopOptions {
            listeners,
            limits: net_limits(&shared.limits, connections),
            mailbox_capacity: INBOX_CAPACITY,
            heartbeat: Arc::clone(&metrics.heartbeat),
        };
        let (shard, inbox) = server::EventLoop::new(options, handler)?;
        parts.push((shard, inbox, metrics));
    }
    Ok(parts)
}

fn net_limits(limits: &GatewayLimits, connections: usize) -> server::ConnectionLimits {
    let defaults = server::ConnectionLimits::default();
    server::ConnectionLimits {
        connections,
        http: ParseLimits {
            body_bytes: limits.request_bytes,
            ..defaults.http
        },
        message_bytes: limits.request_bytes,
        send_queue_bytes: limits.queue_bytes,
        descriptor_limit: client_limit(),
        ..defaults
    }
}

fn listen_admin(address: SocketAddr) -> Result<TcpListener, GatewayError> {
    let key = "--admin";
    TcpListener::bind(address).map_err(|error| GatewayError::Listen {
        address,
        key,
        error,
    })
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
}
