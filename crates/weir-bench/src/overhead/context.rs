//! Types shared by all cells of an overhead run.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use weir_lab::KafkaTools;

use super::plan::OverheadPlan;
use crate::BenchError;
use weir_load::clock::Clock;

/// State shared by all cells.
pub(super) struct OverheadContext<'a> {
    pub(super) plan: &'a OverheadPlan,
    /// Path of this program; producer, relay and proxy are commands of it.
    pub(super) exe: &'a Path,
    /// Run directory.
    pub(super) dir: PathBuf,
    /// Process ids of the broker; empty if it was not started for the run.
    pub(super) broker_pids: &'a [u32],
    pub(super) tools: Option<KafkaTools>,
    pub(super) stop: &'a AtomicBool,
    pub(super) clock: Clock,
    pub(super) started_unix_ns: u64,
}

/// Reason for a cell without results.
pub(super) enum RunFailure {
    /// The user interrupted the run.
    Interrupted,
    /// The cell failed; the run continues with the other cells.
    Failed(String),
}

impl From<BenchError> for RunFailure {
    fn from(error: BenchError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Client program and direction; also the architecture in results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientSide {
    Produce,
    Consume,
    KafkaProduce,
    KafkaConsume,
}

impl ClientSide {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Consume => "consume",
            Self::KafkaProduce => "kafka-produce",
            Self::KafkaConsume => "kafka-consume",
        }
    }
}

/// Name of the rate parameter of a cell.
pub(super) const RATE: &str = "rate_per_s";
