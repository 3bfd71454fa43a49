//! Estimates of the time that cells take, before and during a run.
//!
//! The constants come from runs on one machine with 2 cores. Before a run they show whether it
//! takes minutes or hours. During a run the measured time corrects them.

use std::time::{Duration, Instant};

use weir_stats::run::LibraryCell;

use super::grid::{LibraryCellSpec, StartMode, cells};
use super::plan::LibrariesPlan;
use super::profile::{DriverOperation, Profile};
use super::requested::requested_drivers;
use crate::BenchError;

/// Cells of a plan, and the estimated time.
#[derive(Debug, Clone, PartialEq)]
pub struct CellList {
    /// Cells in the order in which they run, each with its estimated time.
    pub cells: Vec<(LibraryCell, Duration)>,
    /// Number of drivers that run each cell.
    pub drivers: usize,
    /// Estimated time of the run.
    pub time: Duration,
}

/// Returns the cells that a plan would run. Starts nothing.
///
/// # Errors
/// A pattern of the plan matches no cell, or a library is unknown.
pub fn list_cells(plan: &LibrariesPlan) -> Result<CellList, BenchError> {
    let drivers = requested_drivers(plan)?.len();
    let cells = cells(plan)?.into_iter().map(|spec| {
        let time = cell_time(&spec, plan.profile, drivers);
        (spec.cell, time)
    });
    let cells: Vec<(LibraryCell, Duration)> = cells.collect();
    let sum: Duration = cells.iter().map(|(_, time)| *time).sum();
    let warm_up = match plan.profile {
        Profile::Legacy => Duration::ZERO,
        _ => WARM_UP * u32::try_from(drivers).unwrap_or(u32::MAX),
    };
    let time = START.saturating_add(warm_up).saturating_add(sum);
    Ok(CellList {
        cells,
        drivers,
        time: plan.time_limit.map_or(time, |limit| time.min(limit)),
    })
}

/// Returns the time of all repetitions of a cell with all drivers; 0 for a cell that is skipped.
pub(super) fn cell_time(spec: &LibraryCellSpec, profile: Profile, drivers: usize) -> Duration {
    if spec.cell.skipped.is_some() {
        return Duration::ZERO;
    }
    let turns = f64::from(spec.cell.repetitions) * drivers as f64;
    Duration::from_secs_f64(CELL_S + turns * turn_s(spec, profile))
}

/// Returns the seconds of one repetition of one driver.
fn turn_s(spec: &LibraryCellSpec, profile: Profile) -> f64 {
    let (bytes, records) = (spec.bytes() as f64, spec.cell.records as f64);
    let work_s = bytes / BYTES_PER_S + records / RECORDS_PER_S;
    let is_legacy = profile == Profile::Legacy;
    let start_s = match spec.mode {
        StartMode::Warm => 0.02,
        StartMode::Cold | StartMode::Metadata | StartMode::Legacy => 0.15,
        StartMode::Assign => 0.15,
        StartMode::CopyAssign => 0.2,
        StartMode::CopyGroup if is_legacy => 0.8,
        StartMode::CopyGroup => 0.35,
        StartMode::Group if is_legacy && bytes < FETCH_MIN_BYTES => 0.8,
        StartMode::Group => 0.3,
        StartMode::Burst if is_legacy => 0.8,
        StartMode::Burst | StartMode::Open => 0.25,
    };
    // A topic for each repetition of each driver, unless all read the same.
    let topic_s = match spec.operation() {
        DriverOperation::Consume => 0.0,
        _ => 0.02,
    };
    let schedule_s = spec.cell.rate_per_s.map_or(0.0, |rate| records / rate);
    start_s + topic_s + schedule_s + work_s
}

/// Time left of a run: the estimates, corrected by the time that the cells so far took. The first
/// cells are short and say little about the others, so the correction grows with the time.
#[derive(Debug)]
pub(super) struct TimeLeft {
    began: Instant,
    done_s: f64,
    left_s: f64,
}

impl TimeLeft {
    /// Starts with the estimated time of all cells.
    pub(super) fn new(estimated: Duration) -> Self {
        Self {
            began: Instant::now(),
            done_s: 0.0,
            left_s: estimated.as_secs_f64(),
        }
    }

    /// Counts cells with this estimate as completed.
    pub(super) fn complete(&mut self, estimated: Duration) {
        let seconds = estimated.as_secs_f64();
        self.done_s += seconds;
        self.left_s = (self.left_s - seconds).max(0.0);
    }

    /// Returns the time left; `None` before the first cell has completed.
    pub(super) fn estimate(&self) -> Option<Duration> {
        self.after(self.began.elapsed())
    }

    fn after(&self, elapsed: Duration) -> Option<Duration> {
        let factor = (elapsed.as_secs_f64() + TRUSTED_S) / (self.done_s + TRUSTED_S);
        let seconds = self.left_s * factor;
        (self.done_s > 0.0 && seconds.is_finite()).then(|| Duration::from_secs_f64(seconds))
    }
}

/// Returns for example `12 min` or `1.5 h`.
pub(super) fn length(time: Duration) -> String {
    let minutes = time.as_secs_f64() / 60.0;
    match minutes {
        0.0..90.0 => format!("{:.0} min", minutes.ceil()),
        _ => format!("{:.1} h", minutes / 60.0),
    }
}

/// Time from the start to the first cell, without the warm-up of the drivers.
const START: Duration = Duration::from_secs(15);
/// Warm-up of one driver.
const WARM_UP: Duration = Duration::from_secs(4);
/// Creation and deletion of the topics of a cell.
const CELL_S: f64 = 0.3;
/// Estimated time that counts as much as the measured one.
const TRUSTED_S: f64 = 60.0;
const BYTES_PER_S: f64 = 250e6;
const RECORDS_PER_S: f64 = 800e3;
/// `fetch.min.bytes` of the legacy profile.
const FETCH_MIN_BYTES: f64 = 100e3;

#[cfg(test)]
mod tests {
    use super::super::plan::LibrariesOverrides;
    use super::*;

    #[test]
    fn full_comparison_takes_more_than_half_an_hour() {
        let plan = LibrariesPlan::built_in().unwrap();
        let list = list_cells(&plan).unwrap();
        assert_eq!((list.cells.len(), list.drivers), (135, 3));
        let minutes = list.time.as_secs() / 60;
        assert!((30..240).contains(&minutes), "{minutes}");
        let skipped = list.cells.iter().filter(|(cell, _)| cell.skipped.is_some());
        assert!(skipped.clone().count() > 0);
        assert!(skipped.into_iter().all(|(_, time)| time.is_zero()));
        let limited = LibrariesOverrides {
            time_limit: Some(Duration::from_secs(240)),
            ..LibrariesOverrides::default()
        };
        let list = list_cells(&plan.with(limited, "test").unwrap()).unwrap();
        assert_eq!(list.time, Duration::from_secs(240));
    }

    #[test]
    fn measured_time_corrects_the_estimate() {
        let seconds = Duration::from_secs;
        let mut left = TimeLeft::new(seconds(100));
        assert_eq!(left.after(seconds(10)), None);
        left.complete(seconds(20));
        assert_eq!(left.after(seconds(40)), Some(seconds(100)));
        assert_eq!(left.after(seconds(20)), Some(seconds(80)));
        left.complete(seconds(80));
        assert_eq!(left.after(seconds(200)), Some(Duration::ZERO));
    }

    #[test]
    fn lengths_are_rounded_up_to_minutes() {
        assert_eq!(length(Duration::from_secs(61)), "2 min");
        assert_eq!(length(Duration::from_secs(5400)), "1.5 h");
    }
}
