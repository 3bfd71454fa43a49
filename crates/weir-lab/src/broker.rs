//! Broker processes: formatting the storage, starting with a watchdog, stopping.
//!
//! A broker is started by a short `sh` script (see [`WATCHDOG`]), which also starts a watchdog. The
//! watchdog reads from a pipe of this process. If the pipe closes without input, this process has
//! ended, perhaps by SIGKILL, and the watchdog ends the broker. Any input ends the watchdog: the
//! broker has already ended, or must outlive this process.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::class_archive;
use crate::diagnose::CONSOLE_LOG;
use crate::error::{LabError, Result};
use crate::host_tools;
use crate::operation::Operation;
use crate::process::{ProcessIdentity, Signal};
use crate::state::{self, LabState};

#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) java: PathBuf,
    pub(crate) libs: PathBuf,
    /// Classes that the JVM need not load from the jars.
    pub(crate) class_archive: Option<PathBuf>,
    pub(crate) dir: PathBuf,
    /// `true` if the watchdog removes `dir` after it has ended the broker.
    pub(crate) dir_is_temporary: bool,
}

impl Launch {
    /// Formats the storage of a node. Its `server.properties` must exist.
    pub(crate) fn format(
        &self,
        node_id: i32,
        cluster_id: &str,
        operation: &Operation<'_>,
    ) -> Result<()> {
        let mut command = Command::new(&self.java);
        command
            .args([
                "-Xmx128m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-XX:-UsePerfData",
            ])
            .args(class_archive::argument(self.class_archive.as_deref()))
            .args(self.common_arguments(node_id))
            .args(["kafka.tools.StorageTool", "format", "-t", cluster_id, "-c"])
            .arg(self.properties_file(node_id));
        let (status, output) = host_tools::run(&mut command, "formatting storage", operation)?;
        if status.success() {
            return Ok(());
        }
        if output.contains("No space left on device") {
            return Err(LabError::full(&self.dir));
        }
        let line = output.lines().rev().find(|line| !line.trim().is_empty());
        let detail = line.unwrap_or("no output").trim().to_owned();
        Err(LabError::Format(node_id, detail))
    }

    /// Starts the broker of a node and returns as soon as the process exists.
    pub(crate) fn spawn(&self, node_id: i32, state: &LabState) -> Result<BrokerProcess> {
        let failed = |error: io::Error| LabError::io(format!("start broker {node_id}"), error);
        let logs = state::log_dir(&self.dir, node_id);
        fs::create_dir_all(&logs).map_err(failed)?;
        let console = File::options()
            .create(true)
            .append(true)
            .open(logs.join(CONSOLE_LOG))
            .map_err(failed)?;
        let temporary_dir = if self.dir_is_temporary {
            self.dir.as_os_str()
        } else {
            "".as_ref()
        };
        let mut child = Command::new("sh")
            .args(["-c", WATCHDOG, "weir-lab-guard"])
            .arg(temporary_dir)
            .arg(&self.java)
            .arg(format!("-Xms{}m", state.heap_mb.min(256)))
            .arg(format!("-Xmx{}m", state.heap_mb))
            .args(JVM)
            .args(class_archive::argument(self.class_archive.as_deref()))
            .args(&state.jvm_arguments)
            .arg(format!("-XX:ErrorFile={}/jvm-crash.log", logs.display()))
            .args(self.common_arguments(node_id))
            .arg("kafka.Kafka")
            .arg(self.properties_file(node_id))
            .current_dir(state::node_dir(&self.dir, node_id))
            .stdin(Stdio::piped())
            .stdout(console.try_clone().map_err(failed)?)
            .stderr(console)
            // Not in the process group of the terminal: Ctrl-C goes to the command, which stops
            // brokers.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        // An ended child keeps its entry in /proc until it is reaped.
        let identity = ProcessIdentity::of(child.id())
            .ok_or_else(|| failed(io::Error::other("process not found in /proc")))?;
        Ok(BrokerProcess {
            identity,
            watchdog: child.stdin.take(),
            child: Some(child),
        })
    }

    fn common_arguments(&self, node_id: i32) -> [String; 5] {
        let node = state::node_dir(&self.dir, node_id);
        let log4j = node.join("log4j2.properties");
        [
            // The JVM extracts native libraries there, and leaves them behind if it is killed.
            format!("-Djava.io.tmpdir={}", node.join("tmp").display()),
            format!("-Dlog4j2.configurationFile={}", log4j.display()),
            "-Djava.awt.headless=true".to_owned(),
            "-cp".to_owned(),
            format!("{}/*", self.libs.display()),
        ]
    }

    fn properties_file(&self, node_id: i32) -> PathBuf {
        state::node_dir(&self.dir, node_id).join("server.properties")
    }
}

/// The process of a broker, started by this process or by another one.
#[derive(Debug)]
pub(crate) struct BrokerProcess {
    pub(crate) identity: ProcessIdentity,
    /// Handle for reaping, if this process started the broker.
    child: Option<Child>,
    watchdog: Option<ChildStdin>,
}

impl BrokerProcess {
    /// Creates a handle of a broker that another process started.
    pub(crate) fn found(identity: ProcessIdentity) -> Self {
        Self {
            identity,
            child: None,
            watchdog: None,
        }
    }

    /// Returns a description of the exit status if the broker has ended.
    pub(crate) fn exit_status(&mut self) -> Option<String> {
        if let Some(child) = &mut self.child {
            return match child.try_wait() {
                Ok(status) => status.map(|status| status.to_string()),
                Err(error) => Some(error.to_string()),
            };
        }
        (!self.identity.is_alive()).then(|| "exited".to_owned())
    }

    /// Ends the watchdog, so that the broker outlives this process.
    pub(crate) fn release(&mut self) {
        if let Some(mut watchdog) = self.watchdog.take() {
            // Fails only if the watchdog has already ended.
            let _ = watchdog.write_all(b"release\n");
        }
    }

    /// Waits until `deadline` for the exit, then kills the broker.
    ///
    /// Returns `false` if the broker runs even after that.
    pub(crate) fn wait_or_kill(&mut self, deadline: Instant) -> bool {
        if !self.identity.wait_exited(deadline) {
            self.identity.signal(Signal::KILL);
            if !self.identity.wait_exited(Instant::now() + KILL_TIMEOUT) {
                return false;
            }
        }
        self.release();
        if let Some(mut child) = self.child.take() {
            // The process has ended; this only reaps it.
            let _ = child.wait();
        }
        true
    }
}

pub(crate) fn write_config(
    dir: &Path,
    node_id: i32,
    server_properties: &str,
    log4j_properties: &str,
) -> Result<()> {
    let node = state::node_dir(dir, node_id);
    let write = || {
        fs::create_dir_all(state::log_dir(dir, node_id))?;
        fs::create_dir_all(node.join("tmp"))?;
        fs::write(node.join("server.properties"), server_properties)?;
        fs::write(node.join("log4j2.properties"), log4j_properties)
    };
    write().map_err(|error| LabError::file(&node, error))
}

/// Script that starts the watchdog and replaces itself with the command in `$2...`.
///
/// It raises the limit of open files to the maximum and ignores SIGHUP. `$1` is a directory that
/// the watchdog removes at the end, or empty. The double fork leaves no unreaped child to the JVM.
const WATCHDOG: &str = r#"
trap '' HUP
ulimit -S -n "$(ulimit -H -n)"
temporary_dir=$1
shift
broker=$$
started=$(cut -d' ' -f22 "/proc/$broker/stat")
is_running() { [ "$(cut -d' ' -f22 "/proc/$broker/stat" 2>/dev/null)" = "$started" ]; }
exec 3<&0 </dev/null
(
  (
    read -r word <&3 && exit
    is_running && kill -TERM "$broker"
    tries=0
    while is_running && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    is_running && kill -KILL "$broker"
    [ -n "$temporary_dir" ] && rm -rf -- "$temporary_dir"
  ) >/dev/null 2>&1 &
)
exec "$@" 3<&-
"#;

/// The JVM arguments of Kafka's own scripts, and an immediate exit when memory runs out.
const JVM: [&str; 7] = [
    "-server",
    // No file with performance counters in the shared temporary directory.
    "-XX:-UsePerfData",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:+ExitOnOutOfMemoryError",
];

const KILL_TIMEOUT: Duration = Duration::from_secs(10);
