//! Tests of reports that compare client libraries.

mod common;

use std::fs;
use std::path::Path;

use common::libraries::{aa_test, fair, legacy};
use common::page::Page;
use common::{NASTY, sample};
use weir_report::{RunData, render_html, render_markdown, render_table, write_all};
use weir_stats::run::Run;

fn page(run: Run) -> String {
    render_html(&RunData::without_logs(run))
}

/// Returns the text of the page by section id.
fn sections(page: &str) -> Vec<(String, String)> {
    let page = Page::new(page);
    let document = page.document();
    document
        .descendants()
        .filter(|node| node.has_tag_name("section"))
        .map(|node| {
            let texts = node.descendants().filter_map(|it| it.text());
            (
                node.attribute("id").unwrap_or_default().to_owned(),
                texts.collect::<Vec<_>>().join(" "),
            )
        })
        .collect()
}

#[test]
fn page_has_all_sections_without_chart_library() {
    let page = page(fair());
    assert!(!page.contains("uPlot 1."), "nothing is drawn by scripts");
    assert!(page.len() < 600_000, "{} bytes", page.len());
    let sections = sections(&page);
    let ids: Vec<&str> = sections.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "summary",
            "verdict",
            "libraries",
            "produce",
            "consume",
            "copy",
            "roundtrip",
            "resources",
            "unequal",
            "data-quality",
            "configuration"
        ]
    );
    let text = |id: &str| &sections.iter().find(|(it, _)| it == id).unwrap().1;
    for part in [
        "relative CPU time",
        "Produce, warm",
        "java",
        "librdkafka",
        "1.00×",
    ] {
        assert!(text("summary").contains(part), "{part}");
    }
    for part in [
        "Comparison with java",
        "no difference shown",
        "Profile fair",
        "java",
        "franz-go",
        "abandoned",
        "warm-up reached no steady state",
        "JNI",
    ] {
        assert!(text("libraries").contains(part), "{part}");
    }
    for part in [
        "Average ratio, % (ratio of SD): first send to last delivery report",
        "Median ratio of repetitions, % (below 100 java is better)",
        "java / librdkafka",
        "java / franz-go",
        "CPU time per record",
        "no difference shown",
        "3 pairs, no interval",
        "through .NET",
        "1172.54 (534.18)",
    ] {
        assert!(text("produce").contains(part), "{part}");
    }
    assert!(
        !text("produce").contains("java / kafkajs"),
        "it has no samples"
    );
    assert!(text("consume").contains("first record to last"));
    for part in [
        "Copy, direct assignment",
        "first record read to last delivery report",
        "Bytes on the wire per record, median",
        "1,020",
    ] {
        assert!(text("copy").contains(part), "{part}");
    }
    assert!(text("roundtrip").contains("Schedule lag, roundtrip.open/100@1000"));
    for part in ["max_in_flight", "batch_records", "no such setting"] {
        assert!(text("unequal").contains(part), "{part}");
    }
    assert!(!text("unequal").contains("linger_ms"), "equal everywhere");
    assert!(text("data-quality").contains("invalid: 3 of 1000 records failed"));
    assert!(
        text("data-quality").contains("1 of 7"),
        "noisy pairs are counted"
    );
    // One box per library, burst size and value size; a cell with an invalid sample keeps its
    // others.
    assert_eq!(
        page.matches("class=\"box-plot a1\"").count(),
        5 * 20 + 2 + 2 + 6
    );
}

#[test]
fn legacy_profile_is_explained_with_own_values() {
    let page = page(legacy());
    assert!(!page.contains("no steady state"), "no warm-up ran");
    let sections = sections(&page);
    let text = &sections.iter().find(|(id, _)| id == "libraries").unwrap().1;
    let expected = "librdkafka waits a fixed 100 ms";
    assert!(text.contains(expected), "{text}");
    let ratio = text.split("measured: ").nth(1).unwrap();
    let ratio: f64 = ratio.split(' ').next().unwrap().parse().unwrap();
    assert!((83.0..87.0).contains(&ratio), "{ratio}");
    let consume = &sections.iter().find(|(id, _)| id == "consume").unwrap().1;
    assert!(
        consume.contains("85.56 (432.38)"),
        "the published table is shown"
    );
    assert!(consume.contains("consume.group/100000x10000"));
    assert!(render_markdown(&legacy()).contains(expected));
    // The published figures are in the table of this run's, also on a terminal.
    let shown = render_table(&legacy(), 100, false);
    for title in [
        "java / librdkafka, this run",
        "published 2023, KNet / Confluent.Kafka",
        "published 2026-08, KNet / Confluent.Kafka: KafkaConsumer, records counted, not read",
    ] {
        for text in [consume.as_str(), &shown, &render_markdown(&legacy())] {
            assert!(text.contains(title), "{title}: {text}");
        }
    }
    assert!(!render_table(&fair(), 100, false).contains("published"));
}

#[test]
fn aa_test_shows_interval_coverage() {
    let page = page(aa_test());
    let sections = sections(&page);
    let text = &sections.iter().find(|(id, _)| id == "libraries").unwrap().1;
    assert!(
        text.contains("A/A test: one library as two drivers"),
        "{text}"
    );
    assert!(text.contains("of 5 intervals"), "{text}");
}

#[test]
fn markdown_has_published_and_own_tables() {
    let text = render_markdown(&fair());
    for part in [
        "| Cells in which | librdkafka | franz-go |",
        "### Produce, warm",
        "| Libraries | records \\\\ bytes | 10 | 100 | 1,000 | 10,000 | 100,000 |",
        "### Memory and threads",
        "### Unequal settings",
        "### Invalid and noisy repetitions",
    ] {
        assert!(text.contains(part), "{part}");
    }
    assert!(text.contains("| java / librdkafka | 10 | "), "{text}");
    assert!(text.contains("**"), "better values are bold");
    assert!(!text.contains("latency.svg") && !text.contains("## Delivery check"));
    for line in text.lines().filter(|line| line.starts_with("| java /")) {
        assert!(line.matches(" | ").count() >= 3, "{line}");
    }
}

#[test]
fn terminal_has_one_line_per_cell() {
    let run = fair();
    let table = render_table(&run, 120, false);
    assert!(
        table.contains("Produce, warm: first send to last delivery report"),
        "{table}"
    );
    let lines = table.lines().filter(|line| line.contains("100 x 1000 "));
    assert_eq!(lines.count(), 5, "{table}");
    assert!(table.contains("abandoned: kafkajs: no npm"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 200));
    assert!(!table.contains('\u{1b}') && render_table(&run, 120, true).contains("\u{1b}[1m"));
    let narrow = render_table(&run, 60, false);
    let figures = |line: &&str| line.starts_with("  1000 x ");
    assert!(
        narrow
            .lines()
            .filter(figures)
            .all(|line| line.chars().count() <= 60),
        "{narrow}"
    );
}

#[test]
fn directory_has_own_and_published_csv_files() {
    let dir = tempfile::tempdir().unwrap();
    let read = |name: &str| fs::read_to_string(dir.path().join(name)).unwrap();
    fs::write(dir.path().join("run.json"), legacy().to_json()).unwrap();
    assert_eq!(
        names(dir.path()),
        [
            "libraries.csv",
            "produce-consume.legacy.group.java-librdkafka.csv",
            "roundtrip.java-librdkafka.csv",
            "report.md",
            "report.html"
        ]
    );
    let both = read("produce-consume.legacy.group.java-librdkafka.csv");
    let mut lines = both.lines();
    assert_eq!(
        lines.next(),
        Some("NumPackets;Length;javaProd;javaCons;librdkafkaProd;librdkafkaCons")
    );
    assert_eq!(lines.clone().count(), 20 * 20);
    for line in lines {
        let fields: Vec<&str> = line.split(';').collect();
        assert_eq!(fields.len(), 6, "{line}");
        let is_skipped = line.starts_with("10000;100000;");
        let filled = fields
            .iter()
            .filter(|field| field.parse::<u64>().is_ok())
            .count();
        assert_eq!(filled, if is_skipped { 4 } else { 6 }, "{line}");
    }
    let roundtrip = read("roundtrip.java-librdkafka.csv");
    let mut lines = roundtrip.lines();
    assert_eq!(
        lines.next(),
        Some(
            "NumPackets;Length;javaMax;javaMin;javaMean;librdkafkaMax;librdkafkaMin;librdkafkaMean"
        )
    );
    assert_eq!(lines.clone().count(), 5 * 20);
    assert!(lines.all(|line| line.ends_with(';') && line.split(';').count() == 9));
    let ours = read("libraries.csv");
    let columns = ours.lines().next().unwrap().split(',').count();
    assert!(
        ours.lines().all(|line| line.split(',').count() == columns),
        "no field contains a comma"
    );
    assert!(ours.contains(
        "\nconsume.group/100x100,consume,group,100,100,,librdkafka,librdkafka,4.1.0,rdkafka 0.39,\
    legacy_us,20,0,0,"
    ));
}

#[test]
fn each_further_library_adds_files() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("run.json"), fair().to_json()).unwrap();
    let names = names(dir.path());
    for name in [
        "produce-consume.cold.group.java-librdkafka.csv",
        "produce-consume.warm.group.java-franz-go.csv",
        "roundtrip.java-franz-go.csv",
    ] {
        assert!(names.iter().any(|it| it == name), "{names:?}");
    }
    assert_eq!(names.len(), 1 + 2 * (3 + 1) + 2);
}

#[test]
fn hostile_texts_are_escaped() {
    let mut run = fair();
    let libraries = run.libraries.as_mut().unwrap();
    libraries.drivers[0].name = "../=java;\"x".into();
    for sample in libraries
        .samples
        .iter_mut()
        .filter(|it| it.driver == "java")
    {
        sample.driver = "../=java;\"x".into();
    }
    libraries.drivers[1].library = NASTY.into();
    libraries.cells[0].name = NASTY.into();
    for sample in libraries
        .samples
        .iter_mut()
        .filter(|it| it.cell == "produce.cold/10x10")
    {
        sample.cell = NASTY.into();
    }
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("run.json"), run.to_json()).unwrap();
    for name in names(dir.path()) {
        assert!(!name.contains(['/', '=', ';', '"']), "{name}");
        let text = fs::read_to_string(dir.path().join(&name)).unwrap();
        if !name.ends_with("libraries.csv") {
            assert!(
                !text.contains("<script>alert") && !text.contains('\u{1b}'),
                "{name}"
            );
        }
        if name.starts_with("produce-consume") {
            assert!(text.starts_with("NumPackets;Length;..javax"), "{text}");
        }
    }
    sections(&page(run.clone()));
    assert!(!render_table(&run, 120, false).contains('\u{1b}'));
}

#[test]
fn cells_and_libraries_share_a_run() {
    let mut run = sample().run;
    run.libraries = legacy().libraries;
    let page = page(run);
    assert!(page.contains("id=\"consume\"") && page.contains("id=\"results\""));
    assert!(page.contains("<script"));
}

#[test]
fn report_without_samples_is_complete() {
    let mut run = fair();
    run.libraries.as_mut().unwrap().samples.clear();
    sections(&page(run.clone()));
    render_table(&run, 80, false);
    render_markdown(&run);
    run.libraries.as_mut().unwrap().cells.clear();
    run.libraries.as_mut().unwrap().drivers.clear();
    sections(&page(run.clone()));
    render_table(&run, 80, false);
}

/// Writes run directories below the build directory, for manual inspection.
#[test]
fn write_samples_for_inspection() {
    let parent = Path::new(env!("CARGO_TARGET_TMPDIR"));
    for (name, run) in [("libraries-legacy", legacy()), ("libraries-fair", fair())] {
        let dir = parent.join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("run.json"), run.to_json()).unwrap();
        assert!(write_all(&dir).unwrap().len() >= 5);
    }
}

fn names(dir: &Path) -> Vec<String> {
    let paths = write_all(dir).unwrap();
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    paths.iter().map(name).collect()
}
