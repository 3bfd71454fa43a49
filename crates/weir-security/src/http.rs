//! A small blocking HTTP client for token endpoints and services of clouds, with limits on time and
//! size. It follows no redirect, because requests contain credentials.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::aws_lc_rs;
use thiserror::Error;
use ureq::http::{HeaderMap, Method, Request, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig, TlsProvider};
use ureq::{Agent, Proxy};

use crate::stores::{Roots, StoreError};

/// Reason why a request has no response.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs)] // the messages describe variants and fields
pub enum HttpError {
    #[error("\"{url}\" is not a URL of a web server")]
    Url { url: String },
    #[error("no response from {server}: {reason}")]
    Request { server: String, reason: String },
    #[error("{url} has status {status}")]
    Status { url: String, status: u16 },
    #[error("authorities for {server}: {error}")]
    Roots {
        server: String,
        error: Box<StoreError>,
    },
}

/// Document that a web server has sent.
#[derive(Clone, PartialEq, Eq)]
pub struct Document {
    /// Content.
    pub body: Vec<u8>,
    /// Value of `Cache-Control: max-age` (RFC 9111).
    pub max_age: Option<Duration>,
}

/// Fetches a document of at most `bytes_max` bytes. Follows no redirect; every status except 200 is
/// an error. The proxy of the environment is used for HTTPS only.
///
/// # Errors
/// Returns an error if there is no valid response within `timeout`.
pub fn fetch_document(
    url: &str,
    timeout: Duration,
    bytes_max: u64,
    roots: &Roots,
) -> Result<Document, HttpError> {
    let request = HttpRequest {
        method: "GET",
        url,
        headers: &[("accept", "application/json")],
        body: None,
        timeout,
        proxy: url.starts_with("https:"),
    };
    let (response, headers) = exchange(&request, bytes_max, roots)?;
    if response.status != 200 {
        return Err(HttpError::Status {
            url: shown(url),
            status: response.status,
        });
    }
    let mut directives = headers
        .get_all("cache-control")
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let max_age = directives.find_map(|one| one.trim().strip_prefix("max-age=")?.parse().ok());
    Ok(Document {
        body: response.body,
        max_age: max_age.map(Duration::from_secs),
    })
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Document({} bytes)", self.body.len())
    }
}

/// Sends a JSON document with `POST` and returns the response, whatever its status is. Follows no
/// redirect. The proxy of the environment is used for HTTPS only.
///
/// # Errors
/// Returns an error if there is no response within `timeout`.
pub fn post_json(
    url: &str,
    headers: &[(&str, &str)],
    body: &[u8],
    timeout: Duration,
    roots: &Roots,
) -> Result<HttpResponse, HttpError> {
    let json = [("content-type", "application/json")];
    let headers: Vec<_> = json.iter().chain(headers).copied().collect();
    let request = HttpRequest {
        method: "POST",
        url,
        headers: &headers,
        body: Some(body),
        timeout,
        proxy: url.starts_with("https:"),
    };
    send(&request, roots)
}

/// Response of a server.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Content.
    pub body: Vec<u8>,
}

impl fmt::Debug for HttpResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "HttpResponse({}, {} bytes)",
            self.status,
            self.body.len()
        )
    }
}

/// A request.
pub(crate) struct HttpRequest<'a> {
    pub(crate) method: &'static str,
    pub(crate) url: &'a str,
    pub(crate) headers: &'a [(&'a str, &'a str)],
    pub(crate) body: Option<&'a [u8]>,
    pub(crate) timeout: Duration,
    /// Uses the proxy of the environment (`HTTPS_PROXY`, `NO_PROXY`).
    pub(crate) proxy: bool,
}

/// Sends a request and returns the response, whatever its status is.
pub(crate) fn send(request: &HttpRequest<'_>, roots: &Roots) -> Result<HttpResponse, HttpError> {
    exchange(request, BODY_BYTES_MAX, roots).map(|(response, _)| response)
}

fn exchange(
    request: &HttpRequest<'_>,
    bytes_max: u64,
    roots: &Roots,
) -> Result<(HttpResponse, HeaderMap), HttpError> {
    let invalid = || HttpError::Url {
        url: shown(request.url),
    };
    let uri: Uri = request.url.parse().map_err(|_| invalid())?;
    let server = uri.authority().map(|it| it.host().to_owned());
    let server = server.ok_or_else(invalid)?;
    let failed = |reason: String| HttpError::Request {
        server: server.clone(),
        reason,
    };
    let agent = agent(request, &uri, roots, &server)?;
    let deadline = Instant::now() + request.timeout;
    let method = Method::from_bytes(request.method.as_bytes());
    let method = method.map_err(|error| failed(error.to_string()))?;
    let mut builder = Request::builder().method(method).uri(uri);
    for (name, value) in request.headers {
        builder = builder.header(*name, *value);
    }
    let response = match request.body {
        Some(body) => builder.body(body).map(|request| agent.run(request)),
        None => builder.body(()).map(|request| agent.run(request)),
    };
    let response = response.map_err(|error| failed(error.to_string()))?;
    let mut response = response.map_err(|error| failed(error.to_string()))?;
    let status = response.status().as_u16();
    let headers = std::mem::take(response.headers_mut());
    let body = response.body_mut().with_config().limit(bytes_max).reader();
    let body = read_until(deadline, body).map_err(|error| failed(error.to_string()))?;
    Ok((HttpResponse { status, body }, headers))
}

/// Reads a body. ureq gives each read another second after the end of the timeout, so that a server
/// that sends byte by byte could hold the connection.
fn read_until(deadline: Instant, mut body: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut chunk = [0; 8 * 1024];
    loop {
        let count = body.read(&mut chunk)?;
        if count == 0 {
            return Ok(bytes);
        }
        if Instant::now() >= deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "timeout: body"));
        }
        bytes.extend_from_slice(&chunk[..count]);
    }
}

fn agent(
    request: &HttpRequest<'_>,
    uri: &Uri,
    roots: &Roots,
    server: &str,
) -> Result<Agent, HttpError> {
    let mut config = Agent::config_builder()
        .timeout_global(Some(request.timeout))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .max_response_header_size(HEADER_BYTES_MAX)
        .user_agent(concat!("weir/", env!("CARGO_PKG_VERSION")));
    if !request.proxy {
        config = config.proxy(None::<Proxy>);
    }
    if uri.scheme_str() == Some("https") {
        let certificates = roots.certificates().map_err(|error| HttpError::Roots {
            server: server.to_owned(),
            error: Box::new(error),
        })?;
        let certificates = certificates
            .iter()
            .map(|der| Certificate::from_der(der).to_owned());
        let tls = TlsConfig::builder()
            .provider(TlsProvider::Rustls)
            .unversioned_rustls_crypto_provider(Arc::new(aws_lc_rs::default_provider()))
            .root_certs(RootCerts::Specific(Arc::new(certificates.collect())));
        config = config.tls_config(tls.build());
    }
    Ok(Agent::new_with_config(config.build()))
}

/// Returns a URL without its user information and query, which may be secret.
fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.rsplit_once('@') {
        Some((_, host)) => format!("...@{host}"),
        None => url.to_owned(),
    }
}

const BODY_BYTES_MAX: u64 = 1 << 20;
const HEADER_BYTES_MAX: usize = 64 << 10;
