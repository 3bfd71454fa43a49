//! A running registry.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::REGISTRY_VERSION;
use super::options::{RegistryOptions, RegistrySecurity};
use crate::disk;
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::java::JavaPrograms;
use crate::maven::{self, MavenArchive};
use crate::operation::Operation;
use crate::ports;
use crate::security::SecurityFiles;
use crate::server::{Server, ServerLaunch};
use crate::state::{RegistryState, ServiceState};
use crate::tokens::{self, TokenEndpoint};

/// A schema registry. Unless it belongs to a detached lab, it is stopped with this value.
#[derive(Debug)]
pub struct Registry {
    pub(super) server: Server,
    /// Checks passwords for the registry.
    tokens: Option<Server>,
    files: Option<SecurityFiles>,
    security: RegistrySecurity,
    host: Ipv4Addr,
    ready_timeout: Duration,
    temporary_dir: Option<PathBuf>,
    is_released: bool,
}

/// A registry to start or to attach to.
#[derive(Debug)]
pub(crate) struct RegistryLaunch<'a> {
    pub(crate) java: &'a Path,
    /// Directory for schemas and logs.
    pub(crate) dir: &'a Path,
    /// Needed for TLS and passwords.
    pub(crate) files: Option<&'a SecurityFiles>,
    pub(crate) host: Ipv4Addr,
    pub(crate) heap_mb: u32,
    pub(crate) state: RegistryState,
    /// `true` if the directory is removed with the registry.
    pub(crate) dir_is_temporary: bool,
    /// Bootstrap servers of the cluster that stores the schemas; `None`: the directory does.
    pub(crate) kafka: Option<&'a str>,
    pub(crate) ready_timeout: Duration,
}

impl Registry {
    /// Starts a registry and waits until it is ready.
    pub fn start(
        options: &RegistryOptions,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self> {
        let mut operation = Operation { progress, stop };
        let temporary = match options.dir {
            Some(_) => None,
            None => {
                let dir = tempfile::Builder::new().prefix("weir-registry-").tempdir();
                Some(dir.map_err(|error| LabError::Directory(std::env::temp_dir(), error))?)
            }
        };
        let path = options.dir.as_deref();
        let dir = path.or_else(|| temporary.as_ref().map(tempfile::TempDir::path));
        let dir = dir.unwrap_or_else(|| Path::new(".")).to_owned();
        disk::prepare(&dir, 0)?;
        let java = host_tools::java("to run the schema registry")?;
        let security = options.security;
        let files = match security.needs_files() {
            true => {
                let java = JavaPrograms::find(&java, &mut operation)?;
                let files = dir.join("security");
                let with_tokens = security.basic_auth;
                Some(SecurityFiles::create(
                    &files,
                    options.host,
                    with_tokens,
                    &java,
                    &operation,
                )?)
            }
            false => None,
        };
        let launch = RegistryLaunch {
            java: &java,
            dir: &dir,
            files: files.as_ref(),
            host: options.host,
            heap_mb: options.heap_mb,
            state: RegistryState::with_free_ports(security, options.host)?,
            dir_is_temporary: temporary.is_some(),
            kafka: options.kafka.as_deref(),
            ready_timeout: options.ready_timeout,
        };
        let mut registry = launch.find(&mut operation)?;
        // From now on, the registry removes it.
        temporary.map(tempfile::TempDir::keep);
        registry.start_servers(&mut operation)?;
        registry.wait_ready(&operation)?;
        Ok(registry)
    }

    /// Returns the URL of the Confluent-compatible API, without a slash at its end.
    pub fn url(&self) -> String {
        url(self.host, &self.state())
    }

    /// Returns user and password, if the registry requires them.
    pub fn login(&self) -> Option<(&str, &str)> {
        let files = self.files.as_ref().filter(|_| self.security.basic_auth)?;
        Some((files.user(), files.user_password()))
    }

    /// Returns `true` if the registry is reached over HTTPS.
    pub fn uses_tls(&self) -> bool {
        self.security.tls
    }

    /// Returns certificates and stores, if the registry uses TLS or logins.
    pub fn files(&self) -> Option<&SecurityFiles> {
        self.files.as_ref()
    }

    /// Stops the registry. Schemas are preserved.
    pub fn stop(&mut self) -> Result<()> {
        self.stop_servers(STOP_TIMEOUT)
    }

    /// Starts a stopped registry again, with the same URL and schemas.
    pub fn start_again(&mut self, stop: &AtomicBool) -> Result<()> {
        let progress = &mut |_: &str| ();
        let mut operation = Operation { progress, stop };
        self.start_servers(&mut operation)?;
        self.wait_ready(&operation)
    }

    pub(crate) fn state(&self) -> RegistryState {
        RegistryState {
            security: self.security,
            server: self.server.state(),
            tokens: self.tokens.as_ref().map(Server::state),
        }
    }

    pub(crate) fn start_servers(&mut self, operation: &mut Operation<'_>) -> Result<()> {
        (operation.progress)(&format!("starting Apicurio Registry {REGISTRY_VERSION}"));
        for server in self.servers() {
            server.start()?;
        }
        Ok(())
    }

    pub(crate) fn wait_ready(&mut self, operation: &Operation<'_>) -> Result<()> {
        let timeout = self.ready_timeout;
        // The registry responds to a login only after its token endpoint.
        let mut servers = self.servers();
        servers.try_for_each(|server| server.wait_ready(timeout, operation))
    }

    pub(crate) fn stop_servers(&mut self, timeout: Duration) -> Result<()> {
        self.servers().try_for_each(|server| server.stop(timeout))
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.servers().any(Server::has_ended)
    }

    /// Ends the watchdogs, so that the registry outlives this process.
    pub(crate) fn release(&mut self) {
        self.is_released = true;
        self.servers().for_each(Server::release);
    }

    fn servers(&mut self) -> impl Iterator<Item = &mut Server> {
        self.tokens.iter_mut().chain([&mut self.server])
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        if self.is_released {
            return;
        }
        if let Err(error) = self.stop_servers(STOP_TIMEOUT) {
            tracing::error!(%error, "registry not stopped");
        }
        if let Some(dir) = &self.temporary_dir {
            if let Err(error) = disk::remove(dir) {
                tracing::error!(%error, "registry's directory not removed");
            }
        }
    }
}

impl RegistryState {
    /// Returns the state of a registry that is not started yet.
    pub(crate) fn new(security: RegistrySecurity, ports: &mut dyn Iterator<Item = u16>) -> Self {
        Self {
            security,
            server: ServiceState::new(ports),
            tokens: security.basic_auth.then(|| ServiceState::new(ports)),
        }
    }

    fn with_free_ports(security: RegistrySecurity, host: Ipv4Addr) -> Result<Self> {
        let ports = ports::free_ports(host, PORTS_MAX);
        let ports = ports.map_err(|error| LabError::io("find free ports", error))?;
        Ok(Self::new(security, &mut ports.into_iter()))
    }
}

impl RegistryLaunch<'_> {
    /// Returns the stopped registry, or a handle of the running one.
    pub(crate) fn find(&self, operation: &mut Operation<'_>) -> Result<Registry> {
        let archive = MavenArchive {
            group: "io.apicurio",
            artifact: "apicurio-registry-app",
            version: REGISTRY_VERSION,
            kind: "tar.gz",
            classifier: "all",
            what: "Apicurio Registry",
            size: "110 MB",
        };
        let programs = maven::unpacked(&archive, operation)?;
        let tokens = match (self.state.tokens, self.files) {
            (Some(state), Some(files)) => {
                let endpoint = TokenEndpoint {
                    name: "login service of the registry",
                    java: &JavaPrograms::find(self.java, operation)?,
                    files,
                    dir: &self.dir.join("logins"),
                    host: self.host,
                    state,
                    lifetime_s: tokens::LIFETIME_S,
                };
                Some(endpoint.server()?)
            }
            _ => None,
        };
        disk::prepare(self.dir, 0)?;
        Ok(Registry {
            server: Server::new(self.server_launch(&programs), self.state.server),
            tokens,
            files: self.files.cloned(),
            security: self.state.security,
            host: self.host,
            ready_timeout: self.ready_timeout,
            temporary_dir: self.dir_is_temporary.then(|| self.dir.to_owned()),
            is_released: false,
        })
    }

    fn server_launch(&self, programs: &Path) -> ServerLaunch {
        let jar = format!("apicurio-registry-app-{REGISTRY_VERSION}-runner.jar");
        let mut command = vec![
            self.java.display().to_string(),
            format!("-Xmx{}m", self.heap_mb),
        ];
        command.extend(JVM.map(str::to_owned));
        command.push(format!("-Djava.io.tmpdir={}", self.dir.display()));
        let properties = self.properties().into_iter();
        command.extend(properties.map(|(key, value)| format!("-D{key}={value}")));
        command.extend(["-jar".to_owned(), programs.join(jar).display().to_string()]);
        let login = self.files.filter(|_| self.state.security.basic_auth);
        let authorization = login.map(|files| {
            let pair = format!("{}:{}", files.user(), files.user_password());
            format!("Basic {}", BASE64_STANDARD.encode(pair))
        });
        ServerLaunch {
            name: "schema registry",
            command,
            logs: self.dir.to_owned(),
            host: self.host,
            probe: "/apis/ccompat/v7/subjects",
            authorization,
            temporary_dir: self.dir_is_temporary.then(|| self.dir.to_owned()),
        }
    }

    /// Returns the configuration of the registry. It contains no secrets.
    fn properties(&self) -> Vec<(&'static str, String)> {
        let server = self.state.server;
        let mut properties = vec![
            ("quarkus.http.host", self.host.to_string()),
            ("quarkus.http.port", server.port.to_string()),
        ];
        match self.kafka {
            Some(servers) => properties.extend([
                ("apicurio.storage.kind", "kafkasql".to_owned()),
                ("apicurio.kafkasql.bootstrap.servers", servers.to_owned()),
            ]),
            // In a file, so that schemas survive a restart.
            None => {
                let database = self.dir.join("schemas");
                let url = format!("jdbc:h2:file:{}", database.display());
                properties.push(("apicurio.datasource.url", url));
            }
        }
        if let Some(files) = self.files.filter(|_| self.state.security.tls) {
            let (certificate, key) = (files.server().certificate(), files.server().key());
            properties.extend([
                ("quarkus.http.ssl-port", server.tls_port.to_string()),
                ("quarkus.http.insecure-requests", "enabled".to_owned()),
                (
                    "quarkus.http.ssl.certificate.files",
                    certificate.display().to_string(),
                ),
                (
                    "quarkus.http.ssl.certificate.key-files",
                    key.display().to_string(),
                ),
            ]);
        }
        if let Some(state) = self.state.tokens {
            properties.extend([
                ("quarkus.oidc.tenant-enabled", "true".to_owned()),
                (
                    "quarkus.oidc.auth-server-url",
                    tokens::issuer(self.host, state),
                ),
                (
                    "quarkus.oidc.token-path",
                    tokens::endpoint(self.host, state),
                ),
                ("quarkus.oidc.client-id", "registry".to_owned()),
                (
                    "apicurio.authn.basic-client-credentials.enabled",
                    "true".to_owned(),
                ),
            ]);
        }
        properties
    }
}

/// Returns the URL of a registry.
pub(crate) fn url(host: Ipv4Addr, state: &RegistryState) -> String {
    match state.security.tls {
        true => format!("https://{host}:{}{API}", state.server.tls_port),
        false => format!("http://{host}:{}{API}", state.server.port),
    }
}

const API: &str = "/apis/ccompat/v7";
/// Ports of the registry and of its token endpoint, with and without TLS.
pub(crate) const PORTS_MAX: usize = 4;
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const JVM: [&str; 4] = [
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-XX:-UsePerfData",
    "-Dquarkus.banner.enabled=false",
];
