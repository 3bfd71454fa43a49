//! Options of a coordinator, and the start of its agents.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{AgentError, Result, TOKEN_VARIABLE};
use weir_load::child_environment::without_weir_variables;

/// Options of a coordinator.
#[derive(Debug, Clone)]
pub struct CoordinatorOptions {
    /// Listen address for agents; loopback unless they run on other machines.
    pub listen: SocketAddr,
    /// Number of agents.
    pub agents: usize,
    /// Secret that agents must send.
    pub token: String,
    /// Way to start the agents.
    pub engine: Engine,
    /// Maximum wait for all agents to join.
    pub join_timeout: Duration,
}

/// Way to start the agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// As child processes of this process.
    Local {
        /// Program with the command `agent`.
        exe: PathBuf,
    },
    /// By the user, on any machine that can connect to the coordinator.
    Manual,
}

/// Agents that are child processes; killed on drop.
#[derive(Debug, Default)]
pub(super) struct Children(Vec<Child>);

impl Children {
    /// Starts the agents. Each has its own process group, so that Ctrl-C reaches only the
    /// coordinator. They end when their connection closes.
    pub(super) fn start(options: &CoordinatorOptions, coordinator: SocketAddr) -> Result<Self> {
        let mut children = Self::default();
        let Engine::Local { exe } = &options.engine else {
            return Ok(children);
        };
        for _ in 0..options.agents {
            let mut command = Command::new(exe);
            let child = without_weir_variables(&mut command)
                .args(["agent", "--coordinator", &coordinator.to_string()])
                .env(TOKEN_VARIABLE, &options.token)
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .process_group(0)
                .spawn()
                .map_err(AgentError::Start)?;
            children.0.push(child);
        }
        Ok(children)
    }

    /// Returns a child process that has ended, if there is one.
    pub(super) fn ended(&mut self) -> Option<(u32, ExitStatus)> {
        self.0.iter_mut().find_map(|child| {
            let status = child.try_wait().ok().flatten()?;
            Some((child.id(), status))
        })
    }

    /// Returns the exit status of the child `pid`. Waits for it up to [`STATUS_TIMEOUT`].
    pub(super) fn status(&mut self, pid: u32) -> Option<ExitStatus> {
        let child = self.0.iter_mut().find(|child| child.id() == pid)?;
        poll_until(STATUS_TIMEOUT, || child.try_wait().ok().flatten())
    }

    /// Waits for all to exit after their final report.
    pub(super) fn wait(&mut self) {
        let has_ended = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)) | Err(_));
        poll_until(EXIT_TIMEOUT, || {
            self.0.iter_mut().all(has_ended).then_some(())
        });
    }
}

/// Calls `poll` until it returns a result or the timeout has passed.
fn poll_until<T>(timeout: Duration, mut poll: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + timeout;
    loop {
        match poll() {
            None if Instant::now() < deadline => std::thread::sleep(EXIT_POLL_INTERVAL),
            result => return result,
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if let Ok(None) = child.try_wait() {
                // Both fail only if the process has ended.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Maximum time between the end of a connection and that of its process.
const STATUS_TIMEOUT: Duration = Duration::from_secs(1);
const EXIT_TIMEOUT: Duration = Duration::from_secs(5);
