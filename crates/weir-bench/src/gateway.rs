//! The gateway under test: its configuration files, its ready file and its metrics.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::BenchError;
use crate::experiment::Connection;
use crate::experiment::turns::{CellFailure, CellResult};
use crate::plan::{Plan, SCHEMA_PLACEHOLDER};

/// Addresses of a running gateway, from its ready file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub(super) struct GatewayReady {
    pub(super) listen: SocketAddr,
    pub(super) admin: SocketAddr,
    /// Token of the admin server on another machine.
    #[serde(skip)]
    token: Option<String>,
}

impl GatewayReady {
    /// Parses the content of a ready file.
    pub(super) fn parse(content: &str) -> Option<Self> {
        serde_json::from_str(content).ok()
    }

    /// Returns the addresses of a gateway that listens at all addresses of the machine `host`.
    pub(super) fn on(self, host: &str, files: &GatewayFiles) -> CellResult<Self> {
        Ok(Self {
            listen: resolve(host, self.listen.port())?,
            admin: resolve(host, self.admin.port())?,
            token: files.token.as_ref().map(|(_, token)| token.clone()),
        })
    }

    /// Reads the metrics.
    pub(super) fn metrics(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect_timeout(&self.admin, TIMEOUT)?;
        stream.set_read_timeout(Some(TIMEOUT))?;
        let token = self.token.as_ref();
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: {}\r\n{}Connection: close\r\n\r\n",
            self.admin,
            token.unwrap_or_default()
        );
        stream.write_all(request.as_bytes())?;
        let mut response = String::new();
        let mut limited = stream.take(METRICS_BYTES_MAX);
        limited.read_to_string(&mut response)?;
        let body = response.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok(body.to_owned())
    }
}

/// Returns the address of a port of another machine.
pub(super) fn resolve(host: &str, port: u16) -> CellResult<SocketAddr> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    let found = (host, port).to_socket_addrs();
    let first = found.and_then(|mut found| found.next().ok_or_else(none));
    first.map_err(|error| CellFailure::because(format!("address {host}: {error}")))
}

#[derive(Debug)]
pub(super) struct GatewayFiles {
    adapters: PathBuf,
    server: Option<PathBuf>,
    pub(super) ready_file: PathBuf,
    /// Client properties of all connections.
    client: Option<PathBuf>,
    /// Schema that the configuration names.
    pub(super) schema: Option<PathBuf>,
    /// Configuration file with the token of the admin server, and the token; `None`: the admin
    /// server is on loopback and needs none.
    token: Option<(PathBuf, String)>,
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
        let has_schema = text.contains(SCHEMA_PLACEHOLDER);
        let schema = has_schema.then(|| schema_file(dir, plan)).transpose()?;
        let text = match &schema {
            Some(path) => text.replace(SCHEMA_PLACEHOLDER, &path.display().to_string()),
            None => text,
        };
        fs::write(&adapters, text).map_err(|error| BenchError::file(&adapters, error))?;
        let server = plan.server_config.as_ref().map(|text| {
            let path = dir.join("lightstreamer_conf.xml");
            let written = fs::write(&path, text).map_err(|error| BenchError::file(&path, error));
            written.map(|()| path)
        });
        let ready_file = dir.join("gateway-ready.json");
        Ok(Self {
            adapters,
            server: server.transpose()?,
            ready_file,
            client: connection.file.map(Path::to_owned),
            schema,
            token: None,
        })
    }

    /// Protects the admin server, which needs that at other addresses than loopback, with a random
    /// token.
    pub(super) fn require_token(&mut self, dir: &Path) -> Result<(), BenchError> {
        self.token = Some(token_file(dir)?);
        Ok(())
    }

    /// Returns the arguments that start the gateway at `listen`, with its admin server at `admin`.
    pub(super) fn args(&self, listen: SocketAddr, admin: SocketAddr) -> Vec<String> {
        let (listen, admin) = (listen.to_string(), admin.to_string());
        let text = |path: &PathBuf| path.display().to_string();
        let options = [
            ("--adapters", Some(text(&self.adapters))),
            ("--listen", Some(listen)),
            ("--admin", Some(admin)),
            ("--ready-file", Some(text(&self.ready_file))),
            ("--lightstreamer-conf", self.server.as_ref().map(text)),
            ("--kafka-config", self.client.as_ref().map(text)),
            ("--config", self.token.as_ref().map(|(path, _)| text(path))),
        ];
        let options = options
            .into_iter()
            .filter_map(|(name, value)| Some([name.to_owned(), value?]));
        let command = ["gateway", "run"].map(str::to_owned);
        command.into_iter().chain(options.flatten()).collect()
    }

    /// Returns the addresses of the gateway once it serves.
    pub(super) fn ready(&self) -> Option<GatewayReady> {
        GatewayReady::parse(&fs::read_to_string(&self.ready_file).ok()?)
    }
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

/// Writes a configuration file with a random token for the admin server. Returns both.
fn token_file(dir: &Path) -> Result<(PathBuf, String), BenchError> {
    let token = format!("{:032x}", rand::random::<u128>());
    let path = dir.join("gateway.toml");
    let mut options = fs::OpenOptions::new();
    let file = options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&path);
    let written = file.and_then(|mut file| writeln!(file, "[admin]\ntoken = \"{token}\""));
    written.map_err(|error| BenchError::file(&path, error))?;
    Ok((path, token))
}

/// Returns the path of the schema of the values; a built-in schema is written into `dir`.
fn schema_file(dir: &Path, plan: &Plan) -> Result<PathBuf, BenchError> {
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
    Ok(path)
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
