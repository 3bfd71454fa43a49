//! A one-sentence verdict for each library.

use super::{VerdictCounts, aa_test, absent, cells, count_verdicts, reference};
use crate::run::{Libraries, LibraryDriver};

/// Returns the verdict of the run on each library; for an A/A test, the coverage.
pub fn verdict(libraries: &Libraries) -> String {
    let Some(first) = reference(libraries) else {
        return "No library was measured.".to_owned();
    };
    let name = |driver: &'_ LibraryDriver| driver.name.clone();
    let absent: Vec<String> = absent(libraries).map(name).collect();
    let not_run = libraries.drivers.iter().filter(|it| it.is_not_run());
    let not_run: Vec<String> = not_run.map(name).collect();
    let mut absence = String::new();
    if !absent.is_empty() {
        absence.push_str(&format!(
            " Requested, but took no part: {}.",
            absent.join(", ")
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
    let is_missing = |name: &String| absent.contains(name) || not_run.contains(name);
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
