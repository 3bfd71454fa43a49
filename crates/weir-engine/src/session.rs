//! Session on another machine, for a benchmark run that spans several machines. It is the process
//! `weir agent --stdio`, started by the coordinator over ssh, or by an agent for the coordinator.
//!
//! The first line of the input is a [`SessionRequest`]. A machine session responds to clock
//! exchanges, by which the coordinator measures the offset of the machine's clock. A role session
//! runs one process of a role (gateway, clients, SDK client, ...), forwards its output lines and
//! samples its usage.
//! Both end when their input ends, so they also end if the coordinator is killed.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use aws_lc_rs::digest::{Context, SHA256};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};
use weir_lab::sdk;
use weir_load::child_environment::without_weir_variables;
use weir_load::clock::{Clock, OFFSET_VARIABLE, wall_clock_unix_ns};
use weir_load::sampler::{RoleSample, Sampler};

use crate::clock::udp::{ClockEcho, ClockKey};

/// First line of a session.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "session", rename_all = "snake_case")]
pub enum SessionRequest {
    /// Machine session: responds to clock exchanges until its input ends.
    Machine {
        /// Key of the exchanges.
        key: ClockKey,
    },
    /// Role session: runs one process.
    Role(RoleProcessRequest),
}

/// Request to run one process of a role.
#[derive(Debug, Serialize, Deserialize)]
pub struct RoleProcessRequest {
    /// Program to run.
    #[serde(default)]
    pub program: RoleProgram,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Paths on the coordinator and contents of the files to create; arguments and other files
    /// refer to them by these paths.
    pub files: Vec<(PathBuf, String)>,
    /// Path of the file that a server writes when it is ready, as in the arguments; the session
    /// sends its content. `None` for a worker, which ends when its input ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_file: Option<PathBuf>,
    /// Nanoseconds to add to the clock of this machine to get the coordinator's time.
    pub clock_offset_ns: i64,
}

/// Program of a role's process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RoleProgram {
    /// This program.
    #[default]
    Weir,
    /// Node, with the client SDK; installs the SDK with npm if the machine does not have it yet. An
    /// end of the input is noticed after the installation.
    NodeSdk,
}

impl RoleProgram {
    /// Returns the command without arguments.
    ///
    /// # Errors
    /// This program cannot be found, or Node or the SDK is missing.
    fn command(self) -> io::Result<Command> {
        match self {
            Self::Weir => Ok(Command::new(std::env::current_exe()?)),
            Self::NodeSdk => {
                let mut progress = |text: &str| tracing::info!("{text}");
                let found = sdk::node(&mut progress, &AtomicBool::new(false));
                let found = found.map_err(io::Error::other)?;
                let mut command = Command::new(&found.node_bin);
                command.env("NODE_PATH", found.modules());
                Ok(command)
            }
        }
    }
}

/// Line that a session adds to the output lines of its process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "remote", rename_all = "snake_case")]
pub enum SessionEvent {
    /// First line of a machine session.
    Hello {
        /// Version of the session's program.
        version: String,
        /// SHA-256 of the program in hexadecimal digits.
        sha256: String,
        /// Path of the program.
        program: PathBuf,
        /// UDP port for clock exchanges.
        clock_port: u16,
    },
    /// CPU and memory usage of the process, once per second.
    Usage(RoleSample),
    /// Content of the ready file of a server.
    ReadyFile {
        /// JSON text.
        content: String,
    },
}

/// First bytes of a line with a [`SessionEvent`].
pub const EVENT_PREFIX: &[u8] = b"{\"remote\":";

/// Runs a session on standard input and output, until the input or its process ends. Returns `true`
/// if the process succeeded.
///
/// # Errors
/// An error of standard input or output, of a file or of the process.
pub fn run() -> io::Result<bool> {
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    (&mut input).take(REQUEST_BYTES_MAX).read_line(&mut line)?;
    match serde_json::from_str(&line)? {
        SessionRequest::Machine { key } => machine(input, key),
        SessionRequest::Role(request) => role(input, &request),
    }
}

fn machine(mut input: impl BufRead, key: ClockKey) -> io::Result<bool> {
    let any = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    // The wall clock, so that the coordinator detects if it is stepped.
    let echo = ClockEcho::start(any, key, wall_clock_unix_ns)?;
    let program = std::env::current_exe()?;
    send(&SessionEvent::Hello {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sha256: sha256(&program)?,
        program,
        clock_port: echo.address().port(),
    })?;
    io::copy(&mut input, &mut io::sink())?;
    Ok(true)
}

fn role(
    input: BufReader<impl Read + Send + 'static>,
    request: &RoleProcessRequest,
) -> io::Result<bool> {
    let files = RoleFiles::write(request)?;
    let mut command = request.program.command()?;
    let child = without_weir_variables(&mut command)
        .args(files.local_args(&request.args))
        .env(OFFSET_VARIABLE, request.clock_offset_ns.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut process = OwnedProcess(child);
    let input_ended = copy_input(input, process.0.stdin.take());
    let output = process.0.stdout.take().map(copy_lines);
    let mut sampler = Sampler::default();
    // Fails only if the process has ended, which `supervise` detects.
    let _ = sampler.watch(ROLE, process.0.id());
    let succeeded = supervise(&mut process, &input_ended, &mut sampler, (request, &files))?;
    if let Some(output) = output {
        // A panic of the thread has been printed.
        let _ = output.join();
    }
    Ok(succeeded)
}

/// Samples the process until it ends, and sends its ready file. After the end of the input, sends
/// SIGTERM to a server, and kills a process that does not end within [`END_GRACE`]. Returns `true`
/// if the process succeeded.
fn supervise(
    process: &mut OwnedProcess,
    input_ended: &Receiver<()>,
    sampler: &mut Sampler,
    (request, files): (&RoleProcessRequest, &RoleFiles),
) -> io::Result<bool> {
    let clock = Clock::start();
    let now = || {
        clock
            .now_unix_ns()
            .saturating_add_signed(request.clock_offset_ns)
    };
    let (mut kill_at, mut sample_at) = (None, Instant::now());
    let mut ready_file = files.ready.as_deref();
    loop {
        if let Some(status) = process.0.try_wait()? {
            return Ok(status.success());
        }
        if kill_at.is_some_and(|at| Instant::now() >= at) {
            process.0.kill()?;
        }
        if Instant::now() >= sample_at {
            sampler.sample(now());
            sample_at += SAMPLE_INTERVAL;
            if let Some(sample) = sampler.latest(ROLE) {
                // Fails only if the coordinator has ended; then the input has ended, too.
                let _ = send(&SessionEvent::Usage(sample));
            }
        }
        if let Some(content) = ready_file.and_then(|path| fs::read_to_string(path).ok()) {
            ready_file = None;
            send(&SessionEvent::ReadyFile { content })?;
        }
        match kill_at {
            Some(_) => thread::sleep(POLL_INTERVAL),
            None => match input_ended.recv_timeout(POLL_INTERVAL) {
                Err(RecvTimeoutError::Timeout) => {}
                Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                    kill_at = Some(Instant::now() + END_GRACE);
                    if files.ready.is_some() {
                        process.terminate();
                    }
                }
            },
        }
    }
}

/// Copies the session's input to the process, and closes the process's input when it ends. Returns
/// a channel that reports the end.
fn copy_input(
    mut input: impl Read + Send + 'static,
    child: Option<impl Write + Send + 'static>,
) -> Receiver<()> {
    let (ended, receiver) = mpsc::sync_channel(1);
    thread::spawn(move || {
        if let Some(mut child) = child {
            // Fails if the process has ended.
            let _ = io::copy(&mut input, &mut child);
        }
        // Fails if the session has ended.
        let _ = ended.send(());
    });
    receiver
}

/// Copies the output of the process line by line, so that events do not interrupt lines.
fn copy_lines(output: impl Read + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(output).split(b'\n') {
            let Ok(mut line) = line else { return };
            line.push(b'\n');
            if write_line(&line).is_err() {
                return;
            }
        }
    })
}

fn send(event: &SessionEvent) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    write_line(&line)
}

fn write_line(line: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(line)?;
    output.flush()
}

/// Returns the SHA-256 of a file in hexadecimal digits.
pub(crate) fn sha256(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            count => context.update(&buffer[..count]),
        }
    }
    Ok(hex(context.finish().as_ref()))
}

/// Returns bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Process that is killed when dropped.
struct OwnedProcess(Child);

impl OwnedProcess {
    /// Sends SIGTERM to the process.
    fn terminate(&self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // Fails only if it has ended.
        let _ = pid.map(|pid| kill_process(pid, Signal::TERM));
    }
}

impl Drop for OwnedProcess {
    fn drop(&mut self) {
        // Both fail only if it has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Files of a role in a directory of their own, which is removed on drop.
struct RoleFiles {
    dir: Option<PathBuf>,
    /// Path on the coordinator and path on this machine, by file.
    paths: Vec<(PathBuf, PathBuf)>,
    /// Path on this machine of the ready file of a server.
    ready: Option<PathBuf>,
}

impl RoleFiles {
    fn write(request: &RoleProcessRequest) -> io::Result<Self> {
        let mut files = Self {
            dir: None,
            paths: Vec::new(),
            ready: None,
        };
        if request.files.is_empty() && request.ready_file.is_none() {
            return Ok(files);
        }
        let dir = create_dir()?;
        files.dir = Some(dir.clone());
        let sent = request.files.iter().map(|(path, _)| path);
        let paths = sent.enumerate().map(|(number, path)| {
            let local = dir.join(number.to_string());
            (path.clone(), local)
        });
        files.paths.extend(paths);
        for ((_, text), (_, local)) in request.files.iter().zip(&files.paths) {
            let mut options = fs::OpenOptions::new();
            let options = options.write(true).create_new(true).mode(0o600);
            options
                .open(local)?
                .write_all(files.with_local_paths(text).as_bytes())?;
        }
        if let Some(path) = &request.ready_file {
            let local = dir.join("ready.json");
            files.paths.push((path.clone(), local.clone()));
            files.ready = Some(local);
        }
        Ok(files)
    }

    /// Returns the text of a file, with each path on the coordinator replaced by the one on this
    /// machine.
    fn with_local_paths(&self, text: &str) -> String {
        let paths = self.paths.iter();
        paths.fold(text.to_owned(), |text, (path, local)| {
            text.replace(&*path.to_string_lossy(), &local.to_string_lossy())
        })
    }

    /// Returns the arguments, with paths on the coordinator replaced by those on this machine.
    fn local_args(&self, args: &[String]) -> Vec<PathBuf> {
        let replace = |arg: &String| {
            let mut paths = self.paths.iter();
            let found = paths.find(|(path, _)| path == Path::new(arg));
            found.map_or_else(|| PathBuf::from(arg), |(_, local)| local.clone())
        };
        args.iter().map(replace).collect()
    }
}

/// Creates a directory that only this user can access: next to the program, or if that fails, in
/// the directory for temporary files.
fn create_dir() -> io::Result<PathBuf> {
    let program = std::env::current_exe()?;
    let parent = program.parent().unwrap_or_else(|| Path::new("/"));
    let name = format!("role-{}-{:08x}", std::process::id(), rand::random::<u32>());
    let create = |dir: PathBuf| fs::DirBuilder::new().mode(0o700).create(&dir).map(|()| dir);
    create(parent.join(&name)).or_else(|_| create(std::env::temp_dir().join(&name)))
}

impl Drop for RoleFiles {
    fn drop(&mut self) {
        if let Some(dir) = &self.dir {
            // Files that cannot be removed remain accessible only for this user.
            let _ = fs::remove_dir_all(dir);
        }
    }
}

/// Name of the only process in the sampler.
const ROLE: &str = "role";
/// Maximum length of the first line: arguments and configuration files.
const REQUEST_BYTES_MAX: u64 = 4 << 20;
const SAMPLE_INTERVAL: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Time from the end of a process's input until it is killed.
const END_GRACE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_arguments_refer_to_paths_on_this_machine() {
        let paths = ["/there/adapters.xml", "/there/schema.avsc"].map(PathBuf::from);
        let request = RoleProcessRequest {
            program: RoleProgram::Weir,
            args: [
                "--adapters",
                "/there/adapters.xml",
                "--ready-file",
                "/there/ready",
            ]
            .map(str::to_owned)
            .to_vec(),
            files: vec![
                (paths[0].clone(), "schema=/there/schema.avsc".to_owned()),
                (paths[1].clone(), "{}".to_owned()),
            ],
            ready_file: Some("/there/ready".into()),
            clock_offset_ns: 0,
        };
        let files = RoleFiles::write(&request).unwrap();
        let args = files.local_args(&request.args);
        let schema = &files.paths[1].1;
        let text = fs::read_to_string(&args[1]).unwrap();
        assert_eq!(text, format!("schema={}", schema.display()));
        assert_eq!(fs::read_to_string(schema).unwrap(), "{}");
        assert_eq!(Some(&args[3]), files.ready.as_ref());
        let dir = files.dir.clone().unwrap();
        drop(files);
        assert!(!dir.exists());
    }
}
