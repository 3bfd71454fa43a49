use super::*;
use proptest::prelude::*;

/// Checks that samples of (milliseconds, number) give the published text. The samples were chosen
/// to reproduce every value and every row of a published example.
fn check(samples: &[(u64, u64)], elapsed_s: u64, published: &str) {
    let mut statistics = PublishedStatistics::new();
    for &(ms, count) in samples {
        (0..count).for_each(|_| statistics.record_ms(ms));
    }
    let report = statistics.report(Duration::from_secs(elapsed_s));
    assert_eq!(report, format!("\n\n\n{}", published.trim()));
}

#[test]
fn first_test_series_example_is_reproduced() {
    let mut samples = vec![
        (4, 300),
        (5, 390),
        (6, 431),
        (7, 590),
        (8, 590),
        (9, 560),
        (10, 561),
        (11, 480),
        (12, 464),
        (13, 330),
        (14, 319),
        (15, 220),
        (16, 193),
        (17, 200),
        (18, 95),
        (19, 60),
        (20, 60),
        (21, 55),
        (22, 50),
        (23, 50),
        (24, 40),
        (33, 15),
        (36, 85),
        (60, 20),
        (700, 4),
        (1000, 3),
        (1400, 2),
        (1750, 3),
        (2000, 2),
        (2643, 3),
    ];
    samples.extend((25..33).map(|ms| (ms, 20)));
    check(
        &samples,
        24 * 60,
        "
Test Duration: 0 Hours 24 minutes and 0 seconds
Number of samples: 6335
Min = 4 ms
Mean = 15 ms - Standard Deviation = 86 ms
Max = 2643 ms
25th Percentile = 7 ms
50th Percentile = 10 ms
75th Percentile = 14 ms
90th Percentile = 18 ms
95th Percentile = 24 ms
98th Percentile = 33 ms
Min
0004 - 0334 ********************|
0334 - 0664~
0664 - 0994 |
0994 - 1324 |
1324 - 1654 |
1654 - 1984 |
1984 - 2314 |
2314 - 2644 |
Max

ZOOM
Min
0004 - 0006 *******************|
0006 - 0008 ********************|
0008 - 0010 *******************|
0010 - 0012 ****************|
0012 - 0014 ***********|
0014 - 0016 *******|
0016 - 0018 *****|
0018 - 0020~
90th percentile
"
        .replace('~', " ")
        .as_str(),
    );
}

#[test]
fn first_filtering_example_is_reproduced() {
    let samples = [
        (2, 60),
        (3, 62),
        (4, 103),
        (5, 133),
        (6, 51),
        (7, 20),
        (8, 5),
        (9, 4),
        (10, 5),
        (14, 3),
        (18, 2),
        (33, 1),
        (73, 1),
    ];
    check(
        &samples,
        7 * 60 + 29,
        "
Test Duration: 0 Hours 7 minutes and 29 seconds
Number of samples: 450
Min = 2 ms
Mean = 4 ms - Standard Deviation = 4 ms
Max = 73 ms
25th Percentile = 3 ms
50th Percentile = 4 ms
75th Percentile = 5 ms
90th Percentile = 6 ms
95th Percentile = 7 ms
98th Percentile = 10 ms
Min
0002 - 0011 ********************|
0011 - 0020 |
0020 - 0029~
0029 - 0038 |
0038 - 0047~
0047 - 0056~
0056 - 0065~
0065 - 0074 |
Max

ZOOM
Min
0002 - 0003 ******************|
0003 - 0004 ***************|
0004 - 0005 ********************|
0005 - 0006 ********|
0006 - 0007~
90th percentile
"
        .replace('~', " ")
        .as_str(),
    );
}

#[test]
fn second_filtering_example_is_reproduced() {
    let samples = [
        (3, 9),
        (4, 14),
        (5, 26),
        (6, 14),
        (7, 20),
        (8, 14),
        (9, 4),
        (10, 1),
        (11, 1),
        (12, 2),
        (15, 1),
        (24, 1),
        (32, 1),
        (110, 1),
        (128, 1),
    ];
    check(
        &samples,
        3 * 60 + 11,
        "
Test Duration: 0 Hours 3 minutes and 11 seconds
Number of samples: 110
Min = 3 ms
Mean = 8 ms - Standard Deviation = 16 ms
Max = 128 ms
25th Percentile = 5 ms
50th Percentile = 6 ms
75th Percentile = 7 ms
90th Percentile = 9 ms
95th Percentile = 12 ms
98th Percentile = 32 ms
Min
0003 - 0019 ********************|
0019 - 0035 |
0035 - 0051~
0051 - 0067~
0067 - 0083~
0083 - 0099~
0099 - 0115 |
0115 - 0131 |
Max

ZOOM
Min
0003 - 0004 ******************|
0004 - 0005 ********************|
0005 - 0006 ***********|
0006 - 0007 ***************|
0007 - 0008 ***********|
0008 - 0009 ***|
0009 - 0010~
90th percentile
"
        .replace('~', " ")
        .as_str(),
    );
}

fn of(samples: &[u64]) -> PublishedStatistics {
    let mut statistics = PublishedStatistics::new();
    samples.iter().for_each(|ms| statistics.record_ms(*ms));
    statistics
}

#[test]
fn empty_and_zero_latencies_have_own_texts() {
    let report = |samples| of(samples).report(Duration::from_secs(60));
    assert_eq!(report(&[]), "No updates received so far, nothing to report");
    assert_eq!(
        report(&[0, 0, 0]),
        "all the 3 received updates have a <1ms delay"
    );
}

#[test]
fn single_value_gives_a_single_row() {
    let report = of(&[7]).report(Duration::from_secs(2 * 3600 + 61));
    let expected = "\n\n\nTest Duration: 2 Hours 1 minutes and 1 seconds\n\
        Number of samples: 1\nMin = 7 ms\nMean = 7 ms - Standard Deviation = 0 ms\nMax = 7 ms\n\
        25th Percentile = 7 ms\n50th Percentile = 7 ms\n75th Percentile = 7 ms\n\
        90th Percentile = 7 ms\n95th Percentile = 7 ms\n98th Percentile = 7 ms\n\
        Min\n0007 - 0008 *|\nMax\n\nZOOM\nMin\n0007 - 0008 *|\n90th percentile";
    assert_eq!(report, expected);
}

#[test]
fn largest_value_has_a_row_with_more_digits() {
    let report = of(&[0, 239_999]).report(Duration::ZERO);
    assert!(report.contains("\n0000 - 30000 *|\n"), "{report}");
    assert!(report.contains("\n210000 - 240000 *|\nMax"), "{report}");
}

#[test]
fn values_out_of_range_are_counted_separately() {
    let mut statistics = of(&[5, 240_000, u64::MAX]);
    statistics.record(2_000_000, 1_999_999);
    // Two times in the same millisecond give no negative latency.
    statistics.record(2_000_001, 2_000_000);
    assert_eq!((statistics.below, statistics.above), (1, 2));
    let figures = PublishedFigures::of(&statistics.filled()).expect("two samples");
    assert_eq!((figures.samples, figures.min_ms, figures.max_ms), (2, 0, 5));
    let report = statistics.report(Duration::ZERO);
    let excluded = "Not included: 1 updates below 0 ms, 2 of 240000 ms and more";
    assert!(
        report.ends_with(&format!("90th percentile\n\n{excluded}")),
        "{report}"
    );
}

#[test]
fn times_are_truncated_before_subtraction() {
    let mut statistics = PublishedStatistics::new();
    statistics.record(1_999_999, 5_000_000);
    statistics.record(1_000_000, 5_999_999);
    let figures = PublishedFigures::of(&statistics.filled()).expect("samples");
    assert_eq!((figures.min_ms, figures.max_ms), (4, 4));
}

#[test]
fn unit_is_smallest_count_after_last_gap() {
    // 8 rows of 1 ms; counts by row, asterisks by row.
    let cases = [
        ([40, 30, 20, 10, 10, 10, 10, 10], [4, 3, 2, 1, 1, 1, 1, 1]),
        // The empty row resets the 5.
        ([40, 5, 0, 10, 20, 20, 20, 20], [4, 1, 0, 1, 2, 2, 2, 2]),
        // 100 / 4 exceeds 20 asterisks.
        ([100, 4, 4, 4, 4, 4, 4, 4], [20, 1, 1, 1, 1, 1, 1, 1]),
        // An empty last row resets the unit to 0: 20 asterisks for the largest count.
        ([60, 30, 3, 3, 3, 3, 3, 0], [20, 10, 1, 1, 1, 1, 1, 0]),
        // At least one sample per asterisk.
        ([5, 1, 1, 1, 1, 1, 1, 0], [5, 1, 1, 1, 1, 1, 1, 0]),
    ];
    for (counts, stars) in cases {
        let samples: Vec<_> = (1..).zip(counts).collect();
        let mut text = String::new();
        write_graph(&mut text, &samples, 0, 8, "Max").expect("a string");
        let rows = text.lines().skip(1).take(8);
        let found: Vec<_> = rows.map(|row| row.matches('*').count()).collect();
        assert_eq!(found, stars, "{counts:?}\n{text}");
    }
}

proptest! {
    #[test]
    fn rows_are_even_and_cover_all_samples(
        samples in prop::collection::vec(
            prop_oneof![0..40_u64, 0..3000_u64, 0..20_000_u64], 1..300,
        ),
    ) {
        let statistics = of(&samples);
        let figures = PublishedFigures::of(&statistics.filled()).expect("samples");
        let (low, top) = (figures.min_ms, figures.max_ms);
        let step = ((top - low) as f64 / 8.0).ceil().max(1.0) as u64;
        let mut text = String::new();
        write_graph(&mut text, &statistics.filled(), low, top, "Max").expect("a string");
        let rows: Vec<_> = text.lines().filter(|line| line.contains(" - ")).collect();
        prop_assert!(!rows.is_empty() && rows.len() <= 8);
        for (index, row) in rows.iter().enumerate() {
            let from = low + index as u64 * step;
            let to = from + step;
            let edges = format!("{from:04} - {to:04} ");
            prop_assert!(row.starts_with(&edges), "{} does not start with {}", row, edges);
            let inside = |ms: &&u64| (**ms > from || index == 0) && **ms <= to;
            let filled = samples.iter().any(|ms| inside(&ms));
            prop_assert_eq!(row.ends_with('|'), filled, "{}", row);
            prop_assert!(row.matches('*').count() <= 20, "{}", row);
        }
    }

    #[test]
    fn figures_agree_with_sorted_samples(
        samples in prop::collection::vec(0..2000_u64, 1..500),
    ) {
        let figures = PublishedFigures::of(&of(&samples).filled()).expect("samples");
        let mut sorted = samples.clone();
        sorted.sort_unstable();
        let n = sorted.len();
        prop_assert_eq!(figures.mean_ms, sorted.iter().sum::<u64>() / n as u64);
        for (percentile, ms) in PERCENTILES.into_iter().zip(figures.percentiles_ms) {
            let rank = (n as f64 / 100.0 * f64::from(percentile)).ceil() as usize;
            prop_assert_eq!(ms, sorted[rank - 1], "percentile {}", percentile);
        }
        prop_assert_eq!((figures.min_ms, figures.max_ms), (sorted[0], sorted[n - 1]));
    }
}

/// Returns the report that is due.
fn text_at(reporter: &mut PublishedReporter, now: Instant, at_end: bool) -> Option<String> {
    match reporter.event_at(now, at_end)? {
        WorkerEvent::Report { text } => Some(text),
        other => panic!("{other:?}"),
    }
}

#[test]
fn report_is_sent_per_interval_and_at_end() {
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let mut reporter = PublishedReporter::start_at(start, Duration::from_secs(60));
    reporter.record(0, 5_000_000);
    assert_eq!(text_at(&mut reporter, after(59), false), None);
    let report = text_at(&mut reporter, after(61), false).expect("due");
    assert!(
        report.contains("0 Hours 1 minutes and 1 seconds\n"),
        "{report}"
    );
    assert_eq!(text_at(&mut reporter, after(120), false), None);
    reporter.record(0, 7_000_000);
    let report = text_at(&mut reporter, after(120), true).expect("the end");
    assert!(report.contains("Number of samples: 2\n"), "{report}");
}

#[test]
fn samples_of_shares_add_up_to_the_report_of_all() {
    let start = Instant::now();
    let end = start + Duration::from_secs(60);
    let mut whole = PublishedReporter::start_at(start, Duration::from_secs(60));
    let mut sum = PublishedReporter::start_at(start, Duration::from_secs(60));
    let mut shares = [(); 3].map(|()| PublishedReporter::start_share());
    for (record, share) in (0_u64..3000).zip((0..3).cycle()) {
        // Some are due later than they arrive, some arrive after more than 240 s.
        let (due_ns, at_ns) = (50 * NS_PER_MS, record * record % 300_000 * NS_PER_MS);
        whole.record(due_ns, at_ns);
        shares[share].record(due_ns, at_ns);
        if record % 700 == 0 {
            add(&mut sum, &mut shares[share], end);
        }
    }
    for share in &mut shares {
        add(&mut sum, share, end);
        // Nothing is sent twice.
        add(&mut sum, share, end);
    }
    let expected = text_at(&mut whole, end, true);
    assert!(
        expected.as_ref().is_some_and(|text| {
            text.contains("Not included: 8 updates below 0 ms")
                && text.contains(" of 240000 ms and more")
        }),
        "{expected:?}"
    );
    assert_eq!(text_at(&mut sum, end, true), expected);
}

fn add(sum: &mut PublishedReporter, share: &mut PublishedReporter, now: Instant) {
    match share.event_at(now, true) {
        Some(WorkerEvent::ReportSamples(samples)) => sum.add(&samples),
        other => panic!("{other:?}"),
    }
}

#[test]
fn impossible_samples_do_not_overflow() {
    let mut statistics = PublishedStatistics::new();
    let samples = ReportSamples {
        latencies_ms: (0..240_002).map(|ms| (ms, u64::MAX)).collect(),
        below: u64::MAX,
        above: u64::MAX,
    };
    statistics.add(&samples);
    statistics.add(&samples);
    let report = statistics.report(Duration::ZERO);
    assert!(report.contains("Mean = 119999 ms"), "{report}");
}
