//! What an earlier lab left in a directory: still running, kept, or to be cleared away.

use std::fs;
use std::path::Path;

use super::LabOptions;
use crate::broker::BrokerProcess;
use crate::disk;
use crate::error::LabError;
use crate::state::{self, LabPhase, LabState};
use crate::status::{self, GRACE, LOCK_FILE};

/// Refuses a directory with files of somebody else: a lab clears its directory when it stops.
pub(super) fn refuse_foreign(dir: &Path) -> Result<(), LabError> {
    if LabState::load(dir)?.is_some() {
        return Ok(());
    }
    let entries = fs::read_dir(dir).map_err(|error| LabError::Directory {
        dir: dir.to_owned(),
        error,
    })?;
    let mut names = entries
        .filter_map(Result::ok)
        .map(|entry| entry.file_name());
    // Another command may be about to begin here, or to have just ended.
    if names.all(|name| name == LOCK_FILE) {
        return Ok(());
    }
    Err(LabError::NotALab {
        dir: dir.to_owned(),
    })
}

/// What was in the directory before.
pub(super) enum ExistingLab {
    None,
    /// The data of a stopped lab with this cluster id.
    Kept(String),
    /// A lab with the settings asked for.
    Running(Box<LabState>),
}

/// Looks for an earlier lab in `dir` and clears away what cannot be used.
pub(super) fn look(
    dir: &Path,
    options: &LabOptions,
    progress: &mut dyn FnMut(&str),
) -> Result<ExistingLab, LabError> {
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
            same_settings(dir, &state, options)?;
            return Ok(ExistingLab::Running(Box::new(state)));
        }
        LabPhase::Running if !alive.is_empty() => {
            let ids: Vec<_> = dead.iter().map(|(id, _)| id.to_string()).collect();
            return Err(LabError::Incomplete {
                dir: dir.to_owned(),
                detail: format!("broker {} does not run any more", ids.join(" and ")),
            });
        }
        LabPhase::Stopped => {
            same_data(dir, &state, options)?;
            return Ok(ExistingLab::Kept(state.cluster_id));
        }
        LabPhase::Running => progress(&format!(
            "an earlier lab in {} was not shut down in order; its data is removed",
            dir.display()
        )),
        LabPhase::Starting => {
            progress("an earlier start of the lab was cut short; its rest is removed");
            let mut left: Vec<_> = alive
                .into_iter()
                .filter_map(|(id, process)| Some((id, BrokerProcess::found(process?))))
                .collect();
            status::stop_all(left.iter_mut().map(|(id, process)| (*id, process)), GRACE)?;
        }
        LabPhase::Failed => {}
    }
    for node in &mut state.nodes {
        disk::remove(&state::node_dir(dir, node.node_id))?;
    }
    Ok(ExistingLab::None)
}

fn same_settings(dir: &Path, state: &LabState, options: &LabOptions) -> Result<(), LabError> {
    let describe = |brokers: usize, version: &str, port: Option<u16>, heap: u32| {
        let port = port.map_or_else(String::new, |port| format!(", port {port}"));
        format!("{brokers} broker(s), Kafka {version}, heap {heap} MB{port}")
    };
    let asked = describe(
        options.brokers.into(),
        &options.kafka_version,
        options.port,
        options.heap_mb,
    );
    // A port that was not asked for may be any.
    let first = state.nodes.first().map(|node| node.port);
    let port = options.port.and(first);
    let running = describe(state.nodes.len(), &state.kafka_version, port, state.heap_mb);
    let other = |running: String, asked: String| {
        Err(LabError::OtherLab {
            dir: dir.to_owned(),
            running,
            asked,
        })
    };
    if running != asked {
        return other(running, asked);
    }
    if state.host != options.host {
        return other(format!("host {}", state.host), format!("{}", options.host));
    }
    let extra = |properties: &[(String, String)], jvm: &[String]| {
        let pairs = properties
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let all: Vec<_> = pairs.chain(jvm.iter().cloned()).collect();
        format!("extra settings [{}]", all.join(" "))
    };
    let running = extra(&state.properties, &state.jvm_arguments);
    let asked = extra(&options.properties, &options.jvm_arguments);
    if running != asked {
        return other(running, asked);
    }
    if state.detached != options.detached {
        let words = |detached| {
            if detached {
                "in the background"
            } else {
                "by a command"
            }
        };
        return other(
            format!("its brokers held {}", words(state.detached)),
            words(options.detached).to_owned(),
        );
    }
    Ok(())
}

/// Kept data can only be used by the same release and the same number of nodes.
fn same_data(dir: &Path, state: &LabState, options: &LabOptions) -> Result<(), LabError> {
    let brokers = usize::from(options.brokers);
    if state.nodes.len() == brokers && state.kafka_version == options.kafka_version {
        return Ok(());
    }
    Err(LabError::Setting {
        name: "dir",
        value: dir.display().to_string(),
        reason: format!(
            "has the kept data of {} broker(s) of Kafka {}, not {brokers} of {}; \"weir lab down\" \
             removes it",
            state.nodes.len(),
            state.kafka_version,
            options.kafka_version
        ),
    })
}
