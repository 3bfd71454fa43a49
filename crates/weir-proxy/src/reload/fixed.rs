//! Settings that only a restart changes.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use weir_net::watchdog::WatchdogConfig;

use crate::config::ProxyConfig;
use weir_filters::FilterLimits;
use weir_rules::audit::ProxyAuditConfig;

/// The values at startup of all settings that a reload cannot change.
#[derive(PartialEq)]
pub(super) struct FixedConfig {
    event_loops: usize,
    filter_threads: usize,
    splice: bool,
    watch_config: bool,
    watchdog: WatchdogConfig,
    buffered_bytes: usize,
    filter_limits: FilterLimits,
    admin: FixedAdmin,
    audit: Option<ProxyAuditConfig>,
    otlp: Option<FixedOtlp>,
}

#[derive(PartialEq)]
struct FixedAdmin {
    listen: SocketAddr,
    token: Option<String>,
    hosts: Vec<String>,
    tls: Option<Vec<PathBuf>>,
}

#[derive(PartialEq)]
struct FixedOtlp {
    endpoint: String,
    headers: Vec<(String, String)>,
    resource: BTreeMap<String, String>,
    times: (Option<Duration>, Duration),
}

impl fmt::Debug for FixedConfig {
    /// Leaves out the values, some of which are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FixedConfig").finish_non_exhaustive()
    }
}

impl FixedConfig {
    pub(super) fn new(config: &ProxyConfig) -> Self {
        let admin = &config.admin;
        Self {
            event_loops: config.event_loops,
            filter_threads: config.filter_threads,
            splice: config.splice,
            watch_config: config.watch_config,
            watchdog: config.watchdog,
            buffered_bytes: config.limits.buffered(),
            filter_limits: config.limits.filters(),
            admin: FixedAdmin {
                listen: admin.listen,
                token: admin.token.clone(),
                hosts: admin.hosts.clone(),
                tls: admin.files.as_ref().map(|files| files.paths().to_vec()),
            },
            audit: config.audit.clone(),
            otlp: config.otlp.as_ref().map(|otlp| FixedOtlp {
                endpoint: otlp.endpoint.clone(),
                headers: otlp.headers.clone(),
                resource: otlp.resource.clone(),
                times: (otlp.metrics_interval, otlp.timeout),
            }),
        }
    }

    /// Returns the key of a setting that has another value in `config`, if there is one.
    pub(super) fn changed_by(&self, config: &ProxyConfig) -> Option<&'static str> {
        let new = Self::new(config);
        let (old_limits, limits) = (&self.filter_limits, &new.filter_limits);
        let (old_admin, admin) = (&self.admin, &new.admin);
        let keys = [
            ("event_loops", self.event_loops == new.event_loops),
            ("filter_threads", self.filter_threads == new.filter_threads),
            ("splice", self.splice == new.splice),
            ("watch_config", self.watch_config == new.watch_config),
            ("watchdog", self.watchdog == new.watchdog),
            (
                "limits.buffered_bytes",
                self.buffered_bytes == new.buffered_bytes,
            ),
            (
                "limits.batch_bytes",
                old_limits.batch_bytes == limits.batch_bytes,
            ),
            (
                "limits.filter_bytes",
                old_limits.frame_bytes == limits.frame_bytes,
            ),
            (
                "limits.filter_records",
                old_limits.frame_records == limits.frame_records,
            ),
            ("limits.filter_ms", old_limits.frame_cpu == limits.frame_cpu),
            ("admin.listen", old_admin.listen == admin.listen),
            ("admin.token", old_admin.token == admin.token),
            ("admin.hosts", old_admin.hosts == admin.hosts),
            ("admin.tls", old_admin.tls == admin.tls),
            ("audit", self.audit == new.audit),
            ("otlp", self.otlp == new.otlp),
        ];
        let changed = keys.into_iter().find(|(_, is_same)| !is_same);
        changed.map(|(key, _)| key)
    }
}
