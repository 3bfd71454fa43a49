//! The cells of a run: what is measured, in which order, and what is left out and why.

use weir_stats::run::LibraryCell;

use super::plan::LibrariesPlan;
use super::profile::{Largest, Profile};

/// Kinds of work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum DriverOperation {
    Produce,
    Consume,
    RoundTrip,
}

impl DriverOperation {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Produce => "produce",
            Self::Consume => "consume",
            Self::RoundTrip => "roundtrip",
        }
    }
}

/// Ways to do it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StartMode {
    Cold,
    Metadata,
    Warm,
    /// Each library's start as the published program had it.
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

    pub(super) fn work(self) -> DriverOperation {
        match self {
            Self::Cold | Self::Metadata | Self::Warm | Self::Legacy => DriverOperation::Produce,
            Self::Group | Self::Assign => DriverOperation::Consume,
            Self::Burst | Self::Open => DriverOperation::RoundTrip,
        }
    }

    /// Those of a profile, in the order in which a full run takes them.
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

    /// What a driver has to be able to do.
    pub(super) fn needs(self, driver: &str) -> String {
        let start = match self {
            Self::Legacy => match Profile::legacy_state(driver) {
                weir_drivers::ProducerState::Metadata => Self::Metadata,
                _ => Self::Cold,
            },
            other => other,
        };
        format!("{}.{}", start.work().name(), start.name())
    }
}

/// One cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LibraryCellSpec {
    pub(super) mode: StartMode,
    pub(super) value_bytes: u64,
    pub(super) records: u64,
    /// Of an open loop.
    pub(super) rate_per_s: Option<u64>,
    pub(super) repetitions: u32,
    /// Why it is not run.
    pub(super) skipped: Option<String>,
}

impl LibraryCellSpec {
    pub(super) fn work(&self) -> DriverOperation {
        self.mode.work()
    }

    pub(super) fn name(&self) -> String {
        let head = format!("{}.{}", self.work().name(), self.mode.name());
        match self.rate_per_s {
            Some(rate) => format!("{head}/{}@{rate}", self.value_bytes),
            None => format!("{head}/{}x{}", self.value_bytes, self.records),
        }
    }

    /// Keys and values of a repetition.
    pub(super) fn bytes(&self) -> u64 {
        self.records
            .saturating_mul(self.value_bytes.saturating_add(KEY_BYTES))
    }

    /// What one topic of the cell takes on a disk, at most.
    pub(super) fn disk_bytes(&self) -> u64 {
        self.bytes()
            .saturating_add(self.records.saturating_mul(RECORD_OVERHEAD))
            .saturating_add(TOPIC_OVERHEAD)
    }

    pub(super) fn to_run(&self) -> LibraryCell {
        LibraryCell {
            name: self.name(),
            work: self.work().name().to_owned(),
            mode: self.mode.name().to_owned(),
            value_bytes: self.value_bytes,
            records: self.records,
            rate_per_s: self.rate_per_s.map(|rate| rate as f64),
            repetitions: self.repetitions,
            skipped: self.skipped.clone(),
        }
    }
}

/// The cells that the plan's patterns name, each once, in the order of the patterns.
///
/// # Errors
/// A pattern that names nothing, with what there is.
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
                .map(|mode| format!("{}.{}", mode.work().name(), mode.name()))
                .collect();
            return Err(format!(
                "no cell of profile {} is named \"{pattern}\": write for example {}/1000x*; there are {}",
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
        pair_up(&mut chosen);
    }
    Ok(chosen)
}

/// All that lies on the plan's axes.
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
        let payloads = plan.payloads_bytes.iter().copied();
        match mode {
            StartMode::Open => {
                for value_bytes in payloads {
                    let rates = plan.rates_per_s.iter().copied();
                    cells.extend(
                        rates.map(|rate| cell(value_bytes, open_records(plan, rate), Some(rate))),
                    );
                }
            }
            StartMode::Burst => {
                cells.extend(payloads.map(|bytes| cell(bytes, plan.roundtrip_records, None)));
            }
            _ => {
                for &records in &plan.bursts {
                    cells.extend(payloads.clone().map(|bytes| cell(bytes, records, None)));
                }
            }
        }
    }
    cells
}

/// A cell by its name, wherever it lies.
fn parse(name: &str, plan: &LibrariesPlan) -> Option<LibraryCellSpec> {
    let (head, size) = name.split_once('/')?;
    let mut known = StartMode::of(plan.profile).iter().copied();
    let mode = known.find(|mode| format!("{}.{}", mode.work().name(), mode.name()) == head)?;
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
    ((rate as f64 * plan.open_hold.as_secs_f64()) as u64).max(1)
}

/// What a plan lets a cell be.
fn limit(plan: &LibrariesPlan, pattern: &str, cell: &mut LibraryCellSpec) {
    let values = cell.records.saturating_mul(cell.value_bytes);
    if let Some(rate) = cell.rate_per_s {
        let per_s = rate.saturating_mul(cell.value_bytes);
        // Who names one means it.
        if per_s > plan.open_bytes_per_s_max && pattern.contains('*') {
            cell.skipped = Some(format!(
                "{:.0} MB/s, beyond open_bytes_per_s_max = {:.0} MB/s; name the cell to run it",
                per_s as f64 / 1e6,
                plan.open_bytes_per_s_max as f64 / 1e6
            ));
        }
    } else if values > plan.big_bytes {
        cell.repetitions = cell.repetitions.min(plan.big_repetitions);
        if cell.repetitions == 0 {
            cell.skipped = Some(format!(
                "{:.1} GB a repetition, beyond big_bytes; --big-repetitions 3 runs it so often",
                values as f64 / 1e9
            ));
        }
    }
}

/// What was produced is what is consumed: both cells of a size run together, so they stand together.
fn pair_up(cells: &mut [LibraryCellSpec]) {
    let mut at = 0;
    while at < cells.len() {
        let cell = &cells[at];
        if cell.work() != DriverOperation::RoundTrip {
            let size = (cell.value_bytes, cell.records);
            let mut rest = cells.iter().enumerate().skip(at + 1);
            let other = rest.find(|(_, other)| {
                other.work() != DriverOperation::RoundTrip
                    && (other.value_bytes, other.records) == size
            });
            if let Some((found, _)) = other {
                cells[at + 1..=found].rotate_right(1);
                if cells[at].work() == DriverOperation::Consume {
                    cells.swap(at, at + 1);
                }
                at += 1;
            }
        }
        at += 1;
    }
}

/// The largest burst and the largest value of all cells that run.
pub(super) fn largest(cells: &[LibraryCellSpec]) -> Largest {
    let run = || cells.iter().filter(|cell| cell.skipped.is_none());
    Largest {
        value_bytes: run().map(|cell| cell.value_bytes).max().unwrap_or(0),
        records: run().map(|cell| cell.records).max().unwrap_or(0),
        bytes: run().map(LibraryCellSpec::bytes).max().unwrap_or(0),
    }
}

/// Whether `name` is what `pattern` says; `*` stands for anything.
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
/// Lengths, offsets and what a batch of few records carries besides.
const RECORD_OVERHEAD: u64 = 100;
/// Indexes, the last segment's end, the folder.
const TOPIC_OVERHEAD: u64 = 64 << 10;
const VALUE_BYTES_MAX: u64 = 10_000_000;
const NUMBER_MAX: u64 = 100_000_000;

#[cfg(test)]
mod tests {
    use super::super::plan::LibrariesOverrides;
    use super::*;

    fn plan(overrides: LibrariesOverrides) -> LibrariesPlan {
        let plan = LibrariesPlan::built_in().unwrap();
        plan.with(&overrides, "test").unwrap()
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
    fn the_full_grid_has_every_start_size_and_way() {
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
    fn what_is_too_much_is_left_out_with_the_remedy() {
        let all = cells(&LibrariesPlan::built_in().unwrap()).unwrap();
        let why = |name: &str| {
            let cell = all.iter().find(|cell| cell.name() == name).unwrap();
            cell.skipped.clone()
        };
        let big = why("produce.warm/100000x10000").unwrap();
        assert!(
            big.contains("1.0 GB") && big.contains("--big-repetitions"),
            "{big}"
        );
        assert_eq!(why("produce.warm/100000x1000"), None);
        assert_eq!(why("roundtrip.open/1000@50000"), None);
        let fast = why("roundtrip.open/10000@10000").unwrap();
        assert!(fast.contains("100 MB/s"), "{fast}");

        let opted_in = plan(LibrariesOverrides {
            big_repetitions: Some(3),
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
    fn patterns_choose_and_order() {
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
        // Not on the axes.
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
    fn of_a_size_the_legacy_profile_produces_and_then_consumes() {
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
    fn stars_stand_for_anything() {
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
