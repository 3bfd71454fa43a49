//! Machines that are reached with the system's `ssh`, so that its configuration, jump hosts and
//! keys apply.
//!
//! One connection per machine carries all sessions: the first session copies the program, unless
//! the machine has one with the same content, and stays open. Sessions of roles use the same
//! connection. If this process ends, ssh closes the inputs of all sessions, and they end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::inventory::Machine;
use crate::machine_clock::{MachineClock, MachineError};
use crate::role_session::send_request;
use crate::session::{SessionEvent, SessionRequest, sha256};

/// Connected machine; its sessions end when this is dropped.
#[derive(Debug)]
pub(crate) struct SshMachine {
    name: String,
    ssh: Vec<String>,
    program: PathBuf,
    session: Child,
    input: Option<ChildStdin>,
}

impl SshMachine {
    /// Connects to a machine with a destination and copies `program` if it has another one. Also
    /// returns the name or IP address at which other machines reach it.
    ///
    /// # Errors
    /// [`MachineError`] if the machine cannot be used.
    pub(crate) fn connect(
        machine: &Machine,
        program: &Path,
    ) -> Result<(Self, String, MachineClock), MachineError> {
        let name = machine.name.clone();
        let failed = |reason: &str| MachineError::Failed(name.clone(), reason.to_owned());
        let destination = machine.ssh.clone().unwrap_or_default();
        let hash = sha256(program).map_err(MachineError::Program)?;
        let size = program.metadata().map_err(MachineError::Program)?.len();
        let socket = std::env::temp_dir().join(format!("weir-{:016x}", rand::random::<u64>()));
        let socket = format!("ControlPath={}", socket.display());
        let mut ssh: Vec<String> = ["-T", "-o", "BatchMode=yes", "-o", &socket]
            .map(str::to_owned)
            .into();
        ssh.extend(machine.ssh_options.iter().cloned());
        let master = ["-o", "ControlMaster=yes", "-o", "ControlPersist=no"];
        let mut command = Command::new("ssh");
        command.args(master).args(&ssh).args(["--", &destination]);
        let mut session = command
            .arg(script(&hash, size))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .map_err(|error| MachineError::Start(name.clone(), error))?;
        let output = session.stdout.take().ok_or_else(|| failed("no output"))?;
        let errors = session.stderr.take().ok_or_else(|| failed("no log"))?;
        let (lines, log) = (read_lines(output), LogTail::of(errors));
        let mut input = session.stdin.take().ok_or_else(|| failed("no input"))?;
        let mut session = OwnedSession(Some(session));
        let next = |timeout| {
            let line: Result<String, _> = lines.recv_timeout(timeout);
            line.map_err(|_| MachineError::Failed(name.clone(), log.last_line()))
        };
        let copied = match next(CONNECT_TIMEOUT)?.split_once(' ') {
            Some(("weir-have", _)) => Ok(()),
            Some(("weir-need", system)) if system == own_system() => copy(program, &mut input),
            Some(("weir-need", system)) => {
                let reason = format!("it is {system}, this machine is {}", own_system());
                return Err(failed(&reason));
            }
            _ => {
                return Err(failed(
                    "its shell printed something before the first command",
                ));
            }
        };
        copied.map_err(|error| MachineError::Failed(name.clone(), format!("copy: {error}")))?;
        let key: [u8; 16] = rand::random();
        let request = SessionRequest::Machine { key };
        send_request(&mut input, &request)
            .map_err(|error| MachineError::Failed(name.clone(), error.to_string()))?;
        let hello = next(CONNECT_TIMEOUT)?;
        let Ok(SessionEvent::Hello {
            sha256,
            program,
            clock_port,
            ..
        }) = serde_json::from_str(&hello)
        else {
            return Err(failed("its program sent no hello line"));
        };
        if sha256 != hash {
            let path = program.display();
            return Err(failed(&format!("{path} has another content: delete it")));
        }
        let address = machine
            .address
            .clone()
            .unwrap_or_else(|| host(&destination));
        let clock = MachineClock::start(&name, &address, clock_port, key)?;
        // For the sessions of roles: never a connection of their own.
        ssh.extend(["-o", "ControlMaster=no", "-o", "ProxyCommand=false"].map(str::to_owned));
        ssh.extend(["--".to_owned(), destination]);
        let session = session.0.take().ok_or_else(|| failed("no session"))?;
        let connected = Self {
            name: machine.name.clone(),
            ssh,
            program,
            session,
            input: Some(input),
        };
        Ok((connected, address, clock))
    }

    /// Returns the command that starts a session of a role.
    pub(crate) fn role_command(&self) -> Command {
        let mut command = Command::new("ssh");
        let program = quoted(&self.program.display().to_string());
        command
            .args(&self.ssh)
            .arg(format!("exec {program} agent --stdio"));
        command
    }
}

impl Drop for SshMachine {
    fn drop(&mut self) {
        drop(self.input.take());
        let deadline = Instant::now() + END_TIMEOUT;
        while Instant::now() < deadline {
            if !matches!(self.session.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
        tracing::warn!(machine = self.name, "ssh did not end in time, killed");
        // Both fail only if it has ended.
        let _ = self.session.kill();
        let _ = self.session.wait();
    }
}

/// Session that is killed when dropped, until the machine has it.
struct OwnedSession(Option<Child>);

impl Drop for OwnedSession {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // Both fail only if it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Last lines that ssh printed.
struct LogTail(Arc<Mutex<VecDeque<String>>>);

impl LogTail {
    fn of(errors: impl io::Read + Send + 'static) -> Self {
        let lines = Arc::new(Mutex::new(VecDeque::new()));
        let sink = Arc::clone(&lines);
        thread::spawn(move || {
            for line in BufReader::new(errors.take(LOG_BYTES_MAX)).lines() {
                let Ok(line) = line else { return };
                let mut lines = sink.lock().unwrap_or_else(PoisonError::into_inner);
                lines.push_back(line);
                if lines.len() > LOG_LINES_MAX {
                    lines.pop_front();
                }
            }
        });
        Self(lines)
    }

    fn last_line(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = lines.iter().rev().find(|line| !line.trim().is_empty());
        let none = || "ssh ended or did not respond in time".to_owned();
        last.cloned().unwrap_or_else(none)
    }
}

fn read_lines(output: impl io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = mpsc::sync_channel(LOG_LINES_MAX);
    thread::spawn(move || {
        for line in BufReader::new(output.take(LOG_BYTES_MAX)).lines() {
            if line.map(|line| sender.send(line).is_err()).unwrap_or(true) {
                return;
            }
        }
    });
    lines
}

fn copy(program: &Path, input: &mut ChildStdin) -> io::Result<()> {
    io::copy(&mut File::open(program)?, input)?;
    input.flush()
}

/// Returns the shell commands that receive the program, unless it is there, and run it.
fn script(hash: &str, size: u64) -> String {
    format!(
        "umask 077; d=\"${{XDG_CACHE_HOME:-$HOME/.cache}}/weir/agents/{hash}\"; mkdir -p \"$d\" || \
         exit 1; if [ -x \"$d/weir\" ]; then echo \"weir-have $(uname -sm)\"; else \
         echo \"weir-need $(uname -sm)\"; p=\"$d/weir.$$\"; head -c {size} >\"$p\"; \
         if [ \"$(wc -c <\"$p\")\" -ne {size} ]; then rm -f \"$p\"; exit 1; fi; \
         chmod 700 \"$p\" && mv \"$p\" \"$d/weir\" || exit 1; fi; exec \"$d/weir\" agent --stdio"
    )
}

/// Returns the host of `user@host`.
fn host(destination: &str) -> String {
    let host = destination
        .rsplit_once('@')
        .map_or(destination, |(_, host)| host);
    host.to_owned()
}

fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// Returns what `uname -sm` prints on this machine.
fn own_system() -> String {
    format!("Linux {}", std::env::consts::ARCH)
}

/// Time to connect, log in, copy the program and start it.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(120);
const END_TIMEOUT: Duration = Duration::from_secs(15);
const POLL_INTERVAL: Duration = Duration::from_millis(50);
const LOG_BYTES_MAX: u64 = 1 << 20;
const LOG_LINES_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn destinations_and_paths_are_taken_apart() {
        assert_eq!(host("bench@load-1"), "load-1");
        assert_eq!(host("load-1"), "load-1");
        assert_eq!(quoted("/a b/it's"), "'/a b/it'\\''s'");
    }
}
