//! Every format over one sample run.

mod common;

use std::fs;
use std::path::Path;

use common::{NASTY, sample};
use weir_report::{RunData, render_html, render_markdown, render_table, write_all};

fn in_dir(check: impl FnOnce(&Path)) {
    let dir = tempfile::tempdir().unwrap();
    sample().write(dir.path());
    check(dir.path());
}

#[test]
fn terminal_table() {
    insta::assert_snapshot!("table_140", render_table(&sample().run, 140, false));
    insta::assert_snapshot!("table_80", render_table(&sample().run, 80, false));
}

#[test]
fn a_narrow_table_stays_within_its_width() {
    let table = render_table(&sample().run, 60, false);
    let figures = |line: &&str| line.contains("p50 ms") || line.starts_with("gateway");
    assert_eq!(table.lines().filter(figures).count(), 6);
    for line in table.lines().filter(figures) {
        assert!(line.chars().count() <= 60, "{line}");
    }
}

#[test]
fn colour_is_ours_alone() {
    let run = sample().run;
    assert!(!render_table(&run, 140, false).contains('\u{1b}'));
    let coloured = render_table(&run, 140, true);
    assert!(coloured.contains("\u{1b}[31mFAILED\u{1b}[0m"));
    assert!(!coloured.contains("\u{1b}[31m http"));
}

#[test]
fn markdown() {
    insta::assert_snapshot!("report_md", render_markdown(&sample().run));
}

#[test]
fn csv_has_one_row_per_cell_and_per_second() {
    in_dir(|dir| {
        write_all(dir).unwrap();
        let cells = fs::read_to_string(dir.join("cells.csv")).unwrap();
        let heading = cells.lines().next().unwrap().to_owned();
        insta::assert_snapshot!("cells_csv_heading", heading.replace(',', "\n"));
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

#[test]
fn html_is_well_formed_and_shows_every_cell() {
    in_dir(|dir| {
        let data = RunData::read(dir).unwrap();
        let page = render_html(&data);
        let document = parse(&page);
        let text: String = document
            .descendants()
            .filter_map(|node| node.text())
            .collect();
        for cell in &data.run.cells {
            let shown = match cell.latency.is_empty() {
                true => cell.architecture.clone(),
                false => cell.id(),
            };
            assert!(text.contains(&shown), "{shown} is missing");
        }
        for id in [
            "measured",
            "results",
            "charts",
            "percentiles",
            "time",
            "fairness",
            "losses",
            "parts",
            "reference",
            "configuration",
            "raw",
        ] {
            assert!(
                document
                    .descendants()
                    .any(|node| node.attribute("id") == Some(id)),
                "{id}"
            );
        }
        assert!(page.len() < 400_000, "{} bytes", page.len());
    });
}

#[test]
fn html_without_logs_or_cells_is_well_formed() {
    let mut run = sample().run;
    parse(&render_html(&RunData::without_logs(run.clone())));
    run.cells.clear();
    run.placement.clear();
    parse(&render_html(&RunData::without_logs(run.clone())));
    render_table(&run, 80, false);
    render_markdown(&run);
}

#[test]
fn html_loads_nothing_and_runs_nothing() {
    in_dir(|dir| {
        let page = render_html(&RunData::read(dir).unwrap());
        let document = parse(&page);
        for node in document.descendants().filter(roxmltree::Node::is_element) {
            let name = node.tag_name().name();
            let active = [
                "script", "link", "img", "iframe", "object", "embed", "base", "image",
            ];
            assert!(!active.contains(&name), "{name}");
            for attribute in node.attributes() {
                let (name, value) = (attribute.name(), attribute.value());
                assert!(!name.starts_with("on"), "{name}");
                assert!(
                    !["src", "href", "style", "action"].contains(&name),
                    "{name}={value}"
                );
            }
        }
        assert!(!page.contains("url(") && !page.contains("@import"));
        assert!(page.contains("default-src &#39;none&#39;"));
    });
}

#[test]
fn hostile_text_appears_only_escaped() {
    in_dir(|dir| {
        for path in write_all(dir).unwrap() {
            let text = fs::read_to_string(&path).unwrap();
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            assert!(!text.contains('\u{1b}') || name.ends_with(".csv"), "{name}");
            if !name.ends_with(".csv") {
                assert!(!text.contains("<script"), "{name}");
                assert!(!text.contains(NASTY), "{name}");
            }
        }
    });
}

fn parse(page: &str) -> roxmltree::Document<'_> {
    let options = roxmltree::ParsingOptions {
        allow_dtd: true,
        ..Default::default()
    };
    roxmltree::Document::parse_with_options(page, options).unwrap()
}
