//! The health probe of a cluster. It checks every few seconds if the brokers respond, and registers
//! brokers. It uses its own connections, so that slow client requests do not look like unresponsive
//! brokers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError};
use weir_wire::io_reason::io_reason;

use crate::address_cache::AddressCache;
use crate::broker_connection::{BrokerAccess, BrokerConnection, TIMEOUT};
use crate::broker_login::log_in;
use crate::config::HostPort;
use crate::data::CurrentGeneration;
use crate::versions::{API_VERSIONS, METADATA};
use crate::virtual_cluster::VirtualCluster;
use crate::wire;

/// Interval between probes of a cluster.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);
/// Interval between probes while a broker does not respond.
const FAILED_PROBE_INTERVAL: Duration = Duration::from_millis(500);
/// Maximum number of brokers probed at the same time.
const PARALLEL_PROBES: usize = 16;

#[derive(Debug)]
pub(crate) struct HealthProbe {
    /// Replaced after a reload.
    cluster: Arc<VirtualCluster>,
    current: Arc<CurrentGeneration>,
    /// Set if the brokers require authentication for Metadata; it is not requested again.
    needs_authentication: AtomicBool,
}

impl HealthProbe {
    /// Starts a thread that probes until the sender of `wake` is dropped. A message begins a probe
    /// at once.
    pub(crate) fn start(
        cluster: Arc<VirtualCluster>,
        current: Arc<CurrentGeneration>,
        wake: Receiver<()>,
    ) -> io::Result<JoinHandle<()>> {
        let probe = Self {
            cluster,
            current,
            needs_authentication: AtomicBool::new(false),
        };
        let thread = std::thread::Builder::new().name("weir-probe".to_owned());
        thread.spawn(move || probe.run(&wake))
    }

    fn run(mut self, wake: &Receiver<()>) {
        loop {
            let generation = self.current.get();
            if let Some(cluster) = generation.cluster(self.cluster.id) {
                if !Arc::ptr_eq(cluster, &self.cluster) {
                    self.cluster = Arc::clone(cluster);
                    self.needs_authentication = AtomicBool::new(false);
                }
            }
            let VirtualCluster {
                health,
                broker_registry,
                ..
            } = &*self.cluster;
            let response_timeout = Duration::from_millis(generation.limits.response_ms);
            let all_responded = self.probe_all();
            for host in health.unresponsive_for(response_timeout, Instant::now()) {
                broker_registry.report_unresponsive(&host);
            }
            broker_registry.close_stale_ports(Instant::now());
            let interval = match all_responded {
                true => PROBE_INTERVAL,
                false => FAILED_PROBE_INTERVAL,
            };
            if wake.recv_timeout(interval) == Err(RecvTimeoutError::Disconnected) {
                return;
            }
        }
    }

    /// Probes every broker. Returns `true` if all of them responded.
    fn probe_all(&self) -> bool {
        let cluster = &self.cluster;
        let mut hosts = cluster.config.upstream.clone();
        for host in cluster.broker_registry.upstreams() {
            if !hosts.contains(&host) {
                hosts.push(host);
            }
        }
        cluster.health.retain_only(&hosts);
        for some in hosts.chunks(PARALLEL_PROBES) {
            // Probes in parallel, so that an unresponsive broker does not delay the others.
            std::thread::scope(|scope| {
                for host in &some[1..] {
                    let probe = move || self.probe_and_record(host);
                    let thread = std::thread::Builder::new().name("weir-probe".to_owned());
                    if thread.spawn_scoped(scope, probe).is_err() {
                        probe();
                    }
                }
                self.probe_and_record(&some[0]);
            });
        }
        cluster.health.end_round()
    }

    fn probe_and_record(&self, host: &HostPort) {
        let has_tls = self.cluster.config.upstream_tls.is_some();
        let outcome = self.probe_broker(host);
        let outcome = outcome.map_err(|error| reason(&error, has_tls));
        let (health, name) = (&self.cluster.health, &self.cluster.config.name);
        health.record(name, host, outcome.err(), Instant::now());
    }

    fn probe_broker(&self, host: &HostPort) -> io::Result<()> {
        let config = &self.cluster.config;
        let credential = config
            .broker_identity
            .as_ref()
            .and_then(|one| one.of_probe());
        let own = credential.as_ref().and_then(|one| one.tls.as_ref());
        let access = BrokerAccess {
            tls: own.or(config.upstream_tls.as_ref()),
            sends_proxy_header: config.sends_proxy_header,
        };
        let mut connection = BrokerConnection::open(host, access)?;
        connection.exchange(API_VERSIONS, 0, &[])?;
        if let Some(credential) = credential {
            log_in(&mut connection, credential, host)?;
        }
        if self.needs_authentication.load(Ordering::Relaxed) {
            return Ok(());
        }
        // An empty list of topics: the response contains only the brokers.
        match connection.exchange(METADATA, 1, &0_i32.to_be_bytes()) {
            Ok(response) => {
                let mut mapper = AddressCache::new(Arc::clone(&self.cluster.broker_registry));
                // Registers the brokers in the response.
                let replaced = wire::replace_addresses(&response, METADATA, 1, &mut mapper);
                replaced.map(drop).map_err(io::Error::other)
            }
            Err(_) => {
                // It responded to ApiVersions, which needs no authentication.
                self.needs_authentication.store(true, Ordering::Relaxed);
                Ok(())
            }
        }
    }
}

/// Returns why a probe failed, and what to check.
fn reason(error: &io::Error, has_tls: bool) -> String {
    let of_tls = error.get_ref();
    if of_tls.is_some_and(|error| error.is::<rustls::Error>()) {
        return format!("TLS failed ({error}): check [cluster.upstream_tls] and the port");
    }
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no response within {} s", TIMEOUT.as_secs())
        }
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => match has_tls {
            true => "closed by the broker during the first request".to_owned(),
            false => "closed by the broker during the first request: if the listener requires \
                      TLS, add [cluster.upstream_tls]"
                .to_owned(),
        },
        _ => io_reason(error),
    }
}
