//! HTTP client for session administration of a running gateway.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, anyhow, bail, ensure};
use clap::Args;
use rustls::crypto::aws_lc_rs;
use serde_json::Value;
use ureq::http::{Request, Response};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, TlsProvider, parse_pem};
use ureq::{Agent, Body, Proxy};

use crate::exit::{Exit, Failure, OrExit as _};

/// Environment variable with the token.
const TOKEN_VARIABLE: &str = "WEIR_SESSIONS_TOKEN";
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer than the gateway waits for its event loops.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(15);
/// Maximum size of a response; a page of sessions has about 400 kB.
const RESPONSE_BYTES_MAX: u64 = 64 << 20;

#[derive(Debug, Args)]
pub(super) struct AdminClientArgs {
    /// Admin port of the gateway
    #[arg(
        long,
        value_name = "URL|ADDRESS:PORT",
        default_value = "http://127.0.0.1:8090"
    )]
    admin: String,
    /// File with the token, as `[admin.sessions]` has it [default: $WEIR_SESSIONS_TOKEN]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Authorities of an admin port with TLS (PEM)
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Client of one admin port.
pub(super) struct AdminClient {
    agent: Agent,
    base: String,
    token: String,
}

impl AdminClient {
    pub(super) fn new(args: &AdminClientArgs) -> Result<Self, Failure> {
        let base = match args.admin.contains("://") {
            true => args.admin.trim_end_matches('/').to_owned(),
            false => format!("http://{}", args.admin),
        };
        let mut config = Agent::config_builder()
            .timeout_connect(Some(CONNECT_TIMEOUT))
            .timeout_recv_response(Some(RESPONSE_TIMEOUT))
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(None::<Proxy>);
        if base.starts_with("https://") {
            config = config.tls_config(tls(args.ca_file.as_ref()).or_exit(Exit::Usage)?);
        }
        Ok(Self {
            agent: config.build().into(),
            base,
            token: token(args).or_exit(Exit::Usage)?,
        })
    }

    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call("GET", path, None)
    }

    /// Sends a call and returns the JSON of its response.
    pub(super) fn call(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let mut response = self.send(method, path, body)?;
        let read = response.body_mut().with_config().limit(RESPONSE_BYTES_MAX);
        let text = read.read_to_string().or_exit(Exit::Unreachable)?;
        serde_json::from_str(&text)
            .with_context(|| format!("{}: the response is not JSON", self.base))
            .or_exit(Exit::Unreachable)
    }

    /// Passes the lines of a stream to `each` until it returns `false` or the stream ends.
    pub(super) fn lines(
        &self,
        path: &str,
        mut each: impl FnMut(&str) -> bool,
    ) -> Result<(), Failure> {
        let response = self.send("GET", path, None)?;
        for line in BufReader::new(response.into_body().into_reader()).lines() {
            if !each(&line.or_exit(Exit::Unreachable)?) {
                break;
            }
        }
        Ok(())
    }

    fn send(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Response<Body>, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(format!("{}/admin/v1/{path}", self.base))
            .header("Authorization", format!("Bearer {}", self.token));
        let sent = match body {
            Some(body) => request
                .body(body.to_string())
                .map(|one| self.agent.run(one)),
            None => request.body(()).map(|one| self.agent.run(one)),
        };
        let sent = sent.with_context(|| format!("--admin {}", self.base));
        let sent = sent.or_exit(Exit::Usage)?;
        let mut response = sent
            .with_context(|| format!("no response from {}", self.base))
            .or_exit(Exit::Unreachable)?;
        match response.status().as_u16() {
            200 => Ok(response),
            status => Err(self.failure(status, &mut response)),
        }
    }

    /// Returns the error of a response that is not 200.
    fn failure(&self, status: u16, response: &mut Response<Body>) -> Failure {
        let mut text = String::new();
        let body = response.body_mut().as_reader().take(4_096);
        let _ = BufReader::new(body).read_to_string(&mut text);
        let parsed = serde_json::from_str::<Value>(&text).ok();
        let reason = parsed.and_then(|json| json["error"].as_str().map(str::to_owned));
        let base = &self.base;
        match (status, reason) {
            (401, _) => Failure::usage(format!(
                "{base}: wrong token: use that of [admin.sessions], not admin.token"
            )),
            (404, None) => Failure::usage(format!(
                "{base}: no session administration there: configure [admin.sessions]"
            )),
            (404, Some(reason)) => Failure::new(Exit::Threshold, anyhow!("{reason}")),
            (400 | 405, Some(reason)) => Failure::usage(reason),
            (_, reason) => {
                let reason = reason.unwrap_or_else(|| text.trim().to_owned());
                Failure::new(
                    Exit::Unreachable,
                    anyhow!("{base}: status {status}: {reason}"),
                )
            }
        }
    }
}

/// Returns the token of a file or of the environment.
fn token(args: &AdminClientArgs) -> anyhow::Result<String> {
    let token = match &args.token_file {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("--token-file \"{}\"", path.display()))?,
        None => std::env::var(TOKEN_VARIABLE)
            .map_err(|_| anyhow!("no token: give --token-file FILE or set {TOKEN_VARIABLE}"))?,
    };
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
