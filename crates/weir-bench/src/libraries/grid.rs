//! Cells of a run: their order, and the reasons for skipped cells.

use weir_stats::run::LibraryCell;

use super::operation::DriverOperation;
use super::plan::LibrariesPlan;
use super::profile::{Largest, Profile};

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
    Burst,
    Open,
}

impl StartMode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Cold => "cold",
            Self::Metadata => "metadata",
            Self::Warm => "warm",
            Self::Legacy => "legacy",
            Self::Group => "group",
            Self::Assign => "assign",
            Self::Burst => "burst",
            Self::Open => "open",
        }
    }

    pub(super) fn operation(self) -> DriverOperation {
        match self {
            Self::Cold | Self::Metadata | Self::Warm | Self::Legacy => DriverOperation::Produce,
            Self::Group | Self::Assign => DriverOperation::Consume,
            Self::Burst | Self::Open => DriverOperation::RoundTrip,
        }
    }

    /// Returns the modes of a profile in the order of a full run.
    fn of(profile: Profile) -> &'static [Self] {
        match profile {
            Profile::Legacy => &[Self::Legacy, Self::Group, Self::Burst],
            Profile::Fair | Profile::DefaultSettings => &[
                Self::Warm,
                Self::Metadata,
                Self::Cold,
                Self::Assign,
                Self::Group,
                Self::Burst,
                Self::Open,
            ],
        }
    }

    /// Returns the capability that a driver needs.
    pub(super) fn capability(self, driver: &str) -> String {
        let start = match self {
            Self::Legacy => match Profile::legacy_state(driver) {
                weir_drivers::ProducerState::Metadata => Self::Metadata,
                _ => Self::Cold,
            },
            other => other,
        };
        format!("{}.{}", start.operation().name(), start.name())
    }
}

/// Cell of the grid.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LibraryCellSpec {
    pub(super) mode: StartMode,
    pub(super) value_bytes: u64,
    pub(super) records: u64,
    /// Rate of an open loop.
    pub(super) rate_per_s: Option<u64>,
    pub(super) repetitions: u32,
    /// Reason why the cell is not run.
    pub(super) skipped: Option<String>,
}

impl LibraryCellSpec {
    pub(super) fn operation(&self) -> DriverOperation {
        self.mode.operation()
    }

    pub(super) fn name(&self) -> String {
        let head = format!("{}.{}", self.operation().name(), self.mode.name());
        match self.rate_per_s {
            Some(rate) => format!("{head}/{}@{rate}", self.value_bytes),
            None => format!("{head}/{}x{}", self.value_bytes, self.records),
        }
    }

    /// Returns the size of keys and values of a repetition.
    pub(super) fn bytes(&self) -> u64 {
        self.records
            .saturating_mul(self.value_bytes.saturating_add(KEY_BYTES))
    }

    /// Returns the maximum disk usage of one topic of the cell.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.bytes()
            .saturating_add(self.records.saturating_mul(RECORD_OVERHEAD))
            .saturating_add(TOPIC_OVERHEAD)
    }

    pub(super) fn to_library_cell(&self) -> LibraryCell {
        LibraryCell {
            name: self.name(),
            operation: self.operation().name().to_owned(),
            mode: self.mode.name().to_owned(),
            value_bytes: self.value_bytes,
            records: self.records,
            rate_per_s: self.rate_per_s.map(|rate| rate as f64),
            repetitions: self.repetitions,
            skipped: self.skipped.clone(),
        }
    }
}

/// Returns the cells that match the plan's patterns, each once, in the order of the patterns.
///
/// # Errors
/// A message that lists the modes, if a pattern matches no cell.
pub(super) fn cells(plan: &LibrariesPlan) -> Result<Vec<LibraryCellSpec>, String> {
    let grid = grid(plan);
    let mut chosen: Vec<LibraryCellSpec> = Vec::new();
    for pattern in &plan.cells {
        let mut found: Vec<LibraryCellSpec> = grid
            .iter()
            .filter(|cell| matches(pattern, &cell.name()))
            .cloned()
            .collect();
        if found.is_empty() && !pattern.contains('*') {
            found.extend(parse(pattern, plan));
        }
        if found.is_empty() {
            let modes: Vec<String> = StartMode::of(plan.profile)
                .iter()
                .map(|mode| format!("{}.{}", mode.operation().name(), mode.name()))
                .collect();
            return Err(format!(
                "no cell of profile {} matches \"{pattern}\"; use for example {}/1000x*, with \
                 one of {}",
                plan.profile.name(),
                modes.first().map_or("", String::as_str),
                modes.join(", ")
            ));
        }
        for mut cell in found {
            if chosen.iter().all(|other| other.name() != cell.name()) {
                limit(plan, pattern, &mut cell);
                chosen.push(cell);
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
    let mut cells = Vec::new();
    for &mode in StartMode::of(plan.profile) {
        let cell = |value_bytes, records, rate_per_s| LibraryCellSpec {
            mode,
            value_bytes,
            records,
            rate_per_s,
            repetitions: plan.repetitions,
            skipped: None,
        };
        let sizes = plan.value_sizes_bytes.iter().copied();
        match mode {
            StartMode::Open => {
                for value_bytes in sizes {
                    let rates = plan.rates_per_s.iter().copied();
                    cells.extend(
                        rates.map(|rate| cell(value_bytes, open_records(plan, rate), Some(rate))),
                    );
                }
            }
            StartMode::Burst => {
                cells.extend(sizes.map(|bytes| cell(bytes, plan.roundtrip_records, None)));
            }
            _ => {
                for &records in &plan.burst_records {
                    cells.extend(sizes.clone().map(|bytes| cell(bytes, records, None)));
                }
            }
        }
    }
    cells
}

/// Returns the cell with this name, which need not be on the plan's axes.
fn parse(name: &str, plan: &LibrariesPlan) -> Option<LibraryCellSpec> {
    let (head, size) = name.split_once('/')?;
    let mut modes = StartMode::of(plan.profile).iter().copied();
    let mode = modes.find(|mode| format!("{}.{}", mode.operation().name(), mode.name()) == head)?;
    let separator = if mode == StartMode::Open { '@' } else { 'x' };
    let (value_bytes, number) = size.split_once(separator)?;
    let (value_bytes, number) = (value_bytes.parse().ok()?, number.parse::<u64>().ok()?);
    let in_range =
        (1..=VALUE_BYTES_MAX).contains(&value_bytes) && (1..=NUMBER_MAX).contains(&number);
    in_range.then(|| {
        let is_open = mode == StartMode::Open;
        LibraryCellSpec {
            mode,
            value_bytes,
            records: if is_open {
                open_records(plan, number)
            } else {
                number
            },
            rate_per_s: is_open.then_some(number),
            repetitions: plan.repetitions,
            skipped: None,
        }
    })
}

fn open_records(plan: &LibrariesPlan, rate: u64) -> u64 {
    ((rate as f64 * plan.open_loop_hold.as_secs_f64()) as u64).max(1)
}

/// Applies the plan's limits to a cell.
fn limit(plan: &LibrariesPlan, pattern: &str, cell: &mut LibraryCellSpec) {
    let values = cell.records.saturating_mul(cell.value_bytes);
    if let Some(rate) = cell.rate_per_s {
        let per_s = rate.saturating_mul(cell.value_bytes);
        // A cell that is named explicitly is run anyway.
        if per_s > plan.open_bytes_per_s_max && pattern.contains('*') {
            cell.skipped = Some(format!(
                "{:.0} MB/s, above open_bytes_per_s_max = {:.0} MB/s; name the cell to run it",
                per_s as f64 / 1e6,
                plan.open_bytes_per_s_max as f64 / 1e6
            ));
        }
    } else if values > plan.large_cell_bytes {
        cell.repetitions = cell.repetitions.min(plan.large_cell_repetitions);
        if cell.repetitions == 0 {
            cell.skipped = Some(format!(
                "{:.1} GB per repetition, above large_cell_bytes; \
                 use --large-cell-repetitions 3 to run it three times",
                values as f64 / 1e9
            ));
        }
    }
}

/// Moves the consume cell of each size next to its produce cell, because they run together: the
/// records that are produced are consumed.
fn pair_legacy_cells(cells: &mut [LibraryCellSpec]) {
    let mut at = 0;
    while at < cells.len() {
        let cell = &cells[at];
        if cell.operation() != DriverOperation::RoundTrip {
            let size = (cell.value_bytes, cell.records);
            let mut rest = cells.iter().enumerate().skip(at + 1);
            let other = rest.find(|(_, other)| {
                other.operation() != DriverOperation::RoundTrip
                    && (other.value_bytes, other.records) == size
            });
            if let Some((found, _)) = other {
                cells[at + 1..=found].rotate_right(1);
                if cells[at].operation() == DriverOperation::Consume {
                    cells.swap(at, at + 1);
                }
                at += 1;
            }
        }
        at += 1;
    }
}

/// Returns the largest burst and the largest value of all cells that run.
pub(super) fn largest(cells: &[LibraryCellSpec]) -> Largest {
    let run = || cells.iter().filter(|cell| cell.skipped.is_none());
    Largest {
        value_bytes: run().map(|cell| cell.value_bytes).max().unwrap_or(0),
        records: run().map(|cell| cell.records).max().unwrap_or(0),
        bytes: run().map(LibraryCellSpec::bytes).max().unwrap_or(0),
    }
}

/// Returns `true` if `name` matches `pattern`; `*` matches any text.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let mut rest = rest;
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    true
}

const KEY_BYTES: u64 = 8;
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

    fn chosen(profile: Profile, patterns: &[&str]) -> Result<Vec<String>, String> {
        let cells = patterns.iter().map(|it| (*it).to_owned()).collect();
        let plan = plan(LibrariesOverrides {
            profile: Some(profile),
            cells: Some(cells),
            ..LibrariesOverrides::default()
        });
        Ok(super::cells(&plan)?
            .iter()
            .map(LibraryCellSpec::name)
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
        assert_eq!((count(StartMode::Burst), count(StartMode::Open)), (5, 20));
        assert_eq!(count(StartMode::Legacy), 0);
        let mut names: Vec<String> = all.iter().map(LibraryCellSpec::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 125);
        for name in [
            "produce.warm/1000x10000",
            "consume.group/100x100",
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
            let cell = all.iter().find(|cell| cell.name() == name).unwrap();
            cell.skipped.clone()
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
        let big = cells.iter().find(|cell| cell.records == 10_000).unwrap();
        assert_eq!((big.repetitions, &big.skipped), (3, &None));
        assert_eq!(cells[0].repetitions, 20);
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
            let error = chosen(Profile::Fair, &[wrong]).unwrap_err();
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
        assert_eq!(all.len(), 45);
        assert_eq!(all[..2], ["produce.legacy/10x10", "consume.group/10x10"]);
        assert_eq!(all[40], "roundtrip.burst/10x10000");
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
