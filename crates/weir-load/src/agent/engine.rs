//! What starts the agents of a run.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::{AgentError, TOKEN_VARIABLE};

/// Who starts the agents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Engine {
    /// This process, as children on this machine.
    Local {
        /// The program, whose command `agent` is called.
        exe: PathBuf,
    },
    /// Somebody else, on any machine that reaches the coordinator.
    Manual,
}

/// Agents that are children of this process; killed when dropped.
#[derive(Debug, Default)]
pub(super) struct Children(Vec<Child>);

impl Children {
    /// Starts `count` agents. Each has a process group of its own, so that Ctrl-C reaches only the
    /// coordinator; they notice its end by the end of their connection.
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

    /// A child that has ended, if one has.
    pub(super) fn ended(&mut self) -> Option<(u32, ExitStatus)> {
        self.0.iter_mut().find_map(|child| {
            let status = child.try_wait().ok().flatten()?;
            Some((child.id(), status))
        })
    }

    /// How the child of that pid ended, once it has.
    pub(super) fn status(&mut self, pid: u32) -> Option<ExitStatus> {
        let child = self.0.iter_mut().find(|child| child.id() == pid)?;
        let deadline = Instant::now() + STATUS_WITHIN;
        loop {
            match child.try_wait().ok()? {
                Some(status) => return Some(status),
                None if Instant::now() > deadline => return None,
                None => std::thread::sleep(LOOK),
            }
        }
    }

    /// Waits for all to end in order; they have reported their last.
    pub(super) fn wait(&mut self) {
        let deadline = Instant::now() + END_WITHIN;
        while Instant::now() < deadline {
            let all = |child: &mut Child| matches!(child.try_wait(), Ok(Some(_)) | Err(_));
            if self.0.iter_mut().all(all) {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }
}

impl Drop for Children {
    fn drop(&mut self) {
        for child in &mut self.0 {
            if let Ok(None) = child.try_wait() {
                // Both fail only for a process that is gone.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

const LOOK: Duration = Duration::from_millis(5);
/// Between the end of a connection and that of its process.
const STATUS_WITHIN: Duration = Duration::from_secs(1);
const END_WITHIN: Duration = Duration::from_secs(5);
