//! The admin port: metrics, health, who is connected. Control plane only; it touches no connection.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use prometheus_client::registry::Registry;
use serde_json::json;
use tokio::sync::oneshot;
use weir_net::MailSender;

use crate::data::{ConnectionRow, Mail};
use crate::proxy::Cluster;

/// The most connections a list has, per event loop.
const ROWS_MAX: usize = 10_000;
/// How long event loops may take to tell of theirs.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the pages are made from.
pub(crate) struct AdminState {
    pub(crate) registry: Registry,
    pub(crate) clusters: Arc<Vec<Cluster>>,
    pub(crate) loops: Vec<MailSender<Mail>>,
    pub(crate) draining: Arc<AtomicBool>,
    pub(crate) token: Option<String>,
}

/// Serves the pages until `stop` is sent or dropped.
pub(crate) async fn serve(
    listener: tokio::net::TcpListener,
    state: AdminState,
    stop: oneshot::Receiver<()>,
) -> std::io::Result<()> {
    let state = Arc::new(state);
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/health/live", get(|| async { "alive\n" }))
        .route("/health/ready", get(ready))
        .route("/connections", get(connections))
        .layer(middleware::from_fn_with_state(
            Arc::clone(&state),
            authorize,
        ))
        .with_state(state);
    let stopped = async {
        // A dropped sender means the same as a message.
        let _ = stop.await;
    };
    axum::serve(listener, router)
        .with_graceful_shutdown(stopped)
        .await
}

async fn authorize(State(state): State<Arc<AdminState>>, request: Request, next: Next) -> Response {
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "));
    match &state.token {
        Some(token) if !given.is_some_and(|given| same(given.as_bytes(), token.as_bytes())) => {
            let headers = [(header::WWW_AUTHENTICATE, "Bearer")];
            let text = "send the admin token as bearer token\n";
            (StatusCode::UNAUTHORIZED, headers, text).into_response()
        }
        _ => next.run(request).await,
    }
}

/// Compares without telling by its duration where the first difference is.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |sum, (a, b)| sum | (a ^ b)) == 0
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
    for cluster in state.clusters.iter() {
        let (is_ready, lines) = cluster.readiness();
        all &= is_ready;
        text.push_str(&lines);
    }
    let status = match all {
        true => StatusCode::OK,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, text).into_response()
}

async fn connections(State(state): State<Arc<AdminState>>) -> Response {
    // Loops answer within a turn, but this thread has others to serve.
    let loops = state.loops.clone();
    let rows = tokio::task::spawn_blocking(move || rows(&loops)).await;
    let rows = rows.unwrap_or_default();
    let clusters: Vec<_> = state
        .clusters
        .iter()
        .map(|cluster| {
            let brokers = cluster.directory.rows();
            let brokers = brokers.into_iter().map(
                |row| json!({ "node_id": row.id, "upstream": row.upstream, "place": row.place }),
            );
            json!({
                "name": cluster.name,
                "listen": cluster.listen.to_string(),
                "brokers": brokers.collect::<Vec<_>>(),
            })
        })
        .collect();
    let json = json!({ "clusters": clusters, "connections": rows }).to_string();
    ([(header::CONTENT_TYPE, "application/json")], json).into_response()
}

fn rows(loops: &[MailSender<Mail>]) -> Vec<ConnectionRow> {
    let (reply, answers) = crossbeam_channel::bounded(loops.len());
    for one in loops {
        // A loop that has ended has no connections.
        let _ = one.post(Mail::List(ROWS_MAX, reply.clone()), PATIENCE);
    }
    drop(reply);
    let mut rows = Vec::new();
    while let Ok(more) = answers.recv_timeout(PATIENCE) {
        rows.extend(more);
    }
    rows
}
