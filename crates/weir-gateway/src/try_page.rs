//! `/try`: a page that lists topics and items and shows live values.
//!
//! The list needs the admin token. Values come from the port for clients with the name and password
//! that the visitor enters, so that the rules on items apply: the page has no rights of its own.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use serde_json::{Value, json};
use weir_ingest::KafkaConnection;
use weir_net::admin::json_page;
use weir_net::http1::Response;
use weir_tlcp::Mode;

use crate::shard::only_mode;

const HTML: &str = include_str!("try_page.html");
const SCRIPT: &str = include_str!("try_page.js");

/// Addresses and names with which the page connects as a client.
#[derive(Debug)]
pub(crate) struct TryPage {
    pub(crate) adapter_set: String,
    pub(crate) listen: SocketAddr,
    /// Equal to `listen` if there is TLS only.
    pub(crate) tls_listen: Option<SocketAddr>,
    /// Names of fields found in records, by connection.
    pub(crate) example_fields: BTreeMap<String, Vec<String>>,
}

impl TryPage {
    /// Returns the parts without data.
    pub(crate) fn part(&self, path: &str) -> Option<Response> {
        let (content_type, body) = match path {
            "/try" => ("text/html; charset=utf-8", HTML),
            "/try/page.js" => ("text/javascript; charset=utf-8", SCRIPT),
            _ => return None,
        };
        let part = Response {
            content_type,
            ..Response::text(200, body)
        };
        Some(part.with_header("Content-Security-Policy", self.policy()))
    }

    /// Allows connections to the ports for clients, on whichever host the page was loaded from.
    fn policy(&self) -> String {
        let plain = self.plain_port().map(|port| format!(" ws://*:{port}"));
        let tls = self
            .tls_listen
            .map(|address| format!(" wss://*:{}", address.port()));
        let sources = [plain, tls].map(Option::unwrap_or_default).concat();
        format!(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'{sources}; \
             img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )
    }

    fn plain_port(&self) -> Option<u16> {
        (self.tls_listen != Some(self.listen)).then(|| self.listen.port())
    }

    /// Returns what can be subscribed.
    pub(crate) fn items(&self, connections: &[Arc<KafkaConnection>]) -> Response {
        let connections: Vec<_> = connections.iter().map(|one| self.row(one)).collect();
        let facts = json!({
            "adapter_set": self.adapter_set,
            "port": self.plain_port(),
            "tls_port": self.tls_listen.map(|address| address.port()),
            "connections": connections,
        });
        json_page(facts.to_string())
    }

    fn row(&self, connection: &KafkaConnection) -> Value {
        let mapping = &connection.config.mapping;
        let name = &connection.config.name;
        let mut fields: Vec<&str> = mapping.fields().collect();
        if mapping.wildcard().is_some() {
            let examples = self.example_fields.get(name).into_iter().flatten();
            fields.extend(examples.map(String::as_str));
        }
        let mut items: Vec<_> = mapping
            .item_shapes()
            .map(|(prefix, keys)| json!({ "prefix": prefix, "parameters": keys }))
            .collect();
        items.dedup();
        json!({
            "name": name,
            "enabled": connection.config.enabled,
            "ready": connection.state.ready(),
            "topics": mapping.topics().collect::<Vec<_>>(),
            "items": items,
            "fields": fields,
            "is_any_field": mapping.wildcard().is_some(),
            "mode": only_mode(connection).unwrap_or(Mode::Merge).as_str(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(listen: &str, tls: Option<&str>) -> TryPage {
        TryPage {
            adapter_set: "Set".to_owned(),
            listen: listen.parse().unwrap(),
            tls_listen: tls.map(|address| address.parse().unwrap()),
            example_fields: BTreeMap::new(),
        }
    }

    #[test]
    fn policy_names_only_the_ports_for_clients() {
        let sources = |page: TryPage| {
            let policy = page.policy();
            let (_, rest) = policy.split_once("connect-src ").unwrap();
            rest.split_once(';').unwrap().0.to_owned()
        };
        let plain = page("127.0.0.1:8080", None);
        assert_eq!(sources(plain), "'self' ws://*:8080");
        let both = page("127.0.0.1:8080", Some("127.0.0.1:8443"));
        assert_eq!(sources(both), "'self' ws://*:8080 wss://*:8443");
        let tls = page("127.0.0.1:8443", Some("127.0.0.1:8443"));
        assert_eq!(sources(tls), "'self' wss://*:8443");
    }

    #[test]
    fn page_has_no_inline_content() {
        let lower = HTML.to_ascii_lowercase();
        for forbidden in ["<style", "style=", " on", "http:", "https:"] {
            assert!(!lower.contains(forbidden), "{forbidden}");
        }
        for path in lower.split("src=\"").skip(1) {
            assert!(path.starts_with("/try/") || path.starts_with("/dashboard/"));
        }
    }
}
