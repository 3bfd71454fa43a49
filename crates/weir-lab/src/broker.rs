//! One broker process: formatted, started under a guard, stopped.
//!
//! A broker is started through a few lines of `sh` (see [`GUARD`]) that put a watcher beside it.
//! The watcher waits on a pipe from this process. If the pipe closes without a word, this process
//! is gone, even by SIGKILL, and the watcher ends the broker. A word on the pipe sends the watcher
//! away: the broker has ended already, or shall outlive this process.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use crate::class_archive;
use crate::diagnose::CONSOLE_LOG;
use crate::error::LabError;
use crate::host_tools;
use crate::process::ProcessIdentity;
use crate::state;

/// What every broker of a lab is started with.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) java: PathBuf,
    pub(crate) libs: PathBuf,
    /// Classes that the JVM need not load from the jars.
    pub(crate) class_archive: Option<PathBuf>,
    pub(crate) heap_mb: u32,
    pub(crate) jvm_arguments: Vec<String>,
    pub(crate) dir: PathBuf,
    /// Whether the watcher removes `dir` after it had to end the broker.
    pub(crate) dir_is_temporary: bool,
}

impl Launch {
    /// Formats the storage of one node, whose `server.properties` is written already.
    pub(crate) fn format(
        &self,
        node_id: i32,
        cluster_id: &str,
        stop: &AtomicBool,
    ) -> Result<(), LabError> {
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
        let (status, said) = host_tools::run(&mut command, "formatting storage", stop)?;
        if status.success() {
            return Ok(());
        }
        if said.contains("No space left on device") {
            return Err(LabError::full(&self.dir));
        }
        let line = said.lines().rev().find(|line| !line.trim().is_empty());
        Err(LabError::Format {
            node_id,
            detail: line.unwrap_or("it said nothing").trim().to_owned(),
        })
    }

    /// Starts the broker of one node; returns as soon as the process exists.
    pub(crate) fn spawn(&self, node_id: i32) -> Result<BrokerProcess, LabError> {
        let failed = |error: io::Error| LabError::io(format!("start broker {node_id}"), error);
        let logs = state::log_dir(&self.dir, node_id);
        fs::create_dir_all(&logs).map_err(failed)?;
        let console = File::options()
            .create(true)
            .append(true)
            .open(logs.join(CONSOLE_LOG))
            .map_err(failed)?;
        let doomed = match self.dir_is_temporary {
            true => self.dir.as_os_str(),
            false => "".as_ref(),
        };
        let mut child = Command::new("sh")
            .args(["-c", GUARD, "weir-lab-guard"])
            .arg(doomed)
            .arg(&self.java)
            .arg(format!("-Xms{}m", self.heap_mb.min(256)))
            .arg(format!("-Xmx{}m", self.heap_mb))
            .args(JVM)
            .args(class_archive::argument(self.class_archive.as_deref()))
            .args(&self.jvm_arguments)
            .arg(format!("-XX:ErrorFile={}/jvm-crash.log", logs.display()))
            .args(self.common_arguments(node_id))
            .arg("kafka.Kafka")
            .arg(self.properties_file(node_id))
            .current_dir(state::node_dir(&self.dir, node_id))
            .stdin(Stdio::piped())
            .stdout(console.try_clone().map_err(failed)?)
            .stderr(console)
            // Out of the terminal's group: Ctrl-C is for the command, which then stops brokers.
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        // A child that has not been waited for keeps its entry, even when it has ended.
        let identity = ProcessIdentity::of(child.id())
            .ok_or_else(|| failed(io::Error::other("its process cannot be seen in /proc")))?;
        Ok(BrokerProcess {
            identity,
            guard: child.stdin.take(),
            child: Some(child),
        })
    }

    fn common_arguments(&self, node_id: i32) -> [String; 5] {
        let node = state::node_dir(&self.dir, node_id);
        let log4j = node.join("log4j2.properties");
        [
            // Native libraries are unpacked there, and a killed JVM leaves them behind.
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

/// A broker's process, started here or found running.
#[derive(Debug)]
pub(crate) struct BrokerProcess {
    pub(crate) identity: ProcessIdentity,
    /// Present when it was started here, so that it is reaped.
    child: Option<Child>,
    /// The pipe to its watcher.
    guard: Option<ChildStdin>,
}

impl BrokerProcess {
    /// A broker that another process started.
    pub(crate) fn found(identity: ProcessIdentity) -> Self {
        Self {
            identity,
            child: None,
            guard: None,
        }
    }

    /// How it ended, if it has ended.
    pub(crate) fn ended(&mut self) -> Option<String> {
        if let Some(child) = &mut self.child {
            return match child.try_wait() {
                Ok(None) => None,
                Ok(Some(status)) => Some(status.to_string()),
                Err(error) => Some(error.to_string()),
            };
        }
        (!self.identity.is_alive()).then(|| "ended".to_owned())
    }

    /// Lets the broker live on when this process ends.
    pub(crate) fn release(&mut self) {
        if let Some(mut guard) = self.guard.take() {
            // Fails only when the watcher is gone already.
            let _ = guard.write_all(b"release\n");
        }
    }

    /// Asks the broker to end.
    pub(crate) fn terminate(&self) {
        self.identity.terminate();
    }

    /// Waits for the end until `deadline`, then kills; false if even that did not help.
    pub(crate) fn wait_or_kill(&mut self, deadline: Instant) -> bool {
        if !self.identity.wait_exited(deadline) {
            self.identity.kill();
            if !self.identity.wait_exited(Instant::now() + KILL_TIMEOUT) {
                return false;
            }
        }
        self.release();
        if let Some(mut child) = self.child.take() {
            // It has ended: this only reaps it.
            let _ = child.wait();
        }
        true
    }
}

/// Writes the configuration files of a node.
pub(crate) fn write_config(
    dir: &Path,
    node_id: i32,
    server_properties: &str,
    log4j_properties: &str,
) -> Result<(), LabError> {
    let node = state::node_dir(dir, node_id);
    let write = || {
        fs::create_dir_all(state::log_dir(dir, node_id))?;
        fs::create_dir_all(node.join("tmp"))?;
        fs::write(node.join("server.properties"), server_properties)?;
        fs::write(node.join("log4j2.properties"), log4j_properties)
    };
    write().map_err(|error| LabError::file(&node, error))
}

/// Runs the command in `$2...` in place of this shell, with as many descriptors as allowed, deaf
/// to the terminal's hang-up, and with the watcher beside it. `$1` is a directory that the watcher
/// removes in the end, or empty. The double fork leaves no unreaped child to the JVM.
const GUARD: &str = r#"
trap '' HUP
ulimit -S -n "$(ulimit -H -n)"
doomed=$1
shift
broker=$$
born=$(cut -d' ' -f22 "/proc/$broker/stat")
same() { [ "$(cut -d' ' -f22 "/proc/$broker/stat" 2>/dev/null)" = "$born" ]; }
exec 3<&0 </dev/null
(
  (
    read -r word <&3 && exit
    same && kill -TERM "$broker"
    tries=0
    while same && [ "$tries" -lt 50 ]; do sleep 0.1; tries=$((tries + 1)); done
    same && kill -KILL "$broker"
    [ -n "$doomed" ] && rm -rf -- "$doomed"
  ) >/dev/null 2>&1 &
)
exec "$@" 3<&-
"#;

/// The JVM settings of Kafka's own scripts, and a quick end when memory runs out.
const JVM: [&str; 7] = [
    "-server",
    // No file of counters in the shared temporary directory.
    "-XX:-UsePerfData",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:+ExitOnOutOfMemoryError",
];

const KILL_TIMEOUT: Duration = Duration::from_secs(10);
