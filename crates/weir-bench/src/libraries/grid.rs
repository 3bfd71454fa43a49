//! Cells of a run: their order, and the reasons for skipped cells.

use weir_drivers::Burst;
use weir_stats::run::LibraryCell;

use super::plan::LibrariesPlan;
use super::profile::{DriverOperation, KEY_BYTES, Largest, Profile};
use crate::BenchError;
use crate::experiment::names::names;

/// Start state or mode of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartMode {
    Cold,
    Metadata,
    Warm,
    /// Start state of each library in the published program.
    Legacy,
    Group,
    Assign,
    CopyGroup,
    CopyAssign,
    Burst,
    Open,
}

// The mode of the published program, then the others in the order of a full run.
names!(pub(super) StartMode, "mode": Legacy = "legacy", Warm = "warm", Metadata = "metadata",
    Cold = "cold", Assign = "assign", Group = "group", CopyAssign = "assign", CopyGroup = "group",
    Burst = "burst", Open = "open");

impl StartMode {
    pub(super) fn operation(self) -> DriverOperation {
        match self {
            Self::Cold | Self::Metadata | Self::Warm | Self::Legacy => DriverOperation::Produce,
            Self::Group | Self::Assign => DriverOperation::Consume,
            Self::CopyGroup | Self::CopyAssign => DriverOperation::Copy,
            Self::Burst | Self::Open => DriverOperation::RoundTrip,
        }
    }

    /// Returns the modes of a profile in the order of a full run.
    fn of(profile: Profile) -> &'static [Self] {
        match profile {
            Profile::Legacy => &[Self::Legacy, Self::Group, Self::CopyGroup, Self::Burst],
            Profile::Fair | Profile::DefaultSettings => &Self::ALL[1..],
        }
    }

    /// Returns operation and mode, as in names of cells and capabilities.
    fn full_name(self) -> String {
        format!("{}.{}", self.operation().name(), self.name())
    }

    /// Returns the capability that a driver of `library` needs.
    pub(super) fn capability(self, library: &str) -> String {
        let start = match self {
            Self::Legacy if Profile::knows_metadata(library) => Self::Metadata,
            Self::Legacy => Self::Cold,
            other => other,
        };
        start.full_name()
    }
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct LibraryCellSpec {
    pub(super) mode: StartMode,
    /// Description in results; `skipped` is the reason why the cell is not run.
    pub(super) cell: LibraryCell,
}

impl LibraryCellSpec {
    /// Creates a cell; `number` is the rate of an open loop, or the number of records.
    pub(super) fn new(
        plan: &LibrariesPlan,
        mode: StartMode,
        value_bytes: u64,
        number: u64,
    ) -> Self {
        let (separator, records, rate) = match mode {
            StartMode::Open => {
                let rate = number as f64;
                let records = (rate * plan.open_loop_hold.as_secs_f64()) as u64;
                ('@', records.max(1), Some(rate))
            }
            _ => ('x', number, None),
        };
        let cell = LibraryCell {
            name: format!("{}/{value_bytes}{separator}{number}", mode.full_name()),
            operation: mode.operation().name().to_owned(),
            mode: mode.name().to_owned(),
            value_bytes,
            records,
            rate_per_s: rate,
            repetitions: plan.repetitions,
            skipped: None,
        };
        Self { mode, cell }
    }

    pub(super) fn operation(&self) -> DriverOperation {
        self.mode.operation()
    }

    /// Returns the size of keys and values of a repetition.
    pub(super) fn bytes(&self) -> u64 {
        let record_bytes = self.cell.value_bytes.saturating_add(KEY_BYTES);
        self.cell.records.saturating_mul(record_bytes)
    }

    /// Returns the maximum disk usage of one topic of the cell.
    pub(super) fn disk_bytes(&self) -> u64 {
        let overhead = self.cell.records.saturating_mul(RECORD_OVERHEAD);
        self.bytes()
            .saturating_add(overhead.saturating_add(TOPIC_OVERHEAD))
    }

    pub(super) fn burst(&self, topic: &str, seed: u64) -> Burst {
        Burst {
            topic: topic.to_owned(),
            len: self.cell.value_bytes,
            count: self.cell.records,
            seed,
        }
    }

    fn size(&self) -> (u64, u64) {
        (self.cell.value_bytes, self.cell.records)
    }

    /// Returns `true` if the cell reads what `produce` has written.
    pub(super) fn consumes_of(&self, produce: &Self) -> bool {
        produce.operation() == DriverOperation::Produce
            && self.operation() == DriverOperation::Consume
            && self.size() == produce.size()
    }
}

/// Returns the cells that match the plan's patterns, each once, in the order of the patterns.
pub(super) fn cells(plan: &LibrariesPlan) -> Result<Vec<LibraryCellSpec>, BenchError> {
    let grid = grid(plan);
    let mut chosen: Vec<LibraryCellSpec> = Vec::new();
    for pattern in &plan.cells {
        let matching = grid.iter().filter(|spec| matches(pattern, &spec.cell.name));
        let mut found: Vec<LibraryCellSpec> = matching.cloned().collect();
        if found.is_empty() {
            found.extend(parse(pattern, plan));
        }
        if found.is_empty() {
            let modes = StartMode::of(plan.profile).iter();
            let modes: Vec<String> = modes.map(|mode| mode.full_name()).collect();
            return Err(BenchError::Libraries(format!(
                "no cell of profile {} matches \"{pattern}\"; use for example {}/1000x*, with \
                 one of {}",
                plan.profile.name(),
                modes[0],
                modes.join(", ")
            )));
        }
        for mut spec in found {
            if chosen.iter().all(|other| other.cell.name != spec.cell.name) {
                limit(plan, pattern, &mut spec.cell);
                chosen.push(spec);
            }
        }
    }
    if plan.profile == Profile::Legacy {
        pair_legacy_cells(&mut chosen);
    }
    Ok(chosen)
}

/// Returns all cells on the plan's axes.
fn grid(plan: &LibrariesPlan) -> Vec<LibraryCellSpec> {
    let sizes = &plan.value_sizes_bytes;
    let mut cells = Vec::new();
    for &mode in StartMode::of(plan.profile) {
        let cell = |bytes: u64, number: u64| LibraryCellSpec::new(plan, mode, bytes, number);
        let numbers = match mode {
            StartMode::Open => {
                for &bytes in sizes {
                    cells.extend(plan.rates_per_s.iter().map(|rate| cell(bytes, *rate)));
                }
                continue;
            }
            StartMode::CopyGroup | StartMode::CopyAssign | StartMode::Burst => {
                std::slice::from_ref(&plan.roundtrip_records)
            }
            _ => &plan.burst_records,
        };
        for &records in numbers {
            cells.extend(sizes.iter().map(|bytes| cell(*bytes, records)));
        }
    }
    cells
}

/// Returns the cell with this name, which need not be on the plan's axes.
fn parse(name: &str, plan: &LibrariesPlan) -> Option<LibraryCellSpec> {
    let (head, size) = name.split_once('/')?;
    let mut modes = StartMode::of(plan.profile).iter().copied();
    let mode = modes.find(|mode| mode.full_name() == head)?;
    let separator = if mode == StartMode::Open { '@' } else { 'x' };
    let (value_bytes, number) = size.split_once(separator)?;
    let (value_bytes, number) = (value_bytes.parse().ok()?, number.parse().ok()?);
    let in_range = (1..=VALUE_BYTES_MAX).contains(&value_bytes);
    let in_range = in_range && (1..=NUMBER_MAX).contains(&number);
    in_range.then(|| LibraryCellSpec::new(plan, mode, value_bytes, number))
}

fn limit(plan: &LibrariesPlan, pattern: &str, cell: &mut LibraryCell) {
    let values = cell.records.saturating_mul(cell.value_bytes);
    if let Some(rate) = cell.rate_per_s {
        let per_s = rate * cell.value_bytes as f64;
        let most = plan.open_bytes_per_s_max as f64;
        // A cell that is named explicitly is run anyway.
        if per_s > most && pattern.contains('*') {
            let (mb, max) = (per_s / 1e6, most / 1e6);
            cell.skipped = Some(format!(
                "{mb:.0} MB/s, above open_bytes_per_s_max = {max:.0} MB/s; name the cell to run it"
            ));
        }
    } else if values > plan.large_cell_bytes {
        cell.repetitions = cell.repetitions.min(plan.large_cell_repetitions);
        if cell.repetitions == 0 {
            let gb = values as f64 / 1e9;
            cell.skipped = Some(format!(
                "{gb:.1} GB per repetition, above large_cell_bytes; \
                 use --large-cell-repetitions 3 to run it three times"
            ));
        }
    }
}

/// Moves the consume cell of each size behind its produce cell, because they run together: the
/// records that are produced are consumed.
fn pair_legacy_cells(cells: &mut [LibraryCellSpec]) {
    let mut at = 0;
    while at < cells.len() {
        let (first, rest) = (&cells[at], &cells[at + 1..]);
        let is_pair =
            |other: &LibraryCellSpec| other.consumes_of(first) || first.consumes_of(other);
        if let Some(found) = rest.iter().position(is_pair) {
            cells[at + 1..=at + 1 + found].rotate_right(1);
            if cells[at].operation() == DriverOperation::Consume {
                cells.swap(at, at + 1);
            }
            at += 1;
        }
        at += 1;
    }
}

/// Returns the largest burst and the largest value of all cells that run.
pub(super) fn largest(cells: &[LibraryCellSpec]) -> Largest {
    let run = cells.iter().filter(|spec| spec.cell.skipped.is_none());
    run.fold(Largest::default(), |largest, spec| Largest {
        value_bytes: largest.value_bytes.max(spec.cell.value_bytes),
        records: largest.records.max(spec.cell.records),
        bytes: largest.bytes.max(spec.bytes()),
    })
}

/// Returns `true` if `name` matches `pattern`; `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    let Some(left) = name.strip_prefix(start) else {
        return false;
    };
    match rest.split_once('*') {
        None => left.ends_with(rest),
        // The first place leaves the most text for the other parts.
        Some((part, _)) => left.find(part).is_some_and(|at| matches(rest, &left[at..])),
    }
}

/// Lengths, offsets and the batch header of small batches.
const RECORD_OVERHEAD: u64 = 100;
/// Indexes, the end of the last segment and the directory.
const TOPIC_OVERHEAD: u64 = 64 << 10;
const VALUE_BYTES_MAX: u64 = 10_000_000;
const NUMBER_MAX: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::super::plan::LibrariesOverrides;
    use super::*;
    use crate::plan::Valid;

    fn plan(overrides: LibrariesOverrides) -> Valid<LibrariesPlan> {
        let plan = LibrariesPlan::built_in().unwrap();
        plan.with(overrides, "test").unwrap()
    }

    fn chosen(profile: Profile, patterns: &[&str]) -> Result<Vec<String>, BenchError> {
        let cells = patterns.iter().map(|it| (*it).to_owned()).collect();
        let plan = plan(LibrariesOverrides {
            profile: Some(profile),
            cells: Some(cells),
            ..LibrariesOverrides::default()
        });
        Ok(super::cells(&plan)?
            .iter()
            .map(|spec| spec.cell.name.clone())
            .collect())
    }

    #[test]
    fn full_grid_has_all_modes_and_sizes() {
        let all = cells(&LibrariesPlan::built_in().unwrap()).unwrap();
        let count = |mode| all.iter().filter(|cell| cell.mode == mode).count();
        for mode in [
            StartMode::Cold,
            StartMode::Metadata,
            StartMode::Warm,
            StartMode::Group,
            StartMode::Assign,
        ] {
            assert_eq!(count(mode), 20, "{mode:?}");
        }
        for mode in [
            StartMode::CopyGroup,
            StartMode::CopyAssign,
            StartMode::Burst,
        ] {
            assert_eq!(count(mode), 5, "{mode:?}");
        }
        assert_eq!(count(StartMode::Open), 20);
        assert_eq!(count(StartMode::Legacy), 0);
        let mut names: Vec<String> = all.iter().map(|spec| spec.cell.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 135);
        for name in [
            "produce.warm/1000x10000",
            "consume.group/100x100",
            "copy.assign/1000x10000",
            "roundtrip.open/1000@5000",
            "roundtrip.burst/10x10000",
        ] {
            assert!(names.iter().any(|have| have == name), "{name}");
        }
    }

    #[test]
    fn cells_above_limits_are_skipped_with_remedy() {
        let all = cells(&LibrariesPlan::built_in().unwrap()).unwrap();
        let reason = |name: &str| {
            let spec = all.iter().find(|spec| spec.cell.name == name).unwrap();
            spec.cell.skipped.clone()
        };
        let big = reason("produce.warm/100000x10000").unwrap();
        assert!(
            big.contains("1.0 GB") && big.contains("--large-cell-repetitions"),
            "{big}"
        );
        assert_eq!(reason("produce.warm/100000x1000"), None);
        assert_eq!(reason("roundtrip.open/1000@50000"), None);
        let fast = reason("roundtrip.open/10000@10000").unwrap();
        assert!(fast.contains("100 MB/s"), "{fast}");

        let opted_in = plan(LibrariesOverrides {
            large_cell_repetitions: Some(3),
            cells: Some(vec!["*/100000x*".to_owned()]),
            ..LibrariesOverrides::default()
        });
        let cells = cells(&opted_in).unwrap();
        let big = cells
            .iter()
            .find(|spec| spec.cell.records == 10_000)
            .unwrap();
        assert_eq!((big.cell.repetitions, &big.cell.skipped), (3, &None));
        assert_eq!(cells[0].cell.repetitions, 20);
        assert_eq!(largest(&cells).bytes, 1_000_080_000);
    }

    #[test]
    fn patterns_select_and_order_cells() {
        let found = chosen(
            Profile::Fair,
            &[
                "produce.warm/1000x*",
                "consume.*/10x10",
                "produce.warm/1000x10",
            ],
        );
        assert_eq!(
            found.unwrap(),
            [
                "produce.warm/1000x10",
                "produce.warm/1000x100",
                "produce.warm/1000x1000",
                "produce.warm/1000x10000",
                "consume.assign/10x10",
                "consume.group/10x10",
            ]
        );
        // Cells that are not on the axes.
        let found = chosen(
            Profile::Fair,
            &["consume.assign/1000x400000", "roundtrip.open/7@30"],
        );
        assert_eq!(
            found.unwrap(),
            ["consume.assign/1000x400000", "roundtrip.open/7@30"]
        );
        for wrong in [
            "produce.hot/*",
            "produce.warm",
            "produce.warm/0x10",
            "produce.warm/10@10",
            "",
        ] {
            let error = chosen(Profile::Fair, &[wrong]).unwrap_err().to_string();
            assert!(error.contains("produce.warm/1000x*"), "{error}");
        }
    }

    #[test]
    fn legacy_profile_produces_then_consumes_each_size() {
        let found = chosen(
            Profile::Legacy,
            &["consume.group/10x*", "*/10x100", "produce.*/10x10"],
        );
        assert_eq!(
            found.unwrap(),
            [
                "produce.legacy/10x10",
                "consume.group/10x10",
                "produce.legacy/10x100",
                "consume.group/10x100",
                "consume.group/10x1000",
                "consume.group/10x10000",
            ]
        );
        let all = chosen(Profile::Legacy, &["*"]).unwrap();
        assert_eq!(all.len(), 50);
        assert_eq!(all[..2], ["produce.legacy/10x10", "consume.group/10x10"]);
        assert_eq!(all[40], "copy.group/10x10000");
        assert_eq!(all[45], "roundtrip.burst/10x10000");
    }

    #[test]
    fn stars_match_any_text() {
        for (pattern, name, expected) in [
            ("*", "a/b", true),
            ("a", "a", true),
            ("a", "ab", false),
            ("a*", "ab", true),
            ("*b", "ab", true),
            ("a*c*e", "abcde", true),
            ("a*c*e", "abde", false),
            ("*x10", "1x100", false),
            ("**", "", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }
}
