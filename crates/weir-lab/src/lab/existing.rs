//! Examines a directory for an existing lab: running, stopped with data, or to be removed.

use std::fs;
use std::path::Path;

use super::options::LabOptions;
use crate::broker::BrokerProcess;
use crate::disk;
use crate::error::{LabError, Result};
use crate::state::{self, LabPhase, LabState};
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
    let Some(mut state) = LabState::load(dir)? else {
        return Ok(ExistingLab::None);
    };
    let (alive, dead): (Vec<_>, Vec<_>) = state
        .nodes
        .iter()
        .map(|node| (node.node_id, state.running(node)))
        .partition(|(_, process)| process.is_some());
    match state.phase {
        LabPhase::Running if dead.is_empty() => {
            check_same_options(dir, &state, options)?;
            return Ok(ExistingLab::Running(Box::new(state)));
        }
        LabPhase::Running if !alive.is_empty() => {
            let ids: Vec<_> = dead.iter().map(|(id, _)| id.to_string()).collect();
            let detail = format!("broker {} is not running", ids.join(" and "));
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
            let mut running: Vec<_> = alive
                .into_iter()
                .filter_map(|(id, process)| Some((id, BrokerProcess::found(process?))))
                .collect();
            let running = running.iter_mut().map(|(id, process)| (*id, process));
            status::stop_all(running, STOP_TIMEOUT)?;
        }
        LabPhase::Failed => {}
    }
    for node in &mut state.nodes {
        disk::remove(&state::node_dir(dir, node.node_id))?;
    }
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
    if state.nodes.len() == brokers && state.kafka_version == options.kafka_version {
        return Ok(());
    }
    let (stored, version) = (state.nodes.len(), &state.kafka_version);
    let reason = format!(
        "contains data of {stored} broker(s) of Kafka {version}, requested are {brokers} of {}; \
         remove it with \"weir lab down\"",
        options.kafka_version
    );
    Err(LabError::setting("dir", &dir.display(), &reason))
}
