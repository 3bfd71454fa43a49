//! Model of `run.json`: the run, its environment, and the measurements of each cell.
//!
//! Every field with a unit ends in it (`_ns`, `_us`, `_ms`, `_s`, `_bytes`, `_per_s`, `_cores`);
//! other fields are plain counts. Values that may be undefined (no sample, not measured) are
//! `None`, never zero.
//!
//! A run directory contains the raw results and this file. Everything else is rebuilt from them:
//!
//! | file | content |
//! |---|---|
//! | `<cell>.hlog` | raw: interval histograms of one cell, one tag per stage ([`crate::hlog`]) |
//! | `run.json` | this model, written after the `.hlog` files |
//! | `*.csv`, `*.svg`, `report.md`, `report.html` | rebuilt by `weir bench report` |

mod backlog;
mod cell;
mod comparison;
mod confidence;
mod environment;
mod experiment;
mod find_max;
mod latency;
mod libraries;
mod noise;
mod quality;
mod repetitions;
mod threshold;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::Headline;

pub use backlog::{BACKLOG_DELIVERIES, BACKLOG_DRAIN_S, BACKLOG_DRAINED_PER_S};
pub use cell::{
    Cell, CellStatus, DeliveryTotals, Fairness, RoleUsage, STAGE_PUBLISH_ACK, STAGE_RESPONSE,
    STAGE_SCHEDULE_LAG, STAGE_SERVICE, STAGE_STORED_TO_CLIENT, SdkProbe, SeriesPoint, ShareResult,
};
pub use comparison::{
    Comparison, ComparisonSide, ComparisonSubject, MetricComparison, SubjectComparison, Verdict,
};
pub use confidence::{Confidence, ConfidenceLevel};
pub use environment::{
    ClockInfo, ClockMode, Machine, Placement, ReferenceFigures, ReferenceRow, Setting, SettingGroup,
};
pub use experiment::{Derived, DerivedFrom, StageMean};
pub use find_max::{FindMax, FindMaxOutcome, FindMaxPhase, FindMaxStep};
pub use latency::LatencySummary;
pub use libraries::{
    Distribution, Libraries, LibraryCell, LibraryDriver, LibrarySample, LibrarySetting,
};
pub use noise::NoiseFloor;
pub use quality::{GeneratorCost, MachineUsage, NoisySpan, Steadiness};
pub use repetitions::Repetitions;
pub use threshold::{ThresholdCounts, ThresholdResult, ThresholdStatus};

/// Value of [`Run::schema`] that this version writes and reads.
pub const SCHEMA: &str = "weir.run/3";
/// Name of the file in a run directory.
pub const FILE_NAME: &str = "run.json";

/// One run of one plan.
///
/// Field names end in their unit if they have one. Unknown values are `null`, never zero. Later
/// versions may add fields; readers ignore unknown fields.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "`run.json` of a Weir run directory")]
pub struct Run {
    /// Format version. Readers reject any other version.
    #[schemars(extend("const" = SCHEMA))]
    pub schema: String,
    /// Name of the plan, as in `weir bench run NAME`.
    pub plan: String,
    /// Heading of the report.
    pub title: String,
    /// Question that the run answers, in one sentence.
    pub question: String,
    /// Start time in UTC, RFC 3339.
    pub started_utc: String,
    /// End time in UTC, RFC 3339.
    pub finished_utc: String,
    /// Command as typed, program name first.
    pub command_line: Vec<String>,
    /// Version of Weir that ran the plan.
    pub weir_version: String,
    /// Outcome of the whole run; determines the exit code.
    pub outcome: RunOutcome,
    /// How far the results can be relied on.
    pub confidence: Confidence,
    /// Answer to the question in one sentence; first line of every report.
    #[serde(default)]
    pub answer: String,
    /// The number of the answer, for trends over several runs.
    #[serde(default)]
    pub headline: Option<Headline>,
    /// Result of the newest A/A test of the plan on this machine; `null` if there is none.
    #[serde(default)]
    pub aa_test: Option<NoiseFloor>,
    /// Verdict on each subject.
    pub verdict: String,
    /// Declared limits and their results.
    #[serde(default)]
    pub thresholds: Vec<ThresholdResult>,
    /// Machine that coordinated the run.
    pub machine: Machine,
    /// Placement of each role.
    #[serde(default)]
    pub placement: Vec<Placement>,
    /// Method of comparing timestamps from different processes.
    pub clock: ClockInfo,
    /// Versions of the software involved: `kafka`, `java`, `librdkafka`, an SDK ...
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Resolved settings, grouped by part, in reading order.
    #[serde(default)]
    pub settings: Vec<SettingGroup>,
    /// Measurements, in the order in which the cells ran.
    #[serde(default)]
    pub cells: Vec<Cell>,
    /// Comparisons between variants of this run, or with a baseline run.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// Search for the maximum sustained load; `null` for other runs.
    pub find_max: Option<FindMax>,
    /// Comparison of client libraries; `null` for other runs.
    pub libraries: Option<Libraries>,
    /// Results computed from several cells.
    #[serde(default)]
    pub derived: Vec<Derived>,
    /// Published reference results, measured on other hardware.
    pub reference: Option<ReferenceFigures>,
    /// Notes for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
    /// Problems that may invalidate results, each with its remedy.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Raw files in the run directory.
    #[serde(default)]
    pub files: Vec<RunFile>,
}

/// The outcome of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// A complete run. No threshold failed; it may be that none was checked.
    #[default]
    Complete,
    /// A complete run that failed at least one threshold.
    ThresholdFailed,
    /// A run in which a requested subject took no part: the comparison is not the requested one.
    Incomplete,
    /// A failure of the benchmarking tool: the results do not describe the system under test.
    Invalid,
    /// A run stopped by the user; measurements until then are valid.
    Interrupted,
}

/// Raw file in the run directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunFile {
    /// Path relative to the run directory.
    pub path: String,
    /// Description of the content.
    pub description: String,
}

/// The reason why a text is not a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Text that is not JSON or lacks the structure of a run.
    #[error("run file is not valid: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version of the format.
    #[error("run file has schema {found:?}, this version reads {SCHEMA:?}")]
    Schema {
        /// Schema in the file.
        found: String,
    },
}

impl Run {
    /// Parses `run.json`. Ignores fields added by later minor versions.
    ///
    /// # Errors
    /// The text is not JSON, has another schema, or lacks a field.
    pub fn from_json(text: &str) -> Result<Self, RunError> {
        #[derive(Deserialize)]
        struct RunHeader {
            #[serde(default)]
            schema: String,
        }
        // Checks the schema first, so that the error names it instead of a missing field.
        let head: RunHeader = serde_json::from_str(text)?;
        if head.schema != SCHEMA {
            return Err(RunError::Schema { found: head.schema });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// Returns the variant to compare with if several connections to a broker alternate: the direct
    /// one, otherwise a relay, otherwise the first that ran.
    pub fn base_variant(&self) -> Option<&str> {
        let ways = || self.cells.iter().filter_map(|cell| cell.variant.as_deref());
        let known = ["direct", "relay"].into_iter();
        let mut known = known.filter(|name| ways().any(|way| way == *name));
        known.next().or_else(|| ways().next())
    }

    /// Returns the text of `run.json`, indented and with a final line feed.
    pub fn to_json(&self) -> String {
        // Invariant: all map keys are strings; serde_json rejects nothing else.
        let mut text = serde_json::to_string_pretty(self).expect("a run is always valid JSON");
        text.push('\n');
        text
    }

    /// Returns the architectures in the order in which they first ran.
    pub fn architectures(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.architecture.as_str()) {
                names.push(&cell.architecture);
            }
        }
        names
    }
}

#[cfg(test)]
pub(crate) mod tests;
