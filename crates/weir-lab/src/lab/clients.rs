//! Settings of clients, tokens, and rotation of certificates.

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use serde::Deserialize;

use super::cluster::Lab;
use crate::disk;
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::operation::Operation;
use crate::registry::Registry;
use crate::security::{
    self, ClientAddresses, ClientSettings, LabSecurity, SecurityFiles, properties_text,
};
use crate::state::{self, SecuredPorts};
use crate::tokens;

/// Properties of a token to request from the token endpoint of a lab.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TokenRequest {
    /// Lifetime in seconds, negative for an expired token; `None`: that of the lab.
    pub lifetime_s: Option<i64>,
    /// `true` for a token for another service.
    pub other_audience: bool,
    /// `true` for a signature by a key that the brokers do not trust.
    pub other_key: bool,
}

#[derive(Deserialize)]
struct TokenResponse {
    access_token: String,
}

impl Lab {
    /// Returns how clients connect.
    pub fn security(&self) -> LabSecurity {
        self.state.security
    }

    /// Returns certificates, stores and passwords of a lab that has some.
    pub fn security_files(&self) -> Option<&SecurityFiles> {
        self.companions.files()
    }

    /// Returns Kafka's properties for a client that connects successfully.
    pub fn client_properties(&self) -> Vec<(String, String)> {
        self.settings(ClientSettings::default()).unwrap_or_default()
    }

    /// Returns Kafka's properties for a client.
    ///
    /// Returns `None` if the mode has no such settings, or if they need
    /// [`LabOptions::test_listeners`](super::LabOptions::test_listeners).
    pub fn settings(&self, settings: ClientSettings) -> Option<Vec<(String, String)>> {
        let nodes = || self.state.nodes.iter();
        let of = |port: fn(SecuredPorts) -> Option<u16>| {
            let ports = nodes().map(|node| node.secured.and_then(port));
            self.state.addresses(ports)
        };
        let addresses = ClientAddresses {
            bootstrap: self.bootstrap(),
            expired: of(|ports| ports.expired),
            other_host: of(|ports| ports.other_host),
            unencrypted: of(|ports| ports.unencrypted),
            token_endpoint: self.token_endpoint(),
        };
        security::client_properties(self.security(), &addresses, self.security_files(), settings)
    }

    /// Returns the file with [`Self::client_properties`], which only this user can read.
    pub fn client_config(&self) -> PathBuf {
        state::client_config(&self.launch.dir)
    }

    pub(super) fn write_client_config(&self) -> Result<()> {
        let text = properties_text(&self.client_properties());
        disk::write_private(&self.client_config(), &text)
    }

    /// Returns the registry, if the lab has one.
    pub fn registry(&self) -> Option<&Registry> {
        self.companions.registry.as_ref()
    }

    /// Returns the URL of the token endpoint, if the lab has one.
    pub fn token_endpoint(&self) -> Option<String> {
        Some(tokens::endpoint(self.state.host, self.state.tokens?))
    }

    /// Returns the URL of the token endpoint with TLS, if the lab has one.
    pub fn token_endpoint_tls(&self) -> Option<String> {
        let port = self.state.tokens?.tls_port;
        Some(format!("https://{}:{port}/token", self.state.host))
    }

    /// Requests a token. Fails if the lab has no token endpoint.
    pub fn token(&self, request: TokenRequest) -> Result<String> {
        let (Some(server), Some(files)) = (self.companions.tokens(), self.security_files()) else {
            let reason = "has no token endpoint; use oauth";
            return Err(LabError::option("security", &self.security(), reason));
        };
        let mut path = "/token?".to_owned();
        if let Some(lifetime_s) = request.lifetime_s {
            path += &format!("lifetime={lifetime_s}&");
        }
        if request.other_audience {
            path += "audience=other&";
        }
        if request.other_key {
            path += "key=other&";
        }
        // User and password consist of letters and digits.
        let (user, password) = (files.user(), files.user_password());
        let body = format!(
            "grant_type=client_credentials&client_id={user}&client_secret={password}&scope=kafka"
        );
        let failed = |error| LabError::io("request a token", error);
        let response = server.request("POST", &path, &body).map_err(failed)?;
        if response.status != 200 {
            return Err(LabError::Rejected(
                server.name(),
                response.status,
                response.body,
            ));
        }
        let parsed: TokenResponse = serde_json::from_str(&response.body)
            .map_err(|error| LabError::io("request a token", error.into()))?;
        Ok(parsed.access_token)
    }

    /// Replaces the certificate of all brokers by a new one, which they use for new connections.
    pub fn rotate_certificate(&self, stop: &AtomicBool) -> Result<()> {
        let Some(files) = self.security_files().filter(|_| self.security().uses_tls()) else {
            let reason = "has no certificate to replace";
            return Err(LabError::option("security", &self.security(), reason));
        };
        files.renew_server(self.state.host)?;
        let progress = &mut |_: &str| ();
        let operation = Operation { progress, stop };
        for node in &self.state.nodes {
            let (host, port) = node.probe_address(self.state.host);
            let mut command = Command::new(&self.launch.java);
            command.args([
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
            ]);
            command.arg(format!("{}/*", self.launch.libs.display()));
            command.args(["kafka.admin.ConfigCommand", "--bootstrap-server"]);
            command.arg(format!("{host}:{port}"));
            command.args(security::reload_arguments(files, node.node_id));
            let doing = "replacing the certificates of the brokers";
            let (status, output) = host_tools::run(&mut command, doing, &operation)?;
            if !status.success() {
                let line = output.lines().find(|line| line.contains("Exception"));
                let line = line
                    .or_else(|| output.lines().next())
                    .unwrap_or("no output");
                return Err(LabError::io(doing, std::io::Error::other(line.to_owned())));
            }
        }
        Ok(())
    }
}
