//! Servers next to the brokers: a process each, with HTTP and HTTPS ports.

use std::fmt;
use std::io;
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use crate::diagnose;
use crate::error::{LabError, Result};
use crate::guarded::{self, GuardedCommand, GuardedProcess};
use crate::http::{self, HttpRequest, HttpResponse};
use crate::operation::Operation;
use crate::process::POLL_INTERVAL;
use crate::state::ServiceState;

/// How a server is started and checked.
#[derive(Clone)]
pub(crate) struct ServerLaunch {
    pub(crate) name: &'static str,
    /// Program and arguments.
    pub(crate) command: Vec<String>,
    pub(crate) logs: PathBuf,
    pub(crate) host: Ipv4Addr,
    /// Path that responds with status 200 once the server is ready.
    pub(crate) probe: &'static str,
    /// Value of the header `Authorization` for that path.
    pub(crate) authorization: Option<String>,
    /// Directory that the watchdog removes after it has ended the server.
    pub(crate) temporary_dir: Option<PathBuf>,
}

/// A server and its process, if it is running.
pub(crate) struct Server {
    launch: ServerLaunch,
    state: ServiceState,
    process: Option<GuardedProcess>,
}

impl Server {
    /// Creates a stopped server, or a handle of one that another process started.
    pub(crate) fn new(launch: ServerLaunch, state: ServiceState) -> Self {
        Self {
            launch,
            state,
            process: state.process.map(GuardedProcess::found),
        }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.launch.name
    }

    /// Returns ports and process for the state file.
    pub(crate) fn state(&self) -> ServiceState {
        ServiceState {
            process: self.process.as_ref().map(|process| process.identity),
            ..self.state
        }
    }

    /// Starts the process, unless it is running.
    pub(crate) fn start(&mut self) -> Result<()> {
        if self.process.is_some() {
            return Ok(());
        }
        let launch = &self.launch;
        let guarded = GuardedCommand {
            command: &launch.command,
            working_dir: &launch.logs,
            logs: &launch.logs,
            temporary_dir: launch.temporary_dir.as_deref(),
        };
        self.process = Some(guarded::spawn(launch.name, &guarded)?);
        Ok(())
    }

    /// Waits until the server responds.
    pub(crate) fn wait_ready(&mut self, timeout: Duration, op: &Operation<'_>) -> Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let exited = self.process.as_mut().and_then(GuardedProcess::exit_status);
            let (name, log) = (
                self.launch.name,
                self.launch.logs.join(diagnose::CONSOLE_LOG),
            );
            if let Some(status) = exited {
                let detail = diagnose::console_lines(&self.launch.logs);
                return Err(LabError::ServerExited {
                    name,
                    status,
                    detail,
                    log,
                });
            }
            let detail = match self.probe() {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            };
            op.proceed("waiting for the servers next to the brokers")?;
            if Instant::now() >= deadline {
                let seconds = timeout.as_secs();
                return Err(LabError::ServerNotReady {
                    name,
                    seconds,
                    detail,
                    log,
                });
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn probe(&self) -> io::Result<()> {
        match self.request("GET", self.launch.probe, "")?.status {
            200 => Ok(()),
            status => Err(io::Error::other(format!("HTTP status {status}"))),
        }
    }

    /// Sends a request to the unencrypted port.
    pub(crate) fn request(
        &self,
        method: &'static str,
        path: &str,
        body: &str,
    ) -> io::Result<HttpResponse> {
        let mut headers = vec![("Content-Type", "application/json")];
        if let Some(authorization) = &self.launch.authorization {
            headers.push(("Authorization", authorization));
        }
        let request = HttpRequest {
            method,
            path,
            headers: &headers,
            body,
        };
        http::send(self.launch.host, self.state.port, request, REQUEST_TIMEOUT)
    }

    /// Stops the process: SIGTERM, and SIGKILL after `timeout`.
    pub(crate) fn stop(&mut self, timeout: Duration) -> Result<()> {
        if let Some(process) = &mut self.process {
            process.stop(self.launch.name, timeout)?;
        }
        self.process = None;
        Ok(())
    }

    /// Ends the watchdog, so that the server outlives this process.
    pub(crate) fn release(&mut self) {
        if let Some(process) = &mut self.process {
            process.release();
        }
    }

    /// Returns `true` if the server was started and has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        let process = self.process.as_mut();
        process.is_some_and(|process| process.exit_status().is_some())
    }
}

impl fmt::Debug for ServerLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not all of it: the header is a credential.
        let mut debug = f.debug_struct("ServerLaunch");
        debug.field("name", &self.name).finish_non_exhaustive()
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Server");
        debug.field("launch", &self.launch);
        debug.field("state", &self.state()).finish_non_exhaustive()
    }
}

const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
