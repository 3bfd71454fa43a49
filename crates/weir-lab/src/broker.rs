//! Broker processes: configuration files and starting with a watchdog.

use std::fs;
use std::path::{Path, PathBuf};

use crate::class_archive;
use crate::disk::write_private;
use crate::error::{LabError, Result};
use crate::guarded::{self, GuardedCommand, GuardedProcess};
use crate::security::SecurityFiles;
use crate::state::{self, LabState};

/// Programs and directories from which the brokers of a lab are started.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) java: PathBuf,
    pub(crate) libs: PathBuf,
    /// File with preloaded classes, with which the JVM starts faster.
    pub(crate) class_archive: Option<PathBuf>,
    pub(crate) dir: PathBuf,
    /// `true` if the watchdog removes `dir` after it has ended the broker.
    pub(crate) dir_is_temporary: bool,
}

impl Launch {
    /// Starts the broker of a node and returns as soon as the process exists.
    pub(crate) fn spawn(&self, node_id: i32, state: &LabState) -> Result<GuardedProcess> {
        let logs = state::log_dir(&self.dir, node_id);
        let mut command = vec![
            self.java.display().to_string(),
            format!("-Xms{}m", state.heap_mb.min(256)),
            format!("-Xmx{}m", state.heap_mb),
        ];
        command.extend(JVM.map(str::to_owned));
        command.extend(class_archive::argument(self.class_archive.as_deref()));
        if state.tokens.is_some() {
            let key_set = SecurityFiles::key_set_in(&state::security_dir(&self.dir));
            command.push(format!("-D{ALLOWED_URLS}=file://{}", key_set.display()));
        }
        command.extend(state.jvm_arguments.iter().cloned());
        command.push(format!("-XX:ErrorFile={}/jvm-crash.log", logs.display()));
        command.extend(self.common_arguments(node_id));
        command.push("kafka.Kafka".to_owned());
        command.push(self.properties_file(node_id).display().to_string());
        let guarded = GuardedCommand {
            command: &command,
            working_dir: &state::node_dir(&self.dir, node_id),
            logs: &logs,
            temporary_dir: self.dir_is_temporary.then_some(&*self.dir),
        };
        guarded::spawn(&format!("broker {node_id}"), &guarded)
    }

    pub(crate) fn common_arguments(&self, node_id: i32) -> [String; 5] {
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

    pub(crate) fn properties_file(&self, node_id: i32) -> PathBuf {
        state::node_dir(&self.dir, node_id).join("server.properties")
    }
}

/// Writes the configuration files of a node and creates its directories.
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
        fs::write(node.join("log4j2.properties"), log4j_properties)
    };
    write().map_err(|error| LabError::file(&node, error))?;
    // Readable by this user only, since it may contain passwords.
    write_private(&node.join("server.properties"), server_properties)
}

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

/// System property with the URLs that a broker may read to verify tokens.
const ALLOWED_URLS: &str = "org.apache.kafka.sasl.oauthbearer.allowed.urls";
