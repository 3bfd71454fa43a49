//! HTTP client for session administration of a running gateway.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::Value;
use ureq::Body;
use ureq::http::Response;

use crate::cmd::admin_http::{AdminHttp, checked_token, read_token};
use crate::exit::{Exit, Failure, OrExit as _};

/// Environment variable with the token.
const TOKEN_VARIABLE: &str = "WEIR_SESSIONS_TOKEN";

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
    http: AdminHttp,
    token: String,
}

impl AdminClient {
    pub(super) fn new(args: &AdminClientArgs) -> Result<Self, Failure> {
        Ok(Self {
            http: AdminHttp::new(&args.admin, args.ca_file.as_ref())?,
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
        let text = self.http.text(self.send(method, path, body)?)?;
        serde_json::from_str(&text)
            .with_context(|| format!("{}: the response is not JSON", self.http.base))
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
        let request = self.http.request(method, &format!("admin/v1/{path}"));
        let request = request.header("Authorization", format!("Bearer {}", self.token));
        let mut response = match body {
            Some(body) => self.http.send(request, body.to_string())?,
            None => self.http.send(request, ())?,
        };
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
        let base = &self.http.base;
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
    match &args.token_file {
        Some(path) => read_token(path),
        None => {
            let token = std::env::var(TOKEN_VARIABLE)
                .map_err(|_| anyhow!("no token: give --token-file FILE or set {TOKEN_VARIABLE}"))?;
            checked_token(&token)
        }
    }
}
