//! Session of a role on another machine, with ssh or over the connection of an agent.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use crate::agents::{AgentMachine, AgentSession};
use crate::session::SessionRequest;

/// Session of a role; ended when dropped.
#[derive(Debug)]
pub struct RoleSession(Transport);

/// Input of a role's process.
pub trait RoleInput: Write + Send + fmt::Debug {}

impl<T: Write + Send + fmt::Debug> RoleInput for T {}

/// Input, output and session of a role.
pub struct StartedSession {
    /// Input of the process; it ends when this is dropped.
    pub input: Box<dyn RoleInput>,
    /// Output of the process.
    pub output: Box<dyn Read + Send>,
    /// The session.
    pub session: RoleSession,
}

#[derive(Debug)]
enum Transport {
    Ssh(Child),
    Agent(AgentSession),
}

impl RoleSession {
    /// Starts a session with ssh. Its log goes to a file.
    pub(crate) fn with_ssh(mut command: Command, log: File) -> io::Result<StartedSession> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        // Owned first, so that ssh is killed if a pipe is missing.
        let session = Self(Transport::Ssh(child));
        let (Some(input), Some(output)) = (input, output) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        Ok(StartedSession {
            input: Box::new(input),
            output: Box::new(output),
            session,
        })
    }

    /// Starts a session on the machine of an agent. Its log goes to a file.
    pub(crate) fn with_agent(machine: &AgentMachine, log: File) -> io::Result<StartedSession> {
        let (session, output) = machine.open(Some(log))?;
        Ok(StartedSession {
            input: Box::new(session.input()),
            output: Box::new(output),
            session: Self(Transport::Agent(session)),
        })
    }

    /// Returns the exit status if the session has ended.
    pub fn exit_status(&mut self) -> Option<ExitStatus> {
        match &mut self.0 {
            Transport::Ssh(child) => child.try_wait().ok().flatten(),
            Transport::Agent(session) => session.exit_status(),
        }
    }
}

impl Drop for RoleSession {
    fn drop(&mut self) {
        if let Transport::Ssh(child) = &mut self.0 {
            // Both fail only if it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Sends the first line of a session.
pub(crate) fn send_request(input: &mut impl Write, request: &SessionRequest) -> io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    input.write_all(&line)?;
    input.flush()
}
