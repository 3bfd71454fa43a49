//! The process of a driver, which serves one client after the other, because its start is slow.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::{Value, json};

use super::events::{DriverConfig, SdkEvent};
use super::sdk::Sdk;

/// Longest time until a driver has ended its client. It is killed after that.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// A running driver; killed when dropped.
#[derive(Debug)]
pub(crate) struct DriverProcess {
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<Result<SdkEvent, String>>,
    /// Copies of both outputs, in the files of the current client.
    copies: Copies,
}

/// Destinations of the outputs of a driver: its events and the debug log of the SDK.
#[derive(Debug, Clone)]
struct Copies {
    events: Arc<Mutex<File>>,
    log: Arc<Mutex<File>>,
}

impl Copies {
    fn create(dir: &Path, number: u32) -> Result<[File; 2]> {
        let events = File::create(dir.join(format!("events-{number}.jsonl")))?;
        Ok([events, File::create(dir.join(format!("sdk-{number}.log")))?])
    }
}

/// Writes to the current file. It is only for debugging; the case continues without it.
fn copy(file: &Mutex<File>, bytes: &[u8]) {
    let mut file = file.lock().unwrap_or_else(PoisonError::into_inner);
    let _ = file.write_all(bytes);
}

impl DriverProcess {
    /// Starts a driver with its first client. The outputs are stored in `dir`.
    pub(crate) fn start(sdk: &Sdk, config: &DriverConfig, dir: &Path, number: u32) -> Result<Self> {
        let [events, log] = Copies::create(dir, number)?.map(|file| Arc::new(Mutex::new(file)));
        let copies = Copies { events, log };
        let mut child = sdk
            .command()
            .arg(serde_json::to_string(config)?)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("the SDK's driver did not start")?;
        let stdin = child.stdin.take().context("the driver's stdin")?;
        let stdout = child.stdout.take().context("the driver's stdout")?;
        let stderr = child.stderr.take().context("the driver's stderr")?;
        let (sender, lines) = mpsc::channel();
        let (events, log) = (Arc::clone(&copies.events), Arc::clone(&copies.log));
        thread::spawn(move || read_events(stdout, &events, &sender));
        thread::spawn(move || copy_log(stderr, &log));
        Ok(Self {
            child,
            stdin,
            lines,
            copies,
        })
    }

    /// Starts another client after [`Self::close`]. The outputs are stored in `dir`.
    pub(crate) fn open(&mut self, config: &DriverConfig, dir: &Path, number: u32) -> Result<()> {
        let copies = [&self.copies.events, &self.copies.log];
        for (copy, file) in copies.into_iter().zip(Copies::create(dir, number)?) {
            *copy.lock().unwrap_or_else(PoisonError::into_inner) = file;
        }
        self.command(&json!({ "cmd": "open", "config": config }))
    }

    /// Ends the client. Returns `true` if the driver can serve another one.
    pub(crate) fn close(&mut self) -> bool {
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        if self.command(&json!({ "cmd": "close" })).is_err() {
            return false;
        }
        // The last events of the client come first.
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.next_within(left) {
                Ok(Some(SdkEvent::Closed)) => return true,
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => return false,
            }
        }
    }

    /// Returns the next event within `timeout`, otherwise `None`.
    pub(crate) fn next_within(&self, timeout: Duration) -> Result<Option<SdkEvent>> {
        match self.lines.recv_timeout(timeout) {
            Ok(event) => {
                Ok(Some(event.map_err(|text| {
                    anyhow!("a line not understood: {text}")
                })?))
            }
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => bail!("the driver ended"),
        }
    }

    pub(crate) fn command(&mut self, command: &Value) -> Result<()> {
        writeln!(self.stdin, "{command}").context("the driver reads no command")?;
        Ok(self.stdin.flush()?)
    }
}

fn read_events(stdout: impl Read, copies: &Mutex<File>, sender: &Sender<Result<SdkEvent, String>>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        copy(copies, format!("{line}\n").as_bytes());
        let event = serde_json::from_str(&line).map_err(|e| format!("{e}: {line}"));
        if sender.send(event).is_err() {
            return;
        }
    }
}

fn copy_log(mut stderr: impl Read, copies: &Mutex<File>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = stderr.read(&mut buffer) {
        copy(copies, &buffer[..length]);
    }
}

impl Drop for DriverProcess {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Drivers without a client.
#[derive(Debug, Default)]
pub(crate) struct IdleDrivers(Mutex<Vec<DriverProcess>>);

impl IdleDrivers {
    /// Returns one of the drivers.
    pub(crate) fn take(&self) -> Option<DriverProcess> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Adds a driver whose client was closed.
    pub(crate) fn add(&self, process: DriverProcess) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        idle.push(process);
    }

    /// Adds all drivers of `other`.
    pub(crate) fn add_all(&self, other: &Self) {
        while let Some(process) = other.take() {
            self.add(process);
        }
    }
}
