//! Comparisons of libraries with synthetic samples.

use super::*;
use crate::run::{LibraryDriver, LibrarySetting};
use crate::steady_state::tests::Noise;

pub(crate) fn driver(name: &str) -> LibraryDriver {
    LibraryDriver {
        name: name.to_owned(),
        library: name.to_owned(),
        library_version: "1".to_owned(),
        warm_up_rounds: 4,
        warm_up_settled: true,
        ..LibraryDriver::default()
    }
}

fn cell(operation: &str, mode: &str, value_bytes: u64, records: u64) -> LibraryCell {
    LibraryCell {
        name: format!("{operation}.{mode}/{value_bytes}x{records}"),
        operation: operation.to_owned(),
        mode: mode.to_owned(),
        value_bytes,
        records,
        rate_per_s: None,
        repetitions: 20,
        skipped: None,
    }
}

fn libraries(profile: &str, drivers: &[&str], cells: Vec<LibraryCell>) -> Libraries {
    Libraries {
        profile: profile.to_owned(),
        drivers: drivers.iter().map(|name| driver(name)).collect(),
        cells,
        samples: Vec::new(),
        distributions_file: None,
        aa_test: false,
    }
}

fn sample(cell: &LibraryCell, driver: &str, repetition: u32, us: f64) -> LibrarySample {
    LibrarySample {
        cell: cell.name.clone(),
        driver: driver.to_owned(),
        repetition,
        delivered_us: (cell.operation == "produce").then_some(us),
        legacy_us: (cell.operation == "consume").then_some(us),
        drain_us: (cell.operation == "consume").then_some(us / 2.0),
        cpu_us: us / 4.0,
        records: cell.records,
        ..LibrarySample::default()
    }
}

#[test]
fn ratios_refer_to_first_measured_library() {
    let at = cell("produce", "warm", 100, 10);
    let mut all = libraries("fair", &["gone", "java", "other"], vec![at.clone()]);
    for repetition in 0..8 {
        let drift = 1.0 + f64::from(repetition);
        all.samples
            .push(sample(&at, "java", repetition, 80.0 * drift));
        all.samples
            .push(sample(&at, "other", repetition, 100.0 * drift));
    }
    let view = &cells(&all)[0];
    assert_eq!(view.reference().unwrap().driver.name, "java");
    let others: Vec<_> = view.others().map(|it| it.driver.name.as_str()).collect();
    assert_eq!(others, ["gone", "other"]);
    let compared = view.compare(view.headline(), "other").unwrap();
    let pairs = compared.pairs.unwrap();
    assert!(
        (pairs.percent - 80.0).abs() < 1e-9,
        "drift cancels out: {pairs:?}"
    );
    assert_eq!(
        (pairs.count, pairs.verdict()),
        (8, RatioVerdict::FirstBetter)
    );
    assert!((compared.ratio.sd.unwrap() - 80.0).abs() < 1e-9);
    assert_eq!(view.compare(view.headline(), "gone"), None);
    all.drivers[0].failed = Some("no compiler".to_owned());
    assert_eq!(
        verdict(&all),
        "Compared with java: other slower in 1 of 1 cell. Requested, but took no part: gone."
    );
    assert!(!is_complete(&all));
    let mut without = all.clone();
    without.drivers[0].optional = true;
    assert!(!is_complete(&without), "it started");
    without.drivers[0].library.clear();
    assert!(is_complete(&without));
    assert_eq!(
        verdict(&without),
        "Compared with java: other slower in 1 of 1 cell. Not run here: gone."
    );
    without.drivers.pop();
    assert!(!is_complete(&without), "nothing to compare with");
    all.samples.retain(|sample| sample.repetition < 3);
    assert!(verdict(&all).contains("other not decided (too few repetitions) in 1 of 1 cell"));
    all.samples.clear();
    let nothing = "Nothing was measured except gone. Requested, but took no part: gone, ";
    assert!(verdict(&all).starts_with(nothing), "{}", verdict(&all));
}

#[test]
fn invalid_samples_are_excluded_and_noisy_optional() {
    let at = cell("produce", "warm", 100, 10);
    let mut all = libraries("fair", &["a", "b"], vec![at.clone()]);
    for repetition in 0..10 {
        let mut first = sample(&at, "a", repetition, 100.0);
        let mut other = sample(&at, "b", repetition, 100.0);
        if repetition < 3 {
            first.noisy = true;
            first.delivered_us = Some(900.0);
        }
        if repetition == 9 {
            other.invalid = vec!["2 of 10 records failed".to_owned()];
            other.delivered_us = Some(1.0);
        }
        all.samples.extend([first, other]);
    }
    let view = &cells(&all)[0];
    let (first, other) = (&view.drivers[0], &view.drivers[1]);
    assert_eq!(
        (first.noisy, first.invalid, first.samples.len()),
        (3, 0, 10)
    );
    assert_eq!((other.noisy, other.invalid, other.samples.len()), (0, 1, 9));
    let compared = view.compare(view.headline(), "b").unwrap();
    assert_eq!(compared.other.min, 100.0);
    assert_eq!(compared.pairs.unwrap().count, 9);
    assert_eq!(compared.pairs_without_noisy.unwrap().count, 6);
    assert_eq!(
        compared.pairs_without_noisy.unwrap().bounds,
        Some((100.0, 100.0))
    );
}

/// 80 cells of one library with itself, as in an A/A test.
#[test]
fn aa_test_shows_no_difference_in_90_percent() {
    let mut all = libraries("fair", &["one", "one-again"], Vec::new());
    let mut noise = Noise::new(7);
    for index in 0..80 {
        let at = cell("produce", "warm", 10, 10 + index);
        for repetition in 0..10 {
            for driver in ["one", "one-again"] {
                let us = 1000.0 * (0.4 * noise.normal()).exp();
                all.samples.push(sample(&at, driver, repetition, us));
            }
        }
        all.cells.push(at);
    }
    let test = aa_test(&all);
    assert_eq!((test.headline.intervals(), test.cpu.intervals()), (80, 80));
    assert!(test.headline.share().unwrap() >= 0.9, "{test:?}");
    all.aa_test = true;
    let containing = test.headline.no_difference;
    let expected = format!("{containing} of 80 intervals contain 100 %");
    assert!(verdict(&all).contains(&expected), "{}", verdict(&all));
    let outside = test.headline.intervals() - test.headline.no_difference;
    assert_eq!(test.outside.len(), outside);
    // A library that is twice as slow is detected in most of them.
    for sample in all.samples.iter_mut().filter(|it| it.driver == "one") {
        sample.delivered_us = sample.delivered_us.map(|us| us * 2.0);
    }
    let share = aa_test(&all).headline.share().unwrap();
    assert!(share < 0.5, "{share}");
    assert_eq!(VerdictCounts::default().share(), None);
}

#[test]
fn legacy_ratio_follows_from_wait_and_start() {
    let sizes = [(10, 10), (10, 100), (100, 100), (1000, 100), (10_000, 100)];
    let cells: Vec<_> = sizes
        .map(|(bytes, records)| cell("consume", "group", bytes, records))
        .into();
    let mut all = libraries("legacy", &["java", "librdkafka"], cells.clone());
    for at in &cells {
        let wait_us = match at.value_bytes * at.records {
            bytes if bytes < 100_000 => 500_000.0,
            _ => 0.0,
        };
        for repetition in 0..6 {
            let java = sample(at, "java", repetition, wait_us + 8_000.0);
            let other = sample(at, "librdkafka", repetition, wait_us + 104_000.0);
            all.samples.extend([java, other]);
        }
    }
    let shape = legacy_fetch_wait(&all, "librdkafka").unwrap();
    let (below, above) = (shape.below, shape.above.unwrap());
    assert_eq!((below.cells, above.cells), (3, 2));
    assert_eq!(below.first_us - above.first_us, 500_000.0);
    assert_eq!(below.other_us - above.other_us, 500_000.0);
    let percent = below.percent.unwrap();
    assert!((percent - 84.1).abs() < 0.05, "{shape:?}");
    assert!((above.expected_percent(500_000.0) - percent).abs() < 1e-9);
    all.profile = "fair".to_owned();
    assert_eq!(legacy_fetch_wait(&all, "librdkafka"), None);
}

#[test]
fn unequal_and_missing_settings_are_listed() {
    let setting =
        |name: &str, requested: Option<&str>, effective: Option<&str>, supported| LibrarySetting {
            name: name.to_owned(),
            requested: requested.map(str::to_owned),
            effective: effective.map(str::to_owned),
            supported,
        };
    let mut all = libraries("fair", &["a", "b", "failed"], Vec::new());
    all.drivers[0].settings = vec![
        setting("linger_ms", Some("5"), Some("5"), true),
        setting("retries", Some("0"), Some("0"), true),
        setting("check_crcs", Some("true"), Some("true"), true),
        setting("queue_bytes", None, Some("100"), true),
    ];
    all.drivers[1].settings = vec![
        setting("linger_ms", Some("5"), Some("5.0"), true),
        setting("retries", Some("0"), Some("1"), true),
        setting("check_crcs", Some("true"), None, false),
        setting("queue_bytes", None, Some("200"), true),
    ];
    let unequal = unequal_settings(&all);
    let names: Vec<&str> = unequal.iter().map(|it| it.name).collect();
    assert_eq!(names, ["retries", "check_crcs", "queue_bytes"]);
    assert_eq!(unequal[0].requested, Some("0"));
    assert_eq!(unequal[0].drivers.len(), 2, "the failed driver has none");
    assert_eq!(unequal[2].requested, None);
}
