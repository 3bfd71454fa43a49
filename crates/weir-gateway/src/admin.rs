//! Pages of the gateway on the admin port: readiness and session administration.

use weir_net::admin::dashboard::Problem;
use weir_net::admin::{AdminPages, ApiCall, Page};
use weir_net::http1::Response;

use crate::metrics::MetricSources;
use crate::operators::SessionAdmin;
use crate::try_page::TryPage;

/// Pages of the gateway on the admin port.
pub(crate) struct GatewayPages {
    pub(crate) sources: MetricSources,
    pub(crate) sessions: SessionAdmin,
    pub(crate) try_page: TryPage,
}

impl AdminPages for GatewayPages {
    fn readiness(&self) -> (bool, String) {
        self.sources.readiness()
    }

    fn public_page(&self, path: &str) -> Option<Response> {
        self.try_page.part(path)
    }

    fn page(&mut self, path: &str, _query: &str) -> Option<Page> {
        let items = || Page::Ready(self.try_page.items(&self.sources.connections));
        (path == "/try.json").then(items)
    }

    fn call(&mut self, call: &ApiCall<'_>) -> Option<Page> {
        self.sessions.call(call)
    }

    fn note_denied(&mut self, call: &ApiCall<'_>) {
        self.sessions.note_denied(call);
    }
}

impl MetricSources {
    /// Returns why clients are refused or get no updates.
    pub(crate) fn problems(&self) -> Vec<Problem> {
        let problem = |source: String, address: String, cause: String| Problem {
            source,
            address,
            cause,
        };
        let connections = self.connections.iter().filter(|one| one.config.enabled);
        let lost = connections.filter(|one| !one.state.ready()).map(|one| {
            let cause = one.state.error();
            problem(
                format!("connection {}", one.config.name),
                one.config.bootstrap(),
                cause.unwrap_or_else(|| "not ready yet".to_owned()),
            )
        });
        let mut found: Vec<_> = lost.collect();
        let mut other = |source: &str, cause: String| {
            found.push(problem(source.to_owned(), String::new(), cause));
        };
        if self.admission.overload.is_on() {
            let cause = "new sessions and subscriptions are refused";
            other("memory limit", cause.to_owned());
        }
        if let Some(auth) = &self.auth {
            for issuer in auth.issuers_without_keys() {
                other(&format!("issuer {issuer}"), "no keys".to_owned());
            }
            if let Some(reason) = auth.awaited_revocations() {
                other("revocations", reason);
            }
        }
        if self
            .adapter
            .as_ref()
            .is_some_and(|it| !it.metrics().is_connected())
        {
            other("remote adapter", "not connected".to_owned());
        }
        found
    }

    fn readiness(&self) -> (bool, String) {
        let mut text = String::new();
        let mut all = true;
        // Connected clients are served, so load balancers need not use another gateway for them.
        if self.admission.overload.is_on() {
            let memory = self.admission.overload.memory();
            text.push_str(&format!(
                "degraded: {} of {} bytes of memory in use, new sessions and subscriptions are \
                 refused\n",
                memory.used, memory.max
            ));
        }
        for connection in self.connections.iter().filter(|one| one.config.enabled) {
            let name = &connection.config.name;
            let ready = connection.state.ready();
            all &= ready;
            let word = if ready { "ready" } else { "not ready" };
            let error = connection.state.error();
            let error = error.map_or_else(String::new, |error| format!(": {error}"));
            text.push_str(&format!("connection {name}: {word}{error}\n"));
        }
        for issuer in self
            .auth
            .iter()
            .flat_map(|auth| auth.issuers_without_keys())
        {
            all = false;
            text.push_str(&format!("issuer {issuer}: no keys\n"));
        }
        for reason in self.auth.iter().filter_map(|it| it.awaited_revocations()) {
            all = false;
            text.push_str(&format!("revocations: {reason}\n"));
        }
        if let Some(adapter) = &self.adapter {
            let connected = adapter.metrics().is_connected();
            all &= connected;
            let word = if connected {
                "connected"
            } else {
                "not connected"
            };
            text.push_str(&format!("remote adapter: {word}\n"));
        }
        (all, text)
    }
}
