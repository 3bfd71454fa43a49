//! The proxy as a whole: starts and stops its threads.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};
use weir_net::MailboxSender;
use weir_net::admin::{AdminOptions, AdminServer};
use weir_net::listener::listen_shared;
use weir_net::tls::TlsFiles;
use weir_net::watchdog::{Heartbeat, Watchdog, join_until};

use crate::address_cache::AddressCache;
use crate::admin::Pages;
use crate::broker_registry::{BrokerInfo, BrokerRegistry};
use crate::config::{ClusterConfig, ProxyConfig};
use crate::dashboard::dashboard;
use crate::data::{
    Admission, FilterPool, ListenerTarget, LoopCluster, LoopEvent, LoopMetrics, LoopOptions,
    Memory, open_loop,
};
use crate::error::ProxyError;
use crate::filter::Direction;
use crate::metrics::{self, MetricSources};
use crate::probe::HealthProbe;
use crate::resolve::Resolver;
use crate::versions::SupportedVersions;
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
    clusters: Arc<Vec<VirtualCluster>>,
    admin: AdminServer,
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
    filters: Option<RunningPool>,
}

/// The filter threads.
#[derive(Debug)]
struct RunningPool {
    pool: Arc<FilterPool>,
    threads: Vec<JoinHandle<()>>,
}

impl RunningPool {
    /// Starts the threads if any cluster has filters.
    fn start(config: &ProxyConfig) -> Result<Option<Self>, ProxyError> {
        let mut filters = config.clusters.iter().map(|cluster| &cluster.filters);
        let any = filters
            .any(|filters| filters.wants(Direction::Produce) || filters.wants(Direction::Fetch));
        if !any {
            return Ok(None);
        }
        let (pool, threads) = FilterPool::start(config.filter_threads, config.limits.filters())?;
        Ok(Some(Self { pool, threads }))
    }
}

impl Proxy {
    /// Binds the listeners and starts all threads. Brokers need not respond yet.
    ///
    /// # Errors
    /// An address that cannot be bound, or a thread that cannot be started.
    pub fn start(config: ProxyConfig) -> Result<Self, ProxyError> {
        let admin_listener = std::net::TcpListener::bind(config.admin.listen);
        let admin_listener = admin_listener.map_err(|error| ProxyError::Listen {
            address: config.admin.listen,
            key: "admin.listen".to_owned(),
            error,
        })?;
        let mut clusters = Vec::with_capacity(config.clusters.len());
        let mut listeners = Vec::with_capacity(config.clusters.len());
        for (index, cluster) in config.clusters.iter().enumerate() {
            let (listen, sockets) = open(cluster, config.event_loops)?;
            listeners.push(sockets);
            clusters.push(VirtualCluster {
                name: cluster.name.clone(),
                listen,
                broker_registry: Arc::new(BrokerRegistry::new(index, cluster, config.event_loops)),
                health: Arc::default(),
            });
        }
        let clusters = Arc::new(clusters);
        let memory = Arc::new(Memory::new(config.limits.buffered()));
        let filters = RunningPool::start(&config)?;
        let pool = filters.as_ref().map(|it| &it.pool);
        let (senders, loops, loop_metrics, heartbeats) =
            start_loops(&config, &clusters, &memory, pool)?;
        let watchdog = Watchdog::start(heartbeats, config.watchdog)?;
        for cluster in clusters.iter() {
            cluster.broker_registry.serve_at(senders.clone());
        }
        for (index, sockets) in listeners.into_iter().enumerate() {
            for (socket, sender) in sockets.into_iter().zip(&senders) {
                let event = LoopEvent::Listen(index, ListenerTarget::Bootstrap, socket);
                // The loops have just started and have room for more events than this.
                let _ = sender.post(event, POST_TIMEOUT);
            }
        }
        let (stop_probes, stopped) = bounded(0);
        let mut probes = Vec::with_capacity(clusters.len());
        let response_timeout = Duration::from_millis(config.limits.response_ms);
        for (cluster, config) in clusters.iter().zip(&config.clusters) {
            for (id, address) in &config.brokers {
                let node = BrokerNode {
                    id: *id,
                    host: &address.host,
                    port: address.port,
                };
                cluster.broker_registry.register_broker(node, true);
            }
            let stopped = stopped.clone();
            probes.push(start_probe(cluster, config, response_timeout, stopped)?);
        }
        let presented = config.clusters.iter().filter_map(|one| one.tls.clone());
        let draining = Arc::new(AtomicBool::new(false));
        let sources = MetricSources {
            loops: loop_metrics,
            clusters: Arc::clone(&clusters),
            presented: presented.chain(config.admin.tls.clone()).collect(),
            certificates: config.tls_files.clone(),
            memory,
            pool: pool.cloned(),
        };
        let vitals = watchdog.vitals();
        let pages = Pages {
            clusters: Arc::clone(&clusters),
            loops: senders.clone(),
        };
        let options = AdminOptions {
            listener: admin_listener,
            config: config.admin,
            registry: metrics::registry(sources.clone(), Arc::clone(&vitals)),
            vitals,
            dashboard: dashboard(sources),
            certificates: config.tls_files.clone(),
            draining: Arc::clone(&draining),
        };
        let admin = AdminServer::start(options, pages)?;
        Ok(Self {
            clusters,
            admin,
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
        clusters.map(|cluster| (cluster.name.as_str(), cluster.listen))
    }

    /// Returns the address of the admin port.
    #[must_use]
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Returns the brokers of a virtual cluster that have a port.
    #[must_use]
    pub fn brokers(&self, cluster: &str) -> Vec<BrokerInfo> {
        let found = self.clusters.iter().find(|one| one.name == cluster);
        found.map_or_else(Vec::new, |one| one.broker_registry.infos())
    }

    /// Reloads all certificate and key files, changed or not. If a table's files cannot be used,
    /// its previous certificates stay in use and the error is logged.
    pub fn reload_certificates(&self) {
        self.certificates.iter().for_each(|files| files.reload());
    }

    /// Returns `true` if every cluster responded to the last probe.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.clusters
            .iter()
            .all(|cluster| cluster.health.is_responding())
    }

    /// Returns the clusters that do not respond, with the reason.
    pub fn unready_clusters(&self) -> impl Iterator<Item = (&str, Option<String>)> {
        let unresponsive = self
            .clusters
            .iter()
            .filter(|one| !one.health.is_responding());
        unresponsive.map(|cluster| (cluster.name.as_str(), cluster.health.error()))
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
        if let Some(filters) = self.filters.take() {
            filters.pool.stop();
            self.loops.extend(filters.threads);
        }
        let mut stuck = join_until(self.loops, until.max(Instant::now()) + JOIN_TIMEOUT);
        let admin = vec![self.admin.stop()];
        stuck.extend(join_until(admin, Instant::now() + JOIN_TIMEOUT));
        stuck
    }
}

fn broadcast(senders: &[MailboxSender<LoopEvent>], event: impl Fn() -> LoopEvent) {
    for sender in senders {
        // A loop that has ended needs no event.
        let _ = sender.post(event(), FINAL_POST_TIMEOUT / senders.len() as u32);
    }
}

type Loops = (
    Vec<MailboxSender<LoopEvent>>,
    Vec<JoinHandle<()>>,
    Vec<Arc<LoopMetrics>>,
    Vec<Arc<Heartbeat>>,
);

fn start_loops(
    config: &ProxyConfig,
    clusters: &[VirtualCluster],
    memory: &Arc<Memory>,
    pool: Option<&Arc<FilterPool>>,
) -> Result<Loops, ProxyError> {
    let limits = &config.limits;
    let admission = Admission::new(limits.connections, limits.connections_per_address);
    let admission = Arc::new(admission);
    let resolver = Resolver::start()?;
    let supported: Vec<_> = config
        .clusters
        .iter()
        .map(|cluster| {
            Arc::new(SupportedVersions::new(|key| {
                cluster.filters.version_max(key)
            }))
        })
        .collect();
    let mut started = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let epoch = Instant::now();
    for number in 0..config.event_loops {
        let loop_clusters = clusters.iter().zip(&config.clusters).zip(&supported);
        let loop_clusters = loop_clusters.map(|((cluster, config), supported)| LoopCluster {
            name: cluster.name.clone(),
            supported: Arc::clone(supported),
            filters: Arc::clone(&config.filters),
            upstream: config.upstream.clone(),
            broker_registry: Arc::clone(&cluster.broker_registry),
            health: Arc::clone(&cluster.health),
            addresses: AddressCache::new(Arc::clone(&cluster.broker_registry)),
            tls: config.tls.clone(),
            upstream_tls: config.upstream_tls.clone(),
        });
        let metrics = Arc::new(LoopMetrics::default());
        let heartbeat = Heartbeat::new(format!("weir-proxy-{number}"), epoch, &[]);
        let heartbeat = Arc::new(heartbeat);
        let options = LoopOptions {
            heartbeat: Arc::clone(&heartbeat),
            clusters: loop_clusters.collect(),
            limits: limits.clone(),
            splice: config.splice,
            admission: Arc::clone(&admission),
            resolver: resolver.clone(),
            memory: Arc::clone(memory),
            pool: pool.cloned(),
            metrics: Arc::clone(&metrics),
        };
        let (event_loop, sender) = open_loop(options)?;
        let thread = std::thread::Builder::new()
            .name(format!("weir-proxy-{number}"))
            .spawn(move || {
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

fn open(
    cluster: &ClusterConfig,
    loops: usize,
) -> Result<(SocketAddr, Vec<std::net::TcpListener>), ProxyError> {
    let address = cluster.listen;
    let fail = |error| ProxyError::Listen {
        address,
        key: format!("cluster \"{}\", listen", cluster.name),
        error,
    };
    let sockets = listen_shared(address, loops).map_err(fail)?;
    let listen = sockets[0].local_addr().map_err(fail)?;
    Ok((listen, sockets))
}

fn start_probe(
    cluster: &VirtualCluster,
    config: &ClusterConfig,
    response_timeout: Duration,
    stop: Receiver<()>,
) -> Result<JoinHandle<()>, ProxyError> {
    let probe = HealthProbe {
        name: cluster.name.clone(),
        upstream: config.upstream.clone(),
        tls: config.upstream_tls.clone(),
        broker_registry: Arc::clone(&cluster.broker_registry),
        health: Arc::clone(&cluster.health),
        response_timeout,
        needs_authentication: AtomicBool::new(false),
    };
    let thread = std::thread::Builder::new().name("weir-probe".to_owned());
    Ok(thread.spawn(move || probe.run(&stop))?)
}
