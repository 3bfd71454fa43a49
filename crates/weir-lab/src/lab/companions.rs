//! Everything of a lab next to its brokers: certificates and secrets, token endpoint, registry.

use std::time::Duration;

use super::options::LabOptions;
use crate::broker::Launch;
use crate::error::Result;
use crate::java::JavaPrograms;
use crate::operation::Operation;
use crate::registry::{REGISTRY_HEAP_MB, Registry, RegistryLaunch};
use crate::security::SecurityFiles;
use crate::server::Server;
use crate::state::{self, LabState, RegistryState, ServiceState};
use crate::tokens::TokenEndpoint;

#[derive(Debug, Default)]
pub(super) struct Companions {
    files: Option<SecurityFiles>,
    tokens: Option<Server>,
    pub(super) registry: Option<Registry>,
}

impl Companions {
    /// Creates certificates and secrets of a new lab.
    pub(super) fn create(
        launch: &Launch,
        state: &LabState,
        options: &LabOptions,
        operation: &mut Operation<'_>,
    ) -> Result<Self> {
        if !options.needs_files() {
            return Ok(Self::default());
        }
        (operation.progress)("creating certificates and passwords");
        let java = JavaPrograms::find(&launch.java, operation)?;
        let dir = state::security_dir(&launch.dir);
        let with_tokens = options.needs_tokens();
        let files = SecurityFiles::create(&dir, state.host, with_tokens, &java, operation)?;
        Ok(Self {
            files: Some(files),
            ..Self::default()
        })
    }

    /// Opens certificates and secrets of an existing lab.
    pub(super) fn open(launch: &Launch, options: &LabOptions) -> Result<Self> {
        let dir = state::security_dir(&launch.dir);
        let files = match options.needs_files() {
            true => Some(SecurityFiles::open(&dir)?),
            false => None,
        };
        Ok(Self {
            files,
            ..Self::default()
        })
    }

    /// Finds the servers of `state`, running or not.
    pub(super) fn find_servers(
        &mut self,
        launch: &Launch,
        state: &LabState,
        ready_timeout: Duration,
        operation: &mut Operation<'_>,
    ) -> Result<()> {
        if let (Some(tokens), Some(files)) = (state.tokens, &self.files) {
            let endpoint = TokenEndpoint {
                name: "token endpoint",
                java: &JavaPrograms::find(&launch.java, operation)?,
                files,
                dir: &state::tokens_dir(&launch.dir),
                host: state.host,
                state: tokens,
                lifetime_s: state.token_lifetime_s,
            };
            self.tokens = Some(endpoint.server()?);
        }
        if let Some(registry) = state.registry {
            let launch = RegistryLaunch {
                java: &launch.java,
                dir: &state::registry_dir(&launch.dir),
                files: self.files.as_ref(),
                host: state.host,
                heap_mb: REGISTRY_HEAP_MB,
                state: registry,
                dir_is_temporary: false,
                kafka: None,
                ready_timeout,
            };
            self.registry = Some(launch.find(operation)?);
        }
        Ok(())
    }

    pub(super) fn files(&self) -> Option<&SecurityFiles> {
        self.files.as_ref()
    }

    pub(super) fn tokens(&self) -> Option<&Server> {
        self.tokens.as_ref()
    }

    /// Starts the servers without waiting for them.
    pub(super) fn start_servers(&mut self, operation: &mut Operation<'_>) -> Result<()> {
        if let Some(tokens) = &mut self.tokens {
            tokens.start()?;
        }
        match &mut self.registry {
            Some(registry) => registry.start_servers(operation),
            None => Ok(()),
        }
    }

    pub(super) fn wait_ready(&mut self, timeout: Duration, op: &Operation<'_>) -> Result<()> {
        if let Some(tokens) = &mut self.tokens {
            tokens.wait_ready(timeout, op)?;
        }
        match &mut self.registry {
            Some(registry) => registry.wait_ready(op),
            None => Ok(()),
        }
    }

    pub(super) fn stop(&mut self, timeout: Duration) -> Result<()> {
        if let Some(registry) = &mut self.registry {
            registry.stop_servers(timeout)?;
        }
        match &mut self.tokens {
            Some(tokens) => tokens.stop(timeout),
            None => Ok(()),
        }
    }

    /// Ends the watchdogs, so that the servers outlive this process.
    pub(super) fn release(&mut self) {
        if let Some(tokens) = &mut self.tokens {
            tokens.release();
        }
        if let Some(registry) = &mut self.registry {
            registry.release();
        }
    }

    /// Returns `true` if a server was started and has ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.tokens.as_mut().is_some_and(Server::has_ended)
            || self.registry.as_mut().is_some_and(Registry::has_ended)
    }

    /// Returns the servers for the state file.
    pub(super) fn states(&self) -> (Option<ServiceState>, Option<RegistryState>) {
        let tokens = self.tokens.as_ref().map(Server::state);
        (tokens, self.registry.as_ref().map(Registry::state))
    }
}
