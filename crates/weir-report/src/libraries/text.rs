//! Sentences and text tables shared by all formats.

use weir_stats::libraries::{self as stats, LegacyFetchWait, UnequalSetting};
use weir_stats::run::{LibraryCell, LibraryDriver};

use super::LibraryReport;
use crate::format;

/// Returns the description of a profile.
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

/// Returns headings and rows: for each operation, the number of cells in which each library is
/// faster or slower than the first.
pub(crate) fn at_a_glance(compared: &LibraryReport<'_>) -> (Vec<String>, Vec<Vec<String>>) {
    let others = compared.others.iter().map(|driver| driver.name.clone());
    let headings = ["Cells in which".to_owned()].into_iter().chain(others);
    let row = |group: &super::Group<'_>| {
        let own = |cell: &LibraryCell| {
            (cell.operation.as_str(), cell.mode.as_str()) == (group.work, group.mode)
        };
        let verdicts = compared.others.iter().map(|driver| {
            let tally = stats::count_verdicts(compared.libraries, &driver.name, own);
            let parts = [
                (tally.faster, "faster"),
                (tally.slower, "slower"),
                (tally.no_difference, "no difference shown"),
                (tally.too_few, "no interval"),
            ];
            let parts: Vec<String> = parts
                .iter()
                .filter(|(count, _)| *count > 0)
                .map(|(count, words)| format!("{count} {words}"))
                .collect();
            match parts.is_empty() {
                true => format::NONE.to_owned(),
                false => parts.join(", "),
            }
        });
        let title = format!("{}: {}", group.title(), group.headline().title);
        [title].into_iter().chain(verdicts).collect()
    };
    (
        headings.collect(),
        compared.groups.iter().map(row).collect(),
    )
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
    let bytes = format::count(shape.fetch_min_bytes);
    let mut text = format!(
        "{first} / {name}: the broker delays a fetch response until {bytes} bytes are available or \
         {FETCH_WAIT_MS} ms have passed. In the {} consume cells below that size, {first} took {} \
         and {name} {} from assignment to completion (medians).",
        shape.below,
        format::duration_us(shape.below_first_us),
        format::duration_us(shape.below_other_us),
    );
    let (Some(above_first), Some(above_other), Some(waits)) =
        (shape.above_first_us, shape.above_other_us, shape.waits_us())
    else {
        text.push_str(
            " No cell just above that size was measured, so the share of this wait is unknown.",
        );
        return text;
    };
    text.push_str(&format!(
        " In the {} cells just above, they took {} and {}. The differences of {} and {} are the \
         broker’s wait, not the libraries’ work.",
        shape.above,
        format::duration_us(above_first),
        format::duration_us(above_other),
        format::duration_us(waits.0.max(0.0)),
        format::duration_us(waits.1.max(0.0)),
    ));
    let is_librdkafka = [&other.name, &other.library, &other.binding]
        .iter()
        .any(|text| text.contains("librdkafka"));
    if is_librdkafka {
        text.push_str(
            " librdkafka waits a fixed 100 ms before it requests the start offsets of a new group; \
             this is most of its remaining time.",
        );
    }
    if let Some(expected) = shape.expected_percent(FETCH_WAIT_MS * 1e3) {
        text.push_str(&format!(
            " Wait and start-up alone give ({FETCH_WAIT_MS} + {}) / ({FETCH_WAIT_MS} + {}) = {} %; \
             measured: {} %. These cells do not show how fast either library consumes.",
            format::number(Some(above_first / 1e3)),
            format::number(Some(above_other / 1e3)),
            format::number(Some(expected)),
            format::number(Some(shape.below_percent)),
        ));
    }
    text
}

/// Maximum wait of the broker for a fetch, in the published settings and in Weir's.
const FETCH_WAIT_MS: f64 = 500.0;

/// Returns the result of an A/A test.
pub(crate) fn aa_test(compared: &LibraryReport<'_>) -> Option<String> {
    if !compared.libraries.aa_test {
        return None;
    }
    let test = stats::aa_test(compared.libraries);
    let text_of = |coverage: stats::Coverage| match coverage.share() {
        Some(share) => format!(
            "{} of {} intervals ({} %)",
            coverage.containing,
            coverage.intervals,
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
    for outside in test.outside.iter().take(OUTSIDE_MAX) {
        text.push_str(&format!(
            " Outside: {} ({} %).",
            outside.cell,
            format::number(Some(outside.percent))
        ));
    }
    Some(text)
}

const OUTSIDE_MAX: usize = 8;

/// Returns the headings of the table of unequal settings.
pub(crate) fn setting_headings(compared: &LibraryReport<'_>) -> Vec<String> {
    let drivers = compared.libraries.drivers.iter();
    let drivers = drivers.filter(|driver| !driver.settings.is_empty());
    ["Setting", "requested"]
        .map(str::to_owned)
        .into_iter()
        .chain(drivers.map(|driver| driver.name.clone()))
        .collect()
}

/// Returns a row of the table of unequal settings.
pub(crate) fn setting_fields(
    compared: &LibraryReport<'_>,
    setting: &UnequalSetting<'_>,
) -> Vec<String> {
    let none = || format::NONE.to_owned();
    let mut fields = vec![
        setting.name.to_owned(),
        setting
            .requested
            .map_or_else(|| "default".to_owned(), str::to_owned),
    ];
    let drivers = compared.libraries.drivers.iter();
    for driver in drivers.filter(|driver| !driver.settings.is_empty()) {
        let own = setting
            .drivers
            .iter()
            .find(|(name, _)| *name == driver.name);
        fields.push(match own {
            None => none(),
            Some((_, it)) if !it.supported => match &it.effective {
                Some(effective) => format!("no such setting; {effective}"),
                None => "no such setting".to_owned(),
            },
            Some((_, it)) => it
                .effective
                .clone()
                .unwrap_or_else(|| "not reported".to_owned()),
        });
    }
    fields
}

/// Returns up to `limit` invalid or marked repetitions (cell, library, repetition, reason) and the
/// number of further ones.
pub(crate) fn questionable_repetitions(
    compared: &LibraryReport<'_>,
    limit: usize,
) -> (Vec<[String; 4]>, usize) {
    let samples = compared.libraries.samples.iter();
    let questionable_repetitions =
        samples.filter(|sample| !sample.invalid.is_empty() || !sample.marks.is_empty());
    let mut rows: Vec<[String; 4]> = questionable_repetitions
        .map(|sample| {
            let mut reasons: Vec<String> = Vec::new();
            if !sample.invalid.is_empty() {
                reasons.push(format!("invalid: {}", sample.invalid.join("; ")));
            }
            reasons.extend(sample.marks.iter().cloned());
            [
                sample.cell.clone(),
                sample.driver.clone(),
                (u64::from(sample.repetition) + 1).to_string(),
                reasons.join("; "),
            ]
        })
        .collect();
    let more = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    (rows, more)
}

/// Returns cells with noisy repetitions: the main ratio with and without them.
pub(crate) fn without_noisy(compared: &LibraryReport<'_>) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for view in compared.groups.iter().flat_map(|group| &group.cells) {
        for other in view.others() {
            let found = view.compare(view.headline(), &other.driver.name);
            let Some(pairs) = found.as_ref().and_then(|it| it.pairs) else {
                continue;
            };
            let quiet = found.as_ref().and_then(|it| it.quiet);
            let left = quiet.map_or(0, |it| it.count);
            if left == pairs.count {
                continue;
            }
            let text_of = |ratio: Option<stats::PairRatio>| {
                ratio.map_or_else(|| format::NONE.to_owned(), |it| ratio_text(&it))
            };
            rows.push(vec![
                view.cell.name.clone(),
                other.driver.name.clone(),
                format!("{} of {}", pairs.count - left, pairs.count),
                text_of(Some(pairs)),
                text_of(quiet),
            ]);
        }
    }
    rows
}

fn ratio_text(ratio: &stats::PairRatio) -> String {
    let number = |value: f64| format::number(Some(value));
    match ratio.bounds {
        Some((low, high)) => format!(
            "{} [{}, {}]",
            number(ratio.percent),
            number(low),
            number(high)
        ),
        None => number(ratio.percent),
    }
}
