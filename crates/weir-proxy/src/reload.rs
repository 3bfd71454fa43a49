//! Reload of the configuration, as a whole or not at all.
//!
//! The new configuration is read and checked, its files are opened and its addresses bound, before
//! anything in use changes. Then the event loops switch to it, each between two iterations.

mod fixed;
mod preview;

use std::collections::BTreeMap;
use std::fmt;
use std::net::TcpListener;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use weir_net::MailboxSender;
use weir_net::listener::ListenerSource;
use weir_net::log::Truncated;
use weir_net::otlp::TraceSource;
use weir_net::tls::FileWatcher;

use self::fixed::FixedConfig;
pub use self::preview::{ChangeKind, ClusterChange, ReloadPreview};
use crate::certificates::CertificateFiles;
use crate::cluster_id::ClusterId;
use crate::config::{ConfigOrigin, ProxyConfig};
use crate::data::{
    ClosingCounts, CurrentGeneration, FilterPool, Generation, ListenerKey, ListenerTarget,
    LoginPool, LoopEvent, LoopShared,
};
use crate::error::ProxyError;
use crate::name_listeners::{NameListeners, NameSockets};
use crate::probe::HealthProbe;
use crate::virtual_cluster::{BoundAddresses, VirtualCluster};
use weir_filters::Direction;
use weir_rules::audit::ProxyAudit;

/// Maximum wait for a full event-loop inbox, and for a loop's reply.
const LOOP_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval between checks of the configuration file, and of files of users.
const WATCH_INTERVAL: Duration = Duration::from_secs(1);

/// A reload that changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// Another reload is running.
    #[error("another reload is running")]
    Busy,
    /// An invalid configuration, or one whose addresses cannot be bound.
    #[error(transparent)]
    Config(#[from] ProxyError),
    /// A changed setting that needs a restart.
    #[error("{0} has changed, which needs a restart: restart the proxy, or restore the value")]
    NotReloadable(&'static str),
}

/// A completed reload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReloadReport {
    /// Number of the configuration that is now in use.
    pub generation: u64,
    /// Client connections that end because their cluster was removed or changed.
    pub closing: usize,
    /// Those of them whose ends are spread over `reload_spread_ms`.
    pub spread: usize,
}

/// Reloads so far.
#[derive(Debug, Default)]
pub(crate) struct ReloadCounts {
    applied: AtomicU64,
    failed: AtomicU64,
    /// Error of the last reload; `None` if it was applied.
    error: Mutex<Option<String>>,
}

impl ReloadCounts {
    /// Returns the error of the last reload.
    pub(crate) fn error(&self) -> Option<String> {
        let error = self.error.lock();
        error.unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let help = "Reloads of the configuration; after a failed one the previous stays in use.";
        let mut family =
            encoder.encode_descriptor("weir_proxy_reloads", help, None, MetricType::Counter)?;
        for (outcome, count) in [("applied", &self.applied), ("failed", &self.failed)] {
            let count = ConstCounter::new(count.load(Ordering::Relaxed));
            count.encode(family.encode_family(&[("outcome", outcome)])?)?;
        }
        Ok(())
    }

    fn record(&self, outcome: &Result<ReloadReport, ReloadError>) {
        let (count, error) = match outcome {
            Ok(_) => (&self.applied, None),
            Err(error) => (&self.failed, Some(error.to_string())),
        };
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = error;
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The clusters of a configuration that is about to be used, with new bootstrap sockets.
pub(crate) struct OpenedClusters {
    pub(crate) clusters: Vec<(Arc<VirtualCluster>, Vec<TcpListener>)>,
    pub(crate) names: NameListeners,
    name_sockets: NameSockets,
}

impl OpenedClusters {
    /// Binds the bootstrap addresses that are not bound yet. Clusters with a name in `current`
    /// continue.
    pub(crate) fn open(
        config: &mut ProxyConfig,
        current: Option<&Generation>,
        source: &Arc<ListenerSource>,
        next_id: &mut u64,
    ) -> Result<Self, ProxyError> {
        let own = current.map_or_else(Vec::new, Generation::addresses);
        let none = NameListeners::default();
        let bound_names = current.map_or(&none, |current| &current.names);
        let opened = NameListeners::open(&config.clusters, bound_names, &own, source)?;
        let (names, name_sockets) = opened;
        let bound = BoundAddresses {
            source,
            names: &names,
            own: &own,
        };
        let mut clusters = Vec::with_capacity(config.clusters.len());
        for (index, cluster) in config.clusters.drain(..).enumerate() {
            let mut known = current.iter().flat_map(|current| &current.clusters);
            let known = known.find(|one| one.config.name == cluster.name);
            let (cluster, sockets) = match known {
                Some(known) => known.next(index, cluster, &bound)?,
                None => {
                    *next_id += 1;
                    VirtualCluster::open((ClusterId(*next_id), index), cluster, &bound)?
                }
            };
            clusters.push((Arc::new(cluster), sockets));
        }
        Ok(Self {
            clusters,
            names,
            name_sockets,
        })
    }

    pub(crate) fn clusters(&self) -> Vec<Arc<VirtualCluster>> {
        let clusters = self.clusters.iter();
        clusters.map(|(cluster, _)| Arc::clone(cluster)).collect()
    }

    pub(crate) fn have_logins(&self) -> bool {
        let mut clusters = self.clusters.iter();
        clusters.any(|(cluster, _)| cluster.config.has_login_threads())
    }

    /// Lets the clusters record events of their clients.
    pub(crate) fn audit_with(&self, log: &Arc<ProxyAudit>) {
        for (cluster, _) in &self.clusters {
            cluster.audit_with(log);
        }
    }

    /// Lets the new clusters trace requests.
    pub(crate) fn trace_with(&self, source: &TraceSource) {
        for (cluster, _) in &self.clusters {
            let name = &cluster.config.name;
            cluster.apis.trace_with(source.clone(), name);
        }
    }

    pub(crate) fn has_filters(&self) -> bool {
        self.clusters.iter().any(|(cluster, _)| {
            let filters = &cluster.config.filters;
            filters.wants(Direction::Produce) || filters.wants(Direction::Fetch)
        })
    }
}

/// Everything that a reload needs.
#[derive(Debug)]
pub(crate) struct Reloader {
    origin: ConfigOrigin,
    fixed: FixedConfig,
    pub(crate) current: Arc<CurrentGeneration>,
    shared: Arc<LoopShared>,
    /// Opens the listeners.
    pub(crate) source: Arc<ListenerSource>,
    senders: Vec<MailboxSender<LoopEvent>>,
    certificates: Arc<CertificateFiles>,
    pub(crate) counts: Arc<ReloadCounts>,
    /// Takes the traces of requests; `None` if none are traced.
    traces: Option<TraceSource>,
    /// Audit log; `None` if there is none.
    pub(crate) audit: Option<Arc<ProxyAudit>>,
    /// Locked during a reload.
    threads: Mutex<ClusterThreads>,
}

/// Threads that the clusters have needed so far.
#[derive(Debug, Default)]
pub(crate) struct ClusterThreads {
    /// Wakes the probes, and ends them when dropped.
    probes: BTreeMap<ClusterId, Sender<()>>,
    /// Ends the threads of logins when dropped; `None` if there are none.
    logins: Option<Sender<()>>,
    /// End of the thread that looks at files of users; taken when it starts.
    watches_users: Option<Receiver<()>>,
    pub(crate) handles: Vec<JoinHandle<()>>,
    pub(crate) next_id: u64,
}

impl ClusterThreads {
    /// Starts the login threads.
    pub(crate) fn start_logins(&mut self) -> std::io::Result<Arc<LoginPool>> {
        let (stop, stopped) = bounded(0);
        let (pool, handles) = LoginPool::start(&stopped)?;
        self.handles.extend(handles);
        self.logins = Some(stop);
        self.watches_users = Some(stopped);
        Ok(Arc::new(pool))
    }
}

impl Reloader {
    pub(crate) fn new(
        config: &ProxyConfig,
        (current, shared): (Arc<CurrentGeneration>, Arc<LoopShared>),
        (source, senders): (Arc<ListenerSource>, Vec<MailboxSender<LoopEvent>>),
        threads: ClusterThreads,
        traces: Option<TraceSource>,
    ) -> Self {
        Self {
            origin: config.origin.clone(),
            fixed: FixedConfig::new(config),
            current,
            shared,
            source,
            senders,
            certificates: Arc::new(CertificateFiles::new(config)),
            counts: Arc::default(),
            traces,
            audit: None,
            threads: Mutex::new(threads),
        }
    }

    pub(crate) fn certificates(&self) -> &Arc<CertificateFiles> {
        &self.certificates
    }

    /// Starts to serve the clusters of the first generation.
    pub(crate) fn begin(&self, opened: OpenedClusters) -> Result<(), ProxyError> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        self.serve(opened, &mut threads)?;
        Ok(())
    }

    /// Reads the configuration again and uses it, unless it is wrong.
    pub(crate) fn reload(&self) -> Result<ReloadReport, ReloadError> {
        let mut threads = self.lock_threads()?;
        let outcome = self.replace(&mut threads);
        if let Some(audit) = &self.audit {
            audit.reopen();
            audit.reloaded(self.current.get().number, outcome.is_ok());
        }
        self.counts.record(&outcome);
        match &outcome {
            Ok(ReloadReport {
                generation,
                closing,
                spread,
            }) => tracing::info!(generation, closing, spread, "configuration reloaded"),
            Err(error) => {
                let (text, error) = (
                    "reload failed, kept current configuration",
                    Truncated(error),
                );
                tracing::error!(%error, "{text}");
            }
        }
        outcome
    }

    /// Locks out other reloads.
    fn lock_threads(&self) -> Result<MutexGuard<'_, ClusterThreads>, ReloadError> {
        match self.threads.try_lock() {
            Ok(threads) => Ok(threads),
            Err(TryLockError::Poisoned(threads)) => Ok(threads.into_inner()),
            Err(TryLockError::WouldBlock) => Err(ReloadError::Busy),
        }
    }

    fn replace(&self, threads: &mut ClusterThreads) -> Result<ReloadReport, ReloadError> {
        let mut config = ProxyConfig::load(self.origin.file(), self.origin.overrides())?;
        if let Some(key) = self.fixed.changed_by(&config) {
            return Err(ReloadError::NotReloadable(key));
        }
        let old = self.current.get();
        let files = config.cluster_files().cloned().collect();
        let opened =
            OpenedClusters::open(&mut config, Some(&old), &self.source, &mut threads.next_id)?;
        let pool = match &old.pool {
            None if opened.has_filters() => Some(self.start_pool(&config, threads)?),
            pool => pool.clone(),
        };
        let logins = match &old.logins {
            None if opened.have_logins() => {
                Some(threads.start_logins().map_err(ProxyError::System)?)
            }
            logins => logins.clone(),
        };
        if let Some(source) = &self.traces {
            opened.trace_with(source);
        }
        if let Some(audit) = &self.audit {
            opened.audit_with(audit);
        }
        // From here on, nothing fails except for what the log reports.
        self.certificates.replace(files);
        let limits = &config.limits;
        let admission = &self.shared.admission;
        admission.set(limits.connections, limits.connections_per_address);
        let next = Arc::new(Generation {
            number: old.number + 1,
            clusters: opened.clusters(),
            names: opened.names.clone(),
            limits: config.limits,
            drain: Duration::from_millis(config.drain_timeout_ms),
            reload_spread: Duration::from_millis(config.reload_spread_ms),
            written: config.written,
            pool,
            logins,
        });
        self.current.set(Arc::clone(&next));
        let closing = self.switch(&old, &opened);
        for cluster in &next.clusters {
            if let Some(known) = old.cluster(cluster.id) {
                let is_moved = known.is_moved_by(&cluster.config);
                let registry = &cluster.broker_registry;
                registry.apply(Arc::clone(&cluster.config), is_moved);
            }
        }
        threads.probes.retain(|id, _| next.cluster(*id).is_some());
        threads.handles.retain(|thread| !thread.is_finished());
        if let Err(error) = self.serve(opened, threads) {
            tracing::error!(%error, "a new cluster cannot be probed");
        }
        Ok(ReloadReport {
            generation: next.number,
            closing: closing.sum(),
            spread: closing.spread,
        })
    }

    fn start_pool(
        &self,
        config: &ProxyConfig,
        threads: &mut ClusterThreads,
    ) -> Result<Arc<FilterPool>, ProxyError> {
        let (pool, handles) = FilterPool::start(config.filter_threads, config.limits.filters())?;
        threads.handles.extend(handles);
        Ok(pool)
    }

    /// Switches the event loops. Returns the numbers of connections that have to end.
    fn switch(&self, old: &Generation, opened: &OpenedClusters) -> ClosingCounts {
        let (reply, replies) = bounded(self.senders.len());
        for (number, sender) in self.senders.iter().enumerate() {
            let reload = LoopEvent::Reload(reply.clone());
            if sender.post(reload, LOOP_TIMEOUT).is_err() {
                let text = "event loop does not respond, it keeps the previous configuration";
                tracing::error!(event_loop = number, "{text}");
            }
            let known = opened.clusters.iter();
            let moved = known.filter(|(cluster, sockets)| {
                !sockets.is_empty() && old.cluster(cluster.id).is_some()
            });
            for (cluster, _) in moved {
                let previous = LoopEvent::Unlisten(bootstrap_of(cluster));
                // A loop that does not respond is reported above.
                let _ = sender.post(previous, LOOP_TIMEOUT);
            }
        }
        drop(reply);
        let mut closing = ClosingCounts::default();
        while let Ok(more) = replies.recv_timeout(LOOP_TIMEOUT) {
            closing.add(more);
        }
        closing
    }

    /// Hands over new sockets, and probes all clusters.
    fn serve(
        &self,
        opened: OpenedClusters,
        threads: &mut ClusterThreads,
    ) -> Result<(), ProxyError> {
        if let Some(stopped) = threads.watches_users.take() {
            let current = Arc::clone(&self.current);
            let thread = std::thread::Builder::new().name("weir-users".to_owned());
            let thread = thread.spawn(move || watch_users(&current, &stopped))?;
            threads.handles.push(thread);
        }
        for (address, sockets) in opened.name_sockets {
            self.listen(ListenerKey::Names(address), sockets);
        }
        for (cluster, sockets) in opened.clusters {
            self.listen(bootstrap_of(&cluster), sockets);
            if let Some(logins) = &cluster.config.logins {
                logins.start()?;
            }
            if let Some(wake) = threads.probes.get(&cluster.id) {
                // A probe that has a message already begins at once, too.
                let _ = wake.try_send(());
                continue;
            }
            cluster.broker_registry.serve_at(self.senders.clone());
            cluster.broker_registry.register_configured(&cluster.config);
            let (wake, woken) = bounded(1);
            threads.probes.insert(cluster.id, wake);
            let probe = HealthProbe::start(cluster, Arc::clone(&self.current), woken)?;
            threads.handles.push(probe);
        }
        Ok(())
    }

    /// Hands over the sockets of a listener, one per event loop.
    fn listen(&self, listener: ListenerKey, sockets: Vec<TcpListener>) {
        for (socket, sender) in sockets.into_iter().zip(&self.senders) {
            let event = LoopEvent::Listen(listener, socket);
            if sender.post(event, LOOP_TIMEOUT).is_err() {
                tracing::error!(?listener, "event loop did not accept a listener");
            }
        }
    }

    /// Stops the probes and returns all threads of clusters to wait for.
    pub(crate) fn stop(&self) -> Vec<JoinHandle<()>> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.probes.clear();
        threads.logins = None;
        if let Some(audit) = &self.audit {
            audit.close();
        }
        if let Some(pool) = &self.current.get().pool {
            pool.stop();
        }
        std::mem::take(&mut threads.handles)
    }

    /// Starts a thread that reloads when the file has changed, until the sender of `stop` is
    /// dropped.
    pub(crate) fn watch(self: &Arc<Self>, stop: Receiver<()>) -> std::io::Result<()> {
        let Some(file) = self.origin.file() else {
            return Ok(());
        };
        let watcher = FileWatcher::new([file.to_owned()]);
        let reloader = Arc::clone(self);
        let thread = std::thread::Builder::new().name("weir-reload".to_owned());
        let thread = thread.spawn(move || reloader.watch_file(&watcher, &stop))?;
        let threads = self.threads.lock();
        let mut threads = threads.unwrap_or_else(PoisonError::into_inner);
        threads.handles.push(thread);
        Ok(())
    }

    fn watch_file(&self, watcher: &FileWatcher, stop: &Receiver<()>) {
        let mut is_due = false;
        while stop.recv_timeout(WATCH_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            let mut has_changed = false;
            watcher.if_changed(|| has_changed = true);
            // A file that is still changing may be half written.
            if !has_changed && is_due {
                // Logged, counted and shown by the admin port.
                let _ = self.reload();
            }
            is_due = has_changed;
        }
    }
}

/// Reloads changed files of users until the sender of `stopped` is dropped.
fn watch_users(current: &CurrentGeneration, stopped: &Receiver<()>) {
    while stopped.recv_timeout(WATCH_INTERVAL) == Err(RecvTimeoutError::Timeout) {
        current.get().reload_users(false);
    }
}

fn bootstrap_of(cluster: &VirtualCluster) -> ListenerKey {
    ListenerKey::Target(cluster.id, ListenerTarget::Bootstrap)
}
