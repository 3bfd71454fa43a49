//! The columns of the results table, shared by all formats.

use crate::format::{NONE, TimeUnit, factor, kilobytes, maybe_count, number};
use crate::view::SubjectRow;

type Show = fn(&SubjectRow<'_>, TimeUnit) -> String;

pub(crate) struct Column {
    /// Heading below that of its group.
    pub(crate) name: &'static str,
    /// Importance, 0 first: a narrow terminal omits columns from the end.
    pub(crate) rank: u8,
    pub(crate) show: Show,
}

/// Rank from which columns are not shown on a terminal.
pub(crate) const NOT_ON_TERMINALS: u8 = 14;
/// Rank of columns that only HTML has.
pub(crate) const ONLY_HTML: u8 = 15;

/// Headings of groups of columns, with the number of columns.
pub(crate) const GROUPS: [(&str, usize); 5] = [
    ("Latency", 7),
    ("Throughput", 2),
    ("CPU, µs per record", 3),
    ("Memory", 1),
    ("Delivery check", 4),
];

const fn column(name: &'static str, rank: u8, show: Show) -> Column {
    Column { name, rank, show }
}

pub(crate) static COLUMNS: [Column; 17] = [
    column("mean", 7, |it, unit| unit.show(it.figures.mean_us)),
    column("sd", 12, |it, unit| unit.show(it.figures.stddev_us)),
    column("p50", 0, |it, unit| unit.show(it.figures.p50_us)),
    column("p99", 1, |it, unit| unit.show(it.figures.p99_us)),
    column("× floor", ONLY_HTML, |it, _| factor(it.p99_ratio)),
    column("p99.9", NOT_ON_TERMINALS, |it, unit| {
        unit.show(it.figures.p999_us)
    }),
    column("max", 6, |it, unit| unit.show(it.figures.max_us)),
    column("delivered/s", 5, |it, _| number(it.figures.delivered_per_s)),
    column("Mbit/s", 13, |it, _| number(it.figures.mbit_per_s)),
    column(OWN_CPU, 2, |it, _| number(it.figures.cpu_us_delivering)),
    column("× floor", CPU_RATIO, |it, _| {
        factor(it.cpu_ratio.map(|ratio| ratio.value))
    }),
    column("with broker", ONLY_HTML, |it, _| {
        number(it.figures.cpu_us_servers)
    }),
    column("kB/client", 11, |it, _| {
        kilobytes(it.figures.memory_per_client_bytes)
    }),
    column("lost", 4, |it, _| maybe_count(it.figures.lost)),
    column("dup", 8, |it, _| maybe_count(it.figures.duplicated)),
    column("reord", 9, |it, _| maybe_count(it.figures.reordered)),
    column("confl", 10, |it, _| maybe_count(it.figures.conflated)),
];

const OWN_CPU: &str = "own";
/// Rank of the ratio of CPU times.
const CPU_RATIO: u8 = 3;

/// Returns the columns of a format, those below a rank.
pub(crate) fn below(rank: u8) -> Vec<&'static Column> {
    let columns = COLUMNS.iter();
    columns.filter(|column| column.rank < rank).collect()
}

impl Column {
    pub(crate) fn is_cpu_ratio(&self) -> bool {
        self.rank == CPU_RATIO
    }

    /// Returns the heading without a group.
    pub(crate) fn heading(&self) -> String {
        match self.name {
            OWN_CPU => "CPU µs/rec".to_owned(),
            other => other.to_owned(),
        }
    }

    /// Returns the heading with the unit of times.
    pub(crate) fn heading_with_unit(&self, unit: TimeUnit) -> String {
        match self.name {
            "mean" | "sd" | "p50" | "p99" | "max" => format!("{} {}", self.name, unit.name()),
            _ => self.heading(),
        }
    }

    /// Returns `true` for lost, repeated or reordered deliveries. Conflated ones are not a loss.
    pub(crate) fn is_fault(&self, text: &str) -> bool {
        matches!(self.name, "lost" | "dup" | "reord") && text != "0" && text != NONE
    }
}
