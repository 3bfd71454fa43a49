//! Machines that are reached with the system's `ssh`, so that its configuration, jump hosts and
//! keys apply.
//!
//! One connection per machine carries all sessions: the first session copies the program, unless
//! the machine has one with the same content, and stays open. Sessions of roles use the same
//! connection. If this process ends, ssh closes the inputs of all sessions, and they end.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::net::ToSocketAddrs as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;
use weir_load::clock::{nanos, wall_clock_unix_ns};

use crate::clock::udp::ClockMeter;
use crate::clock::{ClockBound, ClockError, LEAD};
use crate::inventory::Machine;
use crate::session::{RoleProcessRequest, SessionEvent, SessionRequest, sha256};

/// Machine that cannot take part.
#[derive(Debug, Error)]
pub enum SshError {
    /// The program of this process cannot be read.
    #[error("cannot read the own program: {0}")]
    Program(#[source] io::Error),
    /// `ssh` cannot be started.
    #[error("machine {0}: cannot start ssh: {1}")]
    Start(String, #[source] io::Error),
    /// The connection ended, or a response is missing.
    #[error("machine {0}: {1}")]
    Failed(String, String),
    /// The machine has no address for the exchange of clocks.
    #[error("machine {0}: address \"{1}\" is not known here: set address in the inventory")]
    Address(String, String),
    /// No exchange of clocks came back.
    #[error("machine {0}: no clock exchange with UDP {1}: allow UDP between the machines")]
    Clock(String, String, #[source] ClockError),
}

/// Connected machine; its sessions end when this is dropped.
#[derive(Debug)]
pub struct SshMachine {
    /// Name in the inventory.
    pub name: String,
    ssh: Vec<String>,
    program: PathBuf,
    session: Child,
    input: Option<ChildStdin>,
    meter: ClockMeter,
}

impl SshMachine {
    /// Connects to a machine with a destination and copies `program` if it has another one.
    ///
    /// # Errors
    /// [`SshError`] if the machine cannot be used.
    pub fn connect(machine: &Machine, program: &Path) -> Result<Self, SshError> {
        let name = machine.name.clone();
        let failed = |reason: &str| SshError::Failed(name.clone(), reason.to_owned());
        let destination = machine.ssh.clone().unwrap_or_default();
        let hash = sha256(program).map_err(SshError::Program)?;
        let size = program.metadata().map_err(SshError::Program)?.len();
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
            .map_err(|error| SshError::Start(name.clone(), error))?;
        let output = session.stdout.take().ok_or_else(|| failed("no output"))?;
        let errors = session.stderr.take().ok_or_else(|| failed("no log"))?;
        let (lines, log) = (read_lines(output), LogTail::of(errors));
        let mut input = session.stdin.take().ok_or_else(|| failed("no input"))?;
        let mut session = OwnedSession(Some(session));
        let next = |timeout| {
            let line: Result<String, _> = lines.recv_timeout(timeout);
            line.map_err(|_| SshError::Failed(name.clone(), log.last_line()))
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
        copied.map_err(|error| SshError::Failed(name.clone(), format!("copy: {error}")))?;
        let key: [u8; 16] = rand::random();
        let request = SessionRequest::Machine { key };
        write_line(&mut input, &request)
            .map_err(|error| SshError::Failed(name.clone(), error.to_string()))?;
        let hello = next(CONNECT_TIMEOUT)?;
        let Ok(SessionEvent::Hello {
            sha256,
            program,
            clock_port,
            ..
        }) = serde_json::from_str(&hello)
        else {
            return Err(failed("its program did not say hello"));
        };
        if sha256 != hash {
            let path = program.display();
            return Err(failed(&format!("{path} has another content: delete it")));
        }
        let address = machine
            .address
            .clone()
            .unwrap_or_else(|| host(&destination));
        let found = (address.as_str(), clock_port).to_socket_addrs();
        let found = found.ok().and_then(|mut all| all.next());
        let peer = found.ok_or_else(|| SshError::Address(name.clone(), address))?;
        let meter = ClockMeter::start(peer, key, wall_clock_unix_ns)
            .map_err(|error| SshError::Start(name.clone(), error))?;
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
            meter,
        };
        let deadline = Instant::now() + LEAD + CLOCK_TIMEOUT;
        loop {
            match connected.clock_now() {
                Ok(_) => return Ok(connected),
                Err(error) if Instant::now() >= deadline => {
                    return Err(SshError::Clock(
                        connected.name.clone(),
                        peer.to_string(),
                        error,
                    ));
                }
                Err(_) => thread::sleep(POLL_INTERVAL),
            }
        }
    }

    /// Returns the difference of the machine's clock in the latest second.
    ///
    /// # Errors
    /// [`ClockError`] if there are too few exchanges, or a clock was stepped.
    pub fn clock_now(&self) -> Result<ClockBound, ClockError> {
        let now_ns = wall_clock_unix_ns();
        let ago = |duration| now_ns.saturating_sub(nanos(duration));
        self.clock(ago(CLOCK_AGE), ago(CLOCK_AGE))
    }

    /// Returns the difference of the machine's clock between two times.
    ///
    /// # Errors
    /// [`ClockError`] if there are too few exchanges, or a clock was stepped.
    pub fn clock(&self, from_unix_ns: u64, until_unix_ns: u64) -> Result<ClockBound, ClockError> {
        self.meter.history().bound(from_unix_ns, until_unix_ns)
    }

    /// Returns the command that starts a session of a role. Its first line is
    /// [`role_request`](Self::role_request).
    pub fn role_command(&self) -> Command {
        let mut command = Command::new("ssh");
        let program = quoted(&self.program.display().to_string());
        command
            .args(&self.ssh)
            .arg(format!("exec {program} agent --stdio"));
        command
    }

    /// Returns the first line of a session of a role.
    pub fn role_request(request: RoleProcessRequest) -> Vec<u8> {
        let mut line = Vec::new();
        // Invariant: writing to memory does not fail.
        let _ = write_line(&mut line, &SessionRequest::Role(request));
        line
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

fn write_line(output: &mut impl io::Write, request: &SessionRequest) -> io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
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
const CLOCK_TIMEOUT: Duration = Duration::from_secs(4);
/// Age of the time for which the latest difference is stated: a sample follows it.
const CLOCK_AGE: Duration = Duration::from_secs(2);
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
