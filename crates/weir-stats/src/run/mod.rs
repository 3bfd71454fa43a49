//! Model of `run.json`: what a run was, where it ran, and what each cell measured.
//!
//! Every field that has a unit ends in it (`_ns`, `_us`, `_ms`, `_s`, `_bytes`, `_per_s`, `_cores`); others are
//! plain counts. Figures that may be undefined (no sample, not measured) are `None`, never zero.
//!
//! A run folder holds the raw results and this file; everything else is rebuilt from them:
//!
//! | file | content |
//! |---|---|
//! | `<cell>.hlog` | raw: interval histograms of one cell, one tag per stage ([`crate::hlog`]) |
//! | `run.json` | this model, written after the `.hlog` files |
//! | `cells.csv`, `series.csv`, `*.svg`, `report.md`, `report.html` | rebuilt by `weir bench report` |

mod cell;
mod comparison;
mod environment;
mod experiment;
mod find_max;
mod latency;
mod libraries;
mod quality;
mod repetitions;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use cell::{
    Cell, CellStatus, DeliveryTotals, Fairness, RoleUsage, STAGE_PUBLISH_ACK, STAGE_RESPONSE,
    STAGE_SCHEDULE_LAG, STAGE_SERVICE, STAGE_STORED_TO_CLIENT, SdkProbe, SeriesPoint,
};
pub use comparison::{
    Comparison, ComparisonSide, ComparisonSubject, MetricComparison, SubjectComparison, Verdict,
};
pub use environment::{
    ClockInfo, ClockMode, Machine, Placement, ReferenceFigures, ReferenceRow, Setting, SettingGroup,
};
pub use experiment::{Derived, DerivedFrom, StageMean};
pub use find_max::{FindMax, FindMaxOutcome, FindMaxPhase, FindMaxStep};
pub use latency::LatencySummary;
pub use libraries::{
    Distribution, Libraries, LibraryCell, LibraryDriver, LibrarySample, LibrarySetting,
};
pub use quality::{GeneratorCost, MachineUsage, NoisySpan, Steadiness};
pub use repetitions::Repetitions;

/// Value of [`Run::schema`] that this version writes and reads.
pub const SCHEMA: &str = "weir.run/1";
/// Name of the file in a run folder.
pub const FILE_NAME: &str = "run.json";

/// One run of one plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// [`SCHEMA`]; a reader refuses any other major version.
    pub schema: String,
    /// Name of the plan, as in `weir bench run NAME`.
    pub plan: String,
    /// Heading of the report.
    pub title: String,
    /// What the run is meant to answer, one sentence.
    pub question: String,
    /// Start in UTC, RFC 3339.
    pub started_utc: String,
    /// End in UTC, RFC 3339.
    pub finished_utc: String,
    /// The command as typed, program name first.
    pub command_line: Vec<String>,
    /// Version of this program.
    pub weir_version: String,
    /// How the run as a whole ended; decides the exit code.
    pub outcome: RunOutcome,
    /// The answer in one or two sentences; first line of every report.
    pub verdict: String,
    /// Declared limits and whether they held.
    #[serde(default)]
    pub thresholds: Vec<ThresholdResult>,
    /// The machine that coordinated the run.
    pub machine: Machine,
    /// Where each role ran.
    #[serde(default)]
    pub placement: Vec<Placement>,
    /// How instants of different processes were compared.
    pub clock: ClockInfo,
    /// Versions of what took part: `kafka`, `java`, `librdkafka`, an SDK ...
    #[serde(default)]
    pub versions: BTreeMap<String, String>,
    /// Resolved settings, grouped by part, in the order they should be read.
    #[serde(default)]
    pub settings: Vec<SettingGroup>,
    /// The measurements, in the order they ran.
    #[serde(default)]
    pub cells: Vec<Cell>,
    /// Variants of this run beside each other, or this run beside a baseline.
    #[serde(default)]
    pub comparisons: Vec<Comparison>,
    /// The search for a highest load, if this run was one.
    #[serde(default)]
    pub find_max: Option<FindMax>,
    /// The comparison of client libraries, if this run was one.
    #[serde(default)]
    pub libraries: Option<Libraries>,
    /// Figures that follow from several cells.
    #[serde(default)]
    pub derived: Vec<Derived>,
    /// Published figures to stand beside ours, from other hardware.
    #[serde(default)]
    pub reference: Option<ReferenceFigures>,
    /// Remarks for the reader.
    #[serde(default)]
    pub notes: Vec<String>,
    /// What may spoil the figures, each with its remedy.
    #[serde(default)]
    pub warnings: Vec<String>,
    /// Raw files of the run folder, relative to it.
    #[serde(default)]
    pub files: Vec<RunFile>,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// All measured, all thresholds held.
    Passed,
    /// All measured, a threshold did not hold.
    ThresholdFailed,
    /// The instrument failed: the figures do not show the system under test.
    Invalid,
    /// Stopped by the user; what was measured until then stands.
    Interrupted,
}

/// One declared limit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ThresholdResult {
    /// The limit as declared, e.g. `gateway.cpu_us_per_delivered / floor.cpu_us_per_delivered <= 1.35`.
    pub expression: String,
    /// Which cells it looked at, e.g. `10000 clients`.
    pub scope: String,
    /// What was measured; `None` when it could not be.
    pub actual: Option<f64>,
    /// The limit.
    pub limit: f64,
    /// Unit of both, `x` for a ratio.
    pub unit: String,
    /// Whether it held; a figure that is missing does not hold.
    pub passed: bool,
}

/// A raw file of the run folder.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunFile {
    /// Path relative to the run folder.
    pub path: String,
    /// What it holds.
    pub description: String,
}

/// Why a text is not a run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Not JSON, or not the shape of a run.
    #[error("run file is not valid: {0}")]
    Json(#[from] serde_json::Error),
    /// Another version of the format.
    #[error("run file has schema {found:?}, this version reads {SCHEMA:?}")]
    Schema {
        /// What the file names.
        found: String,
    },
}

impl Run {
    /// Reads `run.json`; fields added by later minor versions are ignored.
    ///
    /// # Errors
    /// When the text is not JSON, names another schema, or lacks a field.
    pub fn from_json(text: &str) -> Result<Self, RunError> {
        #[derive(Deserialize)]
        struct RunHeader {
            #[serde(default)]
            schema: String,
        }
        // The version is looked at first, so that another one is named instead of a missing field.
        let head: RunHeader = serde_json::from_str(text)?;
        if head.schema != SCHEMA {
            return Err(RunError::Schema { found: head.schema });
        }
        Ok(serde_json::from_str(text)?)
    }

    /// Where ways to a broker take turns, the variant that others are held against: none between, else a relay, else the
    /// first that ran.
    pub fn base_way(&self) -> Option<&str> {
        let ways = || self.cells.iter().filter_map(|cell| cell.variant.as_deref());
        let known = ["direct", "relay"].into_iter();
        let mut known = known.filter(|name| ways().any(|way| way == *name));
        known.next().or_else(|| ways().next())
    }

    /// Writes `run.json`, indented, ending in a line feed.
    pub fn to_json(&self) -> String {
        // Invariant: all map keys are strings, the only thing serde_json can refuse.
        let mut text = serde_json::to_string_pretty(self).expect("a run is always valid JSON");
        text.push('\n');
        text
    }

    /// Client levels in ascending order.
    pub fn levels(&self) -> Vec<u64> {
        let mut levels: Vec<u64> = self.cells.iter().map(|cell| cell.clients).collect();
        levels.sort_unstable();
        levels.dedup();
        levels
    }

    /// Architectures in the order they first ran.
    pub fn architectures(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for cell in &self.cells {
            if !names.contains(&cell.architecture.as_str()) {
                names.push(&cell.architecture);
            }
        }
        names
    }

    /// All repetitions of one architecture at one level.
    pub fn cells_of<'a>(
        &'a self,
        architecture: &'a str,
        clients: u64,
    ) -> impl Iterator<Item = &'a Cell> {
        self.cells
            .iter()
            .filter(move |cell| cell.architecture == architecture && cell.clients == clients)
    }
}

#[cfg(test)]
pub(crate) mod tests;
