//! CSV files in the format of the published program, one per library compared with the first:
//! semicolons, whole microseconds, one line per repetition.
//!
//! Unlike in the published program, the values of a round trip cover only its own repetition, not
//! all since the program started.

use std::fmt::Write as _;

use weir_stats::libraries::{CellView, DriverView, Quantity};
use weir_stats::run::LibrarySample;

use super::{Group, LibraryReport};

/// Returns file names and contents; none without cells of the supported kinds.
pub(super) fn files(compared: &LibraryReport<'_>) -> Vec<(String, String)> {
    let first = compared.first_name();
    let of = |work: &str| -> Vec<&Group<'_>> {
        let groups = compared.groups.iter();
        groups.filter(|group| group.work == work).collect()
    };
    let (produce, consume, roundtrip) = (of("produce"), of("consume"), of("roundtrip"));
    let consume = consume
        .iter()
        .find(|group| group.mode == "group")
        .or_else(|| consume.first())
        .copied();
    let mut files = Vec::new();
    for other in &compared.others {
        let pair = format!("{}-{}", file_part(first), file_part(&other.name));
        let names = [first, other.name.as_str()];
        let starts: Vec<Option<&Group<'_>>> = match produce.is_empty() {
            true => vec![None],
            false => produce.iter().copied().map(Some).collect(),
        };
        for start in starts.iter().filter(|it| it.is_some() || consume.is_some()) {
            let mode = |group: Option<&Group<'_>>| {
                group.map_or_else(|| "none".to_owned(), |it| file_part(it.mode))
            };
            let name = format!(
                "produce-consume.{}.{}.{pair}.csv",
                mode(*start),
                mode(consume)
            );
            files.push((name, produce_consume(names, *start, consume)));
        }
        for group in roundtrip.iter().filter(|group| group.mode == "burst") {
            files.push((format!("roundtrip.{pair}.csv"), round_trips(names, group)));
        }
    }
    files
}

fn produce_consume(
    names: [&str; 2],
    produce: Option<&Group<'_>>,
    consume: Option<&Group<'_>>,
) -> String {
    let [a, b] = names.map(field);
    let mut out = format!("NumPackets;Length;{a}Prod;{a}Cons;{b}Prod;{b}Cons\n");
    for (records, bytes) in places(&[produce, consume]) {
        let cell = |group: Option<&'_ Group<'_>>, name: &str, quantity: &str, repetition| {
            let view = group?
                .cells
                .iter()
                .find(|view| is_at(view, records, bytes))?;
            let sample = sample(view.driver(name)?, repetition)?;
            Quantity::named(quantity)?.of(sample)
        };
        for repetition in 0..repetitions(&[produce, consume], records, bytes) {
            let values: Vec<Option<f64>> = names
                .iter()
                .flat_map(|name| {
                    [
                        cell(produce, name, "delivered_us", repetition),
                        cell(consume, name, "legacy_us", repetition),
                    ]
                })
                .collect();
            if values.iter().any(Option::is_some) {
                let values: Vec<String> = values.into_iter().map(whole).collect();
                let _ = writeln!(out, "{records};{bytes};{}", values.join(";"));
            }
        }
    }
    out
}

fn round_trips(names: [&str; 2], group: &Group<'_>) -> String {
    let [a, b] = names.map(field);
    let mut out = format!("NumPackets;Length;{a}Max;{a}Min;{a}Mean;{b}Max;{b}Min;{b}Mean\n");
    for (records, bytes) in places(&[Some(group)]) {
        let view = group.cells.iter().find(|view| is_at(view, records, bytes));
        for repetition in 0..repetitions(&[Some(group)], records, bytes) {
            let figures = |name: &&str| -> [Option<f64>; 3] {
                let latency = view
                    .and_then(|view| sample(view.driver(name)?, repetition))
                    .and_then(|sample| sample.latency.as_ref());
                [
                    latency.map(|it| it.max_us as f64),
                    latency.map(|it| it.min_us as f64),
                    latency.and_then(weir_stats::run::Distribution::mean_us),
                ]
            };
            let values: Vec<Option<f64>> = names.iter().flat_map(figures).collect();
            if values.iter().any(Option::is_some) {
                let values: Vec<String> = values.into_iter().map(whole).collect();
                // The published program ends these lines with a semicolon, but not their heading.
                let _ = writeln!(out, "{records};{bytes};{};", values.join(";"));
            }
        }
    }
    out
}

/// Returns number of records and value sizes, in the order of the published program.
fn places(groups: &[Option<&Group<'_>>]) -> Vec<(u64, u64)> {
    let cells = groups.iter().flatten().flat_map(|group| &group.cells);
    let mut places: Vec<(u64, u64)> = cells
        .map(|view| (view.cell.records, view.cell.value_bytes))
        .collect();
    places.sort_unstable();
    places.dedup();
    places
}

fn is_at(view: &CellView<'_>, records: u64, bytes: u64) -> bool {
    (view.cell.records, view.cell.value_bytes) == (records, bytes)
}

/// Returns one more than the last repetition of any driver.
fn repetitions(groups: &[Option<&Group<'_>>], records: u64, bytes: u64) -> u32 {
    let views = groups.iter().flatten().flat_map(|group| &group.cells);
    let drivers = views
        .filter(|view| is_at(view, records, bytes))
        .flat_map(|view| &view.drivers);
    let samples = drivers.flat_map(|driver| &driver.samples);
    let last = samples.map(|sample| sample.repetition).max();
    last.map_or(0, |last| last.saturating_add(1).min(REPETITIONS_MAX))
}

/// Upper bound for repetitions in a run file, which is untrusted.
const REPETITIONS_MAX: u32 = 100_000;

fn sample<'a>(driver: &DriverView<'a>, repetition: u32) -> Option<&'a LibrarySample> {
    let mut samples = driver.samples.iter().copied();
    samples.find(|sample| sample.repetition == repetition)
}

fn whole(us: Option<f64>) -> String {
    us.map_or_else(String::new, |us| format!("{us:.0}"))
}

/// Returns a name without characters that end a field or start a formula.
fn field(name: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '-' | '_' | '.');
    let text: String = name.chars().filter(|c| plain(*c)).collect();
    text.trim_start_matches('-').to_owned()
}

fn file_part(name: &str) -> String {
    let plain = |c: char| match c {
        'a'..='z' | 'A'..='Z' | '0'..='9' | '-' | '_' => c,
        _ => '_',
    };
    name.chars().take(40).map(plain).collect()
}
