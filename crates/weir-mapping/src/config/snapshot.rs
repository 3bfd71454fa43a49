//! `item.snapshot.*`, parameters of connector 2.0: items whose snapshots are stored with or without
//! subscribers. They replace several older parameters.

use std::time::Duration;

use strum::EnumString;
use weir_formats::expression::{Expression, Root};

use super::parameter_table::{
    AUTO_COMMAND, FIELD, REPLACED_BY_SNAPSHOTS, SNAPSHOT_IDLE, SNAPSHOT_LENGTH, SNAPSHOT_MODE,
};
use super::parameters::ConnectionParameters;
use super::source::Findings;
use crate::command::{COMMAND_FIELD, KEY_FIELD};
use crate::error::Problem;

/// Snapshots of a connection's items, and the only mode in which they can be subscribed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, EnumString)]
#[strum(serialize_all = "UPPERCASE")]
pub enum SnapshotMode {
    /// The last record of each item.
    Merge,
    /// The last records of each item.
    Distinct,
    /// The last record of each row of each item.
    Command,
}

/// `item.snapshot.*` of a connection whose snapshots are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotConfig {
    /// Mode of all subscriptions.
    pub mode: SnapshotMode,
    /// Maximum number of updates in a snapshot of mode DISTINCT, at least 1.
    pub distinct_length: usize,
    /// Time without records after which the snapshot of an item is discarded, if any.
    pub max_idle: Option<Duration>,
}

const DISTINCT_LENGTH: usize = 10;

impl SnapshotConfig {
    /// Reads the parameters; `None` without a mode, or if it is `NONE`.
    pub(super) fn of(parameters: &ConnectionParameters) -> Option<Self> {
        let mode = parameters.parsed(SNAPSHOT_MODE)?;
        let idle_s = parameters.parsed(SNAPSHOT_IDLE).unwrap_or(0);
        Some(Self {
            mode,
            distinct_length: parameters
                .parsed(SNAPSHOT_LENGTH)
                .unwrap_or(DISTINCT_LENGTH),
            max_idle: (idle_s > 0).then(|| Duration::from_secs(idle_s)),
        })
    }
}

/// Warns of parameters that would change what clients receive if they had an effect.
pub(super) fn warn_of_replaced(parameters: &ConnectionParameters, findings: &mut Findings<'_>) {
    let Some(snapshots) = SnapshotConfig::of(parameters) else {
        return;
    };
    let is_table = snapshots.mode == SnapshotMode::Command;
    let written = REPLACED_BY_SNAPSHOTS
        .iter()
        .filter_map(|one| Some((one, parameters.written(one.0)?)));
    for ((name, same, reason), written) in written {
        let value = written.value.as_str();
        let is_off = *name == AUTO_COMMAND && !is_table && value == "false";
        if *same != Some(value) && !is_off {
            let text = format!("parameter [{name}] = \"{value}\" has no effect: {reason}");
            findings.warn(written.line, text);
        }
    }
    let command = format!("{FIELD}.{COMMAND_FIELD}");
    if let Some(written) = parameters.written(&command).filter(|_| is_table) {
        let text = format!(
            "parameter [{command}] has no effect: with {SNAPSHOT_MODE} the command follows from \
             the records"
        );
        findings.warn(written.line, text);
    }
}

/// Returns the problem with `field.key`, which must identify the Kafka record in mode COMMAND.
pub(super) fn key_problem(parameters: &ConnectionParameters) -> Option<Problem> {
    let snapshots = SnapshotConfig::of(parameters)?;
    if snapshots.mode != SnapshotMode::Command {
        return None;
    }
    let name = format!("{FIELD}.{KEY_FIELD}");
    let Some(written) = parameters.written(&name) else {
        return Some(Problem(format!(
            "parameter [{SNAPSHOT_MODE}] set to [COMMAND] requires [{name}] to be set; write the \
             part of the record key that identifies a row, such as #{{KEY}}"
        )));
    };
    // An invalid expression is reported elsewhere.
    let expression = Expression::parse_wrapped(&written.value).ok()?;
    (expression.root() != Root::Key).then(|| {
        Problem(format!(
            "parameter [{name}] = \"{}\" must be an expression on [KEY] when [{SNAPSHOT_MODE}] is \
             set to [COMMAND], because a record without a value deletes its row",
            written.value
        ))
    })
}
