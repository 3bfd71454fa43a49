//! Every format over one sample run.

mod common;

use std::fs;
use std::path::Path;

use common::sample;
use weir_report::{render_markdown, render_table, write_all};

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
