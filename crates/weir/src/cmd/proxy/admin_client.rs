//! Client of the admin port of a running proxy.

use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::Value;
use ureq::Body;
use ureq::http::Response;
use ureq::http::request::Builder;

use crate::cmd::admin_http::{AdminHttp, checked_token, read_token};
use crate::exit::{Exit, Failure, OrExit as _};

/// Environment variable with the token.
const TOKEN_VARIABLE: &str = "WEIR_ADMIN_TOKEN";

#[derive(Debug, Args)]
pub(super) struct AdminClientArgs {
    /// Admin port of the proxy
    #[arg(
        long,
        value_name = "URL|ADDRESS:PORT",
        default_value = "http://127.0.0.1:9190"
    )]
    admin: String,
    /// File with the token, as `[admin]` has it [default: $WEIR_ADMIN_TOKEN, if set]
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Authorities of an admin port with TLS (PEM)
    #[arg(long, value_name = "FILE")]
    ca_file: Option<PathBuf>,
}

/// Client of one admin port.
pub(super) struct AdminClient {
    http: AdminHttp,
    token: Option<String>,
}

impl AdminClient {
    pub(super) fn new(args: &AdminClientArgs) -> Result<Self, Failure> {
        let token = match (&args.token_file, std::env::var(TOKEN_VARIABLE)) {
            (Some(path), _) => Some(read_token(path).or_exit(Exit::Usage)?),
            (None, Ok(token)) => Some(checked_token(&token).or_exit(Exit::Usage)?),
            (None, Err(_)) => None,
        };
        let http = AdminHttp::new(&args.admin, args.ca_file.as_ref())?;
        Ok(Self { http, token })
    }

    /// Returns the JSON of a page.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.json(self.http.request("GET", path))
    }

    /// Sends a command and returns the JSON of its response.
    pub(super) fn command(&self, path: &str, name: &str) -> Result<Value, Failure> {
        let request = self.http.request("POST", path);
        self.json(request.header("Weir-Command", name))
    }

    fn json(&self, request: Builder) -> Result<Value, Failure> {
        let request = match &self.token {
            Some(token) => request.header("Authorization", format!("Bearer {token}")),
            None => request,
        };
        let response = self.http.send(request, ())?;
        match response.status().as_u16() {
            200 => {
                let text = self.http.text(response)?;
                serde_json::from_str(&text)
                    .with_context(|| format!("{}: not the admin port of a proxy", self.http.base))
                    .or_exit(Exit::Unreachable)
            }
            status => Err(self.failure(status, response)),
        }
    }

    /// Returns the error of a response that is not 200.
    fn failure(&self, status: u16, response: Response<Body>) -> Failure {
        let base = &self.http.base;
        match (status, &self.token) {
            (401, Some(_)) => Failure::usage(format!("{base}: wrong token")),
            (401, None) => Failure::usage(format!(
                "{base}: a token is required: give --token-file FILE or set {TOKEN_VARIABLE}"
            )),
            (422, _) => match self.http.text(response) {
                Ok(text) => Failure::usage(format!("{base}: {}", text.trim())),
                Err(failure) => failure,
            },
            (404, _) => Failure::usage(format!("{base}: not the admin port of a proxy")),
            _ => match self.http.text(response) {
                Ok(text) => Failure::new(Exit::Unreachable, anyhow!("{base}: {}", text.trim())),
                Err(failure) => failure,
            },
        }
    }
}
