//! Token endpoint of a lab: OAuth client credentials, tokens with real signatures.

use std::net::Ipv4Addr;
use std::path::Path;

use crate::disk;
use crate::error::Result;
use crate::java::JavaPrograms;
use crate::security::{SecurityFiles, TOKEN_AUDIENCE, properties_text};
use crate::server::{Server, ServerLaunch};
use crate::state::ServiceState;

/// A token endpoint to start.
#[derive(Debug)]
pub(crate) struct TokenEndpoint<'a> {
    pub(crate) name: &'static str,
    pub(crate) java: &'a JavaPrograms,
    pub(crate) files: &'a SecurityFiles,
    /// Directory for configuration and output.
    pub(crate) dir: &'a Path,
    pub(crate) host: Ipv4Addr,
    pub(crate) state: ServiceState,
    pub(crate) lifetime_s: u64,
}

impl TokenEndpoint<'_> {
    /// Returns the stopped server, or a handle of the running one.
    pub(crate) fn server(&self) -> Result<Server> {
        disk::prepare(self.dir, 0)?;
        let config = self.dir.join("tokens.properties");
        disk::write_private(&config, &properties_text(&self.properties()))?;
        let mut command = self.java.command("Tokens");
        command.push(config.display().to_string());
        let launch = ServerLaunch {
            name: self.name,
            command,
            logs: self.dir.to_owned(),
            host: self.host,
            probe: "/jwks",
            authorization: None,
            temporary_dir: None,
        };
        Ok(Server::new(launch, self.state))
    }

    fn properties(&self) -> Vec<(String, String)> {
        let files = self.files;
        let path = |path: std::path::PathBuf| path.display().to_string();
        [
            ("host", self.host.to_string()),
            ("port", self.state.port.to_string()),
            ("tls.port", self.state.tls_port.to_string()),
            ("key", path(files.token_key())),
            ("other.key", path(files.other_token_key())),
            ("jwks", path(files.key_set())),
            ("store", path(files.server().pkcs12())),
            ("store.password", files.store_password().to_owned()),
            ("client", files.user().to_owned()),
            ("secret", files.user_password().to_owned()),
            ("issuer", issuer(self.host, self.state)),
            ("audience", TOKEN_AUDIENCE.to_owned()),
            ("lifetime", self.lifetime_s.to_string()),
        ]
        .map(|(key, value)| (key.to_owned(), value))
        .to_vec()
    }
}

/// Returns the issuer of tokens, the base URL of the endpoint.
pub(crate) fn issuer(host: Ipv4Addr, state: ServiceState) -> String {
    format!("http://{host}:{}", state.port)
}

/// Returns the URL that issues tokens.
pub(crate) fn endpoint(host: Ipv4Addr, state: ServiceState) -> String {
    format!("{}/token", issuer(host, state))
}

/// Default lifetime of tokens.
pub(crate) const LIFETIME_S: u64 = 3600;
