//! HTTP client for the admin port of a running server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use rustls::crypto::aws_lc_rs;
use ureq::http::request::Builder;
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, AsSendBody, Body, Proxy};

use crate::exit::{Exit, Failure, OrExit as _};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than servers wait for their event loops.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

/// Client of one admin port.
pub(super) struct AdminHttp {
    agent: Agent,
    /// URL of the admin port, without a slash at its end.
    pub(super) base: String,
}

impl AdminHttp {
    /// Creates the client of a URL or address. `ca_file` has the authorities for https.
    pub(super) fn new(admin: &str, ca_file: Option<&PathBuf>) -> Result<Self, Failure> {
        let base = match admin.contains("://") {
            true => admin.trim_end_matches('/').to_owned(),
            false => format!("http://{admin}"),
        };
        let mut config = Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(RESPONSE_TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None::<Proxy>);
        if base.starts_with("https://") {
            config = config.tls_config(tls(ca_file).or_exit(Exit::Usage)?);
        }
        let agent = config.build().into();
        Ok(Self { agent, base })
    }

    /// Returns a request without headers.
    pub(super) fn request(&self, method: &str, path: &str) -> Builder {
        let uri = format!("{}/{path}", self.base);
        Request::builder().method(method).uri(uri)
    }

    /// Sends a request and returns its response, of any status.
    pub(super) fn send(
        &self,
        request: Builder,
        body: impl AsSendBody,
    ) -> Result<Response<Body>, Failure> {
        let request = request.body(body);
        let request = request.with_context(|| format!("--admin {}", self.base));
        let sent = self.agent.run(request.or_exit(Exit::Usage)?);
        let sent = sent.with_context(|| format!("no response from {}", self.base));
        sent.or_exit(Exit::Unreachable)
    }

    /// Reads the text of a response.
    pub(super) fn text(&self, mut response: Response<Body>) -> Result<String, Failure> {
        let read = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX);
        let text = read.read_to_string();
        let text = text.with_context(|| format!("no response from {}", self.base));
        text.or_exit(Exit::Unreachable)
    }
}

/// Returns the token in a file.
pub(super) fn read_token(path: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("--token-file \"{}\"", path.display()))?;
    checked_token(&text)
}

/// Returns a token without surrounding white space.
pub(super) fn checked_token(token: &str) -> anyhow::Result<String> {
    let token = token.trim();
    let is_printable = token.bytes().all(|byte| byte.is_ascii_graphic());
    ensure!(
        !token.is_empty() && is_printable,
        "the token must be printable ASCII text"
    );
    Ok(token.to_owned())
}

fn tls(ca_file: Option<&PathBuf>) -> anyhow::Result<TlsConfig> {
    let Some(path) = ca_file else {
        bail!("--ca-file FILE is required for https");
    };
    let pem = std::fs::read(path).with_context(|| format!("--ca-file \"{}\"", path.display()))?;
    let mut certificates: Vec<Certificate<'static>> = Vec::new();
    for item in parse_pem(&pem) {
        if let PemItem::Certificate(certificate) = item? {
            certificates.push(certificate);
        }
    }
    ensure!(
        !certificates.is_empty(),
        "--ca-file \"{}\": no certificate",
        path.display()
    );
    let provider = Arc::new(aws_lc_rs::default_provider());
    Ok(TlsConfig::builder()
        .provider(TlsProvider::Rustls)
        .unversioned_rustls_crypto_provider(provider)
        .root_certs(RootCerts::Specific(Arc::new(certificates)))
        .build())
}
