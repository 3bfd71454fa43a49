//! Starts the agents of a run.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{AgentError, TOKEN_VARIABLE};

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
    /// Starts `count` agents. Each has its own process group, so that Ctrl-C reaches only the
    /// coordinator. They end when their connection closes.
    pub(super) fn start(
        engine: &Engine,
        count: usize,
        coordinator: SocketAddr,
        token: &str,
    ) -> Result<Self, AgentError> {
        let mut children = Self::default();
        let Engine::Local { exe } = engine else {
            return Ok(children);
        };
        for _ in 0..count {
            let child = Command::new(exe)
                .args(["agent", "--coordinator", &coordinator.to_string()])
                .env(TOKEN_VARIABLE, token)
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
        let deadline = Instant::now() + STATUS_TIMEOUT;
        loop {
            match child.try_wait().ok()? {
                Some(status) => return Some(status),
                None if Instant::now() > deadline => return None,
                None => std::thread::sleep(EXIT_POLL_INTERVAL),
            }
        }
    }

    /// Waits for all to exit after their final report.
    pub(super) fn wait(&mut self) {
        let deadline = Instant::now() + EXIT_TIMEOUT;
        while Instant::now() < deadline {
            let all = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)) | Err(_));
            if self.0.iter_mut().all(all) {
                return;
            }
            std::thread::sleep(EXIT_POLL_INTERVAL);
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
