//! CSV files in the format of the published program, one per library compared with the first:
//! semicolons, whole microseconds, one line per repetition.
//!
//! Unlike in the published program, the values of a round trip cover only its own repetition, not
//! all since the program started.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use weir_stats::libraries::{CellView, Quantity};
use weir_stats::run::{Distribution, LibrarySample};

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
    let heading = format!("NumPackets;Length;{a}Prod;{a}Cons;{b}Prod;{b}Cons\n");
    rows(
        heading,
        names,
        &[produce, consume],
        "",
        |name, place, repetition| {
            let value = |group: Option<&Group<'_>>, quantity: &str| {
                Quantity::named(quantity)?.of(sample(group?, place, name, repetition)?)
            };
            vec![value(produce, "delivered_us"), value(consume, "legacy_us")]
        },
    )
}

fn round_trips(names: [&str; 2], group: &Group<'_>) -> String {
    let [a, b] = names.map(field);
    let heading = format!("NumPackets;Length;{a}Max;{a}Min;{a}Mean;{b}Max;{b}Min;{b}Mean\n");
    // The published program ends these lines with a semicolon, but not their heading.
    rows(
        heading,
        names,
        &[Some(group)],
        ";",
        |name, place, repetition| {
            let sample = sample(group, place, name, repetition);
            let latency = sample.and_then(|sample| sample.latency.as_ref());
            let of = |pick: fn(&Distribution) -> Option<f64>| latency.and_then(pick);
            vec![
                of(|it| Some(it.max_us as f64)),
                of(|it| Some(it.min_us as f64)),
                of(Distribution::mean_us),
            ]
        },
    )
}

type Place = (u64, u64);

/// Returns a line with the values of both libraries for each repetition that has any.
fn rows(
    heading: String,
    names: [&str; 2],
    groups: &[Option<&Group<'_>>],
    end: &str,
    values: impl Fn(&str, Place, u32) -> Vec<Option<f64>>,
) -> String {
    let mut out = heading;
    let views = || groups.iter().flatten().flat_map(|group| &group.cells);
    // In the order of the published program.
    let places: BTreeSet<Place> = views().map(place).collect();
    for at in places {
        let drivers = views()
            .filter(|view| place(view) == at)
            .flat_map(|view| &view.drivers);
        let samples = drivers.flat_map(|driver| &driver.samples);
        let last = samples.map(|sample| sample.repetition).max();
        let count = last.map_or(0, |last| last.saturating_add(1).min(REPETITIONS_MAX));
        for repetition in 0..count {
            let values = names.iter().flat_map(|name| values(name, at, repetition));
            let values: Vec<Option<f64>> = values.collect();
            if values.iter().any(Option::is_some) {
                let whole = |us: Option<f64>| us.map_or_else(String::new, |us| format!("{us:.0}"));
                let values: Vec<String> = values.into_iter().map(whole).collect();
                let _ = writeln!(out, "{};{};{}{end}", at.0, at.1, values.join(";"));
            }
        }
    }
    out
}

fn place(view: &CellView<'_>) -> Place {
    (view.cell.records, view.cell.value_bytes)
}

fn sample<'a>(
    group: &Group<'a>,
    at: Place,
    name: &str,
    repetition: u32,
) -> Option<&'a LibrarySample> {
    let view = group.cells.iter().find(|view| place(view) == at)?;
    let mut samples = view.driver(name)?.samples.iter().copied();
    samples.find(|sample| sample.repetition == repetition)
}

/// Upper bound for repetitions in a run file, which is untrusted.
const REPETITIONS_MAX: u32 = 100_000;

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
