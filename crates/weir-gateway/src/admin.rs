//! Serves the pages of the admin port: metrics, readiness and dashboard. It runs on the control
//! plane and never uses client sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::registry::Registry;
use weir_net::admin::{AdminPages, Page, metrics_page};
use weir_net::http1::Response;

use crate::admission::Admission;
use crate::connection::KafkaConnection;
use crate::dashboard::{self, Dashboard};
use crate::tls::TlsFiles;

/// Data sources of the pages.
pub(crate) struct Pages {
    pub(crate) registry: Registry,
    pub(crate) connections: Vec<Arc<KafkaConnection>>,
    pub(crate) draining: Arc<AtomicBool>,
    pub(crate) admission: Arc<Admission>,
    /// Certificates whose files are checked for changes.
    pub(crate) tls: Vec<Arc<TlsFiles>>,
    pub(crate) dashboard: Dashboard,
    /// Number of calls of `tick`.
    pub(crate) ticks: u64,
}

impl AdminPages for Pages {
    fn page(&mut self, path: &str, query: &str) -> Option<Page> {
        let response = match path {
            "/metrics" => metrics_page(&self.registry),
            "/health/ready" => self.ready(),
            "/dashboard.json" => self.samples(query),
            _ => dashboard::part(path)?,
        };
        Some(Page::Now(response))
    }

    /// The dashboard page contains no data and is public; its data requires the token.
    fn is_public(&self, path: &str) -> bool {
        dashboard::part(path).is_some()
    }

    /// Takes a sample, and checks the certificate files on every second call.
    fn tick(&mut self) {
        if self.ticks % 2 == 0 {
            self.dashboard.sample();
            self.tls.iter().for_each(|tls| tls.check_files());
        }
        self.ticks += 1;
    }
}

impl Pages {
    /// Returns the samples after the number `after` in the query, which the page already has.
    fn samples(&self, query: &str) -> Response {
        let after = query.strip_prefix("after=");
        let after = after.and_then(|number| number.parse().ok()).unwrap_or(0);
        let draining = self.draining.load(Ordering::Relaxed);
        let json = self.dashboard.to_json(after, draining).to_string();
        Response {
            content_type: "application/json",
            ..Response::text(200, json)
        }
    }

    fn ready(&self) -> Response {
        let mut text = String::new();
        let mut all = true;
        if self.draining.load(Ordering::Relaxed) {
            all = false;
            text.push_str("draining\n");
        }
        // Connected clients are served, so load balancers need not use another gateway for them.
        if self.admission.overload.is_on() {
            let memory = self.admission.overload.memory();
            text.push_str(&format!(
                "degraded: {} of {} bytes of memory in use, new sessions and subscriptions are \
                 refused\n",
                memory.used, memory.max
            ));
        }
        for connection in self
            .connections
            .iter()
            .filter(|connection| connection.config.enabled)
        {
            let name = &connection.config.name;
            let ready = connection.state.ready();
            all &= ready;
            let word = if ready { "ready" } else { "not ready" };
            let error = connection
                .state
                .error()
                .map_or_else(String::new, |error| format!(": {error}"));
            text.push_str(&format!("connection {name}: {word}{error}\n"));
        }
        Response::text(if all { 200 } else { 503 }, text)
    }
}
