//! The gateway under test: the real binary as a child process.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;

use super::test_env::{LOOK, TEST_TIMEOUT};

/// Content of the `--ready-file`.
#[derive(Debug, Deserialize)]
struct Ready {
    listen: SocketAddr,
    admin: SocketAddr,
}

/// A running gateway, killed when dropped.
#[derive(Debug)]
pub(crate) struct GatewayProcess {
    child: Child,
    ready: Ready,
}

impl GatewayProcess {
    /// Starts a gateway on `listen` and waits until it is ready. Log and ready file are stored in
    /// `dir` with names from `name`.
    pub(crate) fn start(
        dir: &Path,
        name: &str,
        adapters: Option<&Path>,
        settings: Option<&Path>,
        listen: SocketAddr,
    ) -> Result<Self> {
        let ready_file = dir.join(format!("{name}.json"));
        let log = File::create(dir.join(format!("{name}.log")))?;
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args([
                "gateway",
                "run",
                "--event-loops",
                "2",
                "--admin",
                "127.0.0.1:0",
            ])
            .args(["--listen", &listen.to_string(), "--ready-file"])
            .arg(&ready_file);
        for (option, file) in [("--adapters", adapters), ("--config", settings)] {
            if let Some(file) = file {
                command.arg(option).arg(file);
            }
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("the gateway did not start")?;
        let ready = Ready {
            listen,
            admin: listen,
        };
        let mut gateway = Self { child, ready };
        let deadline = Instant::now() + TEST_TIMEOUT;
        while !ready_file.exists() {
            if let Some(status) = gateway.child.try_wait()? {
                bail!("the gateway ended before it was ready: {status}");
            }
            ensure!(
                Instant::now() < deadline,
                "the gateway is not ready after {TEST_TIMEOUT:?}"
            );
            thread::sleep(LOOK);
        }
        gateway.ready = serde_json::from_slice(&std::fs::read(&ready_file)?)?;
        std::fs::remove_file(&ready_file)?;
        Ok(gateway)
    }

    /// Returns the address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.ready.listen
    }

    /// Returns the address of the admin port.
    pub(crate) fn admin(&self) -> SocketAddr {
        self.ready.admin
    }

    /// Sends SIGKILL.
    pub(crate) fn kill(mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Sends SIGTERM and waits for the exit.
    pub(crate) fn terminate(mut self) -> Result<ExitStatus> {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        kill_process(pid.context("a process id")?, Signal::TERM)?;
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status);
            }
            ensure!(
                Instant::now() < deadline,
                "SIGTERM did not end the gateway in {TEST_TIMEOUT:?}"
            );
            thread::sleep(LOOK);
        }
    }

    /// Returns the value of a metric, summed over its labels.
    pub(crate) fn metric(&self, name: &str) -> Result<u64> {
        let mut stream = TcpStream::connect(self.ready.admin)?;
        stream.set_read_timeout(Some(TEST_TIMEOUT))?;
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        let mut sum = None;
        for line in answer.lines().filter(|line| !line.starts_with('#')) {
            if let Some((metric, value)) = line.rsplit_once(' ') {
                if metric.split('{').next() == Some(name) {
                    sum = Some(sum.unwrap_or(0) + value.parse::<u64>()?);
                }
            }
        }
        sum.with_context(|| format!("/metrics has no {name}"))
    }

    /// Waits until a metric has a value.
    pub(crate) fn wait_metric(&self, name: &str, wanted: u64) -> Result<()> {
        let is_there = |value| value == wanted;
        self.wait_metric_that(name, &format!("wanted {wanted}"), is_there)
    }

    /// Waits until a metric is not 0.
    pub(crate) fn wait_counted(&self, name: &str) -> Result<()> {
        self.wait_metric_that(name, "wanted more than 0", |value| value > 0)
    }

    fn wait_metric_that(&self, name: &str, what: &str, holds: impl Fn(u64) -> bool) -> Result<()> {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let value = self.metric(name)?;
            if holds(value) {
                return Ok(());
            }
            ensure!(Instant::now() < deadline, "{name} stays at {value}, {what}");
            thread::sleep(LOOK);
        }
    }
}

impl Drop for GatewayProcess {
    fn drop(&mut self) {
        // Both fail only if the process has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
