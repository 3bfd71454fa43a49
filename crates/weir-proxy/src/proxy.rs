//! The proxy as a whole: starts and stops its threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_net::MailboxSender;
use weir_net::admin::{AdminOptions, AdminServer};
use weir_net::otlp::{Export, Exporter};
use weir_net::tls::TlsFiles;
use weir_net::watchdog::{Heartbeat, Watchdog, join_until};

use crate::admin::Pages;
use crate::broker_registry::BrokerInfo;
use crate::config::ProxyConfig;
use crate::counters::LoopMetrics;
use crate::dashboard::dashboard;
use crate::data::{
    Admission, FilterPool, ListenerTarget, LoginPool, LoopEvent, LoopShared, Memory, open_loop,
};
use crate::error::ProxyError;
use crate::filter::Direction;
use crate::metrics::{self, MetricSources};
use crate::probe::HealthProbe;
use crate::resolve::start_resolver;
use crate::virtual_cluster::VirtualCluster;
use crate::wire::BrokerNode;

/// Maximum wait for a full event-loop inbox.
const POST_TIMEOUT: Duration = Duration::from_secs(1);

/// Maximum wait for all full inboxes at shutdown.
const FINAL_POST_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum wait for threads to end at shutdown.
const JOIN_TIMEOUT: Duration = Duration::from_millis(500);

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    clusters: Vec<Arc<VirtualCluster>>,
    admin: AdminServer,
    /// Export of metrics and traces, which ends last.
    exporter: Option<Exporter>,
    /// Checks the event loops until the proxy is dropped.
    _watchdog: Watchdog,
    senders: Vec<MailboxSender<LoopEvent>>,
    loops: Vec<JoinHandle<()>>,
    probes: Vec<JoinHandle<()>>,
    /// Dropped to stop the probes.
    stop_probes: Sender<()>,
    draining: Arc<AtomicBool>,
    drain: Duration,
    certificates: Vec<Arc<TlsFiles>>,
    /// The filter threads; `None` if no cluster has filters.
    filters: Option<(Arc<FilterPool>, Vec<JoinHandle<()>>)>,
}

impl Proxy {
    /// Binds the listeners and starts all threads. Brokers need not respond yet.
    pub fn start(config: ProxyConfig) -> Result<Self, ProxyError> {
        let address = config.admin.listen;
        let admin_listener = std::net::TcpListener::bind(address);
        let admin_listener = admin_listener.map_err(|error| ProxyError::Listen {
            address,
            key: "admin.listen".to_owned(),
            error,
        })?;
        let mut clusters = Vec::with_capacity(config.clusters.len());
        let mut listeners = Vec::with_capacity(config.clusters.len());
        for (index, cluster) in config.clusters.into_iter().enumerate() {
            let (cluster, sockets) = VirtualCluster::open(index, cluster, config.event_loops)?;
            listeners.push(sockets);
            clusters.push(Arc::new(cluster));
        }
        let export = config.otlp.map(Export::new);
        if let Some(source) = export.as_ref().and_then(Export::traces) {
            for cluster in &clusters {
                cluster
                    .apis
                    .trace_with(source.clone(), &cluster.config.name);
            }
        }
        let limits = &config.limits;
        let response_timeout = Duration::from_millis(limits.response_ms);
        let filters = match clusters.iter().any(|cluster| has_filters(cluster)) {
            true => Some(FilterPool::start(config.filter_threads, limits.filters())?),
            false => None,
        };
        let (stop_probes, stopped) = bounded(0);
        let (logins, login_threads) = start_logins(&clusters, &stopped)?;
        let shared = Arc::new(LoopShared {
            clusters: clusters.clone(),
            splice: config.splice,
            admission: Admission::new(limits.connections, limits.connections_per_address),
            resolver: start_resolver()?,
            memory: Arc::new(Memory::new(limits.buffered())),
            pool: filters.as_ref().map(|(pool, _)| Arc::clone(pool)),
            logins,
            limits: config.limits,
        });
        let (senders, loops, loop_metrics, heartbeats) = start_loops(&shared, config.event_loops)?;
        let watchdog = Watchdog::start(heartbeats, config.watchdog)?;
        for cluster in &clusters {
            cluster.broker_registry.serve_at(senders.clone());
        }
        for (index, sockets) in listeners.into_iter().enumerate() {
            for (socket, sender) in sockets.into_iter().zip(&senders) {
                let event = LoopEvent::Listen(index, ListenerTarget::Bootstrap, socket);
                // The loops have just started and have room for more events than this.
                let _ = sender.post(event, POST_TIMEOUT);
            }
        }
        let mut probes = Vec::with_capacity(clusters.len());
        for cluster in &clusters {
            for (id, address) in &cluster.config.brokers {
                let node = BrokerNode {
                    id: *id,
                    host: &address.host,
                    port: address.port,
                };
                cluster.broker_registry.register_broker(node, true);
            }
            let cluster = Arc::clone(cluster);
            probes.push(HealthProbe::start(
                cluster,
                response_timeout,
                stopped.clone(),
            )?);
        }
        probes.extend(login_threads);
        let presented = clusters.iter().filter_map(|one| one.config.tls.clone());
        let draining = Arc::new(AtomicBool::new(false));
        let sources = MetricSources {
            otlp: export.as_ref().map(Export::counters),
            loops: loop_metrics,
            presented: presented.chain(config.admin.tls.clone()).collect(),
            certificates: config.tls_files.clone(),
            shared,
        };
        let vitals = watchdog.vitals();
        let pages = Pages {
            clusters: clusters.clone(),
            loops: senders.clone(),
        };
        let registry = || metrics::registry(sources.clone(), Arc::clone(&vitals));
        let exporter = export.map(|export| export.start(registry())).transpose()?;
        let options = AdminOptions {
            listener: admin_listener,
            config: config.admin,
            registry: registry(),
            vitals,
            dashboard: dashboard(sources),
            certificates: config.tls_files.clone(),
            draining: Arc::clone(&draining),
        };
        let admin = AdminServer::start(options, pages)?;
        Ok(Self {
            clusters,
            admin,
            exporter: exporter.flatten(),
            senders,
            loops,
            probes,
            stop_probes,
            _watchdog: watchdog,
            draining,
            drain: Duration::from_millis(config.drain_timeout_ms),
            certificates: config.tls_files,
            filters,
        })
    }

    /// Returns name and listen address of each virtual cluster.
    pub fn addresses(&self) -> impl Iterator<Item = (&str, SocketAddr)> {
        let clusters = self.clusters.iter();
        clusters.map(|cluster| (cluster.config.name.as_str(), cluster.listen))
    }

    /// Returns the address of the admin port.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Returns the brokers of a virtual cluster that have a port.
    pub fn brokers(&self, cluster: &str) -> Vec<BrokerInfo> {
        let found = self.clusters.iter().find(|one| one.config.name == cluster);
        found.map_or_else(Vec::new, |one| one.broker_registry.infos())
    }

    /// Reloads all files of certificates, keys and users, changed or not. If a table's files
    /// cannot be used,
    /// its previous certificates stay in use and the error is logged.
    pub fn reload_certificates(&self) {
        self.certificates.iter().for_each(|files| files.reload());
        for cluster in &self.clusters {
            if let Some(logins) = &cluster.config.logins {
                logins.reload(&cluster.config.name, true);
            }
        }
    }

    /// Returns `true` if every cluster responded to the last probe.
    pub fn is_ready(&self) -> bool {
        let mut clusters = self.clusters.iter();
        clusters.all(|cluster| cluster.health.is_responding())
    }

    /// Returns the clusters that do not respond, with the reason.
    pub fn unready_clusters(&self) -> impl Iterator<Item = (&str, Option<String>)> {
        let clusters = self.clusters.iter();
        let unresponsive = clusters.filter(|one| !one.health.is_responding());
        unresponsive.map(|cluster| (cluster.config.name.as_str(), cluster.health.error()))
    }

    /// Stops accepting connections, waits for in-flight requests and stops the threads.
    ///
    /// Waits up to the drain timeout for the requests, and at most about one second more. Returns
    /// the names of the threads that have not ended by then; they end with the process.
    pub fn shut_down(mut self) -> Vec<String> {
        self.draining.store(true, Ordering::Relaxed);
        drop(self.stop_probes);
        let until = Instant::now() + self.drain;
        broadcast(&self.senders, || LoopEvent::Drain);
        while Instant::now() < until && !self.loops.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(5));
        }
        broadcast(&self.senders, || LoopEvent::Stop);
        self.loops.append(&mut self.probes);
        if let Some((pool, threads)) = self.filters {
            pool.stop();
            self.loops.extend(threads);
        }
        let mut stuck = join_until(self.loops, until.max(Instant::now()) + JOIN_TIMEOUT);
        let admin = vec![self.admin.stop()];
        stuck.extend(join_until(admin, Instant::now() + JOIN_TIMEOUT));
        self.exporter.into_iter().for_each(Exporter::stop);
        stuck
    }
}

fn broadcast(senders: &[MailboxSender<LoopEvent>], event: impl Fn() -> LoopEvent) {
    for sender in senders {
        // A loop that has ended needs no event.
        let _ = sender.post(event(), FINAL_POST_TIMEOUT / senders.len() as u32);
    }
}

/// Starts the login threads if a cluster has logins.
fn start_logins(
    clusters: &[Arc<VirtualCluster>],
    stopped: &Receiver<()>,
) -> Result<(Option<LoginPool>, Vec<JoinHandle<()>>), ProxyError> {
    let configs = clusters.iter().map(|cluster| &cluster.config);
    let logins: Vec<_> = configs
        .filter_map(|config| Some((config.name.clone(), Arc::clone(config.logins.as_ref()?))))
        .collect();
    if logins.is_empty() {
        return Ok((None, Vec::new()));
    }
    let (pool, threads) = LoginPool::start(logins, stopped)?;
    Ok((Some(pool), threads))
}

type Loops = (
    Vec<MailboxSender<LoopEvent>>,
    Vec<JoinHandle<()>>,
    Vec<Arc<LoopMetrics>>,
    Vec<Arc<Heartbeat>>,
);

fn start_loops(shared: &Arc<LoopShared>, count: usize) -> Result<Loops, ProxyError> {
    let mut started = Loops::default();
    let epoch = Instant::now();
    for number in 0..count {
        let name = format!("weir-proxy-{number}");
        let metrics = Arc::new(LoopMetrics::default());
        let heartbeat = Arc::new(Heartbeat::new(name.clone(), epoch, &[]));
        let (event_loop, sender) = open_loop(
            Arc::clone(shared),
            Arc::clone(&metrics),
            Arc::clone(&heartbeat),
        )?;
        let thread = std::thread::Builder::new().name(name);
        let thread = thread.spawn(move || {
            if let Err(error) = event_loop.run() {
                tracing::error!(%error, "event loop failed");
            }
        })?;
        started.0.push(sender);
        started.1.push(thread);
        started.2.push(metrics);
        started.3.push(heartbeat);
    }
    Ok(started)
}

fn has_filters(cluster: &VirtualCluster) -> bool {
    let filters = &cluster.config.filters;
    filters.wants(Direction::Produce) || filters.wants(Direction::Fetch)
}
