//! The proxy as a whole: starts and stops its threads.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Sender, bounded};
use weir_net::MailboxSender;
use weir_net::admin::{AdminOptions, AdminServer};
use weir_net::listener::ListenerSource;
use weir_net::otlp::{Export, Exporter};
use weir_net::watchdog::{Heartbeat, Watchdog, join_until};

use crate::admin::Pages;
use crate::broker_registry::BrokerInfo;
use crate::config::ProxyConfig;
use crate::counters::LoopMetrics;
use crate::dashboard::dashboard;
use crate::data::{
    Admission, CurrentGeneration, FilterPool, Generation, LoopEvent, LoopShared, Memory, open_loop,
};
use crate::error::ProxyError;
use crate::metrics::{self, MetricSources};
use crate::reload::{
    ClusterThreads, OpenedClusters, ReloadError, ReloadPreview, ReloadReport, Reloader,
};
use crate::resolve::start_resolver;
use crate::virtual_cluster::VirtualCluster;
use weir_rules::audit::ProxyAudit;

/// Maximum wait for all full inboxes at shutdown.
const FINAL_POST_TIMEOUT: Duration = Duration::from_millis(300);
/// Maximum wait for an event loop that copies its listeners.
const COPY_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum wait for threads to end at shutdown.
const JOIN_TIMEOUT: Duration = Duration::from_millis(500);

/// The listening sockets of a running proxy.
#[derive(Debug, Clone)]
pub struct ProxyListeners {
    senders: Vec<MailboxSender<LoopEvent>>,
    admin: Arc<TcpListener>,
}

impl ProxyListeners {
    /// Returns a copy of each socket, for a successor. The proxy continues to accept connections.
    ///
    /// # Errors
    /// An event loop does not respond, or the process has no more file descriptors.
    pub fn copies(&self) -> io::Result<Vec<TcpListener>> {
        let (reply, replies) = bounded(self.senders.len());
        for sender in &self.senders {
            let event = LoopEvent::CopyListeners(reply.clone());
            let posted = sender.post(event, COPY_TIMEOUT);
            posted.map_err(|_| io::Error::other("an event loop does not respond"))?;
        }
        let mut sockets = vec![self.admin.try_clone()?];
        for _ in &self.senders {
            let copies = replies.recv_timeout(COPY_TIMEOUT);
            let copies = copies.map_err(|_| io::Error::other("an event loop does not respond"))?;
            sockets.extend(copies?);
        }
        Ok(sockets)
    }
}

/// A running proxy.
#[derive(Debug)]
pub struct Proxy {
    reloader: Arc<Reloader>,
    admin: AdminServer,
    /// Export of metrics, which ends last.
    exporter: Option<Exporter>,
    /// Checks the event loops until the proxy is dropped.
    _watchdog: Watchdog,
    listeners: ProxyListeners,
    senders: Vec<MailboxSender<LoopEvent>>,
    loops: Vec<JoinHandle<()>>,
    /// Dropped to stop watching the configuration file.
    stop_watch: Sender<()>,
    draining: Arc<AtomicBool>,
}

impl Proxy {
    /// Binds the listeners and starts all threads. Brokers need not respond yet.
    ///
    /// # Errors
    /// An address cannot be bound, or the system lacks something.
    pub fn start(config: ProxyConfig) -> Result<Self, ProxyError> {
        let source = ListenerSource::new(config.event_loops);
        Self::start_with(config, Arc::new(source))
    }

    /// Starts as [`Self::start`], with the listeners of `source`.
    ///
    /// # Errors
    /// An address cannot be bound, or the system lacks something.
    pub fn start_with(
        config: ProxyConfig,
        source: Arc<ListenerSource>,
    ) -> Result<Self, ProxyError> {
        let address = config.admin.listen;
        let admin_listener = source.open_one(address).and_then(|listener| {
            let copy = listener.try_clone()?;
            Ok((listener, copy))
        });
        let admin_listener = admin_listener.map_err(|error| ProxyError::Listen {
            address,
            key: "admin.listen".to_owned(),
            error,
        });
        let (admin_listener, admin_copy) = admin_listener?;
        let mut threads = ClusterThreads::default();
        let mut config = config;
        let opened = OpenedClusters::open(&mut config, None, &source, &mut threads.next_id)?;
        let export = config.otlp.take().map(Export::new);
        let traces = export.as_ref().and_then(Export::traces);
        if let Some(source) = &traces {
            opened.trace_with(source);
        }
        let audit = config.audit.as_ref().map(ProxyAudit::start).transpose()?;
        let audit = audit.map(|(audit, thread)| {
            threads.handles.push(thread);
            opened.audit_with(&audit);
            audit
        });
        let logins = match opened.have_logins() {
            true => Some(threads.start_logins()?),
            false => None,
        };
        let limits = &config.limits;
        let pool = match opened.has_filters() {
            true => {
                let (pool, handles) = FilterPool::start(config.filter_threads, limits.filters())?;
                threads.handles.extend(handles);
                Some(pool)
            }
            false => None,
        };
        let first = Arc::new(Generation {
            number: 1,
            clusters: opened.clusters(),
            names: opened.names.clone(),
            limits: limits.clone(),
            drain: Duration::from_millis(config.drain_timeout_ms),
            reload_spread: Duration::from_millis(config.reload_spread_ms),
            written: config.written.clone(),
            pool,
            logins,
        });
        let current = Arc::new(CurrentGeneration::new(Arc::clone(&first)));
        let shared = Arc::new(LoopShared {
            splice: config.splice,
            admission: Admission::new(limits.connections, limits.connections_per_address),
            resolver: start_resolver()?,
            memory: Arc::new(Memory::new(limits.buffered())),
            current: Arc::clone(&current),
        });
        let started = start_loops(&shared, &first, config.event_loops)?;
        let (senders, loops, loop_metrics, heartbeats) = started;
        let watchdog = Watchdog::start(heartbeats, config.watchdog)?;
        let state = (Arc::clone(&current), Arc::clone(&shared));
        let ways = (source, senders.clone());
        let mut reloader = Reloader::new(&config, state, ways, threads, traces);
        reloader.audit.clone_from(&audit);
        let reloader = Arc::new(reloader);
        reloader.begin(opened)?;
        let (stop_watch, stopped) = bounded(0);
        if config.watch_config {
            reloader.watch(stopped)?;
        }
        let draining = Arc::new(AtomicBool::new(false));
        let sources = MetricSources {
            otlp: export.as_ref().map(Export::counters),
            audit,
            loops: loop_metrics,
            certificates: Arc::clone(reloader.certificates()),
            current,
            reloads: Arc::clone(&reloader.counts),
            shared,
        };
        let watchdog_status = watchdog.watchdog_status();
        let pages = Pages {
            reloader: Arc::clone(&reloader),
            loops: senders.clone(),
        };
        let registry = || metrics::registry(sources.clone(), Arc::clone(&watchdog_status));
        let exporter = export.map(|export| export.start(registry())).transpose()?;
        let options = AdminOptions {
            listener: admin_listener,
            config: config.admin,
            registry: registry(),
            watchdog_status,
            dashboard: dashboard(sources),
            // The pages check them, because a reload replaces them.
            certificates: Vec::new(),
            draining: Arc::clone(&draining),
        };
        let admin = AdminServer::start(options, pages)?;
        Ok(Self {
            reloader,
            admin,
            exporter: exporter.flatten(),
            listeners: ProxyListeners {
                senders: senders.clone(),
                admin: Arc::new(admin_copy),
            },
            senders,
            loops,
            stop_watch,
            _watchdog: watchdog,
            draining,
        })
    }

    /// Returns name and listen address of each virtual cluster.
    pub fn addresses(&self) -> impl Iterator<Item = (String, SocketAddr)> {
        let clusters = self.clusters().into_iter();
        clusters.map(|cluster| (cluster.config.name.clone(), cluster.listen))
    }

    /// Returns the address of the admin port.
    pub fn admin_address(&self) -> SocketAddr {
        self.admin.address()
    }

    /// Returns access to all listening sockets.
    pub fn listeners(&self) -> ProxyListeners {
        self.listeners.clone()
    }

    /// Closes inherited listeners that the configuration does not need. To be called when the proxy
    /// is ready: then it knows its brokers.
    pub fn close_unused_listeners(&self) {
        for address in self.reloader.source.close_unused() {
            tracing::info!(%address, "listener of the previous process closed, it is not needed");
        }
    }

    /// Returns the brokers of a virtual cluster that have a port.
    pub fn brokers(&self, cluster: &str) -> Vec<BrokerInfo> {
        let clusters = self.clusters();
        let found = clusters.iter().find(|one| one.config.name == cluster);
        found.map_or_else(Vec::new, |one| one.broker_registry.infos())
    }

    /// Reloads all files of certificates, keys and users, changed or not. If some cannot be used,
    /// the previous content stays in use and the error is logged.
    pub fn reload_certificates(&self) {
        self.reloader.certificates().reload();
        self.reloader.current.get().reload_users(true);
        if let Some(audit) = &self.reloader.audit {
            audit.reopen();
        }
    }

    /// Reads the configuration again and uses it as a whole. If it is wrong, the error is logged
    /// and the current one stays in use. Connections continue unless it removes their cluster,
    /// moves it to other brokers, or offers fewer API versions.
    ///
    /// # Errors
    /// The reason why the current configuration stays in use.
    pub fn reload(&self) -> Result<ReloadReport, ReloadError> {
        self.reloader.reload()
    }

    /// Reads and checks the configuration again, and returns what [`Self::reload`] would change.
    ///
    /// # Errors
    /// The reason why a reload would not use it.
    pub fn preview_reload(&self) -> Result<ReloadPreview, ReloadError> {
        self.reloader.preview()
    }

    /// Returns `true` if every cluster responded to the last probe.
    pub fn is_ready(&self) -> bool {
        let clusters = self.clusters();
        clusters
            .iter()
            .all(|cluster| cluster.health.is_responding())
    }

    /// Returns the clusters that do not respond, with the reason.
    pub fn unready_clusters(&self) -> impl Iterator<Item = (String, Option<String>)> {
        let clusters = self.clusters().into_iter();
        let unresponsive = clusters.filter(|one| !one.health.is_responding());
        unresponsive.map(|cluster| (cluster.config.name.clone(), cluster.health.error()))
    }

    fn clusters(&self) -> Vec<Arc<VirtualCluster>> {
        self.reloader.current.get().clusters.clone()
    }

    /// Stops accepting connections, waits for in-flight requests and stops the threads.
    ///
    /// Waits up to the drain timeout for the requests, and at most about one second more. Returns
    /// the names of the threads that have not ended by then; they end with the process.
    pub fn shut_down(mut self) -> Vec<String> {
        self.draining.store(true, Ordering::Relaxed);
        drop(self.stop_watch);
        let until = Instant::now() + self.reloader.current.get().drain;
        broadcast(&self.senders, || LoopEvent::Drain);
        while Instant::now() < until && !self.loops.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(Duration::from_millis(5));
        }
        broadcast(&self.senders, || LoopEvent::Stop);
        self.loops.extend(self.reloader.stop());
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

type Loops = (
    Vec<MailboxSender<LoopEvent>>,
    Vec<JoinHandle<()>>,
    Vec<Arc<LoopMetrics>>,
    Vec<Arc<Heartbeat>>,
);

fn start_loops(
    shared: &Arc<LoopShared>,
    generation: &Arc<Generation>,
    count: usize,
) -> Result<Loops, ProxyError> {
    let mut started = Loops::default();
    let epoch = Instant::now();
    for number in 0..count {
        let name = format!("weir-proxy-{number}");
        let metrics = Arc::new(LoopMetrics::default());
        let heartbeat = Arc::new(Heartbeat::new(name.clone(), epoch, &[]));
        let (event_loop, sender) = open_loop(
            Arc::clone(shared),
            Arc::clone(generation),
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
