//! Shared by several test programs.

// Each program uses only a part of this module.
#![allow(dead_code)]

pub(crate) mod schema;

use std::fs;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub(crate) use rustix::process::Signal;
use serde_json::Value;

/// Returns a command of the binary, without standard input.
pub(crate) fn weir(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).stdin(Stdio::null());
    command
}

/// Returns the only run directory in `out`; `None` before there is one. The index is a file.
pub(crate) fn run_dir(out: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(out).ok()?;
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut dirs: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
    assert!(dirs.len() <= 1, "{dirs:?}");
    dirs.pop()
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A broker for one test program, unless `WEIR_E2E_BOOTSTRAP` is set, and a directory for its
/// files.
pub(crate) struct TestBroker {
    pub(crate) bootstrap: String,
    pub(crate) scratch: tempfile::TempDir,
    lab_dir: Option<PathBuf>,
}

impl TestBroker {
    pub(crate) fn start() -> Self {
        let scratch = tempfile::tempdir().unwrap();
        if let Ok(bootstrap) = std::env::var("WEIR_E2E_BOOTSTRAP") {
            return Self {
                bootstrap,
                scratch,
                lab_dir: None,
            };
        }
        let dir = scratch.path().join("lab");
        let timeout = ["--heap-mb", "256", "--ready-timeout", "180s"];
        let mut up = weir(&["lab", "up", "--json"]);
        let output = up.args(timeout).arg("--dir").arg(&dir).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let up: Value = serde_json::from_slice(&output.stdout).unwrap();
        Self {
            bootstrap: up["bootstrap"].as_str().unwrap().to_owned(),
            scratch,
            lab_dir: Some(dir),
        }
    }
}

impl Drop for TestBroker {
    fn drop(&mut self) {
        if let Some(dir) = &self.lab_dir {
            let _ = weir(&["lab", "down", "--dir"]).arg(dir).output();
        }
    }
}

/// Sends a signal to a process of this test, without the program `kill`, which may be missing.
pub(crate) fn send_signal(pid: u32, signal: Signal) {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    rustix::process::kill_process(pid.expect("a process number"), signal).unwrap();
}

/// A process that is killed with its test, even if the test fails.
pub(crate) struct Process(Option<Child>);

impl Process {
    /// Starts the process.
    pub(crate) fn spawn(command: &mut Command) -> Self {
        Self(Some(command.spawn().unwrap()))
    }

    /// Waits for the exit and returns the output.
    pub(crate) fn output(mut self) -> Output {
        let child = self.0.take().expect("it is there until dropped");
        child.wait_with_output().unwrap()
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("it is there until dropped")
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("it is there until dropped")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // Both fail only if the process has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a gateway, waits until it is ready and returns it with its client address. Its
/// configuration is written into `directory`.
pub(crate) fn gateway(directory: &Path, name: &str, adapters: &str) -> (Process, String) {
    gateway_with(directory, name, adapters, &[])
}

/// Starts a gateway with additional options, see [`gateway`].
pub(crate) fn gateway_with(
    directory: &Path,
    name: &str,
    adapters: &str,
    options: &[&str],
) -> (Process, String) {
    let file = directory.join(format!("{name}.xml"));
    fs::write(&file, adapters).unwrap();
    let ready = directory.join(format!("{name}.json"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    let anywhere = ["--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
    command.args(["gateway", "run"]).args(anywhere);
    command.arg("--adapters").arg(&file);
    command.arg("--ready-file").arg(&ready).args(options);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut process = Process::spawn(&mut command);
    let deadline = Instant::now() + GATEWAY_READY_WITHIN;
    loop {
        // An incomplete file is not valid JSON.
        let bytes = fs::read(&ready).ok();
        let content: Option<Value> = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        if let Some(content) = content {
            let listen = content["listen"].as_str().unwrap().to_owned();
            return (process, listen);
        }
        let ended = process.try_wait().unwrap();
        assert!(ended.is_none(), "the gateway ended: {ended:?}");
        assert!(Instant::now() < deadline, "the gateway is not ready");
        std::thread::sleep(LOOK);
    }
}

const GATEWAY_READY_WITHIN: Duration = Duration::from_secs(120);
/// Interval at which a condition is polled.
const LOOK: Duration = Duration::from_millis(20);
