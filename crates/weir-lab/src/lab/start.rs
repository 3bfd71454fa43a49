//! Starts a lab, and cleans up if the start fails.

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::cluster::{Broker, Lab, temporary_dir};
use super::companions::Companions;
use super::existing::{self, ExistingLab};
use super::options::{LabOptions, ValidOptions};
use crate::broker::{self, Launch};
use crate::class_archive::{self, ClassArchive};
use crate::config;
use crate::diagnose;
use crate::disk;
use crate::error::{LabError, Result};
use crate::guarded::GuardedProcess;
use crate::host_tools;
use crate::kafka;
use crate::operation::Operation;
use crate::ports;
use crate::process;
use crate::ready;
use crate::security::{self, LabSecurity};
use crate::state::{
    self, LabNode, LabPhase, LabState, RegistryState, SCHEMA, SecuredPorts, ServiceState,
};
use crate::status::{self, STOP_TIMEOUT};
use crate::storage;
use crate::tokens;

impl Lab {
    /// Starts a lab and waits until all its brokers are ready, or attaches to a running one.
    ///
    /// A lab that is running in the directory is used if it has the same options. When `stop`
    /// becomes `true`, or after an error, all started processes are stopped.
    pub fn up(
        options: &LabOptions,
        progress: &mut dyn FnMut(&str),
        stop: &AtomicBool,
    ) -> Result<Self> {
        let options = ValidOptions::new(options)?;
        let operation = Operation { progress, stop };
        let mut startup = Startup { options, operation };
        if options.dir.is_none() && !options.detached {
            return startup.up_temporary();
        }
        let dir = status::lab_dir(options.dir.as_deref())?;
        disk::prepare(&dir, 0)?;
        existing::reject_other_files(&dir)?;
        let _lock = status::lock(&dir)?;
        let lab = startup.up_in(dir.clone());
        if lab.is_err() {
            status::remove_if_unused(&dir)?;
        }
        lab
    }

    /// Restarts a stopped broker with its port and data, and waits until it is ready.
    pub fn start_broker(&mut self, node_id: i32, stop: &AtomicBool) -> Result<()> {
        let index = self.index(node_id)?;
        if self.processes[index].is_some() {
            return Ok(());
        }
        self.processes[index] = Some(self.launch.spawn(node_id, &self.state)?);
        self.update_process(index)?;
        let progress = &mut |_: &str| ();
        let ready = wait_ready(self, &mut Operation { progress, stop });
        if ready.is_err() {
            self.stop_broker(node_id)?;
        } else if self.state.detached {
            self.release();
        }
        ready
    }

    fn new(
        launch: Launch,
        state: LabState,
        processes: Vec<Option<GuardedProcess>>,
        options: &LabOptions,
    ) -> Self {
        let brokers = state.nodes.iter().map(|node| Broker {
            node_id: node.node_id,
            pid: node.process.map_or(0, |process| process.pid),
            port: node.port,
        });
        let brokers = brokers.collect();
        Self {
            launch,
            state,
            ready_timeout: options.ready_timeout,
            second_listeners: options.second_listeners.clone(),
            keep_data: options.keep_data,
            was_running: false,
            processes,
            brokers,
            companions: Companions::default(),
            is_down: false,
        }
    }
}

struct Startup<'a> {
    options: ValidOptions<'a>,
    operation: Operation<'a>,
}

impl Startup<'_> {
    fn up_in(&mut self, dir: PathBuf) -> Result<Lab> {
        let cluster_id = match existing::find(&dir, &self.options, self.operation.progress)? {
            ExistingLab::Running(state) => return self.attach(dir, *state),
            ExistingLab::Stopped(cluster_id) => Some(cluster_id),
            ExistingLab::None => None,
        };
        self.start_with_retries(dir, false, cluster_id)
    }

    fn attach(&mut self, dir: PathBuf, state: LabState) -> Result<Lab> {
        let nodes = state.nodes.iter();
        let processes = nodes.map(|node| node.process.map(GuardedProcess::found));
        let processes = processes.collect();
        let launch = Launch {
            java: host_tools::java("to run Apache Kafka")?,
            libs: kafka::libs(&state.kafka_version, &mut self.operation)?,
            class_archive: None,
            dir,
            dir_is_temporary: false,
        };
        let mut lab = Lab::new(launch, state, processes, &self.options);
        lab.was_running = true;
        lab.companions = Companions::open(&lab.launch, &self.options)?;
        let timeout = lab.ready_timeout;
        let operation = &mut self.operation;
        lab.companions
            .find_servers(&lab.launch, &lab.state, timeout, operation)?;
        if lab.state.detached {
            lab.companions.release();
        }
        Ok(lab)
    }

    fn up_temporary(&mut self) -> Result<Lab> {
        let dir = temporary_dir()?;
        let lab = self.start_with_retries(dir.clone(), true, None);
        let logs_matter = matches!(
            lab,
            Ok(_)
                | Err(LabError::BrokerExited { .. }
                    | LabError::NotReady { .. }
                    | LabError::ServerExited { .. }
                    | LabError::ServerNotReady { .. })
        );
        if !logs_matter {
            disk::remove(&dir)?;
        }
        lab
    }

    /// Starts a lab in `dir`. If selected free ports are in use in the meantime, tries others.
    ///
    /// `cluster_id` is that of existing data in the directory.
    fn start_with_retries(
        &mut self,
        dir: PathBuf,
        dir_is_temporary: bool,
        cluster_id: Option<String>,
    ) -> Result<Lab> {
        let options = self.options;
        if let Some(first) = options.port {
            for port in (first..).take(options.port_count().into()) {
                ports::require_free(options.host, port)?;
            }
        }
        let java = host_tools::java("to run Apache Kafka")?;
        let libs = kafka::libs(&options.kafka_version, &mut self.operation)?;
        disk::prepare(&dir, options.min_free_bytes)?;
        let launch = Launch {
            java,
            libs,
            class_archive: self.class_archive(),
            dir,
            dir_is_temporary,
        };
        let mut attempts = 0;
        loop {
            attempts += 1;
            match self.start(launch.clone(), cluster_id.clone()) {
                Err(LabError::PortTaken(port, _)) if options.port.is_none() && attempts < 3 => {
                    (self.operation.progress)(&format!(
                        "port {port} is now in use; trying other ports"
                    ));
                }
                result => return result,
            }
        }
    }

    /// Returns the archive of the broker's classes. If it is missing, starts a broker to write it.
    fn class_archive(&mut self) -> Option<PathBuf> {
        let (options, stop) = (self.options, self.operation.stop);
        if class_archive::is_written_by(&options.jvm_arguments) {
            return None;
        }
        let java = host_tools::java_version_found()?;
        let version = &options.kafka_version;
        let archive = ClassArchive::new(version, &java, options.retry_classes).ok()?;
        archive.find_or_write(&mut self.operation, |argument| {
            let options = LabOptions {
                kafka_version: version.clone(),
                heap_mb: ARCHIVE_HEAP_MB,
                jvm_arguments: vec![argument],
                ..LabOptions::default()
            };
            Lab::up(&options, &mut |_| (), stop)?.finish_within(ARCHIVE_TIMEOUT)
        })
    }

    fn start(&mut self, launch: Launch, cluster_id: Option<String>) -> Result<Lab> {
        let options = self.options;
        let has_data = cluster_id.is_some();
        let mut ports = choose_ports(&options)?.into_iter();
        let nodes = choose_nodes(&options, &mut ports);
        let has_tokens = options.security == LabSecurity::Oauth;
        let state = LabState {
            schema: SCHEMA,
            phase: LabPhase::Starting,
            kafka_version: options.kafka_version.clone(),
            cluster_id: cluster_id.unwrap_or_else(storage::new_id),
            host: options.host,
            heap_mb: options.heap_mb,
            detached: options.detached,
            properties: options.properties.clone(),
            jvm_arguments: options.jvm_arguments.clone(),
            boot_id: process::boot_id(),
            started_unix_ms: unix_ms(),
            nodes,
            security: options.security,
            test_listeners: options.test_listeners,
            token_lifetime_s: options.token_lifetime.as_secs(),
            tokens: has_tokens.then(|| ServiceState::new(&mut ports)),
            registry: options
                .registry
                .map(|it| RegistryState::new(it, &mut ports)),
        };
        let processes = state.nodes.iter().map(|_| None).collect();
        let mut lab = Lab::new(launch, state, processes, &options);
        if let Err(error) = self.start_brokers(&mut lab, !has_data) {
            lab.is_down = true;
            clean_up(&mut lab, has_data, &error)?;
            return Err(error);
        }
        Ok(lab)
    }

    /// Writes the configuration, formats the storage if `is_new`, and starts the brokers.
    fn start_brokers(&mut self, lab: &mut Lab, is_new: bool) -> Result<()> {
        lab.set_phase(LabPhase::Starting)?;
        lab.companions = match is_new {
            true => {
                Companions::create(&lab.launch, &lab.state, &self.options, &mut self.operation)?
            }
            false => Companions::open(&lab.launch, &self.options)?,
        };
        let timeout = lab.ready_timeout;
        let operation = &mut self.operation;
        lab.companions
            .find_servers(&lab.launch, &lab.state, timeout, operation)?;
        let nodes = lab.state.nodes.clone();
        let dir = &lab.launch.dir;
        for (index, node) in nodes.iter().enumerate() {
            let log4j = config::log4j_properties(&state::log_dir(dir, node.node_id));
            let properties = server_properties(lab, index);
            broker::write_config(dir, node.node_id, &properties, &log4j)?;
        }
        (self.operation.progress)(&format!(
            "starting {} broker(s) of Apache Kafka {} in {}",
            nodes.len(),
            lab.state.kafka_version,
            dir.display()
        ));
        lab.companions.start_servers(&mut self.operation)?;
        lab.save_servers()?;
        if is_new {
            format_all(lab, &self.operation)?;
        }
        for (index, node) in nodes.iter().enumerate() {
            lab.processes[index] = Some(lab.launch.spawn(node.node_id, &lab.state)?);
            lab.update_process(index)?;
        }
        wait_ready(lab, &mut self.operation)?;
        lab.companions
            .wait_ready(lab.ready_timeout, &self.operation)?;
        lab.write_client_config()?;
        lab.set_phase(LabPhase::Running)?;
        if lab.state.detached {
            lab.release();
        }
        Ok(())
    }
}

/// Heap of the broker whose classes are recorded, in MiB.
const ARCHIVE_HEAP_MB: u32 = 256;
/// Time for that broker to stop, which includes writing the archive.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the configuration of the broker with this index.
fn server_properties(lab: &Lab, index: usize) -> String {
    let state = &lab.state;
    let node = &state.nodes[index];
    let second = lab.second_listeners.get(index).copied();
    let listeners = config::listeners(node, state.host, state.security, second);
    let mut extra = Vec::new();
    if let Some(files) = lab.companions.files().filter(|_| node.secured.is_some()) {
        let issuer = state.tokens.map(|it| tokens::issuer(state.host, it));
        let issuer = issuer.as_deref();
        extra = security::server_properties(state.security, files, &listeners, issuer);
    }
    // They come last, so that they can override those of the lab.
    extra.extend_from_slice(&state.properties);
    let data = state::data_dir(&lab.launch.dir, node.node_id);
    config::server_properties(node, &state.nodes, state.host, &listeners, &data, &extra)
}

/// Formats the storage of all nodes.
fn format_all(lab: &Lab, operation: &Operation<'_>) -> Result<()> {
    let files = lab.companions.files();
    let credentials = files.map(|files| security::scram_arguments(lab.state.security, files));
    let credentials = credentials.unwrap_or_default();
    storage::format(&lab.launch, &lab.state, &credentials, operation)
}

/// Waits until every running broker of `lab` responds and lists all of them.
fn wait_ready(lab: &mut Lab, operation: &mut Operation<'_>) -> Result<()> {
    let deadline = Instant::now() + lab.ready_timeout;
    let running = lab.processes.iter().flatten().count();
    let mut missing: Vec<_> = (0..lab.processes.len())
        .filter(|index| lab.processes[*index].is_some())
        .collect();
    let mut last_missing = running;
    loop {
        for (index, node) in lab.state.nodes.iter().enumerate() {
            let exited = lab.processes[index]
                .as_mut()
                .and_then(GuardedProcess::exit_status);
            if let Some(status) = exited {
                let (dir, host) = (&lab.launch.dir, lab.state.host);
                return Err(diagnose::exit_error(dir, host, node, status));
            }
        }
        missing.retain(|index| {
            let (host, port) = lab.state.nodes[*index].probe_address(lab.state.host);
            !ready::listed_brokers(host, port).is_ok_and(|listed| listed.len() >= running)
        });
        if missing.is_empty() {
            return Ok(());
        }
        if missing.len() < last_missing {
            last_missing = missing.len();
            let ready = running - last_missing;
            (operation.progress)(&format!("{ready} of {running} brokers are ready"));
        }
        operation.proceed("waiting for the brokers")?;
        if Instant::now() >= deadline {
            return Err(not_ready(lab, &missing));
        }
        thread::sleep(Duration::from_millis(50));
    }
}

fn not_ready(lab: &Lab, missing: &[usize]) -> LabError {
    let id = |index: &usize| lab.state.nodes[*index].node_id;
    let (detail, log) = diagnose::log_tail(&lab.launch.dir, id(&missing[0]));
    let ids: Vec<_> = missing.iter().map(|at| id(at).to_string()).collect();
    LabError::NotReady {
        seconds: lab.ready_timeout.as_secs(),
        missing: format!("broker {}", ids.join(", ")),
        detail,
        log,
    }
}

/// Stops all started processes and keeps only logs, or the data that existed before.
fn clean_up(lab: &mut Lab, had_data: bool, error: &LabError) -> Result<()> {
    let timeout = if had_data {
        STOP_TIMEOUT
    } else {
        Duration::ZERO
    };
    lab.stop_processes(timeout)?;
    let dir = lab.launch.dir.clone();
    let logs_matter = matches!(
        error,
        LabError::BrokerExited { .. }
            | LabError::NotReady { .. }
            | LabError::Format(..)
            | LabError::ServerExited { .. }
            | LabError::ServerNotReady { .. }
    );
    if had_data || !logs_matter {
        return status::clear(&dir, &mut lab.state, had_data);
    }
    lab.state.forget_processes();
    for node in &lab.state.nodes {
        disk::remove(&state::data_dir(&dir, node.node_id))?;
    }
    lab.set_phase(LabPhase::Failed)
}

fn choose_ports(options: &LabOptions) -> Result<Vec<u16>> {
    let count = usize::from(options.port_count());
    match options.port {
        Some(first) => Ok((first..).take(count).collect()),
        None => ports::free_ports(options.host, count)
            .map_err(|error| LabError::io("find free ports", error)),
    }
}

/// Returns the nodes with the next of `ports`: those for clients, then those for controllers, ...
fn choose_nodes(options: &LabOptions, ports: &mut dyn Iterator<Item = u16>) -> Vec<LabNode> {
    let mut nodes: Vec<_> = (1..=i32::from(options.brokers))
        .map(|node_id| LabNode {
            node_id,
            port: 0,
            controller_port: 0,
            process: None,
            secured: None,
        })
        .collect();
    let security = options.security;
    let mut assign = |set: &dyn Fn(&mut LabNode, u16)| {
        for (node, port) in nodes.iter_mut().zip(&mut *ports) {
            set(node, port);
        }
    };
    assign(&|node, port| node.port = port);
    assign(&|node, port| node.controller_port = port);
    if security.uses_tls() {
        assign(&|node, port| node.secured = Some(SecuredPorts::new(port)));
    }
    let mut assign_secured = |set: &dyn Fn(&mut SecuredPorts, u16)| {
        assign(&|node, port| {
            if let Some(secured) = &mut node.secured {
                set(secured, port);
            }
        });
    };
    if security.uses_tls() && options.test_listeners {
        assign_secured(&|secured, port| secured.expired = Some(port));
        assign_secured(&|secured, port| secured.other_host = Some(port));
        if security.uses_sasl() {
            assign_secured(&|secured, port| secured.unencrypted = Some(port));
        }
    }
    nodes
}

/// Returns a random cluster id in Kafka's format: 16 bytes in URL-safe Base64 without padding.
/// Without '-' and '_', because an id that starts with '-' would be parsed as an option.
fn unix_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}
