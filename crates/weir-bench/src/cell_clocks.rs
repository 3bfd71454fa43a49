//! Clocks of a cell's machines: corrections at the start of each process, and the bound of their
//! error at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use weir_engine::machines::{ConnectedMachine, Machines};
use weir_engine::session::{RoleProcessRequest, RoleProgram};
use weir_stats::run::{Cell, CellStatus};

use super::child::ProcessRole;
use crate::experiment::turns::{CellFailure, CellResult};

/// Clock corrections with which the processes of a cell were started.
#[derive(Debug, Default)]
pub(super) struct CellClocks {
    /// Clock offset in nanoseconds with which all processes of a machine were started, by machine.
    offsets: BTreeMap<String, i64>,
    /// Machines with processes that take timestamps; `None`: this one.
    timed: BTreeSet<Option<String>>,
}

impl CellClocks {
    /// Notes that a process of a role starts on a machine; `None`: on this one.
    pub(super) fn starts(&mut self, role: ProcessRole, machine: Option<&ConnectedMachine>) {
        if role.takes_timestamps() {
            self.timed
                .insert(machine.map(|machine| machine.name.clone()));
        }
    }

    /// Returns the request for a process on a machine, with the files that its arguments name.
    pub(super) fn request(
        &mut self,
        machine: &ConnectedMachine,
        args: &[String],
    ) -> CellResult<RoleProcessRequest> {
        let offset_ns = match self.offsets.get(&machine.name) {
            // The processes of a machine share its clock, so they must share its correction.
            Some(&known) => known,
            None => {
                let bound = machine.clock_now();
                let bound = bound.map_err(|error| failure(machine, &error))?;
                self.offsets.insert(machine.name.clone(), bound.offset_ns);
                bound.offset_ns
            }
        };
        Ok(RoleProcessRequest {
            program: RoleProgram::Weir,
            args: args.to_vec(),
            files: files(args)?,
            ready_file: None,
            clock_offset_ns: -offset_ns,
        })
    }

    /// Returns the largest possible difference in nanoseconds between the clocks of any two
    /// processes of the cell from `from_unix_ns` to `until_unix_ns`; `None` if all timestamps are
    /// those of one clock, as in the echo layout.
    pub(super) fn bound_ns(
        &self,
        machines: Option<&Machines>,
        (from_unix_ns, until_unix_ns): (u64, u64),
    ) -> CellResult<Option<u64>> {
        let mut errors_ns = Vec::new();
        for machine in machines.into_iter().flat_map(Machines::all) {
            let corrected_ns = self.offsets.get(&machine.name);
            let is_timed = self.timed.contains(&Some(machine.name.clone()));
            let Some(&corrected_ns) = corrected_ns.filter(|_| is_timed) else {
                continue;
            };
            let bound = machine.clock(from_unix_ns, until_unix_ns);
            let bound = bound.map_err(|error| failure(machine, &error))?;
            errors_ns.push(bound.offset_ns.abs_diff(corrected_ns) + bound.error_ns);
        }
        // Of one clock only the steps matter, which are errors above.
        if self.timed.len() <= 1 {
            return Ok(None);
        }
        // The errors of two machines can add up. This machine has none.
        errors_ns.sort_unstable_by(|a, b| b.cmp(a));
        Ok(Some(errors_ns.iter().take(2).sum()))
    }
}

/// Adds the bound of the clocks to the notes of a cell with results. Makes the cell invalid if the
/// bound is too wide for its latency.
pub(super) fn check(cell: &mut Cell, bound_ns: u64) {
    let bound_us = bound_ns as f64 / 1e3;
    cell.notes.push(format!(
        "latencies between machines: ± {bound_us:.0} us (clocks)"
    ));
    let p50_us = cell.response().and_then(|response| response.p50_us);
    let Some(p50_us) = p50_us.filter(|p50_us| bound_us > p50_us * BOUND_SHARE_MAX) else {
        return;
    };
    let reason = format!(
        "the clocks of the machines differ by up to {bound_us:.0} us, more than a tenth of the \
         median response time of {p50_us:.0} us: run producers and clients on one machine, or \
         improve the clocks"
    );
    match &mut cell.status {
        CellStatus::Valid => {
            cell.status = CellStatus::Invalid {
                reasons: vec![reason],
            };
        }
        CellStatus::Invalid { reasons } => reasons.push(reason),
        CellStatus::Skipped { .. } => {}
    }
}

fn failure(machine: &ConnectedMachine, error: &dyn std::error::Error) -> CellFailure {
    CellFailure::because(format!("clock of machine {}: {error}", machine.name))
}

/// Returns the paths and contents of the files that the options name.
fn files(args: &[String]) -> CellResult<Vec<(PathBuf, String)>> {
    let pairs = args
        .windows(2)
        .filter(|pair| FILE_OPTIONS.contains(&pair[0].as_str()));
    pairs.map(|pair| file(Path::new(&pair[1]))).collect()
}

/// Returns path and content of a file.
pub(super) fn file(path: &Path) -> CellResult<(PathBuf, String)> {
    let text = fs::read_to_string(path);
    let failed = |error| CellFailure::because(format!("cannot read {}: {error}", path.display()));
    text.map(|text| (path.to_owned(), text)).map_err(failed)
}

/// Largest bound of the clocks as a share of the median response time.
const BOUND_SHARE_MAX: f64 = 0.1;
/// Options of processes whose values are files.
const FILE_OPTIONS: [&str; 7] = [
    "--adapters",
    "--config",
    "--lightstreamer-conf",
    "--kafka-config",
    "--schema",
    "--registry-config",
    "--replay",
];

#[cfg(test)]
mod tests {
    use weir_stats::run::{LatencySummary, STAGE_RESPONSE};

    use super::*;

    #[test]
    fn wide_bound_makes_cell_invalid() {
        let response = LatencySummary {
            p50_us: Some(2_000.0),
            ..LatencySummary::default()
        };
        let mut cell = Cell {
            latency: BTreeMap::from([(STAGE_RESPONSE.to_owned(), response)]),
            ..Cell::default()
        };
        check(&mut cell, 200_000);
        assert!(cell.is_valid(), "{:?}", cell.status);
        assert_eq!(
            cell.notes,
            ["latencies between machines: ± 200 us (clocks)"]
        );
        check(&mut cell, 201_000);
        assert!(!cell.is_valid());
    }

    #[test]
    fn files_of_options_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("client.properties");
        fs::write(&path, "a=b").unwrap();
        let name = path.display().to_string();
        let args = ["load", "produce", "--kafka-config", &name, "--topic", "t"];
        let args = args.map(str::to_owned);
        assert_eq!(files(&args).unwrap(), [(path, "a=b".to_owned())]);
        let missing = ["--schema", "/nowhere"].map(str::to_owned);
        assert!(files(&missing).is_err());
    }
}
