//! Pages of the gateway on the admin port: readiness and session administration.

use weir_net::admin::{AdminPages, ApiCall, Page};

use crate::metrics::MetricSources;
use crate::operators::SessionAdmin;

/// Pages of the gateway on the admin port.
pub(crate) struct GatewayPages {
    pub(crate) sources: MetricSources,
    pub(crate) sessions: SessionAdmin,
}

impl AdminPages for GatewayPages {
    fn readiness(&self) -> (bool, String) {
        self.sources.readiness()
    }

    fn call(&mut self, call: &ApiCall<'_>) -> Option<Page> {
        self.sessions.call(call)
    }

    fn note_denied(&mut self, call: &ApiCall<'_>) {
        self.sessions.note_denied(call);
    }
}

impl MetricSources {
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
