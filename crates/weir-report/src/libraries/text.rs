//! Sentences shared by all formats.

use weir_stats::libraries::{self as stats, LegacyFetchWait};
use weir_stats::run::LibraryDriver;

use super::LibraryReport;
use crate::format;

pub(crate) fn profile(name: &str) -> &'static str {
    match name {
        "legacy" => {
            "legacy: settings and procedure of the published comparison. Each repetition starts \
             new clients, and their start-up time counts; fetch.min.bytes 100,000, linger 100 ms."
        }
        "fair" => {
            "fair: equal settings in all libraries, after a warm-up; start-up, throughput and \
             latency have separate cells."
        }
        "default-settings" => {
            "default-settings: only brokers and acks are set. It compares defaults, not speed."
        }
        _ => "unknown to this version.",
    }
}

/// Returns the remark that no result includes calls from .NET into a Java VM, with a blank before
/// it; empty if a driver makes such calls.
pub(crate) fn without_jni(compared: &LibraryReport<'_>) -> &'static str {
    let mut drivers = compared.libraries.drivers.iter();
    match drivers.any(|driver| driver.binding.contains("KNet")) {
        true => "",
        false => {
            " No library made calls from .NET into a Java VM (JNI), whose cost the published \
                  results include."
        }
    }
}

/// Explains the results of the legacy profile from this run's values: a paragraph for each other
/// library.
pub(crate) fn explained(compared: &LibraryReport<'_>) -> Vec<String> {
    let explain = |other: &&LibraryDriver| {
        let shape = stats::legacy_fetch_wait(compared.libraries, &other.name)?;
        Some(explanation(compared.first_name(), other, &shape))
    };
    compared.others.iter().filter_map(explain).collect()
}

fn explanation(first: &str, other: &LibraryDriver, shape: &LegacyFetchWait) -> String {
    let name = &other.name;
    let (bytes, below) = (format::count(shape.fetch_min_bytes), shape.below);
    let us = format::duration_us;
    let mut text = format!(
        "{first} / {name}: the broker delays a fetch response until {bytes} bytes are available or \
         {FETCH_WAIT_MS} ms have passed. In the {} below that size, {first} took {} and {name} {} \
         from assignment to completion (medians).",
        cells(below.cells, "consume cell"),
        us(below.first_us),
        us(below.other_us),
    );
    let Some(above) = shape.above else {
        text.push_str(
            " No cell just above that size was measured, so the share of this wait is unknown.",
        );
        return text;
    };
    text.push_str(&format!(
        " In the {} just above, they took {} and {}.",
        cells(above.cells, "cell"),
        us(above.first_us),
        us(above.other_us),
    ));
    let expected = above.expected_percent(FETCH_WAIT_MS * 1e3);
    let measured = below.first_us / below.other_us * 100.0;
    let is_explained = (expected - measured).abs() <= EXPLAINED_WITHIN;
    if is_explained {
        text.push_str(&format!(
            " The differences of {} and {} are the broker’s wait, not the libraries’ work.",
            us((below.first_us - above.first_us).max(0.0)),
            us((below.other_us - above.other_us).max(0.0)),
        ));
    }
    let mut names = [&other.name, &other.library, &other.binding].into_iter();
    if names.any(|text| text.contains("librdkafka")) {
        text.push_str(
            " librdkafka waits a fixed 100 ms before it requests the start offsets of a new group",
        );
        text.push_str(match is_explained {
            true => "; this is most of its remaining time.",
            false => ".",
        });
    }
    let number = |value: f64| format::number(Some(value));
    let conclusion = match is_explained {
        true => "These cells do not show how fast either library consumes.",
        false => {
            "These times vary too much to distinguish the wait from the libraries’ work; repeat \
             the run with more repetitions, or on a machine without other work."
        }
    };
    text.push_str(&format!(
        " Wait and start-up alone give ({FETCH_WAIT_MS} + {}) / ({FETCH_WAIT_MS} + {}) = {} %; \
         measured: {} %. {conclusion}",
        number(above.first_us / 1e3),
        number(above.other_us / 1e3),
        number(expected),
        number(measured),
    ));
    text
}

fn cells(count: usize, name: &str) -> String {
    match count {
        1 => name.to_owned(),
        _ => format!("{count} {name}s"),
    }
}

/// Maximum difference between the expected and the measured ratio, in percentage points.
const EXPLAINED_WITHIN: f64 = 10.0;

/// Maximum wait of the broker for a fetch, in the published settings and in Weir's.
const FETCH_WAIT_MS: f64 = 500.0;

pub(crate) fn aa_test(compared: &LibraryReport<'_>) -> Option<String> {
    if !compared.libraries.aa_test {
        return None;
    }
    let test = stats::aa_test(compared.libraries);
    let text_of = |tally: stats::VerdictCounts| match tally.share() {
        Some(share) => format!(
            "{} of {} intervals ({} %)",
            tally.no_difference,
            tally.intervals(),
            format::number(Some(share * 100.0))
        ),
        None => "no interval".to_owned(),
    };
    let mut text = format!(
        "A/A test: one library as two drivers, so no difference is expected. 100 % lies in {} of \
         the main metric and in {} of CPU time; a 95 % interval misses one in twenty.",
        text_of(test.headline),
        text_of(test.cpu)
    );
    for (cell, percent) in test.outside.iter().take(OUTSIDE_MAX) {
        let percent = format::number(Some(*percent));
        text.push_str(&format!(" Outside: {cell} ({percent} %)."));
    }
    Some(text)
}

const OUTSIDE_MAX: usize = 8;
