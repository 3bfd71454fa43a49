//! The admin port: metrics and health. Control plane only; it never touches a client's socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use tokio::sync::oneshot;

use crate::connection::Connection;
use crate::dashboard::{self, Dashboard};
use crate::guard::Guard;
use crate::tls::TlsFiles;

/// How often the files of the certificate are looked at.
const TLS_LOOK: Duration = Duration::from_secs(2);

/// What the pages are made from.
pub(crate) struct AdminState {
    pub(crate) registry: Registry,
    pub(crate) connections: Vec<Arc<Connection>>,
    pub(crate) draining: Arc<AtomicBool>,
    pub(crate) guard: Arc<Guard>,
    pub(crate) token: Option<String>,
    pub(crate) tls: Option<Arc<TlsFiles>>,
    pub(crate) dashboard: Arc<Dashboard>,
}

/// Serves the admin pages until `stop` is sent or dropped.
pub(crate) async fn serve(
    listener: tokio::net::TcpListener,
    state: AdminState,
    stop: oneshot::Receiver<()>,
) -> std::io::Result<()> {
    let state = Arc::new(state);
    if let Some(tls) = state.tls.clone() {
        // It ends with the runtime.
        tokio::spawn(watch(tls));
    }
    tokio::spawn(Arc::clone(&state.dashboard).run());
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/health/live", get(|| async { "alive\n" }))
        .route("/health/ready", get(ready))
        .route("/dashboard.json", get(samples))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&state),
            authorize,
        ))
        // After the layer, so without it.
        .merge(dashboard::routes())
        .with_state(state);
    let stopped = async {
        // A dropped sender means the same as a message: the gateway is gone.
        let _ = stop.await;
    };
    axum::serve(listener, router)
        .with_graceful_shutdown(stopped)
        .await
}

/// Notices when the certificate's files change.
async fn watch(tls: Arc<TlsFiles>) {
    let mut ticks = tokio::time::interval(TLS_LOOK);
    loop {
        ticks.tick().await;
        tls.look();
    }
}

async fn authorize(State(state): State<Arc<AdminState>>, request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    match &state.token {
        Some(token) if !given.is_some_and(|given| same(given.as_bytes(), token.as_bytes())) => {
            let headers = [(header::WWW_AUTHENTICATE, "Bearer")];
            (
                StatusCode::UNAUTHORIZED,
                headers,
                "send the admin token as bearer token\n",
            )
                .into_response()
        }
        _ => next.run(request).await,
    }
}

/// Compares without telling by its duration where the first difference is.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
}

/// The samples after number `after` of the query, which the page has.
async fn samples(State(state): State<Arc<AdminState>>, uri: Uri) -> Response {
    let after = uri.query().and_then(|query| query.strip_prefix("after="));
    let after = after.and_then(|number| number.parse().ok()).unwrap_or(0);
    let draining = state.draining.load(Ordering::Relaxed);
    let json = state.dashboard.to_json(after, draining).to_string();
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, dashboard::guarded(), json).into_response()
}

async fn metrics(State(state): State<Arc<AdminState>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &state.registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn ready(State(state): State<Arc<AdminState>>) -> Response {
    let mut text = String::new();
    let mut all = true;
    if state.draining.load(Ordering::Relaxed) {
        all = false;
        text.push_str("draining\n");
    }
    // Those who are connected are served, so balancers need not look elsewhere for them.
    if state.guard.overload.is_on() {
        let memory = state.guard.overload.memory();
        text.push_str(&format!(
            "degraded: {} of {} bytes of memory in use, new sessions and subscriptions are refused\n",
            memory.used, memory.max
        ));
    }
    for connection in state
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
    let status = if all {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, text).into_response()
}
