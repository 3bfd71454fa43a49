//! A one-sentence verdict for each library.

use super::{
    Quantity, VerdictCounts, aa_test, cells, count_verdicts, reference, relative_medians,
    unmeasured_drivers,
};
use crate::run::{Libraries, LibraryDriver};

/// Returns the verdict of the run on each library; for an A/A test, the coverage.
pub fn verdict(libraries: &Libraries) -> String {
    let Some(first) = reference(libraries) else {
        return "No library was measured.".to_owned();
    };
    let name = |driver: &'_ LibraryDriver| driver.name.clone();
    let unmeasured: Vec<String> = unmeasured_drivers(libraries).map(name).collect();
    let not_run = libraries.drivers.iter().filter(|it| it.is_not_run());
    let not_run: Vec<String> = not_run.map(name).collect();
    let mut absence = String::new();
    if !unmeasured.is_empty() {
        absence.push_str(&format!(
            " Requested, but took no part: {}.",
            unmeasured.join(", ")
        ));
    }
    if !not_run.is_empty() {
        absence.push_str(&format!(" Not run here: {}.", not_run.join(", ")));
    }
    if libraries.aa_test {
        return aa_verdict(libraries) + &absence;
    }
    let cells = cells(libraries);
    let others = libraries.drivers.iter().filter(|it| it.name != first.name);
    let verdicts: Vec<String> = others
        .filter_map(|other| {
            let tally = count_verdicts(&cells, &other.name);
            (tally.cells() > 0).then(|| format!("{} {}", other.name, in_words(&tally)))
        })
        .collect();
    let failed = libraries.drivers.iter().filter(|it| it.failed.is_some());
    let failed: Vec<String> = failed.map(name).collect();
    let is_missing = |name: &String| unmeasured.contains(name) || not_run.contains(name);
    let failed: Vec<String> = failed.into_iter().filter(|it| !is_missing(it)).collect();
    let mut text = match verdicts.is_empty() {
        true => format!("Nothing was measured except {}.", first.name),
        false => format!("Compared with {}: {}.", first.name, verdicts.join("; ")),
    };
    if !failed.is_empty() {
        text.push_str(&format!(" Failed: {}.", failed.join(", ")));
    }
    text + &absence
}

/// Returns the answer of the run: how often each library is faster or slower than the first, and
/// its CPU time relative to it.
pub fn answer(libraries: &Libraries) -> String {
    let Some(first) = reference(libraries).filter(|_| !libraries.aa_test) else {
        return verdict(libraries);
    };
    let cells = cells(libraries);
    let others = libraries.drivers.iter().filter(|it| it.name != first.name);
    let tallies = others.map(|it| (it.name.as_str(), count_verdicts(&cells, &it.name)));
    let tallies: Vec<_> = tallies.filter(|(_, tally)| tally.cells() > 0).collect();
    if tallies.is_empty() {
        return verdict(libraries);
    }
    let names: Vec<&str> = [first.name.as_str()]
        .into_iter()
        .chain(tallies.iter().map(|(name, _)| *name))
        .collect();
    let cpu = Quantity::named("cpu_us_per_record");
    let cpu = cpu.map(|cpu| relative_medians(&names, cells.iter().map(|cell| (cell, cpu))));
    let cpu = cpu.unwrap_or_default();
    let relative = |index: usize| Some((*cpu.get(index)?)? / (*cpu.first()?)?);
    let parts: Vec<String> = tallies
        .iter()
        .enumerate()
        .map(|(index, (name, tally))| {
            let cost = relative(index + 1);
            let cost = cost.map_or_else(String::new, |it| format!(", with {it:.2} × its CPU time"));
            let (faster, slower, all) = (tally.faster, tally.slower, tally.cells());
            format!("{name} is faster in {faster} and slower in {slower} of {all} cells{cost}")
        })
        .collect();
    format!("Compared with {}, {}.", first.name, parts.join("; "))
}

fn in_words(tally: &VerdictCounts) -> String {
    let words = [
        "faster",
        "slower",
        "not shown to differ",
        "not decided (too few repetitions)",
    ];
    let parts = tally.parts(words).into_iter();
    let parts: Vec<String> = parts
        .map(|(count, word)| format!("{word} in {count}"))
        .collect();
    let cells = match tally.cells() {
        1 => "1 cell".to_owned(),
        more => format!("{more} cells"),
    };
    format!("{} of {cells}", parts.join(", "))
}

fn aa_verdict(libraries: &Libraries) -> String {
    let tally = aa_test(libraries).headline;
    match tally.share() {
        Some(share) => format!(
            "A/A test of one library: {} of {} intervals contain 100 % ({:.1} %).",
            tally.no_difference,
            tally.intervals(),
            share * 100.0
        ),
        None => "A/A test of one library: too few repetitions for an interval.".to_owned(),
    }
}
