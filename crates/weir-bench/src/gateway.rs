//! The gateway under test: its configuration files, its ready file and its metrics.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::BenchError;
use crate::experiment::Connection;
use crate::plan::{Plan, SCHEMA_PLACEHOLDER};

/// Addresses of a running gateway, from its ready file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) struct GatewayReady {
    pub(super) listen: SocketAddr,
    pub(super) admin: SocketAddr,
}

#[derive(Debug)]
pub(super) struct GatewayFiles {
    adapters: PathBuf,
    server: Option<PathBuf>,
    ready: PathBuf,
    /// Client properties of all connections.
    client: Option<PathBuf>,
}

impl GatewayFiles {
    /// Writes the plan's configuration for `topic` of a cluster into `dir`.
    pub(super) fn write(
        dir: &Path,
        (plan, variant): (&Plan, Option<&str>),
        connection: Connection<'_>,
        topic: &str,
    ) -> Result<Self, BenchError> {
        let adapters = dir.join("adapters.xml");
        let text = plan
            .gateway_config_of(variant)
            .replace("@BOOTSTRAP@", connection.bootstrap)
            .replace("@TOPIC@", topic)
            .replace(
                "@REGISTRY@",
                plan.workload.registry.as_deref().unwrap_or_default(),
            );
        let text = match text.contains(SCHEMA_PLACEHOLDER) {
            true => text.replace(SCHEMA_PLACEHOLDER, &schema_file(dir, plan)?),
            false => text,
        };
        fs::write(&adapters, text).map_err(|error| BenchError::file(&adapters, error))?;
        let server = plan.server_config.as_ref().map(|text| {
            let path = dir.join("lightstreamer_conf.xml");
            let written = fs::write(&path, text).map_err(|error| BenchError::file(&path, error));
            written.map(|()| path)
        });
        let ready = dir.join("gateway-ready.json");
        Ok(Self {
            adapters,
            server: server.transpose()?,
            ready,
            client: connection.file.map(Path::to_owned),
        })
    }

    /// Returns the arguments that start the gateway at `listen`, with its admin server at `admin`.
    pub(super) fn args(&self, listen: SocketAddr, admin: SocketAddr) -> Vec<String> {
        let (listen, admin) = (listen.to_string(), admin.to_string());
        let adapters = self.adapters.display().to_string();
        let ready = self.ready.display().to_string();
        let server = self.server.as_ref().map(|path| path.display().to_string());
        let file = self.client.as_ref().map(|path| path.display().to_string());
        let first = ["gateway", "run", "--adapters", &adapters];
        let last = ["--listen", &listen, "--admin", &admin];
        let last = last.into_iter().chain(["--ready-file", &ready]);
        let server = server.iter().flat_map(|it| ["--lightstreamer-conf", it]);
        let client = file.iter().flat_map(|it| ["--kafka-config", it]);
        let args = first.into_iter().chain(last).chain(server).chain(client);
        args.map(str::to_owned).collect()
    }

    /// Returns the addresses of the gateway once it serves.
    pub(super) fn ready(&self) -> Option<GatewayReady> {
        serde_json::from_str(&fs::read_to_string(&self.ready).ok()?).ok()
    }
}

pub(super) fn metrics(admin: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&admin, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut response = String::new();
    let mut limited = stream.take(METRICS_BYTES_MAX);
    limited.read_to_string(&mut response)?;
    let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    Ok(body.to_owned())
}

/// Age of updates in microseconds when they left the gateway, by record timestamp: sum.
pub(super) const AGE_SUM_US: &str = "age_sum_us";
/// Number of updates in [`AGE_SUM_US`].
pub(super) const AGE_COUNT: &str = "age_count";

/// Returns the counters of a metrics page: bytes, under the names that workers use, and update
/// ages.
pub(super) fn counters(metrics: &str) -> BTreeMap<String, u64> {
    let figures = [
        ("bytes_received", "weir_gateway_received_bytes_total ", 1.0),
        ("bytes_sent", "weir_gateway_sent_bytes_total ", 1.0),
        (
            AGE_SUM_US,
            "weir_gateway_delivery_latency_seconds_sum ",
            1e6,
        ),
        (
            AGE_COUNT,
            "weir_gateway_delivery_latency_seconds_count ",
            1.0,
        ),
    ];
    let figures = figures.into_iter().filter_map(|(name, metric, unit)| {
        let value = metrics.lines().find_map(|line| line.strip_prefix(metric))?;
        let value: f64 = value.trim().parse().ok()?;
        Some((name.to_owned(), (value * unit) as u64))
    });
    figures.collect()
}

const TIMEOUT: Duration = Duration::from_secs(5);
const METRICS_BYTES_MAX: u64 = 4 << 20;

/// Returns the path of the schema of the values; a built-in schema is written into `dir`.
fn schema_file(dir: &Path, plan: &Plan) -> Result<String, BenchError> {
    let path = match (&plan.workload.schema, plan.workload.kind.record_format()) {
        (Some(schema), _) => {
            let path = Path::new(schema);
            std::path::absolute(path).map_err(|error| BenchError::file(path, error))?
        }
        (None, Some(format)) => {
            let path = dir.join(format!("schema.{format}"));
            let text = format.built_in();
            fs::write(&path, text).map_err(|error| BenchError::file(&path, error))?;
            path
        }
        // Excluded by the rules of plans.
        (None, None) => PathBuf::new(),
    };
    Ok(path.display().to_string())
}

#[cfg(test)]
mod tests {
    use crate::plan::{AnyPlan, BUILT_IN};

    use super::*;

    #[test]
    fn counters_are_parsed_from_metrics() {
        let text = "# TYPE weir_gateway_sent_bytes counter\nweir_gateway_sent_bytes_total 12\n\
                    weir_gateway_delivery_latency_seconds_sum 0.25\n\
                    weir_gateway_delivery_latency_seconds_count 50\n";
        let counters = counters(text);
        assert_eq!(counters.get(AGE_SUM_US), Some(&250_000));
        assert_eq!(counters.get(AGE_COUNT), Some(&50));
        assert_eq!(counters.get("bytes_sent"), Some(&12));
        assert_eq!(counters.len(), 3);
    }

    #[test]
    fn built_in_configurations_match_the_clients() {
        for built_in in BUILT_IN {
            let Some(Ok(AnyPlan::Clients(plan))) = AnyPlan::built_in(built_in.name) else {
                continue;
            };
            let published = plan.clients.scenario.corrected();
            let has = |text: String| {
                let config = &plan.gateway_config;
                assert!(config.contains(&text), "{}: {text}", built_in.name);
            };
            has(format!("adapters_conf id=\"{}\"", published.adapter_set));
            has(format!("data_provider name=\"{}\"", published.data_adapter));
            has("<param name=\"field.weir\">#{HEADERS.weir}</param>".to_owned());
            for field in &plan.clients.fields {
                has(format!("<param name=\"field.{field}\">"));
            }
        }
    }
}
