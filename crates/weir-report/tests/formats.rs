//! Tests of every format with one sample run.

mod common;

use std::fs;
use std::path::Path;

use common::sample;
use weir_lab::derived_file::assert_derived;
use weir_report::{RunData, render_html, render_markdown, render_table, write_all};
use weir_stats::run::{Cell, Comparison, MetricComparison, Run, SubjectComparison};

fn in_dir(check: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    sample().write(dir.path());
    check(dir.path());
}

fn assert_expected(name: &str, output: &str) {
    assert_derived(&format!("crates/weir-report/tests/expected/{name}"), output);
}

#[test]
fn terminal_table() {
    assert_expected("table_140.txt", &render_table(&sample().run, 140, false));
    assert_expected("table_80.txt", &render_table(&sample().run, 80, false));
}

#[test]
fn narrow_table_stays_within_width() {
    let table = render_table(&sample().run, 60, false);
    let figures = |line: &&str| line.contains("p50 ms") || line.starts_with("gateway");
    assert_eq!(table.lines().filter(figures).count(), 6);
    for line in table.lines().filter(figures) {
        assert!(line.chars().count() <= 60, "{line}");
    }
}

#[test]
fn only_report_colours_are_ansi_sequences() {
    let run = sample().run;
    assert!(!render_table(&run, 140, false).contains('\u{1b}'));
    let coloured = render_table(&run, 140, true);
    assert!(coloured.contains("\u{1b}[31m1 OF 2 THRESHOLDS FAILED\u{1b}[0m"));
    assert!(!coloured.contains("\u{1b}[31m http"));
}

#[test]
fn markdown() {
    assert_expected("report_md.txt", &render_markdown(&sample().run));
}

#[test]
fn csv_has_one_row_per_cell_and_per_second() {
    in_dir(|dir| {
        write_all(dir).unwrap();
        let cells = fs::read_to_string(dir.join("cells.csv")).unwrap();
        let heading = cells.lines().next().unwrap().to_owned();
        assert_expected("cells_csv_heading.txt", &heading.replace(',', "\n"));
        assert_eq!(cells.matches("\ngateway,10000,").count(), 2);
        let series = fs::read_to_string(dir.join("series.csv")).unwrap();
        assert_eq!(series.matches("\ngateway,10000,1,").count(), 12);
        for line in series.lines() {
            assert_eq!(
                line.split(',').count(),
                series.lines().next().unwrap().split(',').count()
            );
        }
    });
}

/// Asserts that each text is present, in this order.
fn in_order(text: &str, parts: &[&str]) {
    let mut from = 0;
    for part in parts {
        let found = text[from..].find(part);
        from += found.unwrap_or_else(|| panic!("{part} is missing or out of order in {text}"));
    }
}

#[test]
fn grid_comes_first() {
    let mut run = sample().run;
    for cell in &mut run.cells {
        let rate = if cell.repetition == 1 { 500.0 } else { 2_000.0 };
        cell.parameters.insert("rate_per_s".into(), rate);
    }
    for row in run.reference.iter_mut().flat_map(|it| &mut it.rows) {
        row.parameters.insert("rate_per_s".into(), 500.0);
        row.figures.insert("produced_per_s".into(), 480.0);
    }
    let text = render_markdown(&run);
    assert!(
        text.contains("| at | served by | produced/s | here |"),
        "{text}"
    );
    assert!(text.contains("| 480 | "), "{text}");
    in_order(
        &text,
        &[
            "gateway: clients by rate",
            "| 1,000 | ✓ ",
            "(curve.svg)",
            "## Results",
        ],
    );
    assert!(text.contains("✗ ") && !text.contains("(cpu.svg)"), "{text}");
    let page = render_html(&RunData::without_logs(run));
    in_order(&page, &["<h3>By clients and rate ", "<h3>Test setup "]);
}

#[test]
fn sweep_has_table_and_charts() {
    let run = sweep();
    let text = render_markdown(&run);
    in_order(
        &text,
        &[
            "(producer-records-per-second.svg)",
            "## Results",
            "| measured by | size B |",
            "| producer | 100 | 1,000 | 990 |",
        ],
    );
    assert!(text.contains("| kafka producer | 100 |"), "{text}");
    assert!(
        !text.contains("× floor"),
        "the table of a sweep has no ratio to the floor"
    );
    let page = render_html(&RunData::without_logs(run.clone()));
    in_order(
        &page,
        &["measured by", "kafka producer", "Dotted: Apache Kafka"],
    );
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("run.json"), run.to_json()).unwrap();
    let paths = write_all(dir.path()).unwrap();
    assert!(
        paths
            .iter()
            .any(|path| path.ends_with("producer-records-per-second.svg")),
        "{paths:?}"
    );
}

fn sweep() -> Run {
    let mut run = sample().run;
    run.cells.clear();
    for architecture in ["producer", "kafka_producer"] {
        for target in [1_000.0, 5_000.0] {
            let mut cell = Cell {
                architecture: architecture.into(),
                repetition: 1,
                ..Cell::default()
            };
            let parameters = [("record_size_bytes", 100.0), ("target_per_s", target)];
            cell.parameters
                .extend(parameters.map(|(name, value)| (name.into(), value)));
            cell.figures.insert("records_per_s".into(), target * 0.99);
            run.cells.push(cell);
        }
    }
    run
}

#[test]
fn single_repetitions_give_one_line() {
    let metric = |values: &[f64]| MetricComparison {
        metric: "response_p99_ms".into(),
        is_headline: true,
        base_values: values.into(),
        other_values: values.into(),
        ..MetricComparison::default()
    };
    let mut comparison = Comparison {
        subjects: vec![SubjectComparison {
            metrics: vec![metric(&[1.0])],
            ..SubjectComparison::default()
        }],
        ..Comparison::default()
    };
    comparison.base.label = "1-thread".into();
    comparison.other.label = "4-threads".into();
    let text = weir_report::render_comparison(&comparison, false, false);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.contains("--repetitions 5 or more"), "{text}");
    assert!(weir_report::render_comparison(&comparison, true, false).contains("inconclusive"));
    let mut run = sample().run;
    run.comparisons = vec![comparison.clone()];
    let markdown = render_markdown(&run);
    in_order(
        &markdown,
        &[
            "## 4-threads compared with 1-thread",
            "one repetition each",
            "## Results",
        ],
    );
    assert!(!markdown.contains("response\\_p99\\_ms"));
    comparison.subjects[0].metrics = vec![metric(&[1.0, 2.0])];
    run.comparisons = vec![comparison];
    assert!(render_markdown(&run).contains("response\\_p99\\_ms"));
}

/// The same answer is the first line of every format.
#[test]
fn all_formats_begin_with_the_answer() {
    let mut data = None;
    in_dir(|dir| data = RunData::read(dir).ok());
    let data = data.unwrap();
    let answer = weir_stats::answer::answer(&data.run);
    assert!(answer.contains("4,000 clients"), "{answer}");
    let markdown = render_markdown(&data.run);
    assert_eq!(markdown.lines().next(), Some(&*format!("# {answer}")));
    let terminal = render_table(&data.run, 400, false);
    assert_eq!(terminal.lines().next(), Some(answer.as_str()));
    let page = render_html(&data).replace('\u{a0}', " ");
    let heading = page
        .split("<h1>")
        .nth(1)
        .and_then(|it| it.split("</h1>").next());
    assert_eq!(heading, Some(answer.as_str()));
    // The cores of the sentence are those of the first table.
    let cores = answer
        .split("with ")
        .nth(1)
        .and_then(|it| it.split(' ').next());
    let summary = page.split("id=\"summary\"").nth(1).unwrap();
    let summary = summary.split("</section>").next().unwrap();
    assert!(summary.contains(cores.unwrap()), "{cores:?}");
}
