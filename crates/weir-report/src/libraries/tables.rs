//! Tables shared by all formats.

use weir_stats::libraries::{PairRatio, SampleStatistics, count_verdicts, unequal_settings};
use weir_stats::run::{LibraryDriver, LibrarySample};

use super::LibraryReport;
use crate::format;
use crate::table::{Field, ReportTable};

pub(crate) fn drivers(compared: &LibraryReport<'_>) -> ReportTable {
    let headings = "driver|library|version|binding|runtime|warm-up rounds|";
    let mut table = ReportTable::headed(5, headings).text_from(6);
    for it in &compared.libraries.drivers {
        let state = match (&it.failed, it.is_warm_up_complete()) {
            (Some(why), _) if it.is_not_run() => format!("not run here: {why}").into(),
            (Some(why), _) => Field::with("bad", format!("abandoned: {why}")),
            (None, false) => Field::with("warn", "warm-up reached no steady state"),
            (None, true) => Field::default(),
        };
        let name = Field {
            swatch: Some(compared.slot(&it.name)),
            ..Field::from(&it.name)
        };
        let texts = [&it.library, &it.library_version, &it.binding, &it.runtime];
        let fields = [name].into_iter().chain(texts.map(Field::from));
        table.row(
            "",
            fields.chain([it.warm_up_rounds.to_string().into(), state]),
        );
    }
    table
}

/// Returns, for each operation, the number of cells in which each library is faster or slower than
/// the first.
pub(crate) fn at_a_glance(compared: &LibraryReport<'_>) -> ReportTable {
    let others = compared.others.iter().map(|driver| driver.name.as_str());
    let headings: Vec<&str> = ["Cells in which"].into_iter().chain(others).collect();
    let mut table = ReportTable::new(headings.len(), headings);
    for group in &compared.groups {
        let words = ["faster", "slower", "no difference shown", "no interval"];
        let verdicts = compared.others.iter().map(|driver| {
            let parts = count_verdicts(&group.cells, &driver.name).parts(words);
            let parts = parts.iter().map(|(count, word)| format!("{count} {word}"));
            match parts.collect::<Vec<_>>().join(", ") {
                text if text.is_empty() => format::NONE.to_owned(),
                text => text,
            }
        });
        let title = format!("{}: {}", group.title(), group.headline().title);
        table.row("", [title].into_iter().chain(verdicts));
    }
    table
}

/// Returns memory and threads of each driver process with samples.
pub(crate) fn resources(compared: &LibraryReport<'_>) -> ReportTable {
    let headings =
        "Library|resident, MB: median|most|managed heap, MB: median|threads: median|most";
    let mut table = ReportTable::headed(1, headings);
    for driver in &compared.libraries.drivers {
        let of = |pick: fn(&LibrarySample) -> Option<u64>| {
            let samples = compared.libraries.samples.iter();
            let own = samples.filter(|sample| sample.driver == driver.name);
            let values: Vec<f64> = own.filter_map(pick).map(|value| value as f64).collect();
            let found = SampleStatistics::of(&values);
            (found.map(|it| it.median), found.map(|it| it.max))
        };
        let (rss, heap, threads) = (
            of(|it| it.peak_rss_kb),
            of(|it| it.heap_kb),
            of(|it| it.threads),
        );
        let megabytes = |kb: Option<f64>| format::number(kb.map(|kb| kb * 1024.0 / 1e6));
        if rss.0.is_some() || threads.0.is_some() {
            let memory = [rss.0, rss.1, heap.0].map(megabytes);
            let threads = [threads.0, threads.1].map(format::figure);
            let start = [driver.name.clone()].into_iter();
            table.row("", start.chain(memory).chain(threads));
        }
    }
    table
}

/// Returns the settings that differ between drivers.
pub(crate) fn settings(compared: &LibraryReport<'_>) -> ReportTable {
    let drivers = compared.libraries.drivers.iter();
    let drivers: Vec<&LibraryDriver> = drivers.filter(|it| !it.settings.is_empty()).collect();
    let names = drivers.iter().map(|driver| driver.name.as_str());
    let headings: Vec<&str> = ["Setting", "requested"].into_iter().chain(names).collect();
    let mut table = ReportTable::new(headings.len(), headings);
    for setting in unequal_settings(compared.libraries) {
        let values = drivers.iter().map(|driver| {
            let mut own = setting.drivers.iter();
            let own = own.find(|(name, _)| *name == driver.name);
            match own.map(|(_, it)| (it.supported, it.effective.as_deref())) {
                None => format::NONE.to_owned(),
                Some((false, Some(effective))) => format!("no such setting; {effective}"),
                Some((false, None)) => "no such setting".to_owned(),
                Some((true, effective)) => effective.unwrap_or("not reported").to_owned(),
            }
        });
        let requested = setting.requested.unwrap_or("default");
        let start = [setting.name, requested].map(str::to_owned);
        table.row("", start.into_iter().chain(values));
    }
    table
}

/// Returns up to `limit` invalid or marked repetitions and the number of further ones.
pub(crate) fn questionable_repetitions(
    compared: &LibraryReport<'_>,
    limit: usize,
) -> (ReportTable, usize) {
    let mut table = ReportTable::headed(2, "Cell|library|repetition|reason").text_from(3);
    let samples = compared.libraries.samples.iter();
    let found = samples.filter(|it| !it.invalid.is_empty() || !it.marks.is_empty());
    for sample in found.clone().take(limit) {
        let invalid = format!("invalid: {}", sample.invalid.join("; "));
        let invalid = (!sample.invalid.is_empty()).then_some(invalid);
        let reasons: Vec<String> = invalid.into_iter().chain(sample.marks.clone()).collect();
        let repetition = (u64::from(sample.repetition) + 1).to_string();
        let reasons = reasons.join("; ");
        table.row("", [&sample.cell, &sample.driver, &repetition, &reasons]);
    }
    (table, found.count().saturating_sub(limit))
}

/// Returns cells with noisy repetitions: the main ratio with and without them.
pub(crate) fn without_noisy(compared: &LibraryReport<'_>) -> ReportTable {
    let mut table = ReportTable::headed(2, "Cell|library|noisy pairs|with them, %|without, %");
    for view in compared.groups.iter().flat_map(|group| &group.cells) {
        for other in view.others() {
            let name = &other.driver.name;
            let Some(found) = view.compare(view.headline(), name) else {
                continue;
            };
            let count = |ratio: Option<PairRatio>| ratio.map_or(0, |it| it.count);
            let (all, left) = (count(found.pairs), count(found.pairs_without_noisy));
            if left < all {
                let pairs = format!("{} of {all}", all - left);
                let ratios = [found.pairs, found.pairs_without_noisy].map(ratio_text);
                let [with, without] = &ratios;
                table.row("", [&view.cell.name, name, &pairs, with, without]);
            }
        }
    }
    table
}

fn ratio_text(ratio: Option<PairRatio>) -> String {
    let number = |value: f64| format::number(Some(value));
    match ratio.map(|it| (number(it.percent), it.bounds)) {
        None => format::NONE.to_owned(),
        Some((percent, None)) => percent,
        Some((percent, Some((low, high)))) => {
            format!("{percent} [{}, {}]", number(low), number(high))
        }
    }
}
