//! `/dashboard`: a page with the current state and the last hour. The admin thread takes a sample
//! every two seconds; the page requests those that it does not have.

mod columns;
mod page;
mod procfs;
mod ring;
mod sampler;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Value, json};

use self::ring::SampleRing;
use self::sampler::DashboardSampler;
use crate::metrics::MetricSources;

pub(crate) use self::page::part;

/// Time between two samples.
const SAMPLE_INTERVAL: Duration = Duration::from_secs(2);
/// Number of samples stored, those of the last hour.
const SAMPLES_MAX: usize = 1_800;

/// Constant facts that the page shows in addition to the samples.
#[derive(Debug, Clone)]
pub(crate) struct GatewayInfo {
    pub(crate) adapter_set: String,
    pub(crate) clients: String,
    pub(crate) shards: usize,
}

/// The samples of the last hour and their sources.
#[derive(Debug)]
pub(crate) struct Dashboard {
    identity: GatewayInfo,
    sources: Arc<MetricSources>,
    history: Mutex<SampleHistory>,
}

#[derive(Debug)]
struct SampleHistory {
    sampler: DashboardSampler,
    ring: SampleRing,
    started_unix_ms: u64,
}

impl Dashboard {
    pub(crate) fn new(identity: GatewayInfo, sources: Arc<MetricSources>) -> Self {
        let sampler = DashboardSampler::new(&sources);
        Self {
            identity,
            sources,
            history: Mutex::new(SampleHistory {
                started_unix_ms: sampler.unix_ms(),
                sampler,
                ring: SampleRing::new(SAMPLES_MAX),
            }),
        }
    }

    /// Takes a sample; must be called every [`SAMPLE_INTERVAL`].
    pub(crate) fn sample(&self) {
        let mut history = self.history();
        let sample = history.sampler.sample(&self.sources);
        history.ring.push(sample);
    }

    /// Returns the current state and the samples after number `after`.
    pub(crate) fn to_json(&self, after: u64, draining: bool) -> Value {
        let history = self.history();
        let connections = self.sources.connections.iter().map(|connection| {
            json!({
                "name": connection.config.name,
                "enabled": connection.config.enabled,
                "ready": connection.state.ready(),
                "error": connection.state.error(),
            })
        });
        let limits = crate::admission::AdmissionLimit::ALL.iter().map(
            |limit| json!({ "limit": limit.label(), "hits": self.sources.admission.hits(*limit) }),
        );
        let tls = self.sources.tls.as_deref();
        let (rows, next) = history.ring.after(after);
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "adapter_set": self.identity.adapter_set,
            "clients": self.identity.clients,
            "shards": self.identity.shards,
            "started_unix_ms": history.started_unix_ms,
            "now_unix_ms": history.sampler.unix_ms(),
            "period_ms": SAMPLE_INTERVAL.as_millis() as u64,
            "draining": draining,
            "certificate_ends_unix_s": tls.and_then(crate::tls::TlsFiles::not_after_unix_s),
            "connections": connections.collect::<Vec<_>>(),
            "limits": limits.collect::<Vec<_>>(),
            "columns": history.sampler.columns(),
            "rows": rows,
            "next": next,
        })
    }

    fn history(&self) -> MutexGuard<'_, SampleHistory> {
        // No code that can panic runs under the lock.
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
