//! What has to be said in words.

use weir_stats::libraries::{self as stats, LegacyFetchWait, UnequalSetting};
use weir_stats::run::{LibraryCell, LibraryDriver};

use super::LibraryReport;
use crate::format;

/// What the profile means.
pub(crate) fn profile(name: &str) -> &'static str {
    match name {
        "legacy" => {
            "legacy: the settings and the procedure of the published comparison. New clients for every repetition, their \
             start-up inside the clock, fetch.min.bytes 100,000, linger 100 ms."
        }
        "fair" => {
            "fair: the same settings in all libraries, warmed up; start-up, throughput and latency are cells of their own."
        }
        "default-settings" => {
            "default-settings: each library as it is shipped, only brokers and acks set. It compares defaults, not speed."
        }
        _ => "a profile that this version does not know.",
    }
}

/// Headings and rows: for each kind of work in how many cells each library is faster or slower than the first.
pub(crate) fn at_a_glance(compared: &LibraryReport<'_>) -> (Vec<String>, Vec<Vec<String>>) {
    let others = compared.others.iter().map(|driver| driver.name.clone());
    let headings = ["Cells in which".to_owned()].into_iter().chain(others);
    let row = |group: &super::Group<'_>| {
        let own = |cell: &LibraryCell| {
            (cell.work.as_str(), cell.mode.as_str()) == (group.work, group.mode)
        };
        let told = compared.others.iter().map(|driver| {
            let tally = stats::tally(compared.libraries, &driver.name, own);
            let parts = [
                (tally.faster, "faster"),
                (tally.slower, "slower"),
                (tally.no_difference, "not shown to differ"),
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
        [title].into_iter().chain(told).collect()
    };
    (
        headings.collect(),
        compared.groups.iter().map(row).collect(),
    )
}

/// Why the legacy profile comes out as it does, by this run's figures: a paragraph for each other library.
pub(crate) fn explained(compared: &LibraryReport<'_>) -> Vec<String> {
    let explain = |other: &&LibraryDriver| {
        let shape = stats::legacy_shape(compared.libraries, &other.name)?;
        Some(explanation(compared.first_name(), other, &shape))
    };
    compared.others.iter().filter_map(explain).collect()
}

fn explanation(first: &str, other: &LibraryDriver, shape: &LegacyFetchWait) -> String {
    let name = &other.name;
    let bytes = format::count(shape.fetch_min_bytes);
    let mut text = format!(
        "{first} / {name}: the broker holds a fetch until {bytes} bytes are there or {FETCH_WAIT_MS} ms have passed. In \
         the {} consume cells below that, {first} took {} and {name} {} from assignment to the end (medians).",
        shape.below,
        format::duration_us(shape.below_first_us),
        format::duration_us(shape.below_other_us),
    );
    let (Some(above_first), Some(above_other), Some(waits)) =
        (shape.above_first_us, shape.above_other_us, shape.waits_us())
    else {
        text.push_str(
            " No cell just above was measured, so how much of it is that wait cannot be told from this run.",
        );
        return text;
    };
    text.push_str(&format!(
        " In the {} cells just above they took {} and {}. The {} and {} between are the broker’s wait, which is none of \
         the libraries’ work.",
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
            " librdkafka lets a fixed 100 ms pass before it asks where a new group without offsets begins; that is most of \
             what it takes without the wait.",
        );
    }
    if let Some(expected) = shape.expected_percent(FETCH_WAIT_MS * 1e3) {
        text.push_str(&format!(
            " Wait and start alone give ({FETCH_WAIT_MS} + {}) / ({FETCH_WAIT_MS} + {}) = {} %; measured: {} %. The \
             ratio of these cells says nothing of how fast either consumes.",
            format::number(Some(above_first / 1e3)),
            format::number(Some(above_other / 1e3)),
            format::number(Some(expected)),
            format::number(Some(shape.below_percent)),
        ));
    }
    text
}

/// How long the broker waits for a fetch to fill, in the published settings and ours.
const FETCH_WAIT_MS: f64 = 500.0;

/// What a null test found.
pub(crate) fn null_test(compared: &LibraryReport<'_>) -> Option<String> {
    if !compared.libraries.null_test {
        return None;
    }
    let test = stats::null_test(compared.libraries);
    let told = |coverage: stats::Coverage| match coverage.share() {
        Some(share) => format!(
            "{} of {} intervals ({} %)",
            coverage.containing,
            coverage.intervals,
            format::number(Some(share * 100.0))
        ),
        None => "no interval".to_owned(),
    };
    let mut text = format!(
        "Null test: one library as two drivers, so that no difference is the right answer. 100 % lies in {} of the main \
         figure and in {} of processor time; an interval of 95 % misses one in twenty.",
        told(test.headline),
        told(test.cpu)
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

/// Columns of the table of unequal settings.
pub(crate) fn setting_headings(compared: &LibraryReport<'_>) -> Vec<String> {
    let drivers = compared.libraries.drivers.iter();
    let drivers = drivers.filter(|driver| !driver.settings.is_empty());
    ["Setting", "asked for"]
        .map(str::to_owned)
        .into_iter()
        .chain(drivers.map(|driver| driver.name.clone()))
        .collect()
}

/// A row of it.
pub(crate) fn setting_fields(
    compared: &LibraryReport<'_>,
    setting: &UnequalSetting<'_>,
) -> Vec<String> {
    let none = || format::NONE.to_owned();
    let mut fields = vec![
        setting.name.to_owned(),
        setting
            .asked
            .map_or_else(|| "its default".to_owned(), str::to_owned),
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
                .unwrap_or_else(|| "not told".to_owned()),
        });
    }
    fields
}

/// Repetitions that do not count or are marked: cell, library, repetition, what is wrong. At most `limit`, and how many
/// more there are.
pub(crate) fn doubtful(compared: &LibraryReport<'_>, limit: usize) -> (Vec<[String; 4]>, usize) {
    let samples = compared.libraries.samples.iter();
    let doubtful = samples.filter(|sample| !sample.invalid.is_empty() || !sample.marks.is_empty());
    let mut rows: Vec<[String; 4]> = doubtful
        .map(|sample| {
            let mut why: Vec<String> = Vec::new();
            if !sample.invalid.is_empty() {
                why.push(format!("invalid: {}", sample.invalid.join("; ")));
            }
            why.extend(sample.marks.iter().cloned());
            [
                sample.cell.clone(),
                sample.driver.clone(),
                (u64::from(sample.repetition) + 1).to_string(),
                why.join("; "),
            ]
        })
        .collect();
    let more = rows.len().saturating_sub(limit);
    rows.truncate(limit);
    (rows, more)
}

/// Cells with noisy repetitions: the main ratio with them and without.
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
            let told = |ratio: Option<stats::PairRatio>| {
                ratio.map_or_else(|| format::NONE.to_owned(), |it| ratio_text(&it))
            };
            rows.push(vec![
                view.cell.name.clone(),
                other.driver.name.clone(),
                format!("{} of {}", pairs.count - left, pairs.count),
                told(Some(pairs)),
                told(quiet),
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
