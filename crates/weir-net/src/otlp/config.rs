//! The table `[otlp]` of products, and the environment variables of OpenTelemetry.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use super::pairs;

/// Environment variables that override the file.
const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const HEADERS: &str = "OTEL_EXPORTER_OTLP_HEADERS";
const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";

/// Defaults of sampling: at 100,000 records per second, 10 traces.
const TRACE_ONE_IN: u64 = 10_000;
const TRACES_PER_SECOND: u32 = 100;

/// `[otlp]` as written.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct OtlpTable {
    /// URL of the collector, without /v1/metrics and /v1/traces.
    endpoint: Option<String>,
    /// Headers of each request; a value "$env.NAME" is that environment variable.
    headers: BTreeMap<String, String>,
    /// PEM file with the authorities of the collector's certificate, by default those of the
    /// machine.
    ca: Option<PathBuf>,
    /// Attribute service.name, by default the name of the product.
    service_name: Option<String>,
    /// Further attributes of the resource.
    resource: BTreeMap<String, String>,
    /// Milliseconds between exports of metrics; 0: none.
    metrics_interval_ms: u64,
    /// One record or request in so many is traced, by default 10,000; 0: only records that their
    /// producer has marked.
    trace_one_in: Option<u64>,
    /// Maximum number of traces that begin per second, by default 100; 0: no traces.
    traces_per_second: Option<u32>,
    /// Milliseconds for one request to the collector.
    timeout_ms: u64,
}

impl Default for OtlpTable {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: BTreeMap::new(),
            ca: None,
            service_name: None,
            resource: BTreeMap::new(),
            metrics_interval_ms: 60_000,
            trace_one_in: None,
            traces_per_second: None,
            timeout_ms: 10_000,
        }
    }
}

/// Unusable settings of the export.
#[derive(Debug, thiserror::Error)]
pub enum OtlpConfigError {
    /// A build without the exporter.
    #[error("otlp: this build cannot export; build with --features otlp, or remove the table")]
    NotBuilt,
    /// No collector.
    #[error("otlp: set endpoint, or the environment variable {ENDPOINT}")]
    NoEndpoint,
    /// A URL that is none.
    #[error("otlp.endpoint = \"{0}\": write the URL of a collector, such as http://localhost:4318")]
    Endpoint(String),
    /// An unusable header.
    #[error("otlp.headers: \"{0}\" is not a valid header of HTTP")]
    Header(String),
    /// A header of the environment that is not there.
    #[error("otlp.headers: \"$env.{0}\": set the environment variable {0}")]
    Variable(String),
    /// An unreadable list of the environment.
    #[error("{0}: write KEY=VALUE,KEY=VALUE with percent-encoded values")]
    List(&'static str),
    /// A value out of range.
    #[error("otlp.{key} = {value}: use {} to {}", range.start(), range.end())]
    Range {
        /// Key.
        key: &'static str,
        /// Its value.
        value: u64,
        /// Valid values.
        range: RangeInclusive<u64>,
    },
    /// Unusable authorities.
    #[cfg(feature = "otlp")]
    #[error("otlp.ca = \"{}\": {error}", path.display())]
    Ca {
        /// The file.
        path: PathBuf,
        /// Error of reading it.
        error: weir_security::StoreError,
    },
}

/// Checked settings of the export.
#[derive(Clone)]
pub struct OtlpConfig {
    /// URL without a slash at the end.
    pub endpoint: String,
    /// Headers of each request, with secret values.
    pub headers: Vec<(String, String)>,
    /// Authorities of the collector's certificate.
    #[cfg(feature = "otlp")]
    pub roots: weir_security::Roots,
    /// Attributes of the resource, with the name of the service.
    pub resource: BTreeMap<String, String>,
    /// Time between exports of metrics; `None`: none.
    pub metrics_interval: Option<Duration>,
    /// Time for one request.
    pub timeout: Duration,
    /// One in so many is traced; 0: only what is marked by its sender.
    pub trace_one_in: u64,
    /// Maximum number of traces that begin per second; 0: no traces.
    pub traces_per_second: u32,
}

impl fmt::Debug for OtlpConfig {
    /// Writes no values of headers, which are secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OtlpConfig")
            .field("endpoint", &self.endpoint)
            .field("resource", &self.resource)
            .finish_non_exhaustive()
    }
}

impl OtlpTable {
    /// Checks the table and the environment, which overrides it. Returns `None` if neither the file
    /// has the table nor the environment a collector. `product` is the default name of the service;
    /// relative paths start at `dir`.
    ///
    /// # Errors
    /// The settings are not usable, or the build has no exporter.
    pub fn open(
        table: Option<Self>,
        product: &str,
        dir: &Path,
        env: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<OtlpConfig>, OtlpConfigError> {
        let env = |name: &str| env(name).filter(|value| !value.trim().is_empty());
        let endpoint = env(ENDPOINT);
        if table.is_none() && endpoint.is_none() {
            return Ok(None);
        }
        if !cfg!(feature = "otlp") {
            let Some(_) = table else {
                tracing::info!("{ENDPOINT} not used: this build has no feature otlp");
                return Ok(None);
            };
            return Err(OtlpConfigError::NotBuilt);
        }
        let mut table = table.unwrap_or_default();
        let endpoint = endpoint.or_else(|| table.endpoint.take());
        table.endpoint = Some(endpoint.ok_or(OtlpConfigError::NoEndpoint)?);
        table.service_name = env(SERVICE_NAME).or(table.service_name);
        let listed = |name| {
            let list = env(name).map(|text| pairs::parse(&text).ok_or(OtlpConfigError::List(name)));
            list.transpose().map(Option::unwrap_or_default)
        };
        table.headers = headers(table.headers, &env)?;
        table.headers.extend(listed(HEADERS)?);
        table.resource.extend(listed(RESOURCE)?);
        table.ca = table.ca.map(|path| dir.join(path));
        table.check(product).map(Some)
    }

    fn check(self, product: &str) -> Result<OtlpConfig, OtlpConfigError> {
        let endpoint = self.endpoint.unwrap_or_default();
        let host = ["http://", "https://"]
            .iter()
            .find_map(|scheme| endpoint.strip_prefix(scheme));
        let is_url = |host: &str| {
            !host.is_empty() && host.len() <= 1_000 && host.bytes().all(|b| b.is_ascii_graphic())
        };
        if !host.is_some_and(is_url) {
            return Err(OtlpConfigError::Endpoint(endpoint));
        }
        if let Some((name, _)) = self
            .headers
            .iter()
            .find(|(name, value)| !is_header(name, value))
        {
            return Err(OtlpConfigError::Header(name.clone()));
        }
        let (interval_ms, timeout_ms) = (self.metrics_interval_ms, self.timeout_ms);
        check_range("metrics_interval_ms", interval_ms, 0..=86_400_000)?;
        check_range("timeout_ms", timeout_ms, 1..=600_000)?;
        let mut resource = self.resource;
        let name = self
            .service_name
            .or_else(|| resource.remove("service.name"));
        let name = name.unwrap_or_else(|| product.to_owned());
        resource.insert("service.name".to_owned(), name);
        let interval = Duration::from_millis(self.metrics_interval_ms);
        Ok(OtlpConfig {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            headers: self.headers.into_iter().collect(),
            #[cfg(feature = "otlp")]
            roots: roots(self.ca)?,
            resource,
            metrics_interval: Some(interval).filter(|interval| !interval.is_zero()),
            timeout: Duration::from_millis(self.timeout_ms),
            trace_one_in: self.trace_one_in.unwrap_or(TRACE_ONE_IN),
            traces_per_second: self.traces_per_second.unwrap_or(TRACES_PER_SECOND),
        })
    }
}

/// Returns the headers of the file, with values of the environment.
fn headers(
    written: BTreeMap<String, String>,
    env: &impl Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, OtlpConfigError> {
    let value = |(name, value): (String, String)| match value.strip_prefix("$env.") {
        Some(variable) => {
            let value = env(variable);
            let value = value.ok_or_else(|| OtlpConfigError::Variable(variable.to_owned()))?;
            Ok((name, value))
        }
        None => Ok((name, value)),
    };
    written.into_iter().map(value).collect()
}

fn is_header(name: &str, value: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty()
        && name.bytes().all(is_token)
        && value
            .bytes()
            .all(|byte| byte == b' ' || byte.is_ascii_graphic())
}

fn check_range(
    key: &'static str,
    value: u64,
    range: RangeInclusive<u64>,
) -> Result<(), OtlpConfigError> {
    match range.contains(&value) {
        true => Ok(()),
        false => Err(OtlpConfigError::Range { key, value, range }),
    }
}

#[cfg(feature = "otlp")]
fn roots(ca: Option<PathBuf>) -> Result<weir_security::Roots, OtlpConfigError> {
    use weir_security::Roots;
    let read = |path: PathBuf| {
        Roots::from_pem_file(&path).map_err(|error| OtlpConfigError::Ca { path, error })
    };
    ca.map_or(Ok(Roots::System), read)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Env<'a> = &'a [(&'a str, &'a str)];

    fn open(table: Option<OtlpTable>, env: Env<'_>) -> Result<Option<OtlpConfig>, OtlpConfigError> {
        let env = |name: &str| {
            let found = env.iter().find(|(key, _)| *key == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        OtlpTable::open(table, "weir-gateway", Path::new("/nowhere"), env)
    }

    fn table(endpoint: &str) -> OtlpTable {
        OtlpTable {
            endpoint: Some(endpoint.to_owned()),
            ..OtlpTable::default()
        }
    }

    #[test]
    fn export_needs_table_or_collector() {
        assert!(open(None, &[(SERVICE_NAME, "x")]).unwrap().is_none());
        assert!(open(None, &[(ENDPOINT, " ")]).unwrap().is_none());
        let opened = open(Some(table("http://localhost:4318")), &[]);
        match cfg!(feature = "otlp") {
            true => assert!(opened.unwrap().is_some()),
            false => assert!(matches!(opened, Err(OtlpConfigError::NotBuilt))),
        }
        let from_env = open(None, &[(ENDPOINT, "http://c:4318")]).unwrap();
        assert_eq!(from_env.is_some(), cfg!(feature = "otlp"));
    }

    #[cfg(feature = "otlp")]
    #[test]
    fn environment_overrides_the_file() {
        let mut written = table("https://one:4318/otlp/");
        written.headers = [("a", "$env.TOKEN"), ("b", "2")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into();
        written.resource.insert("zone".to_owned(), "x".to_owned());
        let env = [
            ("TOKEN", "secret"),
            (HEADERS, "b=3,c=4%20"),
            (SERVICE_NAME, "edge"),
            (RESOURCE, "zone=y"),
        ];
        let config = open(Some(written.clone()), &env).unwrap().unwrap();
        assert_eq!(config.endpoint, "https://one:4318/otlp");
        let headers = [("a", "secret"), ("b", "3"), ("c", "4 ")];
        let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(config.headers, headers);
        assert_eq!(config.resource["service.name"], "edge");
        assert_eq!(config.resource["zone"], "y");
        assert!(!format!("{config:?}").contains("secret"));
        let missing = open(Some(written), &[]).unwrap_err();
        assert!(missing.to_string().contains("environment variable TOKEN"));
    }

    #[cfg(feature = "otlp")]
    #[test]
    fn mistakes_are_named() {
        let error = |table, env: Env<'_>| open(Some(table), env).unwrap_err().to_string();
        let none = error(OtlpTable::default(), &[]);
        assert!(none.contains(ENDPOINT), "{none}");
        for endpoint in ["localhost:4318", "grpc://a", "http://", "http://a b"] {
            let text = error(table(endpoint), &[]);
            assert!(
                text.starts_with(&format!("otlp.endpoint = \"{endpoint}\"")),
                "{text}"
            );
        }
        let text = error(table("http://a"), &[(HEADERS, "a")]);
        assert!(text.starts_with(HEADERS), "{text}");
        let text = error(table("http://a"), &[(HEADERS, "a%20b=1")]);
        assert_eq!(text, "otlp.headers: \"a b\" is not a valid header of HTTP");
        let short = OtlpTable {
            timeout_ms: 0,
            ..table("http://a")
        };
        assert_eq!(error(short, &[]), "otlp.timeout_ms = 0: use 1 to 600000");
        let ca = OtlpTable {
            ca: Some("ca.pem".into()),
            ..table("https://a")
        };
        assert!(error(ca, &[]).starts_with("otlp.ca = \"/nowhere/ca.pem\": "));
    }
}
