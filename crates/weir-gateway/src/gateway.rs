//! A running gateway: starts the threads, tells its addresses, ends in order.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender};
use tokio::sync::oneshot;
use weir_net::MailSender;
use weir_net::http1::ParseLimits;
use weir_net::listener::{end_stalled, limit_unsent};
use weir_net::memory::MemoryMeter;
use weir_net::server::{self, Listener, ShardOptions};
use weir_tlcp::server::SessionConfig;

use crate::admin::{self, AdminState};
use crate::config::{GatewayConfig, Limits};
use crate::connection::Connection;
use crate::dashboard::{Dashboard, Identity};
use crate::doors::{Doors, client_addresses};
use crate::error::GatewayError;
use crate::guard::{Guard, Origins};
use crate::ingest::Ingest;
use crate::metrics::{self, ShardMetrics, Sources};
use crate::overload;
use crate::shard::{Shard, ShardMail, Shared};
use crate::tls::TlsFiles;

/// Mails a shard's inbox holds. At 16 bytes and a shared record each it is small; when it is full,
/// ingest waits, and Kafka keeps the rest.
const MAIL_CAPACITY: usize = 4096;
/// Bytes the kernel takes from us and cannot send yet, per client; without it a client that lags
/// would have up to 4 MiB of outdated updates before it. Clients that read never have any.
const UNSENT_BYTES: u32 = 64 * 1024;
/// Longest wait for a shard's inbox when it is told to drain.
const DRAIN_POST: Duration = Duration::from_secs(1);

/// Longest wait for updates that were read before a shutdown.
const LAST_POST: Duration = Duration::from_secs(5);

/// All threads of a gateway.
#[derive(Debug)]
pub struct Gateway {
    listen: SocketAddr,
    tls_listen: Option<SocketAddr>,
    tls: Option<Arc<TlsFiles>>,
    admin: SocketAddr,
    connections: Vec<Arc<Connection>>,
    mail: Vec<MailSender<ShardMail>>,
    shards: Vec<JoinHandle<()>>,
    ingests: Vec<JoinHandle<()>>,
    /// Closed by each ingest thread when it has posted its last update.
    posted: Vec<Receiver<()>>,
    admin_thread: Option<JoinHandle<()>>,
    stop_admin: Option<oneshot::Sender<()>>,
    /// Dropped when memory need not be watched any more.
    stop_watch: Option<Sender<()>>,
    watch_thread: Option<JoinHandle<()>>,
    stop_ingest: Arc<AtomicBool>,
    draining: Arc<AtomicBool>,
    drain_ms: u64,
    drain_spread_ms: u64,
    last_value_bytes: usize,
}

impl Gateway {
    /// Starts to listen and to read; returns when clients can connect.
    ///
    /// # Errors
    /// An address that cannot be listened on, or a refusal of the operating system.
    pub fn start(config: GatewayConfig) -> Result<Self, GatewayError> {
        let mut limits = config.limits;
        limits.divide(config.shards);
        let meter = MemoryMeter::new(limits.memory_bytes as u64);
        limits.derive(meter.bytes_max());
        let connections: Vec<Arc<Connection>> = config
            .connections
            .into_iter()
            .map(|connection| {
                let diffs = config.diffs.of(&connection.name);
                Arc::new(Connection::new(connection, diffs))
            })
            .collect();
        let origins = Origins::parse(&config.allowed_origins).map_err(|reason| {
            let file = "gateway.toml".to_owned();
            GatewayError::Config { file, reason }
        })?;
        let most = limits.connections_in_all(config.shards);
        let guard = Arc::new(Guard::new(&limits, origins, most));
        let shared = Arc::new(Shared {
            guard: Arc::clone(&guard),
            set_id: config.set_id,
            connections: connections.clone(),
            session: SessionConfig {
                request_limit_bytes: limits.request_bytes,
                control_link: config.control_link.map(Into::into),
                ..SessionConfig::default()
            },
            limits,
            simulator: config.simulator,
            compression: config.compression,
            diff_bytes_per_second: config.diffs.budget_bytes_per_second,
            shards: config.shards,
            peers: OnceLock::new(),
        });
        let tls = config.tls.map(Arc::new);
        let doors = Doors::open(config.listen, tls.as_deref(), config.shards)?;
        let (listen, tls_listen) = (doors.listen, doors.tls_listen);
        let parts = make_shards(doors.listeners, &shared, most.div_ceil(config.shards))?;
        let inboxes = parts.iter().map(|(_, mail, _)| mail.clone()).collect();
        // It was empty until now.
        let _ = shared.peers.set(inboxes);
        let (admin_listener, admin) = listen_admin(config.admin)?;
        let mut gateway = Self {
            listen,
            tls_listen,
            tls,
            admin,
            connections,
            mail: Vec::new(),
            shards: Vec::new(),
            ingests: Vec::new(),
            posted: Vec::new(),
            admin_thread: None,
            stop_admin: None,
            stop_watch: None,
            watch_thread: None,
            stop_ingest: Arc::new(AtomicBool::new(false)),
            draining: Arc::new(AtomicBool::new(false)),
            drain_ms: config.drain_ms,
            drain_spread_ms: config.drain_spread_ms,
            last_value_bytes: config.last_values.memory_bytes,
        };
        let mut shard_metrics = Vec::new();
        for (number, (shard, mail, metrics)) in parts.into_iter().enumerate() {
            gateway.mail.push(mail);
            shard_metrics.push(metrics);
            gateway
                .shards
                .push(spawn(&format!("shard-{number}"), move || {
                    if let Err(error) = shard.run() {
                        tracing::error!(%error, "event loop failed");
                    }
                })?);
        }
        for number in 0..gateway.connections.len() {
            gateway.start_ingest(number)?;
        }
        let identity = Identity {
            adapter_set: shared.set_id.clone(),
            clients: client_addresses(listen, tls_listen),
            shards: config.shards,
        };
        let sources = Sources {
            shards: shard_metrics,
            connections: gateway.connections.clone(),
            tls: gateway.tls.clone(),
            guard,
        };
        let (stop, stopped) = crossbeam_channel::bounded(0);
        gateway.stop_watch = Some(stop);
        let watched = Arc::clone(&sources.guard);
        let watch = move || overload::watch(&watched, &meter, &stopped);
        gateway.watch_thread = Some(spawn("memory", watch)?);
        gateway.start_admin(admin_listener, sources, identity, config.admin_token)?;
        Ok(gateway)
    }

    fn start_ingest(&mut self, number: usize) -> Result<(), GatewayError> {
        let connection = Arc::clone(&self.connections[number]);
        if !connection.config.enabled {
            return Ok(());
        }
        let (mail, stop) = (self.mail.clone(), Arc::clone(&self.stop_ingest));
        let last_bytes = match connection.config.mapping.command_mode().is_enforced() {
            // Its items are tables, of which the last record says little.
            true => 0,
            false => self.last_value_bytes.div_ceil(self.connections.len()),
        };
        let ingest = Ingest::new(connection, number as u16, mail, stop, last_bytes);
        let (posting, posted) = crossbeam_channel::bounded(0);
        self.posted.push(posted);
        let work = move || ingest.run(posting);
        self.ingests.push(spawn(&format!("ingest-{number}"), work)?);
        Ok(())
    }

    fn start_admin(
        &mut self,
        listener: std::net::TcpListener,
        sources: Sources,
        identity: Identity,
        token: Option<String>,
    ) -> Result<(), GatewayError> {
        let state = AdminState {
            registry: metrics::registry(sources.clone()),
            connections: self.connections.clone(),
            draining: Arc::clone(&self.draining),
            guard: Arc::clone(&sources.guard),
            token,
            tls: self.tls.clone(),
            dashboard: Arc::new(Dashboard::new(identity, Arc::new(sources))),
        };
        let (stop, stopped) = oneshot::channel();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        self.stop_admin = Some(stop);
        self.admin_thread = Some(spawn("admin", move || {
            let served = runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener)?;
                admin::serve(listener, state, stopped).await
            });
            if let Err(error) = served {
                tracing::error!(%error, "admin port failed");
            }
        })?);
        Ok(())
    }

    /// Where clients connect.
    pub fn listen_address(&self) -> SocketAddr {
        self.listen
    }

    /// Where clients connect with TLS, if that is served; the same as [`Self::listen_address`] if it is
    /// served alone.
    pub fn tls_address(&self) -> Option<SocketAddr> {
        self.tls_listen
    }

    /// Reads certificate and key again now, whether their files have changed or not. If they cannot be
    /// used, those in use stay, and the log says so.
    pub fn reload_certificate(&self) {
        if let Some(tls) = &self.tls {
            tls.reload();
        }
    }

    /// Where metrics and health are served.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin
    }

    /// Whether every enabled connection delivers what is produced from now on.
    pub fn ready(&self) -> bool {
        let mut enabled = self.connections.iter().filter(|one| one.config.enabled);
        enabled.all(|connection| connection.state.ready())
    }

    /// What keeps connections from being ready: names and last errors.
    pub fn troubles(&self) -> Vec<(String, Option<String>)> {
        let waiting = self
            .connections
            .iter()
            .filter(|one| one.config.enabled && !one.state.ready());
        waiting
            .map(|one| (one.config.name.clone(), one.state.error()))
            .collect()
    }

    /// Stops reading, delivers what was read, says goodbye to all clients, and ends all threads.
    pub fn shut_down(mut self) {
        self.draining.store(true, Ordering::Relaxed);
        self.stop_ingest.store(true, Ordering::Relaxed);
        let deadline = Instant::now() + LAST_POST;
        for posted in &self.posted {
            // Nothing is ever sent: it ends by disconnection, or when it takes too long.
            let _ = posted.recv_deadline(deadline);
        }
        for mail in &self.mail {
            // A shard too busy to take the mail ends with the process.
            let _ = mail.post(
                ShardMail::Drain {
                    spread_ms: self.drain_spread_ms,
                    within_ms: self.drain_ms,
                },
                DRAIN_POST,
            );
        }
        self.shards.drain(..).for_each(join);
        self.ingests.drain(..).for_each(join);
        self.stop_watch.take();
        self.watch_thread.take().into_iter().for_each(join);
        self.stop_admin.take();
        self.admin_thread.take().into_iter().for_each(join);
    }
}

type ShardParts = (
    server::Shard<Shard>,
    MailSender<ShardMail>,
    Arc<ShardMetrics>,
);

fn make_shards(
    listeners: Vec<Vec<Listener>>,
    shared: &Arc<Shared>,
    connections: usize,
) -> Result<Vec<ShardParts>, GatewayError> {
    let epoch = Instant::now();
    let mut parts = Vec::with_capacity(listeners.len());
    for (number, listeners) in listeners.into_iter().enumerate() {
        for listener in &listeners {
            end_stalled(
                &listener.socket,
                Duration::from_millis(shared.limits.stalled_ms),
            )?;
            limit_unsent(&listener.socket, UNSENT_BYTES)?;
        }
        let metrics = Arc::new(ShardMetrics::new());
        let handler = Shard::new(number as u16, Arc::clone(shared), Arc::clone(&metrics));
        let options = ShardOptions {
            listeners,
            limits: net_limits(&shared.limits, connections),
            mail_capacity: MAIL_CAPACITY,
            epoch,
        };
        let (shard, mail) = server::Shard::new(options, handler)?;
        parts.push((shard, mail, metrics));
    }
    Ok(parts)
}

fn net_limits(limits: &Limits, connections: usize) -> server::Limits {
    let defaults = server::Limits::default();
    server::Limits {
        connections,
        http: ParseLimits {
            body_bytes: limits.request_bytes,
            ..defaults.http
        },
        message_bytes: limits.request_bytes,
        outbox_bytes: limits.queue_bytes,
        ..defaults
    }
}

fn listen_admin(address: SocketAddr) -> Result<(std::net::TcpListener, SocketAddr), GatewayError> {
    let fail = |error| GatewayError::Listen {
        address,
        key: "--admin",
        error,
    };
    let listener = std::net::TcpListener::bind(address).map_err(fail)?;
    listener.set_nonblocking(true).map_err(fail)?;
    let address = listener.local_addr().map_err(fail)?;
    Ok((listener, address))
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(name.to_owned())
        .spawn(work)
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread ended by panic");
    }
}
