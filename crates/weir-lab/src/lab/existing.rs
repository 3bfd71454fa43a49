//! Examines a directory for an existing lab: running, stopped with data, or to be removed.

use std::fs;
use std::path::Path;

use super::options::LabOptions;
use crate::error::{LabError, Result};
use crate::registry::RegistrySecurity;
use crate::state::{LabPhase, LabState};
use crate::status::{self, LOCK_FILE, STOP_TIMEOUT};

/// Rejects a directory with other files, because a lab removes its directory when it stops.
pub(super) fn reject_other_files(dir: &Path) -> Result<()> {
    if LabState::load(dir)?.is_some() {
        return Ok(());
    }
    let unreadable = |error| LabError::Directory(dir.to_owned(), error);
    let mut entries = fs::read_dir(dir).map_err(unreadable)?.flatten();
    // Another command may just have started or ended here.
    match entries.all(|entry| entry.file_name() == LOCK_FILE) {
        true => Ok(()),
        false => Err(LabError::NotALab(dir.to_owned())),
    }
}

/// Existing lab in a directory.
pub(super) enum ExistingLab {
    /// No lab, or one that cannot be used.
    None,
    /// Data of a stopped lab with this cluster id.
    Stopped(String),
    /// Running lab with the requested options.
    Running(Box<LabState>),
}

/// Finds an existing lab in `dir` and removes data that cannot be used.
pub(super) fn find(
    dir: &Path,
    options: &LabOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<ExistingLab> {
    let Some(state) = LabState::load(dir)? else {
        return Ok(ExistingLab::None);
    };
    let nodes = state.nodes.iter().map(|node| (node.name(), node.process));
    let servers = state
        .servers()
        .map(|(name, it)| (name.to_owned(), it.process));
    let (alive, dead): (Vec<_>, Vec<_>) = nodes
        .chain(servers)
        .map(|(name, process)| (name, state.alive(process)))
        .partition(|(_, process)| process.is_some());
    match state.phase {
        LabPhase::Running if dead.is_empty() => {
            check_same_options(dir, &state, options)?;
            return Ok(ExistingLab::Running(Box::new(state)));
        }
        LabPhase::Running if !alive.is_empty() => {
            let names: Vec<_> = dead.iter().map(|(name, _)| name.as_str()).collect();
            let detail = format!("{} is not running", names.join(" and "));
            return Err(LabError::Incomplete(dir.to_owned(), detail));
        }
        LabPhase::Stopped => {
            check_same_data(dir, &state, options)?;
            return Ok(ExistingLab::Stopped(state.cluster_id));
        }
        LabPhase::Running => progress(&format!(
            "an earlier lab in {} was not shut down cleanly; removing its data",
            dir.display()
        )),
        LabPhase::Starting => {
            progress("an earlier start of the lab was interrupted; removing its data");
            let mut running = status::running(&state);
            let running = running.iter_mut();
            let running = running.map(|(name, process)| (name.clone(), process));
            status::stop_all(running, STOP_TIMEOUT)?;
        }
        LabPhase::Failed => {}
    }
    status::remove_data(dir, &state)?;
    Ok(ExistingLab::None)
}

/// Rejects a running lab whose options differ from the requested ones.
fn check_same_options(dir: &Path, state: &LabState, options: &LabOptions) -> Result<()> {
    let describe = |brokers: usize, version: &str, port: Option<u16>, heap: u32| {
        let port = port.map_or_else(String::new, |port| format!(", port {port}"));
        format!("{brokers} broker(s), Kafka {version}, heap {heap} MB{port}")
    };
    let extra = |properties: &[(String, String)], jvm: &[String]| {
        let pairs = properties
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let all: Vec<_> = pairs.chain(jvm.iter().cloned()).collect();
        format!("extra settings [{}]", all.join(" "))
    };
    let mode = |detached| {
        let place = if detached { "background" } else { "foreground" };
        format!("brokers in the {place}")
    };
    let host = |host| format!("host {host}");
    let (running_security, requested_security) = security(state, options);
    // Without a requested port, any port is accepted.
    let first = state.nodes.first().map(|node| node.port);
    let port = options.port.and(first);
    let (version, heap_mb) = (&options.kafka_version, options.heap_mb);
    for (running, requested) in [
        (
            describe(state.nodes.len(), &state.kafka_version, port, state.heap_mb),
            describe(options.brokers.into(), version, options.port, heap_mb),
        ),
        (host(state.host), host(options.host)),
        (
            extra(&state.properties, &state.jvm_arguments),
            extra(&options.properties, &options.jvm_arguments),
        ),
        (mode(state.detached), mode(options.detached)),
        (running_security, requested_security),
    ] {
        if running != requested {
            return Err(LabError::OtherLab(dir.to_owned(), running, requested));
        }
    }
    Ok(())
}

/// Rejects stored data of another release or another number of nodes.
fn check_same_data(dir: &Path, state: &LabState, options: &LabOptions) -> Result<()> {
    let brokers = usize::from(options.brokers);
    let (stored, requested) = security(state, options);
    let is_secured = state.security.uses_tls();
    if stored != requested || is_secured && state.host != options.host {
        let reason = format!(
            "contains data of a lab on {} with {stored}, requested are {} and {requested}; remove \
             it with \"weir lab down\"",
            state.host, options.host
        );
        return Err(LabError::option("dir", &dir.display(), &reason));
    }
    if state.nodes.len() == brokers && state.kafka_version == options.kafka_version {
        return Ok(());
    }
    let (stored, version) = (state.nodes.len(), &state.kafka_version);
    let reason = format!(
        "contains data of {stored} broker(s) of Kafka {version}, requested are {brokers} of {}; \
         remove it with \"weir lab down\"",
        options.kafka_version
    );
    Err(LabError::option("dir", &dir.display(), &reason))
}

/// Returns descriptions of the security of an existing and of the requested lab.
fn security(state: &LabState, options: &LabOptions) -> (String, String) {
    let describe = |security, has_test_listeners, registry: Option<RegistrySecurity>| {
        let tests = if has_test_listeners {
            " and listeners for tests"
        } else {
            ""
        };
        let registry = match registry {
            None => "no registry".to_owned(),
            Some(RegistrySecurity { tls, basic_auth }) => {
                let tls = if tls { " with TLS" } else { "" };
                let login = if basic_auth { " with logins" } else { "" };
                format!("a registry{tls}{login}")
            }
        };
        format!("security {security}{tests}, {registry}")
    };
    let existing = state.registry.map(|registry| registry.security);
    (
        describe(state.security, state.test_listeners, existing),
        describe(options.security, options.test_listeners, options.registry),
    )
}
