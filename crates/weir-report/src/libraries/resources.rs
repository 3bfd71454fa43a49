//! Memory and threads of the driver processes.

use weir_stats::libraries::SampleStatistics;
use weir_stats::run::LibrarySample;

use super::LibraryReport;
use crate::format;

/// Column headings of [`resources`].
pub(crate) const RESOURCE_HEADINGS: [&str; 6] = [
    "Library",
    "resident, MB: median",
    "most",
    "managed heap, MB: median",
    "threads: median",
    "most",
];

/// Returns one row for each driver with samples.
pub(crate) fn resources(compared: &LibraryReport<'_>) -> Vec<Vec<String>> {
    let rows = compared.libraries.drivers.iter().filter_map(|driver| {
        let of = |pick: &dyn Fn(&LibrarySample) -> Option<u64>| {
            let samples = compared.libraries.samples.iter();
            let own = samples.filter(|sample| sample.driver == driver.name);
            let values: Vec<f64> = own.filter_map(pick).map(|value| value as f64).collect();
            SampleStatistics::of(&values)
        };
        let (rss, heap, threads) = (
            of(&|sample| sample.peak_rss_kb),
            of(&|sample| sample.heap_kb),
            of(&|sample| sample.threads),
        );
        let megabytes = |kb: Option<f64>| format::number(kb.map(|kb| kb * 1024.0 / 1e6));
        (rss.is_some() || threads.is_some()).then(|| {
            vec![
                driver.name.clone(),
                megabytes(rss.map(|it| it.median)),
                megabytes(rss.map(|it| it.max)),
                megabytes(heap.map(|it| it.median)),
                format::figure(threads.map(|it| it.median)),
                format::figure(threads.map(|it| it.max)),
            ]
        })
    });
    rows.collect()
}
