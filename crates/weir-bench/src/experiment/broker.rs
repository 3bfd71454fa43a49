//! Broker of a run: started for it, or existing.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use procfs::process::{ProcState, Process};
use weir_engine::machines::Machines;
use weir_kafka::{Admin, KafkaSettings};
use weir_lab::{Lab, LabOptions, ports};
use weir_load::kafka::{ClientFile, ClientProperties};

use crate::{BenchError, Observer};

/// Options of a run that do not depend on its plan.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Parent directory of the run directory.
    pub out: PathBuf,
    /// Bootstrap servers of a running cluster; `None`: start a broker for the run and stop it
    /// afterwards.
    pub bootstrap: Option<String>,
    /// Client properties of all clients of the run.
    pub client: ClientProperties,
    /// Path of this program.
    pub exe: PathBuf,
    /// Machines that run roles; `None`: all roles run on this machine.
    pub machines: Option<Arc<Machines>>,
    /// Command line as typed.
    pub command_line: Vec<String>,
}

/// Servers and properties file for a child process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Connection<'a> {
    pub(crate) bootstrap: &'a str,
    pub(crate) file: Option<&'a Path>,
}

pub(crate) struct RunBroker {
    /// `None` for an existing broker.
    pub(crate) lab: Option<Lab>,
    pub(crate) admin: Admin,
    pub(crate) bootstrap: String,
    /// Settings of the clients in this process.
    pub(crate) kafka: KafkaSettings,
    /// Settings of the clients in child processes; `None`: no properties.
    pub(crate) client_file: Option<ClientFile>,
    /// Names of the client properties, separated by blanks.
    pub(crate) property_names: String,
    /// Process ids; empty if the broker was not started for the run.
    pub(crate) pids: Vec<u32>,
}

impl RunBroker {
    /// Starts a broker, or connects to that of the options.
    pub(crate) fn start(
        options: &BenchOptions,
        lab_options: &LabOptions,
        observer: &mut dyn Observer,
        stop: &AtomicBool,
    ) -> Result<Self, BenchError> {
        let own = options.bootstrap.is_none();
        let lab = own.then(|| Lab::up(lab_options, &mut |text: &str| observer.note(text), stop));
        let lab = lab.transpose()?;
        let started = lab.as_ref().map(Lab::bootstrap);
        // Invariant: one of the two is set.
        let bootstrap = started.or_else(|| options.bootstrap.clone());
        let bootstrap = bootstrap.unwrap_or_default();
        let brokers = lab.iter().flat_map(Lab::brokers);
        let kafka = options.client.settings(&bootstrap)?;
        let client_file = (!options.client.is_empty())
            .then(|| ClientFile::write(&options.client, &bootstrap))
            .transpose();
        let client_file = client_file.map_err(BenchError::ClientFile)?;
        Ok(Self {
            admin: Admin::connect(&kafka, ADMIN_TIMEOUT)?,
            pids: brokers.map(|broker| broker.pid).collect(),
            bootstrap,
            kafka,
            client_file,
            property_names: options.client.names().collect::<Vec<_>>().join(" "),
            lab,
        })
    }

    /// Returns `true` if a broker that was started for the run has exited; always `false` for
    /// others.
    pub(crate) fn has_exited(&self) -> bool {
        self.pids.iter().any(|pid| has_exited(*pid))
    }

    /// Returns the arguments for the connections of a child process of Weir.
    pub(crate) fn connection(&self) -> Connection<'_> {
        self.connection_to(&self.bootstrap)
    }

    /// Returns the arguments for connections to other servers with the same properties.
    pub(crate) fn connection_to<'a>(&'a self, bootstrap: &'a str) -> Connection<'a> {
        let file = self.client_file.as_ref().map(ClientFile::path);
        Connection { bootstrap, file }
    }

    /// Returns the processes that listen at the bootstrap addresses of an existing broker, if they
    /// are on this machine; otherwise those that were started.
    pub(crate) fn local_pids(&self) -> Option<Vec<u32>> {
        match &self.lab {
            Some(_) => Some(self.pids.clone()),
            None => local_pids(&self.bootstrap),
        }
    }

    /// Creates a topic with a number of partitions and of their replicas.
    pub(crate) fn create_topic(
        &self,
        name: &str,
        (partitions, replicas): (u32, u32),
        config: &[(&str, &str)],
    ) -> Result<(), BenchError> {
        let [partitions, replicas] =
            [partitions, replicas].map(|count| i32::try_from(count).unwrap_or(i32::MAX));
        Ok(self
            .admin
            .create_topic(name, partitions, replicas, config)?)
    }

    /// Deletes a large topic. A failure is logged and ignored.
    pub(crate) fn delete_topic(&self, topic: &str) {
        if let Err(error) = self.admin.delete_topic(topic) {
            tracing::warn!(%error, topic, "deleting the topic failed");
        }
    }

    /// Stops the broker, if it was started for the run.
    pub(crate) fn down(self) -> Result<(), BenchError> {
        Ok(self.lab.map_or(Ok(()), Lab::down)?)
    }
}

/// Returns `true` if a process has exited, even if nothing has waited for it yet.
fn has_exited(pid: u32) -> bool {
    let pid = i32::try_from(pid).ok();
    let state = pid.and_then(|pid| Process::new(pid).ok()?.stat().ok()?.state().ok());
    matches!(state, None | Some(ProcState::Zombie | ProcState::Dead))
}

/// Returns the processes that listen at the bootstrap addresses, if they are on this machine.
pub(crate) fn local_pids(bootstrap: &str) -> Option<Vec<u32>> {
    let pids = bootstrap.split(',').map(|address| {
        let (host, port) = address.trim().rsplit_once(':')?;
        let address = host.parse::<IpAddr>();
        let is_here = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        let port = port.parse().ok().filter(|_| is_here)?;
        ports::owner(port).map(|owner| owner.pid)
    });
    let mut pids: Vec<u32> = pids.collect::<Option<_>>()?;
    pids.sort_unstable();
    pids.dedup();
    Some(pids)
}

/// Configuration of a topic that is read later: no record may be removed before the topic is
/// deleted. A broker that a run starts otherwise keeps 2 GiB.
pub(crate) const KEEP_ALL: [(&str, &str); 2] = [("retention.ms", "-1"), ("retention.bytes", "-1")];

const ADMIN_TIMEOUT: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn killed_process_has_exited_before_wait() {
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        assert!(!has_exited(child.id()));
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + Duration::from_secs(20);
        while !has_exited(child.id()) {
            assert!(
                std::time::Instant::now() < deadline,
                "killed process is still running"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        child.wait().unwrap();
        assert!(has_exited(child.id()) && has_exited(u32::MAX));
    }

    #[test]
    fn local_broker_is_found_by_its_port() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let here = listener.local_addr().unwrap();
        let own = Some(vec![std::process::id()]);
        assert_eq!(local_pids(&here.to_string()), own);
        assert_eq!(
            local_pids(&format!("{here},localhost:{}", here.port())),
            own
        );
        assert_eq!(local_pids("192.0.2.1:9092"), None);
        assert_eq!(local_pids("nonsense"), None);
    }
}
