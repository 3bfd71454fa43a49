//! Pages and commands of the admin port: readiness, connections, reload.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use weir_net::MailboxSender;
use weir_net::admin::{AdminPages, Page, json_page};
use weir_net::http1::Response;

use crate::data::{ConnectionInfo, LoopEvent};
use crate::reload::{ReloadError, Reloader};
use crate::virtual_cluster::VirtualCluster;

/// Maximum number of listed connections per event loop.
const CONNECTIONS_MAX: usize = 10_000;
/// Maximum time for posting a request to an event loop, and for the wait for its reply.
const POST_TIMEOUT: Duration = Duration::from_secs(2);

/// Pages of the proxy; pages common to all products are in `weir-net`.
pub(crate) struct Pages {
    pub(crate) reloader: Arc<Reloader>,
    pub(crate) loops: Vec<MailboxSender<LoopEvent>>,
}

impl AdminPages for Pages {
    fn readiness(&self) -> (bool, String) {
        let generation = self.reloader.current.get();
        let clusters = generation
            .clusters
            .iter()
            .map(|cluster| cluster.readiness());
        clusters.fold((true, String::new()), |(all, text), (is_ready, lines)| {
            (all && is_ready, text + &lines)
        })
    }

    fn page(&mut self, path: &str, _query: &str) -> Option<Page> {
        match path {
            "/connections" => {
                let (generation, loops) = (self.reloader.current.get(), self.loops.clone());
                // The page waits for a reply from each event loop. This thread must stay free for
                // other requests.
                let page = move || connections(&generation.clusters, &loops);
                Some(Page::Deferred(Box::new(page)))
            }
            "/reload" => {
                let generation = self.reloader.current.get().number;
                let error = self.reloader.counts.error();
                let state = json!({ "generation": generation, "error": error });
                Some(Page::Ready(json_page(state.to_string())))
            }
            _ => None,
        }
    }

    fn command(&mut self, path: &str, query: &str) -> Option<Page> {
        let reloader = Arc::clone(&self.reloader);
        let command: fn(&Reloader) -> Response = match (path, query) {
            ("/reload", "") => reload,
            ("/reload", "check=1") => preview,
            ("/reload", _) => {
                let text = "unknown parameter: use /reload, or /reload?check=1 to change nothing\n";
                return Some(Page::Ready(Response::text(400, text)));
            }
            _ => return None,
        };
        Some(Page::Deferred(Box::new(move || command(&reloader))))
    }

    fn check_files(&self) -> [u64; 2] {
        let certificates = self.reloader.certificates();
        certificates.check();
        certificates.counts()
    }
}

/// Reloads the configuration file.
fn reload(reloader: &Reloader) -> Response {
    match reloader.reload() {
        Ok(report) => {
            let (generation, closing) = (report.generation, report.closing);
            let spread = report.spread;
            let body = json!({ "generation": generation, "closing": closing, "spread": spread });
            json_page(body.to_string())
        }
        Err(error) => error_response(&error),
    }
}

/// Reports the effect that a reload would have, without a change.
fn preview(reloader: &Reloader) -> Response {
    match reloader.preview() {
        Ok(preview) => json_page(json!(preview).to_string()),
        Err(error) => error_response(&error),
    }
}

fn error_response(error: &ReloadError) -> Response {
    let status = match error {
        ReloadError::Busy => 409,
        ReloadError::Config(_) | ReloadError::NotReloadable(_) => 422,
    };
    Response::text(status, format!("{error}\n"))
}

fn connections(clusters: &[Arc<VirtualCluster>], loops: &[MailboxSender<LoopEvent>]) -> Response {
    let connections = list_connections(loops);
    let clusters: Vec<_> = clusters
        .iter()
        .map(|cluster| {
            let brokers = cluster.broker_registry.infos();
            let brokers = brokers.into_iter().map(|info| {
                let (id, upstream, advertised) = (info.id, info.upstream, info.advertised);
                let mut broker =
                    json!({ "node_id": id, "upstream": upstream, "advertised": advertised });
                if let Some(name) = info.advertised_name {
                    broker["name"] = name.into();
                }
                broker
            });
            json!({
                "name": cluster.config.name,
                "listen": cluster.listen.to_string(),
                "brokers": brokers.collect::<Vec<_>>(),
            })
        })
        .collect();
    json_page(json!({ "clusters": clusters, "connections": connections }).to_string())
}

/// Returns the connections of all event loops that reply in time, at most [`CONNECTIONS_MAX`] of
/// each.
fn list_connections(loops: &[MailboxSender<LoopEvent>]) -> Vec<ConnectionInfo> {
    let (sender, replies) = crossbeam_channel::bounded(loops.len());
    for event_loop in loops {
        // Fails if the event loop has ended, or if its mailbox stays full.
        let event = LoopEvent::List(CONNECTIONS_MAX, sender.clone());
        let _ = event_loop.post(event, POST_TIMEOUT);
    }
    drop(sender);
    let mut connections = Vec::new();
    while let Ok(reply) = replies.recv_timeout(POST_TIMEOUT) {
        connections.extend(reply);
    }
    connections
}
